"""How are packets captured where there is no tcpdump?

An AF_PACKET socket on the loopback device: the kernel stamps each packet as it passes (SO_TIMESTAMPNS), a thread takes
it from the queue whenever it gets round to it, and at the end all is written as a capture file. On loopback each
packet passes twice. Taken is the *outgoing* copy: its stamp is a clock reading
of its own, made before the packet is handed over, while the stamp of the incoming copy is the very number
that a receiving socket is told.
"""

from __future__ import annotations

import ctypes
import errno
import select
import socket
import struct
import threading
from pathlib import Path
from typing import Self

from bench.calibration.pcap import write_pcap
from loadproof.errors import BrokenRun

DEVICE = "lo"
_QUEUE_BYTES = 256 * 1024 * 1024
_LOOK_UP_S = 0.05  # how often the thread looks whether it is over
_SO_ATTACH_FILTER, _SO_RCVBUFFORCE, _SO_TIMESTAMPNS = 26, 33, 35
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_ETH_P_ALL = 3
_LARGEST_FRAME = 128 * 1024
_TIMESPEC = struct.Struct("@qq")
_STAMP_TRIES, _STAMP_WAIT_S = 1000, 0.01


def why_not() -> str:
    """Return why packets cannot be captured here; empty where they can."""
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as probe:
            probe.bind((DEVICE, 0))
    except (AttributeError, OSError) as problem:
        return f"packets cannot be captured on {DEVICE} ({problem}): run as root or with CAP_NET_RAW"
    return ""


class PacketSocket:
    """Captures what goes to or from TCP port `port` on loopback, from `with` on; `write` ends it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._packets: list[tuple[int | None, bytes]] = []
        self._over = threading.Event()

    def __enter__(self) -> Self:
        """Start. Raises OSError where it is not allowed."""
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        try:
            _ask_for_room(self._socket)
            self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            _attach(self._socket, self._port)
            _await_kernel_stamps()
            self._socket.bind((DEVICE, _ETH_P_ALL))  # only now do packets come
        except BaseException:
            self._socket.close()
            raise
        self._thread = threading.Thread(target=self._read, name="capture")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        """Read until nothing is left after the end."""
        self._socket.settimeout(_LOOK_UP_S)
        while True:
            try:
                frame, ancillary, _, _ = self._socket.recvmsg(_LARGEST_FRAME, 64)
            except TimeoutError:
                if self._over.is_set():
                    return
            else:
                self._packets.append((_stamp_ns(ancillary), frame))

    def write(self, path: Path) -> None:
        """End the capture and write what has passed. Raises BrokenRun if the queue was too small for it."""
        self._over.set()
        self._thread.join()
        _, dropped = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        if dropped:
            raise BrokenRun(f"the capture lost {dropped} packets; run with CAP_NET_ADMIN or raise net.core.rmem_max")
        stamped = [(stamp, frame) for stamp, frame in self._packets if stamp is not None]
        if len(stamped) < len(self._packets):
            raise BrokenRun("the kernel gave a captured packet no time stamp")
        write_pcap(path, stamped)


def _ask_for_room(sock: socket.socket) -> None:
    """Ask for a long queue: beyond the system's limit it takes CAP_NET_ADMIN, which containers seldom have."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _QUEUE_BYTES)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)


def _stamp_ns(ancillary: list[tuple[int, int, bytes]]) -> int | None:
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, _SO_TIMESTAMPNS):
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds * 10**9 + nanoseconds)
    return None


def _attach(sock: socket.socket, port: int) -> None:
    """Let the kernel queue only outgoing TCP over IPv4 with `port` at either end (classic BPF on Ethernet frames)."""
    packet_type, outgoing = 0xFFFFF000 + 4, 4
    program = [
        (0x28, 0, 0, packet_type),  # ldh: where it goes
        (0x15, 0, 10, outgoing),  # jeq, else drop
        (0x28, 0, 0, 12),  # ldh: Ethernet type
        (0x15, 0, 8, 0x0800),
        (0x30, 0, 0, 23),  # ldb: protocol
        (0x15, 0, 6, 6),
        (0xB1, 0, 0, 14),  # ldxb: length of the IP head
        (0x48, 0, 0, 14),  # ldh: source port
        (0x15, 2, 0, port),
        (0x48, 0, 0, 16),  # ldh: target port
        (0x15, 0, 1, port),
        (0x06, 0, 0, 0xFFFFFFFF),  # keep all of it
        (0x06, 0, 0, 0),  # drop
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HL", len(program), ctypes.addressof(code)))


def _await_kernel_stamps() -> None:
    """Wait until the kernel stamps packets as they pass: it begins a little after the first socket asks for it.

    Until then a packet socket reports the time of the read instead, while a TCP socket reports nothing: that is how
    the one is told from the other.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as sender,
        listener.accept()[0] as receiver,
    ):
        receiver.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        for _ in range(_STAMP_TRIES):
            sender.send(b".")
            if _stamp_ns(receiver.recvmsg(16, 64)[1]) is not None:
                return
            select.select([], [], [], _STAMP_WAIT_S)
    raise OSError(errno.EOPNOTSUPP, "the kernel stamps no packets")
