"""How does one generation reply reach the client on its plan?

Owns a reply from plan to last byte: which chunks are due, their bytes, and their marks in the record.
Chunks that are due at the same instant leave in one send, a row each. `usage` is exact, so it waits for
the count if that is not there yet; then the end of the reply is late, and `done` shows it.
"""

from __future__ import annotations

import time
from functools import lru_cache, partial
from typing import TYPE_CHECKING

from loadproof.absorber.http import LAST_CHUNK, Request, chunk, head
from loadproof.absorber.openai import Body, Wire, usage
from loadproof.absorber.sockets import QUEUE_BYTES
from loadproof.journal import COMPLETE
from loadproof.words import WORDS, pieces

if TYPE_CHECKING:
    from loadproof.absorber.counting import Counted
    from loadproof.absorber.plan import Plan
    from loadproof.absorber.session import Session

EVENT_STREAM = "text/event-stream; charset=utf-8"
CHUNKS_A_TURN = 512  # a stream without pacing must not hold the loop until its last token
_FIRST, *_LATER = pieces(len(WORDS) + 1)


def piece(index: int) -> str:
    """Return the text of token `index` (0-based) of every reply."""
    return _LATER[(index - 1) % len(_LATER)] if index else _FIRST


@lru_cache(maxsize=16)
def whole_text(tokens: int) -> str:
    """Return the text of a reply of `tokens` tokens."""
    return "".join(pieces(tokens))


class Reply:
    """One reply under way."""

    __slots__ = (
        "__weakref__", "_arrival", "_body", "_end_bytes", "_index", "_owes_end", "_plan", "_request", "_session",
        "_started", "_wire",
    )  # fmt: skip

    def __init__(self, session: Session, request: Request, body: Body, plan: Plan, *, chat: bool) -> None:
        self._session, self._request, self._body, self._plan = session, request, body, plan
        self._arrival = request.record.arrival
        server = session.server
        created = (self._arrival + server.clock_offset_ns) // 10**9
        self._wire = Wire(chat=chat, identity=request.record.req, model=server.model, created=created)
        self._index = self._end_bytes = 0
        self._started = self._owes_end = False

    def start(self) -> None:
        """Ask for the prompt's count and set the first deadline. Raises RequestRefused for a refused prompt."""
        record, server = self._request.record, self._session.server
        server.counting.count(record.digest, self._body, self._counted, chat=self._wire.chat)
        record.planned_first = self._arrival + self._plan.first_ns
        if self._body.stream:
            server.pacer.at(record.planned_first, self._due_in_stream)
        else:
            server.pacer.at(self._arrival + self._plan.due_ns(self._plan.tokens - 1), self._due_whole)

    def _counted(self, result: Counted) -> None:
        record = self._request.record
        record.bare_tokens, record.usage_tokens = result
        if self._owes_end:
            self._send_end()

    def _due_in_stream(self) -> int | None:
        connection = self._session.connection
        if connection.closed:
            return None
        if connection.pending_bytes > QUEUE_BYTES:
            connection.on_drained = self._resume
            return None
        plan, now = self._plan, time.monotonic_ns()
        first_row = len(self._request.record.planned)
        parts = [] if self._started else self._opening()
        stop = min(plan.tokens, self._index + CHUNKS_A_TURN)
        while self._index < stop and (due := self._arrival + plan.due_ns(self._index)) <= now:
            reason = plan.finish_reason if self._index == plan.tokens - 1 else None
            parts.append(self._row(due, 1, self._wire.token_event(piece(self._index), reason)))
            self._index += 1
        last = self._index == plan.tokens
        ends = last and self._count_is_there()
        if ends:
            parts.append(self._end())
        self._owes_end = last and not ends
        rows = range(first_row, len(self._request.record.planned))
        connection.write(b"".join(parts), partial(self._taken, rows, ends))
        return None if last else self._arrival + plan.due_ns(self._index)

    def _resume(self) -> None:
        self._session.server.pacer.at(time.monotonic_ns(), self._due_in_stream)

    def _opening(self) -> list[bytes]:
        self._started = True
        request = self._request
        request.record.status = 200
        request.close_after |= request.http_1_0  # which knows no chunks: the end of the connection ends the body
        parts = [head(request, 200, EVENT_STREAM, length=None, chunked=not request.http_1_0)]
        role = self._wire.role_event()
        if role:
            parts.append(self._row(self._arrival + self._plan.first_ns, 0, role))
        return parts

    def _row(self, planned: int, tokens: int, event: bytes) -> bytes:
        self._mark(planned, tokens, len(event))
        return self._framed(event)

    def _mark(self, planned: int, tokens: int, size: int) -> None:
        record = self._request.record
        record.planned.append(planned)
        record.actual.append(0)
        record.chunk_tokens.append(tokens)
        record.chunk_bytes.append(size)

    def _framed(self, data: bytes) -> bytes:
        return data if self._request.http_1_0 else chunk(data)

    def _count_is_there(self) -> bool:
        return not self._body.wants_usage_event or self._request.record.usage_tokens is not None

    def _end(self) -> bytes:
        counted = self._request.record.usage_tokens
        wanted = usage(counted, self._plan.tokens) if self._body.wants_usage_event and counted is not None else None
        data = self._wire.last_events(wanted)
        self._end_bytes = len(data)
        return self._framed(data) + (b"" if self._request.http_1_0 else LAST_CHUNK)

    def _send_end(self) -> None:
        self._owes_end = False
        if self._body.stream:
            self._session.connection.write(self._end(), partial(self._taken, range(0), True))  # noqa: FBT003 -- bound by position
        else:
            self._due_whole()

    def _due_whole(self) -> None:
        request, plan = self._request, self._plan
        record = request.record
        if self._session.connection.closed:
            return
        if record.usage_tokens is None:
            self._owes_end = True
            return
        text = whole_text(plan.tokens)
        body = self._wire.whole(text, plan.finish_reason, usage(record.usage_tokens, plan.tokens))
        record.status = 200
        self._mark(self._arrival + plan.due_ns(plan.tokens - 1), plan.tokens, len(body))
        data = head(request, 200, "application/json", length=len(body)) + body
        self._session.connection.write(data, partial(self._taken, range(1), True))  # noqa: FBT003 -- bound by position

    def _taken(self, rows: range, ends: bool, stamp: int) -> None:  # noqa: FBT001 -- bound by position with partial
        record = self._request.record
        for row in rows:
            record.actual[row] = stamp
            record.output_tokens += record.chunk_tokens[row]
            record.bytes += record.chunk_bytes[row]
        if record.output_tokens == self._plan.tokens:
            record.finish_reason = self._plan.finish_reason
        if ends:
            record.bytes += self._end_bytes
            self._session.finished(self._request, COMPLETE, stamp)
