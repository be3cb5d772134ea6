"""Is this Python's environment what pdm.lock and pyproject.toml say, and if not, make it so.

The first step of the pdm scripts: `python e2e/sync.py`. It compares the digests of both files and the project's
folder with a stamp in the environment: equal is the usual case, and ends at once without pdm and without a
network. Otherwise it runs `pdm sync` (`--no-self` where the project itself is installed as it must be, because
building that wants the build backend, so a network, each time), then the program that LOADPROOF_FIT_ENVIRONMENT
names, if any (the flake's shell has one), and writes the stamp when that succeeded.
Left out: packages that somebody installed or removed by hand since. Only the standard library is there yet, and
the file must still be readable by the older Pythons that it turns away.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FILES = ("pdm.lock", "pyproject.toml")
STAMP = Path(sys.prefix) / "loadproof-synced.json"
FITTING = "LOADPROOF_FIT_ENVIRONMENT"
PARENT = Path(f"/proc/{os.getppid()}/cmdline")
PDM_PROGRAMS = ("pdm", ".pdm-wrapped")  # the second: how Nix names the script behind its wrapper
USAGE = 64
NO_PDM = (
    "pdm was not found, neither on PATH nor as the program that runs this script. Install it with\n"
    "  pip install 'pdm[locked]==2.29.3'\n"
    "and try again with `pdm run ...`."
)

HINTS = {
    "lock": "pdm.lock does not fit pyproject.toml: `pdm lock` makes it anew, or take both from the same commit.\n",
    "sync": "The environment could not be made; pdm's message above says why. The next run tries again.\n",
}


def main() -> int:
    """Return the exit code: 0 when the environment is right, pdm's own when it failed, 64 for a wrong system."""
    problem = wrong_system()
    if problem:
        return refuse(problem)
    wanted = state_of(ROOT)
    if stamp() == wanted:
        return 0
    with STAMP.with_suffix(".lock").open("w") as lock:
        wait_for(lock.fileno())
        steps = steps_to(wanted, stamp())
        pdm = find_pdm()
        if steps and pdm is None:
            return refuse(NO_PDM)
        for step in steps:
            code = run([*(pdm or []), *step], lock.fileno())
            if code != 0:
                sys.stderr.write(HINTS[step[0]])
                return code
        if code := fit():
            return code
        write_stamp(wanted)
    return 0


def wrong_system() -> str:
    """Return why this cannot work here, or nothing."""
    if sys.platform != "linux":
        return "Linux only; on macOS and Windows run it in a Linux container, see README."
    if sys.version_info < (3, 13):  # noqa: UP036 -- a script is started by whatever Python the person has
        return f"Python 3.13 or newer is needed, and this is {sys.version.split()[0]}; `pdm use 3.13`, see README."
    if sys.prefix == sys.base_prefix and "PDM_PROJECT_ROOT" not in os.environ:
        return "This is run by pdm, in the project's environment: `pdm run quickstart` and so on, see README."
    missing = [name for name in FILES if not (ROOT / name).is_file()]
    if missing:
        return f"{ROOT} has no {' and no '.join(missing)}; take it from the repository (`git checkout`)."
    return ""


def refuse(problem: str) -> int:
    """Tell the person, and return the exit code for wrong usage."""
    sys.stderr.write(f"{problem}\n")
    return USAGE


def state_of(root: Path) -> dict[str, str]:
    """Return what decides the environment: the project's folder, the fitting, the digests of the two files."""
    digests = {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in FILES}
    return {"root": str(root), "fitted by": os.environ.get(FITTING, ""), **digests}


def stamp() -> dict[str, str]:
    """Return the state of the last sync that succeeded; empty if there was none."""
    try:
        return dict(json.loads(STAMP.read_text()))
    except (OSError, ValueError):
        return {}


def steps_to(wanted: dict[str, str], have: dict[str, str]) -> list[list[str]]:
    """Return the arguments of the pdm runs that lead from one state to the other."""
    fitting = {"fitted by": ""}  # done after any of them
    if {**have, **fitting} == {**wanted, **fitting}:  # or somebody else did it while we waited
        return []
    project = ["--project", wanted["root"]]
    if {**have, **fitting, "pdm.lock": ""} == {**wanted, **fitting, "pdm.lock": ""}:
        return [["sync", *project, "--no-self"]]
    # `pdm sync` only warns of a lock that no longer fits pyproject.toml, and then installs it.
    return [["lock", *project, "--check"], ["sync", *project]]


def find_pdm() -> list[str] | None:
    """Return how to call pdm: as it runs us (it need not be on PATH under uvx or pipx), else by PATH."""
    with contextlib.suppress(OSError):
        python, *rest = PARENT.read_text().split("\0")
        if Path(python).is_absolute() and rest[:2] == ["-m", "pdm"]:
            return [python, "-m", "pdm"]
        if Path(python).is_absolute() and rest and Path(rest[0]).name in PDM_PROGRAMS and Path(rest[0]).is_file():
            return [python, rest[0]]
    found = shutil.which("pdm")
    return [found] if found else None


def wait_for(lock: int) -> None:
    """Take the file lock, and say so when another sync holds it."""
    import fcntl  # noqa: PLC0415 -- Windows has no such module, and shall get our message instead of a traceback

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.stderr.write("Another sync of this environment is running; waiting for it.\n")
        fcntl.flock(lock, fcntl.LOCK_EX)


def run(argv: list[str], lock: int) -> int:
    """Run pdm on this very environment; it inherits the file lock, so that it holds as long as pdm lives."""
    sys.stderr.write(f"Environment: pdm {' '.join(argv[argv.index('--project') - 1 :])}\n")
    environ = {**os.environ, "PDM_PYTHON": sys.executable, "PDM_CHECK_UPDATE": "0"}
    try:
        code = subprocess.run(argv, env=environ, pass_fds=[lock], check=False).returncode
    except KeyboardInterrupt:
        return 130
    return code if code >= 0 else 128 - code


def fit() -> int:
    """Fit this environment to a system that is not what wheels expect; nothing where no program is named for that."""
    program = os.environ.get(FITTING)
    if not program:
        return 0
    try:
        return subprocess.run([program, sys.prefix], check=False).returncode
    except OSError as problem:
        return refuse(f"{FITTING}={program}: {problem.strerror}; leave the shell and enter it anew (`nix develop`).")


def write_stamp(state: dict[str, str]) -> None:
    """Write the stamp, whole or not at all."""
    unfinished = STAMP.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(state))
    unfinished.replace(STAMP)


if __name__ == "__main__":
    sys.exit(main())
