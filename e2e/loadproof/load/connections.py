"""Which connections carried the requests, and was one opened although another was free?

A connection is known from its first request to the end of its last answer. It is idle from the end of an answer to its
next request; what a client closed before it had the answer, and what the server ended early, is idle no more. Left out:
connections without a request; when a connection is closed, of which the journal says nothing; whose connection an idle
one is, where a client has several pools.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.journal import CLIENT_CLOSED, COMPLETE
from loadproof.load.requests import NEVER

if TYPE_CHECKING:
    from loadproof.load.requests import Bools, Ints, Requests

BACK_IN_POOL_NS = 50_000_000
"""A client may need so long to read an answer's end and give the connection back (its pauses are 20-100 ms)."""
STILL_OPEN_NS = 4_000_000_000
"""The shortest usual limits of an idle connection are 5 s."""


@dataclass(frozen=True)
class Connections:
    """`opened` in all, `at_once` open at least; requests per connection, median and most.

    `new` and `avoidable` have one entry per request: it was the first on its connection, and it was that while another
    connection had been idle for more than 50 ms and less than 4 s.
    """

    opened: int
    at_once: int
    median_requests: float
    most_requests: int
    new: Bools
    avoidable: Bools


def connections(requests: Requests) -> Connections:
    """Measure the requests' connections."""
    if not requests.n:
        nothing = np.zeros(0, np.bool_)
        return Connections(0, 0, 0.0, 0, nothing, nothing)
    order = np.argsort(requests.conn, kind="stable")
    conns = requests.conn[order]
    begins = np.diff(conns, prepend=conns[0] - 1) != 0
    used = np.diff(np.append(np.flatnonzero(begins), len(conns)))
    new = np.empty(requests.n, np.bool_)
    new[order] = begins
    avoidable = np.zeros(requests.n, np.bool_)
    at = requests.start_ns[new]
    avoidable[new] = _idle_at(at, *_idle_times(requests, order, begins))
    return Connections(len(used), _at_once(requests, order, begins), float(np.median(used)), int(used.max()), new,
                       avoidable)  # fmt: skip


def _idle_times(requests: Requests, order: Ints, begins: Bools) -> tuple[Ints, Ints]:
    """Return from when to when each connection could have been used, int64[m] ns each, an entry per idle time."""
    done = requests.done_ns[order]
    following = np.append(requests.start_ns[order][1:], NEVER)
    following[np.append(begins[1:], True)] = NEVER
    endings = requests.endings[order]
    kept = (endings.equal(COMPLETE) | (endings.equal(CLIENT_CLOSED) & ~requests.cut[order])) & (done < NEVER)
    free = done[kept]
    begin, end = free + BACK_IN_POOL_NS, np.minimum(following[kept], free + STILL_OPEN_NS)
    lasting = end > begin
    return begin[lasting], end[lasting]


def _idle_at(times: Ints, begin: Ints, end: Ints) -> Bools:
    """Return of each time whether any of the idle times has begun and has not ended."""
    begun, ended = (np.searchsorted(np.sort(edges), times, side="right") for edges in (begin, end))
    idle: Bools = begun > ended
    return idle


def _at_once(requests: Requests, order: Ints, begins: Bools) -> int:
    """Return how many connections were between their first request and the end of their last answer at once."""
    first = np.flatnonzero(begins)
    opened = np.sort(requests.start_ns[order][first])
    done = np.sort(np.maximum.reduceat(requests.done_ns[order], first))
    return int((np.arange(1, len(opened) + 1) - np.searchsorted(done, opened)).max())
