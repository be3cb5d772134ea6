"""How are many paced streams opened at exact moments and read without getting in the server's way?

One thread, one epoll, plain sockets: requests leave at given moments (it spins before each, on a core of its
own), replies are read and only looked at for their end. Left out: what is in the replies; when chunks were
sent is asked of the journal.
"""

from __future__ import annotations

import json
import os
import resource
import select
import socket
import time
from collections.abc import Sequence

import msgspec

from bench.speed_parts.servers import PATH, Server
from loadproof.absorber.precedence import LOOP, take_precedence
from loadproof.errors import BrokenRun

SPIN_NS = 400_000  # nothing is read this close to a send: one turn of reading may take as long
EVENTS_A_TURN = 64
END = b"0\r\n\r\n"  # the last chunk of a chunked body, which no event of ours ends with
DRIVE_MARGIN_S = 30.0


class Exchange(msgspec.Struct):
    """One request and its reply; nanoseconds of CLOCK_MONOTONIC, before the send and after the last read."""

    sent: int
    ended: int


def request_bytes(number: int, tokens: int, seed: int) -> bytes:
    """Return one streamed completions request with a prompt of its own."""
    asked = {"model": "google/gemma-3-270m", "prompt": f"stream {number} of seed {seed}", "max_tokens": tokens}
    body = json.dumps({**asked, "ignore_eos": True, "stream": True}).encode()
    return f"POST {PATH} HTTP/1.1\r\nHost: bench\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def spread(streams: int, itl_ns: int) -> list[int]:
    """Return send times (ns from the start) whose phases within `itl_ns` are all multiples of itl_ns / streams.

    Successive sends are about 1 ms apart, so that opening a stream does not delay another's first chunk.
    """
    step = itl_ns // streams
    stride = next(k for k in range(max(1, 10**6 // step), 10**9) if _coprime(k, streams))
    return [i * stride * step for i in range(streams)]


def _coprime(a: int, b: int) -> bool:
    while b:
        a, b = b, a % b
    return a == 1


def in_phase(streams: int, itl_ns: int, together: int) -> list[int]:
    """Return send times of which `together` each fall on the same instant of successive periods."""
    return [i // together * itl_ns for i in range(streams)]


def connect(server: Server, count: int) -> list[socket.socket]:
    """Open connections. Raises BrokenRun where the system does not give that many descriptors."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            sock = socket.create_connection(server.address, timeout=DRIVE_MARGIN_S)
            opened.append(sock)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        for sock in opened:
            sock.close()
        raise BrokenRun(f"only {len(opened)} of {count} connections could be opened: {error}") from error
    return opened


class Driver:
    """Sends each request on a connection of its own at its time; with `again_s`, again after each reply until then."""

    def __init__(
        self, server: Server, requests: Sequence[bytes], times_ns: Sequence[int], *, again_s: float = 0
    ) -> None:
        self._requests, self._times, self._again_s = requests, times_ns, again_s
        self._sockets = connect(server, len(requests))
        self._epoll = select.epoll()
        self._under_way: dict[int, tuple[socket.socket, int, Exchange]] = {}
        self.done: list[Exchange] = []

    def run(self, lasts_s: float) -> list[Exchange]:
        """Drive until all replies have ended; raise BrokenRun if that takes much longer than `lasts_s`."""
        take_precedence(LOOP)  # sends that others' work delays would not be at their moments
        try:
            start = time.monotonic_ns() + 50_000_000
            self._drive(start, start + round((lasts_s + self._again_s + DRIVE_MARGIN_S) * 1e9))
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
            self._epoll.close()
            for sock in self._sockets:
                sock.close()
        return self.done

    def _drive(self, start: int, limit: int) -> None:
        stop_again, following = start + round(self._again_s * 1e9), 0
        while following < len(self._times) or self._under_way:
            now = time.monotonic_ns()
            if now > limit:
                raise BrokenRun(f"{len(self._under_way)} replies did not end in time")
            wait_ns = DRIVE_MARGIN_S * 1e9
            if following < len(self._times):
                due = start + self._times[following]
                wait_ns = due - SPIN_NS - now
                if wait_ns <= 0:
                    while time.monotonic_ns() < due:
                        pass
                    self._send(following)
                    following += 1
                    continue
            self._read_some(max(0.0, wait_ns / 1e9 - 0.001), stop_again)

    def _send(self, number: int) -> None:
        sock = self._sockets[number]
        exchange = Exchange(time.monotonic_ns(), 0)
        sock.send(self._requests[number])
        if sock.fileno() not in self._under_way:
            self._epoll.register(sock.fileno(), select.EPOLLIN)
        self._under_way[sock.fileno()] = sock, number, exchange

    def _read_some(self, timeout_s: float, stop_again: int) -> None:
        for descriptor, _ in self._epoll.poll(timeout_s, EVENTS_A_TURN):
            sock, number, exchange = self._under_way[descriptor]
            data = sock.recv(65536)
            if not data:
                raise BrokenRun("the server closed a stream before its end")
            if data.endswith(END):
                exchange.ended = time.monotonic_ns()
                self.done.append(exchange)
                if exchange.ended < stop_again:
                    self._send(number)
                else:
                    self._epoll.unregister(descriptor)
                    del self._under_way[descriptor]
