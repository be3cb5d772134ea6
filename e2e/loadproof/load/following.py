"""Do requests start when others end, as they do where a client waits for a free place?

Of the starts that bring as many in flight as ever were, the share that came within 5 ms after an end, beside the share
of all moments that have an end within 5 ms before them: what a schedule that knows nothing of ends would show. From
starts and ends alone. Left out: whether anybody asked for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.concurrency import flight
from loadproof.load.requests import NEVER

if TYPE_CHECKING:
    from loadproof.load.requests import Requests

AFTER_S = 0.005


@dataclass(frozen=True)
class Following:
    """`starts` reached the most in flight, `peak`: `share` came right after an end, `by_chance` of all moments do."""

    peak: int
    starts: int
    share: float
    by_chance: float


def following(requests: Requests) -> Following:
    """Measure how starts follow ends."""
    starts = requests.start_ns
    ends = np.sort(requests.end_ns[requests.end_ns < NEVER])
    if len(starts) < 2 or starts[-1] == starts[0] or not len(ends):
        return Following(0, 0, 0.0, 0.0)
    held = flight(requests)
    full = starts[held.levels == held.peak]
    after = round(AFTER_S * 1e9)
    before = np.searchsorted(ends, full, side="right")
    since = full - ends[np.maximum(before - 1, 0)]
    follows = (before > 0) & (since <= after)
    # The moments within 5 ms after an end: ends one by one, each for no longer than up to the next.
    inside = ends[(ends >= starts[0]) & (ends < starts[-1])]
    covered = np.minimum(np.diff(np.append(inside, starts[-1])), after).sum()
    span = float(starts[-1] - starts[0])
    return Following(held.peak, len(full), float(follows.mean()), float(covered) / span)
