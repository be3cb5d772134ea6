"""Where do the tests of the environment work? In copies of the project, with a Nix store of their own.

Nothing outside the given folder is touched: store, database and caches lie in it, and no daemon is asked.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parents[3]
# What a session of ours, or a shell of the flake's, says of its own environment, and a nested one must not hear.
OWN_WORDS = {
    "LOADPROOF_FIT_ENVIRONMENT", "LOADPROOF_INFERENCE_PERF", "LOADPROOF_REQUIRE", "LOADPROOF_SUMMARY", "LOADPROOF_VENV",
    "PDM_PROJECT_ROOT", "PDM_PYTHON", "PDM_RUN_CWD", "PYTEST_ADDOPTS", "PYTEST_CURRENT_TEST", "PYTHONPATH",
    "VIRTUAL_ENV",
}  # fmt: skip


def not_here(reason: str) -> NoReturn:
    """Skip the test; or fail it where CI is set, because there all that it needs has been installed."""
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def needs(*programs: str) -> None:
    """Skip the test (see not_here) when one of the programs is not on PATH."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        not_here(f"{', '.join(missing)}: not on PATH; Debian packages: see .ci/run")


def copy_of_the_project(folder: Path) -> Path:
    """Return `folder`, made: the working tree's tracked and new files, all added in a git repository of its own."""
    git = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in filter(None, subprocess.check_output(git, text=True).split("\0")):
        if (ROOT / name).is_file():  # not a file that was removed and whose removal is not committed yet
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    for words in (["init", "--quiet"], ["add", "--all"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


def own_environ(**more: str) -> dict[str, str]:
    """Return this process's environment without what speaks of the session that runs the tests."""
    kept = {name: value for name, value in os.environ.items() if name not in OWN_WORDS}
    ours = os.environ.get("VIRTUAL_ENV", "")
    path = [part for part in os.get_exec_path() if not ours or Path(part) != Path(ours, "bin")]
    return kept | {"PATH": os.pathsep.join(path)} | more


def nix_environ(folder: Path) -> dict[str, str]:
    """Return the environment for a Nix whose store and caches lie in `folder`, and that asks nobody for anything."""
    settings = "experimental-features = nix-command flakes\nsandbox = false\nbuild-users-group =\nsubstituters ="
    places = {
        "NIX_STORE_DIR": "store", "NIX_STATE_DIR": "state", "NIX_LOG_DIR": "log", "NIX_CONF_DIR": "conf",
        "NIX_DATA_DIR": "data", "XDG_CACHE_HOME": "cache", "TMPDIR": "tmp",
    }  # fmt: skip
    (folder / "tmp").mkdir(parents=True, exist_ok=True)
    return own_environ(NIX_CONFIG=settings, **{name: str(folder / place) for name, place in places.items()})


def run(
    argv: Sequence[str | Path], *, env: Mapping[str, str], cwd: Path, deadline_s: float = 120.0
) -> subprocess.CompletedProcess[str]:
    """Return how the program ended, with its output; it has no terminal and no standard input."""
    return subprocess.run(
        [str(word) for word in argv],
        env=dict(env),
        cwd=cwd,
        timeout=deadline_s,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
