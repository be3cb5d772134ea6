"""Where does one stage of a load end and the next begin, by its arrivals?

Stage by stage. Where there is a silence about where the stage should end, the asked one or one that the stage's own
law does not explain (some tools answer all before they go on), the next stage begins after it, whenever that is. Where
there is none, stages are told apart by their numbers of requests, if those are known and are as many as came together;
else by the clock, from the begin of the stage on. So one request too few in a stage does not move those after it. Left
out: whether a stage is what was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadproof.load.arrivals import Seconds

EARLY, LATE = 0.5, 1.5  # of a stage's length: from and up to where its end is looked for
SILENT = 0.8  # of the asked silence: no other is as long
DRAIN_S = 10.0  # a tool may wait so long for its last answers


@dataclass(frozen=True)
class Planned:
    """What tells a stage: the number of its requests and its length in seconds, None where that is not known.

    `gap_s` is the silence after it; a longer one than `silent_s` ends it.
    """

    n: int | None
    lasts_s: float | None
    gap_s: float
    silent_s: float


@dataclass(frozen=True)
class Stretch:
    """The requests from `first` up to, without, `end`.

    `begins_s` is when its window begins, in seconds since the first arrival of all: with its first arrival where
    `told_by` is a silence or a number, with the clock otherwise.
    """

    first: int
    end: int
    begins_s: float
    told_by: str


def split(times_s: Seconds, stages: Sequence[Planned]) -> list[Stretch]:
    """Return the stretch of each stage; together they are all arrivals, ascending, in seconds since the first."""
    known = [stage.n for stage in stages]
    counted = None not in known and sum(n or 0 for n in known) == len(times_s)
    found: list[Stretch] = []
    first, begins, told = 0, 0.0, "begin"
    for stage in stages[:-1]:
        end, following, how = _end_of(times_s, first, begins, stage, counted=counted)
        found.append(Stretch(first, end, begins, told))
        first, begins, told = end, following, how
    return [*found, Stretch(first, len(times_s), begins, told)]


def _end_of(times: Seconds, first: int, begins: float, stage: Planned, *, counted: bool) -> tuple[int, float, str]:
    """Return the first request of the next stage, when that begins and by what it was found."""
    if (at := _after_silence(times, first, begins, stage)) is not None:
        return at, float(times[at]), "silence"
    if counted and stage.n is not None:
        at = first + stage.n
        return at, float(times[at]) if at < len(times) else begins, "number"
    if stage.lasts_s is None:
        at = min(len(times), first + (stage.n or 0))
        return at, float(times[at]) if at < len(times) else begins, "number"
    following = begins + stage.lasts_s + stage.gap_s
    at = max(first, int(np.searchsorted(times, following - stage.gap_s / 2)))
    return at, following, "clock"


def _after_silence(times: Seconds, first: int, begins: float, stage: Planned) -> int | None:
    """Return the first request after the longest silence about where the stage should end; None where there is none."""
    if stage.lasts_s is not None:
        low = int(np.searchsorted(times, begins + EARLY * stage.lasts_s))
        high = int(np.searchsorted(times, begins + LATE * stage.lasts_s + DRAIN_S + stage.gap_s, side="right"))
    else:
        low, high = first + int(EARLY * (stage.n or 0)), first + int(LATE * (stage.n or 0)) + 1
    low, high = max(low, first + 1), min(high, len(times))
    if high <= low:
        return None
    gaps = times[low:] - times[low - 1 : -1]
    longest = int(gaps[: high - low].argmax())
    if gaps[longest] > stage.silent_s:
        return low + longest
    # A stage that is much too long ends by its silence, too.
    later = gaps > max(stage.silent_s, SILENT * stage.gap_s)
    return low + int(later.argmax()) if stage.gap_s and later.any() else None
