"""Wrong clients at a rate: the wrong law, a wrong rate, lattices, groups, bursts and silences.

Rows for wrong_kinds.py. The schedule is changed and then sent with the usual noise, so that a kind is seen through it.
"""

from __future__ import annotations

from loadproof.case import Case
from tests.unit import forge
from tests.unit import wrong_schedules as does
from tests.unit.forge_client import calls_of, replies
from tests.unit.forge_loops import Calls, capped, slots
from tests.unit.wrong_kind import Ask, Kind, Rng, at_rate, doing, kind, loaded, rate_of, rescheduled, spaced

LOW_RATE = "the schedule is kept up late or from behind, so that its rate is off as well"
RANDOM = "a random schedule is uneven in all ways, each of them by chance"
BUNCHED = "bunched arrivals are uneven in several ways, the weaker ones seen by chance"


def at(rate: float, arrival: str) -> Ask:
    """Cases that ask for a rate."""
    return lambda n: forge.rate_case(n, rate, arrival)


def capped_at(cap: int) -> Ask:
    """Cases that ask for a rate and at most so many in flight."""
    load = {"mode": "rate", "rate": 40, "cap": cap}
    return lambda n: forge.case(load, workload={"num_requests": n}, arrival="poisson")


CONSTANT, POISSON, FIXED = at(40, "constant"), at(40, "poisson"), at(40, "fixed-span")
GAMMA_4, FIXED_4 = at(40, "gamma(4)"), at(40, "fixed-span(4)")


def _four_in_flight(asked: Case, rng: Rng) -> Calls:
    return capped(calls_of(asked, rng).starts_s, 4, rng, replies(asked, rng))


def _closed_loop(asked: Case, rng: Rng) -> Calls:
    return slots(round(rate_of(asked) * 0.254), rng, replies(asked, rng), n=asked.n)


