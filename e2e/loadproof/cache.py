"""Where do the files live that are made once and shared by all runs, and how do processes take turns there?

Method: the first of `$LOADPROOF_CACHE`, `$XDG_CACHE_HOME/loadproof` and `~/.cache/loadproof` that is set; it is
made when first asked for. Turns are taken with a lock that the kernel frees when its holder dies. Left out: what
lies inside (each owner names its own folder) and any cleaning up.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loadproof.errors import UsageProblem

VARIABLE = "LOADPROOF_CACHE"


def cache_root() -> Path:
    """Return the absolute cache folder, made if it is not there; it can be read and written.

    An empty variable counts as unset, and so does a relative XDG_CACHE_HOME (the XDG base directory
    specification says so); a relative LOADPROOF_CACHE is seen from the current folder.

    Raises:
        UsageProblem: the folder cannot be made, is not a folder or may not be written; the message names
            the variable that chose it.
    """
    chosen_by, root = _chosen()
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise _unusable(chosen_by, root, problem.strerror or str(problem)) from problem
    if not os.access(root, os.R_OK | os.W_OK | os.X_OK):
        raise _unusable(chosen_by, root, "it may not be read and written")
    return root


@contextmanager
def turn(lock: Path, patience_s: float = 120.0) -> Iterator[None]:
    """Hold the lock file `lock` (made if it is not there, left behind) against all other holders.

    It blocks its thread while it waits, at most `patience_s`.

    Raises:
        UsageProblem: somebody else still holds it after that.
        OSError: the file cannot be made.
    """
    deadline = time.monotonic() + patience_s
    with lock.open("ab") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as problem:
                if time.monotonic() >= deadline:
                    raise UsageProblem(
                        f"Another process has held {lock} for {patience_s:g} s. "
                        f"End it, or set {VARIABLE} to another folder."
                    ) from problem
                time.sleep(0.02)
        yield


def _chosen() -> tuple[str, Path]:
    """Return the name of the variable that decides, and the folder that it decides for."""
    if own := os.environ.get(VARIABLE):
        return VARIABLE, Path(own).absolute()
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():
        return "XDG_CACHE_HOME", xdg / "loadproof"
    try:
        return "HOME", Path.home().absolute() / ".cache" / "loadproof"
    except RuntimeError as problem:
        raise UsageProblem(f"There is no home folder to keep a cache in. Set {VARIABLE} to a folder.") from problem


def _unusable(chosen_by: str, root: Path, why: str) -> UsageProblem:
    return UsageProblem(
        f"The cache folder {root} (chosen by {chosen_by}) cannot be used: {why}. "
        f"Set {VARIABLE} to a folder that you may write."
    )
