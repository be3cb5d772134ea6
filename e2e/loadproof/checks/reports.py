"""reports: by the tool's own word, was every request answered, and at the asked length?

Asked where the server kept no journal, so that the tool's report is all there is. Null hypothesis: `requests`:
completed + failed + abandoned is num_requests; `failed`: none failed and, where a number of requests was asked, none
was abandoned (by a duration what is in flight at its end is); `output_tokens`: completed x max_tokens, or the sum of
the lengths that the case counts, where ignore_eos makes every reply that long. Statistic: the reported numbers
themselves, compared exactly; no floor. Smallest n: one request; of none nothing passes. False alarms: none. A number
that the tool does not report is `unsupported`, and so is what does not follow from what was asked (a count by duration,
lengths without ignore_eos or within bounds). A sum above what was asked is wrong whatever else is missing.
Cannot see: whether the report is true; requests that it leaves out, as a tool's warm-up is (declared leading extras are
not added, because reports do not count them), or that it counts without having sent them; who is to blame for a failure
(the server may be). Left out: times, which no oracle stands beside here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from loadproof.checks.question import exact
from loadproof.lengths import Between, Counted
from loadproof.reported import Reported
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.expected import Workload

EVIDENCE = "tool"
NO_REPORT = "the tool left no report that can be read"


def findings(asked: Workload, reported: Reported | None) -> Iterator[Finding]:
    """Yield the findings of a report, None where there is none."""
    told = reported or Reported()
    for finding in (_requests(asked, told), _failed(asked, told), _output_tokens(asked, told)):
        missing = reported is None and finding.outcome is Outcome.UNSUPPORTED
        yield replace(finding, evidence=EVIDENCE, detail=NO_REPORT if missing else finding.detail)


def _requests(asked: Workload, told: Reported) -> Finding:
    check, requirement = "reports.requests", "completed + failed as asked"
    parts = {"completed": told.completed, "failed": told.failed, "abandoned": told.abandoned}
    known = {name: count for name, count in parts.items() if count is not None}
    total, wanted = sum(known.values()), asked.num_requests
    if wanted is None:
        return _unsupported(check, requirement, "what the duration holds", _listed(known), total,
                            "a count by duration is not judged yet; ask for num_requests")  # fmt: skip
    missing = [name for name in ("completed", "failed") if parts[name] is None]
    if missing and total <= wanted:
        return _unsupported(check, requirement, f"{wanted}", _listed(known), total, _no_number(*missing))
    return exact(check, requirement, f"{wanted}", f"{total}", n=total, detail=f"the tool reports {_listed(known)}")


def _failed(asked: Workload, told: Reported) -> Finding:
    check, requirement = "reports.failed", "none failed or was abandoned"
    abandoned = (told.abandoned or 0) if asked.num_requests is not None else 0
    if told.failed is None:
        return _unsupported(check, requirement, "0 failed", "not reported", 0, _no_number("failed"))
    if told.completed is None and told.failed + abandoned == 0:  # of how many?
        return _unsupported(check, requirement, "0 failed", "0 failed", 0, _no_number("completed"))
    n = (told.completed or 0) + told.failed + abandoned
    measured = f"{told.failed} failed{f', {abandoned} abandoned' if abandoned else ''}"
    return exact(check, requirement, "0 failed", measured, n=n, detail="by the tool's own word")


def _output_tokens(asked: Workload, told: Reported) -> Finding:
    check, requirement, asked_length = "reports.output_tokens", "completed x max_tokens", asked.max_tokens
    length = f"completed x {asked_length}" if isinstance(asked_length, int) else "the sum of lengths"
    if missing := [name for name in ("completed", "output_tokens") if getattr(told, name) is None]:
        return _unsupported(check, requirement, length, "not reported", 0, _no_number(*missing))
    completed, tokens = told.completed or 0, told.output_tokens or 0
    if not asked.ignore_eos:
        return _unsupported(check, requirement, length, _number(tokens), completed,
                            "without ignore_eos a reply may end before max_tokens")  # fmt: skip
    total = _sum_of(asked_length, completed)
    if total is None:
        return _unsupported(check, requirement, length, _number(tokens), completed,
                            "max_tokens has several lengths, and nobody knows which were completed")  # fmt: skip
    return exact(check, requirement, f"{total}", _number(tokens), n=completed,
                 detail=f"the tool reports {completed} completed requests")  # fmt: skip


def _sum_of(lengths: int | Between | Counted, completed: int) -> int | None:
    """Return how many tokens so many completed requests have, None where that depends on which they were."""
    if isinstance(lengths, Counted):
        return lengths.tokens if completed == lengths.requests else None
    return None if isinstance(lengths, Between) else completed * lengths


def _unsupported(check: str, requirement: str, expected: str, measured: str, n: int, detail: str) -> Finding:  # noqa: PLR0917 -- as its callers read
    return Finding(check=check, requirement=requirement, expected=expected, measured=measured,
                   outcome=Outcome.UNSUPPORTED, n=n, detail=detail)  # fmt: skip


def _no_number(*names: str) -> str:
    return f"the tool reports no number of {' and '.join(name.replace('_', ' ') for name in names)}"


def _listed(known: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in known.items()) or "not reported"


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) else f"{value}"
