"""Which statistics without their floors are measured, under which laws?

A literal table: each is given a forged run of its ideal law and a level, and says whether it would be an alarm. A
statistic that is a bound and no law (constant spacing, slots, ramps) has no level and no row. Left out: floors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.checks import stats, stats_counts, stats_gaps, stats_lattice, stats_lulls
from tests.unit.forge_times import Seconds, by_law

RATE = 40.0
"""Per second, of every ideal run: what is beside the law (0.3 s, 1 s) has a size that matters."""

type Alarm = Callable[[Seconds, Arrival, float], bool]
"""Times in seconds (ascending), the law, the level."""


@dataclass(frozen=True)
class Statistic:
    """One statistic; `exact`: its law is known, so that it alarms at the very level."""

    name: str
    alarm: Alarm
    laws: frozenset[Law] = frozenset(Law) - {Law.CONSTANT}
    exact: bool = False


def _gap(bound: Callable[[Seconds, float, float], float]) -> Alarm:
    return lambda times, law, alpha: bound(np.diff(times), law.shape, alpha) > 0


def _rate(times: Seconds, law: Arrival, alpha: float) -> bool:
    return RATE not in stats.gamma_rate_interval(len(times) - 1, float(times[-1] - times[0]), law.shape, alpha)


def _honest_rate(times: Seconds, law: Arrival, alpha: float) -> bool:
    return RATE not in stats.honest_rate_interval(len(times) - 1, float(times[-1] - times[0]), law.shape, alpha)


def _fixed_span(times: Seconds, law: Arrival, alpha: float) -> bool:
    """The law of n gaps more than arrivals: the last instant ends the span, and nothing is sent then."""
    sends, span = times[:-1], float(times[-1])
    bounds = stats.fixed_span_bounds(len(sends), math.inf, law.shape, alpha)
    deviation = (len(sends) - 1) / float(sends[-1] - sends[0]) * span / len(sends) - 1
    return deviation not in stats.Interval(bounds.low + stats.FLOOR, bounds.high - stats.FLOOR)


@lru_cache
def _counts_of(mean: float, shape: float, alpha: float) -> stats.Interval:
    return stats.count_interval(mean, shape, alpha)


def _in_window(times: Seconds, law: Arrival, alpha: float) -> bool:
    """Arrivals in half of the time that so many take."""
    window = len(times) / RATE / 2
    return int(np.searchsorted(times, window)) not in _counts_of(window * RATE, law.shape, alpha)


RANDOM = frozenset({Law.POISSON, Law.GAMMA})
STATISTICS: tuple[Statistic, ...] = (
    Statistic("rate, its exact law", _rate, RANDOM, exact=True),
    Statistic("rate, a late sender allowed for", _honest_rate, RANDOM),
    Statistic("rate of a fixed span", _fixed_span, frozenset({Law.FIXED_SPAN})),
    Statistic("number in a window", _in_window, RANDOM),
    Statistic("gaps", _gap(stats_gaps.gaps_bound)),
    Statistic("counts", lambda times, law, alpha: stats_counts.dispersion_bounds(times, law.shape, alpha) > 0),
    Statistic("order", lambda times, _law, alpha: stats_gaps.order_bound(np.diff(times), alpha) > 0),
    Statistic("silence", _gap(lambda gaps, shape, alpha: stats_gaps.silence_bound(gaps, RATE, shape, alpha))),
    Statistic("burst", lambda times, law, alpha: stats_counts.burst_bound(times, RATE, law.shape, alpha) > 0),
    Statistic("crowd", lambda times, law, alpha: stats_lulls.crowd_bound(times, RATE, law.shape, alpha) > 0),
    Statistic("lull", lambda times, law, alpha: stats_lulls.lull_bound(times, RATE, law.shape, alpha) > 0),
    Statistic("trend", lambda times, law, alpha: stats_counts.trend_bound(times, law.shape, alpha) > 0),
    Statistic("ticks", lambda times, law, alpha: stats_lattice.tick_bound(times, RATE, law.shape, alpha) > 0),
    Statistic("edge", lambda times, law, alpha: stats_lattice.edge_bound(times, RATE, law.shape, alpha) > 0),
)
BY_NAME = {statistic.name: statistic for statistic in STATISTICS}

LAWS = tuple(map(Arrival.parse, ("poisson", "fixed-span", "gamma(0.5)", "gamma(4)")))


def ideal(law: Arrival, n: int, rng: np.random.Generator) -> Seconds:
    """Return n arrivals of the law itself, with no noise at all."""
    return by_law(law, n, RATE, rng)
