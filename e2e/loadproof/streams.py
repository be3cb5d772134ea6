"""How does what happens reach the disk while the absorber runs, at the least cost to its loop?

Each worker appends to three Arrow IPC streams, a record batch at a time, one write for each. A row is packed into
one buffer as it happens, which costs a third of appending to a list or an array per column; `flush` takes the buffer
apart into columns. A killed process loses what was not flushed and nothing else. Left out: when to flush (the
absorber), and reading (parts.py, sealing.py).
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from loadproof.packed_rows import columns_of, message, message_with, row_format
from loadproof.record import (
    CHUNKS,
    CLOCK_KEY,
    COMPLETE,
    ENDS,
    HOW,
    LIVE,
    METADATA_KEY,
    REQUESTS,
    WRITER_KEY,
    Metadata,
)
from loadproof.stream_file import StreamFile

_NO_DIGEST = bytes(16)


def stream_name(kind: str, worker: int) -> str:
    """Return the file name of one live stream."""
    return f"{kind}-{worker}.arrows"


_REQUEST, _REQUEST_ROW = row_format(REQUESTS)
_CHUNK, _CHUNK_ROW = row_format(CHUNKS)
_END, _END_ROW = row_format(ENDS)
BATCH_ROWS, BATCH_CHUNKS = 512, 4096  # a flush has its fixed cost, which many small batches of chunks would pay often
_FULL_REQUESTS, _FULL_CHUNKS, _FULL_ENDS = (
    _REQUEST.size * BATCH_ROWS, _CHUNK.size * BATCH_CHUNKS, _END.size * BATCH_ROWS,
)  # fmt: skip
_COMPLETE = HOW.index(COMPLETE)
_pack_request, _pack_chunk, _pack_end = _REQUEST.pack, _CHUNK.pack, _END.pack  # looked up once


# A whole request of level `light`, answered at once: req, conn, nth, arrival, kernel, read, raw, stamp of the write,
# tokens, bytes, bytes of its only chunk (0: its chunks were noted already), reason.
type AtOnce = tuple[int, int, int, int, int, int, bytes, int, int, int, int, int]


class SameTimeChunks:
    """Chunks of a reply's only choice that leave together: their tokens and sizes, the same for each such reply."""

    def __init__(self, tokens: Sequence[int], sizes: Sequence[int]) -> None:
        self._table = np.zeros(len(sizes), _CHUNK_ROW)
        self._table["tokens"], self._table["bytes"] = tokens, sizes
        self._req, self._planned, self._actual = (self._table[name] for name in ("req", "planned", "actual"))

    def rows(self, req: int, planned: int, actual: int) -> bytes:
        """Return the packed rows of one reply."""
        self._req.fill(req)
        self._planned.fill(planned)
        self._actual.fill(actual)
        return self._table.tobytes()


