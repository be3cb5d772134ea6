"""What does jitter make of gamma gaps? No words of the domain.

A sender takes 0.05-0.2 ms an event, and each event comes 0.1-3 ms late: where gaps are not much longer than that, even
an honest sender's are no longer gamma gaps, and where they are far shorter, they are exponential. The share of gaps
that this moves, and the correlation that it makes, have no formula: 20,000 gaps are drawn and measured. The seed is
fixed, so the answer is a function of its arguments. Left out: pauses, which the floors of the checks allow for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from loadproof.checks.stats_gaps import gaps_distance, order_correlation

EVENTS = 20_000
DISTANCE_BY_CHANCE, CORRELATION_BY_CHANCE = 0.01, 0.03  # of so many gaps without jitter (seeded runs: 0.009, 0.026)
SEND_S, JITTER_S = (0.05e-3, 0.2e-3), (0.1e-3, 3e-3)


@dataclass(frozen=True)
class Jitter:
    """What an honest sender's jitter adds to `gaps_distance` and to the largest `order_correlation`, at most."""

    distance: float
    correlation: float


@lru_cache(maxsize=64)
def jitter_of(rate: float, shape: float) -> Jitter:
    """Return what jitter does to gamma gaps of a shape at `rate` a second."""
    rng = np.random.default_rng(20_000)
    due = rng.gamma(shape, 1 / (shape * rate), EVENTS).cumsum()
    # One event after another: each leaves when it is due or when the one before it is out.
    spent = np.concatenate([[0.0], rng.uniform(*SEND_S, EVENTS - 1).cumsum()])
    sent = np.maximum.accumulate(due - spent) + spent
    gaps = np.diff(np.sort(sent + rng.uniform(*JITTER_S, EVENTS)))
    return Jitter(distance=max(0.0, gaps_distance(gaps, shape) - DISTANCE_BY_CHANCE),
                  correlation=max(0.0, abs(order_correlation(gaps)[0]) - CORRELATION_BY_CHANCE))  # fmt: skip
