"""How is somebody else's program started, watched, measured and ended, so that nothing is left?

The only place that spawns. Everything runs under a warden (`loadproof.warden`), a process whose only work is to
end the command and all its descendants, and which does so too when we are killed. The command has a session (so
a process group) of its own, standard input from /dev/null and its output in files; it is ended by TERM to its group,
grace, KILL to everything. CPU seconds are those of all descendants, memory is sampled over all of them.
Left out: harness and warden killed in the same instant, unless `isolate` says "pid".
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from loadproof.ended import Ended, Usage
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.log_tail import tail
from loadproof.process_tree import memory_below_bytes
from loadproof.warden_link import Start, Warden

__all__ = ["Process", "clean_environment", "run_to_end", "running", "tail", "try_isolation"]

SAMPLE_INTERVAL_S = 0.5
KILL_WAIT_S = 5.0

# What decides how a tool resolves names, models and interpreters must not leak in from the person's shell.
_DROPPED_PREFIXES = ("HF_", "TRANSFORMERS_", "HUGGING", "VIRTUAL_ENV", "PYTHON", "PDM_", "UV_", "COV_", "PYTEST_")
_DROPPED = frozenset({"http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy", "LD_PRELOAD"})


def clean_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the person's environment without proxies, hub settings and interpreter settings, plus `extra`."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_DROPPED_PREFIXES) and name.lower() not in _DROPPED
    }
    return kept | dict(extra)


class Process:
    """A running program; made by `running`, which also guarantees its end."""

    def __init__(self, warden: Warden, argv: list[str], stdout: Path, stderr: Path) -> None:
        self.stdout, self.stderr = stdout, stderr
        self._argv = argv
        self._warden = warden
        self._peak_bytes = 0
        self._stopped_because = ""
        self._sampler = asyncio.create_task(self._sample())
        self._reaping: asyncio.Task[Ended] | None = None

    @property
    def pid(self) -> int:
        """The command's own, not its warden's. Raises ProcessLookupError when it was gone before we could know it."""
        if not self._warden.command_pid:  # 0 would mean our own group to who signals it
            raise ProcessLookupError
        return self._warden.command_pid

    @property
    def started_ns(self) -> int:
        """CLOCK_MONOTONIC nanoseconds just after the spawn."""
        return self._warden.started_ns

    async def _sample(self) -> None:
        while True:
            self._peak_bytes = max(self._peak_bytes, memory_below_bytes(self._warden.pid))
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    async def exited(self) -> None:
        """Wait until the command itself has exited; may be awaited by many and raced with anything."""
        await asyncio.shield(self._warden.ended)

    async def wait(self, deadline_s: float) -> Ended:
        """Wait for the end, at most `deadline_s` seconds, then stop it; nothing is left either way."""
        try:
            await asyncio.wait_for(self.exited(), deadline_s)
        except TimeoutError:
            return await self.stop(f"was still running after its deadline of {deadline_s:g} s and was stopped")
        return await self._reap()

    async def stop(self, because: str, *, grace_s: float = 5.0) -> Ended:
        """TERM to the group, `grace_s` seconds, KILL; idempotent. `because` is kept if it was still running."""
        if self._reaping is None and not self._warden.ended.done():
            self._stopped_because = because
            self._warden.ask_to_end()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.exited(), grace_s)
        return await self._reap()

    def kill(self) -> None:
        """KILL to everything at once; `wait` or `stop` still has to follow."""
        self._warden.let_go()

    async def _reap(self) -> Ended:
        # One task however many wait for it, and not cancelled with any of them.
        if self._reaping is None:
            self._reaping = asyncio.create_task(self._reap_once())
        return await asyncio.shield(self._reaping)

    async def _reap_once(self) -> Ended:
        warden = self._warden
        warden.let_go()
        try:
            await asyncio.wait_for(asyncio.shield(warden.gone), KILL_WAIT_S)
        except TimeoutError:
            raise BrokenRun(f"{self._argv[0]}, or what it started, outlived SIGKILL by {KILL_WAIT_S:g} s; look at "
                            "`ps -eo ppid,pid,stat,args`: state D waits for a device") from None  # fmt: skip
        finally:
            self._sampler.cancel()
            warden.close()
        killed = warden.was_killed and not self._stopped_because
        return Ended(
            argv=self._argv,
            exit_code=-signal.SIGKILL if warden.status is None else os.waitstatus_to_exitcode(warden.status),
            started_ns=warden.started_ns,
            ended_ns=warden.ended_ns,
            usage=Usage(cpu_s=warden.cpu_s or 0.0, peak_memory_bytes=self._peak_bytes),
            stopped_because="was ended because its warden process had been killed" if killed else self._stopped_because,
        )

    def tail(self) -> str:
        """Return the last lines of both logs."""
        return tail(self.stdout, self.stderr)


@asynccontextmanager
async def running(
    argv: Sequence[str],
    *,
    log_dir: Path,
    name: str,
    env: Mapping[str, str],
    cwd: Path | None = None,
    stdout_fd: int | None = None,
    pass_fds: Sequence[int] = (),
    cpus: Collection[int] = (),
    isolate: str = "",
) -> AsyncIterator[Process]:
    """Start `argv`; on leaving the block it has ended and so has all that it started, whatever happened inside.

    Logs go to `log_dir/name.stdout` and `.stderr` (standard output to `stdout_fd` instead, if given). `cpus` are
    the cores that it may use, all if empty; `isolate="pid"` gives it a PID namespace.
    Raises UsageProblem when the executable is not there or not executable, or the system refuses the isolation.
    """
    out, err = log_dir / f"{name}.stdout", log_dir / f"{name}.stderr"
    log_dir.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as out_file, err.open("wb") as err_file:
        warden = Warden(Start(
            name=name, argv=argv, env=env, cwd=cwd, stderr=err_file.fileno(),
            stdout=out_file.fileno() if stdout_fd is None else stdout_fd,
            pass_fds=pass_fds, cpus=cpus, isolate=isolate,
        ))  # fmt: skip
    process = Process(warden, list(argv), out, err)
    try:
        await warden.started()
        yield process
    finally:
        await _ended_for_sure(process)


async def run_to_end(
    argv: Sequence[str], *, log_dir: Path, name: str, env: Mapping[str, str], deadline_s: float, cwd: Path | None = None
) -> Ended:
    """Start `argv` and return how it ended; past `deadline_s` seconds it is stopped."""
    async with running(argv, log_dir=log_dir, name=name, env=env, cwd=cwd) as process:
        return await process.wait(deadline_s)


async def try_isolation() -> None:
    """Raise UsageProblem where the system does not let us isolate a process, with what may help."""
    argv = [sys.executable, "-I", "-S", "-c", "pass"]
    with tempfile.TemporaryDirectory() as logs:
        try:
            async with running(argv, log_dir=Path(logs), name="try", env=clean_environment({}), isolate="pid") as tried:
                await tried.wait(KILL_WAIT_S)
        except UsageProblem as problem:
            raise UsageProblem(f"--isolate pid: this system does not allow it ({problem}); be root, or have user "
                               "namespaces allowed, or leave --isolate out") from problem  # fmt: skip


async def _ended_for_sure(process: Process) -> None:
    """Stop the process, whoever cancels meanwhile: a second Ctrl-C ends the grace, not the stopping."""
    stopping = asyncio.create_task(process.stop("was stopped by the harness"))
    cancelled = False
    while not stopping.done():
        try:
            await asyncio.shield(stopping)
        except asyncio.CancelledError:
            cancelled = True
            process.kill()
    if cancelled:
        raise asyncio.CancelledError
    stopping.result()
