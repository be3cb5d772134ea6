"""Is a rate that a limit holds back told as such, in words and never by mistake, and a cap judged exactly?"""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from loadproof.load.following import following
from loadproof.load.requests import measure_requests
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import Seconds, ask, case, journal, rate_case

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR
RATE, N, LATENCY = 40.0, 600, 0.2


def waiting(cap: int, *, turnaround_s: float = 0.001, n: int = N, rate: float = RATE) -> Seconds:
    """An even schedule of which each request waits until fewer than `cap` are in flight."""
    busy: list[float] = []
    starts = []
    for due in (np.arange(n) / rate).tolist():
        at = due
        if len(busy) == cap:
            at = max(due, heapq.heappop(busy) + turnaround_s)
        starts.append(at)
        heapq.heappush(busy, at + LATENCY)
    return np.array(starts)


def most_in_flight(times: Seconds) -> int:
    return following(measure_requests(journal(times, ttft_s=LATENCY, tokens=1))).peak


def judged(times: Seconds, *, cap: int | None = None, arrival: str = "constant") -> dict[str, Finding]:
    load = {"mode": "rate", "rate": RATE} | ({} if cap is None else {"cap": cap})
    asked = case(load, workload={"num_requests": max(1, len(times))}, arrival=arrival)
    return ask(asked, journal(times, ttft_s=LATENCY, tokens=1, kernel=True))


def test_a_hidden_limit_is_named_in_a_rate_that_fails() -> None:
    found = judged(waiting(4))["rate.mean"]
    assert found.outcome is FAIL
    assert "arrivals follow the ends of replies: never more than 4 in flight" in found.detail


def test_a_rate_that_is_low_by_its_schedule_is_not_said_to_wait() -> None:
    for times in (forge.constant(N, 20.0), forge.poisson(N, 20.0, np.random.default_rng(3))):
        found = judged(times)["rate.mean"]
        assert found.outcome is FAIL
        assert "follow" not in found.detail


@pytest.mark.parametrize("seed", range(20))
def test_honest_arrivals_do_not_follow_ends(seed: int) -> None:
    times = forge.sent(forge.poisson(N, RATE, np.random.default_rng(seed)), np.random.default_rng(seed + 100))
    seen = following(measure_requests(journal(times, ttft_s=LATENCY, tokens=1)))
    assert seen.share < 0.5 or seen.starts < 20


def test_the_share_by_chance_is_that_of_the_moments_after_an_end() -> None:
    seen = following(measure_requests(journal(waiting(4), ttft_s=LATENCY, tokens=1)))
    # 4 in flight, each for 0.2 s and 1 ms: 20 ends a second in groups of four at most, 5 ms each
    assert seen.peak == 4
    assert seen.share > 0.95
    assert seen.by_chance <= 20 * 0.005 + 1e-3


def test_a_cap_that_was_asked_for_and_reached_makes_a_low_rate_unclear() -> None:
    found = judged(waiting(4), cap=4)
    assert (found["rate.cap"].outcome, found["rate.mean"].outcome) == (PASS, UNCLEAR)
    assert "held back by the cap: 4 were in flight" in found["rate.mean"].detail
    assert "a cap of 14" in found["rate.mean"].detail  # 8 on average, and 2 deviations


@pytest.mark.parametrize("cap", [1, 2, 16])
@pytest.mark.parametrize("turnaround_s", [0.001, 0.006, 0.015])
def test_a_cap_that_is_far_too_small_is_to_blame_for_all(cap: int, turnaround_s: float) -> None:
    """Between an end and the next start fewer than the cap are in flight: at 1000/s many requests would have come."""
    times = waiting(cap, turnaround_s=turnaround_s, n=2000, rate=1000.0)
    asked = case({"mode": "rate", "rate": 1000, "cap": cap}, workload={"num_requests": 2000}, arrival="poisson")
    found = ask(asked, journal(times, ttft_s=LATENCY, tokens=1, kernel=True))["rate.mean"]
    assert found.outcome is UNCLEAR, found


