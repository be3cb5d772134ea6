"""What is a check given, and how does it word its answer?"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadproof.checks.parts import Part, parts_of
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.expected import Expected, ToolDeclaration
    from loadproof.load.measured import Load

__all__ = ["EVIDENCE", "KERNEL_STAMPED", "NOTHING", "Part", "Question", "exact"]

EVIDENCE = "journal/journal.parquet"
KERNEL_STAMPED = 0.99
"""From this share of kernel stamps on, arrivals do not rest on our own reads."""

NOTHING = "no request arrived, so there was nothing that could be wrong"


@dataclass(frozen=True)
class Question:
    """What was asked, what the case declares of the tool, and what arrived."""

    expected: Expected
    declared: ToolDeclaration
    load: Load

    @cached_property
    def trimmed(self) -> Load:
        """Return the load without the declared leading extras."""
        return self.load.without_leading(self.declared.leading_extra_requests)

    @cached_property
    def parts(self) -> list[Part]:
        """The parts of the load: one, or one a stage."""
        return parts_of(self.expected, self.declared.arrival, self.trimmed)


def exact(check: str, requirement: str, expected: str, measured: str, *, n: int, detail: str = "") -> Finding:
    """Return a finding that passes when the two texts are equal, but not where there was nothing to see (n = 0)."""
    outcome = Outcome.PASS if expected == measured else Outcome.FAIL
    if outcome is Outcome.PASS and n == 0:
        outcome, detail = Outcome.UNCLEAR, NOTHING
    return Finding(check=check, requirement=requirement, expected=expected, measured=measured, outcome=outcome, n=n,
                   smallest_deviation="exact", detail="" if outcome is Outcome.PASS else detail,
                   evidence=EVIDENCE)  # fmt: skip
