"""Which packet carried which byte of a connection's two streams?

Method: segments are put in order by their sequence numbers, counted from the SYN; a byte that came twice keeps the
packet that brought it first. Coalesced, split and very large segments need no special care, because only
offsets in the stream are asked for. Pure; the times are whatever clock the segments are stamped with.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from bench.calibration.pcap import Endpoint, Segment
from loadproof.errors import BrokenRun

Ints = npt.NDArray[np.int64]
_WRAP = 2**32


@dataclass(frozen=True)
class Stream:
    """One direction: its bytes, and per segment the offset after its last byte (ascending) and its time."""

    data: bytes
    ends: Ints
    times_ns: Ints

    def time_ns(self, offset: int) -> int:
        """Return when the packet with the byte at `offset` was seen. Raises IndexError beyond the end."""
        return int(self.times_ns[np.searchsorted(self.ends, offset, side="right")])

    def segments(self, start: int, stop: int) -> tuple[Ints, Ints]:
        """Return (offset of the first byte, time) of each segment that has a byte in [start, stop)."""
        first, last = np.searchsorted(self.ends, [start, stop - 1], side="right")
        begins = np.concatenate([[0], self.ends])[first : last + 1]
        return np.maximum(begins, start), self.times_ns[first : last + 1]


@dataclass(frozen=True)
class Conversation:
    """One TCP connection, from its SYN on: what the client sent and what it was sent."""

    client: Endpoint
    sent: Stream
    received: Stream


@dataclass
class _Direction:
    """A stream while it is put together."""

    first: int  # the sequence number of its first byte
    data: bytearray = field(default_factory=bytearray)
    ends: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    early: dict[int, Segment] = field(default_factory=dict)

    def take(self, segment: Segment) -> None:
        at = (segment.sequence - self.first) % _WRAP
        if at >= _WRAP // 2:  # before the first byte: a keep-alive probe
            return
        if at > len(self.data):
            self.early.setdefault(at, segment)
            return
        news = segment.payload[len(self.data) - at :]
        if news:
            self.data += news
            self.ends.append(len(self.data))
            self.times_ns.append(segment.time_ns)
            for offset in [offset for offset in sorted(self.early) if offset <= len(self.data)]:
                self.take(self.early.pop(offset))

    def stream(self) -> Stream:
        if self.early:
            raise BrokenRun(f"the capture lost packets: nothing carried byte {len(self.data)} of a stream; use a "
                            "larger capture buffer")  # fmt: skip
        return Stream(bytes(self.data), np.array(self.ends, np.int64), np.array(self.times_ns, np.int64))


def conversations(segments: Iterable[Segment], port: int) -> list[Conversation]:
    """Return the connections to `port` whose beginning was captured, in the order in which they began.

    Raises BrokenRun where bytes are missing in the middle.
    """
    under_way: dict[Endpoint, list[_Direction]] = {}
    all_of_them: list[tuple[Endpoint, list[_Direction]]] = []
    for segment in segments:
        from_client = segment.target[1] == port
        client = segment.source if from_client else segment.target
        first = (segment.sequence + 1) % _WRAP
        pair = under_way.get(client)
        if segment.begins and from_client and (pair is None or pair[0].first != first):
            pair = under_way[client] = [_Direction(first)]
            all_of_them.append((client, pair))
        elif segment.begins and not from_client and pair is not None and len(pair) == 1:
            pair.append(_Direction(first))
        elif not segment.begins and pair is not None and len(pair) == 2 and segment.payload:
            pair[0 if from_client else 1].take(segment)
    return [Conversation(client, *(d.stream() for d in pair)) for client, pair in all_of_them if len(pair) == 2]
