"""How exact are our time stamps? Absorber and metronome against a packet capture on loopback.

    python e2e/bench/calibrate.py [--capture tcpdump|packet-socket] [--shift-us 200] [--markdown FILE]

Runs an absorber under the loads of `calibration.scenarios`, and the metronome against it, while every packet is
captured with nanosecond stamps; then compares our stamps with the packets that carried the very bytes. The bar:
a median error of at most 50 us in every row. Exit codes: 0 all rows hold, 1 some do not, 3 packets cannot be captured
here or something broke, 64 usage. `--shift-us` makes our stamps wrong before the comparison; 200 must end with 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.calibration.agreement import BAR_NS, Agreement
from bench.calibration.gather import CAPTURES, Gathered, gather
from loadproof.errors import BrokenRun, Exit, LoadproofError, UsageProblem
from loadproof.host import this_host

HEADER = ["scenario", "stamp", "n", "p50 of size", "p99", "max", "signed median", f"p50 <= {BAR_NS // 1000} us"]


def main(argv: list[str] | None = None) -> int:
    """Calibrate and return the exit code."""
    try:
        return _run(_arguments(argv))
    except LoadproofError as problem:
        sys.stderr.write(f"calibrate: {problem}\n")
        return problem.exit_code


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     exit_on_error=False)  # fmt: skip
    parser.add_argument("--capture", choices=sorted(CAPTURES), help="by default tcpdump where it can be used")
    parser.add_argument("--shift-us", type=float, default=0.0, help="added to our stamps before the comparison")
    parser.add_argument("--scale", type=float, default=1.0, help="how many times the usual counts")
    parser.add_argument("--seed", type=int, default=0, help="of the metronome's prompts and arrivals")
    parser.add_argument("--markdown", type=Path, help="write the table there, too")
    parser.add_argument("--keep", type=Path, help="a new folder for capture and journal; by default they are dropped")
    try:
        return parser.parse_args(argv)
    except argparse.ArgumentError as problem:
        raise UsageProblem(f"{problem}; `--help` lists the arguments") from problem


def _run(args: argparse.Namespace) -> int:
    capture = args.capture or next((name for name, why_not in CAPTURES.items() if not why_not()), "packet-socket")
    if reason := CAPTURES[capture]():
        raise BrokenRun(reason)
    if args.keep is not None and args.keep.exists():
        raise UsageProblem(f"--keep {args.keep}: is there already; name a new folder")
    with tempfile.TemporaryDirectory(prefix="calibrate-") as temporary:
        folder = args.keep or Path(temporary)
        gathered = asyncio.run(gather(folder, capture=capture, scale=args.scale, seed=args.seed))
    agreements = gathered.agreements(round(args.shift_us * 1000))
    text = report(gathered, agreements, capture=capture, shift_us=args.shift_us, seed=args.seed)
    sys.stdout.write(text)
    if args.markdown is not None:
        args.markdown.write_text(text)
    return Exit.CLEAN if agreements and all(one.holds for one in agreements) else Exit.FAIL


def report(gathered: Gathered, agreements: Sequence[Agreement], *, capture: str, shift_us: float, seed: int) -> str:
    """Return the table as Markdown, all errors in microseconds, and under which conditions it came about."""
    host = this_host()
    rows = [HEADER, ["---"] * 2 + ["---:"] * 5 + ["---"], *(one.cells() for one in agreements)]
    table = "\n".join("| " + " | ".join(row) + " |" for row in rows)
    shifted = f" Our stamps were shifted by {shift_us:g} us on purpose." if shift_us else ""
    return (
        f"{table}\n\nErrors in us, ours minus the capture's ({capture}, {len(gathered.seen)} requests, seed {seed})."
        f"{shifted} claims.json is made of the metronome's stamps, checked. The distance of the two clocks is known"
        f" to {gathered.bridge.width_ns / 1e3:.1f} us and moved by"
        f" {gathered.bridge.drift_ns / 1e3:+.1f} us meanwhile. Absorber: {gathered.journal.metadata.scheduling}"
        f" scheduling. {host.cpu_model}, {host.usable_cores:g} cores, {host.system}, load before"
        f" {host.load_1min:g}.\n"
    )


if __name__ == "__main__":
    sys.exit(main())
