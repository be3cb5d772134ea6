"""Is a case that needs more open files than the system allows refused, and no other?"""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from loadproof.case import Case, read_case
from loadproof.descriptors import OF_OUR_OWN, in_flight, require_descriptors
from loadproof.errors import UsageProblem

CASE = """\
why: a test
absorber: {{ttft_s: 1.0, itl_s: 0.5{slots}}}
workload: {{num_requests: 100, prompt_tokens: 8, max_tokens: 3, stream: true, ignore_eos: true}}
load: {load}
deadline_s: 100000
"""  # a reply takes 1.0 + 2 x 0.5 = 2 s


def case_of(folder: Path, load: str, slots: int = 0) -> Case:
    (folder / "expected.yaml").write_text(CASE.format(load=load, slots=f", slots: {slots}" if slots else ""))
    return read_case(folder)


@pytest.mark.parametrize(
    ("load", "most"),
    [
        ("{mode: concurrency, concurrency: 200}", 200),
        ("{mode: rate, rate: 25}", 50),
        ("{mode: rate, rate: 25.1}", 51),
        ("{mode: rate, rate: 25, cap: 7}", 7),
    ],
)
def test_the_most_in_flight(tmp_path: Path, load: str, most: int) -> None:
    assert in_flight(case_of(tmp_path, load)) == most


@pytest.mark.parametrize(
    ("load", "slots", "most"),
    [
        ("{mode: rate, rate: 25}", 50, 50),
        ("{mode: rate, rate: 25}", 10, 90),  # 100 are sent in 4 s, and 10 to 20 of them are answered by then
        ("{mode: rate, rate: 1000}", 10, 100),
        ("{mode: rate, rate: 25, cap: 7}", 10, 7),
        ("{mode: stages, stages: [{rate: 1, duration_s: 20}, {rate: 20, duration_s: 4}]}", 10, 70),
        ("{mode: stages, stages: [{rate: 20, duration_s: 2.5}, {rate: 20, duration_s: 2.5}]}", 10, 85),
        ("{mode: stages, stages: [{rate: 20, duration_s: 4}, {rate: 1, duration_s: 20}]}", 10, 70),
        ("{mode: concurrency, concurrency: 200}", 10, 200),
    ],
)
def test_the_most_in_flight_where_the_server_has_few_slots(tmp_path: Path, load: str, slots: int, most: int) -> None:
    assert in_flight(case_of(tmp_path, load, slots)) == most


@pytest.mark.parametrize("hard", [200 + OF_OUR_OWN, resource.RLIM_INFINITY])
def test_a_limit_that_is_just_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hard: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (1, hard))
    require_descriptors(case_of(tmp_path, "{mode: concurrency, concurrency: 200}"))


def test_one_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _which: (10_000, 199 + OF_OUR_OWN))
    with pytest.raises(UsageProblem, match=r"asks for 200 requests in flight at once.*`ulimit -Hn 264`"):
        require_descriptors(case_of(tmp_path, "{mode: concurrency, concurrency: 200}"))
