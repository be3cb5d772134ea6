"""The programs that check workflows, Dockerfile and scripts: from one environment of their own, made once.

`checkers.txt` is its lock. It lies in loadproof's cache folder under the lock's digest; without a network, where it is
not made yet, whoever asks for a program is skipped.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from loadproof.cache import cache_root, turn
from tests.environment.nix_standin import program
from tests.environment.workshop import not_here, own_environ

LOCK = Path(__file__).with_name("checkers.txt")


def checker(name: str) -> Path:
    """Return the path of a program of the lock, installed; skips the test with uv's words when it cannot be."""
    problem = installed()
    if problem:
        not_here(f"{name} cannot be installed: {problem}")
    return environment() / "bin" / name


def environment() -> Path:
    """Return the folder of the programs' environment, there or not."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    return cache_root() / f"checkers-{digest}"


@functools.cache
def installed() -> str:
    """Install them unless they are, and return why that was not possible, or nothing."""
    folder, whole = environment(), environment() / "whole"
    with turn(folder.with_suffix(".lock"), patience_s=300):
        if whole.exists():
            return ""
        shutil.rmtree(folder, ignore_errors=True)
        uv = program("uv")
        for words in (
            ["venv", "--quiet", "--python", sys.executable, str(folder)],
            ["pip", "install", "--quiet", "--require-hashes", "--python", str(folder / "bin/python"), "-r", str(LOCK)],
        ):
            ended = subprocess.run([uv or "uv", *words], env=own_environ(), capture_output=True, text=True, check=False)
            if ended.returncode != 0:
                return ended.stderr.strip()
        whole.touch()
    return ""
