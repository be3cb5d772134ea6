"""Does the pytest plugin repeat what is unclear, skip or fail as LOADPROOF_REQUIRE says, and tell it all at the end?

Whole pytest sessions in this process, with real planning and a run that is made up: nothing is started.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from loadproof import bench
from loadproof.bench import Job, Watch
from loadproof.errors import Exit
from loadproof.judging import Judgement
from loadproof.verdict import Finding, Outcome, verdict_of

pytest_plugins = ["pytester"]

STARTER = Path(__file__).parents[1] / "parity" / "cases" / "a_fixed_rate"
PASS, UNCLEAR, FAIL = Outcome.PASS, Outcome.UNCLEAR, Outcome.FAIL

# Without asyncio's plugin, which warns of what the inner session leaves unset, and hypothesis's, which takes a second.
BARE = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:hypothesispytest")

PREAMBLE = """
from pathlib import Path

import pytest

from loadproof.verdict import Outcome

def said(run):
    return run.judgement.verdict.outcome
"""


class MadeUpRuns:
    """Stands in for `run_job`: claims the folder as a real run does, and says what it was told to say."""

    def __init__(self) -> None:
        self.outcomes: Iterator[Outcome] = iter(())
        self.jobs: list[Job] = []

    async def __call__(self, job: Job, _watch: Watch) -> Judgement:
        job.folder.claim()
        self.jobs.append(job)
        outcome = next(self.outcomes)
        finding = Finding(check="rate.mean", requirement="", expected="", measured="", outcome=outcome, n=1)
        return Judgement(verdict_of(job.case.name, job.tool.name, (finding,)), (finding,), ())


type Session = Callable[..., pytest.RunResult]


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MadeUpRuns:
    """No tool or simulator of the tests' machine is there, and nothing of this session's environment is seen."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for name in ("LOADPROOF_REQUIRE", "LOADPROOF_SUMMARY", "LOADPROOF_INFERENCE_PERF"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LOADPROOF_CACHE", str(tmp_path / "cache"))
    runs = MadeUpRuns()
    monkeypatch.setattr(bench, "run_job", runs)
    return runs


@pytest.fixture
def session(made_up: MadeUpRuns, pytester: pytest.Pytester) -> Session:
    """How a test has a session: with these tests, and runs that end so, one after the other."""

    def run(body: str, *outcomes: Outcome) -> pytest.RunResult:
        shutil.copytree(STARTER, pytester.path / "case")
        made_up.outcomes = iter(outcomes)
        pytester.makepyfile(test_inner=PREAMBLE + body)
        return pytester.runpytest_inprocess("-ra", *BARE)

    return run


def asking(tool: str = "metronome", name: str = "test_it") -> str:
    return f"\ndef {name}(loadproof_runs):\n    loadproof_runs.clearly(Path('case'), {tool!r}, said)\n"


COUNTS = "timed tests: {}, of them unclear: {}; skipped for a missing tool or simulator: {}"


def assert_counts(result: pytest.RunResult, timed: int, unclear: int, missing: int) -> None:
    assert result.stdout.lines.count(COUNTS.format(timed, unclear, missing)) == 1


def rows(result: pytest.RunResult) -> list[list[str]]:
    """Return the words of the terminal table's rows."""
    lines = result.stdout.lines
    first = next(number for number, line in enumerate(lines) if line.startswith("case ") and "outcome" in line)
    last = next(number for number, line in enumerate(lines) if line.startswith("timed tests: "))
    return [line.split() for line in lines[first + 1 : last]]


