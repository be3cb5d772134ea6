"""Which processes make up a run of ours, and how is one of them, or several in the same instant, killed?

A run is a harness, and for absorber and tool each an outer warden, an inner one and the program itself, each the
parent of the next. They are found in the system's process table from the harness downwards, by nothing but that.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress

import psutil

SINGLE = {
    "harness": ("harness",),
    "tool": ("tool",),
    "absorber": ("absorber",),
    "tool's outer warden": ("tool.outer",),
    "tool's inner warden": ("tool.inner",),
    "absorber's outer warden": ("absorber.outer",),
    "absorber's inner warden": ("absorber.inner",),
    "harness and a warden of each": ("harness", "tool.outer", "absorber.inner"),
}
ISOLATED = SINGLE | {
    "harness and all wardens": ("harness", "tool.outer", "tool.inner", "absorber.outer", "absorber.inner"),
}
"""With isolation, the one thing more that nothing may outlive."""


def members(harness: int) -> dict[str, int]:
    """Return the pids of those members of a run that are there now."""
    found = {"harness": harness}
    with suppress(psutil.Error):
        for outer in psutil.Process(harness).children():
            line = outer.cmdline()
            name = next((line[k + 1] for k, word in enumerate(line[:-1]) if word.endswith("/warden.py")), "")
            if name in {"tool", "absorber"}:
                found[f"{name}.outer"] = outer.pid
                for inner in outer.children()[:1]:
                    found[f"{name}.inner"] = inner.pid
                    for program in inner.children()[:1]:  # by pid: what it left came later
                        found[name] = program.pid
    return found


def kill(harness: int, names: tuple[str, ...], deadline_s: float) -> int:
    """Send KILL to these members, as soon as all are there; return when, in CLOCK_MONOTONIC ns; 0: they never were."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        there = members(harness)
        if all(name in there for name in names):
            for name in names:
                with suppress(ProcessLookupError):
                    os.kill(there[name], signal.SIGKILL)
            return time.monotonic_ns()
        time.sleep(0.005)  # what other processes do has no event for us
    return 0


def below(pid: int) -> list[psutil.Process]:
    """Return all that is below a process, without those that only wait to be reaped."""
    with suppress(psutil.Error):
        return [each for each in psutil.Process(pid).children(recursive=True) if _lives(each)]
    return []


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False
