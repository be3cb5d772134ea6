"""Which stretches of a load are judged each by itself, and what was asked of each?

A load of one piece is one part, a load in stages one a stage, with the requests that are its own (`load.stages`). Left
out: any judgement.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.checks.stats import ALPHA, LATE_FIRST_S, PAUSE_S
from loadproof.checks.stats_gaps import longest_honest_gap
from loadproof.expected import ConcurrencyLoad, RateLoad, StagesLoad
from loadproof.load.requests import NEVER
from loadproof.load.stages import Planned, Stretch, split

if TYPE_CHECKING:
    from loadproof.expected import Expected, Stage
    from loadproof.load.measured import Load

SILENCE_S = 0.25
"""What an honest sender is silent for beside its law."""

ROUNDS = 1.5
"""In a closed loop whose replies take equally long nothing is sent for about one latency."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """What was asked of a stretch of the load, and what arrived in it.

    `suffix` is that of its findings' names: "" for a load of one piece, "[2]" for a second stage. `load` has no leading
    extras. Of `rate` (per second) and `concurrency` one is given, of `n` and `duration_s` (seconds) one at least.
    `alpha` is the level of each of its statistical findings, shared by the parts. Of a stage with a duration
    `in_window` are the numbers of all arrivals in its window, had its first one been up to so late; of one that another
    follows `gap_s` is the asked silence after it, `silence_s` the one there was (None: no other request came), and
    `draining_s` how long after its last arrival some of its requests were still in flight.
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
    in_window: tuple[int, ...] = ()
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
    times = load.requests.start_s
    lasted = (load.requests.end_ns - load.requests.start_ns)[load.requests.end_ns < NEVER]
    latency_s = float(np.median(lasted)) / 1e9 if len(lasted) else 0.0
    found = split(times, [_planned(stage, arrival, latency_s) for stage in stages])
    parts = [
        Part(suffix=f"[{k}]", load=load.rows(slice(own.first, own.end)), rate=stage.rate,
             concurrency=stage.concurrency, n=stage.num_requests, duration_s=stage.duration_s,
             alpha=ALPHA / len(stages), told_by=own.told_by, in_window=_in_window(times, stage, own, after))
        for k, (stage, own, after) in enumerate(zip(stages, found, [*found[1:], None], strict=True), 1)
    ]  # fmt: skip
    followed = [_followed(*pair) for pair in zip(parts, parts[1:], stages, strict=False)]
    return [*followed, parts[-1]]


def _planned(stage: Stage, arrival: Arrival | None, latency_s: float) -> Planned:
    if stage.rate is None:
        silent = ROUNDS * latency_s + SILENCE_S
        return Planned(stage.num_requests, stage.duration_s, stage.gap_s, max(stage.gap_s / 2, silent))
    law, shape = (arrival.law, arrival.shape) if arrival else (Law.CONSTANT, 1.0)
    n = stage.n or 0.0
    known = stage.num_requests is not None or law in {Law.CONSTANT, Law.FIXED_SPAN}
    longest = 1.0 if law is Law.CONSTANT else longest_honest_gap(max(1, round(n)), shape, ALPHA)
    silent = longest / stage.rate + SILENCE_S
    if stage.gap_s:
        silent = min(silent, max(SILENCE_S, stage.gap_s / 2))
    return Planned(round(n) if known else None, stage.duration_s or n / stage.rate, stage.gap_s, silent)


def _in_window(times: np.ndarray, stage: Stage, own: Stretch, after: Stretch | None) -> tuple[int, ...]:
    """Return how many arrivals came within the stage's duration, had its window begun before its first arrival.

    Between silences all of its own are meant, whenever they came.
    """
    if stage.duration_s is None or stage.rate is None:
        return ()
    ends_silently = after is None or after.told_by == "silence"
    if ends_silently and own.told_by in {"begin", "silence"}:
        return (own.end - own.first,)
    late = np.concatenate([np.linspace(0, LATE_FIRST_S + PAUSE_S, 5), np.array([0.5, 1, 2, 4]) / stage.rate])
    begins = own.begins_s - np.sort(late)
    low, high = (np.searchsorted(times, edge) for edge in (begins, begins + stage.duration_s))
    if own.told_by == "silence":
        low = np.maximum(low, own.first)
    if ends_silently:
        high = np.minimum(high, own.end)
    return tuple(np.maximum(high - low, 0).tolist())


def _followed(part: Part, following: Part, stage: Stage) -> Part:
    """Return a part with what came between its last arrival and the first of the following one."""
    own, other = part.load.requests, following.load.requests
    if not own.n:
        return replace(part, gap_s=stage.gap_s)
    last = int(own.start_ns[-1])
    ended = own.end_ns[own.end_ns < NEVER]
    return replace(part, gap_s=stage.gap_s, draining_s=max(0, int(ended.max(initial=last)) - last) / 1e9,
                   silence_s=(int(other.start_ns[0]) - last) / 1e9 if other.n else None)  # fmt: skip
