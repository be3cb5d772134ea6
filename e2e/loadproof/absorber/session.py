"""Which requests of one connection are answered when, and what does the journal say of each end?

One after the other, in their order; bytes that are no request are the last of them. Every way in which a
request can end is marked here. Left out: what a generation reply looks like.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from loadproof.absorber.endpoints import answer_small
from loadproof.absorber.http import CONTINUE, Request, RequestReader, head
from loadproof.absorber.openai import CHAT, COMPLETIONS, RequestRefused, read_body
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.reply import Reply
from loadproof.journal import CLIENT_CLOSED, COMPLETE, REFUSED

if TYPE_CHECKING:
    from loadproof.absorber.server import Server
    from loadproof.absorber.sockets import Connection

JSON = "application/json"
GENERATES = {COMPLETIONS: False, CHAT: True}


class Session:
    """One connection: its requests in order, at most one being answered."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server, self.connection = server, connection
        self._reader = RequestReader(partial(server.new_record, connection), server.know_body)
        self._current: Request | None = None
        self._going_on = False
        connection.on_data, connection.on_closed = self._on_data, self._on_client_closed

    def _on_data(self, data: bytes, read_ns: int) -> None:
        self._reader.feed(data, read_ns)
        self._go_on()

    def _go_on(self) -> None:
        """Start what is next. A loop, because a reply that is taken at once ends within its own start."""
        if self._going_on:
            return
        self._going_on = True
        while self._current is None and self._reader.whole and not self.connection.closed:
            self._start(self._reader.whole.popleft())
        self._going_on = False
        partial_request = self._reader.partial
        if self._current is None and partial_request is not None and partial_request.awaits_continue:
            partial_request.awaits_continue = False
            self.connection.write(CONTINUE, lambda _stamp: None)

    def _start(self, request: Request) -> None:
        self._current = request
        record = request.record
        if request.refusal is not None:
            status, message = request.refusal
            self.answer(request, status, RequestRefused(message, status=status).body())
            return
        path = record.target.partition(b"?")[0].decode("latin-1")
        try:
            if record.method == b"POST" and path in GENERATES:
                self._generate(request, chat=GENERATES[path])
            else:
                answer_small(self, request, path)
        except RequestRefused as refused:
            self.answer(request, refused.status, refused.body(), allow=refused.allow)

    def _generate(self, request: Request, *, chat: bool) -> None:
        record, server = request.record, self.server
        request.generates = True
        server.live.arrived += 1
        body = read_body(record.body, chat=chat, model=server.model)
        plan = plan_reply(
            server.profile,
            max_tokens=body.token_limit(chat=chat),
            min_tokens=body.min_tokens or 0,
            ignore_eos=bool(body.ignore_eos),
        )
        Reply(self, request, body, plan, chat=chat).start()

    def answer(self, request: Request, status: int, body: bytes, content_type: str = JSON, *, allow: str = "") -> None:
        """Send a whole reply at once."""
        record = request.record
        data = head(request, status, content_type, length=len(body), allow=allow)
        if record.method == b"HEAD":
            body = b""

        def taken(stamp: int) -> None:
            record.status, record.bytes = status, len(body)
            self.finished(request, REFUSED if status >= 400 else COMPLETE, stamp)

        self.connection.write(data + body, taken)

    def finished(self, request: Request, how: str, stamp: int) -> None:
        """Go on with the connection after a reply: close it, or take the next request."""
        self._current = None
        self._ended(request, how, stamp)
        if request.close_after:
            self.connection.close()
            self._leave()
        else:
            self._go_on()

    def _ended(self, request: Request, how: str, stamp: int) -> None:
        record = request.record
        record.how, record.done = how, stamp
        record.blocked_ns += self.connection.take_blocked_ns()
        record.outq_bytes = self.connection.outq_bytes()
        if request.generates:
            self.server.generation_ended(record)

    def _on_client_closed(self) -> None:
        now = time.monotonic_ns()
        for request in (self._current, *self._reader.whole, self._reader.partial):
            if request is not None:
                self._ended(request, CLIENT_CLOSED, now)
        self._current = None
        self._leave()

    def _leave(self) -> None:
        self._reader.whole.clear()
        self._reader.end()
        self.server.open.discard(self.connection)
