"""Is each way of offering a wrong load found by the check that is meant for it?

The reference sender, wrong in known ways, against the real absorber, on loads that are as short as the meant check
allows. `Case.fails` has the checks that must fail, `may` those that the same wrong moves, too, by chance or not; any
other failure fails the test. Kinds that need a long load are `soak`. The first nine kinds are in the parity tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from loadproof.metronome.wrong import WRONG_KINDS
from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Outcome
from tests.arrivals.small import Small, at_a_rate, in_stages, with_slots
from tests.parity.test_wrong_metronome import WRONG

FEW = with_slots(8, 160)  # 2 s: enough for what is exact
UNLIKE = replace(FEW, workload="distinct_prefixes: 160")
CONSTANT = at_a_rate(100, 250, "constant")
POISSON = at_a_rate(40, 420, "poisson")
FIXED_SPAN = at_a_rate(40, 420, "fixed-span")
SLOW_POISSON = at_a_rate(20, 310, "poisson")
LONG_POISSON = at_a_rate(100, 3000, "poisson")
CAPPED = at_a_rate(100, 250, "poisson", cap=14)  # ten are needed on average
SIX_SLOTS = with_slots(6, 240)
THREE_SLOTS = with_slots(3, 150)
VARIED = with_slots(6, 240, ttft="{law: lognormal, median: 0.06, sigma: 0.5}")  # equal replies end together anyway
STAGES = in_stages(
    "rate=50,num_requests=100,gap_s=0.5", "rate=100,num_requests=200", arrival="constant", count=300
)  # fmt: skip
SLOT_STAGES = in_stages("concurrency=4,num_requests=80", "concurrency=8,num_requests=160", count=240)


@dataclass(frozen=True)
class Wrong:
    """What is sent wrong, and which checks say so."""

    load: Small
    kinds: tuple[str, ...]
    fails: frozenset[str]
    may: frozenset[str] = frozenset()


def wrong(load: Small, kinds: str, fails: str, may: str = "") -> Wrong:
    return Wrong(load, tuple(kinds.split()), frozenset(fails.split()), frozenset(may.split()))


RATE_MOVES = "rate.mean arrivals.even arrivals.halves arrivals.silence arrivals.burst"
GAPS_MOVE = "rate.mean arrivals.gaps arrivals.counts arrivals.order arrivals.trend arrivals.silence arrivals.burst"
IN_STAGES = " ".join(f"{name}[{k}]" for name in RATE_MOVES.split() for k in (1, 2))

SHORT = [
    wrong(
        FEW,
        "max-tokens+1 prompt-1 stray no-content-type extra-field drop-last-3",
        "payload.max_tokens payload.prompt_tokens count.recognised payload.headers payload.fields count.requests",
    ),
    wrong(
        FEW,
        "some-max-tokens-1 some-no-ignore-eos some-prompt+1 some-extra-field",
        "payload.max_tokens payload.ignore_eos payload.prompt_tokens payload.fields",
    ),
    wrong(FEW, "no-stream other-api connection-per-request", "payload.stream payload.path connections.reuse"),
    wrong(FEW, "repeat-prompts", "count.unique"),
    wrong(UNLIKE, "shared-prefix", "payload.prefixes"),
    wrong(CONSTANT, "relative-sleeps", "rate.mean"),
    wrong(CONSTANT, "exponential-gaps", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "groups-of-10", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "pairs", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "burst-start", "arrivals.burst", RATE_MOVES),
    wrong(CONSTANT, "stall", "arrivals.silence", RATE_MOVES),
    wrong(CONSTANT, "stall-and-catch-up", "arrivals.silence", RATE_MOVES),
    wrong(CONSTANT, "trend", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "closed-loop-instead", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "few-connections", "rate.mean", RATE_MOVES),
    wrong(CAPPED, "cap+1", "rate.cap"),
    wrong(SIX_SLOTS, "hidden-ramp", "concurrency.ramp"),
    wrong(SIX_SLOTS, "slow-refill", "concurrency.refill", "concurrency.held"),
    wrong(THREE_SLOTS, "lost-slot", "concurrency.held", "concurrency.refill"),
    wrong(VARIED, "waves", "concurrency.waves", "concurrency.refill concurrency.held"),
    wrong(STAGES, "stages-swapped", "rate.mean[1] rate.mean[2]", f"rate.gap[1] {IN_STAGES}"),
    wrong(STAGES, "no-gap", "rate.gap[1]"),
    wrong(SLOT_STAGES, "stage-left-out", "count.requests", "concurrency.slots[2] count.stage[2]"),
    wrong(POISSON, "even-gaps", "arrivals.gaps arrivals.counts", "arrivals.lattice"),
    wrong(SLOW_POISSON, "second-edge", "arrivals.lattice"),
]

LONG = [
    wrong(CONSTANT, "stage-short", "count.requests"),
    wrong(CONSTANT, "burst-end", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "alternating", "arrivals.even", RATE_MOVES),
    wrong(CONSTANT, "rate+10%", "rate.mean"),
    wrong(CAPPED, "no-cap", "rate.cap"),
    wrong(CONSTANT, "step", "arrivals.even", RATE_MOVES),
    wrong(POISSON, "burstier-gaps", "arrivals.gaps", GAPS_MOVE),
    wrong(POISSON, "groups-of-10", "arrivals.gaps", GAPS_MOVE),
    wrong(POISSON, "pairs", "arrivals.gaps arrivals.order", GAPS_MOVE),
    wrong(POISSON, "ticks", "arrivals.lattice"),
    wrong(POISSON, "sorted-gaps", "arrivals.order", GAPS_MOVE),
    wrong(POISSON, "alternating", "arrivals.order", GAPS_MOVE),
    wrong(POISSON, "stall", "arrivals.silence", GAPS_MOVE),
    wrong(POISSON, "stall-and-catch-up", "arrivals.silence arrivals.burst", GAPS_MOVE),
    wrong(POISSON, "few-connections", "arrivals.gaps", GAPS_MOVE),
    wrong(FIXED_SPAN, "even-gaps", "arrivals.gaps arrivals.counts", "arrivals.lattice"),
    wrong(LONG_POISSON, "trend", "arrivals.trend", GAPS_MOVE),
    wrong(LONG_POISSON, "step", "arrivals.trend", GAPS_MOVE),
]


def failed(run: StoredRun) -> set[str]:
    assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
    return {one.check for one in run.judgement.findings if one.outcome is Outcome.FAIL}


def told(checks: frozenset[str]) -> Callable[[StoredRun], Outcome]:
    """What the meant checks say: unclear, if one of them is."""

    def ask(run: StoredRun) -> Outcome:
        failed(run)
        said = {one.check: one.outcome for one in run.judgement.findings if one.check in checks}
        assert set(said) == checks
        return Outcome.UNCLEAR if Outcome.UNCLEAR in said.values() else Outcome.PASS

    return ask


def named(one: Wrong) -> str:
    return "+".join(one.kinds)


@pytest.mark.parametrize(
    "one",
    [*(pytest.param(one, id=named(one)) for one in SHORT),
     *(pytest.param(one, id=f"{one.load.arrival}-{named(one)}", marks=pytest.mark.soak) for one in LONG)],
)  # fmt: skip
def test_a_wrong_load_fails_the_right_checks(one: Wrong, loadproof_runs: Runs, tmp_path: Path) -> None:
    extra = [part for kind in one.kinds for part in ("--wrong", kind)]
    case = one.load.write(tmp_path / f"wrong-{named(one)}"[:60], *extra)
    found = failed(loadproof_runs.clearly(case, "metronome", told(one.fails)))
    assert one.fails <= found
    assert found <= one.fails | one.may


def test_every_kind_is_tried() -> None:
    assert {kind for one in (*SHORT, *LONG) for kind in one.kinds} | set(WRONG) == set(WRONG_KINDS)
