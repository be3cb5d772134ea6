"""Journals of clients that never ran: what would the absorber have recorded of a sender that behaves like this?

Arrivals by law and an honest sender's noise (forge_times.py) or loops that replies drive (forge_loops.py), then a
journal of replies that were written on plan. A wrong kind is a change of one of these, or of rows. Everything random
comes from a generator that the caller seeds. Columns are built from buffers, a constant one from one value: 600
requests take 2 ms, 100,000 some 0.1 s. Left out: bytes and headers; the absorber's own tests have them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from loadproof.case import Case
from loadproof.checks.every import ask_all
from loadproof.expected import Expected
from loadproof.journal import COMPLETE, SCHEMA, Journal, Metadata
from loadproof.load.measured import measure
from loadproof.verdict import Finding
from tests.unit.forge_loops import ITL_S, LATENCY_S, TOKENS, TTFT_S, closed_loop
from tests.unit.forge_times import Seconds, constant, fixed_span, gamma, poisson, sent

__all__ = [
    "EPOCH_NS", "ITL_S", "LATENCY_S", "MODEL", "TOKENS", "TOOL", "TTFT_S", "Seconds", "ask", "case", "changed",
    "closed_case", "closed_loop", "constant", "fixed_span", "gamma", "journal", "nanoseconds", "poisson", "rate_case",
    "sent", "with_columns", "with_extra", "without",
]  # fmt: skip

type Ints = npt.NDArray[np.int64]

MODEL = "forged-model"
TOOL = "command"
EPOCH_NS = 5_000_000_000_000  # a monotonic clock is never at 0


def nanoseconds(seconds: Seconds | float) -> npt.NDArray[np.int64]:
    """Return int64 nanoseconds."""
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def journal(
    starts_s: Seconds | Sequence[float],
    *,
    late_s: float | Seconds = 0.0,
    ttft_s: float | Seconds = TTFT_S,
    itl_s: float = ITL_S,
    tokens: int = TOKENS,
    kernel: bool = False,
    clock_jump_s: float = 0.0,
    conn: Ints | None = None,
) -> Journal:
    """Return the journal of streamed completions that arrived at `starts_s`, each chunk written `late_s` late.

    `late_s` and `ttft_s` are one number or one per request, in the order of `starts_s`; `conn` is the connection of
    each, all of them on one if it is not said. Bodies are all different.
    """
    starts = np.asarray(starts_s, dtype=np.float64)
    order = np.argsort(starts, kind="stable")
    n = len(starts)
    arrival = EPOCH_NS + nanoseconds(starts[order])
    late, first = (nanoseconds(np.broadcast_to(value, n)[order]) for value in (late_s, ttft_s))
    planned = np.add.outer(arrival, nanoseconds(itl_s * np.arange(tokens, dtype=np.float64))) + first[:, None]
    conns = np.zeros(n, np.int64) if conn is None else conn[order]
    written: dict[str, npt.NDArray[np.generic]] = {"planned_ns": planned} | {
        name: np.broadcast_to(np.asarray(value), (n, tokens))
        for name, value in {"late_ns": late[:, None], "chunk_tokens": 1, "chunk_bytes": 6, "chunk_choice": 0}.items()
    }
    number = np.arange(n, dtype=np.uint64)
    columns: dict[str, pa.Array | npt.NDArray[np.generic]] = {
        "req": number, "conn": conns, "nth": _places(conns), "arrival_ns": arrival, "read_ns": arrival,
        "received_ns": arrival, "digest": digests(number + 1), "prompt_digest": digests(number + 1),
        "prefix_digests": lists(np.add.outer(8 * number, np.arange(3, dtype=np.uint64)), "prefix_digests"),
        "planned_first_ns": arrival + first, "done_ns": planned[:, -1] + late if n else arrival,
        **{name: lists(values, name) for name, values in written.items()},
    }  # fmt: skip
    same = _EVERY_ROW | {"arrival_kernel": kernel, "output_tokens": tokens}
    columns |= {name: _repeated(value, SCHEMA.field(name).type, n) for name, value in same.items()}
    offset, jump = 1_700_000_000_000_000_000, int(nanoseconds(clock_jump_s))
    metadata = Metadata(host="forge", boot_id="", model=MODEL, profile={}, clock_offset_ns=(offset, offset + jump),
                        clock_jump_ns=abs(jump))  # fmt: skip
    return Journal(pa.table([_array(columns[field.name], field) for field in SCHEMA], schema=SCHEMA), metadata)


_EVERY_ROW: dict[str, object] = {
    "worker": 0, "method": "POST", "path": "/v1/completions", "headers": [], "body": b"", "occurrence": 0,
    "model": MODEL, "stream": True, "ignore_eos": True, "max_tokens": TOKENS, "extra_fields": "{}",
    "bare_prompt_tokens": 127, "usage_prompt_tokens": 128, "status": 200, "bytes": 100, "blocked_ns": 0,
    "outq_bytes": 0, "fault": None, "header_names": "host,content-type,content-length", "finish_reason": "length",
    "how_ended": COMPLETE,
}  # fmt: skip


def _array(values: pa.Array | npt.NDArray[np.generic], field: pa.Field) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values.astype(field.type.to_pandas_dtype()))


def _repeated(value: object, kind: pa.DataType, n: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), n) if n else pa.array([], kind)


def lists(values: npt.NDArray[np.generic], name: str) -> pa.ListArray:
    """Return an array [n, k] as the list column `name`, k a row."""
    n, k = values.shape
    flat = np.ascontiguousarray(values, SCHEMA.field(name).type.value_type.to_pandas_dtype()).reshape(-1)
    return pa.ListArray.from_arrays(pa.array(np.arange(n + 1, dtype=np.int32) * k), pa.array(flat))


def digests(numbers: npt.NDArray[np.uint64]) -> pa.Array:
    """Return a digest per number, equal where they are equal; none is the digest of nothing, all zeros."""
    words = np.zeros((len(numbers), 2), ">u8")
    words[:, 1] = numbers
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(numbers), [None, pa.py_buffer(words.tobytes())])


def _places(conns: Ints) -> Ints:
    """Return the place of each request on its connection, from 0."""
    order = np.argsort(conns, kind="stable")
    _, first, counts = np.unique(conns[order], return_index=True, return_counts=True)
    places = np.empty(len(conns), np.int64)
    places[order] = np.arange(len(conns)) - np.repeat(first, counts)
    return places


def with_columns(forged: Journal, **columns: object) -> Journal:
    """Return the journal with whole columns replaced, each by a sequence or an array of n values."""
    table = forged.table
    for name, values in columns.items():
        field = SCHEMA.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
    return Journal(table, forged.metadata)


def _spliced(forged: Journal, row: int, stay_from: int, *rows: dict[str, object]) -> Journal:
    """Return the journal with `rows` in the place of rows `row` to `stay_from`."""
    between = pa.Table.from_pylist(list(rows), schema=SCHEMA)
    table = forged.table
    return Journal(pa.concat_tables([table.slice(0, row), between, table.slice(stay_from)]), forged.metadata)


def _row(forged: Journal, row: int) -> dict[str, object]:
    found: dict[str, object] = forged.table.slice(row, 1).to_pylist()[0]
    return found


def changed(forged: Journal, row: int, **cells: object) -> Journal:
    """Return the journal with some cells of one row replaced."""
    at = row % forged.table.num_rows
    return _spliced(forged, at, at + 1, _row(forged, at) | cells)


def without(forged: Journal, row: int) -> Journal:
    """Return the journal without one row."""
    at = row % forged.table.num_rows
    return _spliced(forged, at, at + 1)


def with_extra(forged: Journal, *, at_s: float, **cells: object) -> Journal:
    """Return the journal with one request more: the last row's copy with another body, moved to `at_s`."""
    n = forged.table.num_rows
    extra: dict[str, Any] = _row(forged, n - 1)
    move = EPOCH_NS + int(nanoseconds(at_s)) - extra["arrival_ns"]
    for name in ("arrival_ns", "read_ns", "received_ns", "planned_first_ns", "done_ns"):
        extra[name] = None if extra[name] is None else extra[name] + move
    extra["planned_ns"] = [planned + move for planned in extra["planned_ns"]]
    extra |= {"req": n, "digest": b"\xff" * 16, "prompt_digest": b"\xff" * 16, "prefix_digests": [7]} | cells
    return _spliced(forged, n, n, extra)


