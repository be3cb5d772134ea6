"""How many requests were in flight, and how well was that number held?

In flight runs from arrival to `Requests.end_ns`; ends come before starts on ties. The plateau runs from the
first time at the peak to the last start (docs/statistics.md: concurrency). Left out: stages and waves; what is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.requests import NEVER

if TYPE_CHECKING:
    from loadproof.load.requests import Ints, Requests


@dataclass(frozen=True)
class InFlight:
    """Times in seconds; all zero where nothing arrived.

    `refill_s` is the turnaround of a slot: (peak - plateau mean) / start rate on the plateau.
    `median_latency_s` is over the requests that ended.
    `whole_mean` and `share_at_peak` are over first arrival to last end; shown, never asserted.
    """

    peak: int
    ramp_s: float
    plateau_s: float
    plateau_mean: float
    plateau_starts: int
    refill_s: float
    median_latency_s: float
    whole_mean: float
    share_at_peak: float


def in_flight(requests: Requests) -> InFlight:
    """Measure the requests' in-flight concurrency."""
    if requests.n == 0:
        return InFlight(0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    starts = requests.start_ns
    ended = requests.end_ns < NEVER
    last_end = int(np.concatenate([starts, requests.end_ns[ended]]).max())
    # Never ended: beyond every event, so that the last start is counted on top of it. A request is in flight for 1 ns
    # at least, or its end would come before its own start.
    ends = np.maximum(np.where(ended, requests.end_ns, last_end + 1), starts + 1)
    times, level = _steps(starts, ends)
    peak = int(level.max())
    at_peak = int(times[int(np.argmax(level == peak))])
    last_start = int(starts.max())
    plateau_s = (last_start - at_peak) / 1e9
    mean = _mean(times, level, at_peak, last_start)
    begun = int(np.count_nonzero((starts > at_peak) & (starts <= last_start)))
    refill = (peak - mean) * plateau_s / begun if begun else 0.0
    first = int(starts.min())
    return InFlight(
        peak=peak,
        ramp_s=(at_peak - first) / 1e9,
        plateau_s=plateau_s,
        plateau_mean=mean,
        plateau_starts=begun,
        refill_s=refill,
        median_latency_s=float(np.median((ends - starts)[ended])) / 1e9 if ended.any() else 0.0,
        whole_mean=_mean(times, level, first, last_end),
        share_at_peak=_mean(times, (level == peak).astype(np.int64), first, last_end),
    )


def _steps(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Return event times and the number in flight from each on; ends first on ties."""
    times = np.concatenate([ends, starts])
    change = np.concatenate([np.full(len(ends), -1), np.full(len(starts), 1)])
    order = np.lexsort((change, times))
    return times[order], np.cumsum(change[order])


def _mean(times: Ints, level: Ints, begin: int, end: int) -> float:
    if end <= begin:
        return float(level.max())
    edges = np.clip(np.append(times, end), begin, end)
    return float(np.sum(level * np.diff(edges)) / (end - begin))
