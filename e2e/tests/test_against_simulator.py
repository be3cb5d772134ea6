"""`loadproof run --server llm-d-inference-sim`: does a person get the tool's own report judged, and nothing more?

The command as a person runs it, the real runner, and a made-up simulator on PATH (`serving_simulator`), so that all
of this runs where the real one is not. What the real one does is for test_llm_d_inference_sim.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import msgspec
import psutil
import pytest

from loadproof import simulated
from loadproof.bench import plan_jobs, run_job
from loadproof.judging import Judgement, judge_run
from loadproof.run_folder import RunFolder
from loadproof.simulators.offline_tokenizer import expected_counts
from loadproof.simulators.problems import HOW_TO_GET
from loadproof.tokenizer import tokenizer_dir
from loadproof.verdict import Finding, Outcome
from tests.serving_simulator import TOKENS, install
from tests.test_commands import DEADLINE_S, left_running, mark, started, tell

__all__ = ["mark"]  # a fixture

SIMULATOR = "llm-d-inference-sim"
AGAINST = ("--server", SIMULATOR)
N = 12
EXPECTED = f"""\
why: a test of runs against a simulator
absorber: {{}}
workload: {{num_requests: {N}, prompt_tokens: 8, max_tokens: {TOKENS}, stream: true, ignore_eos: true}}
load: {{mode: concurrency, concurrency: 2}}
deadline_s: 60
"""
METRONOME = f"--concurrency\n2\n--num-requests\n{N}\n--prompt-tokens\n8\n--max-tokens\n{TOKENS}\n"
LIAR = """\
import pathlib, sys
pathlib.Path(sys.argv[1], "claims.json").write_text(sys.argv[2])
"""
PAUSE = """\
import pathlib, signal, sys
pathlib.Path(sys.argv[1], "up").touch()
signal.pause()
"""


@pytest.fixture(scope="session")
def counts() -> dict[str, int]:
    return expected_counts(tokenizer_dir())


@pytest.fixture
def path(tmp_path: Path, counts: dict[str, int]) -> dict[str, str]:
    """An environment in which the made-up simulator is installed."""
    return {"PATH": f"{install(tmp_path / 'bin', counts)}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def without(tmp_path: Path) -> dict[str, str]:
    """An environment in which no simulator is installed."""
    return {"PATH": str(tmp_path)}


def case_of(folder: Path, *, command: str = "", **changes: str) -> Path:
    case = folder / "small"
    case.mkdir()
    text = EXPECTED
    for old, new in changes.items():
        assert f"\n{old}: " in text
        text = re.sub(rf"^{old}: .*$", f"{old}: {new}", text, flags=re.MULTILINE)
    (case / "expected.yaml").write_text(text)
    if command:
        (folder / "tool.py").write_text(command)
        (case / "command.args").write_text(f"{sys.executable}\n-S\n{folder / 'tool.py'}\n{{out}}\n")
    else:
        (case / "metronome.args").write_text(METRONOME)
    return case


def findings(run: Path) -> dict[str, Finding]:
    found = msgspec.json.decode((run / "findings.json").read_bytes(), type=list[Finding])
    return {finding.check: finding for finding in found}


def run_here(case: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, path: dict[str, str]) -> Judgement:
    """Make a run in this process, which has loaded the tokenizer already; the run folder is `folder`/out/small-TOOL."""
    monkeypatch.setenv("PATH", path["PATH"])
    [job] = plan_jobs([case], [], folder / "out", 0, server=SIMULATOR)
    return asyncio.run(run_job(job, lambda _progress: None))


JUDGED = ("findings.json", "claims.json", "verdict.json")


def test_an_honest_tool_passes_what_its_report_says_and_the_rest_is_unsupported(
    tmp_path: Path, path: dict[str, str], without: dict[str, str]
) -> None:
    case_of(tmp_path, absorber="{itl_s: 0.007}")
    told = tell("run", "small", *AGAINST, "--out", "out", "--seed", "3", cwd=tmp_path, env=path)
    assert told.returncode == 0, told
    run = tmp_path / "out" / "small-metronome"
    assert {name: finding.outcome for name, finding in findings(run).items()} == {
        "count.journal": Outcome.UNSUPPORTED, "payload.journal": Outcome.UNSUPPORTED,
        "concurrency.journal": Outcome.UNSUPPORTED, "connections.journal": Outcome.UNSUPPORTED,
        "reports.requests": Outcome.PASS, "reports.failed": Outcome.PASS,
        "reports.output_tokens": Outcome.PASS,
    }  # fmt: skip
    assert "metronome against llm-d-inference-sim" in told.stdout
    assert re.search(rf"^ completed +{N} requests *$", told.stdout, re.MULTILINE)
    assert not (run / "journal").exists()
    record = RunFolder(run).read_record()
    assert (record.server, record.dialect, record.seed) == (SIMULATOR, "integer milliseconds", 3)
    assert record.model == "google/gemma-3-270m"
    assert record.absorber_ended is None
    assert re.fullmatch("[0-9a-f]{64}", record.simulator_sha256)
    assert record.simulator_ended is not None
    words = record.simulator_ended.argv
    assert words[words.index("--inter-token-latency") + 1] == "7"
    assert words[words.index("--seed") + 1] == "3"
    assert (run / f"{SIMULATOR}.stderr").stat().st_size > 0

    before = {name: (run / name).read_bytes() for name in JUDGED}
    for name in JUDGED:
        (run / name).unlink()
    again = tell("judge", str(run), cwd=tmp_path, env=without)
    assert again.returncode == 0, again
    assert {name: (run / name).read_bytes() for name in JUDGED} == before
    assert "metronome against llm-d-inference-sim" in again.stdout


def test_a_later_version_runs_without_the_tokenizer_and_that_is_said(
    tmp_path: Path, without: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = {"PATH": f"{install(tmp_path / 'bin', {}, later=True)}{os.pathsep}{without['PATH']}"}
    judged = run_here(case_of(tmp_path, absorber="{itl_s: 0.007}"), tmp_path, monkeypatch, path)
    found = {finding.check: finding for finding in judged.findings}
    assert found["server.tokenizer"].outcome is Outcome.UNSUPPORTED
    assert found["reports.requests"].outcome is Outcome.PASS
    record = RunFolder(tmp_path / "out" / "small-metronome").read_record()
    assert record.simulator_ended is not None
    words = record.simulator_ended.argv
    assert words[words.index("--inter-token-latency") + 1] == "7ms"
    assert (record.dialect, record.counts_tokens) == ("Go durations", False)


RIGHT = {"completed": N, "failed": 0, "output_tokens": N * TOKENS}


@pytest.mark.parametrize(
    ("claims", "failing"),
    [
        (RIGHT, []),
        (RIGHT | {"completed": N - 1, "output_tokens": (N - 1) * TOKENS}, ["reports.requests"]),
        (RIGHT | {"completed": N - 1, "failed": 1, "output_tokens": (N - 1) * TOKENS}, ["reports.failed"]),
        (RIGHT | {"output_tokens": N * TOKENS - 1}, ["reports.output_tokens"]),
    ],
    ids=["right", "one fewer", "one failed", "one token fewer"],
)
def test_a_report_is_read_to_the_letter(
    claims: dict[str, int], failing: list[str], tmp_path: Path, path: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = run_here(lying(tmp_path, json.dumps(claims)), tmp_path, monkeypatch, path)
    assert judgement.verdict.outcome is (Outcome.FAIL if failing else Outcome.UNSUPPORTED)
    assert [finding.check for finding in judgement.findings if finding.outcome is Outcome.FAIL] == failing
    for name in failing:
        assert (
            tmp_path / "out" / "small-command" / findings(tmp_path / "out" / "small-command")[name].evidence
        ).is_dir()


def lying(folder: Path, claims: str, *, then: str = "") -> Path:
    """Return a case whose tool sends nothing and claims what it is given."""
    case = case_of(folder, command=f"{LIAR}{then}")
    with (case / "command.args").open("a") as file:
        file.write(f"{claims}\n")
    return case


def test_a_failure_says_what_repeats_it(tmp_path: Path, path: dict[str, str]) -> None:
    lying(tmp_path, json.dumps(RIGHT | {"failed": 1}))
    told = tell("run", "small", *AGAINST, "--out", "out", cwd=tmp_path, env=path)
    assert told.returncode == 1, told
    assert f"  again: loadproof run small --tool command --server {SIMULATOR} --seed 0\n" in told.stdout
    assert "n 13; evidence out/small-command/tool\n" in told.stdout


def test_a_report_that_cannot_be_read_is_told_and_nothing_passes(
    tmp_path: Path, path: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    judgement = run_here(lying(tmp_path, '{"completed": "many"}'), tmp_path, monkeypatch, path)
    assert {finding.outcome for finding in judgement.findings} == {Outcome.UNSUPPORTED}
    assert judgement.findings[-1].check == "claims.readable"
    assert judgement.claims == ()


def test_a_tool_that_fails_is_broken_whatever_it_reports(
    tmp_path: Path, path: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = lying(tmp_path, json.dumps(RIGHT), then="raise SystemExit(3)")
    verdict = run_here(case, tmp_path, monkeypatch, path).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith("command ended with exit code 3 after ")


@pytest.mark.parametrize("silent", [False, True])
def test_its_deadline_stops_a_tool_and_a_simulator_that_does_not_answer_is_named(
    silent: bool, tmp_path: Path, path: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "SILENT_S", -1.0 if silent else DEADLINE_S)  # below 0: it always counts as silent
    verdict = run_here(case_of(tmp_path, command=PAUSE, deadline_s="0.2"), tmp_path, monkeypatch, path).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert "command was still running after its deadline of 0.2 s and was stopped" in verdict.reason
    assert ("and was stopped, and the simulator has not answered for " in verdict.reason) is silent


def test_a_simulator_that_dies_in_mid_run_breaks_it(
    tmp_path: Path, counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path / "bin", counts, dies_at=N // 2)
    path = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    verdict = run_here(case_of(tmp_path), tmp_path, monkeypatch, path).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith(f"{SIMULATOR} ended with exit code 0 after ")
    assert "its last words" in verdict.reason
    record = RunFolder(tmp_path / "out" / "small-metronome").read_record()
    assert record.tool_ended is not None
    assert record.tool_ended.stopped_because in {"", "was stopped because the simulator had ended"}
    assert record.simulator_ended is not None
    assert judge_run(tmp_path / "out" / "small-metronome").verdict == verdict


def test_one_that_does_not_start_breaks_the_run(
    tmp_path: Path, counts: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {text: count + 1 for text, count in counts.items()}
    path = {"PATH": f"{install(tmp_path / 'bin', wrong)}{os.pathsep}{os.environ['PATH']}"}
    before = psutil.Process().children(recursive=True)  # of other tests of the session
    verdict = run_here(case_of(tmp_path), tmp_path, monkeypatch, path).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith(f"{SIMULATOR}: /tokenize counts ")
    record = RunFolder(tmp_path / "out" / "small-metronome").read_record()
    assert record.tool_ended is None
    assert record.simulator_ended is not None
    assert psutil.Process().children(recursive=True) == before


def test_ctrl_c_leaves_nothing(tmp_path: Path, path: dict[str, str], mark: str) -> None:
    case_of(tmp_path, command=PAUSE)
    run = tmp_path / "out" / "small-command"
    with started("run", "small", *AGAINST, "--out", "out", cwd=tmp_path, mark=mark, env=path) as process:
        until = time.monotonic() + DEADLINE_S
        while not (run / "tool" / "up").exists():
            assert process.poll() is None, process.stdout and process.stdout.read()
            assert time.monotonic() < until
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE_S) == 128 + signal.SIGINT
    assert left_running(mark) == []
    assert judge_run(run).verdict.reason.startswith("the run was interrupted")


def test_a_profile_that_it_cannot_follow_is_rows_and_no_run(tmp_path: Path, path: dict[str, str]) -> None:
    case_of(tmp_path, absorber="{ttft_s: {law: gamma, mean: 0.1, shape: 2}, itl_s: 0.0009, chunk_text: exact}")
    told = tell("run", "small", *AGAINST, "--out", "out", cwd=tmp_path, env=path)
    assert told.returncode == 0, told
    for says in (
        "small x metronome: unsupported: absorber.ttft_s: llm-d-inference-sim takes constant times, no law; run",
        "; absorber.itl_s: llm-d-inference-sim takes whole milliseconds and would cut 0.0009 s; run",
        "; absorber.chunk_text: llm-d-inference-sim streams each word with its trailing space; run this case",
        "\nsmall x metronome: unsupported, not run\n",
    ):
        assert told.stdout.count(says) == 1
    assert "not installed" not in told.stdout
    assert not (tmp_path / "out").exists()


def test_without_the_simulator_there_is_a_row_that_says_how_to_get_it(tmp_path: Path, without: dict[str, str]) -> None:
    case_of(tmp_path)
    told = tell("run", "small", *AGAINST, "--out", "out", cwd=tmp_path, env=without)
    assert told.returncode == 0, told
    assert f"small x metronome: unsupported: {SIMULATOR} is not installed: {HOW_TO_GET}" in told.stdout
    assert not (tmp_path / "out").exists()
    must = tell("run", "small", *AGAINST, cwd=tmp_path, env=without | {"LOADPROOF_REQUIRE": SIMULATOR})
    assert must.returncode == 3
    assert f"required (LOADPROOF_REQUIRE) and not installed: {SIMULATOR}" in must.stdout
    other = tell("run", "small", *AGAINST, cwd=tmp_path, env=without | {"LOADPROOF_REQUIRE": "inference-perf"})
    assert other.returncode == 0
    # Who does not ask for it is not told that it is missing.
    plain = tell("run", "small", "--out", "plain", cwd=tmp_path, env=without | {"LOADPROOF_REQUIRE": SIMULATOR})
    assert plain.returncode in {0, 1, 2}, plain
    assert (tmp_path / "plain" / "small-metronome" / "journal" / "journal.parquet").is_file()


def test_an_unknown_server_is_64(tmp_path: Path) -> None:
    case_of(tmp_path)
    told = tell("run", "small", "--server", "vllm", cwd=tmp_path)
    assert told.returncode == 64
    assert SIMULATOR in told.stderr
