"""Does the job of e2e.yml, run whole on this machine, do what it says, and keep the output when a test fails?

By act (github_runner.py); the `nix` of the job is the real one on the stand-in for nixpkgs, with a simulator that is a
stand-in, too. Where only the workflow's own steps are asked, e2e.yml's or parity.yml's, a few lines stand for `nix`.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from loadproof.requirements import SIMULATOR
from tests.environment.conftest import Shell
from tests.environment.github_runner import Runner
from tests.environment.nix_standin import standin
from tests.environment.workshop import ROOT, needs

FAKE_SIMULATOR = """#!{python} -IS
import sys
sys.path.insert(0, "{folder}")
from fake_simulator import main
main({{}})
"""
NIX = """#!/bin/sh
# The job's `nix develop -c ...`, with this machine's stand-in for nixpkgs.
{exports}
[ "$1" = develop ] || exec {nix} "$@"
shift
exec {nix} develop --offline --no-write-lock-file --override-input nixpkgs path:{standin} "$@"
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    needs("git")
    return Runner(tmp_path_factory.mktemp("runner"))


@pytest.fixture(scope="module")
def ours(runner: Runner, synced: Shell) -> Runner:
    """Return the runner with this project as the repository."""
    ignored = shutil.ignore_patterns(".hypothesis", "__pycache__", ".pdm-build")
    shutil.copytree(synced.root, runner.sources / "here", ignore=ignored, dirs_exist_ok=True)
    return runner


def nix(folder: Path, synced: Shell, own_standin: Path) -> Path:
    """Return a folder with a `nix` that works in the store of the shell, with this stand-in for nixpkgs."""
    names = [name for name in synced.environ if name.startswith("NIX_")] + ["PDM_CACHE_DIR", "TMPDIR"]
    exports = "\n".join(f"export {name}={shlex.quote(synced.environ[name])}" for name in names)
    [environment] = synced.venvs.glob("nix-*")
    exports += f"\nexport LOADPROOF_VENV={environment}"
    (folder / "nix").write_text(NIX.format(exports=exports, nix=shutil.which("nix"), standin=own_standin))
    (folder / "nix").chmod(0o755)
    return folder


def fake_simulator(folder: Path) -> Path:
    """Return a simulator as far as its runner can see."""
    made = folder / SIMULATOR
    made.write_text(
        FAKE_SIMULATOR.format(python=f"{sys.base_prefix}/bin/python3.13", folder=ROOT / "e2e/tests/simulators")
    )
    made.chmod(0o755)
    return made


SIMULATED = "e2e/tests/simulators/test_real_simulator.py"
CHOSEN = (
    f"{SIMULATED} e2e/tests/parity/test_starter_cases.py -k 'test_killed or (test_fixed_rate_is_offered and metronome)'"
)


def test_the_job_runs_the_suite_and_uploads_its_output(ours: Runner, synced: Shell, tmp_path: Path) -> None:
    place = standin(tmp_path / "nixpkgs", llm_d_inference_sim=fake_simulator(tmp_path))
    job = ours.run("e2e.yml", "push", [nix(tmp_path, synced, place)], PYTEST_ADDOPTS=CHOSEN)
    assert job.ended.returncode == 0, job.says()
    uploaded = job.artifacts / "e2e-ubuntu-24.04" / "results"
    assert "2 passed" in (uploaded / "test_e2e.out").read_text()
    suites = ET.parse(uploaded / "junit.xml").getroot()  # noqa: S314 -- written by pytest a moment ago
    assert [suite.get("tests") for suite in suites] == ["2"]
    with tarfile.open(uploaded / "runs.tar.gz") as runs:
        assert any(name.endswith("a_fixed_rate-metronome/run.json") for name in runs.getnames())
    assert "| a_fixed_rate | metronome |" in job.printed("Show the summary")


def test_a_simulator_that_is_missing_fails_the_job_and_the_output_is_kept(
    ours: Runner, synced: Shell, tmp_path: Path
) -> None:
    shell = ours.sources / "here" / "nix" / "shell.nix"
    text = shell.read_text()
    shell.write_text(text.replace(f"    {SIMULATOR}\n", ""))
    path = [nix(tmp_path, synced, standin(tmp_path / "nixpkgs"))]
    job = ours.run("e2e.yml", "push", path, PYTEST_ADDOPTS=f"{SIMULATED} -k test_killed")
    shell.write_text(text)
    assert job.ended.returncode != 0
    uploaded = job.artifacts / "e2e-ubuntu-24.04" / "results"
    text = (uploaded / "test_e2e.out").read_text()
    assert "llm-d-inference-sim is required and not installed" in text
    assert re.search(r"^=+ .*1 (error|failed)", text, re.MULTILINE)
    assert (uploaded / "junit.xml").exists()
    assert (uploaded / "runs.tar.gz").exists()


SUITE = """#!/bin/sh
# What a run of the suite would leave, where something was selected.
[ "$1" = develop ] || exit 0
echo "the suite: $*"
[ {code} = 5 ] && exit 5
for word; do
  case $word in --basetemp=*) mkdir -p "${{word#*=}}/a-run" && touch "${{word#*=}}/a-run/run.json" ;; esac
done
mkdir "$LOADPROOF_SUMMARY"
echo "| a table |" > "$LOADPROOF_SUMMARY/summary.md"
exit {code}
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """Return the runner with a repository of our workflows alone; what `nix` does is written for each test."""
    made = Runner(tmp_path_factory.mktemp("told"))
    shutil.copytree(ROOT / ".github", made.sources / "here" / ".github")
    subprocess.run(["git", "init", "--quiet"], cwd=made.sources / "here", check=True)
    return made


@pytest.mark.parametrize(
    ("workflow", "code", "passes"),
    [
        ("parity.yml", 0, True),
        ("parity.yml", 5, True),
        ("parity.yml", 1, False),
        ("e2e.yml", 0, True),
        ("e2e.yml", 5, False),
        ("e2e.yml", 1, False),
    ],
)
def test_what_the_suite_left_is_kept_however_it_ended_and_only_parity_may_select_nothing(
    told: Runner, tmp_path: Path, workflow: str, code: int, passes: bool
) -> None:
    (tmp_path / "nix").write_text(SUITE.format(code=code))
    (tmp_path / "nix").chmod(0o755)
    job = told.run(workflow, "schedule" if workflow == "parity.yml" else "pull_request", [tmp_path])
    assert (job.ended.returncode == 0) == passes, job.says()
    assert ("no test carries the marker peers" in job.ended.stdout) == (code == 5 and passes)
    [uploaded] = job.artifacts.glob("*/results")
    assert ("-m peers" in (uploaded / "test_e2e.out").read_text()) == (workflow == "parity.yml")
    assert ("| a table |" in job.printed("Show the summary")) == (code != 5)
    with tarfile.open(uploaded / "runs.tar.gz") as runs:
        assert {Path(name).name for name in runs.getnames()} == (set() if code == 5 else {"a-run", "run.json"})
