"""Wrong clients at a concurrency: slots too many, too few, lost, slow, late or in step; connections not used again.

Rows for wrong_kinds.py.
"""

from __future__ import annotations

import numpy as np

from loadproof.case import Case
from loadproof.journal import CLIENT_CLOSED
from tests.unit import forge
from tests.unit.forge_client import calls_of, replies
from tests.unit.forge_loops import Calls, joined, slots, waves
from tests.unit.wrong_arrivals import CONSTANT, POISSON
from tests.unit.wrong_kind import Kind, Rng, cells, doing, every, kind, loaded

IDLE = "a slot that is not used leaves a gap wherever slots are looked at"
C = 8
UNEVEN: dict[str, object] = {"ttft_s": {"law": "lognormal", "median": 0.1, "sigma": 0.7}}


def loop(n: int) -> Case:
    """A closed loop whose replies take unevenly long, so that slots do not stay in step by themselves."""
    return forge.case({"mode": "concurrency", "concurrency": C}, workload={"num_requests": n}, absorber=UNEVEN)


def own_connections(n: int) -> Case:
    """A tool that is declared to open a connection for each request."""
    return forge.rate_case(n, 40, "poisson", connections="per_request")


def _ramp(asked: Case, rng: Rng) -> Calls:
    return slots(C, rng, replies(asked, rng), n=asked.n, ramp_s=2.0)


def _slow(asked: Case, rng: Rng) -> Calls:
    return slots(C, rng, replies(asked, rng), n=asked.n, turnaround_s=(0.055, 0.065))


def _waves(asked: Case, rng: Rng) -> Calls:
    return waves(C, asked.n or 0, rng, replies(asked, rng))


def _half_lost(asked: Case, rng: Rng) -> Calls:
    half = (asked.n or 0) // 2
    return slots(C, rng, replies(asked, rng), n=asked.n, lost=lambda k, _at: C // 2 if k > half else 0)


def _burst_then_half(asked: Case, rng: Rng) -> Calls:
    return slots(C, rng, replies(asked, rng), n=asked.n, lost=lambda k, _at: C // 2 if k > C else 0)


def _one_more_once(asked: Case, rng: Rng) -> Calls:
    calls = calls_of(asked, rng).rows(slice(0, -1))
    return joined(calls, Calls(calls.starts_s[60:61] + 0.02, np.full(1, 0.25)))


def _by_the_clock(asked: Case, rng: Rng) -> Calls:
    latency = replies(asked, rng)(asked.n or 0)
    return Calls(forge.sent(forge.poisson(len(latency), C / float(latency.mean()), rng), rng), latency)


KINDS: list[Kind] = [
    kind("loop: a slot too many", loop, 120, loaded(concurrency=C + 1), "concurrency.slots"),
    kind("loop: a slot too few", loop, 120, loaded(concurrency=C - 1), "concurrency.slots"),
    kind("loop: half the slots", loop, 120, loaded(concurrency=C // 2), "concurrency.slots"),
    kind("loop: once one more", loop, 240, doing(_one_more_once), "concurrency.slots",
         also="concurrency.*",
         because="against that peak, the slots are never all in use"),
    kind("loop: a hidden ramp", loop, 240, doing(_ramp), "concurrency.ramp"),
    kind("loop: slow refill", loop, 240, doing(_slow), "concurrency.refill",
         also="concurrency.*", because=IDLE),
    kind("loop: waves", loop, 240, doing(_waves), "concurrency.waves", also="concurrency.*",
         because=IDLE),
    kind("loop: half the slots lost half-way", loop, 240, doing(_half_lost), "concurrency.refill",
         also="concurrency.*", because=IDLE),
    kind("loop: all slots only once", loop, 240, doing(_burst_then_half), "concurrency.refill",
         also="concurrency.*", because=IDLE),
    kind("loop: by the clock instead", loop, 240, doing(_by_the_clock), "concurrency.slots",
         also="concurrency.*", because=IDLE),
    kind("loop: a request never ends", loop, 240,
         cells(30, how_ended=None, finish_reason=None, done_ns=None, late_ns=[None] * forge.TOKENS),
         "concurrency.slots", also="concurrency.*", because=IDLE),
    kind("loop: a connection per request", loop, 120, doing(calls_of, uses=1), "connections.reuse"),
    kind("loop: a connection per two requests", loop, 240, doing(calls_of, uses=2), "connections.reuse"),
    kind("constant: a connection per request", CONSTANT, 50, doing(calls_of, uses=1), "connections.reuse"),
    kind("poisson: a connection per request", POISSON, 50, doing(calls_of, uses=1), "connections.reuse"),
    kind("poisson: connections used again, against what is declared", own_connections, 600, doing(calls_of),
         "connections.reuse"),
    kind("constant: a reply cut by the client", CONSTANT, 100, cells(50, how_ended=CLIENT_CLOSED, finish_reason=None),
         "connections.cut"),
    kind("constant: every tenth reply cut", CONSTANT, 100, every(10, how_ended=CLIENT_CLOSED, finish_reason=None),
         "connections.cut"),
]  # fmt: skip
