"""Wrong clients of stages and durations: swapped, missing, too short, without a gap, at another rate or concurrency.

Rows for wrong_kinds.py: the honest client of other stages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loadproof.case import Case
from loadproof.expected import Stage, StagesLoad
from tests.unit import forge
from tests.unit.wrong_kind import Ask, Kind, Wrong, as_if, edited, kind
from tests.unit.wrong_loops import UNEVEN

type Stages = tuple[Stage, ...]


def rates(seconds: float) -> Sequence[Mapping[str, float]]:
    """Two stages of 20/s and 40/s, a second of silence between them."""
    return {"rate": 20, "duration_s": seconds, "gap_s": 1}, {"rate": 40, "duration_s": seconds}


RATES = rates(12)
NUMBERS = ({"rate": 20, "num_requests": 240, "gap_s": 1}, {"rate": 40, "num_requests": 480})
LOOPS = ({"concurrency": 4, "num_requests": 100, "gap_s": 1}, {"concurrency": 8, "num_requests": 200})
MIXED = ({"rate": 20, "duration_s": 12, "gap_s": 1}, {"concurrency": 8, "num_requests": 200})
EVERYTHING = "count.stage[1] count.stage[2] rate.mean[1] rate.mean[2]"
SHIFTED = "what follows a wrong stage comes at another time"


def staged(stages: Sequence[Mapping[str, float]], arrival: str | None) -> Ask:
    """Cases that ask for stages; their lengths are given, not n."""
    lasting = sum(stage.get("duration_s", 0) + stage.get("gap_s", 0) for stage in stages)
    counts = [stage.get("num_requests") or round(stage["rate"] * stage["duration_s"]) for stage in stages]
    known = arrival in {"constant", "fixed-span", None} or all("num_requests" in stage for stage in stages)
    workload = {"num_requests": sum(counts) if known else None, "duration_s": None if known else lasting}
    declared: dict[str, Any] = {} if arrival is None else {"arrival": arrival}
    return lambda _n: forge.case(
        {"mode": "stages", "stages": list(stages)}, workload=workload, absorber=UNEVEN, **declared
    )


def lasting(rate: float, arrival: str) -> Ask:
    """Cases that ask for a rate for as long as n requests take."""
    return lambda n: forge.case({"mode": "rate", "rate": rate}, arrival=arrival,
                                workload={"num_requests": None, "duration_s": n / rate})  # fmt: skip


def in_stages(change: Callable[[Stages], Stages]) -> Wrong:
    """The honest client of other stages."""

    def other(asked: Case) -> Case:
        load = asked.expected.load
        assert isinstance(load, StagesLoad)
        load = load.model_copy(update={"stages": change(load.stages)})
        return replace(asked, expected=asked.expected.model_copy(update={"load": load}))

    return as_if(other)


def stage(number: int, **keys: object) -> Wrong:
    """One stage, from 1 on, differs in these keys."""
    return in_stages(
        lambda stages: tuple(s.model_copy(update=keys) if k == number - 1 else s for k, s in enumerate(stages))
    )


def lasting_only(share: float) -> Wrong:
    """The whole load lasts a share of what is asked."""

    def other(asked: Case) -> Case:
        asked_s = asked.expected.workload.duration_s or 0.0
        workload = asked.expected.workload.model_copy(update={"duration_s": share * asked_s})
        return replace(asked, expected=asked.expected.model_copy(update={"workload": workload}))

    return as_if(other)


def _rates(arrival: str, seconds: float) -> list[Kind]:
    ask, n = staged(rates(seconds), arrival), round(60 * seconds)
    return [
        kind(f"stages ({arrival}): swapped", ask, n, in_stages(lambda s: (s[1], s[0])),
             EVERYTHING, also="rate.gap[1] arrivals.*", because=SHIFTED),
        kind(f"stages ({arrival}): the second one missing", ask, n, in_stages(lambda s: s[:1]), "count.stage[2]",
             also="*[2] count.requests rate.gap[1] count.duration", because=SHIFTED),
        kind(f"stages ({arrival}): the first one missing", ask, n, in_stages(lambda s: s[1:]),
             "count.stage[1]", also="*[1] *[2] count.requests count.duration", because=SHIFTED),
        kind(f"stages ({arrival}): the first one too short", ask, n, stage(1, duration_s=seconds / 2),
             "count.stage[1]", also="*[1] count.requests count.duration", because=SHIFTED),
        kind(f"stages ({arrival}): the second one too short", ask, n, stage(2, duration_s=seconds / 2),
             "count.stage[2]", also="*[2] count.requests count.duration", because=SHIFTED),
        kind(f"stages ({arrival}): no gap", ask, n, stage(1, gap_s=0.0), "rate.gap[1]",
             also="count.duration *[1] *[2]", because="another silence may then be taken for the end of the stage"),
        kind(f"stages ({arrival}): the second one half as fast again", ask, n, stage(2, rate=60.0),
             "count.stage[2] rate.mean[2]", also="*[2] count.requests", because=SHIFTED),
        kind(f"stages ({arrival}): the first one half as fast again", ask, n, stage(1, rate=30.0),
             "count.stage[1] rate.mean[1]", also="*[1] count.requests", because=SHIFTED),
        kind(f"stages ({arrival}): both at the mean rate", ask, n,
             in_stages(lambda s: tuple(one.model_copy(update={"rate": 30.0}) for one in s)),
             EVERYTHING, also="arrivals.*", because=SHIFTED),
    ]  # fmt: skip


def _numbers(arrival: str) -> list[Kind]:
    """By number a stage has exactly so many, and what is wrong with the first is no fault of the second."""
    ask = staged(NUMBERS, arrival)
    one = "one request more or less is one that is out of the schedule"
    return [
        kind(f"numbers ({arrival}): one never sent in the first stage", ask, 720,
             edited(lambda j: forge.without(j, 100)), "count.requests count.stage[1]", also="*[1]", because=one),
        kind(f"numbers ({arrival}): one too many in the first stage", ask, 720,
             edited(lambda j: forge.with_extra(j, at_s=6.01)), "count.requests count.stage[1]", also="*[1]",
             because=one),
        kind(f"numbers ({arrival}): one never sent in the second stage", ask, 720,
             edited(lambda j: forge.without(j, -100)), "count.requests count.stage[2]", also="*[2]", because=one),
    ]  # fmt: skip


def _loops() -> list[Kind]:
    ask = staged(LOOPS, None)
    return [
        kind("stages of loops: swapped", ask, 300, in_stages(lambda s: (s[1], s[0])),
             "concurrency.slots[1] concurrency.held[2]", also="*[1] *[2]", because=SHIFTED),
        kind("stages of loops: the second one as the first", ask, 300, stage(2, concurrency=4),
             "concurrency.slots[2]"),
        kind("stages of loops: a slot too many in the first", ask, 300, stage(1, concurrency=5),
             "concurrency.slots[1]"),
        kind("stages of loops: no gap", ask, 300, stage(1, gap_s=0.0), "rate.gap[1]"),
        kind("a rate, then a loop: a slot too few", staged(MIXED, "constant"), 440, stage(2, concurrency=7),
             "concurrency.slots[2]"),
        kind("a rate, then a loop: the rate half as fast again", staged(MIXED, "constant"), 440, stage(1, rate=30.0),
             "rate.mean[1]", also="*[1] count.requests", because=SHIFTED),
    ]  # fmt: skip


KINDS: list[Kind] = [
    *_rates("constant", 12), *_rates("fixed-span", 12), *_rates("poisson", 30),
    *_numbers("constant"), *_numbers("fixed-span"),
    *_loops(),
    kind("constant for a duration: 10 % shorter", lasting(40, "constant"), 600, lasting_only(0.9), "count.duration",
         also="count.requests", because="fewer fit into less time"),
    kind("poisson for a duration: half of it", lasting(40, "poisson"), 1200, lasting_only(0.5), "count.duration",
         also="count.requests", because="fewer fit into less time"),
]  # fmt: skip
