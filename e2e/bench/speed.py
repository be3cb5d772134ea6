"""How fast is the absorber, and how far is it from the bars that it has to reach?

One command, one table: `python e2e/bench/speed.py`. Every ratio is of two costs of the same run, with rounds
in turn and the least of several; the machine's quietness is printed, not assumed. It measures and prints:
nothing is asserted, and the exit status is 0 whenever it measured. Left out: whether the times are right
(`calibrate.py`).
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from bench.speed_parts import idle, paced, ratios, recording
from bench.speed_parts.machine import OTHERS_LIMIT, STEAL_LIMIT, two_cores
from bench.speed_parts.ratios import Plan, Say
from bench.speed_parts.table import Row, absent, markdown, print_table
from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.host import this_host

GROUPS: dict[str, Callable[[Plan, Say], list[Row]]] = {
    "ratios": ratios.measure,
    "paced": paced.measure,
    "recording": recording.measure,
    "idle": idle.measure,
}
PROGRAMS = {"nginx": "nginx-light", "wrk": "wrk", "taskset": "util-linux", "setpriv": "util-linux"}


class _Parser(argparse.ArgumentParser):
    """Argparse with our exit status for usage."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong."""
        raise UsageProblem(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="speed.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=sorted(GROUPS), help="a group of rows; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each kind (default 5)")
    parser.add_argument("--seconds", type=int, default=2, help="whole seconds a round (default 2)")
    parser.add_argument("--seed", type=int, default=1, help="of the prompts' words and of draws (default 1)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the table there as Markdown, too")
    parser.add_argument("--profile", type=Path, metavar="DIR", help="sample what misses its bar; a text file each")
    parser.add_argument("--target", action="append", choices=[target.name for target in ratios.TARGETS], default=[],
                        help="only the ratios, and of them this beside nginx and aiohttp; may be repeated")  # fmt: skip
    return parser


def _checked(given: argparse.Namespace) -> None:
    if given.rounds < 1 or given.seconds < 1:
        raise UsageProblem("--rounds and --seconds must be at least 1")
    missing = [f"{name} (Debian package {package})" for name, package in PROGRAMS.items() if not shutil.which(name)]
    if missing:
        raise UsageProblem(f"the speed bench needs {', '.join(missing)}; install that and try again")


def _heading(plan: Plan) -> list[str]:
    host = this_host()
    nginx = subprocess.run(["nginx", "-v"], capture_output=True, text=True, check=False).stderr.strip()
    wrk = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout.split(" [")[0]
    machine = (
        f"{host.cpu_model}, {host.usable_cores:g} usable cores, {host.memory_gib} GiB, {host.system}; load before "
        f"{host.load_1min}; server on core {plan.cores.server}, client on core {plan.cores.client}"
    )
    versions = f"{nginx}, {wrk}, aiohttp {version('aiohttp')}, uvloop {version('uvloop')}"
    method = (
        f"{plan.rounds} rounds of {plan.seconds} s, seed {plan.seed}; not quiet means: steal above {STEAL_LIMIT:.0%} "
        f"or others above {OTHERS_LIMIT:.0%} of a core"
    )
    return [machine, f"Python {platform.python_version()}, {versions}", method]


def _measured(names: Sequence[str], plan: Plan, say: Say) -> list[Row]:
    rows: list[Row] = []
    for name in names:
        try:
            rows += GROUPS[name](plan, say)
        except UsageProblem:
            raise
        except LoadproofError as error:
            say(str(error))
            rows.append(absent(name, f"{name}: all rows", str(error).splitlines()[0], broken=True))
    return rows


def main() -> int:
    """Measure and print."""
    console = Console(width=None if sys.stdout.isatty() else 200, highlight=False)
    try:
        given = _parser().parse_args()
        _checked(given)
        cores = two_cores()
        with tempfile.TemporaryDirectory(prefix="loadproof-speed-") as folder:
            plan = Plan(cores, given.seconds, given.rounds, given.seed, Path(folder),
                        given.profile, frozenset(given.target))  # fmt: skip
            heading = _heading(plan)
            os.sched_setaffinity(0, {cores.client})
            for line in heading:
                console.print(line, markup=False)
            rows = _measured(
                given.only or (["ratios"] if given.target else list(GROUPS)),
                plan,
                lambda text: console.print(text, markup=False),
            )
    except UsageProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return Exit.USAGE
    print_table(console, rows)
    if any("NOT QUIET" in row.machine for row in rows):
        console.print("The machine was not quiet: run again when nothing else runs, and trust ratios before numbers.")
    if given.markdown:
        given.markdown.write_text(markdown(rows, heading))
    return Exit.CLEAN


if __name__ == "__main__":
    sys.exit(main())
