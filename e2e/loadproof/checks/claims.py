"""claims: what does the tool say, and what does the journal say of the same quantity?

Shown beside each other, never asserted here; a case with `claims: required` gets an `unsupported` finding,
because no bound is applied yet. Left out: other definitions, bounds, per-request joins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.load.truth import DEFINITIONS
from loadproof.reported import UNITS, numbers
from loadproof.verdict import Claim, Finding, Outcome

if TYPE_CHECKING:
    from loadproof.reported import Reported


NO_JOURNAL = "no journal"


def beside(reported: Reported, truth: Reported | None) -> tuple[Claim, ...]:
    """Return each number that the tool reports, with the journal's own beside it; `truth` None: there is no journal."""
    known = numbers(truth) if truth else {}
    return tuple(
        Claim(quantity=name, unit=UNITS[name.partition(".")[0]], claimed=value, truth=known.get(name),
              definition=DEFINITIONS.get(name.partition(".")[0], "") if truth else NO_JOURNAL)
        for name, value in numbers(reported).items()
    )  # fmt: skip


def unreadable(why: str) -> Finding:
    """Return the finding of claims that cannot be read; the load is judged without them."""
    return Finding(check="claims.readable", requirement="the tool's claims can be read", expected="readable",
                   measured="not readable", n=0, outcome=Outcome.UNSUPPORTED, detail=why)  # fmt: skip


def required_but_not_judged(claims: tuple[Claim, ...]) -> Finding:
    """Return the finding of a case that asks for claims to be judged."""
    return Finding(check="claims.required", requirement="the tool's claims agree with the journal",
                   expected="within the bounds", measured=f"{len(claims)} claims read", n=len(claims),
                   outcome=Outcome.UNSUPPORTED, detail="claims are shown and not judged yet")  # fmt: skip
