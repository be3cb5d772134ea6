"""How is somebody else's program started, watched, measured and ended, so that nothing is left?

The only place that spawns. A program runs in a session (so a process group) of its own, with standard
input from /dev/null and its output in files; the leader is watched through a pidfd, ended by TERM, grace,
KILL to the whole group, and reaped with `wait4`, which gives the CPU time of all that it reaped itself.
Left out: descendants that leave the group, and a harness that is killed; a warden process will own those
(`running` is where it goes in).
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from loadproof.ended import Ended, Usage
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.process_tree import group_lives, tree_memory_bytes

SAMPLE_INTERVAL_S = 0.5
KILL_WAIT_S = 5.0
TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 500
_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\t -~\u00a0-\U0010ffff]")

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


def tail(*logs: Path, lines: int = TAIL_LINES) -> str:
    """Return the last `lines` lines of the given logs (those that exist), each log under its name.

    Colours and other control codes are left out, and long lines are cut.
    """
    parts = []
    for log in logs:
        with suppress(FileNotFoundError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace").splitlines()[-lines:]
            if text:
                parts.append("\n".join([f"--- last lines of {log}", *(f"  {_plain(line)}" for line in text)]))
    return "\n".join(parts)


def _plain(line: str) -> str:
    line = _TERMINAL_CODES.sub("", line)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."


class Process:
    """A running program; made by `running`, which also guarantees its end."""

    def __init__(self, popen: subprocess.Popen[bytes], argv: list[str], stdout: Path, stderr: Path) -> None:
        self.pid = popen.pid
        self.stdout, self.stderr = stdout, stderr
        self._argv = argv
        self._popen = popen
        self._started_ns = time.monotonic_ns()
        self._pidfd = os.pidfd_open(popen.pid)
        self._exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(self._pidfd, self._on_exit)
        self._peak_bytes = 0
        self._stopped_because = ""
        self._sampler = asyncio.create_task(self._sample())
        self._reaping: asyncio.Task[Ended] | None = None

    @property
    def started_ns(self) -> int:
        """CLOCK_MONOTONIC nanoseconds just after the spawn."""
        return self._started_ns

    def _on_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pidfd)
        if not self._exited.done():
            self._exited.set_result(None)

    async def _sample(self) -> None:
        while True:
            self._peak_bytes = max(self._peak_bytes, tree_memory_bytes(self.pid))
            await asyncio.sleep(SAMPLE_INTERVAL_S)

    async def exited(self) -> None:
        """Wait until the leader has exited; may be awaited by many and raced with anything."""
        await asyncio.shield(self._exited)

    async def wait(self, deadline_s: float) -> Ended:
        """Wait for the end, at most `deadline_s` seconds, then stop it; reap the whole group either way."""
        try:
            await asyncio.wait_for(self.exited(), deadline_s)
        except TimeoutError:
            return await self.stop(f"was still running after its deadline of {deadline_s:g} s and was stopped")
        return await self._reap()

    async def stop(self, because: str, *, grace_s: float = 5.0) -> Ended:
        """TERM to the group, `grace_s` seconds, KILL; idempotent. `because` is kept if it was still running."""
        if self._reaping is None and not self._exited.done():
            self._stopped_because = because
            self._signal_group(signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.exited(), grace_s)
        return await self._reap()

    def kill(self) -> None:
        """KILL to the group at once; `wait` or `stop` still has to follow."""
        if self._reaping is None:
            self._signal_group(signal.SIGKILL)

    async def _reap(self) -> Ended:
        # One task however many wait for it, and not cancelled with any of them: a pid is reaped exactly once.
        if self._reaping is None:
            self._reaping = asyncio.create_task(self._reap_once())
        return await asyncio.shield(self._reaping)

    async def _reap_once(self) -> Ended:
        # Before the leader is reaped its pid, and so the group's number, cannot be taken by a stranger.
        self._signal_group(signal.SIGKILL)
        await self.exited()
        ended_ns = time.monotonic_ns()
        self._sampler.cancel()
        _, status, rusage = os.wait4(self.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        os.close(self._pidfd)
        await _group_gone(self.pid)
        return Ended(
            argv=self._argv,
            exit_code=self._popen.returncode,
            started_ns=self._started_ns,
            ended_ns=ended_ns,
            usage=Usage(cpu_s=rusage.ru_utime + rusage.ru_stime, peak_memory_bytes=self._peak_bytes),
            stopped_because=self._stopped_because,
        )

    def _signal_group(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

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
) -> AsyncIterator[Process]:
    """Start `argv`; on leaving the block it has ended and so has its group, whatever happened inside.

    Logs go to `log_dir/name.stdout` and `.stderr` (standard output to `stdout_fd` instead, if given).
    Raises UsageProblem when the executable is not there or not executable.
    """
    out, err = log_dir / f"{name}.stdout", log_dir / f"{name}.stderr"
    log_dir.mkdir(parents=True, exist_ok=True)
    with out.open("wb") as out_file, err.open("wb") as err_file:
        try:
            popen = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=out_file if stdout_fd is None else stdout_fd,
                stderr=err_file,
                env=dict(env),
                cwd=cwd,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        except OSError as error:
            raise UsageProblem(_cannot_start(argv[0], error)) from error
    try:
        process = Process(popen, list(argv), out, err)
    except OSError:  # no descriptor left to watch it with
        os.killpg(popen.pid, signal.SIGKILL)
        popen.wait()
        raise
    try:
        yield process
    finally:
        await _ended_for_sure(process)


async def run_to_end(
    argv: Sequence[str], *, log_dir: Path, name: str, env: Mapping[str, str], deadline_s: float, cwd: Path | None = None
) -> Ended:
    """Start `argv` and return how it ended; past `deadline_s` seconds it is stopped."""
    async with running(argv, log_dir=log_dir, name=name, env=env, cwd=cwd) as process:
        return await process.wait(deadline_s)


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


def _cannot_start(executable: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and Path(executable).is_file():
        return f"{executable}: cannot be started: the interpreter that its first line names is not there"
    if isinstance(error, FileNotFoundError):
        return f"{executable}: there is no such executable; check the path, or install it first"
    if isinstance(error, PermissionError):
        return f"{executable}: is not executable; `chmod +x` it, or name the program itself"
    if error.errno == errno.ENOEXEC:
        return f"{executable}: is not a program for this machine, nor a script that names its interpreter in line 1"
    return f"{executable}: cannot be started: {error.strerror or error}"


async def _group_gone(pgid: int) -> None:
    deadline = time.monotonic() + KILL_WAIT_S
    while group_lives(pgid):
        if time.monotonic() > deadline:
            raise BrokenRun(f"process group {pgid} outlived SIGKILL by {KILL_WAIT_S:g} s; look at "
                            "`ps -eo pgid,pid,stat,args`")  # fmt: skip
        await asyncio.sleep(0.01)
