"""On which connection does each request leave, and how are connections opened and given up?

A request leaves on an idle keep-alive connection or on a new one and never waits for another's answer. Names are
looked up once. What one connection does is in `connection`.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import socket
from collections.abc import Sequence
from typing import Self

from loadproof.errors import BrokenRun
from loadproof.metronome.connection import Connection
from loadproof.metronome.exchange import Ended, Exchange
from loadproof.metronome.receive_stamps import StampedReads, ask_for_stamps

_CONNECTS_AT_ONCE = 32  # a listener's backlog is often 100, and a SYN that is dropped comes again after 1 s

_Address = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]]


class Sender:
    """All connections to one server; `async with` closes every one of them."""

    def __init__(self, host: str, port: int, *, timeout_s: float, reuse: bool = True) -> None:
        """`timeout_s`: of each request, from its launch to its answer's end. `reuse`: keep connections for later."""
        self.reuse = reuse
        self.connections: set[Connection] = set()
        self.idle: list[Connection] = []
        self.reads = StampedReads()
        self._host, self._port = host, port
        self._addresses: Sequence[_Address] = ()
        self._timeout_s = timeout_s
        self._connecting: set[asyncio.Task[Connection]] = set()

    async def __aenter__(self) -> Self:
        """Opens nothing yet."""
        self._loop = asyncio.get_running_loop()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Give up what is being opened and close what is open."""
        for task in self._connecting:
            task.cancel()
        await asyncio.gather(*self._connecting, return_exceptions=True)
        for connection in tuple(self.connections):
            connection.close()

    async def open(self, count: int) -> None:
        """Open `count` connections on which nothing is sent yet.

        Raises `BrokenRun` if the server cannot be reached.
        """
        try:
            async with asyncio.timeout(self._timeout_s):
                self.idle.append(await self._connect())
                for batch in itertools.batched(range(count - 1), _CONNECTS_AT_ONCE, strict=False):
                    more = await asyncio.gather(*(self._connect() for _ in batch), return_exceptions=True)
                    # One that fails here is opened again, and fails for good, when a request needs it.
                    self.idle += [connection for connection in more if isinstance(connection, Connection)]
        except OSError as problem:  # TimeoutError is one
            why = str(problem) or "no answer in time"
            raise BrokenRun(
                f"no server can be reached at {self._host}:{self._port} ({why}): start it, or correct --base-url"
            ) from problem

    def launch(self, exchange: Exchange, ended: Ended) -> None:
        """Send now; `ended` is called once, when the answer is over or given up."""
        exchange.ended = ended
        exchange.timer = self._loop.call_later(self._timeout_s, self._expire, exchange)
        if self.idle:
            self.idle.pop().send(exchange)
            return
        task = self._loop.create_task(self._connect())
        exchange.give_up = task.cancel
        self._connecting.add(task)
        task.add_done_callback(functools.partial(self._connected, exchange))

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self.connections.discard(connection)
        if connection in self.idle:
            self.idle.remove(connection)

    async def _connect(self) -> Connection:
        """Connect to the first address that answers; all further connections go there, too."""
        if not self._addresses:
            self._addresses = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        problem: OSError | None = None
        for address in self._addresses:
            try:
                sock = await self._connected_socket(address)
            except OSError as found:
                problem = found
                continue
            self._addresses = [address]
            connection = Connection(self, sock)
            self.connections.add(connection)
            return connection
        raise problem or OSError("the name has no address")

    async def _connected_socket(self, address: _Address) -> socket.socket:
        family, kind, protocol, _, where = address
        sock = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_for_stamps(sock)
            await self._loop.sock_connect(sock, where)
        except BaseException:
            sock.close()
            raise
        return sock

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