def case(
    load: Mapping[str, object],
    *,
    workload: Mapping[str, object] | None = None,
    absorber: Mapping[str, object] | None = None,
    **declared: Any,
) -> Case:
    """Return a case that asks what `journal` makes, for `load`, with changes; `declared` is of the tool."""
    asked: dict[str, object] = {
        "num_requests": 600, "prompt_tokens": 128, "max_tokens": TOKENS, "stream": True, "ignore_eos": True,
        "unique_prompts": True,
    }  # fmt: skip
    asked |= dict(workload or {})
    document = {
        "why": "A forged case.",
        "absorber": {"ttft_s": TTFT_S, "itl_s": ITL_S} | dict(absorber or {}),
        "workload": {name: value for name, value in asked.items() if value is not None},
        "load": load,
        "tools": {TOOL: declared},
    }
    return Case(name="forged", folder=Path("forged"), expected=Expected.model_validate_json(json.dumps(document)))


def rate_case(n: int, rate: float, arrival: str, **declared: Any) -> Case:
    """Return a case that asks for n requests at a rate."""
    return case({"mode": "rate", "rate": rate}, workload={"num_requests": n}, arrival=arrival, **declared)


def closed_case(n: int, slots: int, **declared: Any) -> Case:
    """Return a case that asks for n requests at a concurrency."""
    return case({"mode": "concurrency", "concurrency": slots}, workload={"num_requests": n}, **declared)


def ask(asked: Case, forged: Journal, *, tool_ended_s: float | None = None) -> dict[str, Finding]:
    """Return every finding by its name; also asserts that each fits JSON and a line of the table."""
    ended = None if tool_ended_s is None else EPOCH_NS + int(nanoseconds(tool_ended_s))
    found = ask_all(asked, TOOL, measure(forged, tool_ended_ns=ended, headers=asked.expected.workload.headers))
    by_name = {finding.check: finding for finding in found}
    assert len(by_name) == len(found), "two findings of one name"
    assert msgspec.json.decode(msgspec.json.encode(found), type=tuple[Finding, ...]) == found
    for finding in found:
        assert len(finding.requirement) <= 33, finding.requirement
        assert len(finding.expected) <= 27, finding.expected
        assert finding.measured, finding.check
    return by_name
