"""Are the statistics of gaps what scipy and plain loops say, and do they see the nearest wrong gaps?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as reference

from loadproof.checks import stats_gaps
from loadproof.checks.stats_jitter import jitter_of

ALPHA = 1e-6


def gamma_gaps(k: int, shape: float, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).gamma(shape, 1 / shape, k)


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("k", [1, 7, 500])
def test_the_distance_is_kolmogorovs(shape: float, k: int) -> None:
    gaps = gamma_gaps(k, shape)
    law = reference.gamma(shape, scale=gaps.mean() / shape)
    assert stats_gaps.gaps_distance(gaps, shape) == pytest.approx(reference.kstest(gaps, law.cdf).statistic)


def test_many_gaps_are_measured_at_some_of_them() -> None:
    gaps = gamma_gaps(450_000, 1.0)
    whole = reference.kstest(gaps, reference.expon(scale=gaps.mean()).cdf).statistic
    assert whole - 2e-5 <= stats_gaps.gaps_distance(gaps, 1.0) <= whole


def test_no_time_at_all_is_the_largest_distance() -> None:
    assert stats_gaps.gaps_distance(np.zeros(10), 1.0) == 1.0


def test_the_bound_of_dvoretzky_kiefer_and_wolfowitz() -> None:
    # 2 exp(-2 k D^2) is alpha there
    assert 2 * math.exp(-2 * 200 * stats_gaps.dkw(200, 0.01) ** 2) == pytest.approx(0.01)


@pytest.mark.parametrize(("shape", "other"), [(1.0, 4.0), (1.0, 0.5), (4.0, 1.0)])
def test_gaps_of_another_law_are_beyond_the_noise(shape: float, other: float) -> None:
    assert stats_gaps.gaps_bound(gamma_gaps(2000, shape), shape, ALPHA) < 0
    assert stats_gaps.gaps_bound(gamma_gaps(2000, other), shape, ALPHA) > 0.05


@pytest.mark.parametrize("rounded", [False, True])  # rounded gaps have ties
def test_the_correlation_is_that_of_ranks_at_the_lag_where_it_is_largest(rounded: bool) -> None:
    gaps = gamma_gaps(60, 1.0, 8)
    ranks = reference.rankdata(np.round(gaps, 1) if rounded else gaps)
    ranks -= ranks.mean()
    plain = [sum(ranks[i] * ranks[i + lag] for i in range(60 - lag)) / (ranks @ ranks) for lag in range(1, 16)]
    largest = int(np.argmax(np.abs(plain)))
    found, lag = stats_gaps.order_correlation(np.round(gaps, 1) if rounded else gaps)
    assert lag == largest + 1
    assert found == pytest.approx(plain[largest])


def test_equal_gaps_are_in_no_order() -> None:
    assert stats_gaps.order_correlation(np.full(300, 0.05)) == (0.0, 1)


@pytest.mark.parametrize("period", [2, 5, 50])
def test_repeated_gaps_are_seen_at_their_period(period: int) -> None:
    gaps = np.tile(gamma_gaps(period, 1.0, 4), 400 // period)
    correlation, lag = stats_gaps.order_correlation(gaps)
    # Of two gaps in turn, the next one is as much the other as the one after it is the same.
    assert (lag % period, correlation > 0) == ((0, True) if period > 2 else (1, False))
    assert abs(correlation) > 0.7
    assert stats_gaps.order_bound(gaps, ALPHA) > 0.2
    assert stats_gaps.order_bound(np.random.default_rng(2).permutation(gaps), ALPHA) < 0.1


@pytest.mark.parametrize("k", [1, 200, 10**6])
def test_the_longest_exponential_gap_has_a_logarithm(k: int) -> None:
    assert stats_gaps.longest_honest_gap(k, 1.0, ALPHA) == pytest.approx(math.log(2 * k / ALPHA))


@pytest.mark.parametrize("shape", [0.25, 4.0, 16.0])
def test_the_longest_gamma_gap_is_a_quantile(shape: float) -> None:
    bound = stats_gaps.longest_honest_gap(500, shape, ALPHA)
    assert reference.gamma(shape, scale=1 / shape).sf(bound) == pytest.approx(ALPHA / 1000)


def test_a_silence_is_told_in_seconds_beyond_the_law() -> None:
    gaps = gamma_gaps(600, 1.0) / 20
    assert stats_gaps.silence_bound(gaps, 20.0, 1.0, ALPHA) < -0.3
    gaps[300] = math.log(1200 / ALPHA) / 20 + 1.5
    assert stats_gaps.silence_bound(gaps, 20.0, 1.0, ALPHA) == pytest.approx(1.5)


def test_jitter_leaves_exponential_gaps_what_they_are() -> None:
    for rate in (1.0, 100.0, 1000.0):
        assert jitter_of(rate, 1.0).distance < 0.01


@pytest.mark.parametrize("shape", [4.0, 16.0])
def test_jitter_makes_regular_gaps_exponential_in_the_end(shape: float) -> None:
    slow, fast, fastest = (jitter_of(rate, shape) for rate in (5.0, 500.0, 20_000.0))
    assert (slow.distance, slow.correlation) == (0.0, 0.0)
    assert fast.distance > 0.1
    assert fast.correlation > 0.1  # what comes late shortens the next gap
    places = np.linspace(0, 20, 20_001)
    apart = np.abs(reference.gamma(shape, scale=1 / shape).cdf(places) - reference.expon.cdf(places)).max()
    assert fastest.distance == pytest.approx(apart, abs=0.025)
