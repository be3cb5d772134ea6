"""Which reply does each request get, and what does the journal say of it?

Ties the rooms together on one event loop: connections feed requests in, a plan says what is due when, the
pacer calls, and every step leaves its mark in the request's `Record`. Requests of one connection are
answered one after the other. Left out: faults, queues, several workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter, deque

import httptools

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.endpoints import answer_small
from loadproof.absorber.http import CONTINUE, Request, RequestReader, TooLarge, head
from loadproof.absorber.metrics import Metrics
from loadproof.absorber.openai import CHAT, COMPLETIONS, RequestRefused, read_body
from loadproof.absorber.pacer import Pacer
from loadproof.absorber.plan import plan_reply
from loadproof.absorber.profile import Profile
from loadproof.absorber.reply import Reply
from loadproof.absorber.sockets import Connection
from loadproof.journal import CLIENT_CLOSED, COMPLETE, REFUSED, Record
from loadproof.live import LiveCounters

JSON = "application/json"
GENERATES = {COMPLETIONS: False, CHAT: True}


class Server:
    """The absorber's state: all records, and what is needed to answer."""

    def __init__(self, profile: Profile, model: str, counting: CountingThread, live: LiveCounters) -> None:
        self.profile, self.model, self.counting, self.live = profile, model, counting, live
        self.pacer = Pacer(asyncio.get_running_loop())
        self.records: list[Record] = []
        self.metrics = Metrics(model)
        self.created = int(time.time())
        self._bodies: Counter[bytes] = Counter()

    def accept(self, connection: Connection) -> None:
        """Serve a new connection until it closes."""
        Session(self, connection)

    def new_record(self, connection: Connection, read_ns: int) -> Record:
        """Begin a row for the request whose first byte was read at `read_ns`."""
        record = Record(len(self.records), connection.number, connection.requests, read_ns, read_ns)
        connection.requests += 1
        self.records.append(record)
        return record

    def reply_ended(self, record: Record) -> None:
        """Count a generation reply whose last byte the kernel took."""
        self.live.ended += 1
        self.metrics.observe(record)

    def know_body(self, record: Record) -> None:
        """Set digest and occurrence."""
        record.digest = hashlib.sha256(record.body).digest()[:16]
        record.occurrence = self._bodies[record.digest]
        self._bodies[record.digest] += 1


class Session:
    """One connection: its requests in order, at most one being answered."""

    def __init__(self, server: Server, connection: Connection) -> None:
        self.server, self.connection = server, connection
        self._reader = RequestReader(
            lambda read_ns: server.new_record(connection, read_ns),
            self._on_request,
            lambda: connection.write(CONTINUE, lambda _stamp: None),
        )
        self._waiting: deque[Request] = deque()
        self._current: Request | None = None
        connection.on_data, connection.on_closed = self._on_data, self._on_client_closed

    def _on_data(self, data: bytes, read_ns: int) -> None:
        try:
            self._reader.feed(data, read_ns)
        except TooLarge as error:
            self._refuse_bytes(error.status, "The request is larger than this server accepts, or asks for an upgrade.")
        except httptools.HttpParserError as error:
            self._refuse_bytes(400, f"Not a valid HTTP/1.1 request: {error}")

    def _refuse_bytes(self, status: int, message: str) -> None:
        partial = self._reader.partial
        record = partial.record if partial else self.server.new_record(self.connection, time.monotonic_ns())
        if self._current is not None:  # an error in the middle of another reply would be read as its text
            record.status, record.how, record.done = status, REFUSED, time.monotonic_ns()
            self._on_client_closed()
            self.connection.close()
            return
        refused = Request(record)
        refused.close_after = True
        self.answer(refused, status, RequestRefused(message, status=status).body())

    def _on_request(self, request: Request) -> None:
        self.server.know_body(request.record)
        if self._current is None:
            self._start(request)
        else:
            self._waiting.append(request)

    def _start(self, request: Request) -> None:
        self._current = request
        record = request.record
        path = record.target.partition(b"?")[0].decode("latin-1")
        try:
            if record.method == b"POST" and path in GENERATES:
                self._generate(request, chat=GENERATES[path])
            else:
                answer_small(self, request, path)
        except RequestRefused as refused:
            self.answer(request, refused.status, refused.body())

    def _generate(self, request: Request, *, chat: bool) -> None:
        self.server.live.arrived += 1
        record, server = request.record, self.server
        body = read_body(record.body, chat=chat, model=server.model)
        plan = plan_reply(
            server.profile,
            max_tokens=body.token_limit,
            min_tokens=body.min_tokens or 0,
            ignore_eos=bool(body.ignore_eos),
        )
        Reply(self, request, body, plan, chat=chat).start()

    def answer(self, request: Request, status: int, body: bytes, content_type: str = JSON) -> None:
        """Send a whole reply at once."""
        record = request.record
        record.status, record.bytes = status, len(body)
        record.how = REFUSED if status >= 400 else COMPLETE
        data = head(status, content_type, length=len(body), close=request.close_after)

        def taken(stamp: int) -> None:
            record.done = stamp
            self.finished(request)

        self.connection.write(data if record.method == b"HEAD" else data + body, taken)

    def finished(self, request: Request) -> None:
        """Go on with the connection after a reply: close it, or take the next request."""
        request.record.blocked_ns += self.connection.blocked_ns
        self.connection.blocked_ns = 0
        self._current = None
        if request.close_after:
            self.connection.close()
        elif self._waiting:
            self._start(self._waiting.popleft())

    def _on_client_closed(self) -> None:
        now = time.monotonic_ns()
        partial = self._reader.partial
        for request in [self._current, partial, *self._waiting]:
            if request is not None and request.record.how is None:
                request.record.how, request.record.done = CLIENT_CLOSED, now
        self._current = None
