"""Where does one stage of a load end and the next begin, by its arrivals?

All ends are chosen together: of the ways to cut the arrivals into stages the one that departs least from what was
asked. A departure is a number of requests, a time, a silence or a peak in flight that an honest client's stage would
not have; each counts up to a limit, so that one stage that is wrong throughout is cheaper than two that are somewhat
wrong. What an honest client sends departs in nothing: its ends are where the numbers say, or in the short time that the
clock says (a first arrival is late by an unknown time), and there where the rate changes or the silence is. Other ends
that are tried: silences that no law explains, nearest to where the end should be, and none at all (a missing stage).
Left out: whether a stage is what was asked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.concurrency import flight

if TYPE_CHECKING:
    from loadproof.load.arrivals import Seconds
    from loadproof.load.requests import Ints, Requests

KEPT = 12
"""So many ways to cut the arrivals up to some stage are followed."""

LIMIT = 10.0
"""No departure counts for more."""

CHANCE = 3.0
"""Standard deviations of a number of requests that are no departure."""

PAUSE_S = 0.1
FILLED_S, FILLED_S_A_SLOT = 0.25, 0.0005  # an honest client fills its slots in that time
IDLE_ENDS = 6

ENDS_S = 0.25
"""A shorter silence tells no end, even where it was asked for: a pause may be as long."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What tells a stage, in requests and seconds; None where that is not known.

    `n` requests exactly, or `about` so many with a standard deviation of `varies`. It lasts `lasts_s`, give or take
    `spread_s`, at `rate` per second or with `slots` in flight. Its first arrival comes up to `late_s` after its begin;
    its law, gaps of this `shape`, explains no silence longer than `silent_s`; `gap_s` of silence follow.
    """

    n: int | None = None
    about: float | None = None
    varies: float = 1.0
    lasts_s: float | None = None
    spread_s: float = 0.0
    rate: float | None = None
    slots: int | None = None
    late_s: float = 0.4
    silent_s: float = 0.25
    gap_s: float = 0.0
    shape: float = 1.0

    @property
    def tells_s(self) -> float:
        """How long a silence tells its end."""
        return max(ENDS_S, self.gap_s - PAUSE_S) if self.gap_s else self.silent_s


@dataclass(frozen=True)
class Stretch:
    """The requests from `first` up to, without, `end`; `told_by` a silence, a number or the clock, or the begin."""

    first: int
    end: int
    told_by: str


@dataclass(frozen=True)
class _Way:
    """Some first stages cut: at what cost, where the next one begins, and in which time (s) its begin must lie."""

    cost: float
    first: int
    low_s: float
    high_s: float
    cut: tuple[Stretch, ...] = field(default=())
    told_by: str = "begin"


class _Arrivals:
    """What is looked at: times (s), the gap before each, and how many were in flight after each."""

    def __init__(self, requests: Requests, *, slots: bool) -> None:
        self.times: Seconds = requests.start_s
        self.n = len(self.times)
        self.gaps = np.diff(self.times, prepend=self.times[:1])
        self.levels: Ints = flight(requests).levels if slots else np.zeros(0, np.int64)

    def index(self, at_s: float) -> int:
        """Return the first arrival at this time or later."""
        return int(np.searchsorted(self.times, at_s))

    def at(self, index: int) -> float:
        """Return when an arrival came; the last one's time where there is none."""
        return float(self.times[min(index, self.n - 1)])


def split(requests: Requests, stages: Sequence[Planned]) -> list[Stretch]:
    """Return the stretch of each stage; together they are all arrivals."""
    if not requests.n:
        return [Stretch(0, 0, "begin") for _ in stages]
    arrivals = _Arrivals(requests, slots=any(stage.slots for stage in stages))
    ways = [_Way(0.0, 0, -stages[0].late_s, 0.0)]
    for k, stage in enumerate(stages[:-1]):
        following = stages[k + 1]
        after = _known(stages[k + 1 :])
        found: dict[int, _Way] = {}
        for way in ways:
            for ended in _ends(arrivals, way, stage, following, after):
                then = _cut(arrivals, way, stage, following, ended)
                if then.first not in found or then.cost < found[then.first].cost:
                    found[then.first] = then
        ways = sorted(found.values(), key=lambda way: way.cost)[:KEPT]
    best = min(ways, key=lambda way: way.cost + _departure(arrivals, way, stages[-1], arrivals.n))
    return [*best.cut, Stretch(best.first, arrivals.n, best.told_by)]


def _known(stages: Sequence[Planned]) -> int | None:
    numbers = [stage.n for stage in stages]
    return None if None in numbers else sum(number or 0 for number in numbers)


