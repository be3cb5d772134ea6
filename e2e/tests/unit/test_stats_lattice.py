"""Are ticks and places of the second found where they are and nowhere else, by sums and loops done plainly?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from loadproof.checks import stats_lattice
from loadproof.checks.stats_lattice import Edge
from tests.unit import forge_times

ALPHA = 1e-6


def poisson(n: int, rate: float, seed: int = 1) -> np.ndarray:
    return forge_times.poisson(n, rate, np.random.default_rng(seed))


def test_only_whole_seconds_after_the_first_event_count() -> None:
    since, seconds = stats_lattice.in_whole_seconds(np.array([4.0, 4.5, 5.2, 6.0, 6.9]))
    assert seconds == 2
    assert since.tolist() == pytest.approx([0.5, 1.2])


def test_the_resultants_are_those_of_plain_phases() -> None:
    times = poisson(3000, 100.0)
    since, _ = stats_lattice.in_whole_seconds(times)
    found = {tick.period_ms: tick for tick in stats_lattice.ticks(times, 100.0, 1.0, ALPHA)}
    assert sorted(found) == [1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000]
    for period, tick in found.items():
        plain = abs(np.exp(2j * np.pi * since * 1000 / period).mean())
        assert tick.resultant == pytest.approx(plain, abs=2e-3)
        # all or nothing: 32 exp(-n R^2) is the level
        assert 32 * math.exp(-len(since) * tick.noise**2) == pytest.approx(ALPHA)


@pytest.mark.parametrize("period_ms", [4, 10, 125])
def test_ticks_are_found_at_their_period(period_ms: int) -> None:
    rate = 50.0
    times = np.ceil(poisson(2000, rate) * 1000 / period_ms) * period_ms / 1000
    found = {tick.period_ms: tick.resultant for tick in stats_lattice.ticks(times, rate, 1.0, ALPHA)}
    assert found[period_ms] > 0.99
    assert found[1000] < 0.2
    assert stats_lattice.tick_bound(times, rate, 1.0, ALPHA) > 0.8


def test_events_at_any_time_keep_to_no_tick() -> None:
    assert stats_lattice.tick_bound(poisson(2000, 50.0), 50.0, 1.0, ALPHA) < 0


@pytest.mark.parametrize("rate", [1.0, 2.0, 40.0])
def test_the_period_of_regular_gaps_themselves_is_no_tick(rate: float) -> None:
    for seed in range(40):
        times = forge_times.gamma(600, rate, 16.0, np.random.default_rng(seed))
        assert stats_lattice.tick_bound(times, rate, 16.0, 0.01) < 0.02
        assert stats_lattice.edge_bound(times, rate, 16.0, 0.01) < 0


@pytest.mark.parametrize("rate", [1.0, 20.0])
def test_ticks_far_shorter_than_a_gap_are_not_looked_at(rate: float) -> None:
    shortest = min(tick.period_ms for tick in stats_lattice.ticks(poisson(400, rate), rate, 1.0, ALPHA))
    assert shortest * rate >= 50 > (shortest // 2) * rate


@pytest.mark.parametrize("times", [np.zeros(300), np.linspace(0, 0.9, 300)])
def test_nothing_is_told_of_less_than_a_second(times: np.ndarray) -> None:
    assert stats_lattice.ticks(times, 300.0, 1.0, ALPHA) == []
    assert stats_lattice.edges(times, 300.0, 1.0) == []
    assert (stats_lattice.tick_bound(times, 300.0, 1.0, ALPHA), stats_lattice.edge_bound(times, 300.0, 1.0, ALPHA)) == (
        -1.0, -1.0)  # fmt: skip


@pytest.mark.parametrize("width", [1, 2, 4])
@pytest.mark.parametrize("events", [1, 30, 3000])
def test_the_seconds_that_are_hit_by_a_plain_loop(width: int, events: int) -> None:
    ms = np.unique(np.random.default_rng(events).integers(0, 7000, events))
    plain = np.zeros(1000, int)
    present = set(ms.tolist())
    for begin in range(7000):
        plain[begin % 1000] += any(begin + k in present for k in range(width))
    assert stats_lattice._seconds_hit(ms, width).tolist() == plain.tolist()


def fitted_into_seconds(seconds: int, each: int, seed: int = 2) -> np.ndarray:
    """Exponential gaps that are rescaled so that the last of each second falls on the next whole second."""
    gaps = np.random.default_rng(seed).exponential(1.0, (seconds, each))
    return (np.arange(seconds)[:, None] + gaps.cumsum(axis=1) / gaps.sum(axis=1, keepdims=True)).reshape(-1)


def test_one_place_of_each_second_is_found() -> None:
    times = forge_times.sent(fitted_into_seconds(30, 20), np.random.default_rng(3))
    wide = stats_lattice.edges(times, 20.0, 1.0)[1]
    assert (wide.width_ms, wide.hits >= wide.seconds - 2) == (4, True)
    assert min(wide.at_s, 1 - wide.at_s) < 0.004
    assert stats_lattice.edge_bound(times, 20.0, 1.0, ALPHA) > 0.1
    assert stats_lattice.edge_bound(poisson(600, 20.0), 20.0, 1.0, ALPHA) < 0


def test_the_share_by_chance_is_that_of_a_poisson_process() -> None:
    narrow, wide = stats_lattice.edges(poisson(2000, 50.0), 50.0, 1.0)
    assert (narrow.chance, wide.chance) == pytest.approx((1 - math.exp(-0.1), 1 - math.exp(-0.2)))


def test_the_share_is_bounded_as_by_clopper_and_pearson() -> None:
    edge = Edge(at_s=0.5, width_ms=4, hits=25, seconds=30, chance=0.1)
    low = binomtest(25, 30).proportion_ci(1 - 2 * ALPHA / 4000, method="exact").low
    assert stats_lattice.edge_effect(edge, ALPHA) == pytest.approx(low - 0.1)


def test_the_fewest_hits_are_the_first_that_pass() -> None:
    edge = Edge(at_s=0.5, width_ms=4, hits=0, seconds=30, chance=0.1)
    fewest = stats_lattice.fewest_hits(edge, 0.1, ALPHA)
    effects = [stats_lattice.edge_effect(Edge(0.5, 4, hits, 30, 0.1), ALPHA) for hits in (fewest - 1, fewest)]
    assert effects[0] <= 0.1 < effects[1]
    assert stats_lattice.fewest_hits(Edge(0.5, 4, 0, 5, 0.1), 0.1, ALPHA) == 6  # five seconds never show it
