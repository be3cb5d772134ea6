"""Does a late absorber turn exactly those failures into unclear that rest on its writes, and never a pass?"""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from loadproof.case import Case
from loadproof.journal import Journal
from loadproof.verdict import Finding, Outcome, verdict_of
from tests.unit.forge import (
    ITL_S,
    TTFT_S,
    ask,
    case,
    changed,
    closed_case,
    closed_loop,
    constant,
    journal,
    nanoseconds,
    rate_case,
    without,
)

N, C, RATE = 240, 8, 20.0
PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR
LOOP = closed_loop(N, C, turnaround_s=0.003)
SEVEN = closed_loop(N, C - 1, turnaround_s=0.003)
EVEN = constant(N, RATE)
SLOW = constant(N, RATE * 0.9)


def one_late(late_s: float, *, n: int = N, shares: int = 1) -> np.ndarray:
    """Lateness per request: `shares` requests late, in the middle."""
    late = np.zeros(n)
    late[100 : 100 + shares] = late_s
    return late


def lateness(forged: Journal, asked: Case | None = None) -> Finding:
    return ask(asked or rate_case(N, RATE, "constant"), forged)["instrument.lateness"]


@pytest.mark.parametrize(("itl_s", "bound_s"), [(0.01, 0.001), (0.02, 0.001), (0.04, 0.002), (0.0, 0.001)])
def test_late_is_p99_above_a_millisecond_or_5_percent_of_the_interval(itl_s: float, bound_s: float) -> None:
    on_time = lateness(journal(EVEN, late_s=bound_s, itl_s=itl_s))
    late = lateness(journal(EVEN, late_s=bound_s + 1e-6, itl_s=itl_s))
    assert (on_time.outcome, late.outcome) == (PASS, UNCLEAR)
    assert on_time.expected == f"p99 <= {bound_s * 1e3:.1f} ms"
    assert (on_time.n, on_time.detail, late.counted) == (N * 16, "", False)


def test_the_shown_lateness_is_that_of_the_chunks() -> None:
    shown = lateness(journal(EVEN, late_s=one_late(0.05, shares=24))).measured
    assert shown == "0.00, 50.00, 50.0 ms"


def test_a_hundredth_late_is_not_late_and_two_hundredths_are() -> None:
    assert lateness(journal(EVEN, late_s=one_late(0.05, shares=2))).outcome is PASS
    assert lateness(journal(EVEN, late_s=one_late(0.05, shares=5))).outcome is UNCLEAR


def held_back(forged: Journal) -> Journal:
    """Every request's client was slow to read."""
    place = forged.table.schema.get_field_index("blocked_ns")
    waits = pa.array([1] * len(forged.table), pa.int64())
    return Journal(forged.table.set_column(place, "blocked_ns", waits), forged.metadata)


def lagging(forged: Journal, lag_s: np.ndarray) -> Journal:
    """Each request read `lag_s` after its arrival."""
    place = forged.table.schema.get_field_index("read_ns")
    read = pa.array(forged.table["arrival_ns"].to_numpy() + nanoseconds(lag_s))
    return Journal(forged.table.set_column(place, "read_ns", read), forged.metadata)


def test_that_nothing_is_known_is_said_with_its_cause() -> None:
    nothing, slow = lateness(journal([])), lateness(held_back(journal(EVEN)))
    assert (nothing.outcome, slow.outcome, nothing.n, slow.n) == (UNCLEAR, UNCLEAR, 0, 0)
    assert nothing.detail == "it wrote nothing, so nothing is known of its punctuality"
    assert slow.detail == ("it wrote nothing that did not have to wait for a slow client, so nothing is known of its "
                           "punctuality")  # fmt: skip


def lag(forged: Journal) -> Finding:
    return ask(rate_case(N, RATE, "constant"), forged)["instrument.lag"]


def test_the_lag_is_shown_with_the_share_that_the_kernel_stamped() -> None:
    lags = np.linspace(0, 0.0024, N)
    found = lag(lagging(journal(EVEN, kernel=True), lags))
    p99 = float(np.percentile(lags, 99)) * 1e3
    assert found.measured == f"1.20, {p99:.2f}, 2.4 ms of 100%"
    assert (found.outcome, found.n, found.counted, found.detail) == (PASS, N, False, "")


def test_the_share_of_stamps_is_never_rounded_up_to_all() -> None:
    found = lag(changed(journal(EVEN, kernel=True), 0, arrival_kernel=False))
    assert (found.outcome, found.n, found.measured) == (PASS, N - 1, "0.00, 0.00, 0.0 ms of 99.5%")


