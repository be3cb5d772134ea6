"""How fast did requests arrive?

Two estimators: the end-point rate, whose law is exact for random arrivals, and the slope by half-lag medians,
which a late first send or a pause does not move, for even spacing (statistics.md: rate).
"""

from __future__ import annotations

import numpy as np

type Seconds = np.ndarray[tuple[int], np.dtype[np.float64]]


def span_s(arrivals_s: Seconds) -> float:
    """Return last minus first arrival, in seconds; 0 for fewer than two."""
    return float(arrivals_s[-1] - arrivals_s[0]) if len(arrivals_s) > 1 else 0.0


def end_point_rate(arrivals_s: Seconds) -> float:
    """Return (n - 1) / (t_n - t_1), per second; 0 where the span is 0."""
    span = span_s(arrivals_s)
    return (len(arrivals_s) - 1) / span if span > 0 else 0.0


def half_lag_rate(arrivals_s: Seconds) -> float:
    """Return h / median(t[i + h] - t[i]) with h = n // 2, per second; 0 where that is undefined."""
    half = len(arrivals_s) // 2
    if half < 1:
        return 0.0
    step = float(np.median(arrivals_s[half:] - arrivals_s[:-half]))
    return half / step if step > 0 else 0.0
