"""What does a person see in a terminal?

One table per call: a section per run, a line per finding, then the verdict; what needs attention (not a plain
pass) is spelled out below, and at the end each run has a line with its verdict and its folder. Claims in a table
of their own. Wide and plain when the output is not a terminal. Nothing is computed here, and whatever comes from
a case or a tool is shown letter by letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from loadproof.run_folder import ABSORBER
from loadproof.verdict import Claim, Finding, Outcome, Verdict

if TYPE_CHECKING:
    from loadproof.judging import Judgement

STYLES = {
    Outcome.PASS: "green",
    Outcome.FAIL: "bold red",
    Outcome.UNCLEAR: "yellow",
    Outcome.UNSUPPORTED: "cyan",
    Outcome.BROKEN: "bold magenta",
}
PLAIN_WIDTH = 160
WIDE, ROOMY = 130, 100
OUTCOME_WIDTH = len(Outcome.UNSUPPORTED)
FINDING_WIDTH = 24  # a case's long name must not take the room that the findings need


def console(*, stderr: bool = False) -> Console:
    """Return a console: the terminal's width on a terminal, wide and plain elsewhere."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH)


def outcome_text(finding: Finding) -> Text:
    """Return the word for a finding's outcome, in its colour."""
    if finding.allowed_because:
        return Text("allowed", "yellow")
    word = finding.outcome.value
    return Text(word if finding.counted else f"({word})", STYLES[finding.outcome])


def show(judgements: Sequence[Judgement], where: Sequence[str], again: Sequence[str]) -> None:
    """Show the judgements that there are; `where` (their folders) and `again` (what repeats each) may go on.

    A folder is empty where the run was not made.
    """
    shown = console()
    for judgement in [each for each in judgements if each.claims]:
        of = f"{judgement.verdict.case} x {judgement.verdict.tool}"
        shown.print(claims_table(judgement.claims, f"{of}: claims (shown, not judged)"))
    if judgements:
        shown.print(findings_table(judgements, shown.width))
    for judgement, folder, command in zip(judgements, where, again, strict=False):
        for line in attention(judgement, folder, command):
            shown.print(line, markup=False, soft_wrap=True)
    for judgement, folder in zip(judgements, where, strict=False):
        shown.print(summary_line(judgement, folder), soft_wrap=True)


def _tool(judgement: Judgement) -> str:
    """Return the tool, and the server where it is not the absorber."""
    server = judgement.server
    return f"{judgement.verdict.tool}{'' if server == ABSORBER else f' against {server}'}"


def findings_table(judgements: Sequence[Judgement], width: int = PLAIN_WIDTH) -> Table:
    """Return the findings of several runs in one table.

    Below `WIDE` columns without what each requires, below `ROOMY` without the smallest visible deviation either.

    A broken run has no findings to show: whatever they say rests on a run that did not end as it must.
    """
    wide, roomy = width >= WIDE, width >= ROOMY
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("finding", overflow="fold", max_width=FINDING_WIDTH)
    for name in ("requirement", "expected", "measured") if wide else ("expected", "measured"):
        table.add_column(name, overflow="fold")
    table.add_column("n", justify="right")
    if roomy:
        table.add_column("smallest visible", overflow="fold")
    table.add_column("outcome", no_wrap=True, min_width=OUTCOME_WIDTH)
    for judgement in judgements:
        verdict = judgement.verdict
        table.add_row(Text(verdict.case, "bold"), Text(_tool(judgement), "bold"))
        for finding in _shown(judgement):
            required = (finding.requirement,) if wide else ()
            visible = (finding.smallest_deviation,) if roomy else ()
            cells = (finding.check, *required, finding.expected, finding.measured, str(finding.n), *visible)
            table.add_row(*map(Text, cells), outcome_text(finding))
        word = Text(verdict.outcome.value.upper(), STYLES[verdict.outcome])
        table.add_row(Text("verdict", "bold"), *[""] * (len(table.columns) - 2), word, end_section=True)
    return table


def _shown(judgement: Judgement) -> Sequence[Finding]:
    return () if judgement.verdict.outcome is Outcome.BROKEN else judgement.findings


def summary_line(judgement: Judgement, folder: str) -> Text:
    """Return one line: case, tool, verdict and where the run folder is, empty: nowhere."""
    verdict = judgement.verdict
    found = ", ".join(f"{count} {outcome}" for outcome, count in verdict.counts.items() if count)
    mixed = f" ({found})" if folder and verdict.outcome is Outcome.UNSUPPORTED else ""
    return Text.assemble(f"{verdict.case} x {verdict.tool}: ", (verdict.outcome.value, STYLES[verdict.outcome]),
                         f"{mixed}, in {folder}" if folder else ", not run")  # fmt: skip


def claims_table(claims: Sequence[Claim], title: str) -> Table:
    """Return what a tool says, beside what the journal says where there is one."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=Text(title), title_justify="left",
                  min_width=len(title))  # fmt: skip
    compared = any(claim.truth is not None for claim in claims)
    table.add_column("the tool claims")
    for name in ("claimed", "journal", "difference") if compared else ("claimed",):
        table.add_column(name, justify="right")
    if compared:
        table.add_column("the journal's definition")
    for claim in claims:
        truth = "-" if claim.truth is None else _number(claim.truth, claim.unit)
        cells = (claim.quantity, _number(claim.claimed, claim.unit), truth, _difference(claim), claim.definition)
        table.add_row(*map(Text, cells if compared else cells[:2]))
    return table


def _number(value: float, unit: str) -> str:
    if unit == "s" and value < 1:
        return f"{value * 1e3:.3f} ms"
    return f"{value:.3f} {unit}" if unit in {"s", "/s"} else f"{value:g} {unit}"


def _difference(claim: Claim) -> str:
    if claim.truth is None:
        return "-"
    difference = claim.claimed - claim.truth
    if difference == 0:
        return "0"
    share = f" ({difference / claim.truth:+.1%})" if claim.truth else ""
    sign = "-" if difference < 0 else "+"
    return f"{sign}{_number(abs(difference), claim.unit)}{share}"


def attention(judgement: Judgement, folder: str, repeat: str) -> list[str]:
    """Return lines about everything that is not a plain pass, and `repeat` if there is something to repeat."""
    verdict = judgement.verdict
    lines = [f"{verdict.case} x {verdict.tool}: {verdict.outcome.value}: {verdict.reason}"] if verdict.reason else []
    if lines and verdict.outcome is Outcome.UNSUPPORTED:  # not made: the reason is all that the findings say
        return lines
    for finding in _shown(judgement):
        if finding.detail or finding.outcome not in {Outcome.PASS, Outcome.UNSUPPORTED}:
            lines += _spelled_out(verdict, finding, folder)
    if repeat and verdict.outcome not in {Outcome.PASS, Outcome.UNSUPPORTED}:
        lines.append(f"  again: {repeat}")
    return lines


def _spelled_out(verdict: Verdict, finding: Finding, folder: str) -> list[str]:
    word = f"allowed: because {finding.allowed_because}" if finding.allowed_because else finding.outcome.value
    lines = [f"{verdict.case} x {verdict.tool}: {finding.check}: {word}"]
    if finding.detail:
        lines.append(f"  {finding.detail}")
    if finding.outcome is Outcome.FAIL:
        lines.append(f"  {finding.requirement}: expected {finding.expected}, measured {finding.measured}, "
                     f"n {finding.n}; evidence {folder}/{finding.evidence}")  # fmt: skip
    return lines
