"""Is a run folder one run's alone, and does whatever goes wrong in judging it end as broken?"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from bench.judging_parts.asked import case_of
from bench.judging_parts.made import Plan, make_streams
from loadproof.ended import Ended, Usage
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.host import this_host
from loadproof.journal import read_journal
from loadproof.judging import judge_journal, judge_run
from loadproof.run_folder import ABSORBER, RunFolder, RunRecord, write_json
from loadproof.verdict import Outcome, Verdict

EXPECTED = """\
why: a test
workload: {num_requests: 1, prompt_tokens: 8, max_tokens: 2, stream: false, ignore_eos: true}
load: {mode: concurrency, concurrency: 1}
"""


def _ended(exit_code: int = 0, because: str = "") -> Ended:
    return Ended(argv=["x"], exit_code=exit_code, started_ns=0, ended_ns=1_500_000_000, stopped_because=because,
                 usage=Usage(cpu_s=0, peak_memory_bytes=0))  # fmt: skip


def _run(
    path: Path, *, tool: Ended | None, absorber: Ended | None = None, broken: str = "", server: str = ABSORBER,
    simulator: Ended | None = None,
) -> Path:  # fmt: skip
    folder = RunFolder(path)
    folder.claim(journal=server == ABSORBER)
    folder.case.mkdir()
    (folder.case / "expected.yaml").write_text(EXPECTED)
    record = RunRecord(case="c", tool="command", tool_version="", loadproof_version="", python="", seed=0, git="",
                       started_at="", host=this_host(), broken=broken, tool_ended=tool, absorber_ended=absorber,
                       server=server, simulator_ended=simulator)  # fmt: skip
    folder.write("run.json", record)
    assert folder.read_record() == record
    return path


@pytest.mark.parametrize(
    ("tool", "absorber", "broken", "says"),
    [
        (_ended(), _ended(), "", "journal.parquet: there is no journal"),
        (_ended(7), _ended(), "", "command ended with exit code 7 after 1.5 s\n--- last lines of "),
        (_ended(-15, "was too slow"), _ended(), "", "command was too slow\n--- last lines of "),
        (_ended(0, "was too slow"), _ended(), "", "command was too slow\n"),
        (_ended(), _ended(-9), "", "the absorber was ended by SIGKILL after 1.5 s"),
        (None, None, "the run was interrupted", "the run was interrupted\n--- last lines of "),
        (None, None, "", "the run did not come to its end\n"),
        (_ended(), None, "", "the run did not come to its end\n"),
    ],
)
def test_how_a_run_broke(tmp_path: Path, tool: Ended | None, absorber: Ended | None, broken: str, says: str) -> None:
    run = _run(tmp_path / "run", tool=tool, absorber=absorber, broken=broken)
    (run / "tool.stdout").write_text("the last words\n")
    verdict = judge_run(run).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert says in verdict.reason
    assert msgspec.json.decode((run / "verdict.json").read_bytes(), type=Verdict) == verdict
    assert [(run / name).read_text() for name in ("findings.json", "claims.json")] == ["[]\n", "[]\n"]


SIMULATOR = "some-simulator"
CLAIMS = '{"completed": 1, "failed": 0, "output_tokens": 2, "ttft_s": {"mean": 0.5}}'


def _against_simulator(path: Path, *, tool: Ended | None, simulator: Ended | None, broken: str = "") -> Path:
    run = _run(path, tool=tool, simulator=simulator, broken=broken, server=SIMULATOR)
    (run / "tool" / "claims.json").write_text(CLAIMS)
    return run


def test_a_run_without_a_journal_is_judged_by_its_report(tmp_path: Path) -> None:
    """However the simulator ended: it was told to."""
    run = _against_simulator(tmp_path / "run", tool=_ended(), simulator=_ended(1))
    judgement = judge_run(run)
    assert (judgement.verdict.outcome, judgement.verdict.reason) == (Outcome.UNSUPPORTED, "")
    assert judgement.server == SIMULATOR
    assert {found.check for found in judgement.findings if found.outcome is Outcome.PASS} == {
        "reports.requests", "reports.failed", "reports.output_tokens"}  # fmt: skip
    assert [(claim.quantity, claim.truth, claim.definition) for claim in judgement.claims] == [
        (name, None, "no journal") for name in ("completed", "failed", "ttft_s.mean", "output_tokens")
    ]


@pytest.mark.parametrize(
    ("tool", "simulator", "broken", "says"),
    [
        (_ended(), None, "", "the run did not come to its end"),
        (None, _ended(), "", "the run did not come to its end"),
        (_ended(0, "was stopped"), _ended(0), "the simulator died", "the simulator died"),
        (_ended(7), _ended(0), "", "command ended with exit code 7 after 1.5 s"),
        (_ended(0, "was too slow"), _ended(0), "", "command was too slow"),
    ],
)
def test_how_a_run_without_a_journal_broke(
    tmp_path: Path, tool: Ended | None, simulator: Ended | None, broken: str, says: str
) -> None:
    run = _against_simulator(tmp_path / "run", tool=tool, simulator=simulator, broken=broken)
    verdict = judge_run(run).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith(says)


def test_claims_that_are_required_are_told_without_a_journal_too(tmp_path: Path) -> None:
    run = _against_simulator(tmp_path / "run", tool=_ended(), simulator=_ended())
    expected = run / "case" / "expected.yaml"
    expected.write_text(f"{EXPECTED}claims: required\n")
    [found] = [found for found in judge_run(run).findings if found.check == "claims.required"]
    assert (found.outcome, found.n) == (Outcome.UNSUPPORTED, 4)


def test_a_record_of_before_there_were_servers_is_of_an_absorber(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", tool=_ended(), absorber=_ended())
    record = json.loads((run / "run.json").read_text())
    for name in ("server", "dialect", "simulator_ended"):
        del record[name]
    (run / "run.json").write_text(json.dumps(record))
    assert RunFolder(run).read_record().server == ABSORBER
    assert "there is no journal" in judge_run(run).verdict.reason


def test_our_own_defect_is_broken_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError("of ours")

    monkeypatch.setattr("loadproof.judging.read_journal", wrong)
    verdict = judge_run(_run(tmp_path / "run", tool=_ended(), absorber=_ended())).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith("this is a defect of loadproof\nTraceback")
    assert "ZeroDivisionError: of ours" in verdict.reason


def test_a_damaged_record_is_broken(tmp_path: Path) -> None:
    run = _run(tmp_path / "run", tool=_ended(), absorber=_ended())
    (run / "run.json").write_text('{"case": 1')
    with pytest.raises(BrokenRun, match=r"run\.json: cannot be read: .*; it is damaged, or of another loadproof"):
        judge_run(run)


def test_of_two_runs_in_one_folder_the_second_is_refused(tmp_path: Path) -> None:
    first, second = RunFolder(tmp_path / "a" / "run"), RunFolder(tmp_path / "a" / "run")
    first.require_empty()
    second.require_empty()  # neither has begun
    first.claim()
    (first.tool_out / "precious").touch()
    with pytest.raises(UsageProblem, match="another run has just begun there; choose another --out"):
        second.claim()
    assert (first.tool_out / "precious").exists()
    with pytest.raises(UsageProblem, match="is not an empty folder"):
        second.require_empty()


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = RunFolder(tmp_path / "file" / "a" / "run")
    with pytest.raises(UsageProblem, match=r"cannot be made, because .*/file is a file; choose another --out"):
        folder.require_empty()
    with pytest.raises(UsageProblem, match="cannot be made: Not a directory; choose another --out"):
        folder.claim()


def test_json_is_written_whole_with_sorted_keys(tmp_path: Path) -> None:
    write_json(tmp_path / "it.json", {"b": 1, "a": "é"})
    assert (tmp_path / "it.json").read_text() == '{\n "a": "é",\n "b": 1\n}\n'
    assert [path.name for path in tmp_path.iterdir()] == ["it.json"]


def test_the_long_run_of_the_bench_has_the_shape_that_it_says_and_is_honest(tmp_path: Path) -> None:
    make_streams(tmp_path, Plan(requests=3000, chunks=5, body_bytes=400, seed=3))
    findings = judge_journal(case_of(3000, 5), "command", tmp_path, None).findings
    assert [found.check for found in findings if found.outcome is Outcome.FAIL] == []
    rows = read_journal(tmp_path).table
    assert {len(body) for body in rows["body"].to_pylist()} == {400}
    assert {len(late) for late in rows["late_ns"].to_pylist()} == {5}
    assert len(set(rows["prompt_digest"].to_pylist())) == 3000
    fewer = judge_journal(case_of(2999, 5), "command", tmp_path, None).findings
    assert "count.requests" in {found.check for found in fewer if found.outcome is Outcome.FAIL}
