"""How can a rate's schedule be wrong?

Pure functions from the right offsets (seconds from the stage's start, ascending) and the asked rate (per second) to the
wrong ones, as many unless requests are dropped; the caller sorts them. Where a kind says nothing else, it keeps the
schedule's length, so that the mean rate alone shows nothing.
"""

from __future__ import annotations

import numpy as np

from loadproof.metronome.stage import Offsets, Reschedule

_STALL_S = 2.0
_TICK_S = 0.01
_OVERHEAD_S = 0.001


def relative_sleeps(offsets: Offsets, _: float) -> Offsets:
    """Sleep after each send instead of until the next: each gap is longer by what a send costs."""
    return offsets + _OVERHEAD_S * np.arange(len(offsets))


def second_edge(offsets: Offsets, _: float) -> Offsets:
    """Hold the last arrival of each second back until the second is over."""
    second = np.floor(offsets)
    last = np.append(second[1:] > second[:-1], False)
    return np.where(last, second + 1, offsets)


def groups_of(size: int) -> Reschedule:
    """Send `size` requests together, at the instant of the first of them."""

    def grouped(offsets: Offsets, _: float) -> Offsets:
        return offsets[np.arange(len(offsets)) // size * size]

    return grouped


def pairs(offsets: Offsets, _: float) -> Offsets:
    """Let two workers at half the rate draw from the same seed: every instant comes twice."""
    half = np.repeat(offsets[: (len(offsets) + 1) // 2], 2)[: len(offsets)]
    return half * (offsets[-1] / half[-1]) if half[-1:].sum() else half


def ticks(offsets: Offsets, _: float) -> Offsets:
    """Look at the clock every 10 ms only."""
    return np.ceil(offsets / _TICK_S) * _TICK_S


def burst_start(offsets: Offsets, _: float) -> Offsets:
    """Send the first second's requests at once."""
    return np.where(offsets < 1, 0, offsets)


def burst_end(offsets: Offsets, _: float) -> Offsets:
    """Send what the last second has left at once, when it begins."""
    return np.minimum(offsets, max(0.0, float(offsets[-1]) - 1))


def stall(offsets: Offsets, _: float) -> Offsets:
    """Stand still for 2 s in the middle, then go on with a schedule that is as much later."""
    late: Offsets = offsets + _STALL_S * (offsets >= offsets[-1] / 2)
    return late


def stall_and_catch_up(offsets: Offsets, _: float) -> Offsets:
    """Stand still for 2 s in the middle, then send at once what was due meanwhile."""
    begin = offsets[-1] / 2
    return np.where(offsets >= begin, np.maximum(offsets, begin + _STALL_S), offsets)


def trend(offsets: Offsets, _: float) -> Offsets:
    """Begin at 0.7 and end at 1.3 times the rate.

    At u of the span, 0.7 u + 0.3 u^2 of the requests were sent; here that is solved for u.
    """
    share = offsets / offsets[-1]
    moved: Offsets = offsets[-1] * (np.sqrt(0.49 + 1.2 * share) - 0.7) / 0.6
    return moved


def step(offsets: Offsets, _: float) -> Offsets:
    """Send the first half at 0.8 times the rate, and the rest so much faster that the end is in time."""
    share = offsets / offsets[-1]
    moved: Offsets = offsets[-1] * np.where(share < 0.5, share / 0.8, 0.625 + (share - 0.5) * 0.75)
    return moved


def alternating(offsets: Offsets, _: float) -> Offsets:
    """Let every second request follow the one before it at a fifth of their gap."""
    late = np.arange(len(offsets)) % 2 == 1
    before = np.append(offsets[:1], offsets[:-1])
    return np.where(late, before + (offsets - before) / 5, offsets)


def sorted_gaps(offsets: Offsets, _: float) -> Offsets:
    """Send with the right gaps in a wrong order: each run of 8 has its longer gaps last."""
    gaps = np.diff(offsets, prepend=0.0)
    return np.cumsum(np.concatenate([np.sort(gaps[k : k + 8]) for k in range(0, len(gaps), 8)]))


def without_last(count: int) -> Reschedule:
    """Never send the last `count`."""
    return lambda offsets, _: offsets[:-count]
