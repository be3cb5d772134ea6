"""Do events come in clusters, in a rush or faster and faster? No words of the domain.

Null: a renewal process with gamma gaps of a shape (1: Poisson), over its whole stretch. `times` are float64[n] seconds,
ascending. Each `*_bound` is a lower confidence bound of an effect, above 0 with a probability of at most `alpha`; so is
1 outside of those of `dispersions`. The floor is the caller's. Left out: single gaps (`stats_gaps`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from loadproof.checks.stats import Interval, chi_squared_isf, chi_squared_ppf
from loadproof.checks.stats_renewal import count_variance

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

FEWEST_WINDOWS = 20
"""So many windows, or more, are counted."""

WIDER = (1, 2, 5)
"""How many times as wide windows are counted, too: what is even from second to second need not be within one."""

EVENTS_A_WINDOW = 5
"""So many independent events, or more, are expected in each (gaps of shape a < 1 come in clusters of 1 / a)."""


def window_s(n: int, span_s: float, shape: float) -> float:
    """Return the length of the windows that are counted: 1 s, longer at a slow rate, shorter in a short span."""
    return min(span_s / FEWEST_WINDOWS, max(1.0, EVENTS_A_WINDOW * span_s / (n * min(1.0, shape))))


def window_counts(times: Floats, width: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return how many events are in each whole window after the first event."""
    since = times[1:] - times[0]
    windows = max(1, math.floor(since[-1] / width * (1 + 1e-12)))
    which = np.minimum(since / width, windows).astype(np.int64)
    return np.bincount(which, minlength=windows)[:windows].astype(np.int64)


@dataclass(frozen=True)
class Windows:
    """How many windows were counted, how long each was, the degrees of freedom of their counts' variance, the level."""

    count: int
    width_s: float
    freedom: float
    alpha: float


def dispersions(times: Floats, shape: float, alpha: float) -> list[tuple[float, Interval, Windows]]:
    """Return, per width of windows, the variance of counts divided by what the law says of it, its interval, and how.

    Index of dispersion over that of a renewal process (`count_variance`); times b - 1 it is chi-squared of b - 1
    degrees of freedom for b windows of many events. Wider windows as far as there are `FEWEST_WINDOWS`; they share
    the level. `times`: FEWEST_WINDOWS x EVENTS_A_WINDOW at least, in some time.
    """
    span = float(times[-1] - times[0])
    width = window_s(len(times), span, shape)
    widths = [width * wider for wider in WIDER if width * wider * FEWEST_WINDOWS <= span * (1 + 1e-12)] or [width]
    return [_dispersion(times, one, shape, alpha / len(widths)) for one in widths]


def _dispersion(times: Floats, width: float, shape: float, alpha: float) -> tuple[float, Interval, Windows]:
    counts = window_counts(times, width)
    mean = float(counts.mean())
    windows = Windows(len(counts), width, freedom(len(counts), mean, shape), alpha)
    ratio = float(counts.var(ddof=1)) / count_variance(mean, shape)
    reach = ratio_reach(windows.freedom, alpha)
    return ratio, Interval(ratio / reach.high, ratio / reach.low), windows


def freedom(windows: int, mean: float, shape: float) -> float:
    """Return the degrees of freedom of the variance of `windows` counts of a mean, as a chi-squared law has them.

    windows - 1, and fewer the fewer events a window has, since counts of a small mean are no normal variables.
    """
    return (windows - 1) / (1 + 1 / (mean * min(1.0, shape)))


def ratio_reach(free: float, alpha: float) -> Interval:
    """Return what chi-squared / freedom stays within, at half of alpha: counts are not quite normal."""
    return Interval(chi_squared_ppf(alpha / 4, free) / free, chi_squared_isf(alpha / 4, free) / free)


def ratio_visible(free: float, alpha: float) -> Interval:
    """Return the ratios beyond which 9 of 10 runs have one that is outside of `ratio_reach`."""
    reach = ratio_reach(free, alpha)
    return Interval(reach.low / (chi_squared_isf(0.1, free) / free), reach.high / (chi_squared_ppf(0.1, free) / free))


def dispersion_bounds(times: Floats, shape: float, alpha: float) -> float:
    """Return by how much a ratio is at least beyond 1: above 0 where it is larger or its inverse is."""
    found = [interval for _, interval, _ in dispersions(times, shape, alpha)]
    return max(max(interval.low, 1 / max(interval.high, 1e-12)) for interval in found) - 1


def surplus(times: Floats, rate: float) -> tuple[float, float, float]:
    """Return how many events some stretch has more than `rate` makes in it, at most, and its begin and end in seconds.

    The largest 1 + (j - i) - rate x (t_j - t_i) over i <= j, which even spacing at `rate` leaves at 1.
    """
    ahead = np.arange(len(times)) - rate * times
    lowest = np.minimum.accumulate(ahead)
    end = int((ahead - lowest).argmax())
    begin = int(ahead[: end + 1].argmin())
    return 1.0 + float(ahead[end] - ahead[begin]), float(times[begin]), float(times[end])


def busiest_second(times: Floats) -> tuple[int, float]:
    """Return how many events the busiest second that begins with one has, and when it begins."""
    inside = np.searchsorted(times, times + 1.0, side="left") - np.arange(len(times))
    at = int(inside.argmax())
    return int(inside[at]), float(times[at])


def rate_in_busiest(events: int, n: int, shape: float, alpha: float) -> float:
    """Return the smallest rate that explains `events` in one of the n seconds that begin with an event.

    Those after the first came within 1 s: the sum of k = events - 1 gaps is at most 1 s, which has probability
    P(ka, a x rate); Bonferroni over n, one side. 0 for a single event.
    """
    from scipy.special import gammaincinv  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    return float(gammaincinv((events - 1) * shape, alpha / (2 * n))) / shape if events > 1 else 0.0


def most_in_a_second(rate: float, n: int, shape: float, alpha: float) -> int:
    """Return the most events of a second that `rate` explains (`rate_in_busiest`), n at most."""
    low, high = 1, n
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if rate_in_busiest(middle, n, shape, alpha) <= rate else (low, middle - 1)
    return low


def burst_bound(times: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return by what share the busiest second's rate is at least above `rate`."""
    return rate_in_busiest(busiest_second(times)[0], len(times), shape, alpha) / rate - 1


def trend(times: Floats) -> float:
    """Return 12 x (mean place - 1/2), places from 0 at the first to 1 at the last event: Laplace's trend.

    d stands for a rate that grows evenly from 1 - d/2 to 1 + d/2 of its mean. `times`: three at least, in some time.
    """
    places = (times[1:-1] - times[0]) / (times[-1] - times[0])
    return 12 * (float(places.mean()) - 0.5)


def trend_noise(gaps: int, shape: float, alpha: float) -> float:
    """Return what the trend of k >= 2 gaps passes with less than alpha, on either side.

    Its standard deviation times sqrt(2 ln(2 / alpha)): the tail bound of a normal law, which uniform places keep.
    """
    return trend_deviation(gaps, shape) * math.sqrt(2 * math.log(2 / alpha))


def trend_deviation(gaps: int, shape: float) -> float:
    """Return the standard deviation of the trend of k gaps; exact: shares of gamma gaps are Dirichlet(a, ..., a)."""
    return math.sqrt(12 * (gaps + 1) / ((gaps - 1) * (gaps * shape + 1)))


def trend_bound(times: Floats, shape: float, alpha: float) -> float:
    """Return how strong the trend is at least, whatever its sign."""
    return abs(trend(times)) - trend_noise(len(times) - 1, shape, alpha)
