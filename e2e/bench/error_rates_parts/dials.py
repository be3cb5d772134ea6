"""By how much is a wrong client wrong? Wrong kinds with a dial, in the unit of the finding that has to see them.

Each makes the journal of a client whose effect has a given size, with the usual noise of an honest one. Rows of a
literal table. Left out: the rate, whose dial is the rate itself (misses.py), and exact findings, which see everything.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.error_rates_parts import turns
from loadproof.arrival import Arrival, Law
from loadproof.case import Case
from loadproof.journal import Journal
from tests.unit import forge
from tests.unit.forge_client import calls_of, recorded, replies
from tests.unit.forge_loops import Calls, slots, waves
from tests.unit.forge_times import Seconds, by_law, sent
from tests.unit.wrong_kind import Ask, Rng, at_rate, rate_of
from tests.unit.wrong_loops import loop
from tests.unit.wrong_stages import lasting, lasting_only, stage, staged

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
    """One slot is not used for so long, half-way."""
    calls = calls_of(asked, rng)
    begin = float(calls.starts_s[len(calls.starts_s) // 2])
    return recorded(slots(8, rng, replies(asked, rng), n=asked.n, away_s=(begin, begin + effect), away=1), chunks=1)


def _fresh(asked: Case, rng: Rng, effect: float) -> Journal:
    calls = calls_of(asked, rng)
    return recorded(calls, fresh=rng.random(len(calls.starts_s)) < effect, chunks=1)


def _stages_of(arrival: str) -> Ask:
    """Two stages of n / 2 requests."""
    return lambda n: staged([{"rate": 20, "duration_s": n / 40, "gap_s": 2}, {"rate": 40, "duration_s": n / 80}],
                            arrival)(n)  # fmt: skip


def _slower_stage(asked: Case, rng: Rng, effect: float) -> Journal:
    return stage(2, rate=40 * (1 - effect))(asked, rng)


def _shorter_gap(asked: Case, rng: Rng, effect: float) -> Journal:
    """The last gap of the first stage, 1/20 s, is part of the silence and makes up for nothing."""
    return stage(1, gap_s=2 - effect - 1 / 20)(asked, rng)


def _shorter(asked: Case, rng: Rng, effect: float) -> Journal:
    return lasting_only(1 - effect / (asked.expected.workload.duration_s or 1))(asked, rng)


def _fewer(asked: Case, rng: Rng, effect: float) -> Journal:
    return at_rate(1 - effect)(asked, rng)


def _low(printed: Sequence[float]) -> float:
    """The size of a deviation downwards."""
    return -min(printed)


def _at(arrival: str, rate: float = 40) -> Ask:
    return lambda n: forge.rate_case(n, rate, arrival)


POISSON, CONSTANT = _at("poisson"), _at("constant")
SLOW = _at("poisson", 5)  # gaps are far longer than jitter, so that an effect on them has the size that is meant
DIALS: tuple[Dial, ...] = (
    Dial("arrivals.gaps", "a share of the gaps is none", SLOW, _turned(turns.gaps_gone), Limits(most=0.95)),
    Dial("arrivals.counts", "the rate swings", POISSON, _turned(turns.swinging), Limits(most=14.0)),
    Dial("arrivals.order", "a gap follows the last one", SLOW, _turned(turns.ordered), Limits(most=0.95)),
    Dial("arrivals.trend", "the rate grows evenly", POISSON, _turned(turns.trend), Limits(most=2.0)),
    Dial("arrivals.lattice", "a share waits for ticks of 100 ms", POISSON, _turned(turns.on_ticks),
         Limits(most=1.0), min),
    Dial("arrivals.lattice", "the last one of some seconds comes on the second", _at("poisson", 20),
         _turned(turns.on_seconds),
         Limits(printed_last=True), lambda printed: printed[-2] if len(printed) > 1 else math.inf),
    Dial("arrivals.silence", "nothing is sent for a while (poisson)", POISSON, _turned(turns.silent), bound=True),
    Dial("arrivals.lull", "10 s at a lower rate", POISSON, _turned(turns.slow_stretch), Limits(most=0.95),
         lambda printed: 1 - printed[0] / printed[1] / 40),
    Dial("arrivals.burst", "a busy second (poisson)", POISSON, _turned(turns.busy_second), Limits(share_of_n=0.9),
         bound=True),
    Dial("arrivals.silence", "nothing is sent for a while (constant)", CONSTANT, _turned(turns.silent), bound=True),
    Dial("arrivals.burst", "some come at once (constant)", CONSTANT, _turned(turns.at_once), Limits(share_of_n=0.4),
         bound=True),
    Dial("arrivals.even", "three in four come late", CONSTANT, _turned(turns.late), pick=min, bound=True),
    Dial("arrivals.halves", "the second half is faster", CONSTANT, _turned(turns.halves), bound=True),
    Dial("concurrency.refill", "a slot waits before it is used again", loop, _turnaround, bound=True),
    Dial("concurrency.ramp", "the slots are filled one after another", loop, _ramp, bound=True),
    Dial("concurrency.waves", "some rounds are waves", loop, _waves, bound=True),
    Dial("concurrency.held", "a slot is not used for a while, at least for a whole window", loop, _away,
         Limits(share_of_n=0.013), lambda printed: 2 * printed[-1]),
    Dial("count.stage[2]", "the second stage is too slow (poisson)", _stages_of("poisson"), _slower_stage,
         Limits(most=0.9), _low),
    Dial("count.stage[2]", "the second stage is too slow (constant)", _stages_of("constant"), _slower_stage,
         Limits(most=0.9), _low, bound=True),
    Dial("rate.gap[1]", "the silence between stages is too short", _stages_of("constant"), _shorter_gap,
         Limits(most=2.0), _low, bound=True),
    Dial("count.requests", "a duration holds too few (poisson)", lasting(40, "poisson"), _fewer, Limits(most=0.9),
         _low),
    Dial("count.duration", "a duration is cut short", lasting(40, "constant"), _shorter, pick=_low, bound=True),
    Dial("connections.reuse", "a share opens a connection although one is free", CONSTANT, _fresh, Limits(most=1.0)),
)  # fmt: skip
