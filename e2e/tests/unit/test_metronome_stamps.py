"""Is a read stamped with the moment at which its bytes came in, and not with that of the read?"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from loadproof.metronome.receive_stamps import StampedReads, ask_for_stamps

TRIES = 200  # the kernel begins to stamp a little after the first socket of the machine asks for it
LATE_NS = 5_000_000  # how long the bytes lie there before they are read
CLOSE_NS = 1_000_000  # far less than that, and far more than the two clocks can be apart


@contextmanager
def stamped_pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Give both ends of a connection; the kernel is asked to stamp what the second one receives."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
        listener.accept()[0] as receiver,
    ):
        ask_for_stamps(receiver)
        yield sender, receiver


def test_a_read_has_the_time_at_which_its_bytes_came_in() -> None:
    reads = StampedReads()
    with stamped_pair() as (sender, receiver):
        for _ in range(TRIES):
            before_ns = time.monotonic_ns()
            sender.sendall(b"x")  # on loopback it has come in when this returns
            after_ns = time.monotonic_ns()
            while time.monotonic_ns() < after_ns + LATE_NS:
                pass
            data, stamp_ns = reads.read(receiver)
            assert data == b"x"
            if stamp_ns < after_ns + LATE_NS:
                break
        else:
            pytest.fail(f"none of {TRIES} reads had a stamp of the kernel")
    assert before_ns - CLOSE_NS < stamp_ns < after_ns + CLOSE_NS


def test_without_a_stamp_it_is_the_time_of_the_read() -> None:
    reads = StampedReads()
    ours, theirs = socket.socketpair()  # of the Unix kind, which the kernel does not stamp
    with ours, theirs:
        theirs.sendall(b"x")
        before_ns = time.monotonic_ns()
        data, stamp_ns = reads.read(ours)
        assert (data, before_ns <= stamp_ns <= time.monotonic_ns()) == (b"x", True)


def test_a_stamp_is_never_after_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the system's clock was set back after the packet came, its stamp seems to lie in the future."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() - 10**9)
    reads = StampedReads()
    with stamped_pair() as (sender, receiver):
        for _ in range(TRIES):
            sender.sendall(b"x")
            _, stamp_ns = reads.read(receiver)
            assert stamp_ns <= time.monotonic_ns()