def _ends(
    arrivals: _Arrivals, way: _Way, stage: Planned, following: Planned, after: int | None
) -> Iterator[tuple[int, str]]:
    """Yield where the stage may end and by what that is told; of the same costs the first is taken."""
    n, expected = arrivals.n, None
    if stage.n is not None:
        yield (expected := min(n, way.first + stage.n)), "number"
    if after is not None and way.first <= n - after:
        yield n - after, "number"
    if stage.lasts_s is not None:
        low = arrivals.index(way.low_s + stage.lasts_s - stage.spread_s + stage.gap_s - PAUSE_S)
        high = arrivals.index(way.high_s + stage.lasts_s + stage.spread_s + PAUSE_S)
        low, high = max(way.first, min(low, high)), max(way.first, low, high)
        yield from ((end, "clock") for end in _within(arrivals, low, high, stage, following))
        expected = low if expected is None else expected
    if expected is not None:
        for silent in dict.fromkeys((stage.silent_s, stage.tells_s)):
            silences = way.first + 1 + np.flatnonzero(arrivals.gaps[way.first + 1 :] > silent)
            nearest = int(np.searchsorted(silences, expected))
            yield from ((int(end), "silence") for end in silences[max(0, nearest - 2) : nearest + 2])
    yield way.first, "silence"


def _within(arrivals: _Arrivals, low: int, high: int, stage: Planned, following: Planned) -> Iterator[int]:
    """Yield ends in the short time where the clock says that the stage ends, the likeliest first."""
    ends = np.arange(low, min(high, arrivals.n - 1) + 1)
    if len(ends) > 1:
        times = arrivals.times
        if stage.rate and following.rate and stage.rate != following.rate:
            # The likeliest change of rate: ends x log(r1 / r2) - (r1 - r2) x its time, which is just beside an arrival.
            change = times[ends] if stage.rate < following.rate else times[np.maximum(ends - 1, 0)]
            likely = ends * np.log(stage.rate / following.rate) - (stage.rate - following.rate) * change
            yield low + int(likely.argmax())
        if following.slots:
            filled = times[np.minimum(ends + following.slots, arrivals.n) - 1] - times[ends]
            yield low + int(filled.argmin())
        yield low + int(arrivals.gaps[ends].argmax())
        if len(arrivals.levels):
            yield from (low + np.flatnonzero(arrivals.levels[ends] == 1)[:IDLE_ENDS]).tolist()
        yield (low + high) // 2
    yield min(low, arrivals.n)
    yield min(high, arrivals.n)


def _cut(arrivals: _Arrivals, way: _Way, stage: Planned, following: Planned, ended: tuple[int, str]) -> _Way:
    """Return the way that ends the stage there."""
    end, told = ended
    cost = way.cost + _departure(arrivals, way, stage, end)
    begins = arrivals.at(end)
    silence = float(arrivals.gaps[end]) if way.first < end < arrivals.n else 0.0
    if stage.gap_s and way.first < end < arrivals.n and silence < stage.gap_s - PAUSE_S:
        cost += LIMIT * (1 - silence / stage.gap_s)
    if silence > stage.tells_s:
        told = "silence"
    low = begins - following.late_s
    if stage.lasts_s is not None:
        low = max(low, way.low_s + stage.lasts_s - stage.spread_s + stage.gap_s)
    cut = (*way.cut, Stretch(way.first, end, way.told_by))
    return _Way(cost, end, min(low, begins), begins, cut, told)


def _departure(arrivals: _Arrivals, way: _Way, stage: Planned, end: int) -> float:
    """Return by how much the stage would not be what was asked, if it ended there."""
    count = end - way.first
    if not count:
        return 2 * LIMIT
    cost = 0.0
    if stage.n is not None and count != stage.n:
        cost += min(LIMIT, 2 + 20 * abs(count - stage.n) / stage.n)
    elif stage.n is None and stage.about is not None:
        cost += min(LIMIT, max(0.0, abs(count - stage.about) / stage.varies - CHANCE) ** 2)
    if stage.lasts_s is not None:
        last = arrivals.at(end - 1)
        early = way.low_s + stage.lasts_s - stage.spread_s - stage.silent_s - last
        late = last - (way.high_s + stage.lasts_s + stage.spread_s + PAUSE_S)
        if (beside := max(early, late)) > 0:
            cost += min(LIMIT, 2 + 20 * beside / stage.lasts_s)
    if stage.slots:
        # What the stage before left in flight may come on top.
        levels = arrivals.levels[way.first : end]
        cost += 0.0 if stage.slots <= int(levels.max()) < stage.slots + int(levels[0]) else LIMIT / 2
        last = min(way.first + stage.slots, end) - 1
        cost += float(arrivals.times[last] - arrivals.times[way.first] > FILLED_S + stage.slots * FILLED_S_A_SLOT)
    if count > 1 and float(arrivals.gaps[way.first + 1 : end].max()) > stage.silent_s:
        cost += LIMIT
    return cost + (_unevenness(arrivals.times[way.first : end], stage) if stage.rate else 0.0)


def _unevenness(times: Seconds, stage: Planned) -> float:
    """Return the departure of a stage whose rate changes on the way: its middle request comes too early or too late.

    Its place in the span is Beta(a n / 2, a n / 2), with a deviation of 1 / (2 sqrt(a n)).
    """
    span = float(times[-1] - times[0])
    if span <= 0:
        return 0.0
    beside = abs(float(times[len(times) // 2] - times[0]) / span - 0.5) - (stage.late_s + 1 / len(times)) / span
    deviations = 2 * beside * math.sqrt(stage.shape * len(times))
    return float(min(LIMIT, max(0.0, deviations - CHANCE) ** 2))
