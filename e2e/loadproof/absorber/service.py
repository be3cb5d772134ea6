"""One absorber from bind to journal: in a process of its own, or in the foreground for a person.

The port is bound before anything slow or lasting is done, so that a taken port costs nothing and leaves
nothing. At the end the prompts still being counted are waited for, and the journal is written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.listener import Listener
from loadproof.absorber.precedence import LOOP, scheduling, take_precedence
from loadproof.absorber.profile import Profile
from loadproof.absorber.server import Server, clock_offset_ns
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.journal import FILE_NAME, Metadata, host_identity, write_journal
from loadproof.live import LiveCounters
from loadproof.tokenizer import TokenCounter, tokenizer_dir
from loadproof.words import pieces

DEFAULT_MODEL = "google/gemma-3-270m"
PUBLISH_INTERVAL_S = 0.2
VERIFIED_TOKENS = 2048


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What an absorber is started with; `lifeline` is a descriptor whose end of file ends it."""

    profile: Profile
    journal: Path
    host: str = "127.0.0.1"
    port: int = 0
    model: str = DEFAULT_MODEL
    lifeline: int | None = None


class Announced(msgspec.Struct, frozen=True, kw_only=True):
    """Where an absorber listens."""

    url: str
    host: str
    port: int
    model: str
    pid: int


async def serve(options: Options, announce: Callable[[Announced], None]) -> Path:
    """Serve until SIGTERM, SIGINT, SIGHUP or the end of the lifeline; return the journal's path.

    Raises UsageProblem when the port cannot be bound or the journal's folder cannot be used, and BrokenRun
    when our own code failed on the way (the journal is written all the same) or the journal cannot be written.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stopping.set)
    listener = _bound(loop, options)
    if (options.journal / FILE_NAME).exists():
        raise UsageProblem(f"{options.journal}: already holds a journal, which is never overwritten; name another "
                           "folder")  # fmt: skip
    counter = await asyncio.to_thread(_ready_counter)
    live = _live_in(options.journal)
    try:
        server = Server(options.profile, options.model, CountingThread(loop, counter), live)
        await _serve_until(stopping, server, listener, options, announce)
        return _written(options, server)
    finally:
        live.close()


async def _serve_until(
    stopping: asyncio.Event, server: Server, listener: Listener, options: Options, announce: Callable[[Announced], None]
) -> None:
    loop = asyncio.get_running_loop()
    defects = _stop_at_defect(loop, stopping)
    _allow_descriptors()
    server.metrics_text()  # whatever is slow only the first time
    _quiet_memory()
    take_precedence(LOOP)
    listener.start(server.accept)
    shown = f"[{options.host}]" if ":" in options.host else options.host
    announce(Announced(url=f"http://{shown}:{listener.port}", host=options.host, port=listener.port,
                       model=options.model, pid=os.getpid()))  # fmt: skip
    if options.lifeline is not None:
        loop.add_reader(options.lifeline, stopping.set)
    publisher = asyncio.create_task(_publish(server.live))
    await stopping.wait()
    if options.lifeline is not None:
        loop.remove_reader(options.lifeline)  # its end stays readable
    publisher.cancel()
    listener.close()
    server.stop()
    await server.counting.drain()
    if defects:
        _written(options, server)
        raise BrokenRun(f"the absorber failed in its own code and stopped; its journal is kept: {defects[0]}")


def _stop_at_defect(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> list[str]:
    """Stop at the first exception that reaches the loop: an instrument that is half broken must not go on."""
    defects: list[str] = []

    def failed(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        loop.default_exception_handler(context)
        defects.append(repr(context.get("exception") or context.get("message")))
        stopping.set()

    loop.set_exception_handler(failed)
    return defects


def _allow_descriptors() -> None:
    """Take as many descriptors as the system lets us have: each connection is one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _quiet_memory() -> None:
    """Collect once and never again: what a request needs has no cycles, and a collection holds the loop for ms."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _written(options: Options, server: Server) -> Path:
    host, boot_id = host_identity()
    metadata = Metadata(host=host, boot_id=boot_id, model=options.model, profile=options.profile.model_dump(),
                        clock_offset_ns=(server.clock_offset_ns, clock_offset_ns()),
                        scheduling=scheduling())  # fmt: skip
    try:
        return write_journal(options.journal, server.records, metadata)
    except OSError as error:
        raise BrokenRun(f"{options.journal}: the journal cannot be written: {error.strerror or error}") from error


def _bound(loop: asyncio.AbstractEventLoop, options: Options) -> Listener:
    try:
        return Listener(loop, options.host, options.port)
    except (OSError, UnicodeError) as error:  # the second is what a malformed host name raises
        reason = getattr(error, "strerror", None) or error
        raise UsageProblem(f"cannot listen on {options.host} port {options.port}: {reason}; choose "
                           "another --port (0 takes any free one) or --host") from error  # fmt: skip


def _live_in(journal: Path) -> LiveCounters:
    try:
        journal.mkdir(parents=True, exist_ok=True)
        return LiveCounters(journal)
    except OSError as error:
        raise UsageProblem(f"{journal}: the journal cannot be written there: {error.strerror}; name another "
                           "folder") from error  # fmt: skip


def _ready_counter() -> TokenCounter:
    """Load the tokenizer, and check that our reply texts are exactly as many tokens as we will claim."""
    counter = TokenCounter(tokenizer_dir())
    for count in (1, 2, 16, 128, VERIFIED_TOKENS):
        if counter.bare(["".join(pieces(count))]) != [count]:
            raise RuntimeError(f"a reply text of {count} tokens counts otherwise: is this the right tokenizer?")
    if set(counter.bare(pieces(VERIFIED_TOKENS))) != {1}:
        raise RuntimeError("a piece of a reply text is not one token: is this the right tokenizer?")
    return counter


async def _publish(live: LiveCounters) -> None:
    while True:
        live.publish()
        await asyncio.sleep(PUBLISH_INTERVAL_S)
