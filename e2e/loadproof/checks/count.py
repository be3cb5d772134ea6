"""count: did exactly the asked requests arrive, each once, and nothing else?

Null hypothesis: n generation requests after the declared leading extras are trimmed, no body twice where the
case says that prompts are unique, none after the tool's process was gone (a request whose arrival is our own read may
come later by our worst known lateness, of writes and of reads), no request that we do not recognise.
All exact, from n = 0 on; no false alarms. Cannot see: an end of the tool that nobody told us (no finding then), how
late an unstamped read was while nothing was due. Left out: what was in the requests (payload); how many a duration and
a stage hold (`durations`, which follows here).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from loadproof.checks import durations
from loadproof.checks.question import EVIDENCE, Question, exact
from loadproof.load.offered import repeated
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.measured import Load


def findings(question: Question) -> Iterator[Finding]:
    """Yield the count findings."""
    yield from _number(question)
    yield from durations.findings(question)
    if question.declared.leading_extra_requests:
        yield _leading(question)
    requests = question.trimmed.requests
    if question.expected.workload.unique_prompts:
        again = max(repeated(requests.bodies), repeated(requests.prompts))
        yield exact("count.unique", "no prompt sent twice", "0 repeated", f"{again} repeated", n=requests.n)
    strays = question.load.requests.unrecognised
    told = ", ".join(f"{k} x {method or 'not HTTP'} {path}".strip() for (method, path), k in strays.most_common(3))
    seen = requests.n + question.load.requests.side_traffic.total() + strays.total()
    yield exact("count.recognised", "nothing but known side traffic",
                "0 others", f"{strays.total()} others", n=seen,
                detail=told)  # fmt: skip
    ended = question.load.tool_ended_ns
    if ended is not None:
        late = _after(question.trimmed, ended)
        yield exact("count.after_end", "none after the tool has ended", "0 late", f"{late} late", n=requests.n)


def _after(load: Load, ended_ns: int) -> int:
    """Return how many requests came after the end; one that the kernel did not stamp may have waited for our read."""
    waited = np.where(load.kernel, 0, round(load.timekeeping.worst_s * 1e9))
    return int(np.count_nonzero(load.requests.start_ns > ended_ns + waited))


def _number(question: Question) -> Iterator[Finding]:
    asked = question.expected.workload.num_requests
    extras = question.declared.leading_extra_requests
    n = question.load.requests.n
    if asked is not None:
        detail = f"{n} arrived, of which the first {extras} are declared extras" if extras else ""
        yield exact("count.requests", "exactly the asked number", f"{asked}", f"{max(0, n - extras)}", n=n,
                    detail=detail)  # fmt: skip


def _leading(question: Question) -> Finding:
    extras = question.declared.leading_extra_requests
    return Finding(check="count.leading_extras", requirement="declared requests before the load",
                   expected="0 in every tool", measured=f"{extras} declared, trimmed", outcome=Outcome.PASS,
                   n=question.load.requests.n, counted=False, evidence=EVIDENCE,
                   detail="parity: this tool sends more than it was asked for")  # fmt: skip
