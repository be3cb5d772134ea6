"""How does one request get onto the wire, and when is its answer over?

One non-blocking socket of our own on the running loop, with httptools reading the replies: no task and no queue per
request. The send is stamped just before it, what comes in by the kernel. An exchange ends when the HTTP message is
complete. Nothing is ever sent again after a failure: a retry would be load that nobody asked for, so a keep-alive
connection that closes under a request is a failed request.
"""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Protocol, cast

import httptools

from loadproof.metronome.exchange import Exchange
from loadproof.metronome.receive_stamps import StampedReads


class Owner(Protocol):
    """Who has all connections, and is told when one is idle and when it is gone."""

    idle: list[Connection]
    reads: StampedReads
    reuse: bool

    def lost(self, connection: Connection) -> None:
        """Forget it."""


class Connection:
    """One TCP connection: at most one exchange at a time, many after another. Made within the running loop."""

    def __init__(self, owner: Owner, sock: socket.socket) -> None:
        """`sock` is connected and does not block; from now on it is this connection's to close."""
        self._owner, self._socket, self._fd = owner, sock, sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._exchange: Exchange | None = None
        self._unsent = b""
        self._parser = httptools.HttpResponseParser(self)
        self._framed = self._complete = False
        self._keep = True
        self._now_ns = 0
        self.closed = False
        self._loop.add_reader(self._fd, self._readable)

    def send(self, exchange: Exchange) -> None:
        """Send the request, in one piece unless the kernel takes only a part of it."""
        if self.closed:  # between the connection and this call
            exchange.end("the server closed before anything was sent")
            return
        self._exchange = exchange
        self._framed = self._complete = False
        exchange.give_up = self.close
        exchange.sent_ns = time.monotonic_ns()
        exchange.intended_ns = exchange.intended_ns or exchange.sent_ns
        self._unsent = exchange.request
        self._push()

    def _push(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError as problem:
            self._lost(problem)
            return
        waiting, self._unsent = len(self._unsent) > sent, self._unsent[sent:]
        if waiting:
            self._loop.add_writer(self._fd, self._writable)

    def _writable(self) -> None:
        self._loop.remove_writer(self._fd)
        self._push()

    def _readable(self) -> None:
        """Read all that is there: a watched socket that was reset might not be reported twice."""
        while not self.closed:
            try:
                data, now_ns = self._owner.reads.read(self._socket)
            except BlockingIOError:
                return
            except OSError as problem:
                self._lost(problem)
                return
            if data:
                self.take(data, now_ns)
            else:
                self._end_of_stream(now_ns)

    def take(self, data: bytes, now_ns: int) -> None:
        """Feed the parser; one time stamp for all that this read brought."""
        self._now_ns = now_ns
        if self._exchange is None:  # bytes that nobody asked for: the next reply could not be trusted
            self.close()
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

    def _end_of_stream(self, now_ns: int) -> None:
        """Fail what was in flight, unless the close is how that reply ends."""
        self._now_ns, self._keep = now_ns, False
        exchange = self._exchange
        if exchange is not None and exchange.answer.status and not self._framed:
            self._over()
        else:
            self.close("the server closed before the answer was complete")

    def _lost(self, problem: OSError) -> None:
        self.close(f"the connection was lost: {problem}")

    def close(self, why: str = "given up") -> None:
        """Close now; what was in flight ends, failed for `why`. Idempotent."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._socket.close()
        self._owner.lost(self)
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end(why)

    def _over(self, why: str = "") -> None:
        exchange, self._exchange = cast("Exchange", self._exchange), None
        if not why:
            exchange.answer.close(self._now_ns)
        if self._keep and self._owner.reuse and not why:
            self._owner.idle.append(self)  # before `end`: a closed loop's next request then takes this one
        else:
            self.close()
        exchange.end(why, self._now_ns)

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
