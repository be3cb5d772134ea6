"""How even was the spacing of arrivals?

Residuals from the line whose slope is the half-lag one, with its origin at their 2 % quantile: how much later than
the line each arrival was; and that slope of the second half of the arrivals against the first's. The first second is
left out of both, because a first send may be late. And the longest gap, over all arrivals (docs/statistics.md:
arrivals, constant). Left out: random spacing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from loadproof.load.arrivals import Seconds, half_lag_rate

SETTLED_S = 1.0


@dataclass(frozen=True)
class Evenness:
    """Times in seconds, rates per second; `n` arrivals came after the first second; zeros where there are none."""

    n: int
    median_late_s: float
    p75_late_s: float
    p90_late_s: float
    worst_late_s: float
    longest_gap_s: float
    first_half_rate: float
    second_half_rate: float


def measure_evenness(arrivals_s: Seconds) -> Evenness:
    """Measure arrivals, ascending, in seconds since the first."""
    longest = float(np.diff(arrivals_s).max()) if len(arrivals_s) > 1 else 0.0
    rate = half_lag_rate(arrivals_s)
    settled = np.flatnonzero(arrivals_s >= SETTLED_S)
    if not len(settled) or not 0 < rate < np.inf:
        return Evenness(0, 0.0, 0.0, 0.0, 0.0, longest, 0.0, 0.0)
    after = arrivals_s[settled]
    residuals = after - settled / rate
    late = residuals - np.quantile(residuals, 0.02)
    median, p75, p90, worst = np.quantile(late, [0.5, 0.75, 0.9, 1.0]).tolist()
    half = len(after) // 2
    return Evenness(len(settled), median, p75, p90, worst, longest, half_lag_rate(after[:half]),
                    half_lag_rate(after[half:]))  # fmt: skip
