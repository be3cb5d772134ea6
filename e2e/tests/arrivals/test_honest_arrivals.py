"""Does the honest sender pass under every law and in every form of stages?

Three cases in every run, all in a soak; `e2e/bench/honest.py` makes fifty runs of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.case import read_case
from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Outcome

CASES = sorted(path for path in (Path(__file__).parent / "cases").iterdir() if path.is_dir())
IN_EVERY_RUN = {"concurrency_for_a_duration", "mixed_stages", "poisson"}


def outcome_of(run: StoredRun) -> Outcome:
    assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
    return run.judgement.verdict.outcome


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=case.name, marks=() if case.name in IN_EVERY_RUN else pytest.mark.soak) for case in CASES],
)
def test_an_honest_sender_passes(case: Path, loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(case, "metronome", outcome_of)
    assert [one for one in run.judgement.findings if one.counted and one.outcome is not Outcome.PASS] == []


def test_the_cases_are_all_laws_and_forms_of_stages() -> None:
    assert {path.name for path in CASES} > IN_EVERY_RUN
    arrivals = {str(read_case(case).declaration("metronome").arrival) for case in CASES}
    assert arrivals == {
        "None", "constant", "poisson", "fixed-span", "fixed-span(2)", "gamma(0.25)", "gamma(4)"
    }  # fmt: skip
    loads = [read_case(case).expected for case in CASES]
    assert {one.load.mode for one in loads} == {"rate", "concurrency", "stages"}
    assert {one.load.mode for one in loads if one.workload.duration_s} == {"rate", "concurrency"}
