"""Are the workflows, the Dockerfile and the shell scripts right as far as they can be read?

The field's own checkers (checkers.py), each with a mutant that it must find. Rules of ours are in
test_workflow_rules.py, and the jobs are run in test_workflow_job.py and test_judge_workflow.py.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.environment.checkers import checker
from tests.environment.workflows import WORKFLOWS, steps
from tests.environment.workshop import ROOT, own_environ, run

YAMLLINT = """{extends: default, rules: {line-length: disable, document-start: disable, truthy: {check-keys: false},
    comments: {min-spaces-from-content: 1}}}"""


def check(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return run([checker(name), *words], env=own_environ(), cwd=ROOT)


def schema(file: Path) -> subprocess.CompletedProcess[str]:
    return check("check-jsonschema", "--builtin-schema", "vendor.github-workflows", file)


def zizmor(file: Path) -> subprocess.CompletedProcess[str]:
    return check("zizmor", "--offline", "--no-config", "--persona", "pedantic", file)


def yamllint(file: Path) -> subprocess.CompletedProcess[str]:
    return check("yamllint", "--strict", "--config-data", YAMLLINT, file)


CHECKERS = [schema, zizmor, yamllint]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
@pytest.mark.parametrize("judge", CHECKERS)
def test_the_checkers_find_nothing(judge: Callable[[Path], subprocess.CompletedProcess[str]], file: Path) -> None:
    found = judge(file)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize(
    ("judge", "old", "new"),
    [
        (schema, "timeout-minutes: 60", "timeout-minuets: 60"),
        (zizmor, '"$COMMAND" |&', '"${{ inputs.command }}" |&'),
        (zizmor, "          persist-credentials: false\n", ""),
        (yamllint, "        run: bash", "        run:  bash"),
    ],
)
def test_the_checkers_find_a_mutant(
    judge: Callable[[Path], subprocess.CompletedProcess[str]], old: str, new: str, tmp_path: Path
) -> None:
    text = (ROOT / ".github/workflows/judge.yml").read_text()
    assert old in text
    file = tmp_path / ".github" / "workflows" / "judge.yml"
    file.parent.mkdir(parents=True)
    file.write_text(text.replace(old, new))
    assert judge(file).returncode != 0


def shellcheck(name: str, text: str, folder: Path) -> str:
    file = folder / f"{name}.sh"
    # A step of `shell: bash` is run with these options.
    file.write_text(text if text.startswith("#!") else f"#!/usr/bin/env bash\nset -eo pipefail\n{text}")
    return check("shellcheck", file).stdout


def scripts() -> dict[str, str]:
    """Return every shell text of ours: the workflows' steps and the scripts."""
    of_steps = {
        f"{file.stem}-{number}": step["run"]
        for file in WORKFLOWS
        for number, step in enumerate(steps(file.read_text()))
        if "run" in step
    }
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.sh"]
    listed = run(git, env=own_environ(), cwd=ROOT).stdout.splitlines()
    files = [ROOT / ".ci" / "run", *(ROOT / name for name in listed)]
    return of_steps | {file.name: file.read_text() for file in files}


@pytest.mark.parametrize("name", scripts())
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    assert shellcheck(name, scripts()[name], tmp_path) == ""


def test_shellcheck_finds_a_mutant(tmp_path: Path) -> None:
    assert "SC2086" in shellcheck("wrong", "cat $unquoted\n", tmp_path)


def test_hadolint_finds_nothing_and_would_find_a_mutant(tmp_path: Path) -> None:
    dockerfile = ROOT / "Dockerfile.e2e-test"
    found = check("hadolint", "--no-color", dockerfile)
    assert found.returncode == 0, found.stdout + found.stderr
    mutant = tmp_path / "Dockerfile"
    mutant.write_text(dockerfile.read_text().replace("WORKDIR /workspace", "WORKDIR workspace"))
    assert "DL3000" in check("hadolint", "--no-color", mutant).stdout
