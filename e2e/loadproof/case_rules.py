"""Can a case carry its own question?

What is legal but too small for an answer, stage by stage, a sentence each that says what to change (docs/statistics.md:
case rules). The sizes are those from which a check gives an answer at all; below them its finding is unclear. Left out:
mistakes (`case`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadproof.arrival import SMALLEST_N, SMALLEST_SPAN_S, Law
from loadproof.expected import ConcurrencyLoad, RateLoad, Stage, StagesLoad

if TYPE_CHECKING:
    from loadproof.arrival import Arrival
    from loadproof.case import Case

FILLS = 0.8
"""Of a cap: what a rate needs on average; more would be held back now and then."""

REFILLS = 50
"""So many starts show how soon a freed slot is used again."""

EVEN_S = 4.0
"""So long even arrivals must last that their halves can be compared."""

BY_CHANCE = 1e-3
"""So rarely a random gap may be as long as an asked silence."""

PAUSED_S = 0.25
"""What an honest sender may be silent for beside its law."""


@dataclass(frozen=True)
class _Asked:
    """One stretch of the load: `where` begins each sentence; `n` and `span_s` as asked or as the server's times say."""

    where: str
    rate: float | None
    concurrency: int | None
    n: float
    span_s: float


def warnings(case: Case) -> list[str]:
    """Return why this case may be unable to answer, a sentence each; empty when nothing is too small."""
    load = case.expected.load
    asked = list(_stretches(case))
    told = [text for stretch in asked for text in _sizes(case, stretch)]
    if isinstance(load, StagesLoad):
        told += [*_between(case, load.stages, asked), *_neighbours(case, load.stages), *_sums(case, load.stages)]
    told += [*_prompts(case, asked), *_capped(case), *_deadline(case, asked)]
    return [f"{case.name}: {text}" for text in told]


def _stretches(case: Case) -> Iterator[_Asked]:
    load, workload = case.expected.load, case.expected.workload
    if isinstance(load, StagesLoad):
        for number, stage in enumerate(load.stages, 1):
            yield _stretch(case, f"stage {number}: ", stage)
        return
    rate = load.rate if isinstance(load, RateLoad) else None
    slots = load.concurrency if isinstance(load, ConcurrencyLoad) else None
    only = Stage(rate=rate, concurrency=slots, num_requests=workload.num_requests, duration_s=workload.duration_s)
    yield _stretch(case, "", only)


def _stretch(case: Case, where: str, stage: Stage) -> _Asked:
    n = float(stage.n or 0)
    if stage.rate is not None:
        return _Asked(where, stage.rate, None, n, n / stage.rate)
    slots, latency = stage.concurrency or 1, case.latency_at(stage.concurrency)
    if stage.duration_s is not None:
        return _Asked(where, None, slots, stage.duration_s * slots / latency if latency else math.inf, stage.duration_s)
    return _Asked(where, None, slots, n, n * latency / slots)


def _sizes(case: Case, asked: _Asked) -> Iterator[str]:
    found = _closed_loop(case, asked, asked.concurrency) if asked.concurrency else _open_loop(case, asked)
    return (f"{asked.where}{text}" for text in found)


def _closed_loop(case: Case, asked: _Asked, concurrency: int) -> Iterator[str]:
    """The case rule: the first burst fills every slot before the first reply ends, and the plateau is long."""
    first, fill = case.service_s, 4 * concurrency * 0.2e-3
    enough = max(8 * concurrency, concurrency + REFILLS)
    if asked.n < enough:
        few = f"about {asked.n:.0f} requests are too few for concurrency {concurrency}"
        yield f"{few}; ask for at least {enough}"
    if asked.span_s < 4:
        lasts = f"the load lasts {asked.span_s:.3g} s"
        yield f"{lasts}; ask for more requests or a slower server, so that it lasts at least 4 s"
    if first < fill:
        yield f"a reply takes {first:.3g} s, too short to fill concurrency {concurrency} first; make it {fill:.3g} s"


def _open_loop(case: Case, asked: _Asked) -> Iterator[str]:
    n, span = asked.n, asked.span_s
    laws = {law.law for law in _declared(case)}
    if n < SMALLEST_N:
        yield f"{n:.0f} requests cannot show a rate; ask for at least {SMALLEST_N}"
    for law, shortest in SMALLEST_SPAN_S.items():
        if law in laws and span < shortest:
            yield f"the load lasts {span:.3g} s; the rate of {law} arrivals needs at least {shortest:g} s"
    even = math.ceil(max(SMALLEST_N + (asked.rate or 0), EVEN_S * (asked.rate or 0)))
    if Law.CONSTANT in laws and n < even:
        yield f"{n:.0f} requests in {span:.3g} s; judging even spacing needs at least {even} in at least {EVEN_S:g} s"
    if laws - {Law.CONSTANT}:
        enough = max(200, *(math.ceil(100 / law.shape) for law in _declared(case)))
        if n < enough or span < 10:
            yield f"{n:.0f} requests in {span:.3g} s; judging random arrivals needs at least {enough} in at least 10 s"


