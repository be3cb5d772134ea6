"""How do bytes leave and arrive, and when exactly?

Our own non-blocking sockets on the event loop's readers and writers: a read is stamped when `recv`
returned, a write just before the `send` whose return shows that the kernel took its last byte. What the
kernel does not take waits in a queue of that connection. Left out: the kernel's own receive stamps.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

READ_BYTES = 64 * 1024
BACKLOG = 4096
QUEUE_BYTES = 1024 * 1024  # beyond it a stream waits until its client reads

type Taken = Callable[[int], None]


class Connection:
    """One accepted socket. `on_data(data, read_ns)` and `on_closed()` are set by its owner."""

    __slots__ = (
        "_blocked_since", "_fd", "_loop", "_pending", "_socket", "blocked_ns", "closed", "number", "on_closed",
        "on_data", "on_drained", "pending_bytes", "requests",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, number: int) -> None:
        self._loop, self._socket, self._fd, self.number = loop, sock, sock.fileno(), number
        self.on_data: Callable[[bytes, int], None] = lambda _data, _ns: None
        self.on_closed: Callable[[], None] = lambda: None
        self.on_drained: Callable[[], None] | None = None
        self._pending: deque[tuple[memoryview, Taken]] = deque()
        self._blocked_since = 0
        self.pending_bytes = self.blocked_ns = self.requests = 0
        self.closed = False
        loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        read_ns = time.monotonic_ns()
        if data:
            self.on_data(data, read_ns)
        else:
            self.close(by_client=True)

    def write(self, data: bytes, taken: Taken) -> None:
        """Send `data`; `taken(stamp_ns)` runs when the kernel has its last byte."""
        if self.closed:
            return
        if self._pending:
            self._queue(memoryview(data), taken)
            return
        stamp = time.monotonic_ns()
        sent = self._send(data)
        if sent == len(data):
            taken(stamp)
        elif not self.closed:
            self._blocked_since = stamp
            self._queue(memoryview(data)[sent:], taken)
            self._loop.add_writer(self._fd, self._writable)

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self.close(by_client=True)
            return 0

    def _queue(self, data: memoryview, taken: Taken) -> None:
        self._pending.append((data, taken))
        self.pending_bytes += len(data)

    def _writable(self) -> None:
        while self._pending and not self.closed:
            data, taken = self._pending[0]
            stamp = time.monotonic_ns()
            sent = self._send(data)
            self.pending_bytes -= sent
            if sent < len(data):
                if not self.closed:
                    self._pending[0] = (data[sent:], taken)
                return
            self._pending.popleft()
            if not self._pending:
                self._loop.remove_writer(self._fd)
                self.blocked_ns += stamp - self._blocked_since
            taken(stamp)
        if not self.closed and self.on_drained is not None:
            drained, self.on_drained = self.on_drained, None
            drained()

    def close(self, *, by_client: bool = False) -> None:
        """Close the socket once; `on_closed` runs only when the client did it."""
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._fd)
        if self._pending:
            self._loop.remove_writer(self._fd)
            self._pending.clear()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._socket.close()
        if by_client:
            self.on_closed()


class Listener:
    """Accepts connections on one port of one address; `port` 0 takes any."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._on_connection: Callable[[Connection], None] = lambda connection: connection.close()
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.bind(address)
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self.accepted = 0

    def start(self, on_connection: Callable[[Connection], None]) -> None:
        """Begin to accept; who came since the bind is waiting in the backlog."""
        self._on_connection = on_connection
        self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            sock.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self._on_connection(Connection(self._loop, sock, self.accepted))

    def close(self) -> None:
        """Stop accepting."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
