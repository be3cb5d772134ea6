"""Are stages told apart where they are, whatever a tool does between them and however wrong one of them is?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.load.requests import Requests, measure_requests
from loadproof.load.stages import Planned, Stretch, split
from tests.unit import forge
from tests.unit.forge_times import Seconds

RATES = (20.0, 40.0, 10.0)
COUNTS = (100, 240, 60)
LENGTHS = (5.0, 6.0, 6.0)
EVEN = 100.0


def planned(gap_s: float, *, known: bool = True) -> list[Planned]:
    """Evenly spaced stages, whose numbers are known or vary by chance."""
    return [
        Planned(n=n if known else None, about=n, varies=n**0.5, lasts_s=lasts, rate=rate, gap_s=gap_s,
                silent_s=1 / rate + 0.25, shape=EVEN)
        for n, lasts, rate in zip(COUNTS, LENGTHS, RATES, strict=True)
    ]  # fmt: skip


def poisson(rate: float, lasts_s: float, gap_s: float = 0.0) -> Planned:
    """A stage of random arrivals."""
    n = rate * lasts_s
    return Planned(about=n, varies=n**0.5, lasts_s=lasts_s, rate=rate, gap_s=gap_s, silent_s=20 / rate,
                   late_s=0.4 + 7 / rate)  # fmt: skip


def sent(gap_s: float, counts: tuple[int, ...] = COUNTS) -> Seconds:
    """Evenly spaced stages, each at its own rate, with `gap_s` after the time of each."""
    begin, parts = 0.0, []
    for count, rate in zip(counts, RATES, strict=True):
        parts.append(begin + np.arange(count) / rate)
        begin += count / rate + gap_s
    return np.concatenate(parts)


def requests(*times: Seconds) -> Requests:
    return measure_requests(forge.journal(np.concatenate(times), tokens=1, ttft_s=0.1))


def sizes(found: list[Stretch]) -> list[int]:
    return [stretch.end - stretch.first for stretch in found]


@pytest.mark.parametrize("gap_s", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("known", [True, False])
def test_honest_stages_are_found(gap_s: float, known: bool) -> None:
    found = split(requests(sent(gap_s)), planned(gap_s, known=known))
    # Told by the clock alone, the request at the very change may be of either stage.
    assert sizes(found) == pytest.approx(list(COUNTS), abs=0 if known or gap_s else 1)
    told = "silence" if gap_s else "number" if known else "clock"
    assert [stretch.told_by for stretch in found] == ["begin", told, told]


@pytest.mark.parametrize("waits_s", [0.4, 2.0, 8.0])
@pytest.mark.parametrize("known", [True, False])
def test_a_tool_that_waits_between_stages_is_followed(waits_s: float, known: bool) -> None:
    found = split(requests(sent(waits_s)), planned(0.0, known=known))
    assert sizes(found) == list(COUNTS)
    assert [stretch.told_by for stretch in found] == ["begin", "silence", "silence"]


@pytest.mark.parametrize("counts", [(99, 240, 60), (101, 240, 60), (60, 240, 60), (140, 240, 60), (100, 120, 60)])
def test_a_wrong_stage_does_not_move_those_after_it(counts: tuple[int, ...]) -> None:
    assert sizes(split(requests(sent(1.0, counts)), planned(1.0))) == list(counts)


def test_without_a_silence_and_with_a_wrong_number_the_change_of_rate_tells() -> None:
    times = np.delete(sent(0.0), 50)
    assert sizes(split(requests(times), planned(0.0))) == pytest.approx([99, 240, 60], abs=1)


@pytest.mark.parametrize("counts", [(900, 240, 60), (100, 960, 60)])
def test_a_stage_much_too_long_ends_by_its_silence(counts: tuple[int, ...]) -> None:
    assert sizes(split(requests(sent(1.0, counts)), planned(1.0))) == list(counts)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_stage_is_the_one_that_is_empty(missing: int) -> None:
    counts = tuple(0 if k == missing else count for k, count in enumerate(COUNTS))
    assert sizes(split(requests(sent(1.0, counts)), planned(1.0, known=False))) == list(counts)


def test_rates_that_are_swapped_are_still_two_stages() -> None:
    times = np.concatenate([np.arange(480) / 40, 12.0 + np.arange(240) / 20])
    stages = [Planned(n=n, lasts_s=12.0, rate=rate, silent_s=0.3, shape=EVEN) for n, rate in ((240, 20.0), (480, 40.0))]
    assert sizes(split(requests(times), stages)) == pytest.approx([480, 240], abs=1)


@pytest.mark.parametrize("gap_s", [0.0, 1.0])
def test_random_stages_without_a_known_number_are_told_by_clock_and_rate(gap_s: float) -> None:
    """Up to a few requests about the change: 5 to 60 and back to 20 a second."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        begin, times = 0.0, []
        for rate in (5.0, 60.0, 20.0):
            drawn = forge.poisson(round(20 * rate), rate, rng)
            times.append(begin + drawn[drawn < 12.0])
            begin += 12.0 + gap_s
        found = split(requests(*times), [poisson(rate, 12.0, gap_s) for rate in (5.0, 60.0, 20.0)])
        assert sizes(found) == pytest.approx([len(stage) for stage in times], abs=0 if gap_s else 10), seed


def test_a_long_gap_of_a_slow_stage_is_not_its_end() -> None:
    """At 2 a second a gap of 3 s is nothing; the number and the silence of 1 s after it tell where it ends."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        first = forge.poisson(60, 2.0, rng)
        second = first[-1] + 1.0 + forge.poisson(240, 20.0, rng)
        stages = [Planned(n=60, lasts_s=30.0, spread_s=20.0, rate=2.0, silent_s=9.0, gap_s=1.0, late_s=4.0),
                  Planned(n=240, lasts_s=12.0, spread_s=4.0, rate=20.0, silent_s=1.0)]  # fmt: skip
        assert sizes(split(requests(first, second), stages)) == [60, 240], seed


@pytest.mark.parametrize("times", [np.zeros(0), np.zeros(1), np.zeros(5), np.arange(3.0)])
def test_few_arrivals_are_split_somehow_and_none_is_lost(times: Seconds) -> None:
    for gap_s in (0.0, 1.0):
        found = split(requests(times), planned(gap_s))
        assert (found[0].first, found[-1].end) == (0, len(times))
        assert [stretch.first for stretch in found[1:]] == [stretch.end for stretch in found[:-1]]


def test_closed_loops_are_told_apart_by_their_silence() -> None:
    first, second = forge.closed_loop(100, 4, latency_s=0.1), forge.closed_loop(80, 8, latency_s=0.1)
    stages = [Planned(n=100, slots=4, gap_s=1.0, silent_s=0.35), Planned(n=80, slots=8, silent_s=0.35)]
    assert sizes(split(requests(first, first[-1] + 1.2 + second), stages)) == [100, 80]
    assert sizes(split(requests(first[:90], first[89] + 1.2 + second), stages)) == [90, 80]


def test_a_closed_loop_for_a_time_ends_where_the_next_one_fills_its_slots() -> None:
    first, second = forge.closed_loop(300, 4, latency_s=0.1), forge.closed_loop(160, 16, latency_s=0.1)
    first = first[first <= 5.0]
    stages = [Planned(lasts_s=5.0, slots=4, silent_s=0.35), Planned(n=160, slots=16, silent_s=0.35)]
    found = split(requests(first, first[-1] + 0.1 + second), stages)
    assert sizes(found) == [len(first), 160]
