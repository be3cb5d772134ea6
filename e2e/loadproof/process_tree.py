"""Who is there beside a process that we started, and how much memory do they have?

Answered from the system's process table at the moment of the question. PSS counts shared pages once.
"""

from __future__ import annotations

import os
from contextlib import suppress

import psutil


def group_lives(pgid: int) -> bool:
    """Return whether the process group has a member that is not a zombie."""
    try:
        os.killpg(pgid, 0)
    except ProcessLookupError:
        return False
    # An orphan that was killed stays a zombie for as long as the machine's first process does not look after it.
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError):
            if os.getpgid(process.pid) == pgid and process.status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def tree_memory_bytes(pid: int) -> int:
    """Return the PSS of the process and all its descendants, in bytes; 0 when it is gone."""
    total = 0
    with suppress(psutil.Error):
        root = psutil.Process(pid)
        for process in [root, *root.children(recursive=True)]:
            with suppress(psutil.Error):
                total += process.memory_full_info().pss
    return total
