"""Which chunks of a live stream belong to which request, when a journal may have a hundred million of them?

Chunks are written in the order of time, and requests come in the order of arrival: those of some neighbouring requests
lie near each other in the stream, between chunks of others. So only the row of each chunk is kept, 4 bytes; what else
a chunk has is looked up for a group of rows at a time. Left out: what a row is, beside its chunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

type Column = np.ndarray[tuple[int], np.dtype[Any]]
type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

_BLOCK = 1 << 16  # chunks that are looked at, or left, together
_UNKNOWN = -1
_COLUMNS = {"planned_ns": "planned", "chunk_tokens": "tokens", "chunk_bytes": "bytes", "chunk_choice": "choice"}


@dataclass(frozen=True)
class Chunks:
    """The chunks of some rows, by row and in the order of writing; those of row i are from starts[i] to starts[i + 1].

    `stream` has the columns of the live stream.
    """

    stream: dict[str, Column]
    starts: Ints

    def written(self, name: str) -> Ints:
        """Return the sum of a column over the chunks of each row that were written."""
        sums = np.zeros(len(self.stream["actual"]) + 1, np.int64)
        np.cumsum(np.where(self.stream["actual"] != 0, self.stream[name], 0), out=sums[1:])
        return sums[self.starts[1:]] - sums[self.starts[:-1]]

    def columns(self) -> dict[str, pa.Array]:
        """Return the columns of the sealed journal, a list for each row."""
        values = {name: pa.array(self.stream[column]) for name, column in _COLUMNS.items()}
        actual = self.stream["actual"]
        values["late_ns"] = pa.array(actual - self.stream["planned"], mask=actual == 0)
        offsets = pa.array(self.starts.astype(np.int32))
        return {name: pa.ListArray.from_arrays(offsets, column) for name, column in values.items()}


class Placed:
    """The chunks of a stream by the rows of the requests `req` (sorted).

    `counts` is how many each row has, `without` the requests of chunks that have no row.
    """

    def __init__(self, table: pa.Table, req: Column) -> None:
        self._table = table
        self._rows = np.empty(len(table), np.int32)
        self.counts = np.zeros(len(req), np.int64)
        without = [np.empty(0, np.uint64)]
        spans = []
        for begin in range(0, len(table), _BLOCK):
            owner = flat(table["req"].slice(begin, _BLOCK)).to_numpy()
            row, known = rows_of(req, owner)
            without.append(np.unique(owner[~known]))
            self._rows[begin : begin + len(row)] = np.where(known, row, _UNKNOWN)
            found, counts = np.unique(row[known], return_counts=True)
            self.counts[found] += counts
            spans.append((found[0], found[-1]) if len(found) else (len(req), _UNKNOWN))
        self.without = np.unique(np.concatenate(without))
        self._spans = np.array(spans, np.int64).reshape(-1, 2)

    def of(self, rows: slice) -> Chunks:
        """Return the chunks of some neighbouring rows."""
        starts = np.zeros(rows.stop - rows.start + 1, np.int64)
        np.cumsum(self.counts[rows], out=starts[1:])
        first, last = self._spans.T
        blocks = np.flatnonzero((first < rows.stop) & (last >= rows.start)).tolist()
        places = [self._places(block, rows) for block in blocks]
        if not places:
            return Chunks({name: column[:0] for name, column in numbers_of(self._table.slice(0, 1)).items()}, starts)
        found = np.concatenate(places)
        found = found[np.argsort(self._rows[found], kind="stable")]  # chunks of one row stay as they were written
        begin, end = blocks[0] * _BLOCK, (blocks[-1] + 1) * _BLOCK
        near = self._table.slice(begin, end - begin)
        return Chunks(
            {name: numbers_of(near.select([name]))[name][found - begin] for name in near.schema.names}, starts
        )

    def _places(self, block: int, rows: slice) -> Ints:
        of = self._rows[block * _BLOCK : (block + 1) * _BLOCK]
        return block * _BLOCK + np.flatnonzero((of >= rows.start) & (of < rows.stop))


def numbers_of(table: pa.Table) -> dict[str, Column]:
    """Return the columns of a table that are numbers."""
    plain = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    return {name: flat(table[name]).to_numpy() for name in plain}


def flat(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece."""
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def rows_of(req: Column, numbers: Column) -> tuple[Ints, np.ndarray[tuple[int], np.dtype[np.bool_]]]:
    """Return where in `req`, sorted, each number is, and whether it is."""
    if len(req) and int(req[-1]) - int(req[0]) == len(req) - 1:  # as it mostly is, and then nothing is to be looked for
        row = numbers.astype(np.int64) - int(req[0])
        return row, (row >= 0) & (row < len(req))
    row = np.searchsorted(req, numbers).astype(np.int64)
    known = np.zeros(len(numbers), np.bool_)
    inside = row < len(req)
    known[inside] = req[row[inside]] == numbers[inside]
    return row, known
