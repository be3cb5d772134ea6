"""How does the harness start a warden, tell it to end its command, and learn what became of it?

The lifeline is a pipe that only we hold the other end of: a word on it means TERM, its end means KILL, and our
own death ends it. The answers come on another pipe, which only the two wardens of `loadproof.warden` hold, so its
end proves that both are gone and nothing is left below them.
"""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import msgspec

from loadproof import warden
from loadproof.errors import UsageProblem
from loadproof.process_tree import pid_outside

REAP_S = 5.0


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be started: `cpus` are the cores that it may use (empty: all), `isolate` is "pid" or empty.

    `name` is what the warden is called in the system's process table.
    """

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]
    stdout: int
    stderr: int
    cwd: Path | None = None
    pass_fds: Sequence[int] = ()
    cpus: Collection[int] = ()
    isolate: str = ""


class Warden:
    """A warden that was started; all its fields come true by and by.

    `ended` is done when the command has ended, `gone` when nothing is left, the wardens included. `status` is as
    `waitpid` says it, None where nobody could tell; `cpu_s` is of all descendants that were reaped.
    """

    def __init__(self, start: Start) -> None:
        loop = asyncio.get_running_loop()
        self.pid = self.command_pid = self.started_ns = self.ended_ns = 0
        self.status: int | None = None
        self.cpu_s: float | None = None
        self.answered, self.ended, self.gone = (loop.create_future() for _ in range(3))
        self._problem: UsageProblem | None = None
        self._start, self._text = start, b""
        self._popen, self._lifeline, self._report = _spawned(start)
        self.pid = self._popen.pid
        loop.add_reader(self._report, self._hear)

    async def started(self) -> None:
        """Wait until the command runs. Raises UsageProblem when it cannot be started."""
        await asyncio.shield(self.answered)
        if self._problem is not None:
            raise self._problem

    @property
    def was_killed(self) -> bool:
        """Whether somebody killed a warden; only to be asked when nothing is left."""
        return self._popen.returncode != 0 or self.status is None

    def ask_to_end(self) -> None:
        """TERM to the command's group."""
        with suppress(OSError):  # it is gone, or was let go of
            os.write(self._lifeline, b"term\n")

    def let_go(self) -> None:
        """KILL to everything below the warden; idempotent."""
        if self._lifeline >= 0:
            os.close(self._lifeline)
            self._lifeline = -1

    def close(self) -> None:
        """Let go, and hear nothing more."""
        self.let_go()
        if self._report >= 0:
            asyncio.get_running_loop().remove_reader(self._report)
            os.close(self._report)
            self._report = -1

    def _hear(self) -> None:
        said = os.read(self._report, 65536)
        *lines, self._text = (self._text + said).split(b"\n")
        for line in lines:
            self._answer(*line.decode().split(" ", 2))
        if not said:
            self.close()
            self._popen.wait(REAP_S)  # it closes its files, and then ends
            self.ended_ns = self.ended_ns or time.monotonic_ns()
            _done(self.answered, self.ended, self.gone)

    def _answer(self, kind: str, first: str, second: str = "") -> None:
        match kind:
            case "started":
                self.command_pid, self.started_ns = int(first), int(second)
                if self._start.isolate:
                    self.command_pid = pid_outside(self.pid, self.command_pid)
                _done(self.answered)
            case "failed":
                self._problem = UsageProblem(_cannot_start(self._start.argv[0], OSError(int(first), "")))
            case "refused":
                asked = self._start.isolate or self._start.cpus
                self._problem = UsageProblem(f"{self._start.argv[0]}: cannot be started"
                                             f"{' with the isolation or the cores asked for' if asked else ''}: "
                                             f"{second}")  # fmt: skip
            case "ended":
                self.status, self.ended_ns = int(first), int(second)
                _done(self.ended)
            case "reaped" if self.cpu_s is None:  # the outer warden's word counts only without the inner one's
                self.cpu_s = float(first)


def _spawned(start: Start) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the warden; return it, our end of its lifeline and our end of its answers."""
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            hears, lifeline = _pipe(theirs, ours)
            report, says = _pipe(ours, theirs)
            order = os.memfd_create("order")
            theirs.callback(os.close, order)
            with os.fdopen(os.dup(order), "wb") as file:
                file.write(_order(says, start))
            os.lseek(order, 0, os.SEEK_SET)
            popen = subprocess.Popen(
                [sys.executable, "-I", "-S", warden.__file__, start.name, str(order)],
                stdin=hears, stdout=start.stdout, stderr=start.stderr, cwd=start.cwd,
                pass_fds=(order, says, *start.pass_fds), start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            entering = start.cwd is not None and str(error.filename) == str(start.cwd)
            where = f"{start.cwd}: cannot be entered" if entering else f"{start.argv[0]}: cannot be started"
            raise UsageProblem(f"{where}: {error.strerror}{_MORE.get(error.errno or 0, '')}") from error
        ours.pop_all()
    os.set_blocking(report, False)
    return popen, lifeline, report


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    """Return a pipe's two ends, each to be closed with a stack of its own. Raises OSError, and then nothing is open."""
    reads, writes = os.pipe()
    reader.callback(os.close, reads)
    writer.callback(os.close, writes)
    return reads, writes


def _order(report: int, start: Start) -> bytes:
    """Return the order as `warden.Order` reads it."""
    kept, cpus = (" ".join(map(str, group)) for group in (start.pass_fds, sorted(start.cpus)))
    env = (f"{name}={value}" for name, value in start.env.items())
    fields = [str(report), kept, cpus, start.isolate, str(len(start.argv)), *start.argv, *env]
    return b"\0".join(map(os.fsencode, fields))


_MORE = {
    errno.EMFILE: "; raise the limit: `ulimit -n`",
    errno.EAGAIN: "; end other processes, or raise the limit: `ulimit -u`",
    errno.ENOMEM: "; end other processes",
}


def _cannot_start(executable: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError) and Path(executable).is_file():
        return f"{executable}: cannot be started: the interpreter that its first line names is not there"
    if isinstance(error, FileNotFoundError):
        return f"{executable}: there is no such executable; check the path, or install it first"
    if isinstance(error, PermissionError):
        return f"{executable}: is not executable; `chmod +x` it, or name the program itself"
    if error.errno == errno.ENOEXEC:
        return f"{executable}: is not a program for this machine, nor a script that names its interpreter in line 1"
    return f"{executable}: cannot be started: {os.strerror(error.errno or 0)}"


def _done(*futures: asyncio.Future[None]) -> None:
    for future in futures:
        if not future.done():
            future.set_result(None)