class JournalWriter:
    """One worker's three live streams in `folder`: requests-W.arrows, chunks-W.arrows, ends-W.arrows.

    Rows are given by position, numbers as record.py's sentinels say; a later row of the same request replaces an
    earlier one in `requests` and `ends`. Nothing is on disk before `flush`.

    Raises UsageProblem where streams lie already, OSError when the folder cannot be written.
    """

    __slots__ = ("_chunks", "_digests", "_ends", "_files", "_raw", "_requests", "at_once")

    def __init__(self, folder: Path, metadata: Metadata, *, worker: int = 0) -> None:
        self._requests, self._chunks, self._ends = bytearray(), bytearray(), bytearray()
        self._raw: list[bytes] = []
        self._digests: list[bytes] = []
        self.at_once: list[AtOnce] = []  # may be appended to
        self._warm_up()
        own = msgspec.json.encode(msgspec.structs.replace(metadata, worker=worker))
        stored = {METADATA_KEY: own, WRITER_KEY: uuid.uuid4().hex.encode()}
        self._files: list[StreamFile] = []
        try:
            for kind, schema in LIVE.items():
                file = StreamFile(folder / stream_name(kind, worker))
                self._files.append(file)
                file.append(schema.with_metadata(stored).serialize())
        except BaseException:
            self.discard()
            raise

    @property
    def full(self) -> bool:
        """Whether a stream has as many rows as a batch should have."""
        return (
            len(self.at_once) >= BATCH_ROWS
            or len(self._requests) >= _FULL_REQUESTS
            or len(self._chunks) >= _FULL_CHUNKS
            or len(self._ends) >= _FULL_ENDS
        )

    @property
    def rows(self) -> int:
        """How many rows wait for a flush."""
        packed = ((self._requests, _REQUEST), (self._chunks, _CHUNK), (self._ends, _END))
        return len(self.at_once) + sum(len(rows) // row.size for rows, row in packed)

    def request(  # noqa: PLR0917 -- called for every request: by position is fastest
        self, req: int, conn: int, nth: int, arrival: int, kernel: int, read: int, received: int, raw: bytes,
        digest: bytes, occurrence: int, planned_first: int,
    ) -> None:  # fmt: skip
        """Note a request, or more of one that was noted before."""
        self._requests += _pack_request(
            req, conn, nth, arrival, kernel, read, received, occurrence, planned_first
        )  # fmt: skip
        self._raw.append(raw)
        self._digests.append(digest)

    def chunk(  # noqa: PLR0917 -- called for every chunk: by position is fastest
        self, req: int, planned: int, actual: int, tokens: int, size: int, choice: int
    ) -> None:
        """Note a chunk of a reply, after those of its request that were written before."""
        self._chunks += _pack_chunk(req, planned, actual, tokens, size, choice)

    def same_time_chunks(self, chunks: SameTimeChunks, req: int, planned: int, actual: int) -> None:
        """Note chunks of a reply that were due, and written, together."""
        self._chunks += chunks.rows(req, planned, actual)

    def end(  # noqa: PLR0917 -- called for every request: by position is fastest
        self, req: int, done: int, status: int, tokens: int, size: int, blocked_ns: int, outq_bytes: int, bare: int,
        usage: int, fault: int, reason: int, how: int,
    ) -> None:  # fmt: skip
        """Note how a request ended, or what is known of one that did not."""
        self._ends += _pack_end(
            req, done, status, tokens, size, blocked_ns, outq_bytes, bare, usage, fault, reason, how
        )  # fmt: skip

    def flush(self, clock_offset_ns: int) -> None:
        """Write what waits: one write per stream that has rows, in the order requests, chunks, ends.

        Raises OSError (a full disk). Then each stream ends with its last whole batch, what could not be written still
        waits, and another `flush` or `close` may follow.
        """
        requests, chunks, ends = self._files
        if self.at_once:
            self._take_apart()
        if self._requests:
            requests.append(self._requests_message(clock_offset_ns))
            self._requests.clear()
            self._raw.clear()
            self._digests.clear()
        if self._chunks:
            chunks.append(message(CHUNKS, columns_of(CHUNKS, self._chunks, _CHUNK_ROW)))
            self._chunks.clear()
        if self._ends:
            ends.append(message(ENDS, columns_of(ENDS, self._ends, _END_ROW)))
            self._ends.clear()

    def _take_apart(self) -> None:
        """Make rows of all three streams of requests that were begun and ended at once."""
        req, conn, nth, arrival, kernel, read, raw, stamp, tokens, size, chunk, reason = zip(*self.at_once, strict=True)
        self.at_once.clear()
        table = np.zeros(len(req), _REQUEST_ROW)
        table["req"], table["conn"], table["nth"] = array("Q", req), array("I", conn), array("I", nth)
        table["arrival"] = table["planned_first"] = array("q", arrival)
        table["kernel"], table["read"] = array("B", kernel), array("q", read)
        table["received"] = table["read"]
        self._requests += table.tobytes()
        self._raw += raw
        self._digests += [b""] * len(raw)
        ends = np.zeros(len(req), _END_ROW)
        ends["req"], ends["done"], ends["status"] = table["req"], array("q", stamp), 200
        ends["tokens"], ends["bytes"] = array("I", tokens), array("Q", size)
        ends["bare"] = ends["usage"] = -1
        ends["reason"], ends["how"] = array("B", reason), _COMPLETE
        self._ends += ends.tobytes()
        sizes = np.asarray(array("I", chunk))
        chunks = np.zeros(len(req), _CHUNK_ROW)
        chunks["req"], chunks["planned"], chunks["actual"] = table["req"], table["arrival"], ends["done"]
        chunks["tokens"], chunks["bytes"] = ends["tokens"], sizes
        self._chunks += chunks[sizes > 0].tobytes()

    def close(self) -> None:
        """Mark the streams' ends and close them; a second time it does nothing.

        Rows that wait are not written, and then the streams get no mark: a reader sees that they are not whole.
        """
        whole = not self.rows
        for file in self._files:
            file.close(mark=whole)

    def discard(self) -> None:
        """Take the streams away again."""
        for file in self._files:
            file.discard()

    def _requests_message(self, clock_offset_ns: int) -> pa.Buffer:
        columns = columns_of(REQUESTS, self._requests, _REQUEST_ROW)
        count = len(self._raw)
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.fromiter(map(len, self._raw), np.int64, count), out=starts[1:])
        raw = [None, pa.py_buffer(starts), pa.py_buffer(b"".join(self._raw))]
        digests = [None, pa.py_buffer(b"".join([digest or _NO_DIGEST for digest in self._digests]))]
        columns["raw"] = pa.Array.from_buffers(pa.large_binary(), count, raw)
        columns["digest"] = pa.Array.from_buffers(pa.binary(16), count, digests)
        return message_with(CLOCK_KEY, b"%d" % clock_offset_ns, REQUESTS, columns)

    def _warm_up(self) -> None:
        """Do once, before anybody waits, what is slow only the first time."""
        self.request(0, 0, 0, 0, 0, 0, 0, b"", b"", 0, 0)
        self.chunk(0, 0, 0, 0, 0, 0)
        self.end(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self.at_once.append((0, 0, 0, 0, 0, 0, b"", 0, 0, 0, 1, 0))
        self._take_apart()
        self._requests_message(0)
        message(CHUNKS, columns_of(CHUNKS, self._chunks, _CHUNK_ROW))
        for waiting in (self._requests, self._chunks, self._ends, self._raw, self._digests):
            waiting.clear()
