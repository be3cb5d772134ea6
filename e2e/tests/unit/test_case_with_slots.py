"""Are a case's sizes right where the server has fewer slots than the case asks to be in flight?"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.case import Case
from loadproof.case_rules import warnings
from loadproof.expected import Expected
from loadproof.strict_yaml import read_strict_text

CASE = """\
why: a test
absorber: {{ttft_s: 1.0, itl_s: 0.5, slots: {slots}}}
workload: {{num_requests: {n}, prompt_tokens: 8, max_tokens: 3, stream: true, ignore_eos: true}}
load: {load}
deadline_s: {deadline}
"""  # a service takes 1.0 + 2 x 0.5 = 2 s


def case_of(slots: object, load: str, n: int = 64, deadline: float = 120) -> Case:
    text = CASE.format(slots=slots, load=load, n=n, deadline=deadline)
    return Case(name="c", folder=Path(), expected=read_strict_text(text, "e.yaml", Expected))


@pytest.mark.parametrize(("slots", "latency"), [("null", 2), (16, 2), (8, 2), (4, 4), (1, 16)])
def test_a_reply_in_a_closed_loop_waits_for_its_turn(slots: object, latency: float) -> None:
    case = case_of(slots, "{mode: concurrency, concurrency: 8}")
    assert (case.service_s, case.latency_s) == (2, latency)


@pytest.mark.parametrize(("slots", "rate"), [("null", 0.5), (1, 0.5), (1, 100)])
def test_a_reply_in_an_open_loop_is_taken_as_served_at_once(slots: object, rate: float) -> None:
    assert case_of(slots, f"{{mode: rate, rate: {rate}}}").latency_s == 2


def test_the_load_of_a_closed_loop_lasts_as_long_as_the_slots_take() -> None:
    asked = "{mode: concurrency, concurrency: 8}"
    assert warnings(case_of("null", asked, deadline=16.1)) == []  # 64 x 2 s, 8 at once
    assert warnings(case_of(8, asked, deadline=16.1)) == []
    assert warnings(case_of(4, asked, deadline=32.1)) == []
    assert warnings(case_of(4, asked, deadline=32)) == [
        "c: the load lasts 32 s and deadline_s is 32; make the deadline longer"
    ]


def test_the_first_burst_has_to_come_before_the_first_service_ends() -> None:
    told = warnings(case_of(4, "{mode: concurrency, concurrency: 2501}", n=30_000, deadline=90_000))
    assert told == ["c: a reply takes 2 s, too short to fill concurrency 2501 first; make it 2 s"]


def test_an_open_loop_that_the_slots_cannot_follow_ends_when_they_are_through() -> None:
    asked = "{mode: rate, rate: 32}"
    assert warnings(case_of(64, asked)) == []  # 2 s of load, and as long of service
    assert warnings(case_of(2, asked, deadline=64.1)) == []
    assert warnings(case_of(2, asked, deadline=64)) == [
        "c: the load lasts 64 s and deadline_s is 64; make the deadline longer"
    ]
