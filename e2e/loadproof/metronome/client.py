"""How does one request get onto the wire, and when is its answer over?

Our own protocol on the running loop, with httptools reading the replies: no task and no queue per request.
A request leaves on an idle keep-alive connection or on a new one and never waits for another's answer. An
exchange ends when the HTTP message is complete. Nothing is ever sent again after a failure: a retry
would be load that nobody asked for, so a keep-alive connection that closes under a request is a failed request.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from typing import Self, cast

import httptools

from loadproof.errors import BrokenRun
from loadproof.metronome.exchange import Ended, Exchange

_CONNECTS_AT_ONCE = 32  # a listener's backlog is often 100, and a SYN that is dropped comes again after 1 s


class Connection(asyncio.Protocol):
    """One TCP connection: at most one exchange at a time, many after another."""

    def __init__(self, sender: Sender) -> None:
        """`sender` owns the connection and is told when it is idle or gone."""
        self._sender = sender
        self._exchange: Exchange | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the parser; nothing is sent yet."""
        self.transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._framed = self._complete = False
        self._keep = True
        self._now_ns = 0
        self._sender.connections.add(self)

    def send(self, exchange: Exchange) -> None:
        """Write the request in one piece."""
        if self.transport.is_closing():  # between the connection and this call; no event would come any more
            exchange.end("the server closed before anything was sent")
            return
        self._exchange = exchange
        self._framed = self._complete = False
        exchange.give_up = self.transport.abort
        exchange.sent_ns = time.monotonic_ns()
        exchange.intended_ns = exchange.intended_ns or exchange.sent_ns
        self.transport.write(exchange.request)

    def data_received(self, data: bytes) -> None:
        """Feed the parser; one time stamp for all that this read brought."""
        self._now_ns = time.monotonic_ns()
        if self._exchange is None:  # bytes that nobody asked for: the next reply could not be trusted
            self.transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            if not self._complete:
                self._over(f"the reply is not HTTP: {problem}")
                return
            self._keep = False
        if self._complete:
            self._over()

    def connection_lost(self, exc: Exception | None) -> None:
        """Closed by either side: fails what was in flight, unless the close is how that reply ends."""
        self._sender.connections.discard(self)
        self._keep = False
        if self._exchange is None:
            pass
        elif exc is None and self._exchange.answer.status and not self._framed:
            self._now_ns = time.monotonic_ns()
            self._over()
        else:
            self._over(f"the connection was lost: {exc}" if exc else "the server closed before the answer was complete")
        self._sender.lost(self)

    def _over(self, why: str = "") -> None:
        exchange, self._exchange = cast("Exchange", self._exchange), None
        if not why:
            exchange.answer.close(self._now_ns)
        if self._keep and not why:
            self._sender.idle.append(self)  # before `end`: a closed loop's next request then takes this one
        else:
            self.transport.abort()
        exchange.end(why)

    def on_message_begin(self) -> None:
        """Another reply without another request: finish the first, then do not trust this connection."""
        self._keep = self._keep and not self._complete

    def on_header(self, name: bytes, value: bytes) -> None:  # noqa: ARG002  # the parser's signature
        """Remember whether the reply says where it ends, or ends with the connection."""
        self._framed = self._framed or name.lower() in {b"content-length", b"transfer-encoding"}

    def on_headers_complete(self) -> None:
        """Hand the status to the answer."""
        if self._exchange is not None and not self._complete:
            self._exchange.answer.status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Hand the bytes to the answer."""
        if self._exchange is not None and not self._complete:
            self._exchange.answer.feed(body, self._now_ns)

    def on_message_complete(self) -> None:
        """The answer is over, unless it was only an interim one (1xx)."""
        if not self._complete and self._parser.get_status_code() >= 200:
            self._complete = True
            self._keep = self._keep and self._parser.should_keep_alive()


class Sender:
    """All connections to one server; `async with` closes every one of them and waits until they are gone."""

    def __init__(self, host: str, port: int, *, timeout_s: float) -> None:
        """`timeout_s`: of each request, from its launch to the end of its answer."""
        self.connections: set[Connection] = set()
        self.idle: list[Connection] = []
        self._address = (host, port)
        self._timeout_s = timeout_s
        self._connecting: set[asyncio.Task[Connection]] = set()

    async def __aenter__(self) -> Self:
        """Opens nothing yet."""
        self._loop = asyncio.get_running_loop()
        self._gone: asyncio.Future[None] | None = None
        return self

    async def __aexit__(self, *_: object) -> None:
        """Abort what is open and wait for its end."""
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        self._gone = self._loop.create_future()
        for connection in tuple(self.connections):
            connection.transport.abort()
        if self.connections:
            await self._gone

    async def open(self, count: int) -> None:
        """Open `count` connections on which nothing is sent yet.

        Raises `BrokenRun` if the server cannot be reached.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                first = await self._connect()
                # A name is looked up once; all further connections go to the address that answered.
                self._address = first.transport.get_extra_info("peername")[:2]
                self.idle.append(first)
                for batch in itertools.batched(range(count - 1), _CONNECTS_AT_ONCE, strict=False):
                    more = await asyncio.gather(*(self._connect() for _ in batch), return_exceptions=True)
                    # One that fails here is opened again, and fails for good, when a request needs it.
                    self.idle += [connection for connection in more if isinstance(connection, Connection)]
        except OSError as problem:  # TimeoutError is one
            host, port = self._address
            why = str(problem) or "no answer in time"
            raise BrokenRun(
                f"no server can be reached at {host}:{port} ({why}): start it, or correct --base-url"
            ) from problem

    def launch(self, exchange: Exchange, ended: Ended) -> None:
        """Send now; `ended` is called once, when the answer is over or given up."""
        exchange.ended = ended
        exchange.timer = self._loop.call_later(self._timeout_s, self._expire, exchange)
        while self.idle:
            connection = self.idle.pop()
            if not connection.transport.is_closing():
                connection.send(exchange)
                return
        task = self._loop.create_task(self._connect())
        exchange.give_up = task.cancel
        self._connecting.add(task)
        task.add_done_callback(functools.partial(self._connected, exchange))

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        if connection in self.idle:
            self.idle.remove(connection)
        if self._gone is not None and not self.connections and not self._gone.done():
            self._gone.set_result(None)

    async def _connect(self) -> Connection:
        _, connection = await self._loop.create_connection(lambda: Connection(self), *self._address)
        return connection

    def _connected(self, exchange: Exchange, task: asyncio.Task[Connection]) -> None:
        self._connecting.discard(task)
        if task.cancelled():
            exchange.end("no connection")
        elif problem := task.exception():
            exchange.end(f"no connection: {problem}")
        elif exchange.answer.error:  # given up between the connection and this call
            self.idle.append(task.result())
            exchange.end()
        else:
            task.result().send(exchange)

    def _expire(self, exchange: Exchange) -> None:
        """Give up; the exchange ends as the connection does, so that a slot's next request never overlaps it."""
        exchange.answer.fail(f"no complete answer within {self._timeout_s:g} s")
        if exchange.give_up is not None:
            exchange.give_up()
