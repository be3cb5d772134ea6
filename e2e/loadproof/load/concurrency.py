"""How many requests were in flight, and how well was that number held?

In flight runs from arrival to `Requests.end_ns`; ends come before starts on ties. The plateau runs from the first time
at so many in flight (the peak, or what the caller looks for) to the last start (docs/statistics.md: concurrency). What
an earlier stretch left in flight counts, as its slots are in use; its own starts do not. All from sorted starts and
sorted ends, so a million requests take some tenths of a second. Left out: what waits for what (waves); what is enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.requests import NEVER

if TYPE_CHECKING:
    from loadproof.load.requests import Ints, Requests

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]


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


@dataclass(frozen=True)
class Plateau:
    """From the first time at `slots` in flight to the last start.

    `ramp_s` is from the first start to there; `mean` of the number in flight, no more than `slots` counted at any
    time; `starts` after its begin; `refill_s` = (slots - mean) x length / starts, how long a freed slot was empty.
    """

    slots: int
    begin_ns: int
    end_ns: int
    ramp_s: float
    mean: float
    starts: int
    refill_s: float

    @property
    def length_s(self) -> float:
        """Its length in seconds."""
        return (self.end_ns - self.begin_ns) / 1e9


@dataclass(frozen=True)
class Flight:
    """Requests in flight, ns: `starts` int64[n] and `freed` int64[n + left], the ends, both ascending.

    `left` were in flight when the first of these started. Ends that never came are `last_end_ns` + 1.
    """

    starts: Ints
    freed: Ints
    left: int
    never_ended: int
    last_end_ns: int
    median_latency_s: float

    @cached_property
    def levels(self) -> Ints:
        """In flight after each start, int64[n]."""
        return self.left + np.arange(1, len(self.starts) + 1) - np.searchsorted(self.freed, self.starts, side="right")

    @property
    def peak(self) -> int:
        """Return the most in flight at a start; what an earlier stretch left without a start of ours is not ours."""
        return int(self.levels.max()) if len(self.levels) else 0

    @cached_property
    def steps(self) -> tuple[Ints, Ints]:
        """Times of all starts and ends, and the number in flight from each on; ends first on ties."""
        times = np.concatenate([self.freed, self.starts])
        order = np.argsort(times, kind="stable")
        change = np.where(order < len(self.freed), np.int8(-1), np.int8(1))
        return times[order], self.left + np.cumsum(change, dtype=np.int64)

    def shares_at(self, least: int, edges_ns: Floats) -> Floats:
        """Return which share of the time at least `least` were in flight between each two edges, float64[m - 1]."""
        times, level = self.steps
        since = (times - times[0]).astype(np.float64)
        spent = np.concatenate([[0.0], np.cumsum((level[:-1] >= least) * np.diff(since))])
        at = edges_ns - float(times[0])
        shares: Floats = np.diff(np.interp(at, since, spent)) / np.diff(at)
        return shares

    def mean(self, begin_ns: int, end_ns: int, most: int | None = None) -> float:
        """Return the mean number in flight, no more than `most` counted at any time; NaN of no time."""
        if end_ns <= begin_ns:
            return float("nan")
        if most is None or most >= max(self.peak, self.left):
            up, down = (np.clip(times - begin_ns, 0, end_ns - begin_ns).sum(dtype=np.float64)
                        for times in (self.freed, self.starts))  # fmt: skip
            return float(up - down) / (end_ns - begin_ns)
        times, level = self.steps
        lasting = np.diff(np.clip(np.append(times, end_ns), begin_ns, end_ns))
        return float(np.sum(np.minimum(level, most) * lasting, dtype=np.float64)) / (end_ns - begin_ns)


def flight(requests: Requests, before: Requests | None = None) -> Flight:
    """Return what was in flight; of the requests `before` what had not ended when the first of these started."""
    starts, own_ends = requests.start_ns, requests.end_ns
    if np.any(starts[1:] < starts[:-1]):  # moved by a caller
        order = np.argsort(starts, kind="stable")
        starts, own_ends = starts[order], own_ends[order]
    ended = own_ends < NEVER
    left = np.zeros(0, np.int64) if before is None or not requests.n else before.end_ns
    left = left[left > starts[:1].sum()]
    known = np.concatenate([starts, own_ends[ended], left[left < NEVER]])
    last_end = int(known.max()) if len(known) else 0
    # Never ended: beyond every event, so that the last start is counted on top of it. A request is in flight for 1 ns
    # at least, or its end would come before its own start.
    ends = np.maximum(np.where(ended, own_ends, last_end + 1), starts + 1)
    freed = np.sort(np.concatenate([ends, np.minimum(left, last_end + 1)]))
    median = float(np.median((ends - starts)[ended])) / 1e9 if ended.any() else 0.0
    return Flight(starts, freed, len(left), int(np.count_nonzero(~ended)), last_end, median)


def earlier(everything: Requests, own: Requests) -> Requests:
    """Return those of all requests, by start, that are before the first of some stretch of them."""
    return everything.rows(slice(0, int(np.searchsorted(everything.start_ns, own.start_ns[0])) if own.n else 0))


def plateau(held: Flight, slots: int | None = None) -> Plateau:
    """Return the plateau at `slots` in flight, or at the peak where that is lower; of nothing one of no length."""
    at = held.peak if slots is None else min(slots, held.peak)
    if not len(held.starts):
        return Plateau(0, 0, 0, 0.0, 0.0, 0, 0.0)
    first = int(np.argmax(held.levels >= at))
    begin, end = int(held.starts[first]), int(held.starts[-1])
    mean = held.mean(begin, end, at) if end > begin else float(at)
    starts = len(held.starts) - int(np.searchsorted(held.starts, begin, side="right"))
    refill = (at - mean) * (end - begin) / 1e9 / starts if starts else 0.0
    return Plateau(at, begin, end, (begin - int(held.starts[0])) / 1e9, mean, starts, refill)


def in_flight(requests: Requests) -> InFlight:
    """Measure the requests' in-flight concurrency."""
    if requests.n == 0:
        return InFlight(0, 0.0, 0.0, 0.0, 0, 0.0, 0.0, 0.0, 0.0)
    held = flight(requests)
    top = plateau(held)
    first, last = int(held.starts[0]), held.last_end_ns
    lasted = last > first
    return InFlight(
        peak=top.slots,
        ramp_s=top.ramp_s,
        plateau_s=top.length_s,
        plateau_mean=top.mean,
        plateau_starts=top.starts,
        refill_s=top.refill_s,
        median_latency_s=held.median_latency_s,
        whole_mean=held.mean(first, last) if lasted else float(top.slots),
        share_at_peak=float(held.shares_at(top.slots, np.array([first, last], np.float64))[0]) if lasted else 1.0,
    )


