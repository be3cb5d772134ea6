"""In which order and at which moments are all requests of a run launched?

Open loop: each at its planned instant, whatever is still in flight. Closed loop: C slots, all first sends
back to back, and each slot sends again at the end of its answer. SIGTERM and SIGINT end the run early; what
is in flight then is abandoned, what was not launched never existed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import math
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadproof.metronome.client import Sender
from loadproof.metronome.exchange import Exchange
from loadproof.metronome.pace import Pace
from loadproof.metronome.schedule import Offsets

_LEAD_NS = 5_000_000  # from the end of the preparations to offset 0
_READY_AHEAD_S = 0.25  # connections that are open before an open loop starts: as many as this time brings
_READY_MOST = 256


@dataclass(frozen=True, kw_only=True)
class Drive:
    """What to send where. `offsets_s` (open loop) or `concurrency` (closed loop) is given.

    `requests`: whole HTTP requests, in order; `offsets_s` has at least as many, in seconds.
    """

    host: str
    port: int
    requests: Sequence[bytes]
    streamed: bool
    timeout_s: float
    offsets_s: Offsets | None = None
    concurrency: int | None = None
    warm_up: bytes | None = None

    def ready_connections(self) -> int:
        """How many connections are opened before the first send: what is likely needed at once, at least one."""
        count = len(self.requests)
        if self.concurrency is not None:
            return min(self.concurrency, count)
        assert self.offsets_s is not None  # noqa: S101  # one of the two is given
        span_s = float(self.offsets_s[-1])
        likely = math.ceil(_READY_AHEAD_S * count / span_s) if span_s > 0 else count
        return min(max(1, likely), _READY_MOST, count)


async def drive(plan: Drive) -> list[Exchange]:
    """Send everything and return the exchanges that were launched, in order, each of them ended.

    Raises `BrokenRun` if the server cannot be reached at the start; later failures are in the exchanges.
    """
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    exchanges = [Exchange(k, request, streamed=plan.streamed) for k, request in enumerate(plan.requests)]
    async with Sender(plan.host, plan.port, timeout_s=plan.timeout_s) as sender:
        await sender.open(plan.ready_connections())
        with _stopped_by_signals(over), _no_collections():
            if plan.warm_up is not None:
                await _send_one(sender, plan.warm_up, streamed=plan.streamed, over=over)
            if plan.offsets_s is not None:
                await _open_loop(sender, exchanges, plan.offsets_s, over)
            else:
                await _closed_loop(sender, exchanges, plan.concurrency or 1, over)
        launched = [exchange for exchange in exchanges if exchange.launched]
        for exchange in launched:
            if not exchange.done_ns:
                exchange.abandoned = True
                exchange.end("abandoned: the run was stopped")
    return launched


async def _send_one(sender: Sender, request: bytes, *, streamed: bool, over: asyncio.Future[None]) -> None:
    answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    sender.launch(Exchange(-1, request, streamed=streamed), lambda _: answered.set_result(None))
    await asyncio.wait((answered, over), return_when=asyncio.FIRST_COMPLETED)


async def _open_loop(
    sender: Sender, exchanges: Sequence[Exchange], offsets_s: Offsets, over: asyncio.Future[None]
) -> None:
    left = len(exchanges)

    def ended(_: Exchange) -> None:
        nonlocal left
        left -= 1
        if not left and not over.done():
            over.set_result(None)

    start_ns = time.monotonic_ns() + _LEAD_NS
    for exchange, offset_s in zip(exchanges, offsets_s, strict=False):  # a dropped last request leaves its offset
        exchange.intended_ns = start_ns + round(float(offset_s) * 1e9)
    with Pace([exchange.intended_ns for exchange in exchanges], lambda k: sender.launch(exchanges[k], ended)):
        await over


async def _closed_loop(sender: Sender, exchanges: Sequence[Exchange], slots: int, over: asyncio.Future[None]) -> None:
    waiting = iter(exchanges)
    left = len(exchanges)

    def ended(_: Exchange) -> None:
        nonlocal left
        left -= 1
        if over.done():
            return
        if (following := next(waiting, None)) is not None:
            sender.launch(following, ended)
        elif not left:
            over.set_result(None)

    if over.done():  # stopped during the warm-up
        return
    for exchange in list(itertools.islice(waiting, slots)):  # a list first: an end may take from `waiting` too
        sender.launch(exchange, ended)
    await over


@contextlib.contextmanager
def _stopped_by_signals(over: asyncio.Future[None]) -> Iterator[None]:
    def stop() -> None:
        if not over.done():
            over.set_result(None)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """A full collection takes 10 to 20 ms, in which nothing would be sent: none during a run."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()
