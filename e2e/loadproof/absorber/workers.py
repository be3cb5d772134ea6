"""How do several processes serve one port, each connection in one of them?

A parent accepts and deals the sockets round-robin over a socket pair to each worker: when every process listened on
the port itself (SO_REUSEPORT), few connections left some without any. A worker is an absorber without a listener, with
streams of its own in the same folder; the parent seals them all. Left out: what needs to see every request
(`needs_one_worker`); judging uses one worker, more are for measuring how much a tool can do.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.process import Process, clean_environment, running, tail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from loadproof.absorber.poller import Poller
    from loadproof.absorber.profile import Profile

READY_DEADLINE_S = 120.0
STOP_DEADLINE_S = 60.0
MOST_WORKERS = 64
_NUMBER = struct.Struct("=Q")
_READY = b"ready"


def needs_one_worker(profile: Profile) -> str:
    """Return what of a profile has to see every request, empty if nothing does."""
    return "draws are keyed by how often a body came before" if profile.draws else ""


def check_workers(workers: int, profile: Profile) -> None:
    """Raise UsageProblem for a number of workers that cannot be, or not with this profile."""
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageProblem(f"--workers {workers}: must be between 1 and {MOST_WORKERS}")
    if workers > 1 and (why := needs_one_worker(profile)):
        raise UsageProblem(f"--workers {workers}: this profile needs one worker, because {why}; leave --workers out or "
                           "use constants")  # fmt: skip


class Inbox:
    """A worker's end: connections come in, and its end of file is the end. `on_end()` is told of that."""

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        self._socket = socket.socket(fileno=fd)
        self._socket.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
        self._on_end = on_end

    def start(self, poller: Poller, on_socket: Callable[[socket.socket, int], None]) -> None:
        """Say that we are ready, and take what is dealt."""
        self._poller, self._on_socket = poller, on_socket
        poller.watch(self._socket.fileno(), self._readable)
        self._socket.send(_READY)

    def _readable(self, _events: int) -> None:
        try:
            data, fds, _, _ = socket.recv_fds(self._socket, _NUMBER.size, 1)
        except BlockingIOError:
            return
        if not data:
            self._on_end()
        for fd in fds:
            sock = socket.socket(fileno=fd)
            sock.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
            self._on_socket(sock, _NUMBER.unpack(data)[0])

    def close(self) -> None:
        """Take no more."""
        self._poller.forget(self._socket.fileno())
        self._socket.close()


class Dealer:
    """The parent's end: the workers, who have begun and are ready."""

    def __init__(self, inboxes: list[socket.socket], processes: list[Process]) -> None:
        self._inboxes, self._processes = inboxes, processes
        self._dealt = 0

    def deal(self, sock: socket.socket) -> None:
        """Give a connection to the next worker."""
        inbox = self._inboxes[self._dealt % len(self._inboxes)]
        self._dealt += 1
        with sock:
            socket.send_fds(inbox, [_NUMBER.pack(self._dealt)], [sock.fileno()])

    async def one_has_ended(self) -> None:
        """Wait until a worker is gone, which none should be."""
        tasks = [asyncio.create_task(process.exited()) for process in self._processes]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def stop(self) -> None:
        """Let the workers come to their ends. Raises BrokenRun if one does not do so well."""
        for inbox in self._inboxes:
            inbox.close()
        for process in self._processes:
            ended = await process.wait(STOP_DEADLINE_S)
            if ended.exit_code != 0:
                raise BrokenRun(f"a worker {ended.says()}\n{tail(process.stderr)}")


@asynccontextmanager
async def working(arguments: list[str], workers: int, logs: Path) -> AsyncIterator[Dealer]:
    """Start `workers` absorbers with these arguments and yield their dealer when all are ready.

    Raises BrokenRun if one does not get ready.
    """
    async with AsyncExitStack() as stack:
        inboxes, processes = [], []
        for number in range(workers):
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            stack.enter_context(ours)
            with theirs:
                argv = [sys.executable, "-P", "-m", "loadproof.absorber", *arguments]
                argv += ["--worker", str(number), "--inbox", str(theirs.fileno())]
                name = f"absorber-{number}"
                processes.append(await stack.enter_async_context(
                    running(argv, log_dir=logs, name=name, env=clean_environment({}), pass_fds=[theirs.fileno()])
                ))  # fmt: skip
            inboxes.append(ours)
        for inbox, process in zip(inboxes, processes, strict=True):
            await _ready(inbox, process)
        yield Dealer(inboxes, processes)


async def _ready(inbox: socket.socket, process: Process) -> None:
    inbox.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
    said = b""
    with suppress(TimeoutError):
        said = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(inbox, 16), READY_DEADLINE_S)
    if said != _READY:
        raise BrokenRun(f"a worker did not get ready\n{tail(process.stderr)}")
    inbox.setblocking(True)  # noqa: FBT003 -- the standard library's own signature
