"""Is an honest sender ever called wrong? The reference sender over all laws and stage forms, again and again.

    python e2e/bench/honest.py [--runs 50] [--seed 0] [--only CASE] [--json FILE]

The cases of e2e/tests/arrivals in turn, each run with another seed, through the real absorber and all checks. A line a
run: outcome, what failed or was unclear, how late the absorber wrote and read (p50, p99, max), and the machine's load.
Exit codes: 0 none failed and at most one in ten was unclear, 1 otherwise, 64 usage. Left out: wrong senders, which the
tests have, and false alarms too rare for real runs, which are measured on forged journals.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from loadproof import bench
from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.host import this_host
from loadproof.judging import Judgement
from loadproof.plain_words import nearest
from loadproof.verdict import Outcome

CASES = Path(__file__).parents[1] / "tests" / "arrivals" / "cases"
MOST_UNCLEAR = 0.1
_LINE = "{:>4} {:26} {:>9} {:8} {:28} {:36} {:>5}  {}\n"
HEADER = _LINE.format("", "case", "seed", "outcome", "late writes, ms", "late reads, ms", "load", "failed or unclear")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One run; `findings` are the names of those that count and did not pass, with their outcome."""

    case: str
    seed: int
    outcome: Outcome
    late: str
    lag: str
    load_1min: float
    findings: list[str]
    reason: str


def main(argv: list[str] | None = None) -> int:
    """Run, print the table, and return the exit code."""
    try:
        return _run(_arguments(argv))
    except LoadproofError as problem:
        sys.stderr.write(f"honest: {problem}\n")
        return problem.exit_code


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     exit_on_error=False)  # fmt: skip
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; each later one has the next")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="these cases alone")
    parser.add_argument("--json", type=Path, help="write the rows there, too")
    try:
        args = parser.parse_args(argv)
    except argparse.ArgumentError as problem:
        raise UsageProblem(f"{problem}; `--help` lists the arguments") from problem
    if args.runs < 1:
        raise UsageProblem(f"--runs {args.runs}: at least 1")
    return args


def _run(args: argparse.Namespace) -> int:
    folders = _folders(args.only)
    host = this_host()
    sys.stdout.write(f"{args.runs} runs from seed {args.seed}; {host.cpu_model}, {host.usable_cores:g} cores, "
                     f"{host.system}\n{HEADER}")  # fmt: skip
    rows = []
    for number, row in enumerate(itertools.islice(_rows(folders, args.seed), args.runs), start=1):
        rows.append(row)
        sys.stdout.write(_LINE.format(number, row.case, row.seed, row.outcome, row.late, row.lag,
                                      f"{row.load_1min:.1f}", "; ".join(row.findings) or row.reason))  # fmt: skip
        sys.stdout.flush()
    if args.json is not None:
        args.json.write_bytes(msgspec.json.encode(rows))
    return _summed_up(rows)


def _folders(names: Sequence[str]) -> list[Path]:
    known = {path.name: path for path in sorted(CASES.iterdir()) if path.is_dir()}
    if unknown := next((name for name in names if name not in known), None):
        raise UsageProblem(f"--only {unknown}: no such case{nearest(unknown, known)}; known are {', '.join(known)}")
    return [known[name] for name in names or known]


def _rows(folders: Sequence[Path], seed: int) -> Iterator[Row]:
    """Yield a row for each case in turn, without end."""
    for folder, own_seed in zip(itertools.cycle(folders), itertools.count(seed)):
        load_1min = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="honest-") as out:
            [job] = bench.plan_jobs([folder], ["metronome"], Path(out), own_seed)
            judgement = asyncio.run(bench.run_job(job, lambda _progress: None))
        yield _row(folder.name, own_seed, judgement, load_1min)


def _row(case: str, seed: int, judgement: Judgement, load_1min: float) -> Row:
    measured = {finding.check: finding.measured for finding in judgement.findings}
    reason = judgement.verdict.reason.splitlines()
    told = [f"{finding.check} {finding.outcome}: {finding.measured}" for finding in judgement.findings
            if finding.counted and finding.outcome is not Outcome.PASS]  # fmt: skip
    return Row(case=case, seed=seed, outcome=judgement.verdict.outcome, late=measured.get("instrument.lateness", ""),
               lag=measured.get("instrument.lag", ""), load_1min=load_1min, findings=told,
               reason=" … ".join(dict.fromkeys(reason[:1] + reason[-1:])))  # fmt: skip


def _summed_up(rows: Sequence[Row]) -> int:
    seen = Counter(row.outcome for row in rows)
    wrong = seen[Outcome.FAIL] + seen[Outcome.BROKEN]
    most = int(len(rows) * MOST_UNCLEAR)
    sys.stdout.write(f"{len(rows)} runs: {seen[Outcome.FAIL]} failed, {seen[Outcome.BROKEN]} broken, "
                     f"{seen[Outcome.UNCLEAR]} unclear (at most {most} may be), {seen[Outcome.PASS]} passed\n"
                     )  # fmt: skip
    return Exit.FAIL if wrong or seen[Outcome.UNCLEAR] > most else Exit.CLEAN


if __name__ == "__main__":
    sys.exit(main())
