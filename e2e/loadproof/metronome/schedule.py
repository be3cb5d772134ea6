"""When is each request of an open loop to be sent?

Pure functions from (arrival process, count, rate, seed) to offsets in seconds from the start of the
schedule, ascending. No clock and no sending; closed loops have no schedule.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loadproof.arrival import Law

Offsets = npt.NDArray[np.float64]

KNOWN_LAWS = (Law.CONSTANT, Law.FIXED_SPAN, Law.POISSON)


def offsets_s(arrival: Law, *, count: int, rate_per_s: float, seed: int) -> Offsets:
    """Return `count` offsets in seconds, ascending, for `rate_per_s` arrivals a second.

    `constant`: the k-th (from 0) at k / rate, so the first at 0. `poisson`: sums of exponential gaps.
    `fixed-span`: the same gaps rescaled so that the last arrival is exactly at count / rate
    (statistics: t_n = S, t_1 / S ~ Beta(1, n - 1)). `count` >= 1 and `rate_per_s` > 0 are the caller's duty.
    """
    if arrival is Law.CONSTANT:
        return np.arange(count, dtype=np.float64) / rate_per_s
    sums: Offsets = np.cumsum(np.random.default_rng(seed).standard_exponential(count))
    if arrival is Law.POISSON:
        return sums / rate_per_s
    # x / x is exactly 1, so the last offset is the span itself and not the span but for a rounding.
    return sums / float(sums[-1]) * (count / rate_per_s)
