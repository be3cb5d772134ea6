"""All questions to one load, and what the case allows.

The only list of checks; each is a pure function of a `Question`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from loadproof.checks import arrivals, concurrency, count, instrument, payload, rate
from loadproof.checks.question import Question
from loadproof.errors import UsageProblem
from loadproof.expected import MAY_BE_ALLOWED
from loadproof.plain_words import nearest
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.case import Case
    from loadproof.expected import ToolDeclaration
    from loadproof.load.measured import Load

CHECKS: dict[str, Callable[[Question], Iterator[Finding]]] = {
    "count": count.findings,
    "payload": payload.findings,
    "rate": rate.findings,
    "arrivals": arrivals.findings,
    "concurrency": concurrency.findings,
    "instrument": instrument.findings,
}


def check_allowances(case: Case) -> None:
    """Raise UsageProblem for an allowance of a check that there is not."""
    for tool, declared in case.expected.tools.items():
        for allowance in declared.allowances:
            if allowance.check not in MAY_BE_ALLOWED:
                known = nearest(allowance.check, MAY_BE_ALLOWED) or "; known are " + ", ".join(MAY_BE_ALLOWED)
                raise UsageProblem(f"{case.folder}: tools.{tool}.allowances: no check {allowance.check!r}{known}")


def ask_all(case: Case, tool: str, load: Load) -> tuple[Finding, ...]:
    """Return every finding of this case and tool over the measured load, in the order of `CHECKS`."""
    question = Question(case.expected, case.declaration(tool), load)
    found = [finding for check in CHECKS.values() for finding in check(question)]
    return tuple(_allowed(finding, question.declared) for finding in instrument.weighed(found, question))


def _allowed(finding: Finding, declared: ToolDeclaration) -> Finding:
    for allowance in declared.allowances:
        if finding.outcome is Outcome.FAIL and finding.check == allowance.check:
            return msgspec.structs.replace(finding, counted=False, allowed_because=allowance.because)
    return finding
