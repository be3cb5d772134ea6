"""How long do sealing and judging a long run take, how much memory, and does either grow faster than the run?

    python e2e/bench/judging.py [--requests N ...] [--chunks 16] [--body-bytes 800] [--seed 1] [--rounds 3]

Makes the live streams of such a run with the real writer, seals them and judges the journal (an open loop, from the
file to the findings), each in a process of its own on one core. Judging is repeated; the least counts. It measures and
prints: nothing is asserted, and the exit status is 0 whenever it measured. `user` and `system` are CPU seconds of the
whole process, imports too: memory that the system hands out slowly shows as `system`. Left out: how fast the absorber
records (`speed.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from loadproof.errors import BrokenRun, Exit, LoadproofError, UsageProblem
from loadproof.host import this_host

ONCE = Path(__file__).parent / "judging_parts" / "once.py"
SIZES = (250_000, 500_000, 1_000_000)
BARS = {"seal": "1,000,000: <= 40 s, <= 2048 MiB", "judge": "1,000,000: <= 3 s, <= 1024 MiB"}


class Took(NamedTuple):
    """One step: seconds of the step, of imports, of CPU of the whole process, and its peak memory."""

    wall_s: float
    cpu_s: float
    import_s: float
    user_s: float
    system_s: float
    peak_mib: int


def main(argv: list[str] | None = None) -> int:
    """Measure and print."""
    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    try:
        given = _arguments(argv)
        host = this_host()
        console.print(f"{host.cpu_model}, {host.usable_cores:g} usable cores, {host.memory_gib} GiB, {host.system}; "
                      f"load before {host.load_1min}; seed {given.seed}; {given.chunks} chunks a reply, bodies of "
                      f"{given.body_bytes} bytes", markup=False)  # fmt: skip
        rows = [(step, n, took) for n in given.requests or SIZES for step, took in _measured(n, given).items()]
    except LoadproofError as problem:
        sys.stderr.write(f"{problem}\n")
        return Exit.USAGE if isinstance(problem, UsageProblem) else Exit.BROKEN
    console.print(_table(rows))
    return Exit.CLEAN


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="judging.py", description=(__doc__ or "").splitlines()[0],
                                     exit_on_error=False)  # fmt: skip
    parser.add_argument("--requests", type=int, action="append", help=f"may be repeated (default {SIZES})")
    parser.add_argument("--chunks", type=int, default=16, help="of each reply (default 16)")
    parser.add_argument("--body-bytes", type=int, default=800, help="of each request (default 800, at least 300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3, help="of judging (default 3)")
    try:
        given = parser.parse_args(argv)
    except argparse.ArgumentError as problem:
        raise UsageProblem(f"{problem}; see --help") from problem
    if min([*(given.requests or SIZES), given.chunks, given.rounds]) < 1 or given.body_bytes < 300:
        raise UsageProblem("--requests, --chunks and --rounds must be at least 1, --body-bytes at least 300")
    return given


def _measured(requests: int, given: argparse.Namespace) -> dict[str, Took]:
    plan = {"requests": requests, "chunks": given.chunks, "body_bytes": given.body_bytes, "seed": given.seed}
    with tempfile.TemporaryDirectory(prefix="loadproof-judging-") as folder:
        _step("make", Path(folder), plan)
        sealed = _step("seal", Path(folder), plan)
        judged = [_step("judge", Path(folder), plan) for _ in range(given.rounds)]
    return {"seal": sealed, "judge": min(judged, key=lambda took: took.wall_s)}


def _step(step: str, folder: Path, plan: dict[str, int]) -> Took:
    """Do a step in a process of its own. Raises BrokenRun when it does not end as it must."""
    # The peak memory of a child is at least its parent's: this process imports little, and makes nothing itself.
    with subprocess.Popen([sys.executable, ONCE, step, folder, json.dumps(plan)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None  # noqa: S101 -- it is a pipe
        told = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise BrokenRun(f"{step} ended with exit code {child.returncode}; what it wrote is above")
    said = json.loads(told)
    step_s = said["wall_s"], said["cpu_s"], said["import_s"]
    return Took(*step_s, usage.ru_utime, usage.ru_stime, usage.ru_maxrss // 1024)


def _table(rows: list[tuple[str, int, Took]]) -> Table:
    table = Table("step", "requests", "wall s", "CPU s", "us a request", "import s", "user s", "system s", "peak MiB",
                  "KiB a request", "bar")  # fmt: skip
    for step, n, took in sorted(rows, key=lambda row: (row[0] != "seal", row[1])):
        table.add_row(step, f"{n:,}", f"{took.wall_s:.2f}", f"{took.cpu_s:.2f}", f"{took.cpu_s / n * 1e6:.2f}",
                      f"{took.import_s:.2f}", f"{took.user_s:.2f}", f"{took.system_s:.2f}", f"{took.peak_mib}",
                      f"{took.peak_mib * 1024 / n:.2f}", BARS[step])  # fmt: skip
    return table


if __name__ == "__main__":
    sys.exit(main())
