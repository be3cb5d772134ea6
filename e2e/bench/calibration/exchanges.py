"""Where in the streams of a connection are its requests and replies, and when did each piece pass?

Reads HTTP/1.1 as the calibration's own clients and the absorber write it: requests with Content-Length and an
X-Request-ID that occurs once, replies with Content-Length or in chunks. An independent reading on purpose: nothing of
the absorber's or the metronome's parsers is used.
"""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from bench.calibration.reassembly import Conversation, Ints, Stream
from loadproof.errors import BrokenRun

_HEAD_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_IDENTITY = re.compile(rb"\r\nx-request-id: *([^\r]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Reply:
    """A reply's body without its framing, and for each of its parts where it begins in body and stream."""

    body: bytes
    body_starts: list[int]
    stream_starts: list[int]
    stream: Stream

    def time_ns(self, offset: int) -> int:
        """Return when the packet with byte `offset` of the body passed."""
        part = bisect.bisect_right(self.body_starts, offset) - 1
        return self.stream.time_ns(self.stream_starts[part] + offset - self.body_starts[part])

    def end_ns(self) -> int:
        """Return when the packet with the last byte of the body passed."""
        return self.time_ns(len(self.body) - 1)

    def text_times_ns(self) -> list[int]:
        """Return when the end of each line passed that brought text (server-sent events)."""
        times, at = [], 0
        for line in self.body.splitlines(keepends=True):
            at += len(line)
            if line.startswith(b"data: {") and _has_text(json.loads(line[6:])):
                times.append(self.time_ns(at - 1))
        return times


@dataclass(frozen=True)
class Seen:
    """One request as the capture shows it.

    `starts` and `times_ns`: per segment, the offset of its first byte from the request's, and its time.
    `reply` is None where it was not answered whole.
    """

    starts: Ints
    times_ns: Ints
    reply: Reply | None

    @property
    def sent_ns(self) -> int:
        """When the packet with the request's last byte passed."""
        return int(self.times_ns[-1])


def exchanges(connections: Iterable[Conversation]) -> dict[str, Seen]:
    """Return every request that carried an X-Request-ID, by it. Raises BrokenRun where one came twice."""
    found: dict[str, Seen] = {}
    for connection in connections:
        sent_at = received_at = 0
        while (head_end := connection.sent.data.find(_HEAD_END, sent_at)) >= 0:
            head = connection.sent.data[sent_at:head_end]
            length = _LENGTH.search(head)
            stop = head_end + len(_HEAD_END) + (int(length[1]) if length else 0)
            if stop > len(connection.sent.data):
                break
            reply, received_at = _reply(connection.received, received_at)
            if (identity := _IDENTITY.search(head)) is not None:
                starts, times_ns = connection.sent.segments(sent_at, stop)
                name = identity[1].decode("latin-1").strip()
                if name in found:
                    raise BrokenRun(f"two requests are named {name}: they cannot be told apart")
                found[name] = Seen(starts - sent_at, times_ns, reply)
            sent_at = stop
    return found


def _reply(stream: Stream, at: int) -> tuple[Reply | None, int]:
    """Return the reply that begins at `at`, or None where it is not whole, and where the next one begins."""
    end = len(stream.data)
    head_end = stream.data.find(_HEAD_END, at)
    if head_end < 0:
        return None, end
    head, at = stream.data[at:head_end], head_end + len(_HEAD_END)
    parts: list[tuple[int, int]] = []
    if _CHUNKED.search(head):
        while (line_end := stream.data.find(b"\r\n", at)) >= 0:
            size = int(stream.data[at:line_end], 16)
            at = line_end + 2
            if size == 0:
                return _joined(stream, parts), at + 2
            parts.append((at, size))
            at += size + 2
        return None, end
    length = _LENGTH.search(head)
    size = int(length[1]) if length else 0
    return (_joined(stream, [(at, size)]), at + size) if at + size <= end else (None, end)


def _joined(stream: Stream, parts: list[tuple[int, int]]) -> Reply:
    body, starts = bytearray(), []
    for at, size in parts:
        starts.append(len(body))
        body += stream.data[at : at + size]
    return Reply(bytes(body), starts, [at for at, _ in parts], stream)


def _has_text(event: dict[str, list[dict[str, object]]]) -> bool:
    """Whether a choice brings text, of a completion or as a chat's delta."""
    for choice in event.get("choices", []):
        delta = choice.get("delta")
        if choice.get("text") or (isinstance(delta, dict) and delta.get("content")):
            return True
    return False
