"""Are the statistics of counts, bursts and trends what scipy and plain loops say, and do they see a fault?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as reference

from loadproof.checks import stats_counts
from tests.unit import forge_times

ALPHA = 1e-6
RATE, N = 40.0, 2000


def poisson(seed: int = 1, n: int = N) -> np.ndarray:
    return forge_times.poisson(n, RATE, np.random.default_rng(seed))


@pytest.mark.parametrize(("n", "span_s", "shape", "width"), [
    (200, 10, 1, 0.5), (600, 60, 1, 1.0), (2000, 2000, 1, 5.0), (4000, 2000, 0.25, 10.0), (4000, 2000, 16, 2.5),
    (10**6, 100, 1, 1.0),
])  # fmt: skip
def test_windows_are_a_second_unless_few_events_or_a_short_span(
    n: int, span_s: float, shape: float, width: float
) -> None:
    assert stats_counts.window_s(n, span_s, shape) == pytest.approx(width)


def test_only_whole_windows_after_the_first_event_are_counted() -> None:
    times = np.array([5.0, 5.5, 5.99, 6.0, 6.2, 8.5, 8.9])
    assert stats_counts.window_counts(times, 1.0).tolist() == [2, 2, 0]


def test_the_dispersion_of_a_poisson_process_is_its_index_with_the_interval_of_chi_squared() -> None:
    times = poisson()
    for ratio, interval, windows in stats_counts.dispersions(times, 1.0, ALPHA):
        counts = np.histogram(times[1:] - times[0], np.arange(windows.count + 1) * windows.width_s)[0]
        assert ratio == pytest.approx(counts.var(ddof=1) / counts.mean())
        law = reference.chi2(windows.freedom)
        assert interval.low == pytest.approx(ratio * windows.freedom / law.isf(windows.alpha / 4))
        assert interval.high == pytest.approx(ratio * windows.freedom / law.ppf(windows.alpha / 4))
        assert 0.9 * (windows.count - 1) < windows.freedom < windows.count - 1


def test_wider_windows_share_the_level() -> None:
    found = stats_counts.dispersions(forge_times.poisson(10_000, RATE, np.random.default_rng(2)), 1.0, ALPHA)
    assert [windows.width_s for _, _, windows in found] == pytest.approx([1.0, 2.0, 5.0])
    assert [windows.alpha for _, _, windows in found] == pytest.approx([ALPHA / 3] * 3)


def test_clusters_and_even_spacing_are_beyond_the_interval() -> None:
    clustered = np.repeat(forge_times.poisson(N // 10, RATE / 10, np.random.default_rng(3)), 10)
    for times, ratio in ((clustered, 10.0), (forge_times.constant(N, RATE), 0.0)):
        assert stats_counts.dispersions(times, 1.0, ALPHA)[0][0] == pytest.approx(ratio, rel=0.5, abs=0.05)
        assert stats_counts.dispersion_bounds(times, 1.0, ALPHA) > 1
    assert stats_counts.dispersion_bounds(poisson(), 1.0, ALPHA) < 0


@pytest.mark.parametrize("shape", [0.5, 4.0])
def test_the_dispersion_of_gamma_gaps_is_one_beside_their_law(shape: float) -> None:
    times = forge_times.gamma(40_000, RATE, shape, np.random.default_rng(4))
    assert [ratio for ratio, _, _ in stats_counts.dispersions(times, shape, ALPHA)] == pytest.approx(
        [1.0] * 3, abs=0.25
    )
    assert stats_counts.dispersion_bounds(times, shape, ALPHA) < 0
    assert stats_counts.dispersion_bounds(times, 1.0, ALPHA) > 0.5


def test_the_surplus_against_every_stretch() -> None:
    times = np.sort(np.random.default_rng(5).uniform(0, 10, 60))
    plain = max(1 + j - i - 5 * (times[j] - times[i]) for i in range(60) for j in range(i, 60))
    more, begin, end = stats_counts.surplus(times, 5.0)
    assert more == pytest.approx(plain)
    inside = np.count_nonzero((times >= begin) & (times <= end))
    assert more == pytest.approx(inside - 5 * (end - begin))


def test_even_spacing_has_a_surplus_of_one() -> None:
    assert stats_counts.surplus(forge_times.constant(100, RATE), RATE)[0] == pytest.approx(1.0)


def test_the_busiest_second_begins_with_an_event() -> None:
    times = np.array([0.0, 0.9, 1.0, 5.0, 5.3, 5.99, 6.0, 9.0])
    assert stats_counts.busiest_second(times) == (3, 5.0)


@pytest.mark.parametrize("shape", [0.5, 1.0, 4.0])
def test_the_busiest_seconds_rate_is_where_its_gaps_are_that_short_with_the_level(shape: float) -> None:
    rate = stats_counts.rate_in_busiest(50, 600, shape, ALPHA)
    short = reference.gamma(49 * shape, scale=1 / (shape * rate)).cdf(1.0)  # the sum of 49 gaps
    assert short == pytest.approx(ALPHA / 1200)
    if shape == 1:
        assert reference.poisson(rate).sf(48) == pytest.approx(ALPHA / 1200)


def test_the_most_in_a_second_is_the_last_that_the_rate_explains() -> None:
    most = stats_counts.most_in_a_second(RATE, N, 1.0, ALPHA)
    rates = [stats_counts.rate_in_busiest(events, N, 1.0, ALPHA) for events in (most, most + 1)]
    assert rates[0] <= RATE < rates[1]


def test_a_burst_is_told_as_a_share_of_the_rate() -> None:
    assert stats_counts.burst_bound(poisson(), RATE, 1.0, ALPHA) < 0
    rushed = np.sort(np.concatenate([poisson(), np.full(160, 20.0)]))
    assert stats_counts.burst_bound(rushed, RATE, 1.0, ALPHA) > 1


def test_a_rate_that_grows_evenly_is_its_trend() -> None:
    # the places of a rate of 1 - d/2 to 1 + d/2: the inverse of u (1 - d/2) + d u^2 / 2
    grown = 0.5
    share = np.linspace(0, 1, 10_001)
    places = (-(1 - grown / 2) + np.sqrt((1 - grown / 2) ** 2 + 2 * grown * share)) / grown
    assert stats_counts.trend(places) == pytest.approx(grown, abs=1e-3)
    assert stats_counts.trend(1 - places[::-1]) == pytest.approx(-grown, abs=1e-3)


@pytest.mark.parametrize("shape", [0.5, 1.0, 16.0])
def test_the_deviation_of_the_trend_of_drawn_gaps(shape: float) -> None:
    rng = np.random.default_rng(6)
    drawn = [stats_counts.trend(np.concatenate([[0.0], rng.gamma(shape, 1, 60).cumsum()])) for _ in range(4000)]
    assert np.std(drawn) == pytest.approx(stats_counts.trend_deviation(60, shape), rel=0.04)


def test_a_trend_is_beyond_the_noise_and_none_is_not() -> None:
    growing = np.cumsum(np.random.default_rng(7).exponential(1 / RATE, N) / np.linspace(0.6, 1.4, N))
    assert stats_counts.trend_bound(growing, 1.0, ALPHA) > 0.2
    assert stats_counts.trend_bound(poisson(), 1.0, ALPHA) < 0
