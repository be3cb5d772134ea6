"""Do stalls, groups and random gaps fail where even spacing was declared, and honest senders never?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.load.evenness import measure_evenness
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import Seconds, ask, changed, journal, rate_case

RATE, N = 20.0, 200
PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR


def judged(times: Seconds, *, rate: float = RATE, arrival: str = "constant") -> dict[str, Finding]:
    return ask(rate_case(len(times), rate, arrival), journal(times, tokens=1, kernel=True))


def outcomes(times: Seconds, *, rate: float = RATE) -> tuple[Outcome, Outcome]:
    found = judged(times, rate=rate)
    return found["arrivals.even"].outcome, found["arrivals.silence"].outcome


def stalled(gap_s: float, *, at: int = 180) -> Seconds:
    """Even spacing in which one gap is `gap_s` instead of 1/rate."""
    times = forge.constant(N, RATE)
    times[at:] += gap_s - 1 / RATE
    return times


def grouped(size: int) -> Seconds:
    return np.floor(np.arange(N) / size) * size / RATE


def test_even_spacing_passes_with_its_bounds_shown() -> None:
    found = judged(forge.constant(N, RATE))
    even, silence = found["arrivals.even"], found["arrivals.silence"]
    assert (even.outcome, even.n, even.expected, even.measured) == (PASS, N - 20, "<= 5.0, 10.0 ms", "0.0, 0.0 ms")
    assert (silence.outcome, silence.n, silence.measured, silence.smallest_deviation) == (PASS, N, "0.050 s", "0.300 s")


@pytest.mark.parametrize("at", [20, 100, 180, 199])
def test_one_gap_just_above_the_bound_is_a_silence(at: int) -> None:
    assert outcomes(stalled(0.299, at=at))[1] is PASS
    assert outcomes(stalled(0.301, at=at))[1] is FAIL


def test_a_stall_that_the_slope_does_not_see_is_seen_here() -> None:
    found = judged(stalled(5.0))
    assert (found["rate.mean"].outcome, found["arrivals.silence"].outcome) == (PASS, FAIL)


@pytest.mark.parametrize("size", [2, 4, 10])
def test_groups_fail_although_the_rate_is_right(size: int) -> None:
    found = judged(grouped(size))
    assert found["rate.mean"].outcome is PASS
    assert found["arrivals.even"].outcome is FAIL
    assert "groups" in found["arrivals.even"].detail


@pytest.mark.parametrize(("shift_s", "outcome"), [(0.0048, PASS), (0.0052, FAIL)])
def test_three_of_four_late_are_measured_by_the_median(shift_s: float, outcome: Outcome) -> None:
    times = forge.constant(N, RATE)
    times[np.arange(N) % 4 != 0] += shift_s
    assert outcomes(times)[0] is outcome


def read_late(seed: int) -> Seconds:
    """Even spacing that a loop with other things to do read up to 100 ms late."""
    return np.sort(forge.constant(N, RATE) + np.random.default_rng(seed).uniform(0, 0.1, N))


@pytest.mark.parametrize("late_s", [0.0, 0.05])  # of the chunks: with none due meanwhile, our late reads leave no trace
@pytest.mark.parametrize("times", [read_late(5), grouped(10), stalled(5.0)])
def test_what_may_be_our_own_late_reading_is_never_blamed_on_the_tool(times: Seconds, late_s: float) -> None:
    found = ask(rate_case(N, RATE, "constant"), journal(times, late_s=late_s))
    blamed = ask(rate_case(N, RATE, "constant"), journal(times, late_s=late_s, kernel=True))
    for name in ("arrivals.even", "arrivals.silence"):
        assert found[name].outcome is (UNCLEAR if blamed[name].outcome is FAIL else PASS), name
    assert FAIL in {blamed["arrivals.even"].outcome, blamed["arrivals.silence"].outcome}
    [detail, *_] = [found[name].detail for name in found if name.startswith("arrivals.") and found[name].detail]
    assert detail.startswith("would fail, but the kernel stamped 0% of the arrivals, and reading late ourselves looks")


@pytest.mark.parametrize(("fell_back", "outcome"), [(2, FAIL), (3, UNCLEAR)])
def test_a_hundredth_of_the_stamps_may_fall_back(fell_back: int, outcome: Outcome) -> None:
    seen = journal(grouped(10), tokens=1, kernel=True)
    for row in range(fell_back):
        seen = changed(seen, row, arrival_kernel=False)
    assert ask(rate_case(N, RATE, "constant"), seen)["arrivals.even"].outcome is outcome


def test_even_arrivals_of_our_own_stamps_pass() -> None:
    found = ask(rate_case(N, RATE, "constant"), journal(forge.constant(N, RATE)))
    assert {found[name].outcome for name in ("arrivals.even", "arrivals.silence")} == {PASS}


def test_exponential_gaps_fail() -> None:
    assert outcomes(forge.poisson(600, 40.0, np.random.default_rng(3)), rate=40.0)[0] is FAIL


def test_a_slow_rate_has_a_bound_of_a_tenth_of_its_gap() -> None:
    assert judged(forge.constant(N, 2.0), rate=2.0)["arrivals.even"].expected == "<= 50.0, 100.0 ms"


def test_too_few_say_what_is_enough() -> None:
    found = judged(forge.constant(60, RATE))
    assert found["arrivals.even"].outcome is UNCLEAR
    assert "50 are enough" in found["arrivals.even"].detail
    assert judged(np.zeros(1))["arrivals.silence"].outcome is UNCLEAR


@pytest.mark.parametrize(("shift_s", "outcome"), [(0.0098, PASS), (0.0102, FAIL)])
def test_a_third_that_is_late_is_seen_by_the_upper_quartile(shift_s: float, outcome: Outcome) -> None:
    times = forge.constant(N, RATE)
    times[np.arange(N) % 3 == 0] += shift_s
    assert outcomes(times)[0] is outcome


def in_two_halves(change: float, *, n: int = N) -> Seconds:
    """Even spacing whose second half, after the first second, is faster by `change`; the mean rate stays."""
    gaps = np.full(n, 1 / RATE)
    gaps[int(RATE) + (n - int(RATE)) // 2 + 1 :] /= 1 + change
    return np.asarray(np.cumsum(gaps) - gaps[0])


@pytest.mark.parametrize("side", [-1, 1])
def test_halves_of_two_rates_fail_just_beyond_2_percent(side: int) -> None:
    inside, outside = (judged(in_two_halves(side * change, n=400))["arrivals.halves"] for change in (0.019, 0.021))
    assert (inside.outcome, inside.smallest_deviation) == (PASS, "2%")
    assert (outside.outcome, outside.measured) == (FAIL, f"{side * 0.021:+.2%}")
    assert "/s in the first half" in outside.detail


def test_twice_as_fast_in_the_second_half_is_no_burst() -> None:
    found = judged(in_two_halves(1.0, n=400))
    assert (found["arrivals.halves"].outcome, found["arrivals.burst"].outcome) == (FAIL, PASS)
    assert "twice as fast in the second half" in found["arrivals.halves"].detail


def test_halves_need_4_seconds_and_50_after_the_first() -> None:
    for n, outcome in ((79, UNCLEAR), (80, PASS)):
        found = judged(forge.constant(n, RATE))["arrivals.halves"]
        assert found.outcome is outcome
    assert "80 in 4 s are enough" in judged(forge.constant(79, RATE))["arrivals.halves"].detail


def rushed(surplus: int, *, at_s: float) -> Seconds:
    """Even spacing, and `surplus` requests more within 10 ms."""
    return np.sort(np.concatenate([forge.constant(N, RATE), at_s + np.linspace(0, 0.01, surplus)]))


@pytest.mark.parametrize("at_s", [0.0, 0.5, 5.0])
def test_a_burst_is_seen_at_any_time_also_in_the_first_second(at_s: float) -> None:
    # 0.5 s of requests are 10, and one stands for itself; a request of the schedule may fall into it
    assert judged(rushed(9, at_s=at_s))["arrivals.burst"].outcome is PASS
    found = judged(rushed(13, at_s=at_s))["arrivals.burst"]
    assert (found.outcome, found.expected) == (FAIL, "<= 11 too many")
    assert f"from {at_s:.2f}" in found.detail


def test_a_burst_at_the_start_is_said_so() -> None:
    assert "a burst at the start" in judged(rushed(40, at_s=0.0))["arrivals.burst"].detail


@pytest.mark.parametrize("late_s", [0.0, 0.3])
def test_a_late_first_send_that_catches_up_is_no_burst(late_s: float) -> None:
    times = np.maximum(forge.constant(N, RATE), late_s)
    assert judged(times - times[0])["arrivals.burst"].outcome is PASS


@pytest.mark.parametrize(("cap", "reply_s", "outcome"), [(2, 0.09, UNCLEAR), (2, 0.05, FAIL), (40, 0.09, FAIL)])
def test_what_waited_for_a_place_is_unclear(cap: int, reply_s: float, outcome: Outcome) -> None:
    # Pairs 100 ms apart: only after a reply of 90 ms each one comes as soon as there is a place.
    asked = forge.case({"mode": "rate", "rate": RATE, "cap": cap}, workload={"num_requests": N}, arrival="constant")
    found = ask(asked, journal(grouped(2), ttft_s=reply_s, itl_s=0.0, kernel=True))["arrivals.even"]
    assert found.outcome is outcome
    assert (f"the cap of {cap} in flight was reached" in found.detail) == (outcome is UNCLEAR)


def test_residuals_against_a_straight_fit() -> None:
    """The same line by another way: numpy's least squares through arrivals without outliers."""
    times = forge.constant(N, RATE) + np.random.default_rng(1).uniform(0, 0.004, N)
    slope, origin = np.polyfit(np.arange(N), times, 1)
    residuals = times - (origin + slope * np.arange(N))
    spread = np.median(residuals[times >= 1]) - np.quantile(residuals[times >= 1], 0.02)
    assert measure_evenness(times).median_late_s == pytest.approx(spread, abs=3e-4)


@pytest.mark.parametrize("pauses_per_s", [0.05, 0.3, 1.0])
def test_honest_senders_raise_no_alarm(pauses_per_s: float) -> None:
    for seed in range(60):
        sent = forge.sent(forge.constant(600, 40.0), np.random.default_rng(seed), pauses_per_s=pauses_per_s)
        found = judged(sent - sent[0], rate=40.0)
        spacing = {name: one.outcome for name, one in found.items() if name.startswith("arrivals.")}
        assert spacing == dict.fromkeys(
            ("arrivals.even", "arrivals.halves", "arrivals.silence", "arrivals.burst"), PASS
        )
