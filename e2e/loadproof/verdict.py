"""What does a check say, and what do all of them together say of a run?

Frozen values only: an outcome, a finding (one check's answer), a verdict (the findings of a run, merged).
No statistics, no files, no rendering.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from loadproof.errors import Exit


class Outcome(StrEnum):
    """The five outcomes, in the order in which the stronger one wins (`merge`)."""

    PASS = "pass"  # noqa: S105 -- an outcome, not a password
    UNSUPPORTED = "unsupported"
    UNCLEAR = "unclear"
    FAIL = "fail"
    BROKEN = "broken"


_STRENGTH = {outcome: rank for rank, outcome in enumerate(Outcome)}

EXIT_CODES = {
    Outcome.PASS: Exit.CLEAN,
    Outcome.UNSUPPORTED: Exit.CLEAN,
    Outcome.UNCLEAR: Exit.UNCLEAR,
    Outcome.FAIL: Exit.FAIL,
    Outcome.BROKEN: Exit.BROKEN,
}


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the strongest outcome: broken > fail > unclear > unsupported > pass.

    No outcome at all is `broken`: a run of which nothing was found out has not passed.
    """
    return max(outcomes, key=_STRENGTH.__getitem__, default=Outcome.BROKEN)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check's answer to one question.

    `check` is `<module>.<question>`; `expected` and `measured` are short texts with their unit;
    `n` is the number of observations that `measured` rests on; `smallest_deviation` is what this n
    could have shown ("exact" where there is no error rate).
    `counted` is false for what is shown and does not touch the verdict: an allowed failure
    (`allowed_because` holds the case's reason), a late instrument on which no failure rests, a parity note.
    """

    check: str
    requirement: str
    expected: str
    measured: str
    outcome: Outcome
    n: int
    smallest_deviation: str = ""
    detail: str = ""
    evidence: str = ""
    counted: bool = True
    allowed_because: str = ""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One number that a tool says of itself beside the same number recomputed from the journal.

    `claimed` and `truth` are in `unit` (seconds, counts or per second); `truth` is None where the
    journal cannot say. `definition` names what was recomputed.
    """

    quantity: str
    unit: str
    claimed: float
    truth: float | None
    definition: str = ""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of one run, merged; `run` is the name of its folder, `reason` why it is broken or was not made."""

    case: str
    tool: str
    outcome: Outcome
    reason: str = ""
    counts: dict[str, int]
    run: str = ""


def verdict_of(case: str, tool: str, findings: Iterable[Finding], *, reason: str = "", run: str = "") -> Verdict:
    """Merge counted findings into a verdict; `counts` has every outcome with its number of findings."""
    all_findings = tuple(findings)
    counts = {outcome.value: sum(f.outcome is outcome for f in all_findings) for outcome in Outcome}
    outcome = merge(f.outcome for f in all_findings if f.counted)
    return Verdict(case=case, tool=tool, outcome=outcome, reason=reason, counts=counts, run=run)