def test_too_few_stamps_are_told_and_do_not_count() -> None:
    few = journal(EVEN, kernel=True)
    for row in range(3):
        few = changed(few, row, arrival_kernel=False)
    assert (lag(few).outcome, lag(few).counted) == (UNCLEAR, False)
    assert lag(few).detail.startswith("the kernel stamped 98.7% of the arrivals; the others are our own reads")
    none = lag(journal(EVEN))
    assert (none.outcome, none.n, none.measured) == (UNCLEAR, 0, "no arrival stamped")
    assert none.detail.startswith("the kernel stamped no arrival, so how late we read is not known")
    assert verdict_of("c", "t", ask(rate_case(N, RATE, "constant"), journal(EVEN)).values()).outcome is PASS


def test_a_lag_of_an_own_stamp_is_none() -> None:
    own = lagging(journal(EVEN), np.full(N, 0.05))
    assert lag(own).measured == "no arrival stamped"


def test_a_slow_client_is_not_our_lateness() -> None:
    slow = journal(EVEN, late_s=one_late(0.05, shares=24))
    for row in range(100, 124):
        slow = changed(slow, row, blocked_ns=1)
    assert lateness(slow).outcome is PASS
    assert lateness(slow).n == (N - 24) * 16


@pytest.mark.parametrize(("lag_s", "rows", "outcome"), [(0.0051, 3, UNCLEAR), (0.0049, 9, PASS), (0.0051, 2, PASS)])
def test_late_reads_count_where_the_kernel_stamped(lag_s: float, rows: int, outcome: Outcome) -> None:
    stamped = journal(EVEN, kernel=True)
    for row in range(rows):
        arrival = stamped.table["arrival_ns"][row].as_py()
        stamped = changed(stamped, row, read_ns=arrival + int(nanoseconds(lag_s)))
    assert (lag(stamped).outcome, lateness(stamped).outcome) == (outcome, PASS)
    if outcome is UNCLEAR:
        assert "1.2% of its reads" in lag(stamped).detail


def test_late_reads_turn_a_failed_concurrency_into_unclear() -> None:
    three = np.where(np.arange(N) < 3, 0.0051, 0.0)
    assert ask(closed_case(N, C), journal(SEVEN, kernel=True))["concurrency.slots"].outcome is FAIL
    assert ask(closed_case(N, C), lagging(journal(SEVEN, kernel=True), three))["concurrency.slots"].outcome is UNCLEAR


def test_without_a_chunk_nothing_is_known_and_it_is_not_called_late() -> None:
    found = lateness(journal([]))
    assert (found.outcome, found.n) == (UNCLEAR, 0)
    assert "busy" not in found.detail


@pytest.mark.parametrize(("jump_s", "outcome"), [(0.001, PASS), (-0.001, PASS), (0.0011, UNCLEAR), (-0.0011, UNCLEAR)])
def test_a_clock_jump_above_a_millisecond_makes_the_run_unclear(jump_s: float, outcome: Outcome) -> None:
    found = ask(rate_case(N, RATE, "constant"), journal(EVEN, clock_jump_s=jump_s, kernel=True))
    clock = found["instrument.clock"]
    assert (clock.outcome, clock.counted, clock.n, clock.detail) == (outcome, True, N, "")
    assert verdict_of("c", "t", found.values()).outcome is outcome


def test_a_clock_that_no_arrival_rests_on_does_not_count() -> None:
    found = ask(rate_case(N, RATE, "constant"), journal(EVEN, clock_jump_s=1.0))
    clock = found["instrument.clock"]
    assert (clock.outcome, clock.counted, clock.n, clock.measured) == (UNCLEAR, False, 0, "1000.000 ms")
    assert clock.detail == "the kernel stamped no arrival, so none rests on this clock"
    assert verdict_of("c", "t", found.values()).outcome is PASS
    assert rate_outcome(journal(SLOW, clock_jump_s=1.0)) is FAIL
    one = changed(journal(EVEN, clock_jump_s=1.0), 5, arrival_kernel=True)
    assert (ask(rate_case(N, RATE, "constant"), one)["instrument.clock"].counted) is True


