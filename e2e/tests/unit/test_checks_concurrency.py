"""Are C - 1 and C + 1 slots, a slow refill and a slow ramp seen just outside their bounds, and honest clients not?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.journal import CLIENT_CLOSED, Journal
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import LATENCY_S, Seconds, ask, changed, closed_case, closed_loop, journal

N, C = 240, 8
NAMES = ("slots", "refill", "ramp")


def judged(times: Seconds | Journal, *, slots: int = C) -> dict[str, Finding]:
    forged = times if isinstance(times, Journal) else journal(times)
    found = ask(closed_case(max(1, forged.table.num_rows), slots), forged)
    return {name: found[f"concurrency.{name}"] for name in NAMES}


def outcomes(times: Seconds | Journal, *, slots: int = C) -> tuple[Outcome, ...]:
    return tuple(finding.outcome for finding in judged(times, slots=slots).values())


PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR


@pytest.mark.parametrize("slots", [1, 2, 8, 32])
def test_an_honest_client_passes_at_its_own_concurrency_only(slots: int) -> None:
    loop = closed_loop(60 + 20 * slots, slots, turnaround_s=0.003, ramp_s=0.0002 * slots)
    assert outcomes(loop, slots=slots) == (PASS, PASS, PASS)
    assert judged(loop, slots=slots + 1)["slots"].outcome is FAIL
    if slots > 1:
        assert judged(loop, slots=slots - 1)["slots"].outcome is FAIL


@pytest.mark.parametrize("held", [C - 1, C + 1])
def test_one_slot_less_or_more_fails_slots_alone(held: int) -> None:
    found = judged(closed_loop(N, held, turnaround_s=0.003))
    assert tuple(f.outcome for f in found.values()) == (FAIL, PASS, PASS)
    assert (found["slots"].expected, found["slots"].measured) == ("8", str(held))
    assert ("limited" in found["slots"].detail) is (held < C)


def test_a_single_moment_of_one_more_fails() -> None:
    once = np.sort(np.append(closed_loop(N, C, turnaround_s=0.003), 3.0))
    assert judged(once)["slots"].measured == "9"


def test_a_new_request_at_the_very_end_of_an_old_one_is_no_overlap() -> None:
    assert judged(closed_loop(N, C, turnaround_s=0.0))["slots"].outcome is PASS
    assert judged(closed_loop(N, C, turnaround_s=-2e-9))["slots"].outcome is FAIL


@pytest.mark.parametrize("latency_s", [LATENCY_S, 1.15])
def test_refill_fails_just_above_20_ms_or_5_percent_of_the_latency(latency_s: float) -> None:
    bound = max(0.02, 0.05 * latency_s) + 0.2 * C / (N - C)  # and what pauses may add to the mean of 29 rounds
    for turnaround_s, outcome in ((bound - 0.001, PASS), (bound + 0.001, FAIL)):
        times = closed_loop(N, C, turnaround_s=turnaround_s, latency_s=latency_s)
        found = judged(journal(times, ttft_s=latency_s - 0.15))
        assert (found["refill"].outcome, found["slots"].outcome, found["ramp"].outcome) == (outcome, PASS, PASS)
        assert found["refill"].measured == f"{turnaround_s * 1e3:.1f} ms"
        assert found["refill"].smallest_deviation == f"{bound * 1e3:.1f} ms"


@pytest.mark.parametrize("slots", [8, 100])
def test_ramp_fails_just_above_a_quarter_second_and_half_a_millisecond_a_slot(slots: int) -> None:
    bound = 0.25 + 0.0005 * slots
    for ramp_s, outcome in ((bound - 0.001, PASS), (bound + 0.001, FAIL)):
        times = closed_loop(10 * slots, slots, latency_s=0.95, ramp_s=ramp_s)
        found = judged(journal(times, ttft_s=0.8), slots=slots)
        assert (found["ramp"].outcome, found["slots"].outcome) == (outcome, PASS)
        assert found["ramp"].measured == f"{ramp_s:.3f} s"
        assert found["ramp"].smallest_deviation == f"{bound:.3f} s"


def test_ramp_holds_at_any_n() -> None:
    slow = journal([0.0, 0.3], ttft_s=0.8)
    assert outcomes(slow, slots=2) == (PASS, UNCLEAR, FAIL)
    late = "a ramp: 1 of 2 slots are filled after 0.000 s, the last one only after 0.300 s"
    assert judged(slow, slots=2)["ramp"].detail == late


@pytest.mark.parametrize(
    ("slots", "starts", "turnaround_s", "outcome"), [(8, 50, 0.003, PASS), (8, 50, 0.055, FAIL), (40, 80, 0.13, FAIL)]
)
def test_too_few_starts_on_the_plateau_are_unclear_for_refill_alone(
    slots: int, starts: int, turnaround_s: float, outcome: Outcome
) -> None:
    enough = closed_loop(slots + starts, slots, turnaround_s=turnaround_s, latency_s=0.05)
    assert outcomes(journal(enough, ttft_s=0.05, tokens=1), slots=slots) == (PASS, outcome, PASS)
    found = judged(journal(enough[:-1], ttft_s=0.05, tokens=1), slots=slots)
    assert tuple(f.outcome for f in found.values()) == (PASS, UNCLEAR, PASS)
    assert f"{starts - 1} starts" in found["refill"].detail
    assert f"; {starts} in 0.20 s" in found["refill"].detail


@pytest.mark.parametrize(("rounds", "outcome"), [(4, UNCLEAR), (5, PASS)])
def test_a_plateau_shorter_than_four_latencies_is_unclear_for_refill_alone(rounds: int, outcome: Outcome) -> None:
    # 20 slots, each used `rounds` times: the last start is (rounds - 1) latencies after the first
    found = judged(closed_loop(20 * rounds, 20, turnaround_s=0.001), slots=20)
    assert tuple(f.outcome for f in found.values()) == (PASS, outcome, PASS)


def test_refill_is_not_unclear_for_a_wrong_peak() -> None:
    assert outcomes(closed_loop(N, C - 1, turnaround_s=0.05)) == (FAIL, FAIL, PASS)


def test_requests_that_never_ended_stay_in_flight() -> None:
    forged = journal([0.0, 0.001, 0.002, 0.003])
    for row in range(4):
        forged = changed(forged, row, done_ns=None, how_ended=None, planned_ns=[], late_ns=[], output_tokens=0)
    assert judged(forged, slots=4)["slots"].measured == "4"
    assert judged(forged, slots=4)["slots"].outcome is PASS


def test_one_that_never_ended_among_others_is_one_slot_less_for_them() -> None:
    forged = changed(journal(closed_loop(N, C)), 0, done_ns=None, how_ended=None, late_ns=[None] * 16, output_tokens=0,
                     finish_reason=None)  # fmt: skip
    assert judged(forged)["slots"].measured == "9"  # seven slots and the next round's eighth, beside the one that hangs


def test_a_client_that_closes_early_frees_its_slot_when_it_closes() -> None:
    starts = [0.0, 0.1, 0.2]
    whole = journal(starts)
    assert judged(whole, slots=3)["slots"].measured == "3"
    closed = changed(whole, 0, how_ended=CLIENT_CLOSED, done_ns=forge.EPOCH_NS + 150_000_000, output_tokens=5,
                     finish_reason=None, late_ns=[0] * 5,
                     planned_ns=whole.table["planned_ns"][0].as_py()[:5])  # fmt: skip
    assert judged(closed, slots=2)["slots"].outcome is PASS


@pytest.mark.parametrize(("reason", "asked"), [("length", 16), ("stop", 40), ("stop", None)])
def test_closing_after_finish_reason_and_before_done_does_not_lengthen_a_request(
    reason: str, asked: int | None
) -> None:
    whole = changed(journal([0.0, LATENCY_S + 0.001]), 0, finish_reason=reason, max_tokens=asked)
    closed = changed(whole, 0, how_ended=CLIENT_CLOSED, done_ns=forge.EPOCH_NS + int(2e9 * LATENCY_S))
    assert judged(closed, slots=1)["slots"].outcome is PASS


def test_a_reply_that_is_not_streamed_is_in_flight_until_its_only_write() -> None:
    loop = closed_loop(N, C, turnaround_s=0.003)
    assert outcomes(journal(loop, ttft_s=LATENCY_S, tokens=1)) == (PASS, PASS, PASS)
    assert judged(journal(loop, ttft_s=LATENCY_S + 0.01, tokens=1))["slots"].outcome is FAIL


def test_an_empty_journal_and_one_request() -> None:
    assert outcomes(journal([])) == (UNCLEAR, UNCLEAR, UNCLEAR)  # one request was asked for, which fills no 8 slots
    nothing = ask(closed_case(N, C), journal([]))
    assert [nothing[f"concurrency.{name}"].outcome for name in NAMES] == [FAIL, UNCLEAR, UNCLEAR]
    assert outcomes(journal([0.0]), slots=1) == (PASS, UNCLEAR, PASS)


def test_declared_leading_extras_are_trimmed() -> None:
    loop = np.concatenate([[-30.0], closed_loop(N, C, turnaround_s=0.003)])
    found = ask(closed_case(N, C, leading_extra_requests=1), journal(loop))
    assert found["concurrency.ramp"].outcome is PASS
    assert ask(closed_case(N, C), journal(loop))["concurrency.ramp"].outcome is FAIL


def test_an_open_loop_has_no_concurrency_findings() -> None:
    found = ask(forge.rate_case(100, 20.0, "constant"), journal(forge.constant(100, 20)))
    assert not [name for name in found if name.startswith("concurrency")]
