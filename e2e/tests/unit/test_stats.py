"""Are the intervals those of the laws, with the false alarms they promise, and the estimators what they say?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import beta, binomtest, chi2, expon, poisson

from loadproof.checks import stats
from loadproof.load.arrivals import end_point_rate, half_lag_rate, span_s
from tests.unit import forge

GARWOOD_95 = {1: (0.03, 5.57), 5: (1.62, 11.67), 10: (4.80, 18.39), 20: (12.22, 30.89), 100: (81.36, 121.63)}
"""Exact 95 % limits of a Poisson mean by its count: F. Garwood, Fiducial limits for the Poisson distribution,
Biometrika 28 (1936)."""

NIST_CHI_SQUARED = {10: (3.247, 20.483), 20: (9.591, 34.170), 50: (32.357, 71.420), 100: (74.222, 129.561)}
"""Critical values at 0.025 and 0.975, NIST/SEMATECH e-Handbook of Statistical Methods, section 1.3.6.7.4."""


@pytest.mark.parametrize(("count", "limits"), GARWOOD_95.items())
def test_the_exponential_interval_has_the_published_poisson_limits(count: int, limits: tuple[float, float]) -> None:
    # t_k > 1 exactly when fewer than k arrive within 1: the limits of a count are those of k and k + 1 gaps
    assert stats.gamma_rate_interval(count, 1.0, alpha=0.05).low == pytest.approx(limits[0], abs=5.1e-3)
    assert stats.gamma_rate_interval(count + 1, 1.0, alpha=0.05).high == pytest.approx(limits[1], abs=5.1e-3)


@pytest.mark.parametrize("gaps", [1, 5, 20, 600])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_the_exponential_interval_is_the_poisson_law_turned_round(gaps: int, alpha: float) -> None:
    interval = stats.gamma_rate_interval(gaps, 1.0, alpha=alpha)
    assert poisson.sf(gaps - 1, interval.low) == pytest.approx(alpha / 2, rel=1e-6)
    assert poisson.cdf(gaps - 1, interval.high) == pytest.approx(alpha / 2, rel=1e-6)


@pytest.mark.parametrize(("freedom", "limits"), NIST_CHI_SQUARED.items())
@pytest.mark.parametrize("shape", [0.5, 1.0, 2.5])
def test_the_gamma_interval_has_the_published_chi_squared_limits(
    freedom: int, limits: tuple[float, float], shape: float
) -> None:
    gaps, span = round(freedom / (2 * shape)), 3.0
    interval = stats.gamma_rate_interval(gaps, span, shape, alpha=0.05)
    assert 2 * shape * span * interval.low == pytest.approx(limits[0], abs=1e-3)
    assert 2 * shape * span * interval.high == pytest.approx(limits[1], abs=1e-3)


def test_the_level_is_one_in_a_million_on_both_sides_together() -> None:
    interval = stats.gamma_rate_interval(50, 2.0)
    assert 2 * 2.0 * interval.low == pytest.approx(chi2.ppf(5e-7, 100))
    assert 2 * 2.0 * interval.high == pytest.approx(chi2.isf(5e-7, 100))
    assert (stats.ALPHA, round(stats.Z, 2), round(stats.Z_POWER, 2)) == (1e-6, 4.89, 1.28)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("gaps", "alpha"), [(20, 1e-2), (100, 1e-2), (100, 1e-3)])
def test_false_alarms_are_as_many_as_promised(shape: float, gaps: int, alpha: float) -> None:
    rng, rate, runs = np.random.default_rng(31), 7.0, 20_000
    spans = sum(rng.gamma(shape, 1 / (shape * rate), runs) for _ in range(gaps))
    unit = stats.gamma_rate_interval(gaps, 1.0, shape, alpha)  # the interval of a span is this one over the span
    wrong = int(np.count_nonzero((rate * spans < unit.low) | (rate * spans > unit.high)))
    assert binomtest(wrong, runs, alpha).pvalue > 1e-4


@pytest.mark.parametrize("span", [0.01, 1.0, 40.0])
def test_the_interval_scales_with_the_span(span: float) -> None:
    unit, scaled = stats.gamma_rate_interval(30, 1.0), stats.gamma_rate_interval(30, span)
    assert (scaled.low * span, scaled.high * span) == pytest.approx((unit.low, unit.high))


def test_no_span_is_an_infinite_rate() -> None:
    assert 1e9 not in stats.gamma_rate_interval(30, 0.0)
    assert stats.honest_rate_interval(599, 0.0).low > 1000
    assert stats.honest_rate_interval(599, 0.05).high == math.inf


def test_lateness_widens_the_interval_by_what_it_says_and_nothing_else() -> None:
    bare, honest = stats.gamma_rate_interval, stats.honest_rate_interval(599, 15.0)
    assert honest.low == bare(599, 15.4).low
    assert honest.high == bare(599, 14.9).high


def test_an_interval_contains_its_ends() -> None:
    interval = stats.Interval(1.0, 2.0)
    assert [value in interval for value in (0.999, 1.0, 1.5, 2.0, 2.001)] == [False, True, True, True, False]


@pytest.mark.parametrize("n", [51, 600, 10_000])
def test_the_smallest_deviations_are_the_written_formulas(n: int) -> None:
    # docs/statistics.md, at the end: poisson rate (z + 1.28) / sqrt(n - 1); fixed-span and constant: the bounds
    assert stats.gamma_rate_smallest_deviation(n - 1) == pytest.approx((4.8916 + 1.2816) / math.sqrt(n - 1), rel=1e-4)
    assert stats.gamma_rate_smallest_deviation(n - 1, 4.0) == pytest.approx(
        stats.gamma_rate_smallest_deviation(n - 1) / 2
    )
    bounds = stats.fixed_span_bounds(n, 15.0)
    assert bounds.low == pytest.approx(-(0.01 + 1 / n + 0.1 / 15))
    # a late first send makes the shortest span of the law shorter still
    assert bounds.high == pytest.approx((n - 1) / n / (beta.ppf(5e-7, n - 1, 2) - 0.3 / 15) - 1 + 0.01)
    assert stats.even_spacing_bounds(n).high == -stats.even_spacing_bounds(n).low == max(0.01, 2 / n)


def test_the_bounds_that_statistics_md_quotes() -> None:
    bounds = stats.fixed_span_bounds(600, 15.0)
    assert (round(bounds.low, 3), round(bounds.high, 3)) == (-0.018, 0.059)
    # the n that 5 % and 10 % need for a power of 90 %
    assert stats.gamma_rate_smallest_deviation(15_243) == pytest.approx(0.05, rel=1e-3)
    assert stats.gamma_rate_smallest_deviation(3_810) == pytest.approx(0.1, rel=1e-3)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_the_printed_deviation_is_that_of_the_formula_where_n_and_span_are_large(shape: float) -> None:
    gaps, rate = 1_000_000, 10.0
    # the floor is passed by 9 in 10 where chance adds 1.28 deviations to it
    formula = max(0.01 + 1.28 / math.sqrt(shape * gaps), stats.gamma_rate_smallest_deviation(gaps, shape))
    seen = stats.honest_rate_visible(gaps, rate, shape)
    assert (-seen.low, seen.high) == pytest.approx((formula, formula), rel=0.02)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
@pytest.mark.parametrize(("gaps", "rate"), [(100, 10.0), (599, 40.0), (5000, 100.0)])
def test_the_printed_deviation_is_seen_in_9_of_10_by_the_exact_law(shape: float, gaps: int, rate: float) -> None:
    seen, scale = stats.honest_rate_visible(gaps, rate, shape), 2 * shape * rate
    freedom = 2 * shape * gaps
    # the span of a sender at rate (1 + d) is chi-squared / (2 a rate (1 + d)); of the worst honest lateness it is
    # 0.4 s shorter (a late first send and a pause) or 0.1 s longer than of its law
    longest = chi2.isf(5e-7, freedom) / scale + 0.1
    shortest = chi2.ppf(5e-7, freedom) / scale - 0.4
    assert chi2.sf(longest * scale * (1 + seen.low), freedom) == pytest.approx(0.9)
    assert chi2.cdf(shortest * scale * (1 + seen.high), freedom) == pytest.approx(0.9)


def test_too_little_for_a_late_first_event_is_never_seen_from_above() -> None:
    assert stats.honest_rate_visible(49, 1000.0).high == math.inf
    assert stats.honest_rate_visible(49, 1000.0).low > -1


@pytest.mark.parametrize("n", [50, 100, 200, 600, 5000])
def test_the_fixed_span_bounds_hold_the_law_at_its_level(n: int) -> None:
    bounds = stats.fixed_span_bounds(n, 1e9)  # no lateness: the law alone
    # t_n = S and t_1 / S is Beta(1, n - 1): the rate over n / S is (n - 1) / n / (1 - t_1 / S)
    beyond = beta.sf(1 - (n - 1) / n / (1 + bounds.high), 1, n - 1)
    assert beyond < 5e-7
    assert (n - 1) / n - 1 > bounds.low
    # n + 1 gaps: (t_n - t_1) / S is Beta(n - 1, 2)
    other = beta.cdf((n - 1) / n / (1 + bounds.high), n - 1, 2)
    assert other < (5e-6 if n == 50 else 1.2e-6)


@pytest.mark.parametrize("shape", [0.1, 1.0, 4.0])
def test_gaps_to_see_a_rate_leave_a_tenth(shape: float) -> None:
    gaps = stats.gaps_to_see_a_rate(shape)
    assert stats.gamma_rate_smallest_deviation(gaps, shape) <= 0.9
    assert stats.gamma_rate_smallest_deviation(gaps - 1, shape) > 0.9


@pytest.mark.parametrize(
    ("times", "span", "by_ends", "by_half_lags"),
    [
        ([], 0.0, 0.0, 0.0),
        ([3.0], 0.0, 0.0, 0.0),
        ([1.0, 3.0], 2.0, 0.5, 0.5),
        ([5.0, 5.0], 0.0, math.inf, math.inf),
        ([0.0, 1.0, 2.0, 3.0], 3.0, 1.0, 1.0),
        # a late first send moves the ends and not the median: lags of h = 2 are 1.2, 2, 2, 2
        ([0.8, 1.0, 2.0, 3.0, 4.0, 5.0], 4.2, 5 / 4.2, 3 / 3.0),
        # odd n: h = 2, lags 3 (of 0), 4 (of 1), 5 (of 3)
        ([0.0, 1.0, 3.0, 5.0, 8.0], 8.0, 0.5, 2 / 4),
        ([0.0, 0.0, 0.0, 9.0], 9.0, 1 / 3, 2 / 4.5),
        ([0.0, 1.0, 2.0, 10.0], 10.0, 0.3, 2 / 5.5),
        ([0.0, 0.0, 0.0, 0.0, 9.0], 9.0, 4 / 9, math.inf),
    ],
)
def test_the_estimators_by_hand(times: list[float], span: float, by_ends: float, by_half_lags: float) -> None:
    arrivals = np.array(times)
    assert span_s(arrivals) == pytest.approx(span)
    assert end_point_rate(arrivals) == pytest.approx(by_ends)
    assert half_lag_rate(arrivals) == pytest.approx(by_half_lags)


def test_half_lags_do_not_see_noise_that_moves_the_ends() -> None:
    rng = np.random.default_rng(8)
    runs = [forge.sent(forge.constant(600, 40), rng, pauses_per_s=1.0) for _ in range(40)]
    assert max(abs(half_lag_rate(times) / 40 - 1) for times in runs) < 1e-3
    assert max(abs(end_point_rate(times) / 40 - 1) for times in runs) > 5e-3


def test_a_late_first_send_moves_half_lags_below_the_smallest_span_of_the_rate_check() -> None:
    rng = np.random.default_rng(9)
    worst = [
        max(abs(half_lag_rate(forge.sent(forge.constant(n, 1000), rng)) / 1000 - 1) for _ in range(40))
        for n in (1000, 2000)
    ]
    assert worst[0] > 0.01 > worst[1]


def test_the_forge_draws_what_it_says() -> None:
    rng = np.random.default_rng(3)
    gaps = np.diff(forge.gamma(20_001, 40.0, 4.0, rng))
    assert gaps.mean() * 40 == pytest.approx(1, abs=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(0.5, abs=0.02)
    assert np.median(np.diff(forge.poisson(20_001, 40.0, rng))) * 40 == pytest.approx(expon.ppf(0.5), abs=0.03)
    assert forge.fixed_span(600, 40.0, rng)[-1] == pytest.approx(15.0)
    late = forge.sent(forge.constant(600, 40.0), rng) - forge.constant(600, 40.0)
    assert late.min() >= 0.1e-3
    assert np.median(late) < 4e-3


@pytest.mark.parametrize("mean", [0.5, 5.0, 50.0, 1000.0, 1e6])
@pytest.mark.parametrize("alpha", [1e-2, 1e-6])
def test_the_numbers_of_a_window_are_the_poisson_laws(mean: float, alpha: float) -> None:
    held = stats.count_interval(mean, alpha=alpha)
    assert (held.low, held.high) == (poisson.ppf(alpha / 2, mean), poisson.isf(alpha / 2, mean))


@pytest.mark.parametrize("count", GARWOOD_95)
def test_the_numbers_of_a_window_have_the_published_interval(count: int) -> None:
    low, high = GARWOOD_95[count]
    assert count in stats.count_interval(low + 0.006, alpha=0.05)
    assert count in stats.count_interval(high - 0.006, alpha=0.05)
    assert count not in stats.count_interval(low - 0.006, alpha=0.05)
    assert count not in stats.count_interval(high + 0.006, alpha=0.05)


@pytest.mark.parametrize("shape", [0.5, 4.0])
def test_the_numbers_of_a_window_of_gamma_gaps(shape: float) -> None:
    rng, mean, runs = np.random.default_rng(8), 60.0, 40_000
    times = np.cumsum(rng.gamma(shape, 1 / shape, (runs, 160)), axis=1)
    counts = (times <= mean).sum(axis=1)
    held = stats.count_interval(mean, shape, alpha=1e-2)
    outside = int(np.count_nonzero((counts < held.low) | (counts > held.high)))
    assert binomtest(outside, runs, 1e-2, alternative="greater").pvalue > 1e-4
    tighter = np.count_nonzero((counts <= held.low) | (counts >= held.high))
    assert binomtest(int(tighter), runs, 1e-2, alternative="less").pvalue > 1e-4


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_the_span_of_rescaled_gaps_is_within_its_bound_as_often_as_promised(shape: float) -> None:
    rng, n, runs, alpha = np.random.default_rng(9), 100, 20_000, 1e-2
    gaps = rng.gamma(shape, 1.0, (runs, n + 1))
    spans = gaps[:, 1:-1].sum(axis=1) / gaps.sum(axis=1)
    bound = stats.fixed_span_bounds(n, 1e9, shape, alpha)
    beyond = int(np.count_nonzero((n - 1) / n / spans - 1 > bound.high - stats.FLOOR))
    assert binomtest(beyond, runs, alpha / 2, alternative="two-sided").pvalue > 1e-4
