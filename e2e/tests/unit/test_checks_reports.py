"""Without a journal: does a report that is off by one request, failure or token fail, and is what nobody knows said?"""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import msgspec
import pytest

from loadproof.case import Case
from loadproof.checks.every import ask_all, ask_without_journal
from loadproof.checks.reports import NO_REPORT
from loadproof.checks.without_journal import OPEN
from loadproof.errors import BrokenRun
from loadproof.load.measured import measure
from loadproof.reported import Reported, read_claims
from loadproof.tools.base import Tool
from loadproof.tools.command import AnyCommand
from loadproof.tools.metronome import Metronome
from loadproof.verdict import Finding, Outcome, verdict_of
from tests.unit.forge import TOKENS, TOOL, case, closed_case, closed_loop, constant, journal, rate_case

N = 80
SERVER = "some-simulator"
RIGHT = Reported(completed=N, failed=0, output_tokens=float(N * TOKENS))
REPORTS = ("reports.requests", "reports.failed", "reports.output_tokens")
PASS, FAIL, UNSUPPORTED, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNSUPPORTED, Outcome.UNCLEAR


def asked(**changes: object) -> Case:
    """Return a closed loop of N requests, with changes to its workload."""
    return case({"mode": "concurrency", "concurrency": 4}, workload={"num_requests": N, **changes})


def told(reported: Reported | None, of: Case | None = None) -> dict[str, Finding]:
    found = ask_without_journal(of or asked(), TOOL, reported, SERVER)
    by_name = {finding.check: finding for finding in found}
    assert len(by_name) == len(found), "two findings of one name"
    for finding in found:
        assert len(finding.requirement) <= 33, finding.requirement
        assert len(finding.expected) <= 27, finding.expected
        assert finding.measured, finding.check
        assert finding.detail or finding.outcome is PASS or finding.check.endswith(".journal"), finding.check
    return by_name


def outcomes(reported: Reported | None, of: Case | None = None) -> tuple[Outcome, ...]:
    found = told(reported, of)
    return tuple(found[name].outcome for name in REPORTS)


def but(**changes: object) -> Reported:
    return msgspec.structs.replace(RIGHT, **changes)


def test_a_right_report_passes_and_rests_on_the_tools_files() -> None:
    found = told(RIGHT)
    assert outcomes(RIGHT) == (PASS, PASS, PASS)
    assert {found[name].n for name in REPORTS} == {N}
    assert {found[name].evidence for name in REPORTS} == {"tool"}
    assert found["reports.output_tokens"].measured == f"{N * TOKENS}"


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        (but(completed=N - 1, output_tokens=(N - 1) * TOKENS), (FAIL, PASS, PASS)),
        (but(completed=N + 1, output_tokens=(N + 1) * TOKENS), (FAIL, PASS, PASS)),
        (but(completed=N - 1, failed=1, output_tokens=(N - 1) * TOKENS), (PASS, FAIL, PASS)),
        (but(failed=1), (FAIL, FAIL, PASS)),
        (but(output_tokens=N * TOKENS - 1), (PASS, PASS, FAIL)),
        (but(output_tokens=N * TOKENS + 1), (PASS, PASS, FAIL)),
        (but(output_tokens=N * TOKENS + 0.5), (PASS, PASS, FAIL)),
        (but(abandoned=1), (FAIL, FAIL, PASS)),
        (but(completed=N - 1, abandoned=1, output_tokens=(N - 1) * TOKENS), (PASS, FAIL, PASS)),
    ],
)
def test_the_nearest_wrong_report_fails_what_is_wrong_in_it(
    wrong: Reported, expected: tuple[Outcome, Outcome, Outcome]
) -> None:
    assert outcomes(wrong) == expected


def test_a_tool_that_completed_nothing_passes_nothing() -> None:
    assert outcomes(but(completed=0, failed=0, output_tokens=0)) == (FAIL, UNCLEAR, UNCLEAR)
    assert outcomes(but(completed=0, failed=N, output_tokens=0)) == (PASS, FAIL, UNCLEAR)


@pytest.mark.parametrize(
    ("lacking", "expected", "says"),
    [
        (but(completed=None), (UNSUPPORTED, UNSUPPORTED, UNSUPPORTED), "completed"),
        (but(failed=None), (UNSUPPORTED, UNSUPPORTED, PASS), "failed"),
        (but(output_tokens=None), (PASS, PASS, UNSUPPORTED), "output tokens"),
        (but(completed=None, failed=2), (UNSUPPORTED, FAIL, UNSUPPORTED), "completed"),
        (but(completed=N + 1, failed=None, output_tokens=None), (FAIL, UNSUPPORTED, UNSUPPORTED), "failed"),
    ],
)
def test_a_number_that_is_not_reported_is_named(lacking: Reported, expected: tuple[Outcome, ...], says: str) -> None:
    assert outcomes(lacking) == expected
    details = [finding.detail for finding in told(lacking).values() if finding.check in REPORTS]
    assert any(f"the tool reports no number of {says}" in detail for detail in details)


