"""Who is there below a warden, and how much memory do they have?

Answered from the system's process table at the moment of the question. PSS counts shared pages once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil


def below(warden: int) -> Iterator[psutil.Process]:
    """Yield everything below a warden's inner twin: the command, and whatever any of its descendants left."""
    with suppress(psutil.Error):
        for process in psutil.Process(warden).children(recursive=True):
            with suppress(psutil.Error):
                if process.ppid() != warden:
                    yield process


def memory_below_bytes(warden: int) -> int:
    """Return the PSS of everything below a warden, in bytes; 0 when nothing is there."""
    total = 0
    for process in below(warden):
        with suppress(psutil.Error):
            total += process.memory_full_info().pss
    return total


def pid_outside(warden: int, pid_inside: int) -> int:
    """Return the pid, as we see it, of the process that has `pid_inside` in the warden's PID namespace; 0: gone."""
    for process in below(warden):
        with suppress(OSError):
            text = Path(f"/proc/{process.pid}/status").read_text()
            numbers = next((line.split()[1:] for line in text.splitlines() if line.startswith("NSpid:")), [])
            if numbers[1:] and numbers[-1] == str(pid_inside):
                return process.pid
    return 0
