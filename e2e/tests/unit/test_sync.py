"""Does `sync.py` call pdm exactly when it must, on the environment that it runs in, and never believe in a half sync?

The script runs as its users run it, by an interpreter of an empty environment; a small script stands in for pdm.
"""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "sync.py"
DEADLINE_S = 60.0

FAKE_PDM = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
echo "$PDM_PYTHON" > "$here/python"
readlink /proc/$$/fd/* > "$here/descriptors"
touch "$here/started"
DOES
"""

PARENT = """
import subprocess, sys, pathlib
here = pathlib.Path(__file__).parent
if sys.argv[1] == "run":
    sys.exit(subprocess.run(sys.argv[2:]).returncode)
with (here / "calls").open("a") as calls:
    print(*sys.argv[1:], file=calls)
"""


class Project:
    """A clone with its environment, and a pdm on a PATH that has nothing else of that name."""

    def __init__(self, folder: Path) -> None:
        self.root, self.bin, self.environment = folder / "clone", folder / "bin", folder / "environment"
        (self.root / "e2e").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "e2e")
        self.lock, self.toml = self.root / "pdm.lock", self.root / "pyproject.toml"
        self.lock.write_text("lock")
        self.toml.write_text("project")
        venv.create(self.environment, with_pip=False, symlinks=True)
        self.python = str(self.environment / "bin" / "python")
        self.stamp = self.environment / "loadproof-synced.json"
        self.fitting: dict[str, str] = {}
        self.bin.mkdir()
        for name in ("dirname", "readlink", "touch", "sleep"):
            (self.bin / name).symlink_to(shutil.which(name) or name)
        self.pdm_does("exit 0")

    def pdm_does(self, body: str) -> None:
        (self.bin / "pdm").write_text(FAKE_PDM.replace("DOES", body))
        (self.bin / "pdm").chmod(0o755)

    @property
    def argv(self) -> list[str]:
        return [self.python, str(self.root / "e2e" / "sync.py")]

    def run(self, *before: str) -> subprocess.CompletedProcess[str]:
        """Run the script, as a child of `before` if given."""
        argv = [*before, *self.argv]
        return subprocess.run(argv, env=self.environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False)

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": str(self.bin), **self.fitting}

    def fitted_by(self, name: str, *, code: int = 0) -> None:
        """Name a program that notes what it is given, as the shell of the flake does."""
        program = self.bin / name
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.bin}/fitted\nexit {code}\n')
        program.chmod(0o755)
        self.fitting = {"LOADPROOF_FIT_ENVIRONMENT": str(program)}

    def fits(self) -> list[str]:
        """Return the calls of such programs."""
        path = self.bin / "fitted"
        return path.read_text().replace(f"{self.bin}/", "").splitlines() if path.exists() else []

    def calls(self) -> list[str]:
        """Return what pdm was called with since the last time that this was asked."""
        path = self.bin / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line.replace(f" --project {self.root}", "") for line in lines]

    def synced(self) -> None:
        result = self.run()
        assert (result.returncode, self.stamp.exists()) == (0, True), result.stderr
        self.calls()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sync_script", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


FULL = ["lock --check", "sync"]


def test_the_first_time_installs_everything_into_this_environment(project: Project) -> None:
    result = project.run()
    assert (result.returncode, result.stdout) == (0, "")
    assert project.calls() == FULL
    assert (project.bin / "python").read_text().strip() == project.python
    # A pdm that outlives us keeps the next sync out.
    assert str(project.stamp.with_suffix(".lock")) in (project.bin / "descriptors").read_text().splitlines()


def test_nothing_changed_means_no_pdm_and_no_word(project: Project) -> None:
    project.synced()
    (project.bin / "pdm").unlink()
    result = project.run()
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_changed_lock_does_not_build_the_project(project: Project) -> None:
    project.synced()
    project.lock.write_text("another lock")
    assert project.run().returncode == 0
    assert project.calls() == ["sync --no-self"]
    assert project.run().returncode == 0
    assert project.calls() == []


@pytest.mark.parametrize("change", ["pyproject", "both", "moved", "stamp cut", "stamp gone"])
def test_anything_else_is_the_whole_sync(project: Project, change: str) -> None:
    project.synced()
    if change in {"pyproject", "both"}:
        project.toml.write_text("another project")
    if change == "both":
        project.lock.write_text("another lock")
    if change == "moved":
        project.root = project.root.rename(project.root.with_name("moved"))
    if change == "stamp cut":
        project.stamp.write_bytes(project.stamp.read_bytes()[:-1])
    if change == "stamp gone":
        project.stamp.unlink()
    assert project.run().returncode == 0
    assert project.calls() == FULL
    assert project.run().returncode == 0
    assert project.calls() == []


def test_a_lock_that_does_not_fit_is_not_installed(project: Project) -> None:
    project.synced()
    project.toml.write_text("another project")
    project.pdm_does('echo "of pdm" >&2; exit 1')
    result = project.run()
    assert result.returncode == 1
    assert project.calls() == ["lock --check"]
    assert result.stderr.splitlines()[-2:] == [
        "of pdm",
        "pdm.lock does not fit pyproject.toml: `pdm lock` makes it anew, or take both from the same commit.",
    ]


@pytest.mark.parametrize(("body", "code"), [("exit 7", 7), ("kill -9 $$", 137)])
def test_pdm_that_fails_ends_it_and_is_tried_again(project: Project, body: str, code: int) -> None:
    project.pdm_does(f'[ "$1" = lock ] || {{ {body}; }}')
    result = project.run()
    assert result.returncode == code
    assert "could not be made" in result.stderr
    assert project.calls() == FULL
    assert not project.stamp.exists()
    project.pdm_does("exit 0")
    assert project.run().returncode == 0
    assert project.calls() == FULL


def test_an_earlier_stamp_does_not_cover_a_sync_that_failed(project: Project) -> None:
    project.synced()
    project.lock.write_text("another lock")
    project.pdm_does("exit 1")
    assert project.run().returncode == 1
    project.pdm_does("exit 0")
    assert project.run().returncode == 0
    assert project.calls() == ["sync --no-self"] * 2


def test_two_at_once_sync_once(project: Project, tmp_path: Path) -> None:
    project.pdm_does(f'while [ ! -e "{tmp_path}/go" ]; do sleep 0.01; done')
    first = subprocess.Popen(project.argv, env=project.environ, stderr=subprocess.PIPE, text=True)
    second = None
    try:
        assert first.stderr is not None
        assert first.stderr.readline().startswith("Environment: pdm lock")
        second = subprocess.Popen(project.argv, env=project.environ, stderr=subprocess.PIPE, text=True)
        assert second.stderr is not None
        assert second.stderr.readline() == "Another sync of this environment is running; waiting for it.\n"
    finally:
        (tmp_path / "go").touch()
        processes = [first] if second is None else [first, second]
        ends = [(process.communicate(timeout=DEADLINE_S), process.returncode) for process in processes]
    assert [code for _, code in ends] == [0, 0]
    assert project.calls() == FULL


@pytest.mark.parametrize("how", ["pdm", ".pdm-wrapped", "-m"])
def test_the_pdm_that_runs_us_need_not_be_on_path(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    program = folder / ("pdm.py" if how == "-m" else how)
    program.write_text(PARENT)
    (project.bin / "pdm").unlink()
    monkeypatch.setattr(Project, "environ", {"PATH": str(project.bin), "PYTHONPATH": str(folder)})
    called = ["-m", "pdm"] if how == "-m" else [str(program)]
    result = project.run(sys.executable, *called, "run")
    assert result.returncode == 0, result.stderr
    lines = (folder / "calls").read_text().splitlines()
    assert lines == [f"lock --project {project.root} --check", f"sync --project {project.root}"]


def test_no_pdm_at_all_says_what_to_install(project: Project) -> None:
    (project.bin / "pdm").unlink()
    result = project.run()
    assert result.returncode == 64
    assert "pip install 'pdm[locked]==2.29.3'" in result.stderr
    assert not project.stamp.exists()


def test_a_missing_lock_is_named(project: Project) -> None:
    project.lock.unlink()
    result = project.run()
    assert (result.returncode, project.calls()) == (64, [])
    assert result.stderr.startswith(f"{project.root} has no pdm.lock; ")


def test_outside_of_an_environment_nothing_is_touched(project: Project) -> None:
    base = Path(sys.base_prefix) / "bin" / "python3"
    result = subprocess.run(
        [base, project.argv[1]], env=project.environ, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert (result.returncode, project.calls()) == (64, [])
    assert "`pdm run quickstart`" in result.stderr


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_are_told_what_to_do(module: ModuleType, monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert module.wrong_system() == "Linux only; on macOS and Windows run it in a Linux container, see README."


def test_an_older_python_can_read_it_and_is_told(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    ast.parse(SCRIPT.read_text(), feature_version=(3, 8))
    monkeypatch.setenv("PDM_PROJECT_ROOT", "as pdm sets it")
    assert module.wrong_system() == ""
    monkeypatch.setattr(sys, "version_info", (3, 12, 9, "final", 0))
    monkeypatch.setattr(sys, "version", "3.12.9 (main)")
    assert module.wrong_system().startswith("Python 3.13 or newer is needed, and this is 3.12.9; ")


def test_the_environment_is_fitted_after_each_sync_and_only_then(project: Project) -> None:
    project.fitted_by("one")
    for changed in ("lock", "another lock"):
        project.lock.write_text(changed)
        assert [project.run().returncode for _ in range(2)] == [0, 0]
    assert project.fits() == [f"one {project.environment}"] * 2


def test_another_fitting_needs_no_pdm(project: Project) -> None:
    project.synced()
    (project.bin / "pdm").unlink()
    for name in ("one", "two"):
        project.fitted_by(name)
        assert [project.run().returncode for _ in range(2)] == [0, 0]
    assert project.fits() == [f"one {project.environment}", f"two {project.environment}"]


def test_a_fitting_that_failed_is_done_again(project: Project) -> None:
    project.fitted_by("one", code=3)
    assert (project.run().returncode, project.stamp.exists()) == (3, False)
    project.fitted_by("one")
    assert (project.run().returncode, project.stamp.exists()) == (0, True)
    (project.bin / "one").unlink()
    project.lock.write_text("another lock")
    gone = project.run()
    assert gone.returncode == 64
    assert "LOADPROOF_FIT_ENVIRONMENT" in gone.stderr
    assert "nix develop" in gone.stderr
