"""The statistics behind the checks, without a word of the domain.

Exact laws and bounds only; where each number comes from stands beside it. Left out: everything that looks at
more than times and counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.stats import chi2, norm

ALPHA = 1e-6
"""Two-sided level of one statistical finding."""

Z = float(norm.ppf(1 - ALPHA / 2))  # 4.89
Z_POWER = float(norm.ppf(0.9))  # 1.28: 90 % power


@dataclass(frozen=True)
class Interval:
    """A closed interval of one quantity."""

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        """Return whether `value` lies within, ends included."""
        return self.low <= value <= self.high


def gamma_rate_interval(gaps: int, span: float, shape: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Return the exact interval of the rate of a renewal process with gamma gaps, from its span.

    2 * shape * rate * span is chi-squared with 2 * shape * gaps degrees of freedom (shape 1: Poisson).
    `gaps` is the number of gaps in `span` (first to last arrival); the result is per unit of `span`.
    """
    freedom = 2 * shape * gaps
    scale = 2 * shape * span
    return Interval(float(chi2.ppf(alpha / 2, freedom)) / scale, float(chi2.isf(alpha / 2, freedom)) / scale)


def gamma_rate_smallest_deviation(gaps: int, shape: float = 1.0) -> float:
    """Return the relative rate deviation that `gaps` gaps show with 90 % power at ALPHA: (z + 1.28) / sqrt(a gaps)."""
    return (Z + Z_POWER) / math.sqrt(shape * gaps)


def fixed_span_bounds(n: int, span: float) -> Interval:
    """Return the relative deviations of the end-point rate that an honest sender of a rescaled span shows.

    The last arrival is at the span's end, the first is Beta(1, n - 1) of it in (15.2 / n at 1e-6 two-sided, one
    more for n + 1 gaps), and a real client's first send is late: -(1 % + 1/n + 0.1/span), +(1 % + 16/n + 0.3/span).
    """
    return Interval(-(0.01 + 1 / n + 0.1 / span), 0.01 + 16 / n + 0.3 / span)


def even_spacing_bounds(n: int) -> Interval:
    """Return the relative deviations of the half-lag slope of an honest evenly spaced sender: max(1 %, 2 / n)."""
    bound = max(0.01, 2 / n)
    return Interval(-bound, bound)
