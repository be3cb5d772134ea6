"""On what machine was this measured, and how busy was it?"""

from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import msgspec


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """`usable_cores` follows affinity and the cgroup's quota, never the machine's count; `load_1min` is before."""

    name: str
    system: str
    machine: str
    cpu_model: str
    usable_cores: float
    memory_gib: float
    load_1min: float


def this_host() -> Host:
    """Look at this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Host(
        name=socket.gethostname(),
        system=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        cpu_model=_cpu_model(),
        usable_cores=min(float(len(os.sched_getaffinity(0))), _quota_cores()),
        memory_gib=round(memory / 2**30, 1),
        load_1min=round(os.getloadavg()[0], 2),
    )


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    for line in cpuinfo.read_text().splitlines() if cpuinfo.exists() else ():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model"}:
            return value.strip()
    return platform.processor() or "unknown"


def _quota_cores() -> float:
    """Return the cgroup's CPU quota in cores, without limit as infinity (cgroup v2: cpu.max)."""
    file = Path("/sys/fs/cgroup/cpu.max")
    quota, _, period = file.read_text().strip().partition(" ") if file.exists() else ("max", "", "")
    return float("inf") if quota == "max" else float(quota) / float(period)
