"""Which requests arrived, in columns that the other measurements use?

A generation request is a POST to a generation path, whatever it was answered. Everything else is traffic
beside the load: recognised by method and path where an OpenAI client or a metrics scraper would send it,
unrecognised otherwise. Left out: the times of single chunks, beyond where a request's time in flight ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.journal import CLIENT_CLOSED
from loadproof.load.chunks import TIMES, chunk_groups
from loadproof.load.labels import Labels
from loadproof.prompts import PREFIXES

if TYPE_CHECKING:
    from loadproof.journal import Journal

type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
type Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]
type Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
type Rows = slice | Ints
"""Some rows of a journal, in an order: all of them as they are, or their places."""

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
SIDE_TRAFFIC = frozenset(
    (method, path)
    for path in ("/health", "/metrics", "/v1/models", "/version")
    for method in ("GET", "HEAD")
) | {("POST", "/tokenize"), ("POST", "/detokenize")}  # fmt: skip

_PER_REQUEST = (
    "start_ns", "end_ns", "done_ns", "max_tokens", "bare_prompt_tokens", "conn", "bodies", "prompts", "beginnings",
    "shared_bytes", "cut", "paths", "models", "streams", "ignore_eos", "extra_fields", "header_names", "endings",
)  # fmt: skip

COLUMNS = (
    "req", "worker", "conn", "arrival_ns", "done_ns", "method", "path", "header_names", "digest", "model", "stream",
    "ignore_eos", "max_tokens", "extra_fields", "prompt_digest", "prefix_digests", "bare_prompt_tokens",
    "finish_reason", "how_ended", *TIMES,
)  # fmt: skip
"""The journal's columns that are read here."""

NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Requests:
    """The generation requests in order of arrival; every array and `Labels` has one entry per request.

    `start_ns` is the arrival; `end_ns` is where in-flight ends: the actual write of the chunk with
    finish_reason, the last write of a reply that is not streamed, or the client's close if earlier; `NEVER`
    for a request still in flight when the journal ended; `done_ns` is the last write of all, or the client's close.
    All are CLOCK_MONOTONIC nanoseconds.
    `bare_prompt_tokens` and `max_tokens` are -1 where the journal has none. `conn` numbers the connections. `bodies`,
    `prompts` and `beginnings` (the first 64 bytes of the prompt) number what is equal, -1 where there is none;
    `shared_bytes` is the longest beginning (of those of `loadproof.prompts`) that an earlier request had, too. `cut`:
    the client closed before it had the reply. `header_names` are lower case, in their order, with commas between.
    """

    start_ns: Ints
    end_ns: Ints
    done_ns: Ints
    max_tokens: Ints
    bare_prompt_tokens: Ints
    conn: Ints
    bodies: Ints
    prompts: Ints
    beginnings: Ints
    shared_bytes: Ints
    cut: Bools
    paths: Labels
    models: Labels
    streams: Labels
    ignore_eos: Labels
    extra_fields: Labels
    header_names: Labels
    endings: Labels
    side_traffic: Counter[tuple[str, str]]
    unrecognised: Counter[tuple[str, str]]

    @property
    def n(self) -> int:
        """The number of generation requests."""
        return len(self.start_ns)

    @cached_property
    def start_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Arrivals in seconds since the first one, float64[n]."""
        return (self.start_ns - self.start_ns[:1].sum()) / 1e9

    def rows(self, rows: slice | Bools) -> Requests:
        """Return some of the requests."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _PER_REQUEST})


def bare_paths(journal: Journal) -> Labels:
    """Return the path of each row of a journal, without what follows a question mark."""
    return Labels.of(journal.table["path"]).told_as(lambda target: target.partition("?")[0])


def generation_rows(journal: Journal) -> Rows:
    """Return the journal's rows that ask for a generation, in order of arrival; of equal arrivals by number."""
    asks = Labels.of(journal.table["method"]).equal("POST") & bare_paths(journal).among(list(PATHS.values()))
    arrival = journal.int_column("arrival_ns")
    if asks.all() and np.all(arrival[1:] >= arrival[:-1]):
        return slice(None)
    rows = np.flatnonzero(asks)
    ordered: Ints = rows[np.argsort(arrival[rows], kind="stable")]  # a journal is by number
    return ordered


