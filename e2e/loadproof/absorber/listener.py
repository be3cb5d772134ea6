"""Where do connections come in, and what when the process has no descriptor left for one?

One listening socket in the poller; what it accepts inherits its options. Left out: what a connection does.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable

from loadproof.absorber.poller import Poller
from loadproof.absorber.sockets import ask_for_stamps

BACKLOG = 4096
PORTS = range(65536)
ACCEPTS_A_TURN = 64  # so that a rush of connections does not keep the pacer waiting
FULL_PAUSE_S = 0.05  # how long nothing is accepted after the process ran out of descriptors
_FULL = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})

type OnSocket = Callable[[socket.socket], None]


class Listener:
    """Accepts connections on one port of one address; `port` 0 takes any. Raises OSError if it cannot be bound."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> None:
        self._loop = loop
        self._poller: Poller | None = None
        self._again: asyncio.TimerHandle | None = None
        if port not in PORTS:  # resolvers take it modulo 65536
            raise OSError(errno.EINVAL, f"a port is between 0 and {PORTS[-1]}")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        self._socket = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            ask_for_stamps(self._socket)
            self._socket.bind(address)
            self._socket.listen(BACKLOG)
        except OSError:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]

    def start(self, poller: Poller, on_socket: OnSocket) -> None:
        """Begin to accept; who came since the bind is waiting in the backlog."""
        self._poller, self._on_socket = poller, on_socket
        self._watch(poller)

    def _watch(self, poller: Poller) -> None:
        self._again = None
        poller.watch(self._socket.fileno(), lambda _events: self._acceptable(poller))

    def _acceptable(self, poller: Poller) -> None:
        for _ in range(ACCEPTS_A_TURN):
            try:
                sock, _ = self._socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                # Who is waiting stays in the backlog; without the pause the loop would spin on it.
                poller.forget(self._socket.fileno())
                self._again = self._loop.call_later(FULL_PAUSE_S, self._watch, poller)
                return
            sock.setblocking(False)  # noqa: FBT003 -- the standard library's own signature
            self._on_socket(sock)

    def close(self) -> None:
        """Stop accepting."""
        if self._again is not None:
            self._again.cancel()
        if self._socket.fileno() >= 0:
            if self._poller is not None:
                self._poller.forget(self._socket.fileno())
            self._socket.close()
