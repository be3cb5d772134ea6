"""One absorber from bind to journal: in a process of its own, or in the foreground for a person.

The port is bound before anything slow or lasting is done, so that a taken port costs nothing and leaves
nothing. It serves itself, or deals its connections to workers; at the end the journal is sealed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from loadproof.absorber.listener import Listener
from loadproof.absorber.poller import Poller
from loadproof.absorber.readiness import allow_descriptors
from loadproof.absorber.recording import Options, record
from loadproof.absorber.workers import Inbox, check_workers, working
from loadproof.errors import BrokenRun, LoadproofError, UsageProblem
from loadproof.record import FILE_NAME
from loadproof.sealing import seal

STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """Where an absorber listens."""

    url: str
    host: str
    port: int
    model: str
    pid: int


async def serve(options: Options, announce: Callable[[Announced], None]) -> Path:
    """Serve until SIGTERM, SIGINT, SIGHUP or the end of the lifeline; return the journal's path.

    Raises UsageProblem when the port cannot be bound, the journal's folder cannot be used or the options do not go
    together, and BrokenRun when our own code failed on the way or the journal cannot be written.
    """
    check_workers(options.workers, options.profile, recording=options.recording)
    loop = asyncio.get_running_loop()
    stopping = _stop_on_signals(loop)
    listener = _bound(loop, options)
    if (options.journal / FILE_NAME).exists():
        raise UsageProblem(f"{options.journal}: already holds a journal, which is never overwritten; name another "
                           "folder")  # fmt: skip

    def opened() -> None:
        shown = f"[{options.host}]" if ":" in options.host else options.host
        announce(Announced(url=f"http://{shown}:{listener.port}", host=options.host, port=listener.port,
                           model=options.model, pid=os.getpid()))  # fmt: skip
        if options.lifeline is not None:
            loop.add_reader(options.lifeline, _gone, loop, options.lifeline, stopping)

    serving = _deal if options.workers > 1 else record
    try:
        await serving(options, stopping, listener, opened)
    except BrokenRun:
        _sealed_if_there_is_room(options)
        raise
    return _sealed(options)


def _stop_on_signals(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    stopping = asyncio.Event()
    for number in STOPPING:
        loop.add_signal_handler(number, stopping.set)
    return stopping


def _gone(loop: asyncio.AbstractEventLoop, lifeline: int, stopping: asyncio.Event) -> None:
    loop.remove_reader(lifeline)  # its end stays readable
    stopping.set()


async def serve_as_worker(options: Options, worker: int, inbox: int) -> None:
    """Serve the connections that come through the descriptor `inbox` until its end of file.

    A signal is no order to a worker, it kills: were its streams closed in order, nobody would see what is missing.
    Raises as `record` does.
    """
    for number in STOPPING:
        signal.signal(number, signal.SIG_DFL)
    stopping = asyncio.Event()
    await record(options, stopping, Inbox(inbox, stopping.set), lambda: None, worker=worker)


async def _deal(options: Options, stopping: asyncio.Event, listener: Listener, opened: Callable[[], None]) -> None:
    """Accept, and let workers serve and record. Raises BrokenRun if one of them fails or is lost."""
    allow_descriptors()
    options.journal.mkdir(parents=True, exist_ok=True)
    arguments = ["--journal", str(options.journal), "--profile-json", options.profile.model_dump_json(), "--model",
                 options.model, "--level", options.level, "--workers", str(options.workers)]  # fmt: skip
    async with working(arguments, options.workers, options.journal) as dealer:
        poller = Poller(asyncio.get_running_loop(), lambda: None)
        listener.start(poller, dealer.deal)
        opened()
        asked, lost = asyncio.create_task(stopping.wait()), asyncio.create_task(dealer.one_has_ended())
        await asyncio.wait((asked, lost), return_when=asyncio.FIRST_COMPLETED)
        was_asked = stopping.is_set()
        for task in (asked, lost):
            task.cancel()
        listener.close()
        poller.close()
        await dealer.stop()
        if not was_asked:
            raise BrokenRun("a worker ended although nobody had asked for it; the journal is kept")


def _sealed(options: Options) -> Path:
    try:
        return seal(options.journal)
    except OSError as error:
        raise BrokenRun(f"{options.journal}: the journal cannot be sealed: {error.strerror or error}; make room and "
                        "let `loadproof judge` do it") from error  # fmt: skip


def _sealed_if_there_is_room(options: Options) -> None:
    with suppress(OSError, LoadproofError):  # the streams stay, and what was wrong before is told
        seal(options.journal)


def _bound(loop: asyncio.AbstractEventLoop, options: Options) -> Listener:
    try:
        return Listener(loop, options.host, options.port)
    except (OSError, UnicodeError) as error:  # the second is what a malformed host name raises
        reason = getattr(error, "strerror", None) or error
        raise UsageProblem(f"cannot listen on {options.host} port {options.port}: {reason}; choose "
                           "another --port (0 takes any free one) or --host") from error  # fmt: skip
