"""Are waves, lost slots, ramps and overshoots told from each other, in words too, and honest clients never blamed?"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import pytest

from loadproof.journal import Journal
from loadproof.load.concurrency import above, flight, lost_at_first, plateau
from loadproof.load.measured import measure
from loadproof.load.waves import refills
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import Seconds, ask, case, changed, closed_case, journal
from tests.unit.forge_loops import Calls, Latencies, capped, in_order, joined, slots, waves

C, N, L = 8, 240, 0.25
PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR
HONEST = {"slots": PASS, "refill": PASS, "held": PASS, "waves": PASS, "ramp": PASS}


def uneven(rng: np.random.Generator, sigma: float = 0.5, median: float = L) -> Latencies:
    def draw(n: int) -> Seconds:
        return np.asarray(median * np.exp(sigma * rng.standard_normal(n)))

    return draw


def even(latency_s: float = L) -> Latencies:
    return lambda n: np.full(n, latency_s)


def written(calls: Calls) -> Journal:
    return journal(calls.starts_s, ttft_s=calls.latency_s, tokens=1, kernel=True)


def judged(calls: Calls | Journal, *, count: int = C) -> dict[str, Finding]:
    forged = calls if isinstance(calls, Journal) else written(calls)
    found = ask(closed_case(forged.table.num_rows, count), forged)
    return {name.partition(".")[2]: finding for name, finding in found.items() if name.startswith("concurrency.")}


def outcomes(calls: Calls | Journal, *, count: int = C) -> dict[str, Outcome]:
    return {name: finding.outcome for name, finding in judged(calls, count=count).items()}


def failing(calls: Calls | Journal, *, count: int = C) -> set[str]:
    return {name for name, outcome in outcomes(calls, count=count).items() if outcome is FAIL}


def test_what_is_in_flight_is_what_a_sweep_counts_with_what_is_left_of_a_stage_before() -> None:
    rng = np.random.default_rng(21)
    for _ in range(200):
        starts = np.sort(rng.integers(0, 40, 14))
        made = measure(journal(forge.constant(14, 1))).requests
        everything = replace(made, start_ns=starts, end_ns=starts + rng.integers(1, 25, 14))
        first = int(rng.integers(1, 13))
        own = everything.rows(slice(first, None))
        held = flight(own, everything.rows(slice(0, first)))
        ends = everything.end_ns.tolist()
        spans = [(s, e) for s, e in zip(starts.tolist(), ends, strict=True) if e > own.start_ns[0]]
        begin, end = int(own.start_ns[0]), held.last_end_ns
        level = np.array([sum(s <= t < e for s, e in spans) for t in range(begin, end)])
        at_starts = [sum(s <= t < e for s, e in spans) for t in own.start_ns.tolist()]
        assert held.peak == max(at_starts)  # of equal starts the last has them all
        middle = int(rng.integers(begin + 1, end)) if end > begin + 1 else end
        for most in (None, 2, 5):
            capped_level = level if most is None else np.minimum(level, most)
            assert held.mean(begin, middle, most) == pytest.approx(capped_level[: middle - begin].mean())
        for least in (1, 3, 6):
            shares = held.shares_at(least, np.array([begin, middle, end], np.float64))
            assert shares[0] == pytest.approx(np.mean(level[: middle - begin] >= least))
        over = level > 2
        lasted, _, last, times = above(held, 2)
        assert lasted * 1e9 == pytest.approx(over.sum())
        assert times == np.count_nonzero(np.diff(over.astype(int), prepend=0) == 1)
        assert round(last * 1e9) == (int(np.flatnonzero(over)[-1]) + 1 if over.any() else 0)


# honest clients


@pytest.mark.parametrize("pauses_per_s", [0.05, 0.3, 1.0])
@pytest.mark.parametrize(
    ("count", "n", "latency_s"), [(1, 60, 0.25), (8, 128, 0.25), (8, 376, 0.085), (128, 3000, 0.2)]
)
def test_honest_clients_pass(count: int, n: int, latency_s: float, pauses_per_s: float) -> None:
    for seed in range(4):
        rng = np.random.default_rng([seed, count])
        for latencies in (even(latency_s), uneven(rng, median=latency_s)):
            found = outcomes(slots(count, rng, latencies, n=n, pauses_per_s=pauses_per_s), count=count)
            waves_known = latencies(2).std() > 0
            assert found.pop("waves", PASS) is (PASS if waves_known or count == 1 else UNCLEAR)
            assert set(found.values()) == {PASS}


def test_one_slot_is_never_in_waves() -> None:
    assert "waves" not in outcomes(slots(1, np.random.default_rng(1), even(), n=60), count=1)


@pytest.mark.parametrize("count", [1024, 4096])
def test_many_slots(count: int) -> None:
    rng = np.random.default_rng(count)
    latencies = uneven(rng, 0.3, median=4 * count * 0.0002)  # the first burst ends before the first reply
    calls = slots(count, rng, latencies, n=8 * count)
    assert outcomes(calls, count=count) == HONEST
    assert failing(calls, count=count - 1) == failing(calls, count=count + 1) == {"slots"}


# waves


@pytest.mark.parametrize("count", [2, 8, 64])
def test_waves_are_named_with_their_size(count: int) -> None:
    rng = np.random.default_rng(count)
    found = judged(waves(count, 30 * count, rng, uneven(rng)), count=count)
    assert found["waves"].outcome is FAIL
    assert found["slots"].outcome is PASS
    assert f"in waves of {count} every" in found["waves"].detail
    same = np.random.default_rng(count)
    assert outcomes(slots(count, same, uneven(same), n=30 * count), count=count)["waves"] is PASS


def test_waves_of_equal_replies_are_the_same_load_and_not_counted() -> None:
    rng = np.random.default_rng(3)
    for calls in (waves(C, N, rng, even()), slots(C, rng, even(), n=N)):
        found = judged(calls)
        assert failing(calls) == set()
        assert (found["waves"].outcome, found["waves"].counted) == (UNCLEAR, False)
        assert "lognormal, sigma 0.5" in found["waves"].detail


def test_slow_slots_are_not_waves() -> None:
    rng = np.random.default_rng(4)
    for turnaround_s in ((0.06, 0.06), (0.2, 0.2), (0.0, 0.4), (0.1, 0.3)):
        found = judged(slots(C, rng, uneven(rng), n=N, turnaround_s=turnaround_s))
        assert (found["refill"].outcome, found["waves"].outcome) == (FAIL, PASS)
        assert "a freed slot stays empty" in found["refill"].detail


def test_slots_that_are_refilled_on_a_tick_are_refilled_together() -> None:
    rng = np.random.default_rng(5)
    tick, ready = 0.2, [0.0] * C
    latency = uneven(rng)(N)
    starts = np.empty(N)
    for k in range(N):
        starts[k] = np.ceil(heapq.heappop(ready) / tick) * tick + 1e-5 * (k % C)
        heapq.heappush(ready, starts[k] + latency[k])
    found = judged(in_order(starts, latency))
    assert found["waves"].outcome is FAIL
    assert found["waves"].detail.startswith("slots are refilled together, in waves of ")
    assert "every 0.2 s" in found["waves"].detail


def test_the_shared_part_of_waits() -> None:
    # two slots: one ends at 1, the other at 3, and both start again at 3.5
    seen = measure(journal([0.0, 0.0, 3.5, 3.5], ttft_s=np.array([1.0, 3.0, 1.0, 1.0]), tokens=1)).requests
    held = flight(seen)
    found = refills(held, plateau(held, 2))
    assert found.waits_s.tolist() == pytest.approx([2.5, 0.5])
    assert found.shared_s == pytest.approx(1.0)  # 2 s of the first wait, none of the second
    assert found.group == 2


# slots that are lost, or in use for a moment


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("latencies", [even(), uneven(np.random.default_rng(6), 0.3)])
def test_one_slot_lost_half_way_is_not_held(count: int, latencies: Latencies) -> None:
    rng = np.random.default_rng(count)
    n = 30 * count
    lost = slots(count, rng, latencies, n=n, lost=lambda k, _at: k > n / 2)
    assert "held" in failing(lost, count=count) <= {"held", "refill"}
    detail = judged(lost, count=count)["held"].detail
    assert f"slots are lost: no more than {count - 1} after " in detail
    assert failing(slots(count, rng, latencies, n=n), count=count) == set()


def test_a_peak_of_a_moment_is_named() -> None:
    rng = np.random.default_rng(7)
    moment = slots(C, rng, uneven(rng), n=N, lost=lambda k, _at: C // 2 if k > C else 0)
    found = judged(moment)
    assert failing(moment) == {"refill", "held"}
    assert "8 are in use only for a moment: no more than 4 after" in found["held"].detail


def test_few_requests_show_a_moment_when_they_are_too_few_for_refill() -> None:
    # 40 starts on the plateau: refill needs 50, held 4 latencies and a second
    moment = slots(C, np.random.default_rng(8), even(), n=48, lost=lambda k, _at: C // 2 if k > C else 0)
    assert failing(moment) == {"held"}
    assert outcomes(moment)["refill"] is UNCLEAR
    honest = outcomes(slots(C, np.random.default_rng(8), even(), n=48))
    assert (honest["held"], honest["refill"]) == (PASS, UNCLEAR)


@pytest.mark.parametrize(("n", "outcome"), [(32, UNCLEAR), (48, PASS)])
def test_held_needs_a_plateau_of_four_latencies(n: int, outcome: Outcome) -> None:
    found = judged(slots(C, np.random.default_rng(9), even(), n=n, pauses_per_s=0.0))["held"]
    assert found.outcome is outcome
    if outcome is UNCLEAR:
        assert "; 1.00 s are enough" in found.detail


def test_a_tenth_of_many_slots_lost_is_not_held() -> None:
    rng = np.random.default_rng(10)
    lost = slots(128, rng, uneven(rng), n=4000, lost=lambda k, _at: 20 if k > 2500 else 0)
    assert "held" in failing(lost, count=128)
    assert "no more than 108 after" in judged(lost, count=128)["held"].detail


# ramps


def test_a_ramp_one_by_one_in_groups_or_of_one_late_slot() -> None:
    def first(at: list[float]) -> str:
        rounds = np.concatenate([np.array(at) + k * 5.1 for k in range(12)])
        return judged(Calls(np.sort(rounds), np.full(len(rounds), 5.0)))["ramp"].detail

    assert first([0.15 * k for k in range(8)]) == "a ramp: slots are filled one every 150 ms over 1.05 s"
    assert "in groups of about 4, every 500 ms over 0.503 s" in first(
        [0.5 * (k // 4) + 0.001 * (k % 4) for k in range(8)]
    )
    late = first([0.001 * k for k in range(7)] + [3.0])
    assert late == "a ramp: 7 of 8 slots are filled after 0.006 s, the last one only after 3.00 s"
    assert first([0.001 * k for k in range(8)]) == ""


def scheduled(seed: int, n: int, latency_s: float) -> Calls:
    """All requests of a concurrency are due within the first second, at most C of them in flight."""
    rng = np.random.default_rng(seed)
    due = np.sort(rng.uniform(0, 1, n))
    return capped(due, C, rng, even(latency_s))


def test_a_ramp_that_reaches_the_peak_by_chance_is_a_ramp_all_the_same() -> None:
    early, seen = 0, []
    for seed in range(60):
        calls = scheduled(seed, 48, 0.085)
        held = flight(measure(written(calls)).requests)
        if held.peak == C:
            early += plateau(held, C).ramp_s < 0.25
            found = judged(calls)["ramp"]
            seen.append(found.outcome is FAIL)
            assert found.detail.startswith("a ramp: ") is seen[-1]
    assert early > 10  # which the time to the peak alone does not show
    assert sum(seen) >= len(seen) - 2  # now and then the first eight come at once


def test_what_is_slow_later_is_no_ramp() -> None:
    rng = np.random.default_rng(12)
    for calls in (slots(C, rng, even(0.1), n=48, turnaround_s=(0.2, 0.2)), waves(C, 48, rng, uneven(rng))):
        assert "ramp" not in failing(calls)


def test_time_lost_at_first() -> None:
    requests = measure(journal([0.0, 1.0, 2.0, 2.2], ttft_s=np.array([2.1, 1.1, 1.0, 1.0]), tokens=1)).requests
    held = flight(requests)
    lost_s, until_s = lost_at_first(held, plateau(held, 2), 0.0)
    assert [lost_s, until_s] == pytest.approx([0.55, 2.2])  # one of two for 1 s, one for 0.1 s
    lost_s, until_s = lost_at_first(held, plateau(held, 2), 0.2)
    assert [lost_s, until_s] == pytest.approx([0.3, 1.0])


# more than asked


def test_more_than_asked_at_the_start_once_or_on_and_on() -> None:
    honest = slots(C, np.random.default_rng(13), even(), n=N, pauses_per_s=0.0)
    first = judged(joined(honest, Calls(np.array([0.0005]), np.array([0.05]))))
    assert first["slots"].measured == "9"
    assert first["slots"].detail.startswith("only at the start: more than 8 for 0.0")
    once = judged(joined(honest, Calls(honest.starts_s[40:41] + 0.02, np.array([0.1]))))
    assert once["slots"].detail.startswith("more than 8 once, for 0.100 s from ")
    assert {name for name, found in once.items() if found.outcome is FAIL} == {"slots"}
    more = judged(slots(C + 1, np.random.default_rng(13), even(), n=N))
    assert "of 240 starts came while 8 were in flight" in more["slots"].detail


def test_fewer_than_asked_is_client_limited_or_short() -> None:
    rng = np.random.default_rng(14)
    limited = judged(slots(C, rng, even(), n=N), count=C + 4)["slots"]
    assert limited.detail.startswith("client-limited: a freed slot is used again after ")
    assert "no more than 8 are ever in use" in limited.detail
    slow = judged(slots(C, rng, even(), n=N, turnaround_s=(0.1, 0.1)), count=C + 4)["slots"]
    assert "a freed slot stays empty for 10" in slow.detail
    ramped = judged(Calls(forge.constant(12, 10), np.full(12, 1.05)), count=12)["slots"]
    assert (ramped.measured, ramped.detail) == ("11", "all 12 requests were sent before 12 were in flight at once")


def test_fewer_requests_than_slots_cannot_tell() -> None:
    found = judged(Calls(forge.constant(5, 1000), np.full(5, L)))["slots"]
    assert (found.outcome, found.measured) == (UNCLEAR, "5")
    assert "64 are enough" in found.detail


def test_a_request_that_never_ends_is_named() -> None:
    def hanging(calls: Calls, row: int) -> Finding:
        forged = changed(written(calls), row, done_ns=None, how_ended=None, late_ns=[None], output_tokens=0,
                         finish_reason=None)  # fmt: skip
        return judged(forged)["slots"]

    def honest(count: int) -> Calls:
        return slots(count, np.random.default_rng(15), even(), n=N, pauses_per_s=0.0)

    besides = hanging(honest(C), 30)
    assert besides.measured == "9"
    assert "one slot stays in use by a request that never ended" in besides.detail
    instead = hanging(joined(Calls(np.array([0.00005]), np.array([0.2])), honest(C - 1)), 0)
    assert (instead.outcome, instead.measured) == (PASS, "8")
    assert instead.detail == "one slot stays in use by a request that never ended"


# stages


def undrained(stages: list[tuple[int, int]], latencies: Latencies, *, adds: bool = False) -> Calls:
    """Stages of (slots, requests), one at once after the other: a new slot waits for old replies, unless it `adds`."""
    total = sum(n for _, n in stages)
    latency = latencies(total).tolist()
    busy: list[float] = []
    starts: list[float] = []
    now = 0.0
    for count, n in stages:
        mine: list[float] = []
        for _ in range(n):
            counted = mine if adds else busy
            while counted and counted[0] <= now:
                heapq.heappop(counted)
            while len(counted) >= count:
                now = heapq.heappop(counted) + 0.002
            starts.append(now)
            ends = now + latency[len(starts) - 1]
            heapq.heappush(busy, ends)
            if mine is not busy:
                heapq.heappush(mine, ends)
            now += 0.0001
    return in_order(np.array(starts), np.array(latency))


def staged(calls: Calls, stages: list[tuple[int, int]]) -> dict[str, Finding]:
    asked = [{"concurrency": count, "num_requests": n} for count, n in stages]
    load = {"mode": "stages", "stages": asked}
    found = ask(case(load, workload={"num_requests": sum(n for _, n in stages)}), written(calls))
    return {name.partition(".")[2]: finding for name, finding in found.items() if name.startswith("concurrency.")}


@pytest.mark.parametrize("stages", [[(8, 240), (4, 120)], [(4, 120), (8, 240)], [(1, 60), (16, 480), (2, 60)]])
def test_stages_without_a_drain_count_what_is_left_and_not_as_their_own(stages: list[tuple[int, int]]) -> None:
    found = staged(undrained(stages, uneven(np.random.default_rng(16))), stages)
    assert [found[f"slots[{k + 1}]"].measured for k in range(len(stages))] == [str(count) for count, _ in stages]
    assert {name for name, one in found.items() if one.outcome is not PASS} == set()


def test_slots_on_top_of_those_that_are_still_in_use_are_too_many() -> None:
    stages = [(8, 240), (4, 120)]
    found = staged(undrained(stages, uneven(np.random.default_rng(17)), adds=True), stages)
    assert found["slots[1]"].outcome is PASS
    assert (found["slots[2]"].outcome, found["slots[2]"].measured) == (FAIL, "12")
    assert "more than 4 once, for " in found["slots[2]"].detail


def test_each_stage_is_judged_by_its_own_slots() -> None:
    asked = [(4, 120), (8, 240)]
    wrong = staged(undrained([(4, 120), (7, 240)], uneven(np.random.default_rng(18))), asked)
    assert {name for name, one in wrong.items() if one.outcome is FAIL} == {"slots[2]"}
    assert "client-limited" in wrong["slots[2]"].detail


def test_a_stage_of_a_rate_has_no_slots() -> None:
    stages = [{"rate": 20, "num_requests": 40, "gap_s": 1.0}, {"concurrency": 4, "num_requests": 100}]
    asked = case({"mode": "stages", "stages": stages}, workload={"num_requests": 140}, arrival="constant")
    loop = slots(4, np.random.default_rng(19), even(), n=100)
    found = ask(asked, written(joined(Calls(forge.constant(40, 20), np.full(40, L)), loop.later(3.0))))
    assert {name for name in found if name.startswith("concurrency.")} == {
        f"concurrency.{name}[2]" for name in ("slots", "refill", "held", "waves", "ramp")
    }
    assert found["concurrency.slots[2]"].outcome is PASS


def test_a_duration_is_judged_as_a_number_is() -> None:
    rng = np.random.default_rng(20)
    by_time = case({"mode": "concurrency", "concurrency": C}, workload={"num_requests": None, "duration_s": 5})
    for count, failed in ((C, set[str]()), (C - 1, {"concurrency.slots"})):
        found = ask(by_time, written(slots(count, rng, uneven(rng), duration_s=5.0)))
        assert {name for name, one in found.items() if one.outcome is FAIL and name.startswith("conc")} == failed
