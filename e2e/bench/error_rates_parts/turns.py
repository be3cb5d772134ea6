"""What does a wrong sender do to a schedule, by how much? One effect each, in the unit of the finding that measures it.

Functions from (times in seconds, ascending; rate per second; size of the effect; generator) to times. Left out: noise,
which is added afterwards, and which finding it is (dials.py).
"""

from __future__ import annotations

import math

import numpy as np

from loadproof.checks.stats_counts import window_s
from tests.unit.forge_times import Seconds
from tests.unit.wrong_kind import Rng


def gaps_gone(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """A share of the gaps is none: that share is the distance of the two distribution functions at 0."""
    gaps = np.diff(times, prepend=0.0) / (1 - effect)
    return np.asarray(np.cumsum(np.where(rng.random(len(gaps)) < effect, 0.0, gaps)))


def swinging(times: Seconds, rate: float, effect: float, _rng: Rng) -> Seconds:
    """The rate swings by a share A, ten of the counted windows a swing.

    Counts of mean m then vary 1 + m A^2 / 2 x (sin(pi / 10) / (pi / 10))^2 times as much as without.
    """
    width = window_s(len(times), float(times[-1]), 1.0)
    swing = math.sqrt(2 * (effect - 1) / (rate * width)) / float(np.sinc(0.1))
    at = np.linspace(0, times[-1], 20_000)
    omega = 2 * math.pi / (10 * width)
    work = at + min(swing, 1.0) / omega * (1 - np.cos(omega * at))
    return np.asarray(np.interp(times, work, at))


def ordered(times: Seconds, rate: float, effect: float, rng: Rng) -> Seconds:
    """Exponential gaps, each of which follows the last: a Gaussian copula whose rank correlation is `effect`."""
    from scipy.special import ndtr  # noqa: PLC0415 -- 0.6 s that --help need not wait

    follow = 2 * math.sin(math.pi * effect / 6)
    noise = rng.standard_normal(len(times))
    state = np.empty(len(times))
    state[0] = noise[0]
    for k in range(1, len(times)):
        state[k] = follow * state[k - 1] + math.sqrt(1 - follow**2) * noise[k]
    return np.asarray(np.cumsum(-np.log1p(-ndtr(state))) / rate)


def trend(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """The rate grows evenly from 1 - effect / 2 to 1 + effect / 2 of its mean."""
    begin, span = 1 - effect / 2, times[-1]
    return np.asarray((np.sqrt(begin**2 + 2 * effect * times / span) - begin) / effect * span)


def on_ticks(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """A share of the arrivals waits for the next tenth of a second: that share is the resultant there."""
    return np.where(rng.random(len(times)) < effect, np.ceil(times * 10) / 10, times)


def on_seconds(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """So many of the seconds after the first arrival have their last arrival at the full second instead."""
    since = times - times[0]
    second = np.floor(since)
    last = np.flatnonzero(np.append(np.diff(second) > 0, False))
    moved = rng.permutation(last)[: round(effect)]
    return np.asarray(times[0] + np.where(np.isin(np.arange(len(times)), moved), second + 1, since))


def silent(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """Nothing is sent for so long in the middle, and then everything so much later."""
    middle = len(times) // 2
    gap = times[middle] - times[middle - 1]
    return times + np.where(np.arange(len(times)) >= middle, effect - gap, 0.0)


def slow_stretch(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """For up to 10 s in the middle the rate is lower by a share, and everything after that is later."""
    middle, faster = times[len(times) // 3], 1 - effect
    since = np.maximum(times - middle, 0.0)
    return np.asarray(times - since + np.where(since < 10 * faster, since / faster, since - 10 * faster + 10))


def busy_second(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """So many requests come within 0.99 s in the middle, and everything after them is earlier."""
    first = (len(times) - round(effect)) // 2
    last = first + round(effect) - 1
    faster = 0.99 / (times[last] - times[first])
    inside = times[first] + (np.clip(times, times[first], times[last]) - times[first]) * faster
    return np.asarray(np.minimum(times, times[first]) + inside - times[first] + np.maximum(times - times[last], 0.0))


def at_once(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """So many requests come at once in the middle, those after the first before their time."""
    middle = len(times) // 2
    late = (np.arange(len(times)) >= middle) & (np.arange(len(times)) < middle + round(effect))
    return np.where(late, times[middle], times)


def late(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """Three in four are so much later than the others: the median is one of theirs."""
    return np.asarray(times + np.where(rng.random(len(times)) < 0.75, effect, 0.0))


def halves(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """The second half is faster by a share."""
    half = len(times) // 2
    return np.where(np.arange(len(times)) < half, times, times[half] + (times - times[half]) / (1 + effect))