def test_late_turns_a_failed_concurrency_into_unclear_with_its_reason() -> None:
    punctual = ask(closed_case(N, C), journal(SEVEN))
    late = ask(closed_case(N, C), journal(SEVEN, late_s=one_late(0.002, shares=24)))
    assert (punctual["concurrency.slots"].outcome, late["concurrency.slots"].outcome) == (FAIL, UNCLEAR)
    assert "would fail" in late["concurrency.slots"].detail
    # The lateness shows in the turnaround that the detail tells, and nowhere else.
    said = punctual["concurrency.slots"].detail.partition(" after ")[0]
    assert said.startswith("client-limited: ")
    assert said in late["concurrency.slots"].detail
    assert late["concurrency.slots"].measured == "7"


def test_a_clock_jump_alone_turns_a_failed_concurrency_into_unclear() -> None:
    def slots(jump_s: float) -> Finding:
        return ask(closed_case(N, C), journal(SEVEN, clock_jump_s=jump_s, kernel=True))["concurrency.slots"]

    assert slots(0.001).outcome is FAIL
    assert slots(0.0011).outcome is UNCLEAR
    assert slots(0.0011).detail.startswith("would fail, but our clock jumped; run again on a quieter machine. client")


def stepped(step_s: float, *, jump_s: float, kernel: bool = True, turnaround_s: float = 0.0003) -> Finding:
    """C slots, and some arrivals in the middle whose stamps are off by `step_s` until the next look at the clock."""
    starts = closed_loop(N, C, turnaround_s=turnaround_s, ramp_s=0.1)
    starts[100:140] += step_s
    return ask(closed_case(N, C), journal(starts, clock_jump_s=jump_s, kernel=kernel))["concurrency.slots"]


def test_a_step_of_the_clock_that_alone_makes_one_more_is_unclear() -> None:
    one_more = stepped(-0.0005, jump_s=-0.0005)
    assert (one_more.outcome, one_more.measured) == (UNCLEAR, str(C + 1))
    why = "would fail, but our clock moved by 0.5 ms, which alone can make this; run again. "
    assert one_more.detail.startswith(why)
    assert stepped(-0.0005, jump_s=0.0).outcome is FAIL
    assert stepped(-0.0005, jump_s=-0.0001).outcome is FAIL  # too small for an overlap of 0.2 ms
    assert stepped(-0.0005, jump_s=0.0005, kernel=False).outcome is FAIL  # our own stamps know no such step
    assert stepped(-0.0001, jump_s=-0.0001).outcome is PASS


def test_a_step_that_cannot_make_the_difference_leaves_the_fail() -> None:
    def slots(starts: np.ndarray) -> Outcome:
        return ask(closed_case(N, C), journal(starts, clock_jump_s=0.0009, kernel=True))["concurrency.slots"].outcome

    assert slots(SEVEN) is FAIL
    assert slots(closed_loop(N, C + 1, turnaround_s=0.003)) is FAIL
    assert slots(closed_loop(N, C - 1, turnaround_s=0.0001)) is UNCLEAR  # earlier by 0.9 ms, the seven would overlap


def test_late_leaves_a_pass_a_pass_and_the_verdict_clean() -> None:
    found = ask(closed_case(N, C), journal(LOOP, late_s=one_late(0.002, shares=24)))
    assert {found[f"concurrency.{name}"].outcome for name in ("slots", "refill", "ramp")} == {PASS}
    assert found["instrument.lateness"].outcome is UNCLEAR
    assert verdict_of("c", "t", found.values()).outcome is PASS


def test_late_leaves_count_and_payload_their_fail() -> None:
    late = journal(LOOP, late_s=0.5, clock_jump_s=1.0)
    found = ask(closed_case(N, C), without(changed(late, 7, max_tokens=15), 100))
    assert found["count.requests"].outcome is FAIL
    assert found["payload.max_tokens"].outcome is FAIL
    assert verdict_of("c", "t", found.values()).outcome is FAIL


def rate_outcome(forged: Journal, asked: Case | None = None) -> Outcome:
    return ask(asked or rate_case(N, RATE, "constant"), forged)["rate.mean"].outcome


def test_a_wrong_rate_keeps_its_fail_when_only_chunks_were_late() -> None:
    assert rate_outcome(journal(SLOW)) is FAIL
    assert rate_outcome(journal(SLOW, late_s=0.05)) is FAIL


def test_a_wrong_rate_is_unclear_when_the_clock_jumped_and_a_right_one_passes() -> None:
    assert rate_outcome(journal(SLOW, clock_jump_s=0.0011, kernel=True)) is UNCLEAR
    assert rate_outcome(journal(EVEN, clock_jump_s=0.0011, kernel=True)) is PASS
    assert rate_outcome(journal(SLOW, clock_jump_s=0.001, kernel=True)) is FAIL


