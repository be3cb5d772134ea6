"""What would an honest client have sent for this case, and what would the absorber have recorded of it?

Reads the case as a tool's author would: a schedule by the declared law for a rate, slots for a concurrency, one stage
after another, a cap, a duration; then the noise of forge_times.py and forge_loops.py, connections from a pool, replies
by the absorber's profile. A wrong kind is this client for another case, or a change of what it makes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np

from loadproof.absorber.laws import Law as Draws
from loadproof.arrival import Arrival, Law
from loadproof.case import Case
from loadproof.expected import ConcurrencyLoad, RateLoad, Stage, StagesLoad
from loadproof.journal import Journal
from loadproof.lengths import counts_for
from tests.unit import forge
from tests.unit.forge_loops import ITL_S, TOKENS, Bools, Calls, Latencies, capped, in_order, joined, pooled, slots
from tests.unit.forge_times import LATE_FIRST_S, Seconds, by_law, sent, within


@dataclass(frozen=True, kw_only=True)
class Manner:
    """What honest clients differ in: pauses a second, and whether a stage begins after the last one's replies."""

    pauses_per_s: float = 0.3
    drains: bool = False
    late_first_s: float = LATE_FIRST_S
    late_stage_s: float = 0.05  # how late the first send of a later stage is at most


USUAL = Manner()


def replies(asked: Case, rng: np.random.Generator) -> Latencies:
    """Return how long the absorber takes for n requests under the case's profile."""
    ttft = asked.expected.absorber.ttft_s

    def draw(n: int) -> Seconds:
        first = ttft.quantiles(rng.random(n)) if isinstance(ttft, Draws) else np.full(n, ttft)
        return np.asarray(first + (TOKENS - 1) * ITL_S)

    return draw


def calls_of(asked: Case, rng: np.random.Generator, manner: Manner = USUAL) -> Calls:
    """Return what an honest client sends for the case."""
    load, workload = asked.expected.load, asked.expected.workload
    arrival = asked.declaration(forge.TOOL).arrival or Arrival(Law.CONSTANT)
    if isinstance(load, StagesLoad):
        return _stages(load, arrival, rng, replies(asked, rng), manner)
    only = Stage(rate=load.rate if isinstance(load, RateLoad) else None,
                 concurrency=load.concurrency if isinstance(load, ConcurrencyLoad) else None,
                 num_requests=workload.num_requests, duration_s=workload.duration_s)  # fmt: skip
    cap = load.cap if isinstance(load, RateLoad) else None
    return _stage(only, arrival, rng, replies(asked, rng), manner, late_first_s=manner.late_first_s, cap=cap)[0]


def _stages(
    load: StagesLoad, arrival: Arrival, rng: np.random.Generator, latencies: Latencies, manner: Manner
) -> Calls:
    begin, late, made = 0.0, manner.late_first_s, []
    for stage in load.stages:
        calls, length = _stage(stage, arrival, rng, latencies, manner, late_first_s=late)
        made.append(calls.later(begin))
        begin += max(length, float(calls.ends_s.max())) if manner.drains or stage.concurrency else length
        begin, late = begin + stage.gap_s, manner.late_stage_s
    return joined(*made)


def _stage(
    stage: Stage, arrival: Arrival, rng: np.random.Generator, latencies: Latencies, manner: Manner, *,
    late_first_s: float, cap: int | None = None,
) -> tuple[Calls, float]:  # fmt: skip
    """Return the stage's calls from its begin on, and its length in seconds, without what is still in flight."""
    if stage.concurrency is not None:
        lasting = math.inf if stage.duration_s is None else stage.duration_s
        calls = slots(stage.concurrency, rng, latencies, n=stage.num_requests, duration_s=lasting,
                      pauses_per_s=manner.pauses_per_s)  # fmt: skip
        return calls, 0.0 if stage.duration_s is None else stage.duration_s
    schedule, length = _schedule(stage, arrival, rng)
    arrived = sent(schedule, rng, pauses_per_s=manner.pauses_per_s, late_first_s=late_first_s)
    if cap is not None:
        return capped(arrived, cap, rng, latencies), length
    return Calls(arrived, latencies(len(arrived))), length


def _schedule(stage: Stage, arrival: Arrival, rng: np.random.Generator) -> tuple[Seconds, float]:
    assert stage.rate is not None
    if stage.duration_s is not None:
        return within(arrival, stage.duration_s, stage.rate, rng), stage.duration_s
    assert stage.num_requests is not None
    schedule = by_law(arrival, stage.num_requests, stage.rate, rng)
    known = arrival.law in {Law.CONSTANT, Law.FIXED_SPAN}
    return schedule, stage.num_requests / stage.rate if known else float(schedule[-1])


def recorded(calls: Calls, *, uses: int | None = None, fresh: Bools | None = None, chunks: int = TOKENS) -> Journal:
    """Return the journal of the calls, on connections of a pool (`pooled`), each reply in so many chunks."""
    ordered = in_order(calls.starts_s, calls.latency_s)
    return forge.journal(ordered.starts_s, ttft_s=ordered.latency_s - (chunks - 1) * ITL_S, kernel=True,
                         tokens=chunks, conn=pooled(ordered, uses=uses, fresh=fresh))  # fmt: skip


def said(asked: Case, journal: Journal) -> Journal:
    """Return the journal with what the case asks of the requests' contents."""
    n, workload = journal.table.num_rows, asked.expected.workload
    lengths = counts_for(workload.max_tokens, n)
    columns: dict[str, object] = {}
    if workload.extra_fields:
        columns["extra_fields"] = [json.dumps(workload.extra_fields, separators=(",", ":"))] * n
    if lengths is not None and len(lengths) > 1:
        columns["max_tokens"] = sorted(lengths.elements(), reverse=True)[:n]
    if workload.headers:
        names = ["host", "content-type", "content-length", *workload.headers]
        headers = [{"name": name, "value": value} for name, value in workload.headers.items()]
        columns |= {"headers": [headers] * n, "header_names": [",".join(names)] * n}
    return forge.with_columns(journal, **columns)


def honest(asked: Case, rng: np.random.Generator, manner: Manner = USUAL) -> Journal:
    """Return the journal of an honest client that was given the case."""
    per_request = asked.declaration(forge.TOOL).connections == "per_request"
    return said(asked, recorded(calls_of(asked, rng, manner), uses=1 if per_request else None))
