"""One shell of the flake for the whole session, because its environment is made of all that pdm.lock names."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.environment.nix_standin import standin
from tests.environment.workshop import copy_of_the_project, needs, nix_environ, own_environ, run


class Shell:
    """A copy of the project, and the ways into its shell."""

    def __init__(self, folder: Path) -> None:
        self.root = copy_of_the_project(folder / "project")
        self.standin = standin(folder / "nixpkgs")
        caches = Path(own_environ().get("XDG_CACHE_HOME") or Path.home() / ".cache")
        # What pdm has downloaded once, for us or for a person, is not downloaded again.
        self.environ = nix_environ(folder / "nix") | {"PDM_CACHE_DIR": str(caches / "pdm")}
        self.store, self.venvs = folder / "nix/store", folder / "nix/cache/loadproof"

    def develop(self, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a program in the shell."""
        given = ["--offline", "--no-write-lock-file", "--override-input", "nixpkgs", f"path:{self.standin}"]
        words = ["nix", "develop", *given, "-c", *argv]
        return run(words, env=self.environ | more, cwd=self.root, deadline_s=400)

    def says(self, *argv: str, **more: str) -> str:
        """Return what the program printed in the shell."""
        ended = self.develop(*argv, **more)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout.rstrip("\n")


@pytest.fixture(scope="session")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """Return the shell of a copy of the project; what it was is removed, a store being read-only."""
    needs("nix", "git", "pdm")
    folder = tmp_path_factory.mktemp("shell")
    yield Shell(folder)
    run(["chmod", "-R", "u+w", folder], env=own_environ(), cwd=folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def synced(shell: Shell) -> Shell:
    """Return the shell with its environment made; it needs a network, or pdm's cache."""
    ended = shell.develop("pdm", "run", "sync-if-needed")
    assert ended.returncode == 0, ended.stderr
    return shell
