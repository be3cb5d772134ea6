"""On which core does each part of the bench run, how much CPU did it use, and was the machine quiet?

Servers run on the last usable core, clients on the first. A thread's CPU is the kernel's own nanoseconds
(/proc/PID/task/TID/schedstat; time stolen by the hypervisor is not in it). Whether the machine was quiet
comes from /proc/stat: steal, and what all cores did beyond the processes of the bench. Left out: frequency
and caches, against which only interleaved rounds help.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import msgspec

from loadproof.errors import BrokenRun, UsageProblem

STOP_GRACE_S = 120.0  # a journal of many requests is written then
STEAL_LIMIT = 0.02  # of one core
OTHERS_LIMIT = 0.10  # of one core; the kernel counts all cores in ticks, which alone is good for a few percent
TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")


class Cores(msgspec.Struct, frozen=True):
    """One core for the server that is measured, another for whoever loads it."""

    server: int
    client: int


def two_cores() -> Cores:
    """Return the cores to use, or raise UsageProblem where there is only one."""
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < 2:
        raise UsageProblem("the speed bench needs two cores, one for the server and one for its client; this process "
                           f"may use only core {usable[0]}: widen its affinity (taskset) or its container")  # fmt: skip
    return Cores(server=usable[-1], client=usable[0])


@contextmanager
def child(
    argv: Sequence[str], *, core: int, stderr: IO[bytes], pass_fds: Sequence[int] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Run `argv` on one core until the block is left: TERM, then KILL; it dies with us, however we die."""
    pinned = ["setpriv", "--pdeathsig", "KILL", "taskset", "-c", str(core), *argv]
    process = subprocess.Popen(pinned, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                               pass_fds=pass_fds)  # fmt: skip
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> int:
    """End a child if it still runs, reap it, and return its exit status."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        process.communicate(timeout=STOP_GRACE_S)  # reads on, so that a full pipe cannot hold it
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


def threads_ns(pid: int) -> dict[int, int]:
    """Return the CPU nanoseconds of each thread that the process has now, by thread id."""
    used = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            used[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return used


class ThreadUse(msgspec.Struct, frozen=True):
    """CPU nanoseconds between two moments: the main thread, the busiest other one, all the rest."""

    loop: int
    second: int
    rest: int

    @property
    def whole(self) -> int:
        """All threads together."""
        return self.loop + self.second + self.rest


def use_between(pid: int, before: Mapping[int, int], after: Mapping[int, int]) -> ThreadUse:
    """Return what the threads of `pid` used; a thread that is new began at zero."""
    used = {tid: ns - before.get(tid, 0) for tid, ns in after.items()}
    loop = used.pop(pid)
    others = sorted(used.values(), reverse=True)
    return ThreadUse(loop=loop, second=others[0] if others else 0, rest=sum(others[1:]))


def wait_until_idle(pid: int, *, deadline_s: float = 60.0, span_s: float = 0.25) -> None:
    """Wait until the process uses less than 3 % of a core: what it still owes would fall into another's round.

    Raises BrokenRun if it is not idle in time.
    """
    limit = time.monotonic() + deadline_s
    while time.monotonic() < limit:
        before = sum(threads_ns(pid).values())
        time.sleep(span_s)
        if sum(threads_ns(pid).values()) - before < 0.03 * span_s * 1e9:
            return
    raise BrokenRun(f"process {pid} still works {deadline_s:g} s after its load ended: its cost is not known")


def pss_bytes(pid: int) -> int:
    """Return the process's proportional share of memory."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    raise UsageProblem("the kernel does not say PSS (no smaps_rollup): the row of idle connections needs it")


class Moment(msgspec.Struct, frozen=True):
    """All cores at one moment: nanoseconds of CLOCK_MONOTONIC, busy and stolen CPU nanoseconds since boot."""

    at: int
    busy: int
    stolen: int


def moment(proc_stat: str | None = None) -> Moment:
    """Read /proc/stat (or the text given)."""
    line = (proc_stat or Path("/proc/stat").read_text()).splitlines()[0]
    user, nice, system, _idle, _iowait, irq, softirq, steal = (int(word) for word in line.split()[1:9])
    return Moment(time.monotonic_ns(), (user + nice + system + irq + softirq) * TICK_NS, steal * TICK_NS)


class Quiet(msgspec.Struct, frozen=True):
    """How far the machine was ours: shares of one core that the hypervisor stole and that others used."""

    stolen: float
    others: float

    @property
    def disturbed(self) -> bool:
        """Whether a number measured meanwhile is doubtful."""
        return self.stolen > STEAL_LIMIT or self.others > OTHERS_LIMIT

    def says(self) -> str:
        """Return both shares of a core in words."""
        return f"steal {self.stolen:.1%}, others {self.others:.0%}"


def quiet_between(before: Moment, after: Moment, ours_ns: int) -> Quiet:
    """Judge a span in which our own processes used `ours_ns` of CPU."""
    span = max(1, after.at - before.at)
    return Quiet((after.stolen - before.stolen) / span, max(0.0, (after.busy - before.busy - ours_ns) / span))
