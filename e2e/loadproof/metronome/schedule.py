"""When is each request of an open loop to be sent?

Pure functions from (arrival process, rate, count or duration, generator) to offsets in seconds from the start of the
stage, ascending. No clock and no sending; closed loops have no schedule.
"""

from __future__ import annotations

import math

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.metronome.stage import Offsets, Stage

_ROUNDING = 1e-9  # 0.1 * 30 is a little above 3, and no request more


def generator(seed: int, stage: int = 0) -> np.random.Generator:
    """Return the generator of a stage's gaps; the first stage's is the seed's own."""
    return np.random.default_rng([seed, stage])


def stage_offsets_s(stage: Stage, arrival: Arrival, rng: np.random.Generator) -> Offsets:
    """Return the offsets of a stage with a rate: by its number or its duration, then what a wrong kind makes of them.

    By duration: `constant`, `poisson` and `gamma` have every offset below `duration_s`, as many as there are, which for
    the two random ones is random; `fixed-span` has round(rate * duration_s), rescaled to it.
    """
    assert stage.rate_per_s is not None  # noqa: S101  # the caller's duty
    if stage.num_requests is not None:
        offsets = offsets_s(arrival, count=stage.num_requests, rate_per_s=stage.rate_per_s, rng=rng)
    else:
        assert stage.duration_s is not None  # noqa: S101  # one of the two is given
        offsets = _within(arrival, stage.duration_s, stage.rate_per_s, rng)
    for change in stage.reschedule if len(offsets) else ():
        offsets = np.sort(change(offsets, stage.rate_per_s))
    return offsets


def offsets_s(arrival: Arrival, *, count: int, rate_per_s: float, rng: np.random.Generator) -> Offsets:
    """Return `count` offsets in seconds, ascending, for `rate_per_s` arrivals a second.

    `constant`: the k-th (from 0) at k / rate, so the first at 0. `gamma(a)`: sums of gaps of the gamma law of shape a
    and mean 1 / rate (coefficient of variation 1 / sqrt(a)); `poisson` is a = 1, exponential gaps. `fixed-span(a)`: the
    same gaps rescaled so that the last arrival is exactly at count / rate (statistics: t_n = S, t_1 / S ~ Beta(a,
    a (n - 1)), since a sum of gammas is independent of the shares of its terms). `count` >= 1 and `rate_per_s` > 0 are
    the caller's duty.
    """
    if arrival.law is Law.CONSTANT:
        return np.arange(count, dtype=np.float64) / rate_per_s
    sums: Offsets = np.cumsum(rng.standard_gamma(arrival.shape, count)) / arrival.shape
    if arrival.law is Law.FIXED_SPAN:
        # x / x is exactly 1, so the last offset is the span itself and not the span but for a rounding.
        return sums / float(sums[-1]) * (count / rate_per_s)
    return sums / rate_per_s


def _within(arrival: Arrival, duration_s: float, rate_per_s: float, rng: np.random.Generator) -> Offsets:
    expected = rate_per_s * duration_s
    if arrival.law is Law.CONSTANT:
        return np.arange(math.ceil(expected - _ROUNDING), dtype=np.float64) / rate_per_s
    if arrival.law is Law.FIXED_SPAN:
        count = max(1, round(expected))
        return offsets_s(arrival, count=count, rate_per_s=count / duration_s, rng=rng)
    offsets = np.zeros(0)
    while not offsets.size or offsets[-1] < duration_s:
        block = offsets_s(arrival, count=math.ceil(expected) + 16, rate_per_s=rate_per_s, rng=rng)
        offsets = np.concatenate([offsets, block + offsets[-1:].sum()])
    return offsets[offsets < duration_s]