def test_a_wrong_rate_is_unclear_when_our_own_stamps_stood_still_for_a_hundredth_of_the_span() -> None:
    span = SLOW[-1] - SLOW[0]
    just_less, just_more = one_late(0.0099 * span), one_late(0.0101 * span)
    assert rate_outcome(journal(SLOW, late_s=just_less)) is FAIL
    assert rate_outcome(journal(SLOW, late_s=just_more)) is UNCLEAR
    assert rate_outcome(journal(EVEN, late_s=just_more)) is PASS
    assert rate_outcome(journal(SLOW, late_s=just_more, kernel=True)) is FAIL


@pytest.mark.parametrize(("fell_back", "outcome"), [(1, FAIL), (3, UNCLEAR)])
def test_up_to_a_hundredth_of_the_stamps_may_fall_back(fell_back: int, outcome: Outcome) -> None:
    stamped = journal(SLOW, late_s=one_late(0.5), kernel=True)
    for row in range(fell_back):
        stamped = changed(stamped, row, arrival_kernel=False)
    assert rate_outcome(stamped) is outcome


@pytest.mark.parametrize(("share", "outcome"), [(0.0099, FAIL), (0.0101, UNCLEAR)])
def test_a_standstill_that_only_a_read_shows_is_one(share: float, outcome: Outcome) -> None:
    """No chunk was due meanwhile, so no write was late."""
    seen = journal(SLOW, kernel=True)
    for row in range(3):
        seen = changed(seen, row, arrival_kernel=False)
    lags = np.zeros(N)
    lags[100] = share * (SLOW[-1] - SLOW[0])
    assert rate_outcome(lagging(seen, lags)) is outcome


def test_a_standstill_of_seconds_is_one_in_a_long_span_too() -> None:
    long = constant(N, 0.5)  # 478 s
    asked = rate_case(N, 1.0, "constant")
    assert rate_outcome(journal(long, late_s=one_late(10.0)), asked) is UNCLEAR
    assert rate_outcome(journal(long, late_s=one_late(4.0)), asked) is FAIL


def test_a_rate_with_a_cap_rests_on_our_writes() -> None:
    capped = case({"mode": "rate", "rate": RATE, "cap": 40}, workload={"num_requests": N}, arrival="constant")
    assert rate_outcome(journal(SLOW), capped) is FAIL
    assert rate_outcome(journal(SLOW, late_s=0.05), capped) is UNCLEAR
    assert rate_outcome(journal(EVEN, late_s=0.05), capped) is PASS


@pytest.mark.parametrize("arrival", ["constant", "fixed-span", "poisson"])
def test_a_flood_fails_for_each_spacing_and_is_not_called_a_standstill(arrival: str) -> None:
    """What is sent all at once has no span of its own; its lateness is measured by the asked one."""
    flood = journal(np.linspace(0, 0.05, 600), late_s=0.0006)
    assert lateness(flood).outcome is PASS
    assert rate_outcome(flood, rate_case(600, 40, arrival)) is FAIL


def test_slots_keep_their_fail_when_only_a_standstill_was_short_and_all_came_at_once() -> None:
    burst = journal(np.linspace(0, 0.01, N), late_s=0.0006)
    slots = ask(closed_case(N, C), burst)["concurrency.slots"]
    assert (slots.outcome, slots.measured) == (FAIL, str(N))


def test_a_leading_extra_does_not_stretch_the_span() -> None:
    slow = journal(np.concatenate([[-3000.0], constant(N, RATE * 0.9)]), late_s=one_late(0.5, n=N + 1))
    asked = rate_case(N, RATE, "constant", leading_extra_requests=1)
    assert rate_outcome(slow, asked) is UNCLEAR


@pytest.mark.parametrize(("told", "outcome"), [({"ttft_s": 0.2, "itl_s": ITL_S}, UNCLEAR), ({"ttft_s": TTFT_S}, None)])
def test_another_profile_than_the_cases_is_told(told: dict[str, object], outcome: Outcome | None) -> None:
    forged = journal(LOOP)
    served = Journal(forged.table, msgspec.structs.replace(forged.metadata, profile=told))
    found = ask(closed_case(N, C), served).get("instrument.profile")
    assert (found.outcome if found else None) is outcome
    if found:
        assert (found.expected, found.measured) == (f"ttft_s {TTFT_S}", "ttft_s 0.2")
