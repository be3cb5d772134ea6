"""Does anything outlive a run of which one process is killed, and what does its journal keep?

    python e2e/bench/kills.py [--times 100] [--seed 0] [--isolate] [--only VICTIM] [--json FILE]

Each time a real `loadproof run` is made, with a tool that ignores TERM and leaves daemons without environment and in
sessions of their own; at a seeded random moment (one in five while the run is still loading) SIGKILL goes to the
harness, a warden, the tool or the absorber. Afterwards: no process and no port is left, the run is judged `broken`
and its journal opens, of what the tool had got answered at most the last 200 ms is missing, and what was in flight
is visible. Exit codes: 0 all of it held, 1 something did not, 64 usage.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench.killing.once import Outcome, one_round
from bench.killing.victims import ISOLATED
from loadproof.errors import Exit
from loadproof.host import this_host
from loadproof.warden import PR_SET_CHILD_SUBREAPER

_LIMIT = "{:>4} {:28} {:>8} {:>8} {:>5} {:>5} {:>6} {:>9} {:>5} {:>8} {:>9}  {}\n"
HEADER = _LIMIT.format("", "killed", "after ms", "gone ms", "left", "ports", "rows", "answered", "lost", "lost ms",
                       "in flight", "judge says")  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Kill, print a table, and return the exit code."""
    args = _arguments(argv)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    host = this_host()
    where = f"{host.cpu_model}, {host.usable_cores:g} cores, {host.system}, load before {host.load_1min:g}"
    how = ", isolated" if args.isolate else ""
    sys.stdout.write(f"seed {args.seed}, {args.times} times{how}; {where}\n{HEADER}")
    outcomes = []
    for number in range(args.times):
        with tempfile.TemporaryDirectory(prefix="kills-") as folder:
            outcome = one_round(Path(folder), number, args.seed, isolate=args.isolate, only=args.only)
        outcomes.append(outcome)
        sys.stdout.write(_line(outcome))
        sys.stdout.flush()
    sys.stdout.write(_summary(outcomes))
    if args.json is not None:
        args.json.write_bytes(msgspec.json.encode(outcomes))
    return Exit.FAIL if any(outcome.wrong for outcome in outcomes) else Exit.CLEAN


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     exit_on_error=False)  # fmt: skip
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--isolate", action="store_true", help="with --isolate pid; kill all at once, too")
    parser.add_argument("--only", choices=list(ISOLATED), default="", help="kill only this")
    parser.add_argument("--json", type=Path, help="write what was seen there, too")
    try:
        return parser.parse_args(argv)
    except argparse.ArgumentError as problem:
        sys.stderr.write(f"kills: {problem}; `--help` lists the arguments\n")
        raise SystemExit(Exit.USAGE) from problem


def _line(one: Outcome) -> str:
    seen, due = one.in_flight
    line = _LIMIT.format(one.number, one.victim, f"{one.after_ms:.0f}", f"{one.gone_ms:.0f}", one.left, one.ports,
                         "" if one.rows is None else one.rows, one.answered, one.lost, f"{one.lost_ms:.0f}",
                         f"{seen} of {due}", one.says)  # fmt: skip
    return line + "".join(f"     WRONG: {what}\n" for what in one.wrong)


def _summary(outcomes: Iterable[Outcome]) -> str:
    seen = list(outcomes)
    gone = sorted(one.gone_ms for one in seen if one.victim.startswith("harness"))
    swept = f"{gone[len(gone) // 2]:.0f} ms (median), {gone[-1]:.0f} ms (most)" if gone else "unknown"
    return (
        f"{len(seen)} kills: {sum(bool(one.wrong) for one in seen)} with something wrong, {sum(o.left for o in seen)} "
        f"processes and {sum(o.ports for o in seen)} ports left, at most {max(o.lost_ms for o in seen):.0f} ms of "
        f"answered requests lost ({sum(o.lost for o in seen)} in all), {sum(o.in_flight[0] for o in seen)} of "
        f"{sum(o.in_flight[1] for o in seen)} in flight visible; all gone after the harness was killed: {swept}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
