"""Do events fall on ticks, or on one place of each second? No words of the domain.

Null: a renewal process with gamma gaps of a shape (1: Poisson). `times` are float64[n] seconds, ascending, and whole
seconds after the first event are looked at. Each `*_bound` is a lower confidence bound of an effect, above 0 with a
probability of at most `alpha`. The floor is the caller's. Left out: ticks that are no whole part of a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from loadproof.checks.stats_renewal import density_after, spectrum, window_share

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

PERIODS_MS = (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000)
"""The whole parts of a second in whole milliseconds."""

BINS_A_MS = 32
WIDTHS_MS = (2, 4)
PHASES = 1000


@dataclass(frozen=True)
class Tick:
    """A period in ms, and how far arrivals keep to one place in it: R, from 0 (anywhere) to 1 (all at one)."""

    period_ms: int
    resultant: float
    noise: float


@dataclass(frozen=True)
class Edge:
    """Of `seconds` seconds, `hits` have an event within `width_ms` from one place on; by chance a share `chance`."""

    at_s: float
    width_ms: int
    hits: int
    seconds: int
    chance: float


def in_whole_seconds(times: Floats) -> tuple[Floats, int]:
    """Return the events after the first one in whole seconds from it, since it, and how many seconds those are."""
    since = times[1:] - times[:1]
    seconds = math.floor(since[-1]) if len(since) else 0
    return since[: np.searchsorted(since, seconds)], seconds


def ticks(times: Floats, rate: float, shape: float, alpha: float) -> list[Tick]:
    """Return R for every period that is not far shorter than a gap (period x rate >= 0.05), and what noise makes of it.

    n R^2 is exponential with mean `spectrum`: R passes sqrt(spectrum x ln(2 periods / alpha) / n) with alpha / 2 at
    most. All periods are whole parts of a second: one histogram of phases and its Fourier transform have them all.
    """
    since, seconds = in_whole_seconds(times)
    periods = np.array([p for p in PERIODS_MS if p * rate >= 50])
    if not len(since) or not len(periods):
        return []
    bins = PHASES * BINS_A_MS
    histogram = np.bincount((since % 1.0 * bins).astype(np.int64) % bins, minlength=bins)
    resultants = np.abs(np.fft.rfft(histogram)[1000 // periods]) / len(since)
    # Within so few periods a frequency is not sharp: take the largest of its neighbourhood.
    cycles = 1000 / periods / rate
    near = np.array([spectrum(cycles + off / (seconds * rate), shape) for off in (-0.5, 0.0, 0.5)]).max(axis=0)
    noise = np.sqrt(near * math.log(2 * len(PERIODS_MS) / alpha) / len(since))
    return [Tick(int(p), float(r), float(x)) for p, r, x in zip(periods, resultants, noise, strict=True)]


def tick_bound(times: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return how far events keep to ticks at least, at the period where that is most; -1 where none can be told."""
    return max((tick.resultant - tick.noise for tick in ticks(times, rate, shape, alpha)), default=-1.0)


def edges(times: Floats, rate: float, shape: float) -> list[Edge]:
    """Return, per width, the place in the second that has events in most seconds."""
    since, seconds = in_whole_seconds(times)
    if not len(since):
        return []
    ms = (since * PHASES).astype(np.int64)
    ms = ms[np.concatenate([[True], ms[1:] > ms[:-1]])]
    # An arrival a second after another is likelier where gaps are regular; as if each second were such a one.
    regular = max(1.0, *(density_after(rate * later, shape) for later in (1, 2)))
    found = []
    for width in WIDTHS_MS:
        hits = _seconds_hit(ms, width)
        at = int(hits.argmax())
        chance = min(1.0, regular * window_share(rate * width / PHASES, shape))
        found.append(Edge((at + float(times[0]) * PHASES) % PHASES / PHASES, width, int(hits[at]), seconds, chance))
    return found


def _seconds_hit(ms: Ints, width: int) -> Ints:
    """Return, for every window of `width` ms of the second, in how many seconds it has an event (int64[1000]).

    Events at the milliseconds `ms`, ascending and distinct, are in the windows that begin at ms - width + 1 ... ms,
    of which the last event may have reached some already: intervals, added up by their ends. The window that begins in
    the second's last ms reaches into the next one.
    """
    first = np.maximum(ms - width + 1, np.concatenate([[0], ms[:-1] + 1]))
    up, down = np.bincount(first % PHASES, minlength=PHASES), np.bincount((ms + 1) % PHASES, minlength=PHASES)
    wraps = int(np.count_nonzero(first // PHASES != (ms + 1) // PHASES))
    return np.asarray(np.cumsum(up - down) + wraps)


def edge_bound(times: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return by how much the share of seconds with an event at one place is at least above chance; -1 if unknown."""
    return max((edge_effect(edge, alpha) for edge in edges(times, rate, shape)), default=-1.0)


def edge_effect(edge: Edge, alpha: float) -> float:
    """Return the lower end of the exact interval of the share (Clopper, Pearson) minus the share by chance."""
    from scipy.special import betaincinv  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    level = alpha / (2 * len(WIDTHS_MS) * PHASES)
    low = float(betaincinv(edge.hits, edge.seconds - edge.hits + 1, level)) if edge.hits else 0.0
    return low - edge.chance


def fewest_hits(edge: Edge, floor: float, alpha: float) -> int:
    """Return how many hits make `edge_effect` pass a floor; more than there are seconds where none do."""
    low, high = 0, edge.seconds + 1
    while low < high:
        middle = (low + high) // 2
        enough = edge_effect(replace(edge, hits=middle), alpha) > floor
        low, high = (low, middle) if enough else (middle + 1, high)
    return low
