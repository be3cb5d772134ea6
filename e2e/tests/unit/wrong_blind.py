"""Which wrong clients does somebody think of who has not seen the checks, and in which room must a judge notice?

A row is a fault that load generators had: what is asked, how the journal comes about (wrong_blind_rates.py and
wrong_blind_loops.py), and the modules of `checks` of which at least one has to fail. They were chosen without knowing a
check, a statistic or a floor; why one is missed was added afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from loadproof.arrival import Law
from loadproof.case import Case
from loadproof.expected import StagesLoad
from loadproof.journal import Journal
from tests.unit import forge
from tests.unit import wrong_blind_loops as loops
from tests.unit import wrong_blind_rates as rates
from tests.unit.forge_client import calls_of, honest, said
from tests.unit.forge_loops import ITL_S, TOKENS, Calls, joined
from tests.unit.forge_times import Seconds
from tests.unit.wrong_arrivals import CONSTANT, FIXED, POISSON, at
from tests.unit.wrong_kind import Ask, Rng, Wrong, doing, every, rate_of
from tests.unit.wrong_loops import UNEVEN, C, loop
from tests.unit.wrong_stages import RATES, in_stages, lasting, staged


@dataclass(frozen=True)
class Blind:
    """A wrong client, from how many requests on it should be seen, and where; `twin` is the same without the fault.

    `missed` says why it is not seen yet, or cannot be, where that is so.
    """

    name: str
    ask: Ask
    n: int
    wrong: Wrong
    rooms: frozenset[str]
    twin: Wrong = honest
    missed: str = ""


def blind(name: str, ask: Ask, n: int, wrong: Wrong, rooms: str, *, twin: Wrong = honest, missed: str = "") -> Blind:
    """Return a row; the rooms are words with spaces between."""
    return Blind(name, ask, n, wrong, frozenset(rooms.split()), twin, missed)


SLOW: dict[str, object] = {"ttft_s": 1.0}


def replied(ask: Ask, absorber: dict[str, object]) -> Ask:
    """The same case with other replies."""

    def asks(n: int) -> Case:
        profile = forge.case({"mode": "concurrency", "concurrency": 1}, absorber=absorber).expected.absorber
        asked = ask(n)
        return replace(asked, expected=asked.expected.model_copy(update={"absorber": profile}))

    return asks


# Schedules of stages


def _climbs_to_the_rate(asked: Case, rng: Rng) -> Calls:
    """The second stage grows from the first one's rate to its own in its first four seconds, instead of at once."""
    load, law = asked.expected.load, asked.declaration(forge.TOOL).arrival
    assert isinstance(load, StagesLoad)
    assert law is not None
    first, second = load.stages
    low, high, climb, lasts = first.rate or 0.0, second.rate or 0.0, 4.0, second.duration_s or 0.0
    fine = np.linspace(0, lasts, 100_001)
    slow = np.minimum(fine, climb)
    done = low * slow + (high - low) * slow**2 / (2 * climb) + high * (fine - slow)
    some = 2 * int(done[-1])
    steps = np.arange(some) if law.law is Law.CONSTANT else np.cumsum(rng.exponential(1.0, some))
    arrived = forge.sent(np.interp(steps[steps < done[-1]], done, fine), rng, late_first_s=0.05)
    before, begin = calls_of(asked, rng), (first.duration_s or 0.0) + first.gap_s
    kept = before.rows(before.starts_s < begin - first.gap_s / 2)
    return joined(kept, Calls(begin + arrived, np.full(len(arrived), forge.LATENCY_S)))


_FRACTIONS = ({"rate": 7.5, "duration_s": 20, "gap_s": 1}, {"rate": 15.5, "duration_s": 20})
_FAST = ({"rate": 200, "duration_s": 12, "gap_s": 1}, {"rate": 400, "duration_s": 12})
_whole_rates = in_stages(lambda stages: tuple(s.model_copy(update={"rate": float(int(s.rate or 0))}) for s in stages))


def _seeded_anew(asked: Case, rng: Rng) -> Journal:
    """Each stage makes its prompts with a generator of the same seed."""
    journal = honest(asked, rng)
    second = np.searchsorted(journal.int_column("arrival_ns") - forge.EPOCH_NS, int(12.5e9))
    place = np.arange(journal.table.num_rows)
    return loops.prompted(
        journal, [f"prompt {k}: " + "word " * 100 for k in np.where(place < second, place, place - second)]
    )


def _until_the_first_reply(asked: Case, rng: Rng) -> Calls:
    """The clock of the duration starts with the first reply."""
    lasts, rate = asked.expected.workload.duration_s or 0.0, rate_of(asked)
    arrived = forge.sent(np.arange(int((lasts + 1.0 + (TOKENS - 1) * ITL_S) * rate)) / rate, rng)
    return Calls(arrived, np.full(len(arrived), 1.0 + (TOKENS - 1) * ITL_S))


