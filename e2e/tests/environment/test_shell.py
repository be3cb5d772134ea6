"""What is it like inside `nix develop`, and does the suite really run there?

The real flake, the real Nix, our real pdm.lock in an environment of the shell's own, and a stand-in for nixpkgs whose
programs are the host's. Nested runs choose a few tests; `test:e2e` itself leaves these here out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.environment.conftest import Shell
from tests.environment.workshop import own_environ, run

SELECTION = ["e2e/tests/parity/test_starter_cases.py", "-k", "test_fixed_rate_is_offered_as_asked and metronome"]


def test_its_words_and_its_python(shell: Shell) -> None:
    names = (
        "LOADPROOF_INFERENCE_PERF LOADPROOF_FIT_ENVIRONMENT UV_PYTHON_DOWNLOADS PDM_PYTHON PYTHONPATH PYTHONHASHSEED"
    )
    told = dict(
        line.split("=", 1) for line in shell.says("env").splitlines() if line.partition("=")[0] in names.split()
    )
    assert told.pop("UV_PYTHON_DOWNLOADS") == "never"
    assert told.pop("PDM_PYTHON").startswith(f"{shell.venvs}/")
    assert told.keys() == {"LOADPROOF_INFERENCE_PERF", "LOADPROOF_FIT_ENVIRONMENT"}
    assert all(value.startswith(f"{shell.store}/") for value in told.values())
    assert shell.says("sh", "-c", '"$PDM_PYTHON" -c "import sys; print(sys.version_info[:2])"') == "(3, 13)"


def test_its_programs_are_the_flakes(shell: Shell) -> None:
    names = ["git", "inference-perf", "llm-d-inference-sim", "pdm", "python3.13", "ruff", "uv", "uvx"]
    found = shell.says("sh", "-c", f"for name in {' '.join(names)}; do command -v $name; done").splitlines()
    assert [Path(path).name for path in found] == names
    assert all(path.startswith(f"{shell.store}/") for path in found)


def test_entering_again_builds_nothing_and_makes_nothing(shell: Shell) -> None:
    shell.says("true")
    before = {path: path.stat().st_mtime_ns for path in [*shell.store.iterdir(), *shell.venvs.rglob("*")]}
    again = shell.develop("true")
    assert again.returncode == 0
    assert "building" not in again.stderr
    assert {path: path.stat().st_mtime_ns for path in [*shell.store.iterdir(), *shell.venvs.rglob("*")]} == before


def test_an_environment_whose_python_has_gone_is_mended(shell: Shell) -> None:
    python = Path(shell.says("sh", "-c", 'echo "$PDM_PYTHON"'))
    for link in python.parent.glob("python*"):
        link.unlink()
        link.symlink_to("/no/such/python")
    assert shell.says("sh", "-c", '"$PDM_PYTHON" -c "print(1)"') == "1"


def test_a_place_for_the_environment_can_be_named(shell: Shell, tmp_path: Path) -> None:
    place = tmp_path / "here"
    assert shell.says("sh", "-c", 'echo "$PDM_PYTHON"', LOADPROOF_VENV=str(place)) == f"{place}/bin/python"


def test_executables_from_wheels_are_the_flakes_though_the_environment_comes_first_on_path(synced: Shell) -> None:
    loop = "for name in uv uvx ruff git python; do command -v $name; done"
    found = synced.says("pdm", "run", "sh", "-c", loop).splitlines()
    *ours, git, python = [Path(path) for path in found]
    assert [path.parent for path in ours] == [python.parent] * 3
    assert [path.resolve(strict=True).name for path in ours] == ["uv", "uvx", "ruff"]
    assert all(str(path.readlink()).startswith(f"{synced.store}/") for path in ours)
    assert str(git).startswith(f"{synced.store}/")


def test_every_executable_of_our_environment_has_a_stand_in_from_the_flake(synced: Shell) -> None:
    """By the wheels' own files: each ELF file with an interpreter, but for what the environment has linked already."""
    given = re.findall(
        r"--program (\S+)", Path(synced.says("sh", "-c", 'echo "$LOADPROOF_FIT_ENVIRONMENT"')).read_text()
    )
    assert given
    [environment] = {path.parents[1] for path in synced.venvs.glob("*/bin/python")}
    left = [path.relative_to(environment) for path in environment.rglob("*") if has_interpreter(path)]
    assert left == []


def has_interpreter(path: Path) -> bool:
    """Tell whether the file is an ELF executable that wants a loader by path (program header PT_INTERP)."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as handle:
        head = handle.read(64)
        if head[:4] != b"\x7fELF":
            return False
        at, size, count = (int.from_bytes(head[a:b], "little") for a, b in ((32, 40), (54, 56), (56, 58)))
        handle.seek(at)
        headers = handle.read(size * count)
    return any(headers[number * size : number * size + 4] == b"\x03\0\0\0" for number in range(count))


def test_an_interpreter_is_seen() -> None:
    assert has_interpreter(Path("/bin/true").resolve())
    assert not has_interpreter(Path(__file__))


def test_the_suite_runs_there_by_the_same_command(synced: Shell, tmp_path: Path) -> None:
    ended = synced.develop("pdm", "run", "test:e2e", *SELECTION, LOADPROOF_SUMMARY=str(tmp_path))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = json.loads((tmp_path / "summary.json").read_text())["rows"]
    assert {(row["case"], row["tool"], row["server"]) for row in rows} == {("a_fixed_rate", "metronome", "absorber")}
    assert {row["outcome"] for row in rows} <= {"pass", "unclear"}
    assert "environment" not in ended.stdout


def test_nothing_is_left_in_the_project_that_a_copy_into_the_store_would_take(synced: Shell) -> None:
    left = run(
        ["git", "status", "--porcelain", "--ignored", "--untracked-files=all"], env=own_environ(), cwd=synced.root
    )
    first = {
        line[3:].partition("/")[0]
        for line in left.stdout.splitlines()
        if "__pycache__/" not in line and line[0] in "?!"
    }
    assert first <= {".hypothesis", ".pdm-build", ".pytest_cache"}
