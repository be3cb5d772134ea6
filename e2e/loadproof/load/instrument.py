"""Was the absorber itself on time?

Lateness is actual minus planned write of each chunk, where no slow client made it wait; lag is our read
minus the kernel's arrival stamp, where there is one. A client that pipelines more than 1 MiB ahead of its replies is
not read on: the lag of such a request is the client's own doing, and is counted as ours all the same. Left out: what
is too late (the checks).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.chunks import TIMES, chunk_groups, chunks_in

if TYPE_CHECKING:
    from loadproof.journal import Journal
    from loadproof.load.requests import Ints


@dataclass(frozen=True)
class Timekeeping:
    """Lateness in seconds over `chunks` chunks; `interval_s` is the median planned gap inside streams.

    `waited` chunks are of requests whose client did not read, and not among the `chunks`. Lag in seconds over the
    `stamps` requests that the kernel stamped, `stamped` their share of all, `late_reads` the share of them with a lag
    above 5 ms. All zero where there is none. `clock_jump_s` is the largest change of CLOCK_REALTIME - CLOCK_MONOTONIC
    from one flush of the journal to the next.
    """

    chunks: int
    waited: int
    late_p50_s: float
    late_p99_s: float
    late_max_s: float
    interval_s: float
    stamps: int
    stamped: float
    lag_p50_s: float
    lag_p99_s: float
    lag_max_s: float
    late_reads: float
    clock_jump_s: float

    @property
    def stamped_share(self) -> str:
        """`stamped` in per cent, in words, rounded down: 100% means all."""
        return f"{math.floor(self.stamped * 1000) / 10:g}%"

    @property
    def worst_s(self) -> float:
        """The longest that a write or a read is known to have waited for us, in seconds."""
        return max(self.late_max_s, self.lag_max_s)


LATE_READ_NS = 5_000_000
COLUMNS = ("arrival_ns", "arrival_kernel", "read_ns", "blocked_ns", *TIMES)
"""The journal's columns that are read here."""


def measure_timekeeping(journal: Journal) -> Timekeeping:
    """Measure the instrument over all rows of its journal, which need not have other columns than `COLUMNS`."""
    room = np.empty(chunks_in(journal), np.int64)  # there are so many chunks that it is used twice
    late, waited = _lateness(journal, room)
    late_p50, late_p99, late_max = _percentiles(late)
    gaps = _gaps(journal, room)
    interval = float(np.median(gaps, overwrite_input=True)) / 1e9 if len(gaps) else 0.0
    stamped = np.asarray(journal.table["arrival_kernel"].to_numpy(), dtype=np.bool_)
    lag = (journal.int_column("read_ns") - journal.int_column("arrival_ns"))[stamped]
    late_reads = float(np.mean(lag > LATE_READ_NS)) if len(lag) else 0.0
    lag_p50, lag_p99, lag_max = _percentiles(lag)
    return Timekeeping(
        chunks=len(late),
        waited=waited,
        late_p50_s=late_p50,
        late_p99_s=late_p99,
        late_max_s=late_max,
        interval_s=interval,
        stamps=len(lag),
        stamped=float(stamped.mean()) if len(stamped) else 0.0,
        lag_p50_s=lag_p50,
        lag_p99_s=lag_p99,
        lag_max_s=lag_max,
        late_reads=late_reads,
        clock_jump_s=journal.metadata.clock_jump_ns / 1e9,
    )


def _lateness(journal: Journal, room: Ints) -> tuple[Ints, int]:
    """Return the lateness of each chunk that no client made wait, in `room`, and how many chunks are of the others."""
    blocked = journal.int_column("blocked_ns") > 0
    filled = waited = 0
    for group in chunk_groups(journal):
        late, held_up = group.late, blocked[group.rows]
        if held_up.any() or not group.written.all():  # a copy that is mostly not needed
            late = late[group.written & ~np.repeat(held_up, group.counts)]
        room[filled : filled + len(late)] = late
        filled, waited = filled + len(late), waited + int(group.counts[held_up].sum())
    return room[:filled], waited


def _gaps(journal: Journal, room: Ints) -> Ints:
    """Return the planned gaps inside streams, in `room`; chunks that are due together have none."""
    filled = 0
    for group in chunk_groups(journal):
        gaps = np.diff(group.planned)
        between = group.starts[1:-1] - 1  # from the last chunk of a row to the next row's first
        gaps[between[(between >= 0) & (between < len(gaps))]] = 0
        gaps = gaps[gaps > 0]
        room[filled : filled + len(gaps)] = gaps
        filled += len(gaps)
    return room[:filled]


def _percentiles(nanoseconds: Ints) -> tuple[float, float, float]:
    """Return p50, p99 and the maximum in seconds; the order of the values is lost."""
    if not len(nanoseconds):
        return 0.0, 0.0, 0.0
    p50, p99, worst = (np.percentile(nanoseconds, [50, 99, 100], overwrite_input=True) / 1e9).tolist()
    return p50, p99, worst
