"""Which requests of one connection are answered when, and what does the journal say of each end?

One after the other, in their order; bytes that are no request are the last of them. Every way in which a
request can end is marked here. Left out: what a generation reply looks like.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from loadproof.absorber.endpoints import GENERATES, answer_small
from loadproof.absorber.http import RequestReader
from loadproof.absorber.openai import Body, RequestRefused, read_body
from loadproof.absorber.prepared import PreparedReply
from loadproof.absorber.reply import Reply, WholeReply
from loadproof.absorber.stream import StreamedReply
from loadproof.absorber.wire import CONTINUE, JSON, sized_head
from loadproof.record import CLIENT_CLOSED, COMPLETE, REFUSED

if TYPE_CHECKING:
    from loadproof.absorber.prepared import Prepared
    from loadproof.absorber.request import Request
    from loadproof.absorber.server import Server
    from loadproof.absorber.sockets import Connection
    from loadproof.absorber.wire import Format

AHEAD_BYTES = 1024 * 1024  # a client that sends so much while others of its requests wait has to wait, too


class Session:
    """One connection: its requests in order, at most one being answered."""

    __slots__ = (
        "_ahead", "_answered", "_current", "_going_on", "_noted", "_others", "_reader", "_reply", "_untouched",
        "connection", "format", "server",
    )  # fmt: skip

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server, self.connection = server, connection
        self._reader = RequestReader(self._begin)
        self._current: Request | None = None
        self._reply: Reply | None = None
        self._answered = (0, 0, "")  # status, bytes and how, of an answer that is not a generation
        self._going_on = False
        self._untouched = True  # the reader holds nothing: the next byte begins a request
        self._ahead = 0  # bytes that came while requests were waiting
        self._others = 0  # writes that wait and belong to no answer
        self._noted: Request | None = None  # what the journal knows of though it is not whole
        self.format: Format = server.formats[False]
        connection.on_data, connection.on_closed = self._on_data, self._on_client_closed
        connection.on_taken = self._on_taken

    def _begin(self, arrival: int, kernel: int, read_ns: int) -> Request:
        return self.server.new_request(self.connection, arrival, kernel, read_ns)

    def _on_data(self, data: bytes, stamp: int, read_ns: int) -> None:
        # The offset may be some ns off: what we have read has arrived before.
        arrival = stamp - self.server.clock_offset_ns
        if not stamp or arrival > read_ns:
            arrival = read_ns
        kernel = 1 if stamp else 0
        alone = self._untouched and self._current is None
        if alone and self.server.express.serve(self, data, arrival, kernel, read_ns):
            return
        reader = self._reader
        reader.feed(data, arrival, kernel, read_ns)
        self._go_on()
        if reader.whole or reader.partial is not None:
            self.server.unnoted.add(self)
        if reader.whole:
            self._ahead += len(data)
            if self._ahead > AHEAD_BYTES:
                self.connection.read_on(more=False)

    def _go_on(self) -> None:
        """Start what is next. A loop, because a reply that is taken at once ends within its own start."""
        if self._going_on:
            return
        self._going_on = True
        reader = self._reader
        while self._current is None and reader.whole and not self.connection.closed:
            self._start(reader.whole.popleft())
        self._going_on = False
        self._untouched = reader.idle
        if self._ahead and not reader.whole:
            if self._ahead > AHEAD_BYTES:
                self.connection.read_on(more=True)
            self._ahead = 0
        if self._current is None and reader.partial is not None and reader.asks_to_continue():
            self._others += not self.connection.write(CONTINUE)

    def start_whole(self, request: Request, body: Body, prepared: Prepared | None, *, chat: bool) -> None:
        """Answer a request that came whole while nothing else was there."""
        self._current = request
        server = self.server
        server.know_body(request)
        try:
            if prepared is None:
                self._generate(request, body, chat=chat)
                return
            self.format = prepared.form
            reply = PreparedReply(self, request, prepared)
            self._count(request, body, reply, chat=chat)
        except RequestRefused as refused:
            self.answer(request, refused.status, refused.body())
            return
        request.planned_first = request.arrival
        server.note(request)
        if prepared.stream or not request.being_counted:
            reply.send()
        else:
            reply.wait()

    def _count(self, request: Request, body: Body, reply: Reply, *, chat: bool) -> None:
        """Have the prompt counted, and let the reply begin. Raises RequestRefused."""
        if self.server.counts:
            self.server.counting.count(request.digest, body, reply.counted, chat=chat)  # the last that may refuse it
            request.being_counted = request.counted is None
        self._reply = reply

    def wait_for_taken(self, request: Request, reply: Reply, form: Format) -> None:
        """Let a reply that was sent, and not taken whole, end when it is, or when the client is gone."""
        self._current, self._reply, self.format = request, reply, form
        if self.connection.closed:
            self._on_client_closed()

    def _start(self, request: Request) -> None:
        self._current = request
        head, refusal = request.head, request.refusal
        if head is None or refusal is not None:
            self.server.note(request)
            status, says = (refusal.status, refusal.message) if refusal else (400, "")
            self.answer(request, status, RequestRefused(says, status=status).body())
            return
        request.noted = False  # what the journal knows from before it was whole is less than it is to know
        self.server.know_body(request)
        try:
            chat = GENERATES.get(head.path) if head.method == b"POST" else None
            if chat is not None:
                request.generates = True
                self.server.live.arrived += 1
                self._generate(request, read_body(request.body, chat=chat, model=self.server.model), chat=chat)
            else:
                answer_small(self, request, head)
        except RequestRefused as refused:
            self.answer(request, refused.status, refused.body(), allow=refused.allow)

    def _generate(self, request: Request, body: Body, *, chat: bool) -> None:
        server = self.server
        self.format = server.formats[chat]
        plans = server.plans(request, body, chat=chat)
        usage = server.counts and (not body.stream or body.wants_usage_event)
        reply = (StreamedReply if body.stream else WholeReply)(self, request, plans, usage=usage)
        self._count(request, body, reply, chat=chat)
        if server.slots is None:
            reply.start()
        else:
            self._reply = None  # nothing of it is to be given up until it begins
            if not server.slots.join(request.req, request.arrival, reply.lasts_ns(), partial(self._begin_reply, reply)):
                server.note(request)

    def _begin_reply(self, reply: Reply, begin_ns: int) -> None:
        """Start a reply that has a slot since `begin_ns`."""
        self._reply = reply
        reply.start_at(begin_ns)

    def answer(self, request: Request, status: int, body: bytes, content_type: str = JSON, *, allow: str = "") -> None:
        """Send a whole reply at once."""
        data = sized_head(request, status, content_type, len(body), allow=allow)
        if request.head is not None and request.head.method == b"HEAD":
            body = b""
        if not request.noted:
            self.server.note(request)
        self._answered = (status, len(body), REFUSED if status >= 400 else COMPLETE)
        stamp = self.connection.write(data + body)
        if stamp:
            self._on_taken(stamp)

    def _on_taken(self, stamp: int) -> None:
        """Take in that the kernel has all of a write that had to wait."""
        request = self._current
        if self._others or request is None:
            self._others -= 1
        elif self._reply is not None:
            self._reply.taken(stamp)
        else:
            request.status, request.size, how = self._answered
            self.finished(request, how, stamp)

    def finished(self, request: Request, how: str | None, stamp: int) -> None:
        """Go on with the connection after a reply: close it, or take the next request."""
        self._current, self._reply = None, None
        self.server.ended(request, how, stamp, self.connection)
        if request.close_after:
            self.connection.close()
            self._leave()
        elif not self._untouched:
            self._go_on()

    def note_waiting(self) -> None:
        """Let the journal know of requests that have come and are not being answered yet."""
        for request in self._reader.whole:
            if not request.noted:
                self.server.note(request)
        partial = self._reader.partial
        if partial is not None and partial is not self._noted:
            self._reader.note_body()
            self.server.note(partial)
            self._noted = partial

    def _on_client_closed(self) -> None:
        now = time.monotonic_ns()
        if self.server.slots is not None and self._current is not None:
            self.server.slots.leave(self._current.req, now)
        if self._reply is not None:
            self._reply.abandon()
        for request in self._requests():
            self.server.ended(request, CLIENT_CLOSED, now, self.connection)
        self._leave()

    def abandon(self) -> None:
        """Close at the server's end: what has not ended stays in flight in the journal."""
        if self._reply is not None:
            self._reply.abandon()
        for request in self._requests():
            self.server.ended(request, None, 0, self.connection)
        self.connection.abandon()
        self._leave()

    def _requests(self) -> list[Request]:
        """Return the requests that have not ended, all of them noted."""
        self._reader.note_body()
        requests = [each for each in (self._current, *self._reader.whole, self._reader.partial) if each is not None]
        for request in requests:
            if request is not self._current or not request.noted:
                self.server.note(request)
        return requests

    def _leave(self) -> None:
        self._current, self._reply, self._noted = None, None, None
        self._reader.whole.clear()
        self._reader.end()
        self.server.left(self)
