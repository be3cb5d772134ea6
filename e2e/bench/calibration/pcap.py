"""Which TCP segments does a capture file hold, and when did the kernel see each?

Reads and writes the classic capture format with nanosecond stamps, as `tcpdump --time-stamp-precision=nano -w`
leaves it, on Ethernet (which is what a capture on loopback is called). Times stay what they are in the file:
nanoseconds of CLOCK_REALTIME. Left out: IPv6, fragments, and every packet that is not TCP.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from loadproof.errors import BrokenRun

_FILE = struct.Struct("<IHHiIII")
_RECORD = struct.Struct("<IIII")
_MAGIC_NANOSECONDS = 0xA1B23C4D
_ETHERNET = 1
_ETHERNET_BYTES = 14
_IPV4_TYPE, _TCP = 0x0800, 6
_SNAP_BYTES = 262144
_TCP_HEAD = struct.Struct(">HHIIBB")
_FIN, _SYN, _RST = 0x01, 0x02, 0x04

Endpoint = tuple[bytes, int]


class Segment(NamedTuple):
    """One TCP segment: `time_ns` of CLOCK_REALTIME, endpoints as (address bytes, port), `sequence` as it is sent."""

    time_ns: int
    source: Endpoint
    target: Endpoint
    sequence: int
    begins: bool  # SYN
    ends: bool  # FIN or RST
    payload: bytes


def write_pcap(path: Path, packets: Iterable[tuple[int, bytes]]) -> None:
    """Write packets, each as (nanoseconds of CLOCK_REALTIME, Ethernet frame)."""
    with path.open("wb") as file:
        file.write(_FILE.pack(_MAGIC_NANOSECONDS, 2, 4, 0, 0, _SNAP_BYTES, _ETHERNET))
        for time_ns, frame in packets:
            file.write(_RECORD.pack(*divmod(time_ns, 10**9), len(frame), len(frame)) + frame)


def read_pcap(path: Path) -> list[Segment]:
    """Return the TCP segments of a capture, in its order; a last record that is cut is left out.

    Raises BrokenRun for another format, another precision, and packets that were not captured whole.
    """
    data = path.read_bytes()
    magic = _FILE.unpack_from(data)[0] if len(data) >= _FILE.size else 0
    if magic != _MAGIC_NANOSECONDS or _FILE.unpack_from(data)[-1] & 0xFFFF != _ETHERNET:
        raise BrokenRun(f"{path}: is not a little-endian capture with nanosecond stamps of an Ethernet-like device")
    return [segment for time_ns, frame in _frames(data, path) if (segment := _segment(time_ns, frame)) is not None]


def _frames(data: bytes, path: Path) -> Iterator[tuple[int, memoryview]]:
    view, at = memoryview(data), _FILE.size
    while at + _RECORD.size <= len(data):
        seconds, nanoseconds, kept, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if kept != length:
            raise BrokenRun(f"{path}: holds {kept} of a packet's {length} bytes; capture whole packets")
        if at + kept > len(data):
            return
        yield seconds * 10**9 + nanoseconds, view[at : at + kept]
        at += kept


def _segment(time_ns: int, frame: memoryview) -> Segment | None:
    packet = frame[_ETHERNET_BYTES:]
    if len(packet) < 40 or int.from_bytes(frame[12:14]) != _IPV4_TYPE or packet[9] != _TCP:
        return None
    total = int.from_bytes(packet[2:4]) or len(packet)  # 0 where the kernel handed over more than 64 KiB at once
    tcp = packet[(packet[0] & 0x0F) * 4 : total]
    source, target, sequence, _, offset, flags = _TCP_HEAD.unpack_from(tcp)
    return Segment(
        time_ns=time_ns,
        source=(bytes(packet[12:16]), source),
        target=(bytes(packet[16:20]), target),
        sequence=sequence,
        begins=bool(flags & _SYN),
        ends=bool(flags & (_FIN | _RST)),
        payload=bytes(tcp[(offset >> 4) * 4 :]),
    )
