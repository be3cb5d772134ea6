"""Do gaps between events follow a gamma law, in no order, without one that is too long? No words of the domain.

Each `*_bound` is a lower confidence bound of an effect: above 0 with a probability of at most `alpha` when gaps are
independent draws of the law. The floor that an effect must pass before it counts is the caller's. Left out: how events
lie in time (`stats_counts`, `stats_lattice`).
"""

from __future__ import annotations

import math

import numpy as np

type Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

RANKS_ENOUGH = 100_000


def gamma_cdf(gaps: Floats, shape: float) -> Floats:
    """Return the gamma law's distribution function for gaps in units of their mean."""
    from scipy.special import gammainc  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    return -np.expm1(-gaps) if shape == 1 else np.asarray(gammainc(shape, shape * gaps))


def gaps_distance(gaps: Floats, shape: float) -> float:
    """Return the largest distance of the gaps' distribution function from the gamma law's of their own mean, 0 to 1.

    Kolmogorov's D, for k >= 1 gaps; a share of the gaps. From 100,000 gaps on at every (k // 100,000)-th of them, which
    makes it smaller by at most 2e-5. 1 when all gaps are 0.
    """
    k, mean = len(gaps), float(gaps.mean())
    if mean <= 0:
        return 1.0
    at = np.arange(0, k, max(1, k // RANKS_ENOUGH))
    law = gamma_cdf(np.sort(gaps)[at] / mean, shape)
    return float(max((law - at / k).max(), ((at + 1) / k - law).max()))


def dkw(k: int, alpha: float) -> float:
    """Return sqrt(ln(2 / alpha) / 2k): D passes it with less than alpha (Dvoretzky, Kiefer, Wolfowitz; Massart)."""
    return math.sqrt(math.log(2 / alpha) / (2 * k))


def gaps_bound(gaps: Floats, shape: float, alpha: float) -> float:
    """Return by how much the gaps' law differs at least from gamma gaps: D - dkw. Conservative: the mean is theirs."""
    return gaps_distance(gaps, shape) - dkw(len(gaps), alpha)


def lags(k: int) -> int:
    """Return up to which lag k gaps are correlated: a quarter of them, 1 at least."""
    return max(1, k // 4)


def order_correlation(gaps: Floats) -> tuple[float, int]:
    """Return the rank correlation of gaps at the lag (1 to k // 4) where it is largest, and that lag.

    sum of (R_i - mean)(R_i+lag - mean) / sum of (R_i - mean)^2, with mid-ranks, all lags at once by Fourier transform;
    (0, 1) where all gaps are equal.
    """
    k = len(gaps)
    ranks = mid_ranks(gaps)
    ranks -= ranks.mean()
    whole = float(ranks @ ranks)
    if whole <= 0:
        return 0.0, 1
    length = 1 << (k + lags(k)).bit_length()
    power = np.abs(np.fft.rfft(ranks, length)) ** 2
    products = np.fft.irfft(power, length)[1 : lags(k) + 1] / whole
    largest = int(np.argmax(np.abs(products)))
    return float(products[largest]), largest + 1


def mid_ranks(values: Floats) -> Floats:
    """Return ranks from 1 on, equal ones' mean: scipy.stats.rankdata, without the second that scipy.stats loads for."""
    _, which, times = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(times) - (times - 1) / 2)[which])


def order_noise(k: int, alpha: float) -> float:
    """Return what the largest of k // 4 rank correlations of k gaps passes with less than alpha, on either side.

    sqrt(2 ln(2 lags / alpha) / k): the tail bound of a normal law, some 8 % above its quantile at 1e-6.
    """
    return math.sqrt(2 * math.log(2 * lags(k) / alpha) / k)


def order_bound(gaps: Floats, alpha: float) -> float:
    """Return how large the largest rank correlation of gaps, whatever its sign, is at least."""
    return abs(order_correlation(gaps)[0]) - order_noise(len(gaps), alpha)


def longest_honest_gap(k: int, shape: float, alpha: float) -> float:
    """Return what the longest of k gamma gaps passes with alpha / 2 at most, in mean gaps (a = 1: ln(2k / alpha))."""
    from scipy.special import gammainccinv  # noqa: PLC0415 -- as above

    return float(gammainccinv(shape, alpha / (2 * k))) / shape


def silence_bound(gaps: Floats, rate: float, shape: float, alpha: float) -> float:
    """Return how much longer the longest gap is than the law explains at `rate`, in seconds (of gaps: k >= 1)."""
    return float(gaps.max()) - longest_honest_gap(len(gaps), shape, alpha) / rate
