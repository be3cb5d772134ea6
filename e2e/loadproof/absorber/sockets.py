"""How do bytes leave and arrive, and when exactly?

Our own non-blocking sockets in our own epoll set. What the kernel stamped when it received (SO_TIMESTAMPNS) comes with
each read; it is the stamp of the last segment that this read took. A write is stamped just before the `send` whose
return shows that the kernel took its last byte. What it does not take waits in a queue of that connection. The end of
the client's stream counts as its close, as with the usual servers: a half-closed client cannot be told from one that is
gone before it is too late to say when it left.
"""

from __future__ import annotations

import asyncio
import fcntl
import socket
import struct
import sys
import termios
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from loadproof.absorber.poller import CLOSED, READ, WRITE, Poller

SO_TIMESTAMPNS = 35  # Linux; the socket module has no name for it
READ_BYTES = 64 * 1024
QUEUE_BYTES = 1024 * 1024  # beyond it a stream waits until its client reads
LINGER_S = 2.0
_STAMP = struct.Struct("@qq")
_unpack = _STAMP.unpack
_STAMP_SPACE = socket.CMSG_SPACE(_STAMP.size)

type OnData = Callable[[bytes, int, int], None]


def ask_for_stamps(listening: socket.socket) -> bool:
    """Let the kernel stamp what the connections of this listener receive; whether it will."""
    with suppress(OSError):
        listening.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        return True
    return False


def _no_data(_data: bytes, _stamp: int, _read_ns: int) -> None:
    """Take in what comes after the end, so that closing does not reset what the client has still to read."""


def _nothing() -> None:
    """Stand where an owner is no longer there."""


def _nowhere(_stamp: int) -> None:
    """Stand where nobody waits for a write."""


class Connection:
    """One accepted socket; its owner sets what is called.

    `on_data(data, stamp_ns, read_ns)`: `stamp_ns` is the kernel's, CLOCK_REALTIME, 0 if there is none. `on_closed()`:
    the client closed. `on_taken(stamp_ns)`: once for each `write` that returned 0, when the kernel has its last byte,
    never after a close. `on_drained()`: the queue is empty again, once.
    """

    __slots__ = (
        "_blocked_ns", "_blocked_since", "_fd", "_linger", "_loop", "_pending", "_poller", "_reads", "_socket",
        "closed", "number", "on_closed", "on_data", "on_drained", "on_taken", "pending_bytes", "requests",
    )  # fmt: skip

    def __init__(self, loop: asyncio.AbstractEventLoop, poller: Poller, sock: socket.socket, number: int) -> None:
        self._loop, self._poller, self._socket, self._fd = loop, poller, sock, sock.fileno()
        self.number = number
        self.on_data: OnData = _no_data
        self.on_closed: Callable[[], None] = _nothing
        self.on_taken: Callable[[int], None] = _nowhere
        self.on_drained: Callable[[], None] | None = None
        self._pending: deque[memoryview] | None = None
        self._reads = READ
        self._blocked_ns = self._blocked_since = 0
        self.pending_bytes = self.requests = 0
        self.closed = False
        self._linger: asyncio.TimerHandle | None = None
        poller.watch(self._fd, self._on_events)

    def read_on(self, *, more: bool) -> None:
        """Read what comes, or leave it to the kernel, which holds the client back; its close is seen all the same."""
        self._reads = READ if more else CLOSED
        if not self.closed:
            self._poller.change(self._fd, self._reads | (WRITE if self._pending else 0))

    def _on_events(self, events: int) -> None:
        if events & WRITE:
            self._writable()
            if self._socket.fileno() < 0 or not events & ~WRITE:
                return
        stamp = 0
        try:
            data, ancillary, _, _ = self._socket.recvmsg(READ_BYTES, _STAMP_SPACE)
        except BlockingIOError:
            return
        except OSError:
            data, ancillary = b"", []
        read_ns = time.monotonic_ns()
        if data:
            if ancillary and ancillary[0][1] == SO_TIMESTAMPNS:  # nothing else was asked for
                seconds, nanoseconds = _unpack(ancillary[0][2])
                stamp = seconds * 1_000_000_000 + nanoseconds
            self.on_data(data, stamp, read_ns)
        elif self.closed:
            self._release()
        else:
            self._closed_by_client()

    def write(self, data: bytes) -> int:
        """Send `data`; return when the kernel took its last byte, or 0 if a part waits (or the client is gone)."""
        if self.closed:
            return 0
        if self._pending:
            self._queue(memoryview(data))
            return 0
        stamp = time.monotonic_ns()
        try:
            sent = self._socket.send(data)
        except OSError:
            sent = self._send(data)  # once more: it says what it is
        if sent == len(data):
            return stamp
        if not self.closed:
            self._blocked_since = stamp
            self._queue(memoryview(data)[sent:])
            self._poller.change(self._fd, self._reads | WRITE)
        return 0

    def _send(self, data: bytes | memoryview) -> int:
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._closed_by_client()
            return 0

    def _queue(self, data: memoryview) -> None:
        if self._pending is None:
            self._pending = deque()
        self._pending.append(data)
        self.pending_bytes += len(data)

    def _writable(self) -> None:
        while self._pending and not self.closed:
            data = self._pending[0]
            stamp = time.monotonic_ns()
            sent = self._send(data)
            self.pending_bytes -= sent
            if sent < len(data):
                if not self.closed:
                    self._pending[0] = data[sent:]
                return
            self._pending.popleft()
            if not self._pending:
                self._poller.change(self._fd, self._reads)
                self._count_blocked(stamp)
            self.on_taken(stamp)
        if not self.closed and not self._pending and self.on_drained is not None:
            drained, self.on_drained = self.on_drained, None
            drained()

    def _count_blocked(self, now: int) -> None:
        if self._blocked_since:
            self._blocked_ns += now - self._blocked_since
            self._blocked_since = 0

    @property
    def was_blocked(self) -> bool:
        """Whether `take_blocked_ns` has something to tell."""
        return self._blocked_ns > 0 or self._blocked_since > 0

    def take_blocked_ns(self) -> int:
        """Return how long writes have waited for the client since this was last asked, in nanoseconds."""
        if self._blocked_since:  # and they still wait
            now = time.monotonic_ns()
            self._blocked_ns += now - self._blocked_since
            self._blocked_since = now
        taken, self._blocked_ns = self._blocked_ns, 0
        return taken

    def outq_bytes(self) -> int:
        """Return how many bytes the client has not taken: ours that wait, and the kernel's unacknowledged ones."""
        if self._socket.fileno() < 0:
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
        on_closed()  # it asks what the client has not taken, while the socket can still tell
        self._release()

    def _end(self) -> None:
        """Stop sending and let go of the owner, which holds us: no cycle is left for a collector."""
        self.closed = True
        if self._pending or self._reads != READ:
            self._poller.change(self._fd, READ)
        if self._pending:
            self._pending.clear()
        self._count_blocked(time.monotonic_ns())
        self.on_data, self.on_closed, self.on_taken, self.on_drained = _no_data, _nothing, _nowhere, None

    def _release(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None
        if self._socket.fileno() >= 0:
            self._poller.forget(self._fd)
            self._socket.close()
