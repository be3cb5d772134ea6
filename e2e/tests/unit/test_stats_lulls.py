"""Are lulls and crowds bounded as their laws say, found where they are, and excused by no more than a pause?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma as gamma_law
from scipy.stats import poisson as poisson_law

from loadproof.checks import stats_lulls
from loadproof.checks.stats_lulls import (
    CROWDS_S,
    JITTER_S,
    LULLS_S,
    crowd_bound,
    crowds,
    emptiest,
    fewest_in,
    lull_bound,
)
from tests.unit import forge
from tests.unit.forge_times import Seconds

RATE, ALPHA = 40.0, 1e-6


def drawn(n: int = 2000, rate: float = RATE, shape: float = 1.0, seed: int = 1) -> Seconds:
    return forge.gamma(n, rate, shape, np.random.default_rng(seed))


def at_once(times: Seconds, at_s: float, more: int) -> Seconds:
    """So many more within a millisecond."""
    return np.sort(np.concatenate([times, at_s + np.linspace(0, 1e-3, more)]))


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0, 100.0])
def test_the_emptiest_stretch_is_the_one_a_loop_finds_and_its_rate_the_one_of_the_law(shape: float) -> None:
    times = drawn(600, shape=shape)
    for stretch in emptiest(times, shape, ALPHA):
        begins = [t for t in times if t + stretch.width_s <= times[-1]]
        counts = [sum(t < other <= t + stretch.width_s for other in times) for t in begins]
        assert stretch.events == min(counts)
        assert stretch.at_s == begins[counts.index(min(counts))]
        # k + 1 gaps take longer than the width with just this probability, at this rate
        longer = gamma_law.sf(stretch.width_s, (stretch.events + 1) * shape, scale=1 / (shape * stretch.rate))
        assert longer == pytest.approx(ALPHA / (2 * len(LULLS_S) * len(begins)), rel=1e-6)


def test_of_poisson_events_the_rate_is_the_upper_end_of_the_exact_interval() -> None:
    for stretch in emptiest(drawn(), 1.0, ALPHA):
        begins = int(np.count_nonzero(drawn() + stretch.width_s <= drawn()[-1]))
        so_few = poisson_law.cdf(stretch.events, stretch.rate * stretch.width_s)
        assert so_few == pytest.approx(ALPHA / (2 * len(LULLS_S) * begins), rel=1e-6)


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("rate", [0.5, 40.0, 5000.0])
@pytest.mark.parametrize("width", LULLS_S)
def test_the_fewest_that_are_explained_are_just_that(width: float, rate: float, shape: float) -> None:
    n, level = 600, ALPHA / (2 * len(LULLS_S) * 600)
    fewest = fewest_in(width, rate, n, shape, ALPHA)

    def longer(events: int) -> float:
        return float(gamma_law.sf(width, (events + 1) * shape, scale=1 / (shape * rate)))

    assert longer(fewest) >= level
    assert fewest == 0 or longer(fewest - 1) < level


@pytest.mark.parametrize(("begin", "lasts", "wrong"), [(20.0, 2.0, True), (20.0, 0.2, False), (0.5, 5.0, True)])
def test_a_stretch_without_events_is_found_where_it_is(begin: float, lasts: float, wrong: bool) -> None:
    times = drawn()
    times = times[(times < begin) | (times >= begin + lasts)]
    assert (lull_bound(times, RATE, 1.0, ALPHA) > 0) is wrong
    worst = min(emptiest(times, 1.0, ALPHA), key=lambda stretch: stretch.rate)
    assert not wrong or begin - 10 < worst.at_s < begin + lasts


def test_what_is_shorter_than_every_width_has_no_stretch() -> None:
    assert emptiest(np.linspace(0, 1.9, 50), 1.0, ALPHA) == []
    assert lull_bound(np.zeros(50), RATE, 1.0, ALPHA) == -1.0
    assert [stretch.width_s for stretch in emptiest(np.linspace(0, 5.0, 50), 1.0, ALPHA)] == [2.0, 5.0]


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_the_fullest_moment_is_bounded_by_its_law(shape: float) -> None:
    times = at_once(drawn(shape=shape), 10.0, 200)
    for stretch in crowds(times, shape, ALPHA):
        assert stretch.events >= 200
        assert stretch.at_s == pytest.approx(10.0, abs=stretch.width_s)
        gaps = np.diff(times, prepend=times[0] - 0.5)
        place = int(np.searchsorted(times, stretch.at_s))
        before = gaps[np.searchsorted(times, stretch.at_s - 0.5) : place + 1]
        time = float(np.sort(before)[-2:].sum()) + stretch.width_s + JITTER_S
        soon = gamma_law.cdf(time, (stretch.events - 1) * shape, scale=1 / (shape * stretch.rate))
        assert soon == pytest.approx(ALPHA / (2 * len(CROWDS_S) * len(times)), rel=1e-6)


@pytest.mark.parametrize(("held_s", "wrong"), [(0.0, True), (0.1, True), (0.5, False)])
def test_a_crowd_is_excused_by_the_silence_before_it_and_no_more(held_s: float, wrong: bool) -> None:
    rate = 400.0
    times = drawn(8000, rate)
    held = (times > 10.0) & (times < 10.0 + held_s)
    times = at_once(times[~held], 10.0 + held_s, 200)  # 0.5 s of requests
    assert (crowd_bound(times, rate, 1.0, ALPHA) > 0) is wrong


def test_a_pause_that_sends_later_what_it_held_back_is_no_crowd() -> None:
    rng = np.random.default_rng(4)
    for rate in (100.0, 1000.0, 4000.0):
        times = forge.sent(forge.poisson(round(20 * rate), rate, rng), rng, pauses_per_s=1.0, late_first_s=0.0)
        assert crowd_bound(times, rate, 1.0, ALPHA) < 0


@pytest.mark.parametrize("n", [1, 2, 3, 7, 64, 500])
def test_the_two_longest_gaps_against_a_loop(n: int) -> None:
    rng = np.random.default_rng(n)
    gaps, since = rng.random(n), np.array([rng.integers(0, i + 1) for i in range(n)])
    expected = [np.sort(gaps[first : i + 1])[-2:].sum() for i, first in enumerate(since)]
    assert stats_lulls._two_longest(gaps, since).tolist() == pytest.approx(expected)


def test_many_pauses_do_not_hide_the_one_crowd_that_none_explains() -> None:
    """Fuller moments, each after a silence, do not keep the others out."""
    rate = 1000.0
    times = drawn(60_000, rate)
    for begin in np.arange(5.0, 55.0, 2.0).tolist():
        held = (times >= begin) & (times < begin + 0.1)
        times[held] = begin + 0.1 + np.linspace(0, 2e-3, np.count_nonzero(held))
    assert crowd_bound(times, rate, 1.0, ALPHA) < 0
    crowd = at_once(times, 30.0, 60)
    assert crowd_bound(crowd, rate, 1.0, ALPHA) > 0
    assert max(crowds(crowd, 1.0, ALPHA), key=lambda one: one.rate).at_s == pytest.approx(30.0, abs=0.02)


@pytest.mark.parametrize("times", [np.zeros(1), np.zeros(2), np.zeros(300), np.array([0.0, 1e6])])
def test_few_or_equal_times_have_a_finite_answer(times: Seconds) -> None:
    found = crowds(times, 1.0, ALPHA)
    assert [stretch.width_s for stretch in found] == list(CROWDS_S)
    assert all(np.isfinite(stretch.rate) and stretch.rate >= 0 for stretch in found)
    assert (crowd_bound(times, RATE, 1.0, ALPHA) > 0) is (len(times) == 300)


@pytest.mark.parametrize("shape", [0.25, 1.0, 16.0])
def test_the_ideal_law_is_blamed_no_more_often_than_the_level(shape: float) -> None:
    rng, level, runs = np.random.default_rng(9), 0.05, 300
    blamed = np.zeros(2)
    for _ in range(runs):
        times = forge.gamma(500, 20.0, shape, rng)
        blamed += [lull_bound(times, 20.0, shape, level) > 0, crowd_bound(times, 20.0, shape, level) > 0]
    # one side each: half the level, and 4 standard deviations of such a number
    assert blamed.max() <= runs * level / 2 + 4 * (runs * level / 2) ** 0.5
