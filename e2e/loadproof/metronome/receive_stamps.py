"""When did the bytes of a read come in, whenever the loop got round to reading them?

The kernel stamps each packet as it comes (SO_TIMESTAMPNS) and hands the stamp of the last one that a read took with the
read. Its clock is CLOCK_REALTIME; the distance to CLOCK_MONOTONIC is measured at each read by three readings in a
row, and kept from before where the process was interrupted between them; at the start the closest of five counts.
Where the kernel gives no stamp, the time of the read takes its place. Left out: packets that one read takes together,
of which the last one's stamp counts for all.
"""

from __future__ import annotations

import socket
import struct
import time

SO_TIMESTAMPNS = 35  # not named by Python's socket module; the same number on all common Linux machines
READ_BYTES = 256 * 1024
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size)
_CLOSE_READINGS_NS = 5_000
_FIRST_READINGS = 5  # the closest of them is taken, however far apart: some machines never read a clock in 5 us


def _readings() -> tuple[int, int, int]:
    return time.monotonic_ns(), time.time_ns(), time.monotonic_ns()


def ask_for_stamps(sock: socket.socket) -> None:
    """Let the kernel stamp what `sock` receives from now on."""
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


class StampedReads:
    """Reads with the time at which the last byte came in, in ns of CLOCK_MONOTONIC; one for all sockets."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        before, real, after = min((_readings() for _ in range(_FIRST_READINGS)), key=lambda each: each[2] - each[0])
        self._offset_ns = real - (before + after) // 2

    def _measure(self) -> int:
        before, real, after = _readings()
        if after - before < _CLOSE_READINGS_NS:
            self._offset_ns = real - (before + after) // 2
        return before

    def read(self, sock: socket.socket) -> tuple[bytes, int]:
        """Return what one non-blocking read gives, and when its last byte came in. Raises OSError as the read does.

        The stamp is never after the read. At the end of the stream (no bytes) it is the time of the read.
        """
        data, ancillary, _, _ = sock.recvmsg(READ_BYTES, _ANCILLARY_BYTES)
        read_ns = self._measure()
        for level, kind, stamp in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = _TIMESPEC.unpack(stamp)
                return data, min(read_ns, seconds * 1_000_000_000 + nanoseconds - self._offset_ns)
        return data, read_ns