def _declared(case: Case) -> list[Arrival]:
    return [declared.arrival for declared in case.expected.tools.values() if declared.arrival]


def _between(case: Case, stages: tuple[Stage, ...], asked: list[_Asked]) -> Iterator[str]:
    """Yield what is wrong with the silences between stages, and with their sum."""
    if stages[-1].gap_s:
        yield f"stage {len(stages)}: nothing follows it, so its gap_s cannot be seen"
    random = {law.law for law in _declared(case)} & {Law.POISSON, Law.GAMMA}
    for stretch, stage in zip(asked, stages[:-1], strict=False):
        shortest = _shortest_silence_s(case, stretch)
        if 0 < stage.gap_s < shortest:
            short = f"{stretch.where}a silence of {stage.gap_s:g} s cannot be told from its own gaps"
            yield f"{short}; make gap_s at least {shortest:.2g}"
    if random and case.n is not None and any(stage.rate and stage.duration_s for stage in stages):
        yield (f"{' and '.join(sorted(random))} stages by duration hold a random number of requests; ask for "
               "duration_s instead of num_requests, or for stages by num_requests")  # fmt: skip


def _neighbours(case: Case, stages: tuple[Stage, ...]) -> Iterator[str]:
    """Yield what makes the end of a stage hard to tell from the begin of the next."""
    random = any(law.law in {Law.POISSON, Law.GAMMA} for law in _declared(case))
    for number, (stage, following) in enumerate(itertools.pairwise(stages), 1):
        if stage.rate and following.concurrency and stage.gap_s < case.latency_s:
            yield (f"stage {number}: its last requests are still in flight when the {following.concurrency} of stage "
                   f"{number + 1} begin; make gap_s longer than a reply, {case.latency_s:.3g} s")  # fmt: skip
        if random and stage.duration_s and stage.rate and stage.rate == following.rate and not stage.gap_s:
            yield (f"stage {number}: nothing tells it from the next, which has its rate; give it a gap_s, or make one "
                   "stage of both")  # fmt: skip


def _sums(case: Case, stages: tuple[Stage, ...]) -> Iterator[str]:
    lasting = case.expected.workload.duration_s
    lengths = [stage.duration_s for stage in stages]
    if lasting is not None and None not in lengths:
        together = sum(length or 0 for length in lengths) + sum(stage.gap_s for stage in stages)
        if abs(together - lasting) > max(1.0, 0.01 * lasting):
            yield f"the stages last {together:g} s together, and duration_s is {lasting:g}; make them agree"
    known = sum(stage.n or 0 for stage in stages)
    if case.n is not None and known >= case.n + 1:
        yield f"the stages that say it make {known:g} requests, and num_requests is {case.n}; make it more"


def _prompts(case: Case, asked: list[_Asked]) -> Iterator[str]:
    """Yield what a duration leaves too little time for: a number of requests is compared when the case is read."""
    workload, n = case.expected.workload, sum(stretch.n for stretch in asked)
    for name in ("distinct_prompts", "distinct_prefixes"):
        wanted = getattr(workload, name)
        if workload.num_requests is None and wanted is not None and wanted > n:
            yield f"about {n:.0f} requests cannot have {wanted} {name.replace('_', ' ')}; ask for fewer, or for longer"


def _shortest_silence_s(case: Case, asked: _Asked) -> float:
    """Return what such a stage is silent for by itself, and a pause: a shorter silence may be no asked one."""
    if asked.rate is None:
        return PAUSED_S + case.latency_at(asked.concurrency)
    random = [law.shape for law in _declared(case) if law.law is not Law.CONSTANT]
    longest = math.log(max(asked.n, 1) / BY_CHANCE) / min(1.0, *random) if random else 1.0
    return PAUSED_S + longest / asked.rate


def _capped(case: Case) -> Iterator[str]:
    load = case.expected.load
    if not isinstance(load, RateLoad) or load.cap is None:
        return
    needed = load.rate * case.latency_s
    if needed >= FILLS * load.cap:
        held = f"{load.rate:g}/s of {case.latency_s:.3g} s each are {needed:.3g} in flight"
        yield (f"{held}, so a cap of {load.cap} holds the rate back; make the cap at least "
               f"{math.ceil(needed / FILLS) + 1}, or the rate lower")  # fmt: skip


def _deadline(case: Case, asked: list[_Asked]) -> Iterator[str]:
    span = sum(stretch.span_s for stretch in asked)
    slots, load = case.expected.absorber.slots, case.expected.load
    if isinstance(load, StagesLoad):
        span += sum(stage.gap_s for stage in load.stages)
    elif isinstance(load, RateLoad) and slots:
        span = max(span, asked[0].n * case.service_s / slots)
    if span >= (deadline := case.expected.deadline_s):
        yield f"the load lasts {span:.3g} s and deadline_s is {deadline:g}; make the deadline longer"
    elif case.latency_s >= deadline:
        yield f"a reply takes {case.latency_s:.3g} s and deadline_s is {deadline:g}; the absorber's times are seconds"
