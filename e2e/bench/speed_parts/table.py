"""How is a measurement shown beside its bar?

One row each: what was measured, the bar, whether it was reached and by how much it was missed, what lies
beside it, and whether the machine was quiet. Renders only: a terminal table and Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from rich.console import Console
from rich.table import Table

COLUMNS = ("what", "measured", "bar", "outcome", "beside it", "machine")
PROSE = (0, 4, 5)  # columns that may wrap


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One line; texts are ready to show, `missed` says whether a bar was not reached, `by` is the row's key."""

    what: str
    measured: str = ""
    bar: str = ""
    outcome: str = ""
    beside: str = ""
    machine: str = ""
    missed: bool = False
    key: str = ""


class Bar(msgspec.Struct, frozen=True):
    """What a value has to reach: at most (or at least) `limit`, in `unit`."""

    limit: float
    unit: str = ""
    at_least: bool = False

    def says(self) -> str:
        """Return the bar in words."""
        return f"{'>=' if self.at_least else '<='} {self.limit:g} {self.unit}"

    def missed(self, value: float) -> bool:
        """Whether `value` does not reach it."""
        return value < self.limit if self.at_least else value > self.limit

    def outcome(self, value: float) -> str:
        """Return "reached", or by how much of the bar it was missed."""
        if not self.missed(value):
            return "reached"
        off = abs(value - self.limit) / self.limit
        return f"MISSED by {off:.1%}" if off < 0.1 else f"MISSED by {off:.0%}"


def shown(value: float, unit: str) -> str:
    """Return a number with three figures, trailing zeros too, and its unit."""
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")
    return f"{text} {unit}".strip()


def barred(
    key: str, what: str, value: float, bar: Bar, *, beside: str = "", machine: str = ""
) -> Row:  # fmt: skip
    """Return the row of a value that has a bar."""
    measured = shown(value, bar.unit)
    return Row(what=what, measured=measured, bar=bar.says(), outcome=bar.outcome(value), beside=beside,
               machine=machine, missed=bar.missed(value), key=key)  # fmt: skip


def absent(key: str, what: str, reason: str, bar: Bar | None = None, *, broken: bool = False) -> Row:
    """Return the row of what could not be measured."""
    outcome = "not measured" if broken else "not there yet"
    return Row(what=what, bar=bar.says() if bar else "", outcome=outcome, beside=reason, key=key)


def _cells(row: Row) -> tuple[str, ...]:
    return row.what, row.measured, row.bar, row.outcome, row.beside, row.machine


def print_table(console: Console, rows: Sequence[Row]) -> None:
    """Print the rows."""
    table = Table(show_lines=False, pad_edge=False)
    for i, name in enumerate(COLUMNS):
        table.add_column(name, overflow="fold", no_wrap=i not in PROSE)
    for row in rows:
        style = "red" if row.missed else "yellow" if row.outcome.startswith("not ") else None
        table.add_row(*(cell.replace("[", r"\[") for cell in _cells(row)), style=style)
    console.print(table)


def markdown(rows: Sequence[Row], heading: Sequence[str]) -> str:
    """Return heading lines and the table as Markdown."""
    lines = [*(f"- {line}" for line in heading), "", "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(map(_escaped, _cells(row))) + " |" for row in rows)]) + "\n"


def _escaped(cell: str) -> str:
    return re.sub(r"([|<>*_])", r"\\\1", cell)