@pytest.mark.parametrize("required", ["", "inference-perf,metronome"])
def test_an_unclear_answer_is_asked_of_three_new_runs_and_is_then_a_counted_skip(
    required: str, session: Session, made_up: MadeUpRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", required)
    result = session(asking(), UNCLEAR, UNCLEAR, UNCLEAR, PASS)
    result.assert_outcomes(skipped=1)
    assert len({job.folder.path for job in made_up.jobs}) == len({job.seed for job in made_up.jobs}) == 3
    assert_counts(result, 1, 1, 0)
    result.stdout.fnmatch_lines(["SKIPPED*case, metronome: unclear in 3 runs: *too busy*"])


def test_unclear_fails_where_clear_is_required(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", "inference-perf, clear")
    result = session(asking(), UNCLEAR, UNCLEAR, UNCLEAR)
    result.assert_outcomes(failed=1)
    assert_counts(result, 1, 1, 0)
    result.stdout.fnmatch_lines(["FAILED*case, metronome: unclear in 3 runs*"])


def test_a_later_run_that_is_clear_is_the_answer(session: Session, made_up: MadeUpRuns) -> None:
    body = """
def test_it(loadproof_runs):
    run = loadproof_runs.clearly(Path("case"), "metronome", said)
    assert (said(run), run.folder.is_dir()) == (Outcome.FAIL, True)
"""
    result = session(body, UNCLEAR, FAIL, PASS)
    result.assert_outcomes(passed=1)
    assert len(made_up.jobs) == 2
    assert_counts(result, 1, 0, 0)
    assert [row[3] for row in rows(result)] == ["unclear", "fail"]


def test_what_the_question_asserts_is_not_repeated(session: Session, made_up: MadeUpRuns) -> None:
    body = """
def test_it(loadproof_runs):
    def ask(run):
        assert said(run) is not Outcome.UNCLEAR
    loadproof_runs.clearly(Path("case"), "metronome", ask)
"""
    result = session(body, UNCLEAR, PASS)
    result.assert_outcomes(failed=1)
    assert len(made_up.jobs) == 1
    assert_counts(result, 1, 0, 0)


def test_tests_share_a_run_and_its_row_names_the_first(session: Session, made_up: MadeUpRuns) -> None:
    result = session(asking(name="test_one") + asking(name="test_two"), PASS, FAIL)
    result.assert_outcomes(passed=2)
    assert len(made_up.jobs) == 1
    assert rows(result) == [["case", "metronome", "absorber", "pass", "1", "pass", "test_inner.py::test_one"]]
    assert_counts(result, 2, 0, 0)


def test_cases_of_one_name_in_different_folders_do_not_collide(session: Session, made_up: MadeUpRuns) -> None:
    body = """
import shutil

@pytest.mark.parametrize("parent", ["a", "b"])
def test_it(parent, loadproof_runs, tmp_path):
    case = shutil.copytree("case", tmp_path / parent / "case")
    run = loadproof_runs.clearly(case, "metronome", said)
    assert run.judgement.verdict.case == "case"
"""
    result = session(body, PASS, FAIL)
    result.assert_outcomes(passed=2)
    assert len({job.folder.path for job in made_up.jobs}) == 2
    assert [row[3] for row in rows(result)] == ["pass", "fail"]


def test_a_missing_tool_is_a_counted_skip_and_not_timed(session: Session, made_up: MadeUpRuns) -> None:
    result = session(asking("inference-perf"))
    result.assert_outcomes(skipped=1)
    assert made_up.jobs == []
    assert_counts(result, 0, 0, 1)
    result.stdout.fnmatch_lines(["SKIPPED*inference-perf is not installed: `loadproof tools sync inference-perf`*"])


@pytest.mark.parametrize(("required", "failed"), [("inference-perf", 1), ("metronome,clear", 0)])
def test_a_missing_tool_fails_only_where_it_is_required(
    required: str, failed: int, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", required)
    result = session(asking("inference-perf") + asking(name="test_other"), PASS)
    result.assert_outcomes(passed=1, failed=failed, skipped=1 - failed)
    assert_counts(result, 1, 0, 1 - failed)
    assert ("inference-perf is required and not installed" in result.stdout.str()) is bool(failed)


REQUIRING = """
def test_it(loadproof_runs):
    loadproof_runs.require("metronome")
    loadproof_runs.require("inference-perf")
    raise AssertionError
"""


@pytest.mark.parametrize(("required", "failed"), [("", 0), ("inference-perf", 1)])
def test_a_tool_can_be_required_before_anything_is_run(
    required: str, failed: int, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", required)
    result = session(REQUIRING)
    result.assert_outcomes(failed=failed, skipped=1 - failed)
    result.stdout.fnmatch_lines(["*inference-perf is *not installed: `loadproof tools sync inference-perf`*"])


SIMULATED = """
def test_sim(llm_d_sim):
    raise AssertionError("it was to be skipped")

def test_run(loadproof_runs):
    loadproof_runs.clearly(Path("case"), "metronome", said, server="llm-d-inference-sim")

def test_absorber(loadproof_runs):
    loadproof_runs.clearly(Path("case"), "metronome", said)
"""
HOW = "llm-d-inference-sim is *not installed: put llm-d-inference-sim v0.6.1 on PATH*`nix develop`*"


def test_without_the_simulator_who_asks_for_it_is_a_counted_skip(session: Session, made_up: MadeUpRuns) -> None:
    result = session(SIMULATED, PASS)
    result.assert_outcomes(passed=1, skipped=2)
    assert [job.server for job in made_up.jobs] == ["absorber"]
    assert_counts(result, 1, 0, 2)
    result.stdout.fnmatch_lines([f"SKIPPED*{HOW}", f"SKIPPED*{HOW}"])


def test_the_simulator_fails_who_asks_for_it_where_it_is_required(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", "llm-d-inference-sim")
    result = session(SIMULATED, PASS)
    result.assert_outcomes(passed=1, failed=1, errors=1)  # a fixture that fails is an error to pytest
    assert_counts(result, 1, 0, 0)
    result.stdout.fnmatch_lines(["*llm-d-inference-sim is required and not installed: *"])


MAKING = """
from loadproof.plugin import SEED
from loadproof.simulators import llm_d

def test_it(llm_d_sim, monkeypatch, tmp_path):
    assert isinstance(llm_d_sim(), llm_d.LLMDInferenceSimRunner)
    monkeypatch.setattr(llm_d.LLMDInferenceSimRunner, "__init__", lambda self, **given: vars(self).update(given=given))
    first, second = llm_d_sim(ttft_s=0.1), llm_d_sim(seed=3, model="m", tokenizer_dir=None, log_dir=Path("here"))
    tokenizer = first.given.pop("tokenizer_dir")
    assert (tokenizer / "tokenizer.json").is_file()
    folder = first.given.pop("log_dir")
    assert folder.parent == tmp_path and not folder.exists()
    assert first.given == {"model": "google/gemma-3-270m", "seed": SEED, "ttft_s": 0.1}
    assert second.given == {"model": "m", "seed": 3, "tokenizer_dir": None, "log_dir": Path("here")}
    assert llm_d_sim().given["log_dir"] != folder
"""


def test_the_factory_fills_in_what_is_not_given_and_starts_nothing(session: Session, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "llm-d-inference-sim"
    program.parent.mkdir()
    program.write_text("nobody starts me")
    program.chmod(0o755)
    result = session(MAKING)
    result.assert_outcomes(passed=1)


def test_runs_of_both_servers_are_kept_apart(session: Session, made_up: MadeUpRuns, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "llm-d-inference-sim"
    program.parent.mkdir()
    program.write_text("nobody starts me")
    program.chmod(0o755)
    result = session(SIMULATED.replace("def test_sim", "def not_a_test"), PASS, FAIL)
    result.assert_outcomes(passed=2)
    assert [job.server for job in made_up.jobs] == ["llm-d-inference-sim", "absorber"]
    assert [row[2:4] for row in rows(result)] == [["llm-d-inference-sim", "pass"], ["absorber", "fail"]]


LIGHT = """
import sys
import loadproof.plugin
print(*sorted({"httpx", "numpy", "pyarrow", "pydantic", "scipy", "tokenizers"} & set(sys.modules)))
"""


def test_a_session_that_uses_none_of_it_loads_nothing_heavy() -> None:
    told = subprocess.run([sys.executable, "-c", LIGHT], check=True, capture_output=True, text=True)
    assert told.stdout == "\n"


PARAMETRIZED = """
@pytest.mark.parametrize("name", ["a|b"])
def test_it(name, loadproof_runs):
    loadproof_runs.clearly(Path("case"), "metronome", said)
"""


def test_the_summary_is_written_as_json_and_markdown(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "summary"
    monkeypatch.setenv("LOADPROOF_SUMMARY", str(folder))
    result = session(PARAMETRIZED + asking("inference-perf", "test_missing"), UNCLEAR, PASS)
    result.assert_outcomes(passed=1, skipped=1)
    assert sorted(path.name for path in folder.iterdir()) == ["summary.json", "summary.md"]
    written = json.loads((folder / "summary.json").read_text())
    host = written.pop("host")
    assert host["name"]
    assert host["usable_cores"] > 0
    row = {"case": "case", "tool": "metronome", "server": "absorber", "asked_by": "test_inner.py::test_it[a|b]"}
    ended = [{"outcome": outcome, "findings": f"1 {outcome}"} for outcome in ("unclear", "pass")]
    assert written == {"rows": [row | one for one in ended], "timed": 1, "unclear": 0, "tool_missing": 1}
    lines = (folder / "summary.md").read_text().splitlines()
    assert lines[:4] == [
        "| case | tool | server | outcome | findings | first asked by |",
        "| --- | --- | --- | --- | --- | --- |",
        "| case | metronome | absorber | unclear | 1 unclear | test_inner.py::test_it[a&#124;b] |",
        "| case | metronome | absorber | pass | 1 pass | test_inner.py::test_it[a&#124;b] |",
    ]
    assert lines[5] == COUNTS.format(1, 0, 1)
    assert lines[7].startswith(f"host: {host['name']}, {host['cpu_model']}, {host['usable_cores']:g} usable cores")
    assert lines[7] in result.stdout.lines


@pytest.mark.parametrize(("outcome", "exit_code"), [(PASS, Exit.USAGE), (UNCLEAR, pytest.ExitCode.TESTS_FAILED)])
def test_a_summary_that_cannot_be_written_is_told_and_loses_nothing(
    outcome: Outcome, exit_code: int, session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A session that failed keeps its own exit code."""
    file = tmp_path / "file"
    file.write_text("kept")
    monkeypatch.setenv("LOADPROOF_SUMMARY", str(file))
    monkeypatch.setenv("LOADPROOF_REQUIRE", "clear")
    result = session(asking(), *[outcome] * 3)
    assert result.ret == exit_code
    result.assert_outcomes(passed=int(outcome is PASS), failed=int(outcome is UNCLEAR))
    assert [row[3] for row in rows(result)] == [outcome] * (1 if outcome is PASS else 3)
    [told] = [line for line in result.stdout.lines if line.startswith("LOADPROOF_SUMMARY=")]
    assert told == (f"LOADPROOF_SUMMARY={file}: the summary was not written: File exists; "
                    "name a folder that can be made and written")  # fmt: skip
    assert "Traceback" not in result.stdout.str() + result.stderr.str()
    assert file.read_text() == "kept"


def test_a_session_that_uses_none_of_it_sees_none_of_it(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LOADPROOF_SUMMARY", str(tmp_path / "summary"))
    result = session("\ndef test_it(): pass\n")
    result.assert_outcomes(passed=1)
    assert [line for line in result.stdout.lines if "loadproof" in line and not line.startswith("plugins: ")] == []
    assert not (tmp_path / "summary").exists()


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("inference-perf,claer", "LOADPROOF_REQUIRE: 'claer' is unknown*clear*"),
        ("moon", "LOADPROOF_REQUIRE: 'moon' is unknown; known are inference-perf, *capture"),
    ],
)
def test_an_unknown_requirement_ends_the_session_before_any_test(
    named: str, told: str, session: Session, made_up: MadeUpRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", named)
    result = session(asking(), PASS)
    assert result.ret == Exit.USAGE
    assert made_up.jobs == []
    result.stderr.fnmatch_lines([f"*{told}"])
    assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()


def test_the_plugin_is_found_by_any_pytest_and_its_exit_code_leaves_the_process(
    made_up: MadeUpRuns, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADPROOF_REQUIRE", "moon")
    pytester.makepyfile(test_inner="def test_it(): pass")
    assert pytester.runpytest_subprocess(*BARE).ret == Exit.USAGE