# What the requests are


def _worker_texts(workers: int, n: int, rng: Rng, *, own: bool) -> list[str]:
    """Prompts of workers that draw words, from generators of their own or of one seed, and put a number last."""
    seed = int(rng.integers(1 << 30))
    generators = [np.random.default_rng([seed, worker if own else 0]) for worker in range(workers)]
    words = [" ".join(map(str, generators[k % workers].integers(0, 30_000, 100))) for k in range(n)]
    return [f"{text} {k}" for k, text in enumerate(words)]


def _texts(*, own: bool) -> Wrong:
    def wrong(asked: Case, rng: Rng) -> Journal:
        return loops.prompted(honest(asked, rng), _worker_texts(4, asked.n or 0, rng, own=own))

    return wrong


def _distinct_prefixes(n: int) -> Case:
    return forge.case({"mode": "rate", "rate": 40}, arrival="constant",
                      workload={"num_requests": n, "distinct_prompts": n, "distinct_prefixes": n})  # fmt: skip


def _lengths(n: int) -> Case:
    return forge.case({"mode": "rate", "rate": 40}, arrival="constant",
                      workload={"num_requests": n, "prompt_tokens": {"min": 100, "max": 150}})  # fmt: skip


def _drawn(high: int) -> Wrong:
    def wrong(asked: Case, rng: Rng) -> Journal:
        drawn = rng.integers(100, high, asked.n or 0, endpoint=True)
        return forge.with_columns(said(asked, honest(asked, rng)), bare_prompt_tokens=drawn - 1)

    return wrong


def _in_period(users: int) -> rates.Sends:
    def begins(rate: float, rng: Rng) -> Seconds:
        anywhere: Seconds = rng.random(users) * (users / rate)
        return anywhere

    return rates.even_workers(begins)


EQUAL, EXPONENTIAL = rates.equal_gaps, rates.exponential_gaps

# Why some are missed: by a floor that leaves room for what honest clients do, …
BRIEF = "a silence of 0.25 s and a gap is what an honest client is allowed"
FEW = "9 to 12 % of the gaps are not by the law, which is about the floor"
# … or in spite of what their journals show
AT_ONCE = "28 requests within 5 ms, where an honest client has 8 at most, are not too many for a second"

