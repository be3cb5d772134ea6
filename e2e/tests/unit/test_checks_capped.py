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


def waiting(cap: int, *, turnaround_s: float = 0.001, n: int = N) -> Seconds:
    """A schedule of 40/s of which each request waits until fewer than `cap` are in flight."""
    busy: list[float] = []
    starts = []
    for due in (np.arange(n) / RATE).tolist():
        at = due
        if len(busy) == cap:
            at = max(due, heapq.heappop(busy) + turnaround_s)
        starts.append(at)
        heapq.heappush(busy, at + LATENCY)
    return np.array(starts)


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
    assert "a cap of 10" in found["rate.mean"].detail


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
