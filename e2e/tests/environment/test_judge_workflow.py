"""Can another repository judge its load generator by judge.yml, and does the job fail when the load is wrong?

A small repository whose load generator is a script of its own, run by act (github_runner.py); loadproof gets a
real environment, from pdm.lock. Also the script behind the workflow alone, for what is asked wrongly and for a tool's
own build. Not seen: where GitHub says that a workflow comes from, which act does not know.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.environment.github_runner import Runner
from tests.environment.nix_standin import program
from tests.environment.workshop import ROOT, copy_of_the_project, needs, own_environ

SCRIPT = ROOT / ".github" / "judge.py"
CALLER = """on: push
jobs:
  judge:
    uses: ./.github/workflows/judge.yml
    with:
      cases: {cases}
      setup: touch was-set-up
      command: sh {{repository}}/send.sh {{case}} {{base_url}} {{model}} {{out}}
      artifact: {cases}-artifact
      loadproof-repository: loadproof
      loadproof-ref: main
"""
SEND = """#!/bin/sh
# A load generator that reads what to send from its configuration in the case. It must find the runner's own programs.
here=$(dirname "$0")
[ -e "$here/was-set-up" ] || exit 8
case "$PATH" in *loadproof/.venv*) exit 9 ;; esac
exec "$here/.loadproof/.venv/bin/loadproof" metronome --base-url "$2" --model "$3" --out "$4" \\
  --arrival constant --rate 50 --num-requests "$(cat "$1/number.json")" --prompt-tokens 32 --max-tokens 4
"""
EXPECTED = """why: the judged load of the workflow's test
absorber: {ttft_s: 0.02, itl_s: 0.005}
workload: {num_requests: 110, prompt_tokens: 32, max_tokens: 4, stream: true, ignore_eos: true, api: completions}
load: {mode: rate, rate: 50}
tools: {command: {arrival: constant, prompt_extra: {bos: 1}}}
"""
PIPX = """#!/bin/sh
# `pipx run --spec SPEC PROGRAM ...` with the program that is here. All jobs get one environment, which saves time.
[ "$1 $2" = "run --spec" ] || exit 99
shift 3
UV_PYTHON_DOWNLOADS=never "$@" || exit
[ "$1" = uv ] || exit 0
[ -e {environment} ] && rm -r .venv || mv .venv {environment}
ln -s {environment} .venv
"""


def case(folder: Path, number: int) -> Path:
    """Return a case, made, that expects 110 requests, and in which the tool is told to send `number`."""
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
    for name, number in (("right", 110), ("wrong", 99)):
        case(here / name / "a_case", number)
        (workflows / f"{name}.yml").write_text(CALLER.format(cases=name))
    (here / "send.sh").write_text(SEND)
    subprocess.run(["git", "init", "--quiet"], cwd=here, check=True)
    return here


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    needs("git", "pdm")
    made = Runner(tmp_path_factory.mktemp("judged"))
    caller(made.sources)
    copy_of_the_project(made.sources / "loadproof")
    (made.folder / "pipx").write_text(PIPX.format(environment=made.folder / "environment"))
    (made.folder / "pipx").chmod(0o755)
    uv = program("uv")
    assert uv is not None
    (made.folder / "uv").symlink_to(uv)
    return made


@pytest.mark.parametrize(("name", "verdicts"), [("right", {"PASS", "UNCLEAR"}), ("wrong", {"FAIL"})])
def test_a_repository_judges_itself(runner: Runner, name: str, verdicts: set[str]) -> None:
    caches = Path(own_environ().get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = [runner.folder, Path(sys.base_prefix, "bin")]
    job = runner.run(f"{name}.yml", "push", path, PDM_CACHE_DIR=str(caches / "pdm"))
    artifact = job.artifacts / f"{name}-artifact"
    assert artifact.is_dir(), job.says()
    printed = (artifact / "loadproof.out").read_text()
    [verdict] = re.findall(r"^ *verdict .* ([A-Z]+) *$", printed, re.MULTILINE) or [printed]
    assert verdict in verdicts
    codes = {"PASS": [], "FAIL": ["1"], "UNCLEAR": ["2"]}
    assert re.findall(r"exit status (\d+)$", job.ended.stdout, re.MULTILINE) == codes[verdict], job.says()
    assert (job.ended.returncode == 0) == (verdict == "PASS"), job.says()
    assert "count.requests" in job.printed("Show the result")
    with tarfile.open(artifact / "loadproof-runs.tar.gz") as runs:
        assert any(one.endswith("a_case-command/journal/journal.parquet") for one in runs.getnames())


def test_what_a_job_installs_with_is_pinned_to_our_own_versions() -> None:
    text = (ROOT / ".github/workflows/judge.yml").read_text()
    locked = tomllib.loads((ROOT / "pdm.lock").read_text())["package"]
    [uv] = [one["version"] for one in locked if one["name"] == "uv"]
    [pdm] = re.findall(r'pip install .*"(pdm\[locked\]==[0-9.]+)"', (ROOT / ".ci" / "run").read_text())
    assert re.findall('pipx run --spec "(.+?)"', text) == [f"uv=={uv}", pdm]


def judge(*words: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.prefix, 'bin')}{os.pathsep}{own_environ()['PATH']}"
    return subprocess.run(
        [sys.executable, "-I", SCRIPT, *words],
        cwd=cwd, env=own_environ(**{"PATH": path, **more}), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


ASKED_WRONGLY = [
    ([], "anything", "has no case"),
    ([], " ", "is empty"),
    ([], "say 'hello", "mend its quotes"),
    ([], "program '#1'", "'#1' cannot be a line"),
    ([], "program ''", "'' cannot be a line"),
    ([], "program 'two\nlines'", "cannot be a line"),
    (["--tool", "inference-pref"], "anything", "invalid choice: 'inference-pref'"),
    (["--tool", "inference-perf"], "inference-perf --verbose", "'--verbose' belongs into"),
    ([], "no-such-program-anywhere", "no such executable"),
]


@pytest.mark.parametrize(("more", "command", "told"), ASKED_WRONGLY)
def test_what_is_asked_wrongly_is_usage(tmp_path: Path, more: list[str], command: str, told: str) -> None:
    cases = tmp_path / "cases"
    case(cases / (".hidden" if told == "has no case" else "one"), 1)
    ended = judge(*more, "--out", "out", cases, command, cwd=tmp_path)
    assert (ended.returncode, told in ended.stderr + ended.stdout) == (64, True), ended
    assert "Traceback" not in ended.stderr


def test_what_nobody_foresaw_does_not_say_that_the_load_was_wrong(tmp_path: Path) -> None:
    (case(tmp_path / "cases" / "one", 1) / "gone.json").symlink_to("nowhere")
    ended = judge("--out", "out", tmp_path / "cases", "anything", cwd=tmp_path)
    assert (ended.returncode, "gone.json" in ended.stderr) == (3, True), ended


def test_a_module_of_the_calling_repository_is_not_taken_for_ours(tmp_path: Path) -> None:
    case(tmp_path / "cases" / "one", 1)
    for name in ("loadproof", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)\n")
    ended = judge("--out", "out", tmp_path / "cases", "no-such-program-anywhere", cwd=tmp_path)
    assert (ended.returncode, "no such executable" in ended.stderr + ended.stdout) == (64, True), ended


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
