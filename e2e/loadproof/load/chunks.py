"""When was each chunk of a reply planned and written?

A group of consecutive rows at a time, because a journal may have more chunks than fit into memory several times over.
Left out: what is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from loadproof.journal import Journal
    from loadproof.load.labels import Bools
    from loadproof.load.requests import Ints

TIMES = ("planned_ns", "late_ns")
TOKENS = "chunk_tokens"
ALL = slice(None)


@dataclass(frozen=True)
class Chunks:
    """The chunks of the journal's rows `rows`; those of the k-th of these are from starts[k] up to starts[k + 1].

    `planned` and `late` are int64[m] nanoseconds, `late` 0 where `written` is false; `tokens` int64[m] is empty unless
    asked for.
    """

    rows: slice
    starts: Ints
    planned: Ints
    late: Ints
    written: Bools
    tokens: Ints

    @property
    def counts(self) -> Ints:
        """How many chunks each row has, int64[n]."""
        return np.diff(self.starts)

    def actual(self, which: slice | Ints | Bools = ALL) -> Ints:
        """Return when chunks were written, of all or of some; 0 where they were not."""
        return np.where(self.written[which], self.planned[which] + self.late[which], 0)


def chunk_groups(journal: Journal, *, tokens: bool = False) -> Iterator[Chunks]:
    """Yield all chunks of a journal, in the order of its rows."""
    first = 0
    for batch in journal.table.select([*TIMES, *([TOKENS] if tokens else [])]).to_batches():
        yield _group(batch, first)
        first += batch.num_rows


def _group(batch: pa.RecordBatch, first: int) -> Chunks:
    lengths = batch["planned_ns"].value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    planned, late = _numbers(batch["planned_ns"].flatten()), batch["late_ns"].flatten()
    all_written = late.null_count == 0
    written = np.ones(len(late), np.bool_) if all_written else late.is_valid().to_numpy(zero_copy_only=False)
    tokens = _numbers(batch[TOKENS].flatten()) if TOKENS in batch.schema.names else np.empty(0, np.int64)
    return Chunks(slice(first, first + batch.num_rows), starts, planned, _numbers(late), written, tokens)


def _numbers(values: pa.Array) -> Ints:
    return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)


def chunks_in(journal: Journal) -> int:
    """Return how many chunks a journal has."""
    return int(pc.sum(pc.list_value_length(journal.table["planned_ns"])).as_py() or 0)
