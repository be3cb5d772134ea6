"""How does one generation reply reach the client on its plan?

Owns a reply from plan to last byte: which chunks are due, their bytes, and their rows in the journal. Chunks that are
due at the same instant leave in one send, a row each. `usage` is exact, so it waits for the count if that is not there
yet; then the end of the reply is late, and `done` shows it. Left out: streams (`stream`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.absorber.wire import JSON, sized_head
from loadproof.record import COMPLETE, REASONS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadproof.absorber.counting import Counted
    from loadproof.absorber.plan import Plan
    from loadproof.absorber.request import Request
    from loadproof.absorber.session import Session

REASON_CODES = {reason: code for code, reason in enumerate(REASONS) if reason}

type Row = tuple[int, int, int, int]  # planned ns, tokens, bytes, choice


class Reply:
    """What a streamed reply and a whole one share; `_begin` is when its plan counts from, in ns."""

    __slots__ = ("_begin", "_owes_end", "_plans", "_request", "_session", "_tokens", "_usage")

    def __init__(self, session: Session, request: Request, plans: Sequence[Plan], *, usage: bool) -> None:
        self._session, self._request, self._plans, self._usage = session, request, plans, usage
        self._begin = request.arrival
        self._owes_end = False
        self._tokens = plans[0].tokens if len(plans) == 1 else sum([plan.tokens for plan in plans])

    def lasts_ns(self) -> int:
        """Return how long after its begin the last token of its slowest choice is planned, in nanoseconds.

        Gaps that are drawn are drawn to the last for it.
        """
        plans = self._plans
        if len(plans) == 1:
            return plans[0].due_ns(self._tokens - 1)
        return max([plan.due_ns(plan.tokens - 1) for plan in plans])

    def start(self) -> None:
        """Set its first deadline."""
        raise NotImplementedError

    def start_at(self, begin_ns: int) -> None:
        """Start it with a slot that it got at `begin_ns`: that is when its plan counts from."""
        self._begin = begin_ns
        self.start()

    def counted(self, result: Counted) -> None:
        """Take in the prompt's count."""
        request = self._request
        request.counted = result
        request.being_counted = False
        server = self._session.server
        if request.req in server.uncounted:  # it has ended meanwhile, also if it still owed its end
            server.count_came(request)
        elif self._owes_end:
            self._owes_end = False
            self._send_end()

    def taken(self, stamp: int) -> None:
        """Take in that the kernel has taken what had to wait."""
        raise NotImplementedError

    def abandon(self) -> None:
        """Note the chunks that were never taken."""
        raise NotImplementedError

    def _send_end(self) -> None:
        raise NotImplementedError

    def _observed(self, times: Sequence[int]) -> None:
        """Take in that the reply is whole: `times` are the stamps of its chunks with tokens."""
        request = self._request
        request.reason = REASON_CODES[self._plans[-1].finish_reason]
        server = self._session.server
        counted = request if server.counts else None  # else its count never comes, and it would be waited for
        server.metrics.observe(request.arrival, times, self._tokens, request.reason, counted)

    def _note(self, rows: Sequence[Row], stamp: int) -> None:
        """Write rows; `stamp` 0: never taken."""
        request = self._request
        chunk, req = self._session.server.writer.chunk, request.req
        for planned, tokens, size, choice in rows:
            chunk(req, planned, stamp, tokens, size, choice)
            if stamp:
                request.tokens += tokens
                request.size += size


class WholeReply(Reply):
    """One that is not streamed."""

    __slots__ = ("_row",)

    def start(self) -> None:
        """Set its deadline."""
        self._row: Row | None = None
        request, server = self._request, self._session.server
        request.planned_first = due = self._begin + self.lasts_ns()
        server.note(request)
        server.pacer.at(due, self._due)

    def _due(self) -> None:
        if self._session.connection.closed:
            return
        if self._usage and self._request.counted is None:
            self._owes_end = True
        else:
            self._send_end()

    def _send_end(self) -> None:
        session, request = self._session, self._request
        choices = [(plan.tokens, plan.finish_reason) for plan in self._plans]
        usage = (request.counted[1], self._tokens) if self._usage and request.counted else None
        body = session.format.whole(request.req, session.server.created_at(request.arrival), choices, usage)
        request.status = 200
        self._row = (request.planned_first, self._tokens, len(body), 0)
        stamp = session.connection.write(sized_head(request, 200, JSON, len(body)) + body)
        if stamp:
            self.taken(stamp)

    def taken(self, stamp: int) -> None:
        """End it."""
        session, request = self._session, self._request
        if self._row is not None:
            planned, request.tokens, request.size, choice = self._row
            session.server.writer.chunk(request.req, planned, stamp, request.tokens, request.size, choice)
        self._observed((stamp,))
        session.finished(request, COMPLETE, stamp)

    def abandon(self) -> None:
        """Note that it was never taken."""
        if self._row is not None:
            self._note((self._row,), 0)