KINDS: list[Kind] = [
    # where constant spacing is asked
    kind("constant: exponential gaps", CONSTANT, 200, spaced("fixed-span"), "arrivals.even",
         also="rate.mean arrivals.halves arrivals.silence arrivals.burst", because=RANDOM),
    kind("constant: relative sleeps", CONSTANT, 120, rescheduled(does.relative_sleeps(0.001)), "rate.mean"),
    kind("constant: rate 10 % low", CONSTANT, 100, at_rate(0.9), "rate.mean"),
    kind("constant: rate 10 % high", CONSTANT, 100, at_rate(1.1), "rate.mean"),
    kind("constant: groups of 10", CONSTANT, 200, rescheduled(does.groups_of(10)), "arrivals.even",
         also="arrivals.burst arrivals.silence", because=BUNCHED),
    kind("constant: pairs", CONSTANT, 200, rescheduled(does.pairs), "arrivals.even",
         also="arrivals.halves", because=BUNCHED),
    kind("constant: every other one late", CONSTANT, 200, rescheduled(does.every_other_late), "arrivals.even",
         also="arrivals.halves", because=BUNCHED),
    kind("constant: every tenth left out", CONSTANT, 400, rescheduled(does.left_out(10)), "rate.mean arrivals.even"),
    kind("constant: burst at the start", CONSTANT, 400, rescheduled(does.burst_at_start(1.0)), "arrivals.burst",
         also="arrivals.silence", because="after the burst nothing is due for as long"),
    kind("constant: stall and catch-up", CONSTANT, 400, rescheduled(does.stall(2.0)),
         "arrivals.silence arrivals.burst", also="arrivals.halves", because="the stall is in one of the halves"),
    kind("constant: silence", CONSTANT, 400, rescheduled(does.silence(2.0)), "arrivals.silence",
         also="rate.mean arrivals.halves arrivals.even", because=LOW_RATE),
    kind("constant: trend", CONSTANT, 400, rescheduled(does.trend), "arrivals.halves arrivals.even",
         also="rate.mean", because=LOW_RATE),
    kind("constant: twice as fast", CONSTANT, 400, rescheduled(does.twice_as_fast), "arrivals.halves arrivals.even",
         also="rate.mean", because=LOW_RATE),
    kind("constant: ticks of 100 ms", CONSTANT, 400, rescheduled(does.ticks(0.1)), "arrivals.even",
         also="arrivals.halves", because=BUNCHED),
    # where random spacing is asked
    kind("poisson: even gaps", POISSON, 400, spaced("constant"), "arrivals.gaps",
         also="arrivals.counts arrivals.lattice arrivals.order", because="even gaps are a lattice of their own"),
    kind("fixed-span: even gaps", FIXED, 400, spaced("constant"), "arrivals.gaps",
         also="arrivals.counts arrivals.lattice arrivals.order", because="even gaps are a lattice of their own"),
    kind("poisson: gamma gaps of shape 4", POISSON, 600, spaced("gamma(4)"), "arrivals.gaps",
         also="arrivals.counts", because="such gaps make even counts"),
    kind("poisson: gamma gaps of shape 1/2", POISSON, 2400, spaced("gamma(0.5)"), "arrivals.gaps",
         also="arrivals.counts", because="such gaps make uneven counts"),
    kind("fixed-span: gamma gaps of shape 4", FIXED, 600, spaced("fixed-span(4)"), "arrivals.gaps",
         also="arrivals.counts", because="such gaps make even counts"),
    kind("gamma(4): exponential gaps", GAMMA_4, 600, spaced("poisson"), "arrivals.gaps",
         also="arrivals.counts arrivals.silence arrivals.burst rate.mean", because=RANDOM),
    kind("gamma(1/2): exponential gaps", at(5, "gamma(0.5)"), 6000, spaced("poisson"), "arrivals.gaps",
         also="arrivals.counts", because="such gaps make even counts"),
    kind("fixed-span(4): exponential gaps", FIXED_4, 600, spaced("fixed-span"), "arrivals.gaps",
         also="arrivals.counts arrivals.silence arrivals.burst", because=RANDOM),
    kind("poisson: rate 10 % low", POISSON, 10_000, at_rate(0.9), "rate.mean"),
    kind("poisson: rate 20 % high", POISSON, 2000, at_rate(1.25), "rate.mean"),
    kind("fixed-span: rate 10 % low", FIXED, 400, at_rate(0.9), "rate.mean"),
    kind("gamma(4): rate 10 % low", GAMMA_4, 2000, at_rate(0.9), "rate.mean"),
    kind("fixed-span(4): rate 10 % low", FIXED_4, 600, at_rate(0.9), "rate.mean"),
    kind("poisson: each of 4 workers at the whole rate", POISSON, 2400, rescheduled(does.each_worker_all(4)),
         "rate.mean arrivals.burst", also="arrivals.counts arrivals.trend arrivals.gaps arrivals.lull",
         because="towards the end the slower workers are alone"),
    kind("poisson: groups of 10", POISSON, 1200, rescheduled(does.groups_of(10)), "arrivals.gaps",
         also="arrivals.counts arrivals.order arrivals.burst arrivals.silence arrivals.lattice", because=BUNCHED),
    kind("poisson: pairs", POISSON, 1200, rescheduled(does.pairs), "arrivals.gaps",
         also="arrivals.order arrivals.counts arrivals.burst", because=BUNCHED),
    kind("poisson: each gap twice", POISSON, 1200, rescheduled(does.each_gap_twice), "arrivals.order",
         also="arrivals.counts", because=BUNCHED),
    kind("poisson: the same 20 gaps again and again", POISSON, 1200, rescheduled(does.cycle(20)), "arrivals.order",
         also="arrivals.gaps arrivals.counts arrivals.lattice", because="20 gaps are no law; their counts are even"),
    kind("poisson: trend", POISSON, 3000, rescheduled(does.trend), "arrivals.trend"),
    kind("poisson: twice as fast", POISSON, 1200, rescheduled(does.twice_as_fast), "arrivals.trend",
         also="arrivals.counts arrivals.burst arrivals.silence", because=BUNCHED),
    kind("poisson: burst at the start", POISSON, 600, rescheduled(does.burst_at_start(4.0)),
         "arrivals.silence arrivals.burst", also="arrivals.trend arrivals.counts", because=BUNCHED),
    kind("poisson: a second four times as fast", POISSON, 600, rescheduled(does.gust(4.0)), "arrivals.burst",
         also="rate.mean arrivals.counts arrivals.trend arrivals.gaps", because=BUNCHED),
    kind("poisson: stall and catch-up", POISSON, 600, rescheduled(does.stall(3.0)), "arrivals.silence arrivals.burst",
         also="arrivals.counts arrivals.gaps arrivals.order arrivals.lull", because=BUNCHED),
    kind("poisson: silence", POISSON, 600, rescheduled(does.silence(2.0)), "arrivals.silence",
         also="rate.mean arrivals.counts arrivals.lull", because=LOW_RATE),
    kind("poisson: a lull", POISSON, 800, rescheduled(does.lull(5.0)), "arrivals.lull",
         also="rate.mean arrivals.counts arrivals.gaps arrivals.order arrivals.silence", because=LOW_RATE),
    kind("poisson: a second's requests in its first half", POISSON, 600, rescheduled(does.half_of_each_second),
         "arrivals.gaps arrivals.lattice", also="arrivals.order", because=BUNCHED),
    kind("poisson: the last arrival of each second on the second", at(20, "poisson"), 600,
         rescheduled(does.second_edge), "arrivals.lattice"),
    kind("poisson: ticks of 1 ms", at(1000, "poisson"), 20_000, rescheduled(does.ticks(0.001), noise=False),
         "arrivals.gaps", also="arrivals.lattice", because=BUNCHED),
    kind("poisson: ticks of 10 ms", at(100, "poisson"), 2000, rescheduled(does.ticks(0.01)),
         "arrivals.gaps arrivals.lattice", also="arrivals.order", because=BUNCHED),
    kind("poisson: ticks of 100 ms", POISSON, 1200, rescheduled(does.ticks(0.1)), "arrivals.gaps arrivals.lattice",
         also="arrivals.order arrivals.burst", because=BUNCHED),
    kind("poisson: one more than the cap", capped_at(12), 600, loaded(cap=13), "rate.cap"),
    kind("poisson: no cap", capped_at(12), 600, loaded(cap=None), "rate.cap"),
    kind("poisson: at most 4 in flight", POISSON, 600, doing(_four_in_flight), "rate.mean",
         also="arrivals.*", because="replies set the pace"),
    kind("poisson: a closed loop of the same rate", POISSON, 600, doing(_closed_loop), "arrivals.gaps",
         also="rate.mean arrivals.*", because="replies set the pace"),
]  # fmt: skip
