"""Do wheels work where neither libstdc++ nor libz is on the loader's path, and only in Pythons of our environments?

The place without them is this machine with both hidden in a mount namespace; the libraries given are copies elsewhere.
What Nix's own loader does cannot be seen here.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.environment.nix_standin import libraries
from tests.environment.workshop import ROOT, needs, not_here, own_environ, run

SCRIPT = ROOT / "nix" / "fit_environment.py"
NAMES = ("libstdc++.so.6", "libz.so.1")


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """Return an environment that sees the packages of ours."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    [ours] = Path(sys.prefix).glob("lib/python3*/site-packages")
    [packages] = folder.glob("lib/python3*/site-packages")
    (packages / "zz_ours.pth").write_text(f"{ours}\n")
    return folder


def fit(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run([sys.executable, "-I", SCRIPT, *words], env=own_environ(), cwd=ROOT)


def hidden(python: Path, code: str, hide: list[Path]) -> subprocess.CompletedProcess[str]:
    """Run `code` where the files have no content."""
    script = 'for file in "${@:3}"; do mount --bind /dev/null "$file" || exit 99; done; exec "$1" -c "$2"'
    return run(["unshare", "--mount", "bash", "-c", script, "bash", python, code, *hide], env=own_environ(), cwd=ROOT)


def test_shared_objects_of_wheels_load_without_the_machines_libraries(environment: Path, tmp_path: Path) -> None:
    needs("unshare")
    if os.geteuid() != 0:
        not_here("hiding a library wants root")
    theirs = libraries(tmp_path) / "lib"
    given = [shutil.copy(theirs / name, tmp_path / name) for name in NAMES]
    hide = [(theirs / name).resolve() for name in NAMES]
    code = "import pyarrow, scipy.linalg, numpy, zlib, os; print(os.environ.get('LD_LIBRARY_PATH'), zlib.crc32(b'a'))"
    python = environment / "bin" / "python"
    before = hidden(python, code, hide)
    assert before.returncode == 1, before.stderr
    assert "lib" in before.stderr.splitlines()[-1]
    done = fit(*[word for path in given for word in ("--library", path)], environment)
    assert (done.returncode, done.stderr) == (0, "")
    after = hidden(python, code, hide)
    assert (after.returncode, after.stdout, after.stderr) == (0, "None 3904355907\n", "")


def test_executables_of_wheels_become_links_and_others_are_told(environment: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / "uv"
    theirs.parent.mkdir()
    theirs.write_text("#!/bin/sh\necho theirs\n")
    theirs.chmod(0o755)
    for name in ("uv", "unknown"):
        shutil.copy("/bin/true", environment / "bin" / name)
    (environment / "bin" / "script").write_text("#!/bin/sh\n")
    first, second = [fit("--program", theirs, environment) for _ in range(2)]
    assert first.returncode == second.returncode == 0
    assert run([environment / "bin" / "uv"], env={}, cwd=tmp_path).stdout == "theirs\n"
    assert [line.split(": ")[1] for line in first.stderr.splitlines()] == [str(environment / "bin" / "unknown")]
    assert not (environment / "bin" / "script").is_symlink()
    assert (environment / "bin" / "python").resolve() == Path(sys.executable).resolve()


@pytest.mark.parametrize("words", [["--library", "/no/such.so"], ["--program", "/no/such"], []])
def test_what_is_not_there_is_told(tmp_path: Path, environment: Path, words: list[str]) -> None:
    ended = fit(*words, environment if words else tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert (words[1] if words else str(tmp_path)) in ended.stderr