@pytest.mark.parametrize("arrival", ["constant", "poisson", "fixed-span"])
def test_a_cap_that_was_reached_for_a_moment_does_not_excuse_a_slow_schedule(arrival: str) -> None:
    """27 a second throughout, and once 8 at a time: nothing held the tool back in the other 22 seconds."""
    times = np.sort(np.concatenate([forge.constant(N, 27.0), 5.0 + 1e-4 * np.arange(8)]))
    found = judged(times, cap=most_in_flight(times), arrival=arrival)
    assert (found["rate.cap"].outcome, found["rate.mean"].outcome) == (PASS, FAIL)


@pytest.mark.parametrize("arrival", ["constant", "poisson", "fixed-span"])
@pytest.mark.parametrize("cap", [2, 4, 6, 7])
def test_a_schedule_that_only_the_cap_holds_back_is_never_blamed(arrival: str, cap: int) -> None:
    assert judged(waiting(cap), cap=cap, arrival=arrival)["rate.mean"].outcome is not FAIL


def test_the_cap_explains_a_low_rate_after_a_late_first_send_too() -> None:
    """The end-point rate is above the asked one, the half-lag rate, by which even spacing is judged, is below."""
    times = np.concatenate([1e-3 * np.arange(13), np.arange(1, N - 12) / 39.4])
    assert (N - 1) / times[-1] > RATE
    found = judged(times, cap=most_in_flight(times))["rate.mean"]
    assert (found.outcome, "held back by the cap" in found.detail) == (UNCLEAR, True), found


def test_a_cap_that_was_not_reached_excuses_nothing() -> None:
    found = judged(forge.constant(N, 30.0), cap=20)
    assert (found["rate.cap"].outcome, found["rate.mean"].outcome) == (PASS, FAIL)


@pytest.mark.parametrize(("cap", "outcome"), [(7, FAIL), (8, PASS), (9, PASS)])
def test_the_cap_is_exact_from_above(cap: int, outcome: Outcome) -> None:
    found = judged(forge.constant(N, RATE), cap=cap)["rate.cap"]  # 40/s x 0.2 s
    assert found.outcome is outcome
    assert found.detail == ("8 were in flight at once" if outcome is FAIL else "")


def test_a_rate_that_is_too_high_is_not_excused_by_a_cap() -> None:
    times = forge.constant(N, 60.0)
    assert judged(times, cap=12)["rate.mean"].outcome is FAIL


def test_without_a_cap_there_is_no_such_finding() -> None:
    assert "rate.cap" not in ask(rate_case(N, RATE, "constant"), journal(forge.constant(N, RATE)))


def test_nothing_passes_no_cap() -> None:
    assert judged(np.zeros(0), cap=4)["rate.cap"].outcome is not PASS


def test_nothing_at_all_is_unclear_as_of_every_exact_finding() -> None:
    assert judged(np.zeros(0), cap=4)["rate.cap"].outcome is UNCLEAR


def test_a_cap_that_is_reached_for_a_moment_does_not_excuse_even_spacing_that_is_too_slow() -> None:
    times = np.sort(np.concatenate([forge.constant(N, 36.0), 5.0 + 1e-4 * np.arange(4)]))
    found = judged(times, cap=most_in_flight(times))
    assert (found["rate.mean"].outcome, found["rate.cap"].outcome) == (FAIL, PASS)


def test_groups_that_reach_the_cap_by_themselves_are_groups() -> None:
    times = np.floor(np.arange(N) / 10) * 10 / RATE + 1e-4 * (np.arange(N) % 10)
    found = judged(times, cap=most_in_flight(times))
    assert (found["rate.mean"].outcome, found["arrivals.even"].outcome) == (PASS, FAIL)


def test_spacing_that_only_the_cap_spoils_is_unclear() -> None:
    assert judged(waiting(4), cap=4)["arrivals.even"].outcome is UNCLEAR
    assert judged(waiting(4))["arrivals.even"].outcome is FAIL
