"""How fast did requests arrive?

Two estimators, both infinite where requests arrived in no time at all: the end-point rate, whose law is exact
for random arrivals, and the slope by half-lag medians, which a late first send or a pause does not move, for even
spacing (docs/statistics.md: rate). Left out: which deviation is too much, and how the gaps are distributed.
"""

from __future__ import annotations

import math

import numpy as np

type Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]


def span_s(arrivals_s: Seconds) -> float:
    """Return last minus first arrival, in seconds; 0 for fewer than two."""
    return float(arrivals_s[-1] - arrivals_s[0]) if len(arrivals_s) > 1 else 0.0


def end_point_rate(arrivals_s: Seconds) -> float:
    """Return (n - 1) / (t_n - t_1), per second; 0 for fewer than two arrivals."""
    return _per_second(max(0, len(arrivals_s) - 1), span_s(arrivals_s))


def half_lag_rate(arrivals_s: Seconds) -> float:
    """Return h / median(t[i + h] - t[i]) with h = n // 2, per second; 0 for fewer than two arrivals."""
    half = len(arrivals_s) // 2
    if half < 1:
        return 0.0
    return _per_second(half, float(np.median(arrivals_s[half:] - arrivals_s[:-half])))


def _per_second(gaps: int, seconds: float) -> float:
    if gaps == 0:
        return 0.0
    return gaps / seconds if seconds > 0 else math.inf
