"""Are stages told apart where they are, whatever a tool does between them and however wrong one of them is?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.load.stages import Planned, Stretch, split
from tests.unit import forge
from tests.unit.forge_times import Seconds

RATES = (20.0, 40.0, 10.0)
COUNTS = (100, 240, 60)
LENGTHS = (5.0, 6.0, 6.0)


def planned(gap_s: float, *, known: bool = True) -> list[Planned]:
    return [
        Planned(n if known else None, lasts, gap_s, max(0.25, gap_s / 2) if gap_s else 1 / rate + 0.25)
        for n, lasts, rate in zip(COUNTS, LENGTHS, RATES, strict=True)
    ]


def sent(gap_s: float, counts: tuple[int, ...] = COUNTS) -> Seconds:
    """Evenly spaced stages, each at its own rate, with `gap_s` after the time of each."""
    begin, parts = 0.0, []
    for count, rate in zip(counts, RATES, strict=True):
        parts.append(begin + np.arange(count) / rate)
        begin += count / rate + gap_s
    return np.concatenate(parts)


def sizes(found: list[Stretch]) -> list[int]:
    return [stretch.end - stretch.first for stretch in found]


@pytest.mark.parametrize("gap_s", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("known", [True, False])
def test_honest_stages_are_found(gap_s: float, known: bool) -> None:
    found = split(sent(gap_s), planned(gap_s, known=known))
    assert sizes(found) == list(COUNTS)
    told = "silence" if gap_s else "number" if known else "clock"
    assert [stretch.told_by for stretch in found] == ["begin", told, told]


@pytest.mark.parametrize("waits_s", [0.4, 2.0, 8.0])
@pytest.mark.parametrize("known", [True, False])
def test_a_tool_that_waits_between_stages_is_followed(waits_s: float, known: bool) -> None:
    found = split(sent(waits_s), planned(0.0, known=known))
    assert sizes(found) == list(COUNTS)
    assert [stretch.begins_s for stretch in found] == pytest.approx([0.0, 5.0 + waits_s, 11.0 + 2 * waits_s])


@pytest.mark.parametrize("counts", [(99, 240, 60), (101, 240, 60), (60, 240, 60), (140, 240, 60), (100, 120, 60)])
def test_a_wrong_stage_does_not_move_those_after_it(counts: tuple[int, ...]) -> None:
    assert sizes(split(sent(1.0, counts), planned(1.0))) == list(counts)


def test_without_a_silence_and_with_a_wrong_number_the_clock_tells() -> None:
    times = np.delete(sent(0.0), 50)
    found = split(times, planned(0.0))
    assert [stretch.told_by for stretch in found] == ["begin", "clock", "clock"]
    assert sizes(found) == [99, 240, 60]


def test_a_stage_much_too_long_ends_by_its_silence() -> None:
    assert sizes(split(sent(1.0, (900, 240, 60)), planned(1.0)))[0] == 900


def test_random_gaps_are_no_end_of_a_stage() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first = forge.poisson(240, 20.0, rng)
        second = first[-1] + 1.0 + forge.poisson(240, 20.0, rng)
        stages = [Planned(None, 12.0, 1.0, 0.5), Planned(None, 12.0, 0.0, 1.3)]
        assert sizes(split(np.concatenate([first, second]), stages)) == [240, 240], seed


@pytest.mark.parametrize("times", [np.zeros(0), np.zeros(1), np.zeros(5), np.arange(3.0)])
def test_few_arrivals_are_split_somehow_and_none_is_lost(times: Seconds) -> None:
    for gap_s in (0.0, 1.0):
        found = split(times, planned(gap_s))
        assert [found[0].first, *(stretch.end for stretch in found)][-1] == len(times)
        assert [stretch.first for stretch in found[1:]] == [stretch.end for stretch in found[:-1]]


def test_closed_loops_are_told_apart_by_their_silence() -> None:
    first, second = forge.closed_loop(100, 4, latency_s=0.2), forge.closed_loop(80, 8, latency_s=0.2)
    stages = [Planned(100, None, 1.0, 0.55), Planned(80, None, 0.0, 0.55)]
    assert sizes(split(np.concatenate([first, first[-1] + 1.2 + second]), stages)) == [100, 80]
    assert sizes(split(np.concatenate([first[:90], first[89] + 1.2 + second]), stages)) == [90, 80]
