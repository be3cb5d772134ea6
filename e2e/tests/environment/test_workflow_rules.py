"""Do the workflows keep the rules that the field's checkers do not know?

Each rule returns what is wrong, and has a mutant that it must find. What the checkers know is in test_workflows.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from loadproof.requirements import CAPTURE, CLEAR, KNOWN, SIMULATOR
from loadproof.tools.lockfile import PACKAGES
from tests.environment.workflows import ACTIONS, WORKFLOWS, jobs, read, steps
from tests.environment.workshop import ROOT

FLAKE = ["flake.*", "nix/**"]
FLAKES_OWN = {*PACKAGES, SIMULATOR}


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
