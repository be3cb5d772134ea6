"""Which sockets have something to say?

One epoll set of our own inside the event loop, which sees a single descriptor: an event costs a call of its handler
and no handle of the loop's, and the handler sees the kernel's own event bits, so that a reset is never missed.
At most `EVENTS_A_TURN` a wake-up, so that the pacer comes in between. Left out: what a handler does.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable

EVENTS_A_TURN = 16
READ, CLOSED, WRITE = select.EPOLLIN | select.EPOLLRDHUP, select.EPOLLRDHUP, select.EPOLLOUT

type Handler = Callable[[int], None]


class Poller:
    """Calls `handler(event bits)` of each descriptor that is ready, then `after_turn()`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_turn: Callable[[], None]) -> None:
        self._loop, self._after_turn = loop, after_turn
        self._epoll = select.epoll()
        self._handlers: dict[int, Handler] = {}
        loop.add_reader(self._epoll.fileno(), self._ready)

    def watch(self, fd: int, handler: Handler) -> None:
        """Tell `handler` when `fd` can be read, is closed or has failed."""
        self._handlers[fd] = handler
        self._epoll.register(fd, READ)

    def change(self, fd: int, events: int) -> None:
        """Wait for other events of a watched descriptor."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Watch it no more; to be called before it is closed."""
        if self._handlers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def _ready(self) -> None:
        handlers = self._handlers
        try:
            for fd, events in self._epoll.poll(0, EVENTS_A_TURN):
                handler = handlers.get(fd)  # an earlier one of this turn may have closed it
                if handler is not None:
                    handler(events)
        finally:
            self._after_turn()

    def close(self) -> None:
        """Forget all."""
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        self._handlers.clear()
