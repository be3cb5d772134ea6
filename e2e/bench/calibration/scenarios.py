"""Which loads is the absorber calibrated under?

Each scenario drives plain blocking sockets, names its requests by X-Request-ID, waits until all are answered whole,
and returns the names. A literal table; the counts are those of `scale` 1. Nothing is measured here.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from loadproof.absorber.profile import Profile
from loadproof.errors import BrokenRun

PROFILE = Profile(ttft_s=0.003, itl_s=0.005)
CHUNKS = 16
_DEADLINE_S = 60.0  # of a socket that waits for what never comes
_PAUSE_S = 0.002  # between head and body: long enough that the server reads the one without the other
_LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Target:
    """Who is asked, and how many times the table's counts: `scale`."""

    host: str
    port: int
    model: str
    scale: float = 1.0

    def times(self, count: int) -> range:
        """Return that many, scaled, at least two."""
        return range(max(2, round(count * self.scale)))

    @contextmanager
    def connection(self) -> Iterator[socket.socket]:
        """Return an open connection that sends what it is given at once."""
        with socket.create_connection((self.host, self.port), timeout=_DEADLINE_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield sock

    def request(self, name: str, *, tokens: int = 1, padding: int = 0) -> tuple[bytes, bytes]:
        """Return head and body of a request for a stream of `tokens`, the body with `padding` bytes nobody reads."""
        body = json.dumps({"model": self.model, "prompt": name, "max_tokens": tokens, "ignore_eos": True,
                           "stream": True, "padding": "x" * padding}).encode()  # fmt: skip
        head = (f"POST /v1/completions HTTP/1.1\r\nHost: calibration\r\nX-Request-ID: {name}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n")  # fmt: skip
        return head.encode(), body


def _answered(sock: socket.socket) -> None:
    reply = bytearray()
    while not reply.endswith(_LAST_CHUNK):
        data = sock.recv(65536)
        if not data:
            raise BrokenRun(f"the absorber closed in the middle of a reply: {bytes(reply[-200:])!r}")
        reply += data
    if not reply.startswith(b"HTTP/1.1 200 "):
        raise BrokenRun(f"the absorber refused a request of the calibration: {bytes(reply[:200])!r}")


def _one_after_the_other(
    target: Target, name: str, count: int, send: Callable[[socket.socket, str], None]
) -> list[str]:
    """Send `count` requests on one connection, each when the one before it is answered."""
    names = [f"{name}-{k}" for k in target.times(count)]
    with target.connection() as sock:
        for each in names:
            send(sock, each)
            _answered(sock)
    return names


def _at_once(target: Target, names: Iterable[str], tokens: int) -> None:
    """Open a connection for each name, then send on all of them, then read all replies."""
    with ExitStack() as stack:
        opened = [(stack.enter_context(target.connection()), target.request(name, tokens=tokens)) for name in names]
        for sock, parts in opened:
            sock.sendall(b"".join(parts))
        for sock, _ in opened:
            _answered(sock)


def _keep_alive(target: Target) -> list[str]:
    def send(sock: socket.socket, name: str) -> None:
        sock.sendall(b"".join(target.request(name)))

    return _one_after_the_other(target, "keep-alive", 300, send)


def _streams(target: Target) -> list[str]:
    rounds = [[f"streams-{round_}-{k}" for k in range(10)] for round_ in target.times(12)]
    for names in rounds:
        _at_once(target, names, CHUNKS)
    return [name for names in rounds for name in names]


def _two_writes(target: Target, name: str, pause_s: float) -> list[str]:
    def send(sock: socket.socket, each: str) -> None:
        head, body = target.request(each)
        sock.sendall(head)
        if pause_s:
            time.sleep(pause_s)  # the pause is the load itself, not a wait for something
        sock.sendall(body)

    return _one_after_the_other(target, name, 150, send)


def _bursts(target: Target) -> list[str]:
    rounds = [[f"burst-{round_}-{k}" for k in range(200)] for round_ in target.times(5)]
    for names in rounds:
        _at_once(target, names, 2)
    return [name for names in rounds for name in names]


def _segments(target: Target) -> list[str]:
    """Send bodies of 24 KB in writes of 4 KB, and of 200 KB in one write, by turns."""

    def send(sock: socket.socket, name: str) -> None:
        if int(name.rpartition("-")[2]) % 2:
            data = b"".join(target.request(name, padding=24_000))
            for at in range(0, len(data), 4096):
                sock.sendall(data[at : at + 4096])
        else:
            sock.sendall(b"".join(target.request(name, padding=200_000)))

    return _one_after_the_other(target, "segments", 100, send)


SCENARIOS: dict[str, Callable[[Target], list[str]]] = {
    "one after the other, keep-alive": _keep_alive,
    "streams of 16 chunks at 5 ms": _streams,
    "head and body in two writes, no pause": lambda target: _two_writes(target, "two-writes", 0.0),
    "head and body in two writes, 2 ms apart": lambda target: _two_writes(target, "two-writes-pause", _PAUSE_S),
    "bursts of 200 connections": _bursts,
    "bodies of several segments": _segments,
}
