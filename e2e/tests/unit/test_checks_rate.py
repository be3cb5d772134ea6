"""Does the rate fail just outside its bound, on both sides and for every law, and stay silent on honest senders?"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import beta, chi2

from loadproof.arrival import Arrival
from loadproof.checks import stats
from loadproof.checks.rate import _rate
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import Seconds, ask, journal, rate_case

RATE, N = 40.0, 600
LAWS = ["constant", "fixed-span", "poisson", "gamma(0.5)", "gamma(4)"]


def judged(times: Seconds, arrival: str, *, rate: float = RATE, **declared: object) -> Finding:
    return ask(rate_case(len(times), rate, arrival, **declared), journal(times, tokens=1))["rate.mean"]


def judged_bare(times: Seconds, rate: float) -> Finding:
    """The finding over many or long runs, without their journals."""
    return _rate(times, rate, Arrival.parse("poisson"))


def at(deviation: float, *, n: int = N, rate: float = RATE, seed: int = 5) -> Seconds:
    """Exponential gaps whose end-point rate deviates by exactly this much."""
    times = np.cumsum(np.random.default_rng(seed).exponential(1.0, n))
    times = (times - times[0]) / (times[-1] - times[0])
    return np.asarray(times * (n - 1) / (rate * (1 + deviation)))


def spaced(deviation: float, *, n: int = N, rate: float = RATE) -> Seconds:
    return forge.constant(n, rate * (1 + deviation))


def visible(finding: Finding) -> tuple[float, float]:
    match = re.fullmatch(r"(-[\d.]+)%/\+([\d.]+|inf)%", finding.smallest_deviation)
    assert match, finding.smallest_deviation
    return float(match[1]) / 100, float(match[2]) / 100


@pytest.mark.parametrize(("n", "bound"), [(80, 0.025), (100, 0.02), (200, 0.01), (601, 0.01)])
@pytest.mark.parametrize("side", [-1, 1])
def test_constant_is_bounded_by_1_percent_or_2_over_n(n: int, bound: float, side: int) -> None:
    inside, outside = spaced(side * (bound - 0.0005), n=n), spaced(side * (bound + 0.0005), n=n)
    assert judged(inside, "constant").outcome is Outcome.PASS
    found = judged(outside, "constant")
    assert found.outcome is Outcome.FAIL
    assert found.smallest_deviation == f"-{bound:.1%}/+{bound:.1%}"
    assert found.measured.endswith(f"({side * (bound + 0.0005):+.2%})")


@pytest.mark.parametrize(("n", "rate"), [(600, 40), (200, 20)])
@pytest.mark.parametrize(("arrival", "shape"), [("fixed-span", 1.0), ("fixed-span(0.5)", 0.5), ("fixed-span(4)", 4.0)])
def test_fixed_span_is_bounded_as_its_law_and_a_late_first_send_say(
    n: int, rate: float, arrival: str, shape: float
) -> None:
    # scipy's own beta law: of n + 1 gaps of a span the first and the last are left out
    shortest = beta.ppf(5e-7, shape * (n - 1), 2 * shape)
    low, high = -(0.01 + 1 / n + 0.1 * rate / n), (n - 1) / n / (shortest - 0.3 * rate / n) - 1 + 0.01
    for edge, inward in ((low, 1), (high, -1)):
        inside, outside = at(edge + inward * 1e-5, n=n, rate=rate), at(edge - inward * 1e-5, n=n, rate=rate)
        assert judged(inside, arrival, rate=rate).outcome is Outcome.PASS
        assert judged(outside, arrival, rate=rate).outcome is Outcome.FAIL
    assert visible(judged(at(0, n=n, rate=rate), arrival, rate=rate)) == pytest.approx((low, high), abs=0.0005)


@pytest.mark.parametrize(("arrival", "shape"), [("poisson", 1.0), ("gamma(0.5)", 0.5), ("gamma(4)", 4.0)])
@pytest.mark.parametrize("n", [100, 600, 20_000])
def test_random_arrivals_fail_where_the_exact_interval_with_lateness_ends(arrival: str, shape: float, n: int) -> None:
    freedom = 2 * shape * (n - 1)
    # 2 a r S is chi-squared; an honest first send is up to 0.3 s late, a pause takes up to 0.1 s
    longest = chi2.isf(5e-7, freedom) / (2 * shape * RATE) + 0.1
    shortest = chi2.ppf(5e-7, freedom) / (2 * shape * RATE) - 0.4
    for span, outward in ((longest, 1.0001), (shortest, 0.9999)):
        outside, inside = ((n - 1) / (span * k) / RATE - 1 for k in (outward, 1 / outward))
        assert judged(at(inside, n=n), arrival).outcome is Outcome.PASS
        found = judged(at(outside, n=n), arrival)
        assert (found.outcome, "interval" in found.detail) == (Outcome.FAIL, True)


@pytest.mark.parametrize("side", [-1, 1])
def test_significant_but_below_the_floor_passes(side: int) -> None:
    n, rate = 2_000_000, 1e4
    times = np.arange(n) / (rate * (1 + side * 0.0095))
    gap = stats.honest_rate_interval(n - 1, float(times[-1]))
    assert rate not in gap  # the law alone would fail it
    assert judged_bare(times, rate).outcome is Outcome.PASS
    assert judged_bare(np.arange(n) / (rate * (1 + side * 0.0105)), rate).outcome is Outcome.FAIL


@pytest.mark.parametrize("arrival", LAWS)
@pytest.mark.parametrize("n", [100, 200, 600, 5000])
def test_just_outside_the_printed_smallest_deviation_always_fails(arrival: str, n: int) -> None:
    rate = 10.0
    make = spaced if arrival == "constant" else at
    right = judged(make(0.0, n=n, rate=rate), arrival, rate=rate)
    assert right.outcome is Outcome.PASS
    for edge in visible(right):
        wrong = edge + (0.001 if edge > 0 else -0.001)
        assert judged(make(wrong, n=n, rate=rate), arrival, rate=rate).outcome is Outcome.FAIL


@pytest.mark.parametrize("side", [0, 1])
def test_a_sender_at_the_printed_smallest_deviation_is_seen_9_times_in_10(side: int) -> None:
    rng = np.random.default_rng(20)
    ratio = 1 + visible(judged(at(0), "poisson"))[side]
    # the lateness that the bound allows is 0.4 s; this sender is punctual, so it is seen a little more often
    failed = sum(judged_bare(forge.poisson(N, RATE * ratio, rng), RATE).outcome is Outcome.FAIL for _ in range(200))
    assert failed > 180 - 3 * 4.3


@pytest.mark.parametrize("arrival", LAWS)
def test_honest_senders_with_the_usual_noise_raise_no_alarm(arrival: str) -> None:
    rng = np.random.default_rng(1234)
    make: dict[str, Callable[[int, float], Seconds]] = {
        "constant": forge.constant,
        "fixed-span": lambda n, r: forge.fixed_span(n, r, rng),
        "poisson": lambda n, r: forge.poisson(n, r, rng),
        "gamma(0.5)": lambda n, r: forge.gamma(n, r, 0.5, rng),
        "gamma(4)": lambda n, r: forge.gamma(n, r, 4.0, rng),
    }
    sizes = [(200, 20.0), (600, 40.0), (5000, 1000.0), (3000, 200.0)]
    for run in range(48):
        n, rate = sizes[run % 4]
        times = forge.sent(make[arrival](n, rate), rng, pauses_per_s=(0.05, 0.3, 1.0)[run % 3])
        found = judged(times, arrival, rate=rate)
        assert found.outcome is Outcome.PASS, (run, found)


def test_the_late_first_send_that_broke_the_bare_law_is_honest() -> None:
    rng = np.random.default_rng(1)
    blamed = 0
    for _ in range(60):
        times = forge.sent(forge.poisson(5000, 1000.0, rng), rng, late_first_s=0.3)
        interval = stats.gamma_rate_interval(4999, float(times[-1] - times[0]))
        blamed += 1000.0 not in interval
        assert judged_bare(times, 1000.0).outcome is Outcome.PASS
    assert blamed > 0


@pytest.mark.parametrize(
    ("arrival", "n", "rate", "enough"),
    [
        ("constant", 49, 20, "50 in 2.5 s"),
        ("constant", 79, 40, "80 in 2 s"),
        ("fixed-span", 199, 40, "200 in 5 s"),
        ("fixed-span", 49, 5, "50 in 10 s"),
        ("poisson", 49, 40, "50 in 1.25 s"),
        ("poisson", 199, 200, "200 in 1 s"),
        ("gamma(4)", 49, 40, "50 in 1.25 s"),
        ("gamma(0.1)", 471, 40, "472 in 11.8 s"),
        ("fixed-span(0.1)", 249, 40, "250 in 6.25 s"),
        ("poisson", 0, 40, "50 in 1.25 s"),
        ("constant", 1, 40, "80 in 2 s"),
        ("constant", 2, 40, "80 in 2 s"),
    ],
)
def test_too_little_is_unclear_and_says_what_is_enough(arrival: str, n: int, rate: float, enough: str) -> None:
    asked = rate_case(max(1, n), rate, arrival)
    found = ask(asked, journal(forge.constant(n, rate)))["rate.mean"]
    assert (found.outcome, found.smallest_deviation) == (Outcome.UNCLEAR, "")
    assert found.detail.endswith(f"; {enough} are enough")
    size = int(enough.split(maxsplit=1)[0])
    assert judged(forge.constant(size, rate), arrival, rate=rate).outcome is Outcome.PASS


@pytest.mark.parametrize("arrival", LAWS)
def test_everything_at_one_instant_fails(arrival: str) -> None:
    found = judged(np.zeros(N), arrival)
    assert (found.outcome, found.measured) == (Outcome.FAIL, "inf/s (+inf%)")


@pytest.mark.parametrize("shape", [0.02, 0.1, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("rate", [1.0, 10.0, 200.0])
def test_everything_at_one_instant_fails_from_the_smallest_number_on_that_is_judged(shape: float, rate: float) -> None:
    for law in (f"fixed-span({shape})", f"gamma({shape})"):
        for n in (50, 250, 500, 1000, 1250, 3000):
            found = _rate(np.zeros(n), rate, Arrival.parse(law))
            late = "+inf%" in found.smallest_deviation  # a late first send and a pause, 0.4 s, explain all
            assert found.outcome is not Outcome.PASS or (late and n <= rate), (law, n)


def test_a_late_first_send_of_the_shortest_honest_span_is_allowed_for() -> None:
    """The shortest span that n + 1 gaps of a fixed span leave, and 0.3 s less: small spans feel both more than each."""
    n, rate = 50, 10.0
    shortest = beta.ppf(5e-7, n - 1, 2) * n / rate - 0.3
    for longer, outcome in ((1.001, Outcome.PASS), (0.99, Outcome.FAIL)):
        times = at((n - 1) / (shortest * longer) / rate - 1, n=n, rate=rate)
        assert judged(times, "fixed-span", rate=rate).outcome is outcome


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("n", [50_000, 400_000, 2_000_000])
def test_where_the_floor_decides_the_printed_deviation_is_seen_9_times_in_10_too(side: int, n: int) -> None:
    rate, runs = 1e3, 100
    seen = stats.honest_rate_visible(n - 1, rate)
    ratio = 1 + (seen.low, seen.high)[side]
    # the span alone decides, so draw that of a punctual sender
    spans = np.random.default_rng(3).gamma(n - 1, 1 / (rate * ratio), runs).tolist()
    law = Arrival.parse("poisson")
    failed = sum(_rate(np.linspace(0, span, n), rate, law).outcome is Outcome.FAIL for span in spans)
    assert 90 - 4 * 3 < failed < runs


@pytest.mark.parametrize("arrival", LAWS)
def test_far_too_slow_and_far_too_fast_fail(arrival: str) -> None:
    assert judged(spaced(-0.9), arrival).outcome is Outcome.FAIL
    assert judged(spaced(9.0), arrival).outcome is Outcome.FAIL


def test_declared_leading_extras_are_not_part_of_the_rate() -> None:
    early = np.concatenate([[0.0], 60 + forge.fixed_span(N, RATE, np.random.default_rng(2))])
    declared = ask(rate_case(N, RATE, "fixed-span", leading_extra_requests=1), journal(early))["rate.mean"]
    assert (declared.outcome, declared.n) == (Outcome.PASS, N)
    assert ask(rate_case(N, RATE, "fixed-span"), journal(early))["rate.mean"].outcome is Outcome.FAIL


def test_a_closed_loop_has_no_rate() -> None:
    assert not [n for n in ask(forge.closed_case(100, 4), journal(forge.closed_loop(100, 4))) if n.startswith("rate")]
