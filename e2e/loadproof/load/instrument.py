"""Was the absorber itself on time?

Lateness is actual minus planned write of each chunk, where no slow client made it wait; lag is our read
minus the kernel's arrival stamp, where there is one. Left out: what is too late (the checks).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.requests import actual_writes

if TYPE_CHECKING:
    from loadproof.journal import Journal


@dataclass(frozen=True)
class Timekeeping:
    """Lateness in seconds over `chunks` chunks; `interval_s` is the median planned gap inside streams.

    `late_reads` is the share of requests with a loop lag above 5 ms, among those with a kernel stamp;
    `stamped` the share that has one. `clock_jump_s` is the largest change of CLOCK_REALTIME - CLOCK_MONOTONIC from one
    flush of the journal to the next.
    """

    chunks: int
    late_p50_s: float
    late_p99_s: float
    late_max_s: float
    interval_s: float
    stamped: float
    late_reads: float
    clock_jump_s: float


LATE_READ_NS = 5_000_000


def measure_timekeeping(journal: Journal) -> Timekeeping:
    """Measure the instrument over all rows of its journal."""
    planned, offsets = journal.list_column("planned_ns")
    actual, _ = actual_writes(journal)
    blocked = np.repeat(journal.int_column("blocked_ns") > 0, np.diff(offsets))
    ours = (actual > 0) & ~blocked
    late = (actual - planned)[ours] / 1e9
    gaps = np.diff(planned)
    inside = np.ones(len(gaps), dtype=bool)
    inside[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] <= len(gaps))] - 1] = False
    gaps = gaps[inside & (gaps > 0)]
    stamped = np.asarray(journal.table["arrival_kernel"].to_numpy(), dtype=np.bool_)
    lag = (journal.int_column("read_ns") - journal.int_column("arrival_ns"))[stamped]
    p50, p99, worst = np.percentile(late, [50, 99, 100]).tolist() if len(late) else (0.0, 0.0, 0.0)
    return Timekeeping(
        chunks=len(late),
        late_p50_s=p50,
        late_p99_s=p99,
        late_max_s=worst,
        interval_s=float(np.median(gaps)) / 1e9 if len(gaps) else 0.0,
        stamped=float(stamped.mean()) if len(stamped) else 0.0,
        late_reads=float(np.mean(lag > LATE_READ_NS)) if len(lag) else 0.0,
        clock_jump_s=journal.metadata.clock_jump_ns / 1e9,
    )
