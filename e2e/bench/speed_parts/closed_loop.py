"""What does a request cost a server that a closed loop keeps busy?

One round: wrk with one thread and keep-alive connections posts bodies that no server has seen, and the
CPU of the server's threads is read before it starts and after the server has nothing left to do. So work
that a server puts off is counted, too. Left out: latency, which a closed loop on two cores cannot tell.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
import uuid
from importlib.resources import files
from pathlib import Path

import msgspec

from bench.speed_parts.machine import (
    Cores,
    Quiet,
    ThreadUse,
    child,
    moment,
    quiet_between,
    threads_ns,
    use_between,
    wait_until_idle,
)
from loadproof.errors import BrokenRun

SCRIPT = Path(__file__).with_name("body.lua")
WORDS = Path(str(files("loadproof.data").joinpath("words.txt")))
CONNECTIONS = 64


class Told(msgspec.Struct, frozen=True):
    """What wrk says of one round: answers, seconds, and its errors by kind."""

    requests: int
    seconds: float
    bytes: int
    connect: int
    read: int
    write: int
    status: int
    timeout: int


class Round(msgspec.Struct, frozen=True):
    """One round against one server; CPU in nanoseconds."""

    requests: int
    seconds: float
    use: ThreadUse
    quiet: Quiet

    @property
    def rate_per_s(self) -> float:
        """Answers per second of wall time."""
        return self.requests / self.seconds

    def per_request_us(self, cpu_ns: int) -> float:
        """Return CPU microseconds per answer."""
        return cpu_ns / self.requests / 1000


def read_told(output: str) -> Told:
    """Return the line that our script made wrk print. Raises BrokenRun for errors, for none, or for no answers."""
    lines = [line[1:] for line in output.splitlines() if line.startswith("@{")]
    if not lines:
        raise BrokenRun(f"wrk did not say how many requests were answered:\n{output}")
    told = msgspec.json.decode(lines[-1], type=Told)
    wrong = {name: getattr(told, name) for name in ("connect", "read", "write", "status", "timeout")}
    if any(wrong.values()) or not told.requests:
        raise BrokenRun(f"wrk had {told.requests} answers and these errors: {wrong}; such a round measures nothing")
    return told


def one_round(
    url: str, pid: int, *, cores: Cores, seconds: int, stream: bool, seed: int, connections: int = CONNECTIONS,
    settles: bool = True, fresh: bool = True,
) -> Round:  # fmt: skip
    """Load the server `pid` at `url` for some seconds and return what it cost; not `fresh`: one body, repeated."""
    argv = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "-s", str(SCRIPT), url]
    argv += ["--", str(seed), str(stream).lower(), uuid.uuid4().hex, "fresh" if fresh else "repeated", str(WORDS)]
    all_before, before, own = moment(), threads_ns(pid), own_ns()
    with tempfile.TemporaryFile() as errors, child(argv, core=cores.client, stderr=errors) as wrk:
        try:
            output, _ = wrk.communicate(timeout=seconds + 60)
        except subprocess.TimeoutExpired as error:
            raise BrokenRun(f"wrk did not end {seconds + 60} s after it began on {url}") from error
        errors.seek(0)
        said = errors.read()
    told = read_told((output + said).decode())
    if settles:  # a sampler that looks on keeps it busy
        wait_until_idle(pid)
    use = use_between(pid, before, threads_ns(pid))
    return Round(told.requests, told.seconds, use, quiet_between(all_before, moment(), use.whole + own_ns() - own))


def own_ns() -> int:
    """Return what we and our children that have ended (wrk) have used."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time_ns() + round((ended.ru_utime + ended.ru_stime) * 1e9)
