"""connections: is a connection used again, as the case declares of the tool, and is every reply heard to its end?

Null hypothesis: an honest client of up to 16 processes, each with a pool of connections, opens one when none of its own
is free. reuse: of the second half of the requests, the share that came on a new connection although another had been
idle for more than 50 ms and less than 4 s. Its exact lower bound (Clopper and Pearson) is at most 25 %, and at most the
share to which all idle ones are in the other of 16 equal pools, (15/16)^idle, on average. From 50 requests on, that
come 5 a second or faster, and not all at once: else it is unclear, which does not count. False alarms below 1e-6 for
one pool; for up to 32 none in 11,000 seeded runs. Where the case declares `connections: per_request`, each request has
its own; exact. cut: the client closes no connection before it has the reply; exact. With a duration, those that end
after the last start are abandoned, allowed and shown.
reuse rests on our own writes. Cannot see: more pools than half the requests, which look like none; whose an idle
connection is; a pool that opens some too early. Left out, for they need a server that closes: resets, and the time
between an idle close and the next use.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from loadproof.checks.question import EVIDENCE, NOTHING, Question
from loadproof.checks.stats import ALPHA, Z_POWER
from loadproof.checks.wording import verdict_on, which
from loadproof.load.connections import Connections, connections
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.requests import Bools, Ints

SMALLEST_N = 50
NEW_SHARE = 0.25
POOLS = 16
"""An honest client may have so many processes, with a pool of connections each."""
MANY_IDLE = 200
"""Of so many some are in any pool."""


def findings(question: Question) -> Iterator[Finding]:
    """Yield the findings on connections."""
    measured = connections(question.trimmed.requests)
    if question.declared.connections == "per_request":
        yield _own(measured, question.trimmed.requests.n)
    else:
        yield _reuse(measured)
    yield _cut(question)


def _told(measured: Connections) -> str:
    return (f"{measured.opened} opened, at least {measured.at_once} at once; requests per connection: median "
            f"{measured.median_requests:g}, most {measured.most_requests}")  # fmt: skip


def _own(measured: Connections, n: int) -> Finding:
    found = f"{measured.opened} for {n} requests"
    return verdict_on("connections.reuse", "each request its own connection", "a connection per request", found,
                      right=measured.opened == n, n=n, detail=_told(measured))  # fmt: skip


def least_share(seen: int, of: int, alpha: float = ALPHA) -> float:
    """Return the exact lower bound of a share (Clopper and Pearson, one side of a two-sided level)."""
    from scipy.special import betaincinv  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    return float(betaincinv(seen, of - seen + 1, alpha / 2)) if seen > 0 else 0.0


def by_pools(idle: Ints, share: float = 1.0) -> float:
    """Return how many of the requests find all idle connections in other pools than their own, of `POOLS` equal ones.

    `idle` of each request, or only a `share` of those.
    """
    return float(np.mean(np.where(idle > 0, (1 - 1 / POOLS) ** (share * idle), 0.0)))


def smallest_share(could_be_idle: Ints) -> float | None:
    """Return the share of new connections, to 1 %, that is seen with 90 % power; None where not even all would be.

    Of clients whose connections serve several requests, as many fewer are idle.
    """
    of, counts = len(could_be_idle), np.bincount(np.minimum(could_be_idle, MANY_IDLE))
    possible = np.count_nonzero(could_be_idle) / max(1, of)  # of the others, which no idle one could have carried, none
    few = np.repeat(np.arange(len(counts)), np.ceil(100 * counts / max(1, of)).astype(np.int64))
    for share in np.arange(1, 101) / 100:
        seen = share * possible
        spread = Z_POWER * math.sqrt(seen * (1 - seen) / of)
        if least_share(math.floor((seen - spread) * of), of) > max(NEW_SHARE, by_pools(few, share)):
            return float(share)
    return None


def _reuse(measured: Connections) -> Finding:
    n = len(measured.new)
    late = slice(n // 2, None)
    seen, of = int(np.count_nonzero(measured.new[late] & (measured.idle[late] > 0))), n - n // 2
    smallest = smallest_share(measured.could_be_idle[late]) if n >= SMALLEST_N else None
    outcome, detail = Outcome.PASS, ""
    if smallest is None:
        outcome = Outcome.UNCLEAR
        told = f"{n} requests in such a time do not tell one pool of connections from {POOLS}"
        enough = f"{SMALLEST_N} that come 5 a second or faster, for 2 s at least, and not all at once, are enough"
        detail = f"{told}; {enough}" if n else NOTHING
    elif least_share(seen, of) > max(NEW_SHARE, by_pools(measured.idle[late])):
        outcome, detail = Outcome.FAIL, f"connections are opened while others are idle: {_told(measured)}"
    return Finding(check="connections.reuse", requirement="idle connections are used again",
                   expected=f"new beside idle: <= {NEW_SHARE:.0%}",
                   measured=f"{seen} of the last {of}, {measured.opened} opened", outcome=outcome, n=n,
                   smallest_deviation="" if smallest is None else f"{smallest:.0%} new", detail=detail,
                   counted=outcome is not Outcome.UNCLEAR, evidence=EVIDENCE)  # fmt: skip


def _cut(question: Question) -> Finding:
    requests = question.trimmed.requests
    abandoned = requests.cut & _at_the_end_of_its_time(question)
    wrong = requests.cut & ~abandoned
    found, left = int(np.count_nonzero(wrong)), int(np.count_nonzero(abandoned))
    return verdict_on("connections.cut", "no reply is cut by the client", "0 of all",
                      f"{found} of {requests.n}" + (f", {left} more abandoned at the end" if left else ""),
                      right=not found, n=requests.n,
                      detail=f"the client closed its connection before it had the reply: {which(wrong)}")  # fmt: skip


def _at_the_end_of_its_time(question: Question) -> Bools:
    """Return which requests belong to a part with a duration and ended after its last start."""
    requests = question.trimmed.requests
    found = np.zeros(requests.n, np.bool_)
    for part in question.parts:
        starts = part.load.requests.start_ns
        if part.duration_s is not None and len(starts):
            own = (requests.start_ns >= starts[0]) & (requests.start_ns <= starts[-1])
            found |= own & (requests.end_ns >= starts[-1])
    return found
