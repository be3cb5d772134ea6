"""How does the absorber run as soon as it is due, on a machine that it shares with the tool?

A fair scheduler lets a wake-up wait for the other's time slice. Where the system allows it (root, or `ulimit -r` of
at least 2), the loop's thread is scheduled in real time, and the counting thread just below it: it holds the
interpreter's lock now and then, and the loop would wait for whoever keeps it from running. p99 of our lateness
with inference-perf at concurrency 8 on 2 cores, three interleaved runs each: on a machine with other work 3.9 to 9.5 ms
without and 0.3 to 1.3 with the loop alone; on a quiet one 0.5 to 2.6 with the loop alone and 0.4 to 0.9 with both.
Everything else stays as it is, threads that these start included.
"""

from __future__ import annotations

import os
from contextlib import suppress

LOOP, COUNTING = 2, 1


def take_precedence(priority: int) -> None:
    """Schedule the calling thread in real time at `priority`, if the system lets us."""
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(priority))


def scheduling() -> str:
    """Return how the calling thread is scheduled: "real-time" or "ordinary"."""
    return "real-time" if os.sched_getscheduler(0) & ~os.SCHED_RESET_ON_FORK == os.SCHED_RR else "ordinary"
