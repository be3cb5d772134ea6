"""What does a stationary renewal process with gamma gaps do, without a word of the domain?

Its gaps have the gamma law of shape a and mean 1 / rate; a = 1 is the Poisson process. Exact formulas of renewal theory
(D. R. Cox, Renewal Theory, 1962: chapters 2 and 4; D. R. Cox and P. A. W. Lewis, The Statistical Analysis of Series of
Events, 1966: chapter 4). Time is counted in mean gaps, so that none needs a rate. Left out: everything that looks at
data.
"""

from __future__ import annotations

import numpy as np

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

EXACT_UP_TO = 1000.0  # mean gaps; beyond, the law has long since reached its limit


def count_variance(mean: float, shape: float) -> float:
    """Return the variance of the number of events in a window of `mean` (> 0) mean gaps.

    m - m^2 + 2 x (sum over k of the mean of (m - S_k)+), S_k the sum of k gaps: a gamma variable, whose part below m
    is m P(ka, am) - k P(ka + 1, am) with the regularised incomplete gamma function P. For large m that is
    m / a + (1 - 1 / a^2) / 6. A Poisson process gives m.
    """
    from scipy.special import gammainc  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    if mean > EXACT_UP_TO:
        return mean / shape + (1 - shape**-2) / 6
    most = int(mean + 12 * np.sqrt(max(mean, 1.0) / shape) + 60 / min(1.0, shape))
    k = np.arange(1, most + 1)
    below = mean * gammainc(k * shape, shape * mean) - k * gammainc(k * shape + 1, shape * mean)
    return float(mean - mean**2 + 2 * below.sum())


def window_share(mean: float, shape: float) -> float:
    """Return the share of windows of `mean` mean gaps that have an event: m Q(a, am) + P(a + 1, am)."""
    from scipy.special import gammainc, gammaincc  # noqa: PLC0415 -- as above

    return float(mean * gammaincc(shape, shape * mean) + gammainc(shape + 1, shape * mean))


def density_after(gaps: float, shape: float) -> float:
    """Return how many events a mean gap holds, `gaps` mean gaps after an event: the renewal density; 1 in the end."""
    from scipy.special import gammaln, xlogy  # noqa: PLC0415 -- as above

    if gaps > EXACT_UP_TO:
        return 1.0
    k = shape * np.arange(1, int(gaps + 12 * np.sqrt(max(gaps, 1.0) / shape) + 60 / min(1.0, shape)) + 1)
    return float(shape * np.exp(xlogy(k - 1, shape * gaps) - shape * gaps - gammaln(k)).sum())


def spectrum(cycles: Floats, shape: float) -> Floats:
    """Return the mean of n R^2 at some frequencies, in cycles a mean gap, > 0; R is the length of the mean phase.

    (1 - |f|^2) / |1 - f|^2 with f the gaps' characteristic function; 1 for a Poisson process, 1 / a for slow cycles,
    and above 1 near a cycle a gap where gaps are regular (2.0 for a = 16).
    """
    f = (1 - 2j * np.pi * cycles / shape) ** -shape
    return np.asarray((1 - np.abs(f) ** 2) / np.abs(1 - f) ** 2)
