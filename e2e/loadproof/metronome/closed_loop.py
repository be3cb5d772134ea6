"""At which moments does a stage with a concurrency launch its requests?

C slots: all first sends back to back, and each slot sends again at the end of its answer, until the number is reached
or the time is over; then what is in flight is waited for. `Slots` has the ways of being wrong.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from loadproof.metronome.pace import Pace
from loadproof.metronome.run import Run
from loadproof.metronome.stage import HONEST_SLOTS, Slots


@dataclass(frozen=True, kw_only=True)
class ClosedLoop:
    """`concurrency` slots for `count` requests or for `duration_s`, after which nothing new is sent."""

    concurrency: int
    count: int | None = None
    duration_s: float | None = None
    slots: Slots = HONEST_SLOTS

    def ready_connections(self) -> int:
        """How many connections are needed at once."""
        return self.concurrency if self.count is None else min(self.concurrency, self.count)

    async def offer(self, run: Run, start_ns: int) -> int:
        """Begin at `start_ns` (CLOCK_MONOTONIC), send everything, and return the end: of the last answer."""
        offering = _Offering(run, self, start_ns)
        with Pace([start_ns], offering.begin):
            await run.until(lambda: not offering.alive)
        return time.monotonic_ns()


class _Offering:
    """A closed loop that goes on; `alive` slots will send again."""

    def __init__(self, run: Run, asked: ClosedLoop, start_ns: int) -> None:
        self._run, self._asked = run, asked
        self._until_ns = None if asked.duration_s is None else start_ns + round(asked.duration_s * 1e9)
        self._sent = self._held_back = 0
        self._lost = asked.slots.lost
        self.alive = asked.concurrency

    def begin(self, _: int) -> None:
        slots, ramp_s = self._asked.concurrency, self._asked.slots.ramp_s
        for k in range(slots):
            self._after(ramp_s * k / max(1, slots - 1))

    def _after(self, delay_s: float) -> None:
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, self._next)
        else:
            self._next()

    def _next(self) -> None:
        if self._may_send():
            self._sent += 1
            self._run.launch(self._answered)
        else:
            self.alive -= 1
            self._run.noticed()

    def _may_send(self) -> bool:
        if self._lost and self._asked.count is not None and self._sent * 2 >= self._asked.count:
            self._lost -= 1
            return False
        in_time = self._until_ns is None or time.monotonic_ns() < self._until_ns
        return in_time and (self._asked.count is None or self._sent < self._asked.count)

    def _answered(self, _: object) -> None:
        if not self._asked.slots.waves:
            self._after(self._asked.slots.turnaround_s)
            return
        self._held_back += 1
        if self._held_back == self.alive:
            self._held_back = 0
            for _ in range(self.alive):
                self._next()
