"""concurrency: was the asked number of requests in flight, and was a freed slot used again at once?

Null hypothesis: an honest client with C slots, each used again by the end of its own request; of each stage with a
concurrency. What an earlier stage left in flight counts, as slots in use; only its own starts are a stage's doing. What
a rate left in flight may be counted or not: no loop was told to wait for it.
slots: the peak is exactly C, both sides, from n = C on.
refill: the turnaround of a slot, (C - plateau mean) / start rate, is at most max(20 ms, 5 % of the median latency) and
0.2 s a round for pauses, which meet all slots where all end together; from max(2C, 50) starts on a plateau of 4 median
latencies on.
held: the plateau in equal windows (of 1 s and 4 median latencies at least, 100 at most). In each, C less the mean
deficit of a client at that bound, less one from 4 slots on, are in use for half the share of the time that it has them;
and all C at some time, where their ends are further apart than a usual turnaround (C x 10 ms <= latency + 10 ms).
waves: what goes by of a slot's empty time while others still end and nobody sends is at most that bound longer than
when the same waits are dealt at random; from as many starts as refill.
ramp: C is reached within 0.25 s + C x 0.5 ms; where slots begin empty and C is there for a moment only, that is the
bound of the time for which all slots together were empty, beyond 10 ms a turnaround. At any n.
slots is exact. The others are bounds and no tests, so their rate of false alarms is none that is nominal: of 32,000
seeded honest runs (C = 1 to 16,384, replies of 0.02 to 13 s, equal, lognormal or mixed, pauses at three levels) none
failed; the worst came to 0.70 of the bound of refill, 0.63 of ramp, 0.35 of waves and 1.5 times the share of held.
All rest on our own writes. Cannot see: waves where replies take equally long, which are no other load (that finding is
not counted then and says what would tell); waves of several processes, each by itself, which are slow refills; some
lost slots among many (what held shows is printed); who made a slot wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from loadproof.checks import looks_slots as looks
from loadproof.checks.looks_slots import milliseconds, seconds
from loadproof.checks.question import EVIDENCE, NOTHING, Part, Question
from loadproof.load.concurrency import earlier, flight, lost_at_first, plateau, windows
from loadproof.load.waves import refills, waves_would_wait_s
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.concurrency import Flight, Plateau
    from loadproof.load.waves import Refills

TURNAROUND_S, TURNAROUND_SHARE = 0.02, 0.05
USUAL_TURNAROUND_S = 0.01
PAUSED_S = 0.2
"""What pauses add up to in a few seconds, when they meet slots that all end together."""
FILLED = 0.85
RAMP_S, RAMP_S_A_SLOT = 0.25, 0.0005
HELD_SHARE = 0.5
WINDOW_S = 1.0


@dataclass(frozen=True)
class _Measured:
    """One part, measured."""

    part: Part
    asked: int
    held: Flight
    top: Plateau

    @property
    def bound_s(self) -> float:
        """The longest honest turnaround."""
        return max(TURNAROUND_S, TURNAROUND_SHARE * self.held.median_latency_s)

    @property
    def refill_bound_s(self) -> float:
        """The longest honest turnaround, as a mean over so few rounds of all slots that pauses do not average out."""
        return self.bound_s + PAUSED_S * self.asked / max(1, self.top.starts)

    @property
    def ramp_bound_s(self) -> float:
        """The longest honest time to fill the slots."""
        return RAMP_S + self.asked * RAMP_S_A_SLOT

    @property
    def may_be_empty(self) -> float:
        """The share of the time that slots are empty later on, where enough is seen of that, or may be at most."""
        usual = USUAL_TURNAROUND_S / (self.held.median_latency_s + USUAL_TURNAROUND_S)
        return usual if self.too_short else max(usual, 1 - self.top.mean / self.top.slots)

    @property
    def begins_empty(self) -> bool:
        """Whether slots were empty before any was freed: in the first latency, when an honest client fills them."""
        first = int(self.held.starts[0]) if len(self.held.starts) else 0
        filled = self.held.mean(first, first + round(self.held.median_latency_s * 1e9), self.top.slots)
        return self.top.slots > 1 and filled < FILLED * self.top.slots

    @cached_property
    def refilled(self) -> Refills:
        """How the slots were refilled."""
        return refills(self.held, self.top)

    @property
    def too_short(self) -> str:
        """Why the plateau cannot show a turnaround; empty where it can."""
        starts, length = max(2 * self.asked, 50), 4 * self.held.median_latency_s
        if not self.part.load.requests.n:
            return NOTHING
        if self.top.starts >= starts and self.top.length_s >= length:
            return ""
        return (f"the plateau has {self.top.starts} starts in {self.top.length_s:.2f} s; {starts} in {length:.2f} s "
                "are enough")  # fmt: skip

    def says(self, check: str, requirement: str, expected: str, measured: str, outcome: Outcome, *, n: int,
             smallest: str, detail: str = "", counted: bool = True) -> Finding:  # fmt: skip
        """Return a finding of this part."""
        return Finding(check=f"concurrency.{check}{self.part.suffix}", requirement=requirement, expected=expected,
                       measured=measured, outcome=outcome, n=n, smallest_deviation=smallest, detail=detail,
                       counted=counted, evidence=EVIDENCE)  # fmt: skip


def findings(question: Question) -> Iterator[Finding]:
    """Yield the concurrency findings of each part that has one; nothing for an open loop."""
    for before, part in pairwise([None, *question.parts]):
        if part is None or part.concurrency is None:
            continue
        own = part.load.requests
        views = [flight(own, earlier(question.trimmed.requests, own))]
        if before is not None and before.rate is not None and views[0].left:
            # What a rate left in flight nobody had to wait for: a tool may count it as slots in use, or not.
            views.append(flight(own))
        measured = [_Measured(part, part.concurrency, held, plateau(held, part.concurrency)) for held in views]
        judged = [list(_judged(each)) for each in measured]
        yield from min(judged, key=lambda found: sum(one.outcome is Outcome.FAIL for one in found))


def _judged(measured: _Measured) -> Iterator[Finding]:
    yield _slots(measured)
    yield _refill(measured)
    yield _held(measured)
    if measured.asked > 1:
        yield _waves(measured)
    yield _ramp(measured)


def _slots(this: _Measured) -> Finding:
    asked, held, n = this.asked, this.held, this.part.load.requests.n
    outcome, detail = Outcome.PASS, looks.never_ended(held)
    if held.peak != asked:
        many = held.peak > asked
        looked = (
            looks.too_many(held, asked, this.ramp_bound_s)
            if many
            else looks.too_few(held, this.top, asked, this.bound_s)
        )
        outcome, detail = Outcome.FAIL, "; ".join(filter(None, (looked, detail)))
    if this.part.n is not None and this.part.n < asked and held.peak < asked:
        outcome = Outcome.UNCLEAR
        detail = f"{this.part.n} requests cannot fill {asked} slots; {8 * asked} are enough"
    return this.says("slots", "peak in flight exactly as asked", f"{asked}", f"{held.peak}", outcome, n=n,
                     smallest="exact", detail=detail)  # fmt: skip


def _refill(this: _Measured) -> Finding:
    bound, outcome, detail = milliseconds(this.refill_bound_s), Outcome.PASS, this.too_short
    if detail:
        bound, outcome = milliseconds(this.bound_s), Outcome.UNCLEAR
    elif this.top.refill_s > this.refill_bound_s:
        outcome, detail = Outcome.FAIL, looks.emptied(this.held, this.top, this.refilled)
    return this.says("refill", "a freed slot is refilled at once", f"<= {bound}", milliseconds(this.top.refill_s),
                     outcome, n=this.top.starts, smallest="" if this.too_short else bound, detail=detail)  # fmt: skip


def held_at_least(asked: int, latency_s: float, bound_s: float) -> tuple[int, float]:
    """Return how many of the asked slots are in use for which share of the time, at the bound of an honest client."""
    empty = bound_s / (latency_s + bound_s)
    return max(1, asked - int(asked * empty) - (asked >= 4)), HELD_SHARE * (1 - empty)


def comes_back(slots: int, latency_s: float) -> bool:
    """Return whether all slots are in use again and again.

    Ends of so few slots, however they are spread, are further apart than a usual turnaround.
    """
    return slots * USUAL_TURNAROUND_S <= latency_s + USUAL_TURNAROUND_S


def _held(this: _Measured) -> Finding:
    top, latency_s = this.top, this.held.median_latency_s
    least, share = held_at_least(top.slots, latency_s, this.bound_s)
    all_again = comes_back(top.slots, latency_s)
    requirement = "the slots stay in use"
    expected = f"{f'{top.slots} again, ' if all_again else ''}>= {least} for {share:.0%}"
    length_s = max(WINDOW_S, 4 * latency_s)
    edges = windows(top, length_s)
    if not len(edges):
        measured = f"a plateau of {top.length_s:.2f} s"
        detail = f"{measured} is too short to be held; {length_s:.2f} s are enough" if top.slots else NOTHING
        return this.says("held", requirement, expected, measured, Outcome.UNCLEAR, n=top.starts, smallest="",
                         detail=detail)  # fmt: skip
    shares, width = this.held.shares_at(least, edges), f"{(edges[1] - edges[0]) / 1e9:.2f} s"
    short = shares < share
    if all_again:
        short |= this.held.shares_at(top.slots, edges) <= 0
    detail = ""
    if short.any():
        first = (edges[int(np.argmax(short))] - top.begin_ns) / 1e9
        detail = (f"{looks.emptied(this.held, top, this.refilled)}; so in {np.count_nonzero(short)} of {len(shares)} "
                  f"windows of {width}, the first of them {first:.2f} s after the peak")  # fmt: skip
    smallest = f"one slot, for {width}" if all_again else f"< {least}, {1 - share:.0%} of {width}"
    return this.says("held", requirement, expected, f"{shares.min():.0%} in the worst {width}", n=len(shares),
                     outcome=Outcome.FAIL if detail else Outcome.PASS, smallest=smallest, detail=detail)  # fmt: skip


def _waves(this: _Measured) -> Finding:
    bound, n = this.bound_s, this.top.starts
    requirement, expected = "slots are refilled one by one", f"<= {milliseconds(bound)}"
    if this.too_short:
        return this.says("waves", requirement, expected, "not known", Outcome.UNCLEAR, n=n, smallest="",
                         detail=this.too_short)  # fmt: skip
    refilled = this.refilled
    requests = this.part.load.requests
    visible = waves_would_wait_s(requests, this.top.slots)
    outcome, counted, detail = Outcome.PASS, True, ""
    if refilled.together_s > bound:
        outcome, detail = Outcome.FAIL, looks.together(refilled)
    elif visible < 2 * bound:
        outcome, counted = Outcome.UNCLEAR, False
        detail = (f"replies take about equally long, so waves of {this.top.slots} would wait only "
                  f"{milliseconds(visible)} for each other and look the same; a ttft_s that varies more would tell "
                  "(law lognormal, sigma 0.5)")  # fmt: skip
    return this.says("waves", requirement, expected, milliseconds(max(0.0, refilled.together_s)), outcome, n=n,
                     smallest=milliseconds(bound), detail=detail, counted=counted)  # fmt: skip


def _ramp(this: _Measured) -> Finding:
    bound, top, n = this.ramp_bound_s, this.top, this.part.load.requests.n
    lost_s, until_s = lost_at_first(this.held, top, this.may_be_empty) if this.begins_empty else (0.0, 0.0)
    outcome, detail = Outcome.PASS, ""
    if n == 0:
        outcome, detail = Outcome.UNCLEAR, NOTHING
    elif lost_s > bound * top.slots / this.asked and until_s > top.ramp_s:  # fewer than asked have less to lose
        outcome, detail = Outcome.FAIL, looks.not_held_at_first(this.held, top, until_s)
    elif top.ramp_s > bound:
        outcome, detail = Outcome.FAIL, looks.filled_late(this.held, top, bound)
    return this.says("ramp", "the peak is reached at once", f"<= {bound:.3f} s", seconds(max(top.ramp_s, lost_s)),
                     outcome, n=n, smallest=f"{bound:.3f} s", detail=detail)  # fmt: skip
