"""The statistics behind the checks, without a word of the domain.

Exact laws and bounds only; where each number comes from stands beside it. Every bound on a rate allows for what
an honest sender does beside its law: its first event comes up to `LATE_FIRST_S` late, and it pauses up to `PAUSE_S`.
Left out: everything that looks at more than times and counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

ALPHA = 1e-6
"""Two-sided level of one statistical finding."""

Z = NormalDist().inv_cdf(1 - ALPHA / 2)  # 4.89
Z_POWER = NormalDist().inv_cdf(0.9)  # 1.28: 90 % power

FLOOR = 0.01
"""No relative deviation of a rate below this is a failure, however significant."""

LATE_FIRST_S, PAUSE_S = 0.3, 0.1


@dataclass(frozen=True)
class Interval:
    """A closed interval of one quantity."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        """Return whether `value` lies within, ends included."""
        return self.low <= value <= self.high


def chi_squared_ppf(probability: float, freedom: float) -> float:
    """Return the chi-squared quantile with `probability` below it: twice the gamma law's of half the freedom."""
    from scipy.special import gammaincinv  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    return 2 * float(gammaincinv(freedom / 2, probability))


def chi_squared_isf(probability: float, freedom: float) -> float:
    """Return the chi-squared quantile with `probability` above it."""
    from scipy.special import gammainccinv  # noqa: PLC0415 -- as above

    return 2 * float(gammainccinv(freedom / 2, probability))


def gamma_rate_interval(gaps: int, span: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the exact interval of the rate of a renewal process with gamma gaps, from its span.

    2 * shape * rate * span is chi-squared with 2 * shape * gaps degrees of freedom (shape 1: Poisson).
    `gaps` is the number of gaps in `span` (first to last arrival, >= 0); the result is per unit of `span`, and
    infinite where the span is 0.
    """
    freedom = 2 * shape * gaps
    if span <= 0:
        return Interval(math.inf, math.inf)
    scale = 2 * shape * span
    return Interval(chi_squared_ppf(alpha / 2, freedom) / scale, chi_squared_isf(alpha / 2, freedom) / scale)


def honest_rate_interval(gaps: int, span_s: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the rates, per second, that explain `gaps` gaps in `span_s` of an honest sender: law and lateness.

    A late first event and a pause before it make the span shorter than its law, a pause before the last one longer.
    The exact law alone blames honest senders where it is sharper than their lateness: 5,000 Poisson arrivals at
    1000/s with a first send 0-0.3 s late were outside its interval in 9 of 300 seeded runs, and in none of this.
    """
    on_time = gamma_rate_interval(gaps, span_s + LATE_FIRST_S + PAUSE_S, shape, alpha)
    return Interval(on_time.low, gamma_rate_interval(gaps, span_s - PAUSE_S, shape, alpha).high)


def count_interval(mean: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the numbers of events that a renewal process with gamma gaps has in a window of `mean` mean gaps.

    k or more came when the sum of k gaps is at most the window, P(k a, a mean); both tails above alpha / 2. Shape 1:
    the Poisson law, so N is within exactly when the exact interval [chi2(2N) / 2, chi2(2N + 2) / 2] has `mean`.
    """
    from scipy.special import gammainc, gammaincc  # noqa: PLC0415 -- as above

    def fewest(probable: Callable[[int], bool]) -> int:
        low, high = 0, 1
        while not probable(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if probable(middle) else (middle, high)
        return high

    scale = shape * max(mean, 0.0)
    # at most k - 1 came with more than alpha / 2; k or more with no more than alpha / 2
    low = fewest(lambda k: bool(gammaincc(k * shape, scale) > alpha / 2)) - 1
    return Interval(low, fewest(lambda k: bool(gammainc(k * shape, scale) <= alpha / 2)) - 1)


def gamma_rate_smallest_deviation(gaps: int, shape: float = 1.0) -> float:
    """Return the relative rate deviation that `gaps` gaps show with 90 % power at ALPHA: (z + 1.28) / sqrt(a gaps).

    The normal approximation, without lateness; `honest_rate_visible` is exact.
    """
    return (Z + Z_POWER) / math.sqrt(shape * gaps)


def honest_rate_visible(gaps: int, rate: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the relative deviations from `rate` (per second) that fail with 90 % power.

    Both `honest_rate_interval` and FLOOR are limits of T = 2 a rate (t_n - t_1), the later one counts. Where the law
    leaves it beyond 90 % of the draws: 1 + high = isf(0.1) / T, T = min(ppf(alpha / 2) - 2 a rate (late_first +
    pause), freedom / (1 + FLOOR)); 1 + low = ppf(0.1) / T, T = max(isf(alpha / 2) + 2 a rate pause, freedom / (1 -
    FLOOR)). The upper one is infinite where a late first event explains everything.
    """
    freedom, scale = 2 * shape * gaps, 2 * shape * rate
    few, many = chi_squared_ppf(alpha / 2, freedom), chi_squared_isf(alpha / 2, freedom)
    longest = max(many + scale * PAUSE_S, freedom / (1 - FLOOR))
    shortest = min(few - scale * (LATE_FIRST_S + PAUSE_S), freedom / (1 + FLOOR))
    high = chi_squared_isf(0.1, freedom) / shortest - 1 if shortest > 0 else math.inf
    return Interval(chi_squared_ppf(0.1, freedom) / longest - 1, high)


def gaps_to_see_a_rate(shape: float = 1.0) -> int:
    """Return how many gaps show a deviation of 90 % (`gamma_rate_smallest_deviation`): fewer say too little."""
    return math.ceil((Z + Z_POWER) ** 2 / (0.81 * shape))


def fixed_span_bounds(n: int, span_s: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the relative deviations of the end-point rate that an honest sender of a rescaled span shows.

    The last arrival is at the span's end and the first is Beta(a, a (n - 1)) of it, so the rate is (n - 1) / n of the
    asked one or more: the law ends at -1 / n. With n + 1 gaps the span is Beta(a (n - 1), 2a), which is shorter: its
    lower quantile, less a late first send, is the upper bound; infinite where that explains everything.
    """
    from scipy.special import betaincinv  # noqa: PLC0415 -- as above

    shortest = float(betaincinv(shape * (n - 1), 2 * shape, alpha / 2)) - LATE_FIRST_S / span_s
    above = (n - 1) / n / shortest - 1 if shortest > 0 else math.inf
    return Interval(-(FLOOR + 1 / n + PAUSE_S / span_s), FLOOR + above)


def even_spacing_bounds(n: int) -> Interval:
    """Return the relative deviations of the half-lag slope of an honest evenly spaced sender: max(1 %, 2 / n).

    A late first send is caught up within its own length, so the median is not moved from a span of 4 such lengths
    on (400 seeded runs a setting: at most 0.35 % in 2 s, 22 % in 1 s).
    """
    bound = max(FLOOR, 2 / n)
    return Interval(-bound, bound)
