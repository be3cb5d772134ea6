"""How does the absorber run as soon as it is due, on a machine that it shares with the tool?

A fair scheduler lets a wake-up wait for the other's time slice. Where the system allows it (root, or `ulimit -r` of
at least 2), the loop's thread is scheduled in real time, and the counting thread just below it: it holds the
interpreter's lock now and then, and the loop would wait for whoever keeps it from running. p99 of our lateness
with inference-perf at concurrency 8 on 2 cores, three interleaved runs each: on a machine with other work 3.9 to 9.5 ms
without and 0.3 to 1.3 with the loop alone; on a quiet one 0.5 to 2.6 with the loop alone and 0.4 to 0.9 with both.
Everything else stays as it is, threads that these start included.

The kernel lets real-time threads run for 95 % of a second and then stops them for the rest of it, 50 ms (with 1,000
streams of 20 ms and their prompts on one core that was a p99 lateness of 53 to 71 ms in five rounds). So a thread
that has too much to do gives its precedence up until that is over.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress

LOOP, COUNTING = 2, 1
BUSY, CALM = 0.75, 0.5  # shares of a core: from the first on precedence is given up, below the second it is taken again


def take_precedence(priority: int) -> None:
    """Schedule the calling thread in real time at `priority`, if the system lets us."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def scheduling() -> str:
    """Return how the calling thread is scheduled: "real-time" or "ordinary"."""
    return "real-time" if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR else "ordinary"


def keeps(share: float, *, had: bool) -> bool:
    """Return whether a thread that uses this share of a core has precedence from now on."""
    return share < (BUSY if had else CALM)


class Balance:
    """Looks at what the loop's thread and the counting thread use; to be made, and asked, in the loop's thread.

    The counting thread gives its precedence up first: when both together are busy.
    """

    def __init__(self, counting: threading.Thread) -> None:
        self._tids = (threading.get_native_id(), counting.native_id or 0)
        self._clock = time.pthread_getcpuclockid(counting.ident or 0)
        self._real_time = scheduling() == "real-time"
        self._have = (True, True)
        self._last = self._used()

    def _used(self) -> tuple[float, float, float]:
        return time.monotonic(), time.thread_time(), time.clock_gettime(self._clock)

    def review(self) -> None:
        """Give up, or take again, what the time since the last review asks for."""
        if not self._real_time:
            return
        used = self._used()
        elapsed, loop, counting = (now - before for now, before in zip(used, self._last, strict=True))
        if elapsed <= 0:
            return
        self._last = used
        loop_has, counting_has = self._have
        self._have = keeps(loop / elapsed, had=loop_has), keeps((loop + counting) / elapsed, had=counting_has)
        if self._have == (loop_has, counting_has):
            return
        for tid, priority, before, now in zip(
            self._tids, (LOOP, COUNTING), (loop_has, counting_has), self._have, strict=True
        ):
            if now != before:
                _schedule(tid, priority if now else 0)


def _schedule(tid: int, priority: int) -> None:
    policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK if priority else os.SCHED_OTHER | os.SCHED_RESET_ON_FORK
    with suppress(OSError):
        os.sched_setscheduler(tid, policy, os.sched_param(priority))
