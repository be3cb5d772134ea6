"""How is a lock installed into a new folder, with which uv and which Python?

By `uv venv` and `uv pip install --require-hashes`, in the person's environment, since index and certificate
settings are theirs; Python itself is never downloaded. Probes ask a program for an answer, because a version
manager's shim, or a wheel's executable on a system without the usual loader, is found and yet does not run.
Left out: whether an installation is needed, whole, or under way elsewhere (`environments`).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import uv

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.process import running
from loadproof.tools.lockfile import PACKAGES, ToolLock

PROGRESS_INTERVAL_S = 5.0
PROBE_DEADLINE_S = 30.0
FITTING = "LOADPROOF_FIT_ENVIRONMENT"  # the flake's shell names a program that makes wheels work there
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"

Say = Callable[[str], None]


class Installer:
    """One installation of `lock` into `environment`, a folder that does not exist yet.

    `say` gets whole lines of progress; all of it takes at most `deadline_s` seconds; logs go to
    `environment`'s neighbour `logs`; uv inherits `kept_fd`, so that a file lock on it outlives us with uv.
    """

    def __init__(self, lock: ToolLock, environment: Path, *, say: Say, deadline_s: float, kept_fd: int) -> None:
        self._lock, self._environment, self._say, self._kept_fd = lock, environment, say, kept_fd
        self._logs = environment.parent / "logs"
        self._started = time.monotonic()
        self._deadline_s = deadline_s

    async def install(self) -> None:
        """Install; the folder may be left half made by whatever is raised.

        Raises UsageProblem (no uv, no such Python) and BrokenRun (uv failed or took too long, with its log's tail).
        """
        lock, environment = self._lock, self._environment
        uv_bin = await self._find_uv()
        interpreter = await self._find_interpreter(uv_bin)
        self._say(f"{lock}: installing {lock.packages} packages, about {lock.size_mb} MB, into {environment}")
        await self._must("venv", [uv_bin, "venv", "--python", interpreter, str(environment)])
        # Compiled here, so that a tool's first run starts as fast, and uses as much CPU, as its second.
        install = [uv_bin, "pip", "install", "--require-hashes", "--compile-bytecode"]
        python = str(environment / "bin" / "python")
        await self._must("install", [*install, "--python", python, "-r", str(lock.path)])
        if fitting := os.environ.get(FITTING):
            await self._must("fit", [fitting, str(environment)])
        program = environment / "bin" / PACKAGES[lock.tool].program
        if not os.access(program, os.X_OK):
            raise BrokenRun(f"{lock}: uv installed {lock.path.name}, and yet there is no {program}; the lock is wrong")
        self._say(f"{lock}: installed in {self._elapsed_s():.0f} s")

    async def _find_uv(self) -> str:
        """Return a uv that runs: one of the person's before the one that our own environment carries."""
        ours = Path(sys.prefix) / "bin"
        path = os.pathsep.join(folder for folder in os.get_exec_path() if Path(folder) != ours)
        for candidate in (shutil.which("uv", path=path), _bundled_uv()):
            if candidate and await self._answer("uv", [candidate, "--version"]):
                return candidate
        raise UsageProblem("no uv that runs was found, on PATH or in our own environment; install uv and try again")

    async def _find_interpreter(self, uv_bin: str) -> str:
        wanted = self._lock.python
        if wanted == f"{sys.version_info.major}.{sys.version_info.minor}":
            return sys.executable
        for candidate in _interpreters(wanted):
            if await self._answer("python", [candidate, "-c", _VERSION]) == wanted:
                return candidate
        found = await self._answer("find", [uv_bin, "python", "find", "--no-python-downloads", wanted])
        if found:
            return found
        raise UsageProblem(
            f"{self._lock}: needs Python {wanted}; none was found on PATH, among pyenv's versions, or by uv. "
            f"Install it (`pyenv install {wanted}`, or your distribution's python{wanted}) and try again"
        )

    async def _answer(self, step: str, argv: list[str]) -> str:
        """Return what `argv` printed, stripped; nothing when it cannot start or fails."""
        try:
            async with running(argv, log_dir=self._logs, name=self._log_name(step), env=_environment()) as process:
                ended = await process.wait(PROBE_DEADLINE_S)
        except UsageProblem:
            return ""
        return process.stdout.read_text(errors="replace").strip() if ended.exit_code == 0 else ""

    async def _must(self, step: str, argv: list[str]) -> None:
        async with running(
            argv,
            log_dir=self._logs,
            name=self._log_name(step),
            env=_environment(),
            cwd=self._environment.parent,  # not the person's folder: a project file there brings its own constraints
            pass_fds=[self._kept_fd],
        ) as process:
            ticking = asyncio.create_task(self._tick())
            try:
                ended = await process.wait(max(0.0, self._deadline_s - self._elapsed_s()))
            finally:
                ticking.cancel()
        if ended.exit_code != 0 or ended.stopped_because:
            what = f"`{Path(argv[0]).name} {argv[1]}`"
            raise BrokenRun(
                f"{self._lock}: could not be installed: {what} {ended.says()}\n{process.tail()}\n"
                f"Check the network and uv's index settings, then `loadproof tools sync {self._lock.tool}`"
            )

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(PROGRESS_INTERVAL_S)
            self._say(f"{self._lock}: still installing, {self._elapsed_s():.0f} s")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._started

    def _log_name(self, step: str) -> str:
        return f"{self._environment.name}.{step}"


def _bundled_uv() -> str | None:
    try:
        return uv.find_uv_bin()
    except FileNotFoundError:
        return None


def _interpreters(wanted: str) -> Iterator[str]:
    """Yield where Python `wanted` (`3.X`) may be; not every one runs."""
    on_path = shutil.which(f"python{wanted}")
    if on_path:
        yield on_path
    versions = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from (str(path) for path in sorted(versions.glob(f"{wanted}.*/bin/python{wanted}"), reverse=True))


def _environment() -> dict[str, str]:
    """Return the person's environment without what points at another Python, and with Python downloads off."""
    dropped = {"VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME"}
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"UV_PYTHON_DOWNLOADS": "never"}
