"""How often is a wrong client missed, by how wrong it is and by how many requests there are?

The rate against deviations of 1 to 20 %; every other statistical finding against 0.5 to 2 times the smallest deviation
that it prints beside an honest run's pass, by `dials`. What is smaller than that is missed by nature, and so is what
has too few requests for an answer; beyond it one in ten is missed at most (the printed deviation has 90 % power).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from bench.error_rates_parts.dials import DIALS
from bench.error_rates_parts.intervals import Seen
from bench.error_rates_parts.spreading import spread
from bench.error_rates_parts.tables import markdown
from loadproof.case import Case
from loadproof.checks.every import CHECKS
from loadproof.checks.question import Question
from loadproof.journal import Journal
from loadproof.load.measured import measure
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge_client import calls_of, recorded
from tests.unit.wrong_kind import rate_of

LAWS = ("constant", "fixed-span", "fixed-span(4)", "poisson", "gamma(0.5)", "gamma(4)")
SIZES = (100, 600, 2000, 10_000)
DEVIATIONS = tuple(side * size for size in (0.01, 0.02, 0.05, 0.1, 0.2) for side in (-1, 1))
FACTORS = (0.5, 1.0, 1.5, 2.0)
POWER = 0.9
ROUNDED = 0.0005
"""Deviations are printed to a tenth of a per cent; a bound that is met exactly is as often missed as seen."""

UNITS = {"ms": 1e-3, "s": 1.0, "%": 1e-2, "": 1.0}


@dataclass(frozen=True)
class Cell:
    """Wrong clients of one kind, size and number of requests: a law and its deviation, or a dial and a factor."""

    seed: int
    kind: int
    n: int
    size: float
    runs: int


@dataclass(frozen=True)
class Missed:
    """Of so many runs: missed, and without an answer; `smallest` is what an honest twin's pass prints."""

    missed: Seen
    unclear: int
    smallest: str
    possible: bool = True


def ask_one(check: str, asked: Case, forged: Journal) -> Finding:
    """Return one finding, asking no more than its own check."""
    load = measure(forged)
    question = Question(asked.expected, asked.declaration(forge.TOOL), load)
    return next(found for found in CHECKS[check.split(".", maxsplit=1)[0]](question) if found.check == check)


def amounts(text: str) -> list[float]:
    """Return the numbers of a printed deviation, in seconds, shares or what they are: "-1.8%/+5.7%", "5.0, 10.0 ms".

    A number without a unit has that of the next one.
    """
    found = re.findall(r"([-+]?(?:\d[\d,.]*|inf))(?:e-?\d+)?\s*(ms|s\b|%|)", text)
    units = [next((unit for _, unit in found[k:] if unit), "") for k in range(len(found))]
    return [float(number.rstrip(",").replace(",", "")) * UNITS[unit]
            for (number, _), unit in zip(found, units, strict=True)]  # fmt: skip


def _rng(cell: Cell, run: int) -> np.random.Generator:
    return np.random.default_rng([cell.seed, cell.kind, cell.n, round(1000 * (1 + cell.size)), run])


def _tally(found: Iterator[Finding], smallest: str) -> Missed:
    outcomes = [finding.outcome for finding in found]
    missed = sum(outcome is not Outcome.FAIL for outcome in outcomes)
    return Missed(Seen(missed, len(outcomes)), sum(o is Outcome.UNCLEAR for o in outcomes), smallest)


def miss_rate(cell: Cell) -> Missed:
    """Return how often a rate that deviates is missed."""
    asked = forge.rate_case(cell.n, 40, LAWS[cell.kind])
    load = asked.expected.load.model_copy(update={"rate": rate_of(asked) * (1 + cell.size)})
    other = replace(asked, expected=asked.expected.model_copy(update={"load": load}))
    twin = ask_one("rate.mean", asked, recorded(calls_of(asked, _rng(cell, 0)), chunks=1))
    found = (ask_one("rate.mean", asked, recorded(calls_of(other, _rng(cell, run)), chunks=1))
             for run in range(cell.runs))  # fmt: skip
    return _tally(found, twin.smallest_deviation)


