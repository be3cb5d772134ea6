"""What does a journal say of chunks: how late they left, and how many bytes of the file each takes?

Pure arithmetic on columns. `late` is actual - planned; chunks of a client that did not read in time are left
out, because their lateness is not the server's.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow.parquet as pq
from scipy.stats import differential_entropy

from loadproof.journal import FILE_NAME, read_journal

GROUP_GAP_NS = 1_000_000  # chunks that are due further apart than this do not queue behind each other
FIRST_COUNTED = 64  # as many leave in one turn; before that the wake-up itself is what one sees


class Chunks(msgspec.Struct, frozen=True):
    """All chunks written to clients that read: `planned` and `late` in ns (int64[m]) in order of plan, streams' number.

    `begin` and `stop`: the span in which all streams were open, from the last first chunk to the first last one.
    """

    planned: np.ndarray
    late: np.ndarray
    streams: int
    begin: int
    stop: int
    blocked: int

    def plateau(self) -> Chunks:
        """Return only what was due while all streams were open."""
        inside = (self.planned >= self.begin) & (self.planned <= self.stop)
        return Chunks(self.planned[inside], self.late[inside], self.streams, self.begin, self.stop, self.blocked)


def chunks_of(folder: Path) -> Chunks:
    """Read the streamed requests of a journal."""
    journal = read_journal(folder)
    planned, offsets = journal.list_column("planned_ns")
    late, _ = journal.list_column("late_ns", missing=np.iinfo(np.int64).min)
    lengths = np.diff(offsets)
    several = lengths > 1
    blocked = (journal.int_column("blocked_ns") > 0) & several
    kept = np.repeat(several & ~blocked, lengths) & (late != np.iinfo(np.int64).min)
    firsts, lasts = planned[offsets[:-1][several]], planned[offsets[1:][several] - 1]
    order = np.argsort(planned[kept], kind="stable")
    return Chunks(planned[kept][order], late[kept][order], int(several.sum()), int(firsts.max()), int(lasts.min()),
                  int(blocked.sum()))  # fmt: skip


def gaps_of(folder: Path) -> np.ndarray:
    """Return the planned gaps between successive chunks of the same request, in ns."""
    planned, offsets = read_journal(folder).list_column("planned_ns")
    inside = np.ones(max(0, len(planned) - 1), bool)
    inside[offsets[1:-1][(offsets[1:-1] > 0) & (offsets[1:-1] < len(planned))] - 1] = False
    return np.diff(planned)[inside]


def groups_due_at_once(planned: np.ndarray, size: int) -> list[slice]:
    """Return the runs of `planned` (sorted) without a gap above 1 ms that have at least `size` chunks."""
    edges = [0, *(np.flatnonzero(np.diff(planned) > GROUP_GAP_NS) + 1).tolist(), len(planned)]
    return [slice(a, b) for a, b in pairwise(edges) if b - a >= size]


class AtOnce(msgspec.Struct, frozen=True):
    """Of groups of chunks due at once, in us a chunk: lateness of the whole group, and the worst k-th / k.

    `within_us`: how far apart their plans were at most, in the median group.
    """

    groups: int
    within_us: float
    median_us: float
    worst_us: float
    worst_kth_us: float


def at_once(chunks: Chunks, share: float = 0.9) -> AtOnce | None:
    """Return how late groups of at least `share` of all streams left, a chunk; None if there is no such group.

    The k-th lateness counts from the group's first plan to the k-th actual write, in the order of writing.
    """
    whole, kth, within = [], [], []
    for part in groups_due_at_once(chunks.planned, round(share * chunks.streams)):
        actual = np.sort(chunks.planned[part] + chunks.late[part]) - chunks.planned[part.start]
        each_us = actual / np.arange(1, len(actual) + 1) / 1000
        whole.append(each_us[-1])
        within.append(float(chunks.planned[part][-1] - chunks.planned[part.start]) / 1000)
        kth.append(each_us[FIRST_COUNTED - 1 :].max())
    if not whole:
        return None
    return AtOnce(len(whole), float(np.median(within)), float(np.median(whole)), float(max(whole)), float(max(kth)))


def entropy_bytes(values: np.ndarray, seed: int) -> float:
    """Return the entropy of integer values in bytes each, from their spacings (Vasicek's estimate).

    Noise of one unit is added to each: the differential entropy of that sum is the integers' own entropy.
    """
    noisy = values + np.random.default_rng(seed).random(len(values))
    return max(0.0, float(differential_entropy(noisy, base=2)) / 8)  # the estimate of nothing may fall below it


class Size(msgspec.Struct, frozen=True):
    """Compressed bytes of the columns that have an entry for each chunk, of the whole file, and the chunks."""

    chunk_columns: int
    whole_file: int
    chunks: int

    @property
    def each(self) -> float:
        """Bytes a chunk."""
        return self.chunk_columns / self.chunks


def size_of(folder: Path) -> Size:
    """Return what the journal's chunks take."""
    file = folder / FILE_NAME
    parquet = pq.ParquetFile(file)
    total = chunks = 0
    for group in range(parquet.metadata.num_row_groups):
        row_group = parquet.metadata.row_group(group)
        for index in range(row_group.num_columns):
            column = row_group.column(index)
            name, _, rest = column.path_in_schema.partition(".")
            if rest and name not in {"headers", "prefix_digests"}:
                total += column.total_compressed_size
            if name == "planned_ns":
                chunks += column.num_values
    return Size(total, file.stat().st_size, chunks)
