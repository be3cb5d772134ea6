"""By how much is a wrong client wrong? Wrong kinds with a dial, in the unit of the finding that has to see them.

Each makes the journal of a client whose effect has a given size, with the usual noise of an honest one. Rows of a
literal table. Left out: the rate, whose dial is the rate itself (misses.py), and exact findings, which see everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.case import Case
from loadproof.checks.stats_counts import window_s
from loadproof.journal import Journal
from tests.unit import forge
from tests.unit.forge_client import calls_of, recorded, replies
from tests.unit.forge_loops import Calls, slots, waves
from tests.unit.forge_times import Seconds, by_law, sent
from tests.unit.wrong_kind import Ask, Rng, rate_of
from tests.unit.wrong_loops import loop

type Wrong = Callable[[Case, Rng, float], Journal]
type Turn = Callable[[Seconds, float, float, Rng], Seconds]
"""Times in seconds (ascending), the rate, the size of the effect."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How large an effect can be: at most `most`, a share of the requests, and what is printed last, if it says so."""

    most: float = math.inf
    share_of_n: float = math.inf
    printed_last: bool = False

    def allow(self, effect: float, n: int, printed: Sequence[float]) -> bool:
        """Return whether there can be such an effect."""
        last = printed[-1] if self.printed_last else math.inf
        return effect <= min(self.most, self.share_of_n * n, last)


@dataclass(frozen=True)
class Dial:
    """`wrong` makes an effect of a size that `check` measures, of which a pass prints the smallest that it sees.

    `pick` takes that size from the printed numbers; `bound`: it is a bound that is met exactly, so that an effect of
    this very size is seen or not by chance, and one beyond it always.
    """

    check: str
    what: str
    ask: Ask
    wrong: Wrong
    limits: Limits = Limits()
    pick: Callable[[Sequence[float]], float] = max
    bound: bool = False


def _turned(turn: Turn) -> Wrong:
    def wrong(asked: Case, rng: Rng, effect: float) -> Journal:
        law = asked.declaration(forge.TOOL).arrival or Arrival(Law.CONSTANT)
        times = turn(by_law(law, asked.n or 0, rate_of(asked), rng), rate_of(asked), effect, rng)
        arrived = sent(np.sort(times), rng)
        return recorded(Calls(arrived, replies(asked, rng)(len(arrived))), chunks=1)

    return wrong


