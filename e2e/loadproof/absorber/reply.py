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
from loadproof.absorber.openai import Body, RequestRefused, Wire, usage
from loadproof.absorber.sockets import QUEUE_BYTES
from loadproof.journal import COMPLETE
from loadproof.words import pieces

if TYPE_CHECKING:
    from loadproof.absorber.counting import Counted
    from loadproof.absorber.plan import Plan
    from loadproof.absorber.server import Session

EVENT_STREAM = "text/event-stream; charset=utf-8"


@lru_cache(maxsize=64)
def reply_pieces(tokens: int) -> tuple[str, ...]:
    """Return the texts of a reply of `tokens` tokens, one token each."""
    return tuple(pieces(tokens))


class Reply:
    """One reply under way."""

    __slots__ = ("_arrival", "_body", "_index", "_owes_end", "_plan", "_request", "_session", "_started", "_wire")

    def __init__(self, session: Session, request: Request, body: Body, plan: Plan, *, chat: bool) -> None:
        self._session, self._request, self._body, self._plan = session, request, body, plan
        self._arrival = request.record.arrival
        server = session.server
        self._wire = Wire(chat=chat, identity=request.record.req, model=server.model, created=server.created)
        self._index = 0
        self._started = self._owes_end = False

    def start(self) -> None:
        """Ask for the prompt's count and set the first deadline."""
        record, server = self._request.record, self._session.server
        record.planned_first = self._arrival + self._plan.first_ns
        record.finish_reason = self._plan.finish_reason
        server.metrics.begin(record)
        server.counting.count(record.digest, self._body, self._counted)
        if record.how is not None:
            return
        if self._body.stream:
            server.pacer.at(record.planned_first, self._due_in_stream)
        else:
            server.pacer.at(self._arrival + self._plan.due_ns(self._plan.tokens - 1), self._due_whole)

    def _counted(self, result: Counted | Exception) -> None:
        record = self._request.record
        if isinstance(result, Exception):
            if not self._started and record.how is None:
                refused = RequestRefused(str(result), param="messages")
                self._session.answer(self._request, refused.status, refused.body())
            return
        record.bare_tokens, record.usage_tokens = result
        if self._owes_end:
            self._send_end()

    @property
    def _gone(self) -> bool:
        return self._session.connection.closed or self._request.record.how is not None

    def _due_in_stream(self) -> int | None:
        connection = self._session.connection
        if self._gone:
            return None
        if connection.pending_bytes > QUEUE_BYTES:
            connection.on_drained = self._resume
            return None
        record, plan = self._request.record, self._plan
        first_row = len(record.planned)
        now = time.monotonic_ns()
        parts = [] if self._started else self._opening()
        texts = reply_pieces(plan.tokens)
        while self._index < plan.tokens and (due := self._arrival + plan.due_ns(self._index)) <= now:
            reason = plan.finish_reason if self._index == plan.tokens - 1 else None
            parts.append(self._row(due, 1, self._wire.token_event(texts[self._index], reason)))
            self._index += 1
        last = self._index == plan.tokens
        ends = last and self._count_is_there()
        if ends:
            parts.append(self._end())
        self._owes_end = last and not ends
        connection.write(b"".join(parts), partial(self._taken, range(first_row, len(record.planned)), ends))
        return None if last else self._arrival + plan.due_ns(self._index)

    def _resume(self) -> None:
        self._session.server.pacer.at(time.monotonic_ns(), self._due_in_stream)

    def _opening(self) -> list[bytes]:
        self._started = True
        request = self._request
        request.record.status = 200
        request.close_after |= request.http_1_0
        parts = [
            head(200, EVENT_STREAM, length=None, close=request.close_after, chunked=not request.http_1_0),
        ]
        role = self._wire.role_event()
        if role:
            parts.append(self._row(self._arrival + self._plan.first_ns, 0, role))
        return parts

    def _row(self, planned: int, tokens: int, event: bytes) -> bytes:
        record = self._request.record
        record.planned.append(planned)
        record.actual.append(0)
        record.chunk_tokens.append(tokens)
        record.chunk_bytes.append(len(event))
        record.bytes += len(event)
        return self._framed(event)

    def _framed(self, data: bytes) -> bytes:
        return data if self._request.http_1_0 else chunk(data)

    def _count_is_there(self) -> bool:
        return not self._body.wants_usage_event or self._request.record.usage_tokens is not None

    def _end(self) -> bytes:
        counted = self._request.record.usage_tokens
        wanted = usage(counted, self._plan.tokens) if self._body.wants_usage_event and counted is not None else None
        data = self._wire.last_events(wanted)
        self._request.record.bytes += len(data)
        return self._framed(data) + (b"" if self._request.http_1_0 else LAST_CHUNK)

    def _send_end(self) -> None:
        self._owes_end = False
        if self._gone:
            return
        if self._body.stream:
            self._session.connection.write(self._end(), partial(self._taken, range(0), True))  # noqa: FBT003 -- bound by position
        else:
            self._due_whole()

    def _due_whole(self) -> None:
        if self._gone:
            return
        record, plan = self._request.record, self._plan
        if record.usage_tokens is None:
            self._owes_end = True
            return
        self._started = True
        text = "".join(reply_pieces(plan.tokens))
        body = self._wire.whole(text, plan.finish_reason, usage(record.usage_tokens, plan.tokens))
        record.status, record.bytes = 200, len(body)
        record.planned.append(self._arrival + plan.due_ns(plan.tokens - 1))
        record.actual.append(0)
        record.chunk_tokens.append(min(plan.tokens, 2**16 - 1))
        record.chunk_bytes.append(len(body))
        data = head(200, "application/json", length=len(body), close=self._request.close_after) + body
        self._session.connection.write(data, partial(self._taken, range(1), True))  # noqa: FBT003 -- bound by position

    def _taken(self, rows: range, ends: bool, stamp: int) -> None:  # noqa: FBT001 -- bound by position with partial
        record = self._request.record
        for row in rows:
            record.actual[row] = stamp
            record.output_tokens += record.chunk_tokens[row]
        if ends:
            record.done, record.how = stamp, COMPLETE
            self._session.server.reply_ended(record)
            self._session.finished(self._request)
