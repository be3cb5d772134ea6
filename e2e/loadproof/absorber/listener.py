"""Where do connections come in, and what when the process has no descriptor left for one?

One listening socket on the event loop's reader. Left out: what a connection does.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from loadproof.absorber.sockets import Connection

BACKLOG = 4096
PORTS = range(65536)
FULL_PAUSE_S = 0.05  # how long nothing is accepted after the process ran out of descriptors
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Listener:
    """Accepts connections on one port of one address; `port` 0 takes any. Raises OSError if it cannot be bound."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._on_connection: Callable[[Connection], None] = Connection.abandon
        self._again: asyncio.TimerHandle | None = None
        if port not in PORTS:  # resolvers take it modulo 65536
            raise OSError(errno.EINVAL, f"a port is between 0 and {PORTS[-1]}")
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
        self._watch()

    def _watch(self) -> None:
        self._again = None
        self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                # Who is waiting stays in the backlog; without the pause the loop would spin on it.
                self._loop.remove_reader(self._socket.fileno())
                self._again = self._loop.call_later(FULL_PAUSE_S, self._watch)
                return
            sock.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.accepted += 1
            self._on_connection(Connection(self._loop, sock, self.accepted))

    def close(self) -> None:
        """Stop accepting."""
        if self._again is not None:
            self._again.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
