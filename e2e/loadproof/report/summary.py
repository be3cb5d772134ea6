"""How does the table at the end of a test session look, on a terminal and as Markdown?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from loadproof.host import Host

if TYPE_CHECKING:
    from loadproof.verdict import Verdict

COLUMNS = ("case", "tool", "server", "outcome", "findings", "first asked by")


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the session, once, however many tests ask something of it; `asked_by` is the first of them."""

    case: str
    tool: str
    server: str
    outcome: str
    findings: str
    asked_by: str

    @classmethod
    def of(cls, verdict: Verdict, *, server: str, asked_by: str) -> SummaryRow:
        """Make a row of a verdict; `findings` counts the outcomes that occurred."""
        counts = ", ".join(f"{count} {outcome}" for outcome, count in verdict.counts.items() if count)
        return cls(case=verdict.case, tool=verdict.tool, server=server, outcome=verdict.outcome.value, findings=counts,
                   asked_by=asked_by)  # fmt: skip

    def cells(self) -> tuple[str, ...]:
        """Return what stands under `COLUMNS`."""
        return self.case, self.tool, self.server, self.outcome, self.findings, self.asked_by


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """A session: its runs, on which host; how many tests were timed, how many of them ended unclear, how many
    were skipped because their tool, or the simulator, is not installed.
    """  # noqa: D205 -- one sentence that is longer than a line

    host: Host
    rows: list[SummaryRow]
    timed: int
    unclear: int
    tool_missing: int


def host_line(host: Host) -> str:
    """Return the host in a line."""
    return (f"host: {host.name}, {host.cpu_model}, {host.usable_cores:g} usable cores, {host.memory_gib:g} GiB, "
            f"{host.system} {host.machine}")  # fmt: skip


def _counts_line(summary: Summary) -> str:
    return (f"timed tests: {summary.timed}, of them unclear: {summary.unclear}; "
            f"skipped for a missing tool or simulator: {summary.tool_missing}")  # fmt: skip


def summary_table(summary: Summary) -> str:
    """Return the table as plain text."""
    rows = [COLUMNS, *(row.cells() for row in summary.rows)] if summary.rows else []
    widths = [max(len(row[column]) for row in rows) for column in range(len(COLUMNS) if rows else 0)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, _counts_line(summary), host_line(summary.host)]) + "\n"


def as_markdown(summary: Summary) -> str:
    """Return the table as Markdown, as GitHub's step summary shows it."""
    lines = [f"| {' | '.join(COLUMNS)} |", f"|{' --- |' * len(COLUMNS)}"]
    # A bar would end the cell, and a parametrised test's name can have one.
    lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row.cells())} |" for row in summary.rows]
    return "\n".join([*lines, "", _counts_line(summary), "", host_line(summary.host)]) + "\n"
