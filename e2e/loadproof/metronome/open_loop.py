"""At which moments does a stage with a rate launch its requests?

Each at its planned instant, whatever is still in flight; with a cap, one whose time has come waits until fewer are in
flight, first come, first served, and then leaves at once. The plan is absolute: nothing that is late shifts it.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

import numpy as np

from loadproof.metronome.pace import Pace
from loadproof.metronome.run import Run
from loadproof.metronome.stage import Offsets

_READY_AHEAD_S = 0.25  # connections that are open before a rate starts: as many as this time brings
_READY_MOST = 256


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """`offsets_s` from the stage's start, ascending; `length_s` from its start to its end; `cap` in flight."""

    offsets_s: Offsets
    length_s: float
    cap: int | None = None

    @property
    def count(self) -> int:
        """How many requests it sends."""
        return len(self.offsets_s)

    def ready_connections(self) -> int:
        """How many connections are likely needed at once, at least one."""
        span_s = float(self.offsets_s[-1]) if self.count else 0.0
        likely = math.ceil(_READY_AHEAD_S * self.count / span_s) if span_s > 0 else self.count
        return min(max(1, likely), _READY_MOST, max(1, self.count), self.cap or _READY_MOST)

    async def offer(self, run: Run, start_ns: int) -> int:
        """Launch everything, or put it in the cap's queue, and return the stage's end (CLOCK_MONOTONIC).

        It returns after the last one's instant, which may be before the end, and waits for no answer.
        """
        deadlines = (start_ns + np.rint(self.offsets_s * 1e9).astype(np.int64)).tolist()
        waiting: deque[int] = deque()
        left = len(deadlines)

        def serve(_: object = None) -> None:
            while waiting and (self.cap is None or run.in_flight < self.cap):
                run.waiting -= 1
                run.launch(serve, waiting.popleft())

        def due(k: int) -> None:
            nonlocal left
            left -= 1
            waiting.append(deadlines[k])
            run.waiting += 1
            serve()
            run.noticed()

        with Pace(deadlines, due):
            await run.until(lambda: not left)
        return start_ns + round(self.length_s * 1e9)
