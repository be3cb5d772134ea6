"""When is the next chunk written?

One heap of absolute deadlines (CLOCK_MONOTONIC nanoseconds) and one timerfd in absolute time, because an
event loop's own timers are rounded to 1 ms. Nothing runs before its deadline. At most `MAX_DUE` entries a
wake-up, so that reads are not starved. Left out: what an entry does.
"""

from __future__ import annotations

import asyncio
import heapq
import os
import time
from collections.abc import Callable

MAX_DUE = 64

type Due = Callable[[], int | None]


class Pacer:
    """Runs callbacks at absolute times; a callback returns its next deadline, or None when it is done.

    `after_turn()` is called after each wake-up.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, after_turn: Callable[[], None]) -> None:
        self._after_turn = after_turn
        self._heap: list[tuple[int, int, Due]] = []
        self._order = 0
        self._armed_ns = 0
        self._closed = False
        self._timer = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
        self._loop = loop
        loop.add_reader(self._timer, self._wake)

    def close(self) -> None:
        """Forget all deadlines, now and from now on, and release the timer; idempotent."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._timer)
        os.close(self._timer)
        self._heap.clear()

    def at(self, deadline_ns: int, due: Due) -> None:
        """Run `due` at `deadline_ns`; at once, in this call, if that has passed."""
        if self._closed:
            return
        next_ns: int | None = deadline_ns
        if deadline_ns <= time.monotonic_ns():
            next_ns = due()
        if next_ns is not None:
            self._push(next_ns, due)
            self._arm()

    def _push(self, deadline_ns: int, due: Due) -> None:
        self._order += 1
        heapq.heappush(self._heap, (deadline_ns, self._order, due))

    def _wake(self) -> None:
        self._armed_ns = -1  # it has fired: setting it again, or off, also takes that back, so nothing is read from it
        try:
            heap, now = self._heap, time.monotonic_ns()
            for _ in range(MAX_DUE):
                if not heap or (heap[0][0] > now and heap[0][0] > (now := time.monotonic_ns())):
                    break
                due = heapq.heappop(heap)[2]
                next_ns = due()
                if next_ns is not None:
                    self._push(next_ns, due)
        finally:  # one entry that raises must not stop the others
            self._arm()
            self._after_turn()

    def _arm(self) -> None:
        # 0 disarms it; a deadline in the past fires at once.
        due = max(1, self._heap[0][0]) if self._heap else 0
        if due != self._armed_ns and not self._closed:
            self._armed_ns = due
            os.timerfd_settime_ns(self._timer, flags=os.TFD_TIMER_ABSTIME, initial=due)