KINDS: tuple[Blind, ...] = (
    # a rate, one thread
    blind("constant 75/s: gaps of whole milliseconds", at(75, "constant"), 2000,
          doing(rates.on_time(rates.whole_milliseconds)), "rate"),
    blind("constant: a bucket that is full at the start", CONSTANT, 400, doing(rates.on_time(rates.full_bucket)),
          "arrivals rate"),
    blind("constant: instants off by up to a gap", CONSTANT, 200, doing(rates.on_time(rates.jittered)), "arrivals"),
    blind("constant: slower with every result kept", CONSTANT, 600, doing(rates.on_time(rates.slower_and_slower)),
          "arrivals rate"),
    blind("constant: sleeps that end with a tick of 64 Hz", CONSTANT, 400,
          doing(rates.on_time(rates.coarse_sleeps(EQUAL))), "rate"),
    blind("poisson: sleeps that end with a tick of 64 Hz", POISSON, 1200,
          doing(rates.on_time(rates.coarse_sleeps(EXPONENTIAL))), "rate arrivals"),
    blind("constant: busy for 250 ms every 2 s", CONSTANT, 400,
          doing(rates.on_time(rates.stalled(EQUAL, every_s=2.0, for_s=0.25))), "arrivals", missed=BRIEF),
    blind("poisson: busy for 250 ms every 1.7 s", POISSON, 5000,
          doing(rates.on_time(rates.stalled(EXPONENTIAL, every_s=1.7, for_s=0.25))), "arrivals", missed=FEW),
    blind("poisson: 5 ms of work for each request", POISSON, 10_000,
          doing(rates.on_time(rates.busy_between(0.005, EXPONENTIAL))), "arrivals", missed=FEW),
    blind("poisson: uniform gaps", POISSON, 5000, doing(rates.on_time(rates.uniform_gaps)), "arrivals"),
    blind("poisson: lognormal gaps of the same mean and spread", POISSON, 10_000,
          doing(rates.on_time(rates.lognormal_gaps)), "arrivals", missed=FEW),
    blind("poisson: exactly 40 in each second", POISSON, 10_000, doing(rates.on_time(rates.same_each_second)),
          "arrivals"),
    blind("fixed-span: exactly 40 in each second", FIXED, 10_000, doing(rates.on_time(rates.same_each_second)),
          "arrivals"),
    blind("poisson: even within seconds of a drawn count", POISSON, 1200,
          doing(rates.on_time(rates.even_in_drawn_seconds)), "arrivals"),
    blind("poisson: throttled for 40 ms of every 100 ms", POISSON, 1200,
          doing(rates.on_time(rates.throttled(EXPONENTIAL, period_s=0.1, runs_s=0.06))), "arrivals"),
    blind("constant: throttled for 40 ms of every 100 ms", at(70, "constant"), 700,
          doing(rates.on_time(rates.throttled(EQUAL, period_s=0.1, runs_s=0.06))), "arrivals"),
    # a rate, several workers or users
    blind("poisson: 4 workers of one seed, up within 0.5 s", POISSON, 10_000, doing(rates.one_seed(4, 0.5)),
          "arrivals"),
    blind("poisson: a user more each second, up to 10", POISSON, 2400, doing(rates.spawned(10, 1.0)),
          "arrivals rate"),
    blind("constant: 4 workers, each even by itself", CONSTANT, 400,
          doing(rates.even_workers(lambda _rate, rng: rng.uniform(0, 0.1, 4))), "arrivals"),
    blind("constant: 50 users that begin 5 ms apart", CONSTANT, 400,
          doing(rates.even_workers(lambda _rate, _rng: np.linspace(0, 0.245, 50))), "arrivals"),
    blind("constant: 40 users that begin anywhere", CONSTANT, 400, doing(_in_period(40)), "arrivals"),
    blind("poisson: 20 users, each evenly paced", POISSON, 600, doing(_in_period(20)), "arrivals"),
    blind("poisson: 100 users, each evenly paced", POISSON, 2000, doing(_in_period(100)), "arrivals"),
    blind("constant: 16 users that wait for a late reply", replied(CONSTANT, UNEVEN), 600,
          doing(rates.paced_users(16)), "arrivals rate"),
    blind("constant: one of 4 workers comes up 3 s late", CONSTANT, 400,
          doing(rates.late_worker(EQUAL, workers=4, up_s=3.0)), "arrivals rate"),
    blind("poisson: one of 4 workers comes up 3 s late", POISSON, 600,
          doing(rates.late_worker(EXPONENTIAL, workers=4, up_s=3.0)), "arrivals rate", missed=AT_ONCE),
    blind("constant: the first request is awaited", replied(CONSTANT, SLOW), 200,
          doing(rates.first_one_awaited(EQUAL)), "arrivals"),
    blind("poisson: the first request is awaited", replied(POISSON, SLOW), 600,
          doing(rates.first_one_awaited(EXPONENTIAL)), "arrivals"),
    # stages and durations
    blind("stages (constant): the second climbs to its rate", staged(RATES, "constant"), 720,
          doing(_climbs_to_the_rate), "rate arrivals count"),
    blind("stages (poisson): the second climbs to its rate", staged(_FAST, "poisson"), 7200,
          doing(_climbs_to_the_rate), "rate arrivals count"),
    blind("stages (constant): rates cut to whole numbers", staged(_FRACTIONS, "constant"), 460, _whole_rates,
          "rate count"),
    blind("stages (constant): prompts of one seed", staged(RATES, "constant"), 720, _seeded_anew, "count payload"),
    blind("constant for a duration: counted from the first reply", replied(lasting(40, "constant"), SLOW), 600,
          doing(_until_the_first_reply), "count"),
    # a concurrency
    blind("loop: slots and requests divided among 3 workers", loop, 240, doing(loops.divided_slots(3, C)),
          "concurrency"),
    blind("loop: filled up only when half are done", loop, 240, doing(loops.low_water(C, C // 2)), "concurrency"),
    blind("loop: replies are counted one by one, 20 ms each", loop, 240, doing(loops.counted_first(C, 0.02)),
          "concurrency"),
    blind("loop: ended replies are looked for every 100 ms", loop, 240, doing(loops.polled(C, 0.1)), "concurrency"),
    blind("loop: results are written out for 1 s after every 60", loop, 240,
          doing(loops.written_out(C, after=60, for_s=1.0)), "concurrency"),
    blind("loop: whole rounds only", loop, 100, doing(loops.whole_rounds), "count"),
    blind("loop: given up after 0.6 s and tried again", loop, 240, loops.tried_again, "count connections"),
    # connections and contents
    blind("poisson: two idle connections kept", POISSON, 2500, loops.two_idle, "connections"),
    blind("a prompt length above the upper bound by one", _lengths, 600, _drawn(151), "payload", twin=_drawn(150)),
    blind("workers of one seed, numbers at the end", _distinct_prefixes, 240, _texts(own=False), "payload",
          twin=_texts(own=True)),
    blind("stop words in every body", CONSTANT, 100, every(1, extra_fields='{"stop":["\\n\\n"]}'), "payload",
          twin=every(1, extra_fields='{"stream_options":{"include_usage":true}}')),
)  # fmt: skip