def filling_s(held: Flight, slots: int) -> Floats:
    """Return when each number in flight up to `slots` was first reached, in seconds since the first start, ascending.

    One entry a slot that was filled by these requests: fewer than `slots` where some were in use before.
    """
    highest = np.maximum.accumulate(np.minimum(held.levels, slots))
    _, first = np.unique(highest, return_index=True)
    reached: Floats = (held.starts[first] - held.starts[0]) / 1e9
    return reached


def lost_at_first(held: Flight, top: Plateau, share: float) -> tuple[float, float]:
    """Return how much time was lost at first, s, and until when after the first start, s.

    Lost is the time for which all slots of the plateau would have been empty together, beyond the `share` of the time
    that they may be: the most of it that there was at any time up to the last start.
    """
    if not top.slots:
        return 0.0, 0.0
    times, level = held.steps
    begin, end = np.searchsorted(times, [held.starts[0], held.starts[-1]])
    since = (times[begin : end + 1] - held.starts[0]) / 1e9
    empty = np.cumsum(np.maximum(top.slots - level[begin:end], 0) * np.diff(since)) / top.slots
    lost = np.concatenate([[0.0], empty]) - share * since
    worst = int(np.argmax(lost))
    return float(lost[worst]), float(since[worst])


def windows(top: Plateau, least_s: float, most: int = 100) -> Floats:
    """Return the edges (ns) of equal windows of the plateau, each of `least_s` at least, no more than `most`."""
    count = min(most, int(top.length_s / least_s)) if least_s > 0 else 0
    return np.linspace(top.begin_ns, top.end_ns, count + 1) if count else np.zeros(0)


def last_above(held: Flight, top: Plateau) -> tuple[int, float]:
    """Return the most in flight in the last quarter of the plateau, and until when it was more, s since its begin."""
    late = held.levels[np.searchsorted(held.starts, (top.begin_ns + 3 * top.end_ns) / 4) :]
    most = int(late.max()) if len(late) else 0
    times, level = held.steps
    above = np.flatnonzero(level > most)
    until = times[min(int(above[-1]) + 1, len(times) - 1)] if len(above) else top.begin_ns
    return most, max(0.0, (int(until) - top.begin_ns) / 1e9)


def above(held: Flight, slots: int) -> tuple[float, float, float, int]:
    """Return how long more than `slots` were in flight, when first, until when, and how often.

    Seconds, in all and since the first start.
    """
    times, level = held.steps
    kept = np.append(times[1:] != times[:-1], True)  # of several at one time the last
    times, level = times[kept], level[kept]
    edges = np.flatnonzero(np.diff(level > slots, prepend=False, append=False))
    if not len(edges):
        return 0.0, 0.0, 0.0, 0
    at = (times[edges] - held.starts[0]) / 1e9
    return float((at[1::2] - at[::2]).sum()), float(at[0]), float(at[-1]), len(edges) // 2
