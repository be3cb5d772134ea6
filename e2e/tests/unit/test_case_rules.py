"""Is a case that cannot carry its own question told so, stage by stage, and one that can never?"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.case import Case, Expected
from loadproof.case_rules import warnings
from loadproof.strict_yaml import read_strict_text

TEXT = """\
why: a case of stages
absorber: {{ttft_s: 0.1, itl_s: 0.01}}
workload: {{{count}, prompt_tokens: 32, max_tokens: 11, stream: true, ignore_eos: true}}
load: {load}
deadline_s: 900
tools: {{metronome: {declared}}}
"""


OVERLAP = (
    "stage 1: its last requests are still in flight when the 4 of stage 2 begin; make gap_s longer than a reply, 0.2 s"
)


def told(load: str, *, count: str, arrival: str | None = "constant") -> list[str]:
    declared = "{}" if arrival is None else f"{{arrival: {arrival}}}"
    expected = read_strict_text(TEXT.format(load=load, count=count, declared=declared), "e.yaml", Expected)
    return [line.removeprefix("c: ") for line in warnings(Case(name="c", folder=Path(), expected=expected))]


def stages(*each: str) -> str:
    return f"{{mode: stages, stages: [{', '.join(f'{{{stage}}}' for stage in each)}]}}"


ENOUGH = stages("rate: 20, duration_s: 15, gap_s: 2", "concurrency: 4, num_requests: 200")


def test_stages_that_can_carry_their_question_are_not_warned_of() -> None:
    assert told(ENOUGH, count="num_requests: 500") == []
    assert told(stages("rate: 20, duration_s: 15, gap_s: 2", "rate: 40, duration_s: 15"), count="duration_s: 32",
                arrival="poisson") == []  # fmt: skip


def test_each_stage_is_looked_at_by_itself() -> None:
    found = told(stages("rate: 20, num_requests: 40", "concurrency: 4, num_requests: 24"), count="num_requests: 64")
    assert found == [
        "stage 1: 40 requests cannot show a rate; ask for at least 50",
        "stage 1: 40 requests in 2 s; judging even spacing needs at least 80 in at least 4 s",
        "stage 2: about 24 requests are too few for concurrency 4; ask for at least 54",
        "stage 2: the load lasts 1.2 s; ask for more requests or a slower server, so that it lasts at least 4 s",
        OVERLAP,
    ]


@pytest.mark.parametrize(("arrival", "gap_s"), [("constant", 0.3), ("poisson", 0.881)])
def test_a_silence_that_its_own_gaps_hide(arrival: str, gap_s: float) -> None:
    def of(silence: float) -> list[str]:
        load = stages(f"rate: 20, num_requests: 300, gap_s: {silence}", "rate: 40, num_requests: 600")
        return told(load, count="num_requests: 900", arrival=arrival)

    assert of(gap_s + 0.01) == []
    [found] = of(gap_s - 0.01)
    assert found.startswith(f"stage 1: a silence of {gap_s - 0.01:g} s cannot be told from its own gaps; make gap_s at")


def test_a_silence_after_the_last_stage_cannot_be_seen() -> None:
    load = stages("rate: 20, num_requests: 300", "rate: 40, num_requests: 600, gap_s: 5")
    assert told(load, count="num_requests: 900") == ["stage 2: nothing follows it, so its gap_s cannot be seen"]


def test_a_random_number_is_not_asked_for() -> None:
    load = stages("rate: 20, duration_s: 15, gap_s: 2", "rate: 40, duration_s: 15")
    assert told(load, count="num_requests: 900", arrival="fixed-span") == []
    [found] = told(load, count="num_requests: 900", arrival="poisson")
    assert "poisson stages by duration hold a random number of requests" in found


def test_stages_and_their_sum_agree() -> None:
    load = stages("rate: 20, duration_s: 15, gap_s: 2", "rate: 40, duration_s: 15")
    assert told(load, count="duration_s: 33") == []
    assert told(load, count="duration_s: 40") == [
        "the stages last 32 s together, and duration_s is 40; make them agree"
    ]


@pytest.mark.parametrize(("gap_s", "warned"), [(0.0, True), (0.6, False)])
def test_a_loop_that_begins_among_the_requests_of_a_rate(gap_s: float, warned: bool) -> None:
    load = stages(f"rate: 20, duration_s: 15, gap_s: {gap_s}", "concurrency: 4, num_requests: 200")
    assert any("still in flight" in line for line in told(load, count="num_requests: 500")) is warned


@pytest.mark.parametrize(("arrival", "rate", "gap_s", "warned"), [
    ("poisson", 20, 0, True), ("poisson", 40, 0, False), ("poisson", 20, 2, False), ("constant", 20, 0, False),
])  # fmt: skip
def test_stages_that_nothing_tells_apart(arrival: str, rate: float, gap_s: float, warned: bool) -> None:
    load = stages(f"rate: 20, duration_s: 15, gap_s: {gap_s}", f"rate: {rate}, duration_s: 15")
    found = told(load, count=f"duration_s: {30 + gap_s}", arrival=arrival)
    assert any("nothing tells it from the next" in line for line in found) is warned


def test_known_stages_that_are_more_than_all() -> None:
    load = stages("rate: 20, duration_s: 15, gap_s: 2", "concurrency: 4, duration_s: 15")
    assert told(load, count="num_requests: 600") == []
    assert told(load, count="num_requests: 299") == [
        "the stages that say it make 300 requests, and num_requests is 299; make it more"
    ]


@pytest.mark.parametrize(("wanted", "warned"), [(600, False), (601, True)])
def test_more_prompts_than_a_duration_has_requests(wanted: int, warned: bool) -> None:
    count = f"duration_s: 15, distinct_prompts: {wanted}"
    found = told("{mode: rate, rate: 40}", count=count)
    few = f"about 600 requests cannot have {wanted} distinct prompts; ask for fewer, or for longer"
    assert found == ([few] if warned else [])


@pytest.mark.parametrize(("cap", "warned"), [(11, False), (10, True), (4, True)])
def test_a_cap_that_holds_the_rate_back(cap: int, warned: bool) -> None:
    found = told(f"{{mode: rate, rate: 40, cap: {cap}}}", count="num_requests: 600")  # 40/s x 0.2 s = 8
    assert bool(found) is warned
    if warned:
        held = f"40/s of 0.2 s each are 8 in flight, so a cap of {cap} holds the rate back"
        assert found == [f"{held}; make the cap at least 11, or the rate lower"]


def test_gaps_that_vary_more_need_more_requests() -> None:
    load = "{mode: rate, rate: 20}"
    assert told(load, count="num_requests: 400", arrival="gamma(0.25)") == []
    [found] = told(load, count="num_requests: 399", arrival="gamma(0.25)")
    assert "at least 400 in at least 10 s" in found


@pytest.mark.parametrize("concurrency", [1, 64, 16_384])
def test_a_closed_loop_of_any_size(concurrency: int) -> None:
    n = max(20 * concurrency, 50 + concurrency)
    latency = max(0.2, 4 * concurrency * 0.2e-3)
    text = TEXT.replace("ttft_s: 0.1", f"ttft_s: {latency - 0.1 + 1e-6}")
    load = f"{{mode: concurrency, concurrency: {concurrency}}}"
    expected = read_strict_text(text.format(load=load, count=f"num_requests: {n}", declared="{}"), "e.yaml", Expected)
    assert warnings(Case(name="c", folder=Path(), expected=expected)) == []