def _gaps_gone(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """A share of the gaps is none: that share is the distance of the two distribution functions at 0."""
    gaps = np.diff(times, prepend=0.0) / (1 - effect)
    return np.asarray(np.cumsum(np.where(rng.random(len(gaps)) < effect, 0.0, gaps)))


def _swinging(times: Seconds, rate: float, effect: float, _rng: Rng) -> Seconds:
    """The rate swings by a share A, ten of the counted windows a swing.

    Counts of mean m then vary 1 + m A^2 / 2 x (sin(pi / 10) / (pi / 10))^2 times as much as without.
    """
    width = window_s(len(times), float(times[-1]), 1.0)
    swing = math.sqrt(2 * (effect - 1) / (rate * width)) / float(np.sinc(0.1))
    at = np.linspace(0, times[-1], 20_000)
    omega = 2 * math.pi / (10 * width)
    work = at + min(swing, 1.0) / omega * (1 - np.cos(omega * at))
    return np.asarray(np.interp(times, work, at))


def _ordered(times: Seconds, rate: float, effect: float, rng: Rng) -> Seconds:
    """Exponential gaps, each of which follows the last: a Gaussian copula whose rank correlation is `effect`."""
    from scipy.special import ndtr  # noqa: PLC0415 -- 0.6 s that --help need not wait

    follow = 2 * math.sin(math.pi * effect / 6)
    noise = rng.standard_normal(len(times))
    state = np.empty(len(times))
    state[0] = noise[0]
    for k in range(1, len(times)):
        state[k] = follow * state[k - 1] + math.sqrt(1 - follow**2) * noise[k]
    return np.asarray(np.cumsum(-np.log1p(-ndtr(state))) / rate)


def _trend(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """The rate grows evenly from 1 - effect / 2 to 1 + effect / 2 of its mean."""
    begin, span = 1 - effect / 2, times[-1]
    return np.asarray((np.sqrt(begin**2 + 2 * effect * times / span) - begin) / effect * span)


def _on_ticks(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """A share of the arrivals waits for the next tenth of a second: that share is the resultant there."""
    return np.where(rng.random(len(times)) < effect, np.ceil(times * 10) / 10, times)


def _on_seconds(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """So many of the seconds after the first arrival have their last arrival at the full second instead."""
    since = times - times[0]
    second = np.floor(since)
    last = np.flatnonzero(np.append(np.diff(second) > 0, False))
    moved = rng.permutation(last)[: round(effect)]
    return np.asarray(times[0] + np.where(np.isin(np.arange(len(times)), moved), second + 1, since))


def _silent(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """Nothing is sent for so long in the middle, and then everything so much later."""
    middle = len(times) // 2
    gap = times[middle] - times[middle - 1]
    return times + np.where(np.arange(len(times)) >= middle, effect - gap, 0.0)


def _busy_second(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """So many requests come within 0.99 s in the middle, and everything after them is earlier."""
    first = (len(times) - round(effect)) // 2
    last = first + round(effect) - 1
    faster = 0.99 / (times[last] - times[first])
    inside = times[first] + (np.clip(times, times[first], times[last]) - times[first]) * faster
    return np.asarray(np.minimum(times, times[first]) + inside - times[first] + np.maximum(times - times[last], 0.0))


def _at_once(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """So many requests come at once in the middle, those after the first before their time."""
    middle = len(times) // 2
    late = (np.arange(len(times)) >= middle) & (np.arange(len(times)) < middle + round(effect))
    return np.where(late, times[middle], times)


def _late(times: Seconds, _rate: float, effect: float, rng: Rng) -> Seconds:
    """Three in four are so much later than the others: the median is one of theirs."""
    return np.asarray(times + np.where(rng.random(len(times)) < 0.75, effect, 0.0))


def _halves(times: Seconds, _rate: float, effect: float, _rng: Rng) -> Seconds:
    """The second half is faster by a share."""
    half = len(times) // 2
    return np.where(np.arange(len(times)) < half, times, times[half] + (times - times[half]) / (1 + effect))


def _turnaround(asked: Case, rng: Rng, effect: float) -> Journal:
    calls = slots(8, rng, replies(asked, rng), n=asked.n, turnaround_s=(0.9 * effect, 1.1 * effect))
    return recorded(calls, chunks=1)


def _ramp(asked: Case, rng: Rng, effect: float) -> Journal:
    return recorded(slots(8, rng, replies(asked, rng), n=asked.n, ramp_s=effect), chunks=1)


def _waves(asked: Case, rng: Rng, effect: float) -> Journal:
    """Some rounds of 8 are waves: a slot then waits for the slowest of 8, so much longer than for its own reply."""
    latency = replies(asked, rng)(80_000).reshape(-1, 8)
    wait = float((latency.max(axis=1, keepdims=True) - latency).mean())
    return recorded(waves(8, asked.n or 0, rng, replies(asked, rng), share=effect / wait), chunks=1)


def _away(asked: Case, rng: Rng, effect: float) -> Journal:
    """Nobody sends for so long, half-way."""
    calls = calls_of(asked, rng)
    begin = float(calls.starts_s[len(calls.starts_s) // 2])
    return recorded(slots(8, rng, replies(asked, rng), n=asked.n, away_s=(begin, begin + effect)), chunks=1)


def _fresh(asked: Case, rng: Rng, effect: float) -> Journal:
    calls = calls_of(asked, rng)
    return recorded(calls, fresh=rng.random(len(calls.starts_s)) < effect, chunks=1)


def _at(arrival: str, rate: float = 40) -> Ask:
    return lambda n: forge.rate_case(n, rate, arrival)


POISSON, CONSTANT = _at("poisson"), _at("constant")
SLOW = _at("poisson", 5)  # gaps are far longer than jitter, so that an effect on them has the size that is meant
DIALS: tuple[Dial, ...] = (
    Dial("arrivals.gaps", "a share of the gaps is none", SLOW, _turned(_gaps_gone), Limits(most=0.95)),
    Dial("arrivals.counts", "the rate swings", POISSON, _turned(_swinging), Limits(most=14.0)),
    Dial("arrivals.order", "a gap follows the last one", SLOW, _turned(_ordered), Limits(most=0.95)),
    Dial("arrivals.trend", "the rate grows evenly", POISSON, _turned(_trend), Limits(most=2.0)),
    Dial("arrivals.lattice", "a share waits for ticks of 100 ms", POISSON, _turned(_on_ticks), Limits(most=1.0), min),
    Dial("arrivals.lattice", "the last one of some seconds comes on the second", _at("poisson", 20),
         _turned(_on_seconds),
         Limits(printed_last=True), lambda printed: printed[-2] if len(printed) > 1 else math.inf),
    Dial("arrivals.silence", "nothing is sent for a while (poisson)", POISSON, _turned(_silent), bound=True),
    Dial("arrivals.burst", "a busy second (poisson)", POISSON, _turned(_busy_second), Limits(share_of_n=0.9),
         bound=True),
    Dial("arrivals.silence", "nothing is sent for a while (constant)", CONSTANT, _turned(_silent), bound=True),
    Dial("arrivals.burst", "some come at once (constant)", CONSTANT, _turned(_at_once), Limits(share_of_n=0.4),
         bound=True),
    Dial("arrivals.even", "three in four come late", CONSTANT, _turned(_late), bound=True),
    Dial("arrivals.halves", "the second half is faster", CONSTANT, _turned(_halves), bound=True),
    Dial("concurrency.refill", "a slot waits before it is used again", loop, _turnaround, bound=True),
    Dial("concurrency.ramp", "the slots are filled one after another", loop, _ramp, bound=True),
    Dial("concurrency.waves", "some rounds are waves", loop, _waves, bound=True),
    Dial("concurrency.held", "nobody sends for a while", loop, _away, pick=lambda p: p[-2] * p[-1], bound=True),
    Dial("connections.reuse", "a share opens a connection although one is free", CONSTANT, _fresh, Limits(most=1.0)),
)  # fmt: skip
