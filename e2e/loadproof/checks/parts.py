"""Which stretches of a load are judged each by itself, and what was asked of each?

A load of one piece is one part, a load in stages one a stage, with the requests that are its own (`load.stages`). Left
out: any judgement.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from loadproof.arrival import Arrival, Law
from loadproof.checks.stats import ALPHA, LATE_FIRST_S, PAUSE_S
from loadproof.checks.stats_gaps import longest_honest_gap
from loadproof.expected import ConcurrencyLoad, RateLoad, StagesLoad
from loadproof.load.requests import NEVER
from loadproof.load.stages import Planned, split

if TYPE_CHECKING:
    from loadproof.expected import Expected, Stage
    from loadproof.load.measured import Load

SILENCE_S = 0.25
"""What an honest sender is silent for beside its law."""

EVEN = 100.0
"""The shape of gaps that vary no more than even ones that are sent with jitter."""

RARELY = 1e-3
"""So rarely a stage's first gap is longer than the time in which its begin is looked for."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What was asked of a stretch of the load, and what arrived in it.

    `suffix` is that of its findings' names: "" for a load of one piece, "[2]" for a second stage. `load` has no leading
    extras. Of `rate` (per second) and `concurrency` one is given, of `n` and `duration_s` (seconds) one at least.
    `alpha` is the level of each of its statistical findings, shared by the parts. A stage is `told_by` its begin, a
    silence, a number or the clock from the one before. Of one that another follows `gap_s` is the asked silence after
    it, `silence_s` the one there was (None: no other request came), and `draining_s` how long after its last arrival
    some of its requests were still in flight.
    """

    suffix: str
    load: Load
    rate: float | None
    concurrency: int | None
    cap: int | None = None
    n: int | None = None
    duration_s: float | None = None
    alpha: float = ALPHA
    told_by: str = ""
    gap_s: float | None = None
    silence_s: float | None = None
    draining_s: float = 0.0


def parts_of(expected: Expected, arrival: Arrival | None, load: Load) -> list[Part]:
    """Return the parts of a load without leading extras."""
    asked, workload = expected.load, expected.workload
    if isinstance(asked, StagesLoad):
        return _stages(asked.stages, arrival, load)
    return [Part(suffix="", load=load, n=workload.num_requests, duration_s=workload.duration_s,
                 rate=asked.rate if isinstance(asked, RateLoad) else None,
                 cap=asked.cap if isinstance(asked, RateLoad) else None,
                 concurrency=asked.concurrency if isinstance(asked, ConcurrencyLoad) else None)]  # fmt: skip


def _stages(stages: tuple[Stage, ...], arrival: Arrival | None, load: Load) -> list[Part]:
    requests = load.requests
    lasted = (requests.end_ns - requests.start_ns)[requests.end_ns < NEVER]
    longest_s = float(lasted.max(initial=0)) / 1e9
    found = split(requests, [_planned(stage, arrival, longest_s) for stage in stages])
    parts = [
        Part(suffix=f"[{k}]", load=load.rows(slice(own.first, own.end)), rate=stage.rate,
             concurrency=stage.concurrency, n=stage.num_requests, duration_s=stage.duration_s,
             alpha=ALPHA / len(stages), told_by=own.told_by)
        for k, (stage, own) in enumerate(zip(stages, found, strict=True), 1)
    ]  # fmt: skip
    followed = [_followed(*pair) for pair in zip(parts, parts[1:], stages, strict=False)]
    return [*followed, parts[-1]]


def _planned(stage: Stage, arrival: Arrival | None, longest_s: float) -> Planned:
    late = LATE_FIRST_S + PAUSE_S
    if stage.rate is None:
        return Planned(n=stage.num_requests, lasts_s=stage.duration_s, slots=stage.concurrency, late_s=late,
                       silent_s=longest_s + SILENCE_S, gap_s=stage.gap_s)  # fmt: skip
    law, shape = (arrival.law, arrival.shape) if arrival else (Law.CONSTANT, 1.0)
    n, even = stage.n or 0.0, law is Law.CONSTANT
    known = stage.num_requests is not None or law in {Law.CONSTANT, Law.FIXED_SPAN}
    deviation = math.sqrt(n / shape)
    drawn = stage.num_requests is not None and law in {Law.POISSON, Law.GAMMA}
    longest, first = (1.0 if even else longest_honest_gap(k, shape, alpha)
                      for k, alpha in ((max(1, round(n)), ALPHA), (1, RARELY)))  # fmt: skip
    return Planned(n=max(1, round(n)) if known else None, about=n, varies=deviation + 1 + late * stage.rate,
                   lasts_s=n / stage.rate, spread_s=5 * deviation / stage.rate if drawn else 0.0, rate=stage.rate,
                   late_s=late + first / stage.rate, silent_s=longest / stage.rate + SILENCE_S,
                   gap_s=stage.gap_s, shape=EVEN if even else shape)  # fmt: skip


def _followed(part: Part, following: Part, stage: Stage) -> Part:
    """Return a part with what came between its last arrival and the first of the following one."""
    own, other = part.load.requests, following.load.requests
    if not own.n:
        return replace(part, gap_s=stage.gap_s)
    last = int(own.start_ns[-1])
    ended = own.end_ns[own.end_ns < NEVER]
    return replace(part, gap_s=stage.gap_s, draining_s=max(0, int(ended.max(initial=last)) - last) / 1e9,
                   silence_s=(int(other.start_ns[0]) - last) / 1e9 if other.n else None)  # fmt: skip
