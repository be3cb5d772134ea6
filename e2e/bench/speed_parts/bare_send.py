"""What does the kernel alone take to send a small piece to each of many sockets in turn?

The floor under streams in phase: no plan, no JSON, no journal. As a program it is the sender: it accepts on
the listening descriptor that it is given, sends bursts, and prints the microseconds of one send, least and
median over the bursts. `measure` runs it on the server's core and reads on the client's.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bench.speed_parts.machine import Cores, child
from loadproof.absorber.precedence import LOOP, take_precedence
from loadproof.errors import BrokenRun

PIECE = b"x" * 220  # about an event of ours with its framing
BURSTS, GAP_S = 50, 0.02
DEADLINE_S = 30.0


class Floor(msgspec.Struct, frozen=True):
    """Microseconds of one send, in the quickest burst and in the middle one."""

    least_us: float
    median_us: float


def measure(cores: Cores, streams: int) -> Floor:
    """Return what one send costs when `streams` sockets get one each, one after the other."""
    with socket.create_server(("127.0.0.1", 0), backlog=streams) as listener, tempfile.TemporaryFile() as errors:
        argv = [sys.executable, "-P", str(Path(__file__)), str(listener.fileno()), str(streams)]
        with child(argv, core=cores.server, stderr=errors, pass_fds=[listener.fileno()]) as sender:
            readers = [socket.create_connection(listener.getsockname(), DEADLINE_S) for _ in range(streams)]
            try:
                _read_until_closed(readers)
            finally:
                for reader in readers:
                    reader.close()
            said, _ = sender.communicate(timeout=DEADLINE_S)
            errors.seek(0)
            if sender.returncode != 0:
                raise BrokenRun(f"the bare sender ended with {sender.returncode}: {errors.read().decode()[-1000:]}")
    return msgspec.json.decode(said, type=Floor)


def _read_until_closed(readers: list[socket.socket]) -> None:
    with select.epoll() as poll:
        by_descriptor = {reader.fileno(): reader for reader in readers}
        for descriptor in by_descriptor:
            poll.register(descriptor, select.EPOLLIN)
        limit = time.monotonic() + DEADLINE_S
        while time.monotonic() < limit:
            for descriptor, _ in poll.poll(1.0, 64):
                if not by_descriptor[descriptor].recv(65536):
                    return  # the sender closes all at its end


def main() -> None:
    """Send the bursts."""
    listener, streams = socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2])
    sockets = [listener.accept()[0] for _ in range(streams)]
    for one in sockets:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    take_precedence(LOOP)
    each_us = []
    for _ in range(BURSTS):
        time.sleep(GAP_S)
        begin = time.monotonic_ns()
        for one in sockets:
            one.send(PIECE)
        each_us.append((time.monotonic_ns() - begin) / 1000 / streams)
    sys.stdout.write(json.dumps({"least_us": min(each_us), "median_us": sorted(each_us)[BURSTS // 2]}))


if __name__ == "__main__":
    main()
