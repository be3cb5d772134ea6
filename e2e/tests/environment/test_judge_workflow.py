"""Can another repository judge its load generator by judge.yml, and does the job fail when the load is wrong?

A small repository whose load generator is a script of its own, run by act as in test_workflow_job. Also the script
behind the workflow alone, for what is asked wrongly and for a tool's own build.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment.conftest import Shell
from tests.environment.test_workflow_job import Runner
from tests.environment.workshop import ROOT, copy_of_the_project, own_environ

SCRIPT = ROOT / ".github" / "judge.py"
CALLER = """on: push
jobs:
  judge:
    uses: ./.github/workflows/judge.yml
    with:
      cases: {cases}
      setup: chmod +x send.sh
      command: ./send.sh {{case}} {{base_url}} {{model}} {{out}}
      loadproof-repository: loadproof
      loadproof-ref: main
"""
SEND = """#!/bin/sh
# A load generator that reads what to send from its configuration in the case.
exec loadproof metronome --base-url "$2" --model "$3" --out "$4" --arrival constant --rate 50 \\
  --num-requests "$(cat "$1/number.json")" --prompt-tokens 32 --max-tokens 4
"""
EXPECTED = """why: the judged load of the workflow's test
absorber: {ttft_s: 0.02, itl_s: 0.005}
workload: {num_requests: 100, prompt_tokens: 32, max_tokens: 4, stream: true, ignore_eos: true, api: completions}
load: {mode: rate, rate: 50}
tools: {command: {arrival: constant, prompt_extra: {bos: 1}}}
"""
PIPX = """#!/bin/sh
# `pipx run --spec SPEC pdm ...` with the pdm that is here.
[ "$1 $2" = "run --spec" ] || exit 99
shift 3
exec "$@"
"""


def case(folder: Path, number: int) -> Path:
    """Return a case, made, that expects 100 requests, and in which the tool is told to send `number`."""
    folder.mkdir(parents=True)
    (folder / "expected.yaml").write_text(EXPECTED)
    (folder / "number.json").write_text(f"{number}\n")
    return folder


def caller(sources: Path) -> Path:
    """Return the calling repository, made; `right` and `wrong` are its folders of cases."""
    here = sources / "here"
    workflows = here / ".github" / "workflows"
    workflows.mkdir(parents=True)
    (workflows / "judge.yml").write_text((ROOT / ".github/workflows/judge.yml").read_text())
    for name, number in (("right", 100), ("wrong", 90)):
        case(here / name / "a_case", number)
        (workflows / f"{name}.yml").write_text(CALLER.format(cases=name))
    (here / "send.sh").write_text(SEND)
    subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
    return here


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    made = Runner(tmp_path_factory.mktemp("judged"))
    caller(made.sources)
    copy_of_the_project(made.sources / "loadproof")
    (made.folder / "pipx").write_text(PIPX)
    (made.folder / "pipx").chmod(0o755)
    return made


@pytest.mark.parametrize(("name", "verdicts"), [("right", {"PASS", "UNCLEAR"}), ("wrong", {"FAIL"})])
def test_a_repository_judges_itself(runner: Runner, synced: Shell, name: str, verdicts: set[str]) -> None:
    [python] = synced.venvs.glob("nix-*/bin/python")
    job = runner.run(f"{name}.yml", "push", [runner.folder, Path(sys.base_prefix, "bin")], PDM_PYTHON=str(python))
    printed = (job.artifacts / "loadproof" / "loadproof.out").read_text()
    [verdict] = re.findall(r"^ *verdict .* ([A-Z]+)$", printed, re.MULTILINE)
    assert verdict in verdicts
    assert (job.ended.returncode == 0) == (verdict == "PASS"), job.says()
    assert "count.requests" in job.printed("Show the result")
    assert (job.artifacts / "loadproof" / "loadproof-runs.tar.gz").stat().st_size > 0


def judge(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.prefix, 'bin')}{os.pathsep}{own_environ()['PATH']}"
    return subprocess.run(
        [sys.executable, SCRIPT, *words],
        cwd=cwd, env=own_environ(**{"PATH": path, **more}), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_a_folder_without_cases_is_told(tmp_path: Path) -> None:
    ended = judge("--out", "out", tmp_path, "anything", cwd=tmp_path)
    assert (ended.returncode, "has no case" in ended.stderr) == (64, True)
    case(tmp_path / "one", 1)
    assert judge("--out", "out", tmp_path, " ", cwd=tmp_path).returncode == 64


def test_a_command_args_of_the_case_comes_first_and_the_repository_is_not_written_to(tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    (case(cases / "one", 1) / "command.args").write_text("/no/such/program\n")
    before = sorted(tmp_path.rglob("*"))
    ended = judge("--out", tmp_path / "out", cases, "sh -c true", cwd=tmp_path)
    assert (ended.returncode, "/no/such/program" in ended.stdout + ended.stderr) == (64, True)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_tools_own_build_is_the_one_that_is_judged(tmp_path: Path) -> None:
    build = tmp_path / "bin" / "inference-perf"
    build.parent.mkdir()
    build.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 7\n")
    build.chmod(0o755)
    cases = ROOT / "e2e/tests/parity/cases/a_fixed_rate"
    path = f"{build.parent}{os.pathsep}{Path(sys.prefix, 'bin')}{os.pathsep}{own_environ()['PATH']}"
    ended = judge("--tool", "inference-perf", "--out", "out", cases, "inference-perf", cwd=tmp_path, PATH=path)
    assert (tmp_path / "started").exists(), ended.stderr
    assert ended.returncode == 3
