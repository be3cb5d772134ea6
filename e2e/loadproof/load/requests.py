"""Which requests arrived, in columns that the other measurements use?

A generation request is a POST to a generation path, whatever it was answered. Everything else is traffic
beside the load: recognised by method and path where an OpenAI client or a metrics scraper would send it,
unrecognised otherwise. Left out: the times of single chunks, beyond where a request's time in flight ends.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.journal import COMPLETE

if TYPE_CHECKING:
    from loadproof.journal import Journal

type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]
type Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
SIDE_TRAFFIC = frozenset(
    (method, path)
    for path in ("/health", "/metrics", "/v1/models", "/version")
    for method in ("GET", "HEAD")
) | {("POST", "/tokenize"), ("POST", "/detokenize")}  # fmt: skip

_PER_REQUEST = (
    "start_ns", "end_ns", "max_tokens", "bare_prompt_tokens", "paths", "models", "streams", "ignore_eos", "digests",
    "extra_fields", "endings",
)  # fmt: skip

NEVER = np.iinfo(np.int64).max
UNWRITTEN = -(2**31)  # stands for a chunk without lateness: no chunk is written two seconds before its plan


@dataclass(frozen=True)
class Requests:
    """The generation requests in order of arrival; every array has one entry per request.

    `start_ns` is the arrival; `end_ns` is where in-flight ends: the actual write of the chunk with
    finish_reason, the last write of a reply that is not streamed, or the client's close if earlier; `NEVER`
    for a request still in flight when the journal ended. Both are CLOCK_MONOTONIC nanoseconds.
    `digests` are of the bodies, zeros where no whole body came.
    `bare_prompt_tokens` and `max_tokens` are -1 where the journal has none.
    """

    start_ns: Ints
    end_ns: Ints
    max_tokens: Ints
    bare_prompt_tokens: Ints
    paths: list[str]
    models: list[str | None]
    streams: list[bool | None]
    ignore_eos: list[bool | None]
    digests: list[bytes]
    extra_fields: list[str | None]
    endings: list[str | None]
    side_traffic: Counter[tuple[str, str]]
    unrecognised: Counter[tuple[str, str]]

    @property
    def n(self) -> int:
        """The number of generation requests."""
        return len(self.start_ns)

    @property
    def start_s(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """Arrivals in seconds since the first one, float64[n]."""
        return (self.start_ns - self.start_ns[:1].sum()) / 1e9

    def without_leading(self, count: int) -> Requests:
        """Return the requests without the first `count`."""
        return replace(self, **{name: getattr(self, name)[count:] for name in _PER_REQUEST})


def generation_rows(journal: Journal) -> Journal:
    """Return the journal's rows that ask for a generation, in order of arrival."""
    # Bodies and headers are most of a journal's bytes and nothing below reads them.
    table = journal.table.drop_columns(["body", "headers"])
    path = pc.list_element(pc.split_pattern(table["path"], "?"), 0)
    wanted = pc.and_(pc.is_in(path, value_set=pa.array(list(PATHS.values()))), pc.equal(table["method"], "POST"))
    return type(journal)(table.filter(wanted).sort_by([("arrival_ns", "ascending"), ("req", "ascending")]),
                         journal.metadata)  # fmt: skip


def measure_requests(journal: Journal) -> Requests:
    """Return the requests of a journal."""
    rows = generation_rows(journal)
    methods, paths = journal.table["method"].to_pylist(), _bare_paths(journal.table["path"].to_pylist())
    seen = Counter(zip(methods, paths, strict=True))
    beside = Counter({key: k for key, k in seen.items() if not (key[0] == "POST" and key[1] in PATHS.values())})
    return Requests(
        start_ns=rows.int_column("arrival_ns"),
        end_ns=_in_flight_ends(rows),
        max_tokens=rows.int_column("max_tokens", missing=-1),
        bare_prompt_tokens=rows.int_column("bare_prompt_tokens", missing=-1),
        paths=_bare_paths(rows.table["path"].to_pylist()),
        models=rows.table["model"].to_pylist(),
        streams=rows.table["stream"].to_pylist(),
        ignore_eos=rows.table["ignore_eos"].to_pylist(),
        digests=rows.table["digest"].to_pylist(),
        extra_fields=rows.table["extra_fields"].to_pylist(),
        endings=rows.table["how_ended"].to_pylist(),
        side_traffic=Counter({key: k for key, k in beside.items() if key in SIDE_TRAFFIC}),
        unrecognised=Counter({key: k for key, k in beside.items() if key not in SIDE_TRAFFIC}),
    )


def _bare_paths(targets: list[str]) -> list[str]:
    return [target.partition("?")[0] for target in targets]


def answered_whole(rows: Journal) -> Bools:
    """Return which requests got their whole reply, bool[n]."""
    return _bools(pc.equal(rows.table["how_ended"], COMPLETE))


def was_streamed(rows: Journal) -> Bools:
    """Return which requests asked for a stream, bool[n]."""
    return _bools(rows.table["stream"])


def _bools(column: pa.ChunkedArray) -> Bools:
    return np.asarray(column.fill_null(False).to_numpy(), dtype=np.bool_)  # noqa: FBT003 -- Arrow's own signature


def _in_flight_ends(rows: Journal) -> Ints:
    done = rows.int_column("done_ns", missing=NEVER)
    actual, offsets = actual_writes(rows)
    if not len(actual):
        return done
    # finish_reason rides on the last chunk and is noted when that was taken; a client may close before [DONE].
    finished = _bools(pc.is_valid(rows.table["finish_reason"]))
    return np.where(finished & (np.diff(offsets) > 0), actual[np.maximum(offsets[1:] - 1, 0)], done)


def actual_writes(rows: Journal) -> tuple[Ints, Ints]:
    """Return the actual write of each chunk, flat int64[m] (0: never written), and offsets int64[n + 1]."""
    planned, offsets = rows.list_column("planned_ns")
    late, _ = rows.list_column("late_ns", missing=UNWRITTEN)
    return np.where(late == UNWRITTEN, 0, planned + late), offsets
