"""Is the tokenizer unpacked once, whole or not at all, whatever happens meanwhile?"""

from __future__ import annotations

import gzip
import hashlib
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from loadproof import tokenizer
from loadproof.data import make_tokenizer_tarball as maker
from loadproof.errors import UsageProblem
from loadproof.tokenizer import NAME, tokenizer_dir

STAND_IN = {
    "NOTICE": b"terms\n",
    "tokenizer.json": bytes(range(256)),
    "tokenizer_config.json": b'{"a": 1}',
}


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def visible(root: Path) -> list[str]:
    """What lies in a cache besides lock files."""
    return sorted(path.name for path in root.iterdir() if path.suffix != ".lock")


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return written(tmp_path / "small.tar.gz", maker.packed(maker.tar_of(STAND_IN)))


def test_the_bundled_tarball_is_small_pinned_and_remade_from_its_own_files(tmp_path: Path) -> None:
    folder = tokenizer_dir(root=tmp_path)
    held = contents(folder)
    bundled = Path(maker.__file__).with_name(f"{NAME}.tar.gz").read_bytes()
    assert len(bundled) < 6_000_000
    assert hashlib.sha256(bundled).hexdigest() == tokenizer.TARBALL_SHA256
    assert {name: hashlib.sha256(held[name]).hexdigest() for name in maker.GEMMA_3} == maker.GEMMA_3
    assert b"Gemma Terms of Use found at ai.google.dev/gemma/terms" in held["NOTICE"]
    assert maker.tar_of(held) == gzip.decompress(bundled)
    assert visible(tmp_path) == [folder.name]
    assert NAME in folder.name


def test_the_second_call_writes_nothing(small: Path, tmp_path: Path) -> None:
    root = tmp_path / "made" / "on demand"
    folder = tokenizer_dir(small, root)
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    assert tokenizer_dir(small, root) == folder
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    assert contents(folder) == STAND_IN


def test_other_content_is_another_folder_and_both_stay(small: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other.tar.gz", maker.packed(maker.tar_of({**STAND_IN, "NOTICE": b"Terms\n"})))
    root = tmp_path / "root"
    folders = {tokenizer_dir(small, root), tokenizer_dir(other, root)}
    assert len(folders) == 2
    assert {contents(folder)["NOTICE"] for folder in folders} == {b"terms\n", b"Terms\n"}
    moved = small.rename(tmp_path / "renamed.tgz")
    assert tokenizer_dir(moved, root) in folders


def test_a_relative_root_gives_an_absolute_folder(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert tokenizer_dir(small, Path("here")).parent == tmp_path / "here"


ONE_OF_MANY = """
import hashlib, pathlib, sys
from loadproof.tokenizer import tokenizer_dir
print("ready", flush=True)
sys.stdin.readline()
folder = tokenizer_dir(root=pathlib.Path(sys.argv[1]))
print(folder, *(hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in sys.argv[2:]))
"""


def test_eight_processes_at_once_all_get_the_whole_folder(tmp_path: Path) -> None:
    root = tmp_path / "fresh"
    command = [sys.executable, "-c", ONE_OF_MANY, str(root), *maker.GEMMA_3]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            )
            for _ in range(8)
        ]
        for process in processes:
            stack.callback(process.kill)
        for process in processes:
            assert process.stdout
            assert process.stdout.readline() == b"ready\n"
        for process in processes:
            assert process.stdin
            process.stdin.write(b"\n")
            process.stdin.flush()
        ends = [(*process.communicate(timeout=60), process.returncode) for process in processes]
    (name,) = visible(root)
    answer = f"{root / name} {' '.join(maker.GEMMA_3.values())}\n".encode()
    assert ends == [(answer, b"", 0)] * 8


KILLED_BEFORE_THE_RENAME = """
import os, pathlib, signal, sys
from loadproof.tokenizer import tokenizer_dir
pathlib.Path.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
tokenizer_dir(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
"""
KILLED_BETWEEN_TWO_FILES = """
import os, pathlib, signal, sys
from loadproof.tokenizer import tokenizer_dir
write = pathlib.Path.write_bytes
def half(path, data):
    write(path, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
pathlib.Path.write_bytes = half
tokenizer_dir(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
"""


@pytest.mark.parametrize("script", [KILLED_BEFORE_THE_RENAME, KILLED_BETWEEN_TWO_FILES])
def test_what_a_killed_extraction_left_is_not_taken_for_whole(script: str, small: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    killed = subprocess.run([sys.executable, "-c", script, small, root], check=False, timeout=60)
    assert killed.returncode == -signal.SIGKILL
    (leftover,) = visible(root)
    folder = tokenizer_dir(small, root)
    assert leftover != folder.name
    assert contents(folder) == STAND_IN
    assert visible(root) == [folder.name]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(b"")], ids=["missing", "emptied"])
def test_a_folder_damaged_from_outside_is_unpacked_again(
    damage: Callable[[Path], object], small: Path, tmp_path: Path
) -> None:
    folder = tokenizer_dir(small, tmp_path / "root")
    damage(folder / "tokenizer.json")
    assert tokenizer_dir(small, tmp_path / "root") == folder
    assert contents(folder) == STAND_IN


def test_a_failed_write_leaves_no_folder(small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(UsageProblem, match=r"(?s)No space left on device.*Make room there, or set LOADPROOF_CACHE"):
            tokenizer_dir(small, tmp_path / "root")
    assert visible(tmp_path / "root") == []


def test_a_root_that_cannot_be_made_is_named(small: Path) -> None:
    with pytest.raises(UsageProblem, match=r"small\.tar\.gz/below"):
        tokenizer_dir(small, small / "below")
