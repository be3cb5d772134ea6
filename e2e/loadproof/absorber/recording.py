"""One process that serves and records, from its door's opening to the last row of its streams.

The door gives it sockets: a listener, or the inbox of a worker. Left out: sealing, which is for who owns the folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.poller import Poller
from loadproof.absorber.precedence import LOOP, Balance, scheduling, take_precedence
from loadproof.absorber.profile import Profile
from loadproof.absorber.readiness import allow_descriptors, quiet_memory, ready_counter
from loadproof.absorber.server import JournalUnwritable, Server, clock_offset_ns
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.journal import host_identity
from loadproof.live import LiveCounters
from loadproof.record import FILE_NAME, Metadata
from loadproof.streams import JournalWriter

TICK_S = 0.15  # what is there is written at least every 200 ms
DEFAULT_MODEL = "google/gemma-3-270m"


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What an absorber is started with; `lifeline` is a descriptor whose end of file ends it.

    Without `recording` nothing is kept: to measure what that costs.
    """

    profile: Profile
    journal: Path
    host: str = "127.0.0.1"
    port: int = 0
    model: str = DEFAULT_MODEL
    level: Literal["full", "light"] = "full"
    workers: int = 1
    recording: bool = True
    lifeline: int | None = None


class Door(Protocol):
    """Where sockets come from."""

    def start(self, poller: Poller, on_socket: Callable[..., None], /) -> None:
        """Begin to give sockets, and their numbers if they have any."""

    def close(self) -> None:
        """Give no more."""


async def record(
    options: Options, stopping: asyncio.Event, door: Door, opened: Callable[[], None], *, worker: int = 0
) -> None:
    """Serve what comes through the door until `stopping`; all that came is in the streams then.

    Raises UsageProblem when the journal's folder cannot be used, and BrokenRun when our own code failed on the way
    or the journal could not be written to its end.
    """
    loop = asyncio.get_running_loop()
    counter = await asyncio.to_thread(ready_counter)
    take_precedence(LOOP)
    live, writer = _streams(options, worker)
    try:
        server = Server(options.profile, options.model, CountingThread(loop, counter), live, writer,
                        level=options.level, worker=worker, alone=options.workers == 1)  # fmt: skip
        defects = _stop_at_defect(loop, stopping)
        allow_descriptors()
        server.metrics_text()  # whatever is slow only the first time
        quiet_memory()
        door.start(server.poller, server.accept)
        opened()
        await _until(stopping, server)
        door.close()
        server.stop()
        await server.counting.drain()
        server.tick()
    except JournalUnwritable as error:
        raise BrokenRun(_unwritten(options, error)) from error
    finally:
        writer.close()
        live.close()
    for defect in defects:
        if isinstance(defect, JournalUnwritable):
            raise BrokenRun(_unwritten(options, defect)) from defect
        raise BrokenRun(f"the absorber failed in its own code and stopped; its journal is kept: {defect!r}") from defect


def _unwritten(options: Options, why: JournalUnwritable) -> str:
    return (f"{options.journal}: the journal could not be written to its end: {why}; what it has can be judged as "
            "broken")  # fmt: skip


async def _until(stopping: asyncio.Event, server: Server) -> None:
    """Write the rows now and then. Raises JournalUnwritable: an instrument must not go on without."""
    balance = Balance(server.counting.thread)
    while not stopping.is_set():
        balance.review()
        server.tick()
        server.live.publish()
        with suppress(TimeoutError):
            await asyncio.wait_for(stopping.wait(), TICK_S)


def _stop_at_defect(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> list[BaseException]:
    """Stop at the first exception that reaches the loop: an instrument that is half broken must not go on."""
    defects: list[BaseException] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception") or RuntimeError(context.get("message"))
        if not isinstance(error, JournalUnwritable):  # which says all there is to say
            loop.default_exception_handler(context)
        defects.append(error)
        stopping.set()

    loop.set_exception_handler(failed)
    return defects


def _streams(options: Options, worker: int) -> tuple[LiveCounters, JournalWriter]:
    host, boot_id = host_identity()
    offset = clock_offset_ns()
    metadata = Metadata(host=host, boot_id=boot_id, model=options.model, profile=options.profile.model_dump(),
                        clock_offset_ns=(offset, offset), scheduling=scheduling(), level=options.level,
                        workers=options.workers)  # fmt: skip
    try:
        options.journal.mkdir(parents=True, exist_ok=True)
        writer = JournalWriter(options.journal, metadata, worker=worker)
        try:
            live = _alone(options.journal, worker)
        except BaseException:
            writer.discard()
            raise
    except OSError as error:
        raise UsageProblem(f"{options.journal}: the journal cannot be written there: {error.strerror}; name another "
                           "folder") from error  # fmt: skip
    return live, writer if options.recording else NoWriter(writer)


def _alone(folder: Path, worker: int) -> LiveCounters:
    """Make the counters, unless another server sealed its journal here while we started."""
    if (folder / FILE_NAME).exists():
        raise UsageProblem(f"{folder}: already holds a journal, which is never overwritten; name another folder")
    return LiveCounters(folder, worker)


class NoWriter(JournalWriter):
    """Keeps nothing."""

    def __init__(self, writer: JournalWriter) -> None:
        self._writer = writer
        self.at_once = []

    @property
    def full(self) -> bool:
        """Nothing ever waits."""
        self.at_once.clear()
        return False

    def _drop(self, *_: object) -> None:
        """Take in anything."""

    request = chunk = same_time_chunks = end = flush = _drop  # type: ignore[assignment] # the signatures are of no interest here

    def close(self) -> None:
        """Close the streams, which are empty."""
        self._writer.close()
