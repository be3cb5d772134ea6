"""In which order are the stages of a run offered?

One after another. A stage with a rate ends by its schedule, whatever is in flight then; one with a concurrency at the
end of its last answer; the next begins `gap_s` after that end. At last every answer is waited for. SIGTERM and SIGINT
end the run early; what is in flight then is abandoned, what was not launched never existed.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadproof.metronome.client import Sender
from loadproof.metronome.closed_loop import ClosedLoop
from loadproof.metronome.exchange import Exchange
from loadproof.metronome.open_loop import OpenLoop
from loadproof.metronome.run import Run

_LEAD_NS = 5_000_000  # from the end of the preparations to the first stage's start


@dataclass(frozen=True, kw_only=True)
class Drive:
    """What to send where. `requests`: whole HTTP requests, in order, at least as many as the stages send.

    `stages`: each with the seconds without a send that follow it. `before`: a request before the load, answered before
    the load begins.
    """

    host: str
    port: int
    requests: Iterator[bytes]
    stages: Sequence[tuple[OpenLoop | ClosedLoop, float]]
    streamed: bool
    timeout_s: float
    reuse: bool = True
    before: bytes | None = None


async def drive(plan: Drive) -> list[Exchange]:
    """Send everything and return the exchanges that were launched, in order, each of them ended.

    Raises `BrokenRun` if the server cannot be reached at the start, and `UsageProblem` if there are not requests
    enough; later failures are in the exchanges.
    """
    async with Sender(plan.host, plan.port, timeout_s=plan.timeout_s, reuse=plan.reuse) as sender:
        await sender.open(max(stage.ready_connections() for stage, _ in plan.stages))
        run = Run(sender, plan.requests, streamed=plan.streamed)
        with _stopped_by_signals(run), _no_collections():
            if plan.before is not None:
                await _send_one(sender, plan.before, run, streamed=plan.streamed)
            start_ns = time.monotonic_ns() + _LEAD_NS
            for stage, gap_s in plan.stages:
                start_ns = await stage.offer(run, start_ns) + round(gap_s * 1e9)
            await run.until(lambda: not (run.in_flight or run.waiting))
        run.abandon_the_rest()
    return run.exchanges


async def _send_one(sender: Sender, request: bytes, run: Run, *, streamed: bool) -> None:
    exchange = Exchange(-1, request, streamed=streamed)
    sender.launch(exchange, lambda _: run.noticed())
    await run.until(lambda: exchange.done_ns > 0)


@contextlib.contextmanager
def _stopped_by_signals(run: Run) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, run.stop)
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
