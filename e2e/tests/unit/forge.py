"""Journals of clients that never ran: what would the absorber have recorded of a sender that behaves like this?

Arrivals by law, an honest sender's noise (docs/statistics.md: one thread, 0.05-0.2 ms a send, 0.1-3 ms jitter, pauses
of 20-100 ms, a first send up to 0.3 s late) or a closed loop, then a journal of replies that were written on plan. A
wrong kind is a change of one of these, or of single rows. Everything random comes from a generator that the caller
seeds. Left out: bytes and headers; the absorber's own tests have them.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Sequence
from pathlib import Path

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

type Seconds = npt.NDArray[np.float64]

MODEL = "forged-model"
TOOL = "command"
TTFT_S, ITL_S, TOKENS = 0.1, 0.01, 16
LATENCY_S = TTFT_S + (TOKENS - 1) * ITL_S
EPOCH_NS = 5_000_000_000_000  # a monotonic clock is never at 0


def constant(n: int, rate: float) -> Seconds:
    """Return n evenly spaced times in seconds."""
    return np.arange(n) / rate


def gamma(n: int, rate: float, shape: float, rng: np.random.Generator) -> Seconds:
    """Return n times with gamma gaps of mean 1 / rate."""
    return np.cumsum(rng.gamma(shape, 1 / (shape * rate), n))


def poisson(n: int, rate: float, rng: np.random.Generator) -> Seconds:
    """Return n times with exponential gaps."""
    return gamma(n, rate, 1.0, rng)


def fixed_span(n: int, rate: float, rng: np.random.Generator) -> Seconds:
    """Return exponential gaps rescaled so that the last time is n / rate."""
    times = poisson(n, rate, rng)
    rescaled: Seconds = times / times[-1] * n / rate
    return rescaled


def sent(
    schedule: Seconds, rng: np.random.Generator, *, pauses_per_s: float = 0.3, late_first_s: float = 0.3
) -> Seconds:
    """Return when an honest single-threaded sender's requests arrive; the first is ready 0 to `late_first_s` late."""
    span = float(schedule[-1] - schedule[0])
    begins = np.sort(rng.uniform(schedule[0], schedule[-1], rng.poisson(pauses_per_s * span))).tolist()
    lengths = rng.uniform(0.02, 0.1, len(begins)).tolist()
    costs = rng.uniform(0.05e-3, 0.2e-3, len(schedule)).tolist()
    free, pause, out = float(schedule[0] + rng.uniform(0, late_first_s)), 0, []
    for due, cost in zip(schedule.tolist(), costs, strict=True):
        at = max(due, free)
        while pause < len(begins) and begins[pause] <= at:
            at = max(at, begins[pause] + lengths[pause])
            pause += 1
        out.append(at)
        free = at + cost
    return np.sort(np.array(out) + rng.uniform(0.1e-3, 3e-3, len(out)))


def closed_loop(
    n: int, slots: int, *, turnaround_s: float = 0.0, latency_s: float = LATENCY_S, ramp_s: float = 0.0
) -> Seconds:
    """Return n starts of `slots` slots, filled evenly within `ramp_s`, each used again `turnaround_s` after its end."""
    ready = (np.arange(slots) * (ramp_s / max(1, slots - 1))).tolist()
    heapq.heapify(ready)
    starts = []
    for _ in range(n):
        starts.append(heapq.heappop(ready))
        heapq.heappush(ready, starts[-1] + latency_s + turnaround_s)
    return np.array(starts)


def nanoseconds(seconds: Seconds | float) -> npt.NDArray[np.int64]:
    """Return int64 nanoseconds."""
    return np.rint(np.asarray(seconds) * 1e9).astype(np.int64)


