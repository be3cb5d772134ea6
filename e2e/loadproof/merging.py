"""Which chunks and which end belong to which request, and what is the row of each?

One worker's streams at a time, in columns, because a journal may have a million requests and ten million chunks;
only heads and bodies are read one by one. The later of two rows of a request counts. Rows come in groups that bound
the memory of whoever writes them. Left out: files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.placed_chunks import Chunks, Placed, flat, numbers_of, rows_of
from loadproof.raw_request import asked_columns
from loadproof.record import HOW, REASONS, SCHEMA

if TYPE_CHECKING:
    from loadproof.parts import Part

type Column = np.ndarray[tuple[int], np.dtype[Any]]
type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

# What a group of rows may hold; each is a part of one whole.
GROUP_ROWS, GROUP_CHUNKS, GROUP_BYTES = 32_768, 2_000_000, 128 * 1024 * 1024


class Merged:
    """One worker's requests, sorted by number, with what belongs to each; `light` asks for digests of our own.

    `lost` is how many requests only chunks or an end tell of: they have no row.
    """

    def __init__(self, part: Part, *, light: bool) -> None:
        self._worker, self._light, self._part = part.worker, light, part
        self._raw = part.requests.table["raw"]
        requests = numbers_of(part.requests.table)
        self._digests = np.frombuffer(flat(part.requests.table["digest"]).buffers()[1] or b"", "V16")
        self._order = _last_of_each(requests["req"])
        self._requests = {name: column[self._order] for name, column in requests.items()}
        self._digests = self._digests[self._order]
        req = self._requests["req"]
        ends = numbers_of(part.ends.table)
        last = _last_of_each(ends["req"])
        row, known = rows_of(req, ends["req"][last])
        lost = ends["req"][last][~known]
        self._has_end = np.zeros(len(req), np.bool_)
        self._has_end[row[known]] = True
        self._ends = {name: _placed(column[last][known], row[known], len(req)) for name, column in ends.items()}
        self._chunks = Placed(part.chunks.table, req)
        self.lost = len(np.union1d(lost, self._chunks.without))
        self._seen: Counter[bytes] = Counter()

    def groups(self) -> Iterator[pa.Table]:
        """Yield the rows as tables of `SCHEMA`, in order, at least one."""
        sizes = flat(pc.binary_length(self._raw)).to_numpy()[self._order]
        filled = np.cumsum(1 / GROUP_ROWS + self._chunks.counts / GROUP_CHUNKS + sizes / GROUP_BYTES)
        stops = np.flatnonzero(np.diff(filled.astype(np.int64))) + 1
        bounds = [0, *stops.tolist(), len(self._order)]
        for start, stop in pairwise(bounds):
            for stream in self._part.streams:
                stream.forget()
            yield self._group(slice(start, stop))

    def _group(self, rows: slice) -> pa.Table:
        chunks = self._chunks.of(rows)
        columns = (
            self._request_columns(rows)
            | asked_columns(self._raw_of(rows))
            | self._end_columns(rows, chunks)
            | chunks.columns()
        )
        if self._light and not self._digests[rows].tobytes().strip(b"\0"):  # known where replies are drawn by it
            columns |= self._identity(columns["body"], columns["received_ns"])
        return pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)

    def _raw_of(self, rows: slice) -> list[bytes]:
        """Return the bytes of each row: `take` would first make one piece of all that came."""
        places = self._order[rows]
        runs = np.split(places, np.flatnonzero(np.diff(places) != 1) + 1) if len(places) else []
        return [raw for run in runs for raw in self._raw.slice(int(run[0]), len(run)).to_pylist()]

    def _request_columns(self, rows: slice) -> dict[str, pa.Array]:
        of = {name: column[rows] for name, column in self._requests.items()}
        count = len(of["req"])
        digests = [None, pa.py_buffer(np.ascontiguousarray(self._digests[rows]))]
        return {
            "req": pa.array(of["req"]),
            "worker": pa.array(np.full(count, self._worker, np.uint16)),
            "conn": pa.array(of["conn"]),
            "nth": pa.array(of["nth"]),
            "arrival_ns": pa.array(of["arrival"]),
            "arrival_kernel": pa.array(of["kernel"] != 0),
            "read_ns": pa.array(of["read"]),
            "received_ns": pa.array(of["received"]),
            "digest": pa.Array.from_buffers(pa.binary(16), count, digests),
            "occurrence": pa.array(of["occurrence"]),
            "planned_first_ns": _known(of["planned_first"], 0),
        }

    def _end_columns(self, rows: slice, chunks: Chunks) -> dict[str, pa.Array]:
        of = {name: column[rows] for name, column in self._ends.items()}
        missing = ~self._has_end[rows]
        open_still = missing | (of["how"] == 0)
        tokens, size = chunks.written("tokens"), chunks.written("bytes")
        return {
            "bare_prompt_tokens": pa.array(of["bare"], mask=missing | (of["bare"] < 0)),
            "usage_prompt_tokens": pa.array(of["usage"], mask=missing | (of["usage"] < 0)),
            "done_ns": _known(of["done"], 0),
            "status": _known(of["status"], 0),
            "output_tokens": pa.array(np.where(open_still, tokens, of["tokens"])),
            "bytes": pa.array(np.where(open_still, size, of["bytes"]).astype(np.uint64)),
            "blocked_ns": pa.array(of["blocked_ns"]),
            "outq_bytes": pa.array(of["outq_bytes"]),
            "fault": _known(of["fault"], 0),
            "finish_reason": pa.array(REASONS, pa.string()).take(pa.array(of["reason"])),
            "how_ended": pa.array(HOW, pa.string()).take(pa.array(of["how"])),
        }

    def _identity(self, bodies: pa.Array, received: pa.Array) -> dict[str, pa.Array]:
        """Return digest and occurrence of the bodies that were whole."""
        digests, occurrences = [], []
        for body, whole in zip(bodies.to_pylist(), received.to_pylist(), strict=True):
            digest = hashlib.sha256(body).digest()[:16] if whole else bytes(16)
            digests.append(digest)
            occurrences.append(self._seen[digest] if whole else 0)
            self._seen[digest] += 1
        return {"digest": pa.array(digests, pa.binary(16)), "occurrence": pa.array(occurrences, pa.uint32())}


def _last_of_each(numbers: Column) -> Ints:
    """Return the places of the last of each number, in the numbers' order."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    places: Ints = order[last]
    return places


def _placed(values: Column, rows: Ints, count: int) -> Column:
    placed = np.zeros(count, values.dtype)
    placed[rows] = values
    return placed


def _known(values: Column, unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)
