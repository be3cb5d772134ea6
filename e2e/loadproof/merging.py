"""Which chunks and which end belong to which request, and what is the row of each?

One worker's streams at a time, in columns, because a journal may have a million requests and ten million chunks;
only heads and bodies are read one by one. The later of two rows of a request counts. Rows come in groups that bound
the memory of whoever writes them. Left out: files.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.raw_request import asked_columns
from loadproof.record import HOW, REASONS, SCHEMA

if TYPE_CHECKING:
    from loadproof.parts import Part

type Column = np.ndarray[tuple[int], np.dtype[Any]]
type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

# What a group of rows may hold; each is a part of one whole.
GROUP_ROWS, GROUP_CHUNKS, GROUP_BYTES = 32_768, 2_000_000, 128 * 1024 * 1024
_CHUNK_COLUMNS = {"planned_ns": "planned", "chunk_tokens": "tokens", "chunk_bytes": "bytes", "chunk_choice": "choice"}


@dataclass
class _Chunks:
    """The chunks of known requests, sorted by request; those of row i are from starts[i] up to starts[i + 1]."""

    columns: dict[str, Column]
    starts: Ints

    def written(self, name: str) -> Ints:
        """Return the sum of a column over the chunks of each row that were written."""
        sums = np.zeros(len(self.columns["actual"]) + 1, np.int64)
        np.cumsum(np.where(self.columns["actual"] != 0, self.columns[name], 0), out=sums[1:])
        return sums[self.starts[1:]] - sums[self.starts[:-1]]


class Merged:
    """One worker's requests, sorted by number, with what belongs to each; `light` asks for digests of our own.

    `lost` is how many requests only chunks or an end tell of: they have no row.
    """

    def __init__(self, part: Part, *, light: bool) -> None:
        self._worker, self._light = part.worker, light
        self._raw = part.requests.table["raw"]
        requests = _numbers(part.requests.table)
        self._digests = np.frombuffer(_flat(part.requests.table["digest"]).buffers()[1] or b"", "V16")
        self._order = _last_of_each(requests["req"])
        self._requests = {name: column[self._order] for name, column in requests.items()}
        self._digests = self._digests[self._order]
        req = self._requests["req"]
        ends = _numbers(part.ends.table)
        last = _last_of_each(ends["req"])
        row, known = _rows_of(req, ends["req"][last])
        lost = ends["req"][last][~known]
        self._has_end = np.zeros(len(req), np.bool_)
        self._has_end[row[known]] = True
        self._ends = {name: _placed(column[last][known], row[known], len(req)) for name, column in ends.items()}
        self._chunks, without = _chunks_of(part, req)
        self.lost = len(np.union1d(lost, without))
        self._seen: Counter[bytes] = Counter()

    def groups(self) -> Iterator[pa.Table]:
        """Yield the rows as tables of `SCHEMA`, in order, at least one."""
        sizes = _flat(pc.binary_length(self._raw)).to_numpy()[self._order]
        filled = np.cumsum(1 / GROUP_ROWS + np.diff(self._chunks.starts) / GROUP_CHUNKS + sizes / GROUP_BYTES)
        stops = np.flatnonzero(np.diff(filled.astype(np.int64))) + 1
        bounds = [0, *stops.tolist(), len(self._order)]
        for start, stop in pairwise(bounds):
            yield self._group(slice(start, stop))

    def _group(self, rows: slice) -> pa.Table:
        columns = (
            self._request_columns(rows)
            | asked_columns(self._raw_of(rows))
            | self._end_columns(rows)
            | self._chunk_columns(rows)
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

    def _end_columns(self, rows: slice) -> dict[str, pa.Array]:
        of = {name: column[rows] for name, column in self._ends.items()}
        missing = ~self._has_end[rows]
        open_still = missing | (of["how"] == 0)
        tokens, size = (self._chunks.written(name)[rows] for name in ("tokens", "bytes"))
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

    def _chunk_columns(self, rows: slice) -> dict[str, pa.Array]:
        starts = self._chunks.starts[rows.start : rows.stop + 1]
        of = {name: column[starts[0] : starts[-1]] for name, column in self._chunks.columns.items()}
        values = {name: pa.array(of[column]) for name, column in _CHUNK_COLUMNS.items()}
        values["late_ns"] = pa.array(of["actual"] - of["planned"], mask=of["actual"] == 0)
        offsets = pa.array((starts - starts[0]).astype(np.int32))
        return {name: pa.ListArray.from_arrays(offsets, column) for name, column in values.items()}

    def _identity(self, bodies: pa.Array, received: pa.Array) -> dict[str, pa.Array]:
        """Return digest and occurrence of the bodies that were whole."""
        digests, occurrences = [], []
        for body, whole in zip(bodies.to_pylist(), received.to_pylist(), strict=True):
            digest = hashlib.sha256(body).digest()[:16] if whole else bytes(16)
            digests.append(digest)
            occurrences.append(self._seen[digest] if whole else 0)
            self._seen[digest] += 1
        return {"digest": pa.array(digests, pa.binary(16)), "occurrence": pa.array(occurrences, pa.uint32())}


def _chunks_of(part: Part, req: Column) -> tuple[_Chunks, Column]:
    """Return the chunks of the requests `req` (sorted), and the requests of the others."""
    columns = _numbers(part.chunks.table)
    owner = columns.pop("req")
    row, known = _rows_of(req, owner)
    without = np.unique(owner[~known])
    if len(without):
        row, columns = row[known], {name: column[known] for name, column in columns.items()}
    if np.any(np.diff(row) < 0):
        order = np.argsort(row, kind="stable")  # chunks of one request stay as they were written
        row, columns = row[order], {name: column[order] for name, column in columns.items()}
    return _Chunks(columns, np.searchsorted(row, np.arange(len(req) + 1)).astype(np.int64)), without


def _numbers(table: pa.Table) -> dict[str, Column]:
    plain = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    return {name: _flat(table[name]).to_numpy() for name in plain}


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _last_of_each(numbers: Column) -> Ints:
    """Return the places of the last of each number, in the numbers' order."""
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    last = np.ones(len(order), np.bool_)
    last[:-1] = ordered[1:] != ordered[:-1]
    places: Ints = order[last]
    return places


def _rows_of(req: Column, numbers: Column) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return where in `req`, sorted, each number is, and whether it is."""
    row = np.searchsorted(req, numbers)
    known = np.zeros(len(numbers), np.bool_)
    inside = row < len(req)
    known[inside] = req[row[inside]] == numbers[inside]
    return row, known


def _placed(values: Column, rows: Ints, count: int) -> Column:
    placed = np.zeros(count, values.dtype)
    placed[rows] = values
    return placed


def _known(values: Column, unknown: int) -> pa.Array:
    return pa.array(values, mask=values == unknown)
