"""Are the workflows, the Dockerfile and the shell scripts right as far as they can be read?

The field's own checkers (checkers.py), and a few rules of ours that they do not know. Each rule has a mutant that it
must find. The job itself is run in test_workflow_job.py.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from loadproof.requirements import CAPTURE, CLEAR, KNOWN, SIMULATOR
from loadproof.tools.lockfile import PACKAGES
from tests.environment.checkers import checker
from tests.environment.workshop import ROOT, own_environ, run

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# The hashes are those of the versions in the comments.
ACTIONS = {
    "actions/cache": "0057852bfaa89a56745cba8c7296529d2fc39830 # v4.3.0",
    "actions/checkout": "34e114876b0b11c390a56381ad16ebd13914f8d5 # v4",
    "actions/upload-artifact": "ea165f8d65b6e75b540449e92b4886f43607fa02 # v4",
    "cachix/install-nix-action": "4eae8bea4afaa8f8ea8aa638ab9a7fead2f3d21e # v31",
    "nix-community/cache-nix-action": "76f6697d63b7378f7161d52f3d81784130ecd90d # v6",
}
FLAKE = ["flake.*", "nix/**"]
FLAKES_OWN = {*PACKAGES, SIMULATOR}
YAMLLINT = """{extends: default, rules: {line-length: disable, document-start: disable, truthy: {check-keys: false},
    comments: {min-spaces-from-content: 1}}}"""


def read(text: str) -> dict[str, Any]:
    loaded: dict[str, Any] = YAML(typ="safe").load(text)
    return loaded


def jobs(text: str) -> Iterator[dict[str, Any]]:
    yield from read(text)["jobs"].values()


def steps(text: str) -> Iterator[dict[str, Any]]:
    for job in jobs(text):
        yield from job["steps"]


def check(name: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return run([checker(name), *words], env=own_environ(), cwd=ROOT)


# --- the field's checkers


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


# --- rules of ours: each returns what is wrong


def unpinned(text: str) -> list[str]:
    used = re.findall(r"uses: ([^@\s]+)@(.+)", text)
    return [f"{action}@{pin}" for action, pin in used if ACTIONS.get(action) != pin] or (
        [] if used else ["none is used"]
    )


def too_much_permitted(text: str) -> list[str]:
    asked = [read(text)["permissions"], *(job.get("permissions", {}) for job in jobs(text))]
    return [
        str(one) for one in asked if not isinstance(one, dict) or one.keys() - {"contents"} or "write" in one.values()
    ]


def credentials_kept(text: str) -> list[str]:
    checkouts = [step for step in steps(text) if step.get("uses", "").startswith("actions/checkout@")]
    return [str(step) for step in checkouts if step["with"].get("persist-credentials") is not False]


def kept(text: str) -> list[int]:
    """Return which steps run something and keep what it prints."""
    return [number for number, step in enumerate(steps(text)) if "|& tee" in step.get("run", "")]


def pipes_that_hide(text: str) -> list[str]:
    """Return steps whose exit code would be `tee`'s, which is 0 whatever the suite's was."""
    texts = [list(steps(text))[number]["run"] for number in kept(text)]
    if not texts:
        return ["no output is kept"]
    return [one for one in texts if "set -o pipefail" not in one.partition("|&")[0] or "|| true" in one]


def not_always(text: str) -> list[str]:
    """Return what is left out when a test failed, of all that one needs to see why."""
    [run_step] = kept(text)
    after = list(steps(text))[run_step + 1 :]
    skipped = [step["name"] for step in after if step.get("if") != "always()"]
    return skipped if any("upload-artifact" in step.get("uses", "") for step in after) else ["nothing is uploaded"]


def without_limits(text: str) -> list[str]:
    return [str(job.get("runs-on")) for job in jobs(text) if "timeout-minutes" not in job]


def not_required(text: str) -> list[str]:
    """Names of the flake that may be missing without anybody noticing, and names that are none."""
    [job] = jobs(text)
    named = set(job["env"]["LOADPROOF_REQUIRE"].split(","))
    return sorted(FLAKES_OWN - named) + sorted(named - set(KNOWN)) + sorted(named & {CAPTURE, CLEAR})


def stale(text: str) -> list[str]:
    """Return what a cache is made of and its key leaves out, so that a change of it would go unnoticed."""
    given = {step["uses"].partition("@")[0]: step["with"] for step in steps(text) if "uses" in step and "with" in step}
    keys = {
        given["nix-community/cache-nix-action"]["primary-key"]: FLAKE,
        given["actions/cache"]["key"]: [*FLAKE, "pyproject.toml", "pdm.lock", "e2e/loadproof/tools/locks/*"],
    }
    return [
        f"{key}: not {word}"
        for key, names in keys.items()
        for word in ["${{ runner.os }}-${{ runner.arch }}-${{ hashFiles(", *(f"'{name}'" for name in names)]
        if word not in key or not (word.startswith("$") or list(ROOT.glob(word.strip("'"))))
    ]


RULES = [unpinned, too_much_permitted, credentials_kept, pipes_that_hide, not_always, without_limits]
MUTANTS = [
    (unpinned, "@34e114876b0b11c390a56381ad16ebd13914f8d5 # v4", "@v4"),
    (unpinned, "@34e11487", "@34e11488"),
    (too_much_permitted, "contents: read", "contents: write"),
    (too_much_permitted, "permissions:\n  contents: read", "permissions: write-all"),
    (credentials_kept, "persist-credentials: false", "fetch-depth: 1"),
    (pipes_that_hide, "          set -o pipefail\n", ""),
    (pipes_that_hide, "results/test_e2e.out\n", "results/test_e2e.out || true\n"),
    (not_always, "Upload the output\n        if: always()", "Upload the output"),
    (not_always, "Gather the run folders\n        if: always()", "Gather the run folders"),
    (without_limits, "    timeout-minutes: 90\n", ""),
    (stale, "'pdm.lock', ", ""),
    (stale, "'flake.*', 'nix/**') }}", "'flake.lock') }}"),
    (stale, "environments-${{ runner.os }}-${{ runner.arch }}-", "environments-${{ runner.os }}-"),
    (not_required, ",llm-d-inference-sim", ""),
    (not_required, "inference-perf,", "inference-pref,"),
]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
@pytest.mark.parametrize("rule", RULES)
def test_our_rules_hold(rule: Callable[[str], list[str]], file: Path) -> None:
    assert rule(file.read_text()) == []


def test_each_workflow_is_looked_at() -> None:
    assert [file.name for file in WORKFLOWS] == ["e2e.yml", "judge.yml", "parity.yml"]


@pytest.mark.parametrize(("rule", "old", "new"), MUTANTS)
def test_our_rules_find_a_mutant(rule: Callable[[str], list[str]], old: str, new: str) -> None:
    text = (ROOT / ".github/workflows/e2e.yml").read_text()
    assert rule(text) == []
    assert old in text
    assert rule(text.replace(old, new)) != []


def test_the_job_runs_on_both_architectures_for_pushes_and_pull_requests() -> None:
    text = (ROOT / ".github/workflows/e2e.yml").read_text()
    [job] = jobs(text)
    assert job["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
    assert re.search(r"^on:\n  push:\n    branches: \[main\]\n  pull_request:\n", text, re.MULTILINE)


def test_nothing_waits_for_parity() -> None:
    assert [file.name for file in WORKFLOWS if "parity" in file.read_text()] == ["parity.yml"]
    triggers = (ROOT / ".github/workflows/parity.yml").read_text().partition("permissions")[0]
    assert "schedule" in triggers
    assert "workflow_dispatch" in triggers
    assert "pull_request" not in triggers
    assert "push" not in triggers