def measure_requests(journal: Journal) -> Requests:
    """Return the requests of a journal, which need not have other columns than `COLUMNS`."""
    rows, table = generation_rows(journal), journal.table
    beside = _beside(journal)
    beginnings, shared = _beginnings(table["prefix_digests"], rows)
    endings = Labels.of(table["how_ended"])[rows]
    return Requests(
        start_ns=journal.int_column("arrival_ns")[rows],
        end_ns=_in_flight_ends(journal)[rows],
        done_ns=journal.int_column("done_ns", missing=NEVER)[rows],
        max_tokens=journal.int_column("max_tokens", missing=-1)[rows],
        bare_prompt_tokens=journal.int_column("bare_prompt_tokens", missing=-1)[rows],
        conn=((journal.int_column("worker") << 32) + journal.int_column("conn"))[rows],
        bodies=_numbered(table["digest"])[rows],
        prompts=_numbered(table["prompt_digest"])[rows],
        beginnings=beginnings,
        shared_bytes=shared,
        cut=endings.equal(CLIENT_CLOSED) & Labels.of(table["finish_reason"])[rows].equal(None),
        paths=bare_paths(journal)[rows],
        models=Labels.of(table["model"])[rows],
        streams=Labels.of(table["stream"])[rows],
        ignore_eos=Labels.of(table["ignore_eos"])[rows],
        extra_fields=Labels.of(table["extra_fields"])[rows],
        header_names=Labels.of(table["header_names"])[rows],
        endings=endings,
        side_traffic=Counter({key: k for key, k in beside.items() if key in SIDE_TRAFFIC}),
        unrecognised=Counter({key: k for key, k in beside.items() if key not in SIDE_TRAFFIC}),
    )


def _beside(journal: Journal) -> Counter[tuple[str, str]]:
    """Return how many requests of each method and path ask for no generation."""
    methods, paths = Labels.of(journal.table["method"]), bare_paths(journal)
    kinds, counts = np.unique(methods.codes * len(paths.values) + paths.codes, return_counts=True)
    seen = [divmod(kind, len(paths.values)) for kind in kinds.tolist()]
    named = [(methods.values[method], paths.values[path]) for method, path in seen]
    generation = {("POST", path) for path in PATHS.values()}
    return Counter({key: k for key, k in zip(named, counts.tolist(), strict=True) if key not in generation})


_NO_DIGEST = bytes(16)  # no whole body came


def _numbered(digests: pa.ChunkedArray) -> Ints:
    """Return the number of each digest, equal where they are equal, and -1 where there is none."""
    column = digests.combine_chunks()
    if not column.null_count and len(column):
        halves = np.frombuffer(column.buffers()[1], np.uint64)[2 * column.offset :: 2][: len(column)]
        if halves.all() and _all_differ(halves):
            return np.arange(len(column))
    encoded = column.dictionary_encode()
    codes = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64)
    none = pc.index(encoded.dictionary, pa.scalar(_NO_DIGEST, encoded.dictionary.type)).as_py()
    return np.where(codes == none, -1, codes) if none >= 0 else codes


def _all_differ(words: Words) -> bool:
    ordered = np.sort(words)  # a tenth of the time that numbers take, and mostly all there is to do
    return bool(np.all(ordered[1:] != ordered[:-1]))


def _in_order_of_appearance(words: Words) -> Ints:
    """Return a number for each word, equal where they are equal."""
    if _all_differ(words):
        return np.arange(len(words))
    return np.asarray(pa.array(words).dictionary_encode().indices, dtype=np.int64)


def _beginnings(digests: pa.ChunkedArray, rows: Rows) -> tuple[Ints, Ints]:
    """Return the number of each prompt's shortest beginning, -1 for a shorter one, and the longest that is shared.

    Two prompts that share a long beginning share every shorter one, so only those are compared that shared the last.
    """
    column = digests.combine_chunks()
    lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    begins = (np.cumsum(lengths, dtype=np.int64) - lengths)[rows]
    lengths = lengths[rows]
    values = column.flatten().to_numpy(zero_copy_only=False)
    shared = np.zeros(len(lengths), np.int64)
    beginnings = np.full(len(lengths), -1, np.int64)
    left = np.flatnonzero(lengths > 0)
    for rung, size in enumerate(PREFIXES):
        left = left[lengths[left] > rung]
        if not len(left):
            break
        which = _in_order_of_appearance(values[begins[left] + rung])
        if rung == 0:
            beginnings[left] = which
        again = which <= np.concatenate([[-1], np.maximum.accumulate(which)[:-1]])
        shared[left[again]] = size
        left = left[np.bincount(which)[which] > 1]
    return beginnings, shared


def _in_flight_ends(journal: Journal) -> Ints:
    ends = np.array(journal.int_column("done_ns", missing=NEVER))
    # finish_reason rides on the last chunk and is noted when that was taken; a client may close before [DONE].
    finished = ~Labels.of(journal.table["finish_reason"]).equal(None)
    for group in chunk_groups(journal):
        known = finished[group.rows] & (group.counts > 0)
        ends[group.rows][known] = group.actual(group.starts[1:][known] - 1)
    return ends
