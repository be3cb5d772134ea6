"""Has a stretch too few events, or a moment more than what came before it explains? No words of the domain.

Null: a renewal process with gamma gaps of a shape (1: Poisson) at a rate, whose sender may pause: what a pause holds
back comes at once when it ends, and is no more than the pause held. `times` are float64[n] seconds, ascending. Each
`*_bound` is a lower confidence bound of an effect, above 0 with a probability of at most `alpha`; the floor is the
caller's. Left out: the busiest second and clusters (`stats_counts`), single gaps (`stats_gaps`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

LULLS_S = (2.0, 5.0, 10.0)
CROWDS_S = (0.005, 0.02)
LOOK_BACK_S = 0.5
"""A pause, and the time in which what it held back is sent, are within so much before a moment."""
JITTER_S = 0.003
"""So many are looked at, the fullest ones, one of each width: more than there are pauses in any usual run."""


@dataclass(frozen=True)
class Stretch:
    """`events` within `width_s` from `at_s` on; `rate`: the one, per second, that explains so many at the level."""

    width_s: float
    at_s: float
    events: int
    rate: float


def emptiest(times: Floats, shape: float, alpha: float) -> list[Stretch]:
    """Return, per width, the stretch after an event that has fewest, and the largest rate that explains it.

    So few, k, came within w when k + 1 gaps took longer: Q((k + 1) a, a x rate x w) of the regularised incomplete
    gamma function; Bonferroni over the stretches and widths, one side. Only stretches that end before the last event.
    """
    found = []
    for width in LULLS_S:
        begins = times[: np.searchsorted(times, times[-1] - width, side="right")]
        if not len(begins):
            continue
        inside = np.searchsorted(times, begins + width, side="right") - np.arange(1, len(begins) + 1)
        at = int(inside.argmin())
        rate = _largest_rate(int(inside[at]), shape, alpha / (2 * len(LULLS_S) * len(begins))) / width
        found.append(Stretch(width, float(begins[at]), int(inside[at]), rate))
    return found


def _largest_rate(events: int, shape: float, level: float) -> float:
    from scipy.special import gammainccinv  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    return float(gammainccinv((events + 1) * shape, level)) / shape


def fewest_in(width: float, rate: float, n: int, shape: float, alpha: float) -> int:
    """Return the fewest events of the emptiest stretch of a width that `rate` explains, of n stretches."""
    level = alpha / (2 * len(LULLS_S) * max(1, n))
    low, high = 0, max(1, round(rate * width))
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if _largest_rate(middle, shape, level) >= rate * width else (middle + 1, high)
    return low


def lull_bound(times: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return by what share the rate of the emptiest stretch is at least below `rate`; -1 where there is none."""
    return max((1 - stretch.rate / rate for stretch in emptiest(times, shape, alpha)), default=-1.0)


def crowds(times: Floats, shape: float, alpha: float) -> list[Stretch]:
    """Return, per width, the moment that has most beyond what it and the silence before it explain.

    Of the k events within w of one of them, those after the first were due in w, in the two longest gaps of the last
    half second, or in the jitter between: a sum of k - 1 gaps of at most that, P((k - 1) a, a x rate x time). `rate` of
    a stretch is the smallest that explains it; Bonferroni over moments and widths, one side.
    """
    from scipy.special import gammaincinv  # noqa: PLC0415 -- as above

    n = len(times)
    gaps = np.diff(times, prepend=times[:1] - LOOK_BACK_S)
    held_back = _two_longest(gaps, np.searchsorted(times, times - LOOK_BACK_S))
    found = []
    for width in CROWDS_S:
        inside = np.searchsorted(times, times + width, side="left") - np.arange(n)
        many, which = np.unique(inside, return_inverse=True)
        needed = gammaincinv(np.maximum(many - 1, 1e-9) * shape, alpha / (2 * len(CROWDS_S) * n)) / shape
        rates = needed[which] / (held_back + width + JITTER_S)
        at = int(rates.argmax())
        found.append(Stretch(width, float(times[at]), int(inside[at]), float(rates[at])))
    return found


def _two_longest(gaps: Floats, since: Ints) -> Floats:
    """Return, for each i, the sum of the two longest of gaps[since[i]] to gaps[i].

    So long two pauses, one soon after the other, may have held back what comes then. The two longest of the last 1, 2,
    4, ... gaps before each, put together by the binary digits of how many are looked at.
    """
    longest, second = gaps, np.zeros(len(gaps))
    top, following = np.zeros(len(gaps)), np.zeros(len(gaps))
    place = np.arange(len(gaps))
    count = place - since + 1
    step = 1
    while True:
        asked = np.flatnonzero(count & step)
        at = place[asked]
        one, other = top[asked], longest[at]
        following[asked] = np.maximum(np.minimum(one, other), np.maximum(following[asked], second[at]))
        top[asked] = np.maximum(one, other)
        place[asked] -= step
        if 2 * step > count.max(initial=0):
            return top + following
        # The last 2 x step gaps are the last `step` of them and those before; the first few are never asked for.
        later, before = longest[step:], longest[:-step]
        second = np.concatenate([second[:step], np.maximum(np.minimum(later, before),
                                                           np.maximum(second[step:], second[:-step]))])  # fmt: skip
        longest = np.concatenate([longest[:step], np.maximum(later, before)])
        step *= 2


def crowd_bound(times: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return by what share the rate of the fullest moment is at least above `rate`."""
    return max(stretch.rate for stretch in crowds(times, shape, alpha)) / rate - 1
