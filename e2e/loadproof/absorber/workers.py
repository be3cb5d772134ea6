"""How do several processes serve one port, each connection in one of them?

A parent accepts and deals the sockets round-robin over a socket pair to each worker: when every process listened on
the port itself (SO_REUSEPORT), few connections left some without any. A worker is an absorber without a listener, with
streams of its own in the same folder; the parent seals them all. Left out: what needs to see every request
(`needs_one_worker`); judging uses one worker, more are for measuring how much a tool can do. A worker that is lost is
not replaced: what it had recorded or held is missing, so all ends as broken.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections import deque
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
STOP_DEADLINE_S = 30.0  # half of what the harness gives us: the journal has to be sealed, too
MOST_WORKERS = 64
MOST_WAITING = 4096  # connections that no worker has room for
RETRY_S = 0.001
_NUMBER = struct.Struct("=Q")
_READY = b"ready"


def needs_one_worker(profile: Profile) -> str:
    """Return why a profile has to see every request and what to do about it, empty if it does not have to."""
    if profile.slots is not None:
        return "all requests share its slots; leave --workers or slots out"
    if profile.draws:
        return "draws are keyed by how often a body came before; leave --workers out or use constants"
    return ""


def check_workers(workers: int, profile: Profile, *, recording: bool = True) -> None:
    """Raise UsageProblem for a number of workers that cannot be, or not with this profile or without recording."""
    if not 1 <= workers <= MOST_WORKERS:
        raise UsageProblem(f"--workers {workers}: must be between 1 and {MOST_WORKERS}")
    if workers > 1 and (why := needs_one_worker(profile)):
        raise UsageProblem(f"--workers {workers}: this profile needs one worker, because {why}")
    if workers > 1 and not recording:
        raise UsageProblem(f"--workers {workers}: workers always record; leave --workers or --no-recording out")


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
    """The parent's end: the workers, who have begun and are ready.

    It never waits for a worker: one whose inbox is full is passed over, and when all are full up to `MOST_WAITING`
    connections wait here, in their order. Those beyond are closed, and `stop` tells of them.
    """

    def __init__(self, inboxes: list[socket.socket], processes: list[Process]) -> None:
        self._loop = asyncio.get_running_loop()
        self._turns, self._processes = deque(inboxes), processes
        self._dealt = self._turned_away = 0
        self._waiting: deque[tuple[int, socket.socket]] = deque()
        self._retry: asyncio.TimerHandle | None = None

    def deal(self, sock: socket.socket) -> None:
        """Give a connection to the next worker that has room for it."""
        self._dealt += 1
        if not self._waiting and self._given(self._dealt, sock):
            return
        if len(self._waiting) == MOST_WAITING:
            self._turned_away += 1
            sock.close()
            return
        self._waiting.append((self._dealt, sock))
        self._retry = self._retry or self._loop.call_later(RETRY_S, self._deal_waiting)

    def _given(self, number: int, sock: socket.socket) -> bool:
        for _ in range(len(self._turns)):
            inbox = self._turns[0]
            self._turns.rotate(-1)
            with suppress(OSError):  # it is full; or its worker is gone, which ends us all soon
                socket.send_fds(inbox, [_NUMBER.pack(number)], [sock.fileno()])
                sock.close()
                return True
        return False

    def _deal_waiting(self) -> None:
        while self._waiting and self._given(*self._waiting[0]):
            self._waiting.popleft()
        self._retry = self._loop.call_later(RETRY_S, self._deal_waiting) if self._waiting else None

    async def one_has_ended(self) -> None:
        """Wait until a worker is gone, which none should be."""
        tasks = [asyncio.create_task(process.exited()) for process in self._processes]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def stop(self) -> None:
        """Let the workers come to their ends; connections that still wait are closed.

        Raises BrokenRun if a worker does not end well, or connections were turned away.
        """
        if self._retry is not None:
            self._retry.cancel()
        for closing in (*self._turns, *(sock for _, sock in self._waiting)):
            closing.close()
        all_ended = await asyncio.gather(*(process.wait(STOP_DEADLINE_S) for process in self._processes))
        wrong = [
            f"a worker {ended.says()}; the journal is kept, without what that worker still had\n{tail(process.stderr)}"
            for ended, process in zip(all_ended, self._processes, strict=True) if ended.exit_code != 0
        ]  # fmt: skip
        if self._turned_away:
            wrong.append(f"{self._turned_away} connections were closed because no worker took them; use more --workers")
        if wrong:
            raise BrokenRun("\n".join(wrong))


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
