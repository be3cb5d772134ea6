"""How does a started simulator come to its end, and who wanted it?

Method: a task waits for its exit. An exit that nobody asked for interrupts the block that it happens in; after a
`kill` the block goes on, since whoever killed it wants to see what follows. Whether it had ended by itself is what
`Process.stop` says: it keeps its reason only where the process was still running.
"""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress

from loadproof.ended import Ended
from loadproof.errors import BrokenRun
from loadproof.process import Process
from loadproof.simulators.interruption import Interruption
from loadproof.simulators.problems import NAME, SimDied

KILL_WAIT_S = 5.0
_STOPPED = "was stopped by the harness"


class Life:
    """Of one simulator; `ended` is None while it runs, and before."""

    def __init__(self) -> None:
        self.ended: Ended | None = None
        self._process: Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._killed = self._ending = self._forced = False
        self._dead = asyncio.Event()
        self._problem: SimDied | None = None

    @property
    def over(self) -> bool:
        """Whether it has ended, or is about to, for any reason."""
        return self._killed or self._ending or self._dead.is_set()

    def hold(self, process: Process) -> None:
        """Take charge of its end; a process held before it has ended already. After a `kill` it is killed at once."""
        self._process = process
        if self._killed:
            process.kill()

    def watch(self, process: Process, interruption: Interruption) -> None:
        """From now on its death interrupts."""
        self._watcher = asyncio.create_task(self._watch(process, interruption))

    async def _watch(self, process: Process, interruption: Interruption) -> None:
        await process.exited()
        with suppress(BrokenRun):  # something of it outlives KILL: told again by `end`
            self.ended = await process.stop("")
        self._dead.set()
        if not self._killed:
            interruption.send()

    async def died(self) -> None:
        """Wait until it has ended without being asked to end, or by `kill`; for ever where that does not happen."""
        await self._dead.wait()

    def kill(self) -> None:
        """KILL to it and all that it started, or to what will be held; nothing happens when it has ended."""
        self._killed |= not self.over
        self._forced = True
        if self._process is not None:
            self._process.kill()

    async def end(self, grace_s: float) -> None:
        """End it: TERM, `grace_s` seconds, TERM, `grace_s` seconds, KILL; reap. Raises BrokenRun as `Process.stop`."""
        self._ending, process = True, self._process
        if process is None:
            return
        if self._watcher is not None:
            self._watcher.cancel()
        our_kill_ns = time.monotonic_ns() + round(2 * grace_s * 1e9)  # at the earliest
        # After a KILL it is only waited for: a stop before the exit has come would be taken for the cause.
        ended = self.ended = await (process.wait(KILL_WAIT_S) if self._killed else _stopped(process, grace_s))
        others = ended.exit_code == -signal.SIGKILL and ended.ended_ns < our_kill_ns and not self._forced
        if ended.stopped_because != _STOPPED or others:
            self._dead.set()

    def log_tail(self) -> str:
        """Return the last lines of its log; empty before it has started."""
        return self._process.tail() if self._process else ""

    async def death(self) -> SimDied | None:
        """Return the same as `problem`, after the moment that it takes to learn of a death that is certain."""
        if not self._ending:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.died(), KILL_WAIT_S)
        return self.problem()

    def problem(self) -> SimDied | None:
        """Return that it has died, always the same object; None if it has not, or not yet."""
        if self._problem is None and self._dead.is_set():
            how = self.ended.says() if self.ended else "ended"
            why = "it was killed on purpose (`kill`)" if self._killed else "nobody had asked it to end"
            self._problem = SimDied(f"{NAME} {how}, in the middle of the run: {why}\n{self.log_tail()}")
        return self._problem


async def _stopped(process: Process, grace_s: float) -> Ended:
    """Two stops that overlap: the first one's TERM waits for its streams, the second one's ends it, then KILL."""
    first = asyncio.create_task(process.stop(_STOPPED, grace_s=2 * grace_s))
    await asyncio.wait({first}, timeout=grace_s)
    if not first.done():
        await process.stop(_STOPPED, grace_s=grace_s)
    return await first
