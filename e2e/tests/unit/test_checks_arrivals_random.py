"""Do wrong gaps fail where a random law was declared, by the right finding and in words, and honest ones never?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loadproof.arrival import Arrival
from loadproof.verdict import Finding, Outcome
from tests.unit import forge, forge_times
from tests.unit.forge import Seconds, ask, journal, rate_case

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR
FINDINGS = ("gaps", "counts", "order", "trend", "lull", "lattice", "silence", "burst")
type Rng = np.random.Generator
type Make = Callable[[int, float, Rng], Seconds]


def judged(times: Seconds, rate: float, arrival: str) -> dict[str, Finding]:
    found = ask(rate_case(len(times), rate, arrival), journal(times, tokens=1, kernel=True))
    return {name.removeprefix("arrivals."): one for name, one in found.items() if name.startswith("arrivals.")}


def failed(times: Seconds, rate: float, arrival: str) -> set[str]:
    return {name for name, one in judged(times, rate, arrival).items() if one.outcome is not PASS}


def by(arrival: str) -> Make:
    return lambda n, rate, rng: forge_times.by_law(Arrival.parse(arrival), n, rate, rng)


def rounded_up(ms: int) -> Make:
    return lambda n, rate, rng: np.ceil(forge_times.poisson(n, rate, rng) * 1000 / ms) * ms / 1000


def groups(size: int) -> Make:
    return lambda n, rate, rng: np.repeat(forge_times.poisson(n // size, rate / size, rng), size)


def fitted_into_seconds(n: int, rate: float, rng: Rng) -> Seconds:
    gaps = rng.exponential(1.0, (n // int(rate), int(rate)))
    places = gaps.cumsum(axis=1) / gaps.sum(axis=1, keepdims=True)
    return np.asarray(np.arange(len(gaps))[:, None] + places).reshape(-1)


def repeated(period: int) -> Make:
    return lambda n, rate, rng: np.cumsum(np.tile(rng.exponential(1 / rate, period), n // period))


def growing(n: int, rate: float, rng: Rng) -> Seconds:
    return np.asarray(np.cumsum(rng.exponential(1 / rate, n) / np.linspace(0.4, 1.6, n)))


def silent(n: int, rate: float, rng: Rng) -> Seconds:
    return np.asarray(forge_times.poisson(n, rate, rng) + 2.5 * (np.arange(n) > n // 2))


def rushed(n: int, rate: float, rng: Rng) -> Seconds:
    extra = round(3 * rate)
    return np.concatenate([np.linspace(0, 0.1, extra), 0.1 + forge_times.poisson(n - extra, rate, rng)])


# what was declared, what was sent, n, rate, the finding that fails, words of its detail
WRONG: list[tuple[str, Make, int, float, str, str]] = [
    ("poisson", by("constant"), 200, 20.0, "gaps", "evenly spaced (every 50.0 ms)"),
    ("poisson", by("gamma(4)"), 600, 20.0, "gaps", "gaps look like gamma of shape"),
    ("poisson", by("gamma(0.5)"), 2000, 20.0, "gaps", "gaps look like gamma of shape"),
    ("fixed-span", by("constant"), 200, 20.0, "gaps", "evenly spaced"),
    ("fixed-span(4)", by("fixed-span"), 600, 20.0, "gaps", "gaps look exponential"),
    ("gamma(4)", by("poisson"), 600, 20.0, "gaps", "gaps look exponential"),
    ("gamma(16)", by("constant"), 200, 20.0, "gaps", "evenly spaced"),
    ("poisson", groups(10), 2000, 40.0, "counts", "arrivals come in groups of 10"),
    ("poisson", by("constant"), 600, 20.0, "counts", "vary 0"),
    ("poisson", groups(2), 600, 20.0, "gaps", "arrivals come in groups of 2 (pairs)"),
    ("poisson", repeated(20), 600, 20.0, "order", "the same gaps come again after every 20 arrivals"),
    ("poisson", repeated(100), 600, 20.0, "order", "the same gaps come again after every 100 arrivals"),
    ("poisson", growing, 2000, 40.0, "trend", "faster and faster"),
    ("fixed-span", fitted_into_seconds, 600, 20.0, "lattice", "the last arrival of each second falls on the whole"),
    ("poisson", rounded_up(10), 600, 20.0, "lattice", "timers of 10 ms"),
    ("poisson", rounded_up(100), 600, 20.0, "lattice", "timers of 100 ms"),
    ("poisson", silent, 600, 20.0, "silence", "nothing was sent for 2."),
    ("poisson", silent, 600, 20.0, "lull", "requests in the 2 s from"),
    ("poisson", rushed, 600, 20.0, "burst", "a burst at the start"),
    ("gamma(4)", rushed, 600, 20.0, "burst", "a burst at the start"),
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=[f"{w[0]}-{w[4]}-{w[5][:30]}" for w in WRONG])
def test_wrong_gaps_fail_and_their_honest_twin_does_not(wrong: tuple[str, Make, int, float, str, str]) -> None:
    arrival, make, n, rate, check, words = wrong
    for seed in range(3):
        rng = np.random.default_rng(seed)
        found = judged(forge_times.sent(np.sort(make(n, rate, rng)), rng), rate, arrival)[check]
        assert found.outcome is FAIL, seed
        assert words in found.detail
        twin = forge_times.sent(by(arrival)(n, rate, rng), rng)
        assert failed(twin, rate, arrival) == set(), seed


def test_timers_of_1_ms_are_seen_at_500_a_second() -> None:
    rng = np.random.default_rng(1)
    times = np.ceil(forge_times.poisson(10_000, 500.0, rng) * 1000) / 1000
    found = judged(times, 500.0, "poisson")["lattice"]
    assert (found.outcome, "timers of 1 ms" in found.detail) == (FAIL, True)
    assert judged(times[:600], 20.0, "poisson")["lattice"].outcome is not FAIL


@pytest.mark.parametrize("pauses_per_s", forge_times.NOISE.values())
@pytest.mark.parametrize("arrival", ["poisson", "fixed-span", "gamma(0.25)", "gamma(0.5)", "gamma(4)", "gamma(16)",
                                     "fixed-span(0.5)", "fixed-span(4)"])  # fmt: skip
def test_honest_senders_raise_no_alarm(arrival: str, pauses_per_s: float) -> None:
    rng = np.random.default_rng(7)
    for n, rate in ((200, 20.0), (600, 40.0), (600, 1.0), (2000, 200.0), (5000, 500.0)) * 2:
        times = forge_times.sent(by(arrival)(n, rate, rng), rng, pauses_per_s=pauses_per_s)
        found = judged(times, rate, arrival)
        assert set(found) == set(FINDINGS)
        assert [one for one in found.values() if one.outcome is FAIL] == []


@pytest.mark.parametrize(("arrival", "n", "rate", "enough"), [
    ("poisson", 199, 10.0, "200 in 20 s"), ("fixed-span", 399, 40.0, "400 in 10 s"),
    ("gamma(4)", 150, 20.0, "200 in 10 s"), ("gamma(0.25)", 399, 20.0, "400 in 20 s"),
])  # fmt: skip
def test_too_few_say_what_is_enough_and_silence_and_burst_are_judged_all_the_same(
    arrival: str, n: int, rate: float, enough: str
) -> None:
    rng = np.random.default_rng(3)
    found = judged(by(arrival)(n, rate, rng), rate, arrival)
    assert {name for name, one in found.items() if one.outcome is UNCLEAR} == set(FINDINGS) - {"silence", "burst"}
    assert all(f"{enough}" in found[name].detail for name in ("gaps", "counts", "order", "trend", "lull", "lattice"))
    assert (found["silence"].outcome, found["burst"].outcome) == (PASS, PASS)
    size = int(enough.split(maxsplit=1)[0])
    assert failed(by(arrival)(size, rate, np.random.default_rng(4)), rate, arrival) == set()


def test_two_requests_have_a_gap() -> None:
    assert judged(np.array([0.0, 0.1]), 20.0, "poisson")["silence"].outcome is PASS
    assert judged(np.array([0.0, 2.0]), 20.0, "poisson")["silence"].outcome is FAIL
    assert judged(np.zeros(1), 20.0, "poisson")["silence"].outcome is UNCLEAR


def test_everything_at_one_instant_is_a_burst() -> None:
    found = judged(np.zeros(600), 20.0, "poisson")
    assert (found["burst"].outcome, found["gaps"].outcome) == (FAIL, UNCLEAR)
    assert "all 600 within 0 s" in found["burst"].detail


@pytest.mark.parametrize("n", [200, 2000])
def test_beside_every_pass_stands_what_would_have_been_seen(n: int) -> None:
    found = judged(forge_times.poisson(n, 20.0, np.random.default_rng(2)), 20.0, "poisson")
    assert {name for name, one in found.items() if one.outcome is PASS and one.smallest_deviation} == set(FINDINGS)


def test_stages_are_judged_by_themselves() -> None:
    rng = np.random.default_rng(5)
    times = np.concatenate([forge_times.fixed_span(400, 20.0, rng), 25 + forge_times.constant(400, 20.0)])
    stages = [{"rate": 20, "duration_s": 20, "gap_s": 5}, {"rate": 20, "duration_s": 20}]
    asked = forge.case({"mode": "stages", "stages": stages}, workload={"num_requests": 800}, arrival="fixed-span")
    found = ask(asked, journal(times, tokens=1, kernel=True))
    assert (found["arrivals.gaps[1]"].outcome, found["arrivals.gaps[2]"].outcome) == (PASS, FAIL)
