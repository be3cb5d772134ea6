"""How often do the checks alarm where nothing is wrong, and how often are they silent where something is?

One command, Markdown tables: `python e2e/bench/error_rates.py`. All is forged and seeded, nothing is run and nothing is
timed: the tables of a seed are the same on every machine. Exit status 0: no honest run failed and no statistic alarms
more often than its level; 1: one did. Left out: real clients and the real server (`honest.py`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from bench.error_rates_parts import false_alarms, honest_runs, misses
from bench.error_rates_parts.honest_cases import forms
from bench.error_rates_parts.spreading import cores
from loadproof.errors import Exit, LoadproofError, UsageProblem


@dataclass(frozen=True)
class Size:
    """How much is forged."""

    false_alarms: dict[int, int]
    honest: int
    misses: int


OTHER_LAWS = 10
"""So many times fewer runs are forged of other laws than Poisson's."""

FULL = Size(false_alarms.RUNS, 3000, 60)
QUICK = Size({200: 1000, 600: 500, 2000: 300, 10_000: 20}, 180, 2)


@dataclass(frozen=True)
class Part:
    """The text of a part's tables, and what is wrong in it."""

    text: str
    wrong: list[str]


def _false_alarms(seed: int, size: Size, processes: int) -> Part:
    found = false_alarms.measured(seed, size.false_alarms, processes, others=OTHER_LAWS)
    tables = [f"### At {level:g}\n\n{false_alarms.table(found, level)}" for level in false_alarms.LEVELS]
    return Part(
        "## False alarms of each statistic without its floor\n\n" + "\n".join(tables), false_alarms.above(found)
    )


def _honest(seed: int, size: Size, processes: int) -> Part:
    found = honest_runs.measured(seed, -(-size.honest // len(forms())), processes)
    return Part(
        "## Whole honest runs\n\n" + honest_runs.table(found), [told for o in found.values() for told in o.told]
    )


def _misses(seed: int, size: Size, processes: int) -> Part:
    rates, dials = misses.rates(seed, size.misses, processes), misses.dials(seed, size.misses, processes)
    text = f"### The rate\n\n{misses.rate_table(rates)}\n### Everything else\n\n{misses.dial_table(dials)}"
    wrong = [*misses.too_often(rates, dial=False), *misses.too_often(dials, dial=True)]
    return Part(f"## Misses\n\n{text}", wrong)


PARTS: dict[str, Callable[[int, Size, int], Part]] = {
    "false-alarms": _false_alarms,
    "honest": _honest,
    "misses": _misses,
}


class _Parser(argparse.ArgumentParser):
    """Argparse with our exit status for usage."""

    def error(self, message: str) -> NoReturn:
        """End with what is wrong."""
        raise UsageProblem(f"{message}; see --help")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="error_rates.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=sorted(PARTS), help="a part; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a minute of it: the same tables of far fewer runs")
    parser.add_argument("--seed", type=int, default=1, help="of all that is random (default 1)")
    parser.add_argument("--processes", type=int, default=cores(), help="at once (default: the usable cores)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there, too")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print the tables and return the exit status."""
    given = _parser().parse_args(arguments)
    if given.processes < 1:
        raise UsageProblem(f"--processes must be at least 1, got {given.processes}")
    texts, wrong = [f"Seed {given.seed}{', quick' if given.quick else ''}.\n"], []
    for name in given.only or PARTS:
        began = time.monotonic()
        part = PARTS[name](given.seed, QUICK if given.quick else FULL, given.processes)
        sys.stderr.write(f"{name}: {time.monotonic() - began:.0f} s\n")
        texts.append(part.text)
        wrong += part.wrong
    text = "\n".join([*texts, *(["## Wrong\n", *(f"- {line}" for line in wrong)] if wrong else [])])
    sys.stdout.write(text + "\n")
    if given.markdown:
        given.markdown.write_text(text + "\n")
    return Exit.FAIL if wrong else Exit.CLEAN


if __name__ == "__main__":
    try:
        sys.exit(main())
    except LoadproofError as error:
        sys.exit(f"error_rates.py: {error}")
