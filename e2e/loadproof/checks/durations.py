"""count, by the clock: did a load or a stage that was asked for a time last so long and hold so many requests?

- requests (of a load asked for `duration_s` at a rate), stage (of a stage that has a rate and `duration_s`): null
  hypothesis: an honest sender of the declared law. poisson and gamma: N is within the exact interval of a renewal
  count (`stats.count_interval`: the Poisson interval for shape 1), at 1e-6 shared by the stages, of a window that is
  up to 0.4 s short (a late first send, a pause) or 0.1 s long; it fails only beyond 1 %. constant and fixed-span know
  their number: within 1 + 0.1 s x rate, a bound. A stage's requests are those that `load.stages` gives to it. Smallest
  n: none.
- stage (of one that asks for a number, between silences): exact.
- duration (of a stage: between silences): first to last arrival last as long as asked: less what the law leaves empty
  at both ends, a late first send and a pause; in a closed loop less the longest latency. A bound, at any n.
Cannot see: by how much the tool's own clock differs from ours where that is less than the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from loadproof.arrival import Arrival, Law
from loadproof.checks import stats
from loadproof.checks.looks_stages import stage_looks_like
from loadproof.checks.question import EVIDENCE, NOTHING, Part, Question, exact
from loadproof.checks.stats_gaps import longest_honest_gap
from loadproof.expected import StagesLoad
from loadproof.load.arrivals import span_s
from loadproof.load.requests import NEVER
from loadproof.verdict import Finding, Outcome


def findings(question: Question) -> Iterator[Finding]:
    """Yield the findings of what was asked for a time, and of the numbers of stages."""
    declared = question.declared.arrival
    staged = isinstance(question.expected.load, StagesLoad)
    for k, part in enumerate(question.parts):
        alone = _between_silences(question.parts[k:])
        if part.rate is not None and part.duration_s is not None and declared is not None:
            held = _held(part, part.rate, part.duration_s, declared, "stage" if staged else "requests")
            yield _named(held, part, question.parts)
        elif staged and part.n is not None and alone:
            n = part.load.requests.n
            counted = exact(f"count.stage{part.suffix}", "exactly the asked number", f"{part.n}", f"{n}", n=n)
            yield _named(counted, part, question.parts)
        if part.duration_s is not None and (not staged or alone):
            yield _named(_lasted(part, part.duration_s, declared), part, question.parts)


def _named(finding: Finding, part: Part, parts: list[Part]) -> Finding:
    """Return a finding whose failure says what the stage looks like."""
    if finding.outcome is not Outcome.FAIL:
        return finding
    told = filter(None, (finding.detail, stage_looks_like(part, parts)))
    return replace(finding, detail="; ".join(told))


def _between_silences(parts: list[Part]) -> bool:
    """Whether the first's requests are told from others by silences alone, and not by their number; or it has none."""
    part, *following = parts[:2]
    alone = part.told_by in {"begin", "silence"} and all(other.told_by == "silence" for other in following)
    return alone or not part.load.requests.n


def _held(part: Part, rate: float, duration_s: float, declared: Arrival, name: str) -> Finding:
    mean = rate * duration_s
    if declared.law in {Law.POISSON, Law.GAMMA}:
        short = max(0.0, mean - rate * (stats.LATE_FIRST_S + stats.PAUSE_S))
        few = stats.count_interval(short, declared.shape, part.alpha)
        many = stats.count_interval(mean + rate * stats.PAUSE_S, declared.shape, part.alpha)
        # One more: a sender may have no gap before its first.
        allowed, shape = stats.Interval(few.low, many.high + 1), declared.shape
    else:
        wide = 1 + rate * stats.PAUSE_S
        allowed, shape = stats.Interval(mean - wide, mean + wide), math.inf
    floor = stats.Interval(mean * (1 - stats.FLOOR), mean * (1 + stats.FLOOR))
    n = part.load.requests.n
    outcome, detail = Outcome.PASS, ""
    if not (n in allowed or n in floor):
        outcome = Outcome.FAIL
        detail = f"{n / mean - 1:+.1%} beside what {rate:g}/s make in {duration_s:g} s"
    low, high = min(allowed.low, floor.low), max(allowed.high, floor.high)
    # 9 of 10 runs of such a mean are beyond.
    seen_low, seen_high = (edge + side * stats.Z_POWER * math.sqrt(max(0, edge) / shape)
                           for edge, side in ((low, -1), (high, 1)))  # fmt: skip
    return Finding(check=f"count.{name}{part.suffix}", requirement="as many as the time holds",
                   expected=f"{max(0, math.ceil(low))} to {math.floor(high)}", measured=f"{n}", outcome=outcome,
                   n=part.load.requests.n, smallest_deviation=f"{seen_low / mean - 1:+.1%}/{seen_high / mean - 1:+.1%}",
                   detail=detail, evidence=EVIDENCE)  # fmt: skip


def _lasted(part: Part, duration_s: float, declared: Arrival | None) -> Finding:
    requests, late = part.load.requests, stats.LATE_FIRST_S + stats.PAUSE_S
    if part.rate is not None and declared is not None:
        longest = 1.0 if declared.law is Law.CONSTANT else longest_honest_gap(2, declared.shape, part.alpha)
        low, high = duration_s - 2 * longest / part.rate - late, duration_s + stats.PAUSE_S
    else:
        lasted = (requests.end_ns - requests.start_ns)[requests.end_ns < NEVER]
        low, high = duration_s - float(lasted.max(initial=0)) / 1e9 - late, duration_s + late
    seen, outcome, detail = span_s(requests.start_s), Outcome.PASS, ""
    if requests.n == 0:
        outcome, detail = Outcome.UNCLEAR, NOTHING
    elif low <= 0:
        outcome = Outcome.UNCLEAR
        detail = f"{duration_s:g} s are too short beside what may pass without a request; ask for {-low:.3g} s more"
    elif not low <= seen <= high:
        outcome, detail = Outcome.FAIL, "the load ended too early" if seen < low else "the load went on for too long"
    return Finding(check=f"count.duration{part.suffix}", requirement="it lasts as long as asked",
                   expected=f"{max(0, low):.4g} to {high:.4g} s", measured=f"{seen:.3f} s", outcome=outcome,
                   n=requests.n, smallest_deviation=f"-{duration_s - low:.2g} s/+{high - duration_s:.2g} s",
                   detail=detail, evidence=EVIDENCE)  # fmt: skip
