"""What would the absorber have written of these requests?

A `Record` says what is known of one request; `write_journal` notes each with the absorber's own writer and seals. Left
out: forged tables that no writer made (forge.py).
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadproof.record import HOW, REASONS, Metadata
from loadproof.sealing import seal
from loadproof.streams import JournalWriter


@dataclass
class Record:
    """One request. `planned` and `actual` are nanoseconds a chunk; `actual` is 0 for one that was never written."""

    req: int
    conn: int
    nth: int
    arrival: int
    read: int
    received: int = 0
    method: bytes = b""
    target: bytes = b""
    head: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    digest: bytes = b""
    occurrence: int = 0
    planned_first: int = 0
    planned: MutableSequence[int] = field(default_factory=list)
    actual: MutableSequence[int] = field(default_factory=list)
    chunk_tokens: MutableSequence[int] = field(default_factory=list)
    chunk_bytes: MutableSequence[int] = field(default_factory=list)
    done: int | None = None
    status: int | None = None
    output_tokens: int = 0
    size: int = 0
    blocked_ns: int = 0
    outq_bytes: int = 0
    bare_tokens: int | None = None
    usage_tokens: int | None = None
    finish_reason: str | None = None
    how: str | None = None


def write_journal(folder: Path, records: Sequence[Record], metadata: Metadata) -> Path:
    """Write the records as the absorber would and seal them; return the file's path."""
    writer = JournalWriter(folder, metadata)
    for record in records:
        _write_record(writer, record)
    writer.flush(metadata.clock_offset_ns[1])
    writer.close()
    return seal(folder)


def _write_record(writer: JournalWriter, record: Record) -> None:
    lines = [b"%b %b HTTP/1.1" % (record.method, record.target), *(b"%b: %b" % pair for pair in record.head)]
    writer.request(record.req, record.conn, record.nth, record.arrival, 0, record.read, record.received,
                   b"\r\n".join([*lines, b"", record.body]), record.digest, record.occurrence,
                   record.planned_first)  # fmt: skip
    for chunk in zip(record.planned, record.actual, record.chunk_tokens, record.chunk_bytes, strict=True):
        writer.chunk(record.req, *chunk, 0)
    bare, usage = (-1 if count is None else count for count in (record.bare_tokens, record.usage_tokens))
    reason, how = REASONS.index(record.finish_reason), HOW.index(record.how)
    writer.end(record.req, record.done or 0, record.status or 0, record.output_tokens, record.size, record.blocked_ns,
               record.outq_bytes, bare, usage, 0, reason, how)  # fmt: skip
