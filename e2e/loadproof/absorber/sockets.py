"""How do bytes leave and arrive, and when exactly?

Our own non-blocking sockets on the event loop's readers and writers: a read is stamped when `recv`
returned, a write just before the `send` whose return shows that the kernel took its last byte. What the
kernel does not take waits in a queue of that connection. The end of the client's stream counts as its
close: a half-closed client cannot be told from one that is gone before it is too late to say when it left.
Left out: the kernel's own receive stamps.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import sys
import termios
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

READ_BYTES = 64 * 1024
READS_A_TURN = 16  # so that one client with much to say does not keep the others waiting
QUEUE_BYTES = 1024 * 1024  # beyond it a stream waits until its client reads
LINGER_S = 2.0

type Taken = Callable[[int], None]


def _no_data(_data: bytes, _read_ns: int) -> None:
    """Take in what comes after the end, so that closing does not reset what the client has still to read."""


def _nothing() -> None:
    """Stand where an owner is no longer there."""


class Connection:
    """One accepted socket. `on_data(data, read_ns)` and `on_closed()` are set by its owner."""

    __slots__ = (
        "__weakref__", "_blocked_ns", "_blocked_since", "_fd", "_linger", "_loop", "_pending", "_socket", "closed",
        "number", "on_closed", "on_data", "on_drained", "pending_bytes", "requests",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, number: int) -> None:
        self._loop, self._socket, self._fd, self.number = loop, sock, sock.fileno(), number
        self.on_data: Callable[[bytes, int], None] = _no_data
        self.on_closed: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] | None = None
        self._pending: deque[tuple[memoryview, Taken]] = deque()
        self._blocked_ns = self._blocked_since = 0
        self.pending_bytes = self.requests = 0
        self.closed = False
        self._linger: asyncio.TimerHandle | None = None
        loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        # Until nothing is left: libuv stops watching a socket that was reset, also when there is data before it,
        # and a reset that came with the request would be seen only at our next write.
        for _ in range(READS_A_TURN):
            if not self._read():
                return
        self._loop.call_soon(self._readable)

    def _read(self) -> bool:
        """Take in what one `recv` gives; whether there may be more."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        read_ns = time.monotonic_ns()
        if data:
            self.on_data(data, read_ns)
        elif self.closed:
            self._release()
        else:
            self._closed_by_client()
        return bool(data)

    def write(self, data: bytes, taken: Taken) -> None:
        """Send `data`; `taken(stamp_ns)` runs when the kernel has its last byte, never after a close."""
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
            self._closed_by_client()
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
                self._count_blocked(stamp)
            taken(stamp)
        if not self.closed and not self._pending and self.on_drained is not None:
            drained, self.on_drained = self.on_drained, None
            drained()

    def _count_blocked(self, now: int) -> None:
        if self._blocked_since:
            self._blocked_ns += now - self._blocked_since
            self._blocked_since = 0

    def take_blocked_ns(self) -> int:
        """Return how long writes have waited for the client since this was last asked, in nanoseconds."""
        taken, self._blocked_ns = self._blocked_ns, 0
        return taken

    def outq_bytes(self) -> int:
        """Return how many bytes the client has not taken: ours that wait, and the kernel's unacknowledged ones."""
        if self.closed:
            return self.pending_bytes
        unacknowledged = fcntl.ioctl(self._fd, termios.TIOCOUTQ, bytes(4))
        return self.pending_bytes + int.from_bytes(unacknowledged, sys.byteorder)

    def close(self) -> None:
        """Say that no more comes. What the client still sends is read and dropped until it closes, too.

        Closing with unread data would reset the connection, and the reply that explains why could be lost.
        """
        if self.closed:
            return
        self._end()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        self._linger = self._loop.call_later(LINGER_S, self._release)

    def abandon(self) -> None:
        """Close now and tell nobody: the server ends, and what was in flight stays in flight in the journal."""
        if not self.closed:
            self._end()
        self._release()

    def _closed_by_client(self) -> None:
        if self.closed:
            return
        on_closed = self.on_closed
        self._end()
        self._release()
        on_closed()

    def _end(self) -> None:
        """Stop sending and let go of the owner, which holds us: no cycle is left for a collector."""
        self.closed = True
        if self._pending:
            self._loop.remove_writer(self._fd)
            self._pending.clear()
            self._count_blocked(time.monotonic_ns())
        self.on_data, self.on_closed, self.on_drained = _no_data, _nothing, None

    def _release(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._fd)
            self._socket.close()