def miss_dial(cell: Cell) -> Missed:
    """Return how often a dial's effect of a multiple of the printed smallest deviation is missed."""
    dial = DIALS[cell.kind]
    asked = dial.ask(cell.n)
    twin = ask_one(dial.check, asked, recorded(calls_of(asked, _rng(cell, 0)), chunks=1))
    printed = amounts(twin.smallest_deviation)
    if twin.outcome is not Outcome.PASS or not printed:
        return Missed(Seen(cell.runs, cell.runs), cell.runs, twin.smallest_deviation)
    effect = cell.size * dial.pick(printed)
    if not dial.limits.allow(effect, cell.n, printed):
        return Missed(Seen(0, 0), 0, twin.smallest_deviation, possible=False)
    found = (ask_one(dial.check, asked, dial.wrong(asked, _rng(cell, run), effect)) for run in range(cell.runs))
    return _tally(found, twin.smallest_deviation)


def rates(seed: int, runs: int, processes: int) -> dict[Cell, Missed]:
    """Return the misses of every law, number of requests and deviation."""
    cells = [Cell(seed, law, n, deviation, runs)
             for n in reversed(SIZES) for law in range(len(LAWS)) for deviation in DEVIATIONS]  # fmt: skip
    return dict(spread(miss_rate, cells, processes))


def dials(seed: int, runs: int, processes: int) -> dict[Cell, Missed]:
    """Return the misses of every dial, number of requests and factor."""
    cells = [Cell(seed, dial, n, factor, runs)
             for n in reversed(SIZES) for dial in range(len(DIALS)) for factor in FACTORS]  # fmt: skip
    return dict(spread(miss_dial, cells, processes))


def by_nature(missed: Missed, deviation: float) -> bool:
    """Return whether a deviation lies within what the finding prints that it cannot see."""
    printed = amounts(missed.smallest)
    if not printed:
        return True
    low, high = min(printed), max(printed)
    return -abs(low) - ROUNDED <= deviation <= abs(high) + ROUNDED


def within_dial(cell: Cell) -> bool:
    """Return whether an effect is smaller than what is printed, or a bound that is met exactly."""
    return cell.size < 1 or (cell.size == 1 and DIALS[cell.kind].bound)


def _cell(missed: Missed, *, natural: bool) -> str:
    if not missed.possible:
        return "cannot be"
    if missed.unclear == missed.missed.trials:
        return "unclear"
    return f"{missed.missed.share:.2f}" + (" by nature" if natural and missed.missed.events else "")


def rate_table(found: dict[Cell, Missed]) -> str:
    """Return a row per law and number of requests, with the share that is missed per deviation."""
    rows = []
    for kind, law in enumerate(LAWS):
        for n in SIZES:
            cells = sorted((c for c in found if (c.kind, c.n) == (kind, n)), key=lambda c: c.size)
            if cells:
                told = [_cell(found[c], natural=by_nature(found[c], c.size)) for c in cells]
                rows.append([law, f"{n:,}", found[cells[0]].smallest or "-", *told])
    return markdown(["law", "n", "smallest deviation", *(f"{d:+.0%}" for d in sorted(DEVIATIONS))], rows)


def dial_table(found: dict[Cell, Missed]) -> str:
    """Return a row per finding and number of requests, with the share that is missed per factor."""
    rows = []
    for kind, dial in enumerate(DIALS):
        for n in SIZES:
            cells = sorted((c for c in found if (c.kind, c.n) == (kind, n)), key=lambda c: c.size)
            if cells:
                told = [_cell(found[c], natural=within_dial(c)) for c in cells]
                rows.append([dial.check, dial.what, f"{n:,}", found[cells[0]].smallest or "-", *told])
    head = ["finding", "what is wrong", "n", "smallest deviation", *(f"x {factor:g}" for factor in FACTORS)]
    return markdown(head, rows)


def too_often(found: dict[Cell, Missed], *, dial: bool) -> list[str]:
    """Return where more than one in ten is missed of what is beyond the printed deviation."""
    told = []
    for cell, missed in found.items():
        natural = within_dial(cell) if dial else by_nature(missed, cell.size)
        answered = missed.unclear < missed.missed.trials
        if not natural and answered and missed.missed.low > 1 - POWER:
            what = f"{DIALS[cell.kind].check} x {cell.size:g}" if dial else f"rate ({LAWS[cell.kind]}) {cell.size:+.0%}"
            told.append(f"{what}, n = {cell.n}: missed in {missed.missed.events} of {missed.missed.trials}, "
                        f"though it prints {missed.smallest}")  # fmt: skip
    return told
