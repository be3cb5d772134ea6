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

    One entry per request: `new`, whether it was the first on its connection; `idle`, how many other connections had
    been idle for more than 50 ms and less than 4 s when it came; `could_be_idle`, how many would have been if each
    request had its own, kept open.
    """

    opened: int
    at_once: int
    median_requests: float
    most_requests: int
    new: Bools
    idle: Ints
    could_be_idle: Ints


def connections(requests: Requests) -> Connections:
    """Measure the requests' connections."""
    if not requests.n:
        nothing = np.zeros(0, np.int64)
        return Connections(0, 0, 0.0, 0, np.zeros(0, np.bool_), nothing, nothing)
    order = _by_connection(requests.conn)
    conns = requests.conn[order]
    begins = np.diff(conns, prepend=conns[0] - 1) != 0
    used = np.diff(np.append(np.flatnonzero(begins), len(conns)))
    new = np.empty(requests.n, np.bool_)
    new[order] = begins
    free, following = _idle_times(requests, order, begins)
    return Connections(len(used), _at_once(requests, order, begins), float(np.median(used)), int(used.max()), new,
                       idle=_idle_at(requests.start_ns, free, following),
                       could_be_idle=_idle_at(requests.start_ns, free, np.full(len(free), NEVER)))  # fmt: skip


def _by_connection(conns: Ints) -> Ints:
    """Return the order by connection and then by arrival."""
    numbers = conns - conns.min()
    few = numbers.max() <= np.iinfo(np.uint16).max  # sorted by digits then, ten times as fast
    return np.argsort(numbers.astype(np.uint16) if few else numbers, kind="stable")


def _idle_times(requests: Requests, order: Ints, begins: Bools) -> tuple[Ints, Ints]:
    """Return when each answer left its connection free, and when the next request took that, `NEVER` if none did."""
    done = requests.done_ns[order]
    following = np.append(requests.start_ns[order][1:], NEVER)
    following[np.append(begins[1:], True)] = NEVER
    endings = requests.endings[order]
    kept = (endings.equal(COMPLETE) | (endings.equal(CLIENT_CLOSED) & ~requests.cut[order])) & (done < NEVER)
    return done[kept], following[kept]


def _idle_at(times: Ints, free: Ints, following: Ints) -> Ints:
    """Return how many connections were, at each time, idle for as long as one can rely on."""
    begin, end = free + BACK_IN_POOL_NS, np.minimum(following, free + STILL_OPEN_NS)
    lasting = end > begin
    begun, ended = (np.searchsorted(np.sort(edges[lasting]), times, side="right") for edges in (begin, end))
    idle: Ints = begun - ended
    return idle


def _at_once(requests: Requests, order: Ints, begins: Bools) -> int:
    """Return how many connections were between their first request and the end of their last answer at once."""
    first = np.flatnonzero(begins)
    opened = np.sort(requests.start_ns[order][first])
    done = np.sort(np.maximum.reduceat(requests.done_ns[order], first))
    return int((np.arange(1, len(opened) + 1) - np.searchsorted(done, opened)).max())
