"""All questions to one load, or to one report where there is no journal, and what the case allows.

The only list of checks; each is a pure function of a `Question`, those without a journal of what was asked and what the
tool reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from loadproof.allowances import problem_of
from loadproof.checks import (
    arrivals,
    concurrency,
    connections,
    count,
    instrument,
    payload,
    rate,
    reports,
    without_journal,
)
from loadproof.checks.question import Question
from loadproof.errors import UsageProblem
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.case import Case
    from loadproof.expected import ToolDeclaration
    from loadproof.load.measured import Load
    from loadproof.reported import Reported

CHECKS: dict[str, Callable[[Question], Iterator[Finding]]] = {
    "count": count.findings,
    "payload": payload.findings,
    "rate": rate.findings,
    "arrivals": arrivals.findings,
    "concurrency": concurrency.findings,
    "connections": connections.findings,
    "instrument": instrument.findings,
}


def check_allowances(case: Case) -> None:
    """Raise UsageProblem for an allowance of a check that there is not."""
    for tool, declared in case.expected.tools.items():
        for allowance in declared.allowances:
            if problem := problem_of(allowance.check):
                raise UsageProblem(f"{case.folder}: tools.{tool}.allowances: {problem}")


def ask_all(case: Case, tool: str, load: Load) -> tuple[Finding, ...]:
    """Return every finding of this case and tool over the measured load, in the order of `CHECKS`."""
    question = Question(case.expected, case.declaration(tool), load)
    found = [finding for check in CHECKS.values() for finding in check(question)]
    return tuple(_allowed(finding, question.declared) for finding in instrument.weighed(found, question))


def ask_without_journal(case: Case, tool: str, reported: Reported | None, server: str) -> tuple[Finding, ...]:
    """Return every finding where `server` kept no journal: what is not known, and what the tool's report says."""
    declared = case.declaration(tool)
    found = [*without_journal.findings(case.expected, declared, server),
             *reports.findings(case.expected.workload, reported)]  # fmt: skip
    return tuple(_allowed(finding, declared) for finding in found)


def _allowed(finding: Finding, declared: ToolDeclaration) -> Finding:
    for allowance in declared.allowances:
        if finding.outcome is Outcome.FAIL and allowance.covers(finding.check):
            return msgspec.structs.replace(finding, counted=False, allowed_because=allowance.because)
    return finding
