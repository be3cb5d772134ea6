"""How does a send happen at its planned instant and never before?

One timerfd on CLOCK_MONOTONIC with absolute deadlines, read through the event loop. The loop's own timers
are not used because asyncio's and uvloop's are rounded to 1 ms. Deadlines are absolute, so one late
wake-up does not shift the rest of the plan: what is overdue is sent at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable, Sequence


class Pace:
    """Calls `due(k)` once `deadlines_ns[k]` (CLOCK_MONOTONIC, ascending) has come; a context manager."""

    def __init__(self, deadlines_ns: Sequence[int], due: Callable[[int], None]) -> None:
        """Nothing is called before `with`."""
        self._deadlines_ns = deadlines_ns
        self._due = due
        self._next = 0

    def __enter__(self) -> None:
        """Start: from here on `due` is called from the running loop."""
        self._loop = asyncio.get_running_loop()
        self._timer = os.timerfd_create(time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC)
        self._loop.add_reader(self._timer, self._tick)
        self._arm()

    def __exit__(self, *_: object) -> None:
        """Stop: what was not due yet is never called."""
        self._loop.remove_reader(self._timer)
        os.close(self._timer)

    def _arm(self) -> None:
        if self._next < len(self._deadlines_ns):
            # A time in the past fires at once, but 0 would disarm the timer.
            deadline_ns = max(1, self._deadlines_ns[self._next])
            os.timerfd_settime_ns(self._timer, flags=os.TFD_TIMER_ABSTIME, initial=deadline_ns)

    def _tick(self) -> None:
        with contextlib.suppress(BlockingIOError):  # re-arming takes back an expiry that the loop already saw
            os.read(self._timer, 8)
        while self._next < len(self._deadlines_ns) and self._deadlines_ns[self._next] <= time.monotonic_ns():
            self._next += 1
            self._due(self._next - 1)
        self._arm()
