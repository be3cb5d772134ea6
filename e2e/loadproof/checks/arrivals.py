"""arrivals: were requests spaced in time as the case declares it?

Two families of findings, by the declared law: `arrivals_even` for `constant`, `arrivals_random` for `poisson`,
`gamma`, `fixed-span`; each says its hypotheses, floors, smallest n and error rates. This file asks them of every part
of the load that has a rate. A cap that was reached delays requests however well they were scheduled: then a failure is
unclear. Left out: closed loops, where replies decide when requests come.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from loadproof.arrival import Law
from loadproof.checks import arrivals_even, arrivals_random
from loadproof.checks.capped import delayed
from loadproof.checks.question import Part, Question
from loadproof.verdict import Finding, Outcome


def findings(question: Question) -> Iterator[Finding]:
    """Yield the arrivals findings of every part with a rate; nothing for closed loops."""
    declared = question.declared.arrival
    if declared is None:
        return
    for part in question.parts:
        if part.rate is not None:
            even = declared.law is Law.CONSTANT
            asked = arrivals_even.findings(part) if even else arrivals_random.findings(part, declared)
            yield from (_excused(finding, part) for finding in asked)


def _excused(finding: Finding, part: Part) -> Finding:
    """Return the finding, unclear where it fails and a cap made many requests late (`capped`)."""
    if finding.outcome is not Outcome.FAIL or not delayed(part):
        return finding
    why = (f"would fail, but the cap of {part.cap} in flight was reached, and requests that wait for it come late: a "
           "larger cap or a lower rate would be enough")  # fmt: skip
    return msgspec.structs.replace(finding, outcome=Outcome.UNCLEAR, detail=f"{why}; {finding.detail}")
