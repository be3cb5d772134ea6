"""One absorber from bind to journal: in a process of its own, or in the foreground for a person.

The port is bound before anything slow or lasting is done, so that a taken port costs nothing and leaves
nothing. At the end the prompts still being counted are waited for, and the journal is written.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.profile import Profile
from loadproof.absorber.server import Server
from loadproof.absorber.sockets import Listener
from loadproof.errors import UsageProblem
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
    """Serve until SIGTERM, SIGINT or the end of the lifeline; return the journal's path.

    Raises UsageProblem when the port cannot be bound or the journal's folder cannot be used.
    """
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    listener = _bound(loop, options)
    if (options.journal / FILE_NAME).exists():
        raise UsageProblem(f"{options.journal}: already holds a journal, which is never overwritten; name another "
                           "folder")  # fmt: skip
    counter = await asyncio.to_thread(_ready_counter)
    live = _live_in(options.journal)
    server = Server(options.profile, options.model, CountingThread(loop, counter), live)
    offset = _clock_offset_ns()
    if options.lifeline is not None:
        loop.add_reader(options.lifeline, stopping.set)
    gc.collect()
    gc.freeze()
    listener.start(server.accept)
    shown = f"[{options.host}]" if ":" in options.host else options.host
    announce(Announced(url=f"http://{shown}:{listener.port}", host=options.host, port=listener.port,
                       model=options.model, pid=os.getpid()))  # fmt: skip
    publisher = asyncio.create_task(_publish(live))
    await stopping.wait()
    publisher.cancel()
    listener.close()
    server.pacer.close()
    await server.counting.drain()
    path = write_journal(options.journal, server.records, _metadata(options, offset))
    live.close()
    return path


def _bound(loop: asyncio.AbstractEventLoop, options: Options) -> Listener:
    try:
        return Listener(loop, options.host, options.port)
    except OSError as error:
        raise UsageProblem(f"cannot listen on {options.host} port {options.port}: {error.strerror or error}; choose "
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


def _clock_offset_ns() -> int:
    """Return CLOCK_REALTIME - CLOCK_MONOTONIC in nanoseconds."""
    return time.time_ns() - time.monotonic_ns()


def _metadata(options: Options, offset_at_start: int) -> Metadata:
    host, boot_id = host_identity()
    return Metadata(host=host, boot_id=boot_id, model=options.model, profile=options.profile.model_dump(),
                    clock_offset_ns=(offset_at_start, _clock_offset_ns()))  # fmt: skip


async def _publish(live: LiveCounters) -> None:
    while True:
        live.publish()
        await asyncio.sleep(PUBLISH_INTERVAL_S)
