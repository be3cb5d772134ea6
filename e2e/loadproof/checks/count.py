"""count: did exactly the asked requests arrive, each once, and nothing else?

Null hypothesis: n generation requests after the declared leading extras are trimmed, no body twice where the
case says that prompts are unique, none after the tool's process was gone, no request that we do not recognise.
All exact, from n = 0 on; no false alarms. Left out: what was in the requests (payload).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from loadproof.checks.question import EVIDENCE, Question, exact
from loadproof.verdict import Finding, Outcome


def findings(question: Question) -> Iterator[Finding]:
    """Yield the count findings."""
    yield _number(question)
    if question.declared.leading_extra_requests:
        yield _leading(question)
    requests = question.trimmed().requests
    if question.expected.workload.unique_prompts:
        counts = Counter(requests.digests)
        again = sum(k - 1 for k in counts.values())
        yield exact("count.unique", "no body sent twice", "0 repeated", f"{again} repeated", n=requests.n)
    strays = question.load.requests.unrecognised
    told = ", ".join(f"{k} x {method} {path}" for (method, path), k in strays.most_common(3))
    yield exact("count.recognised", "nothing else but known side traffic",
                "0 others", f"{strays.total()} others", n=requests.n + question.load.requests.side_traffic.total(),
                detail=told)  # fmt: skip
    ended = question.load.tool_ended_ns
    if ended is not None:
        late = int(np.count_nonzero(requests.start_ns > ended))
        yield exact("count.after_end", "none after the tool has ended", "0 late", f"{late} late", n=requests.n)


def _number(question: Question) -> Finding:
    asked = question.expected.workload.num_requests
    extras = question.declared.leading_extra_requests
    n = question.load.requests.n
    requirement = "exactly the asked number"
    if asked is None:
        return Finding(check="count.requests", requirement=requirement, expected="as many as the duration holds",
                       measured=f"{max(0, n - extras)}", outcome=Outcome.UNSUPPORTED, n=n,
                       detail="a count by duration is not judged yet; ask for num_requests",
                       evidence=EVIDENCE)  # fmt: skip
    return exact("count.requests", requirement, f"{asked}", f"{n - extras}", n=n)


def _leading(question: Question) -> Finding:
    extras = question.declared.leading_extra_requests
    return Finding(check="count.leading_extras", requirement="declared requests before the load",
                   expected="0 in every tool", measured=f"{extras} declared, trimmed", outcome=Outcome.PASS,
                   n=question.load.requests.n, counted=False, evidence=EVIDENCE,
                   detail="parity: this tool sends more than it was asked for")  # fmt: skip