def test_without_a_report_nothing_is_judged_and_all_of_it_says_so() -> None:
    found = told(None)
    assert outcomes(None) == (UNSUPPORTED,) * 3
    assert {found[name].detail for name in REPORTS} == {NO_REPORT}
    assert verdict_of("c", "t", found.values()).outcome is UNSUPPORTED


def test_what_does_not_follow_from_what_was_asked_is_not_judged() -> None:
    by_time = told(RIGHT, asked(num_requests=None, duration_s=5))
    assert by_time["reports.requests"].outcome is UNSUPPORTED
    assert by_time["reports.requests"].measured == f"{N} completed, 0 failed"
    assert (by_time["reports.failed"].outcome, by_time["reports.output_tokens"].outcome) == (PASS, PASS)
    free = told(RIGHT, asked(ignore_eos=False))
    assert free["reports.output_tokens"].outcome is UNSUPPORTED
    assert "ignore_eos" in free["reports.output_tokens"].detail


def test_declared_leading_extras_are_not_expected_in_a_report() -> None:
    of = closed_case(N, 4, leading_extra_requests=1)
    assert outcomes(RIGHT, of) == (PASS, PASS, PASS)
    assert outcomes(but(completed=N + 1, output_tokens=(N + 1) * TOKENS), of) == (FAIL, PASS, PASS)


def test_only_the_tokens_of_a_report_may_be_allowed() -> None:
    of = closed_case(N, 4, allowances=[{"check": "reports.output_tokens", "because": "it counts by itself"}])
    found = told(but(output_tokens=7, failed=1), of)
    assert not found["reports.output_tokens"].counted
    assert found["reports.output_tokens"].allowed_because == "it counts by itself"
    assert found["reports.failed"].counted


def rooms(findings: tuple[Finding, ...]) -> list[str]:
    return [room for room, _ in itertools.groupby(finding.check.partition(".")[0] for finding in findings)]


STAGES: dict[str, object] = {
    "mode": "stages", "stages": [{"rate": 1, "num_requests": N // 2}, {"concurrency": 2, "num_requests": N // 2}],
}  # fmt: skip


@pytest.mark.parametrize(
    "of",
    [
        closed_case(N, 4),
        rate_case(N, 20, "constant"),
        rate_case(N, 20, "poisson"),
        rate_case(N, 20, "fixed-span"),
        case(STAGES, workload={"num_requests": N}, arrival="constant"),
        case({**STAGES, "stages": [{"concurrency": 2, "num_requests": N}]}, workload={"num_requests": N}),
        case(
            {
                "mode": "stages",
                "stages": [
                    {"concurrency": 2, "num_requests": N - 4, "gap_s": 1},
                    {"concurrency": 4, "num_requests": 4},
                ],
            },
            workload={"num_requests": N},
        ),
    ],
    ids=["closed", "constant", "poisson", "fixed-span", "stages", "closed stages", "closed stages with a gap"],
)
def test_each_module_that_would_have_spoken_has_one_row_and_no_other(of: Case) -> None:
    """What a journal would have been asked, from the checks themselves; the instrument alone has no row."""
    loaded = measure(journal(closed_loop(N, 4) if not of.expected.open_loop else constant(N, 20)))
    with_journal = [room for room in rooms(ask_all(of, TOOL, loaded)) if room != "instrument"]
    without = ask_without_journal(of, TOOL, RIGHT, SERVER)
    assert rooms(without) == [*with_journal, "reports"]
    silent = [finding for finding in without if not finding.check.startswith("reports.")]
    assert len(silent) == len(with_journal)
    for finding in silent:
        assert (finding.outcome, finding.n, finding.counted) == (UNSUPPORTED, 0, True)
    assert [bool(finding.detail) for finding in silent] == [True, *[False] * (len(silent) - 1)]
    assert silent[0].detail.startswith(f"{SERVER} keeps no journal, so nobody knows {OPEN[with_journal[0]][0]}, ")
    assert all(OPEN[room][0] in silent[0].detail for room in with_journal)
    assert set(with_journal) <= set(OPEN)


@pytest.mark.parametrize("number", ["-1", "1.5", "1e400", "9" * 400, "null0"])
def test_what_is_no_count_is_not_read(number: str, tmp_path: Path) -> None:
    claims = tmp_path / "claims.json"
    claims.write_text(f'{{"completed": {number}}}')
    with pytest.raises(BrokenRun, match="claims"):
        read_claims(claims)


@pytest.mark.parametrize("tool", [AnyCommand(), Metronome()])
def test_what_is_no_file_is_no_report(tool: Tool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "claims.json")  # to read it would wait for ever
    assert tool.claims(tmp_path) is None