def journal(
    starts_s: Seconds | Sequence[float],
    *,
    late_s: float | Seconds = 0.0,
    ttft_s: float = TTFT_S,
    itl_s: float = ITL_S,
    tokens: int = TOKENS,
    kernel: bool = False,
    clock_jump_s: float = 0.0,
) -> Journal:
    """Return the journal of streamed completions that arrived at `starts_s`, each chunk written `late_s` late.

    `late_s` is one number or one per request. Bodies are all different.
    """
    arrival = EPOCH_NS + nanoseconds(np.sort(np.asarray(starts_s, dtype=np.float64)))
    n = len(arrival)
    late = np.broadcast_to(nanoseconds(late_s), n)
    plan = nanoseconds(ttft_s + itl_s * np.arange(tokens, dtype=np.float64))
    planned: npt.NDArray[np.int64] = np.add.outer(arrival, plan)
    offsets = pa.array(np.arange(n + 1, dtype=np.int32) * tokens)
    done = planned[:, -1] + late if n else arrival

    def chunks(values: npt.NDArray[np.generic] | int) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, pa.array(np.broadcast_to(values, (n, tokens)).reshape(-1)))

    per_row: dict[str, object] = {
        "worker": 0, "conn": 0, "arrival_kernel": kernel, "method": "POST", "path": "/v1/completions", "headers": [],
        "body": b"", "occurrence": 0, "model": MODEL, "stream": True, "ignore_eos": True, "max_tokens": TOKENS,
        "extra_fields": "{}", "bare_prompt_tokens": 127, "usage_prompt_tokens": 128, "status": 200,
        "output_tokens": tokens, "bytes": 100, "blocked_ns": 0, "outq_bytes": 0, "fault": None,
        "finish_reason": "length", "how_ended": COMPLETE,
    }  # fmt: skip
    columns: dict[str, object] = {name: [value] * n for name, value in per_row.items()} | {
        "req": np.arange(n), "nth": np.arange(n), "arrival_ns": arrival, "read_ns": arrival, "received_ns": arrival,
        "digest": [(1 + i).to_bytes(16) for i in range(n)], "planned_first_ns": arrival + nanoseconds(ttft_s),
        "planned_ns": chunks(planned), "late_ns": chunks(late[:, None]),
        "chunk_tokens": chunks(1), "chunk_bytes": chunks(6), "chunk_choice": chunks(0), "done_ns": done,
    }  # fmt: skip
    arrays = ((field, columns[field.name]) for field in SCHEMA)
    table = pa.table(
        [a.cast(f.type) if isinstance(a, pa.Array) else pa.array(a, f.type) for f, a in arrays], schema=SCHEMA
    )
    offset, jump = 1_700_000_000_000_000_000, int(nanoseconds(clock_jump_s))
    metadata = Metadata(host="forge", boot_id="", model=MODEL, profile={}, clock_offset_ns=(offset, offset + jump),
                        clock_jump_ns=abs(jump))  # fmt: skip
    return Journal(table, metadata)


def changed(forged: Journal, row: int, **cells: object) -> Journal:
    """Return the journal with some cells of one row replaced."""
    rows = forged.table.to_pylist()
    rows[row] |= cells
    return Journal(pa.Table.from_pylist(rows, schema=SCHEMA), forged.metadata)


def without(forged: Journal, row: int) -> Journal:
    """Return the journal without one row."""
    rows = forged.table.to_pylist()
    del rows[row]
    return Journal(pa.Table.from_pylist(rows, schema=SCHEMA), forged.metadata)


def with_extra(forged: Journal, *, at_s: float, **cells: object) -> Journal:
    """Return the journal with one request more: the last row's copy with another body, moved to `at_s`."""
    rows = forged.table.to_pylist()
    extra = dict(rows[-1])
    move = EPOCH_NS + int(nanoseconds(at_s)) - extra["arrival_ns"]
    for name in ("arrival_ns", "read_ns", "received_ns", "planned_first_ns", "done_ns"):
        extra[name] = None if extra[name] is None else extra[name] + move
    extra["planned_ns"] = [planned + move for planned in extra["planned_ns"]]
    extra |= {"req": len(rows), "digest": b"\xff" * 16} | cells
    return Journal(pa.Table.from_pylist([*rows, extra], schema=SCHEMA), forged.metadata)


def case(load: dict[str, object], *, workload: dict[str, object] | None = None, **declared: object) -> Case:
    """Return a case that asks what `journal` makes, for `load`, with changes; `declared` is of the tool."""
    asked: dict[str, object] = {
        "num_requests": 600, "prompt_tokens": 128, "max_tokens": TOKENS, "stream": True, "ignore_eos": True,
        "unique_prompts": True,
    }  # fmt: skip
    asked |= workload or {}
    document = {
        "why": "A forged case.",
        "absorber": {"ttft_s": TTFT_S, "itl_s": ITL_S},
        "workload": {name: value for name, value in asked.items() if value is not None},
        "load": load,
        "tools": {TOOL: declared},
    }
    return Case(name="forged", folder=Path("forged"), expected=Expected.model_validate_json(json.dumps(document)))


def rate_case(n: int, rate: float, arrival: str, **declared: object) -> Case:
    """Return a case that asks for n requests at a rate."""
    return case({"mode": "rate", "rate": rate}, workload={"num_requests": n}, arrival=arrival, **declared)


def closed_case(n: int, slots: int, **declared: object) -> Case:
    """Return a case that asks for n requests at a concurrency."""
    return case({"mode": "concurrency", "concurrency": slots}, workload={"num_requests": n}, **declared)


def ask(asked: Case, forged: Journal, *, tool_ended_s: float | None = None) -> dict[str, Finding]:
    """Return every finding by its name; also asserts that each fits JSON and a line of the table."""
    ended = None if tool_ended_s is None else EPOCH_NS + int(nanoseconds(tool_ended_s))
    found = ask_all(asked, TOOL, measure(forged, tool_ended_ns=ended))
    by_name = {finding.check: finding for finding in found}
    assert len(by_name) == len(found), "two findings of one name"
    assert msgspec.json.decode(msgspec.json.encode(found), type=tuple[Finding, ...]) == found
    for finding in found:
        assert len(finding.requirement) <= 33, finding.requirement
        assert len(finding.expected) <= 27, finding.expected
        assert finding.measured, finding.check
    return by_name
