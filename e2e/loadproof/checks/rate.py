"""rate: did requests arrive at the asked rate, each stage in its own time?

Null hypothesis: an honest sender at the asked rate, under the spacing that the case declares for the tool, whose
first request is up to 0.3 s late and which pauses up to 0.1 s. Statistic, floor and smallest n per spacing
(docs/statistics.md: rate; numbers and sources in `stats`): poisson and gamma by the exact chi-squared interval of the
end-point rate, failing only beyond 1 % (false alarms below 1e-6; from 50 requests on, more for gaps that vary more,
and 1 s); fixed-span by the exact law of the end-point rate, beyond 1 % and lateness (1e-6; from 50 requests and 5 s
on); constant by the half-lag slope within max(1 %, 2/n) (a bound, no law: none in 1,500 seeded runs; from 50 requests
and 2 s on). Stages share the level.
gap: the silence after a stage lasts as long as asked, less a pause (0.1 s), and no longer than what the law of both
stages, the last answers and 5 s for the tool to begin again explain. A bound, at any n.
cap and what holds a rate back: `capped`. Cannot see: a drift within a part, the shape of the gaps (arrivals), what is
smaller than the printed deviation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from loadproof.arrival import SMALLEST_N, SMALLEST_SPAN_S, Arrival, Law
from loadproof.checks import stats
from loadproof.checks.capped import cap_finding, held_back, waits_for_others
from loadproof.checks.looks import looks_like
from loadproof.checks.looks_stages import stage_looks_like
from loadproof.checks.question import EVIDENCE, Part, Question
from loadproof.checks.stats_gaps import longest_honest_gap
from loadproof.load import arrivals
from loadproof.verdict import Finding, Outcome

BEGIN_AGAIN_S = 5.0

FIXED_SPAN_N = 25
"""So many gaps of shape 1 of a fixed span bound its rate to some +100 %; with fewer a burst would pass."""


def findings(question: Question) -> Iterator[Finding]:
    """Yield the rate findings of every part with a rate, and of the silences between stages."""
    declared = question.declared.arrival
    for part in question.parts:
        if part.rate is not None and declared is not None:
            judged = _rate(part.load.requests.start_s, part.rate, declared, part.alpha, part.suffix)
            yield _explained(judged, part, question.parts, declared)
        if part.gap_s:
            yield _gap(part, part.gap_s, declared)
        if part.cap is not None:
            yield cap_finding(part)


def _explained(finding: Finding, part: Part, parts: list[Part], declared: Arrival) -> Finding:
    """Return a finding with what a failure looks like; unclear where an asked cap made the rate too low."""
    if finding.outcome is not Outcome.FAIL or part.rate is None:
        return finding
    times = part.load.requests.start_s
    slow = _estimate(times, declared) < part.rate
    if slow and (why := held_back(part, declared)):
        return replace(finding, outcome=Outcome.UNCLEAR, detail=why)
    waits = waits_for_others(part) if slow else ""
    said = [finding.detail, stage_looks_like(part, parts), waits, looks_like(times, part.rate)]
    return replace(finding, detail="; ".join(filter(None, said)))


def _rate(
    times: arrivals.Seconds, asked: float, declared: Arrival, alpha: float = stats.ALPHA, suffix: str = ""
) -> Finding:
    n, span = len(times), arrivals.span_s(times)
    estimate = _estimate(times, declared)
    outcome, visible, detail = _judged(n, span, estimate, asked, declared, alpha)
    measured = f"{estimate:.6g}/s ({estimate / asked - 1:+.2%})"
    return Finding(check=f"rate.mean{suffix}", requirement=f"the asked rate ({declared})", expected=f"{asked:g}/s",
                   measured=measured, outcome=outcome, n=n, smallest_deviation=visible, detail=detail,
                   evidence=EVIDENCE)  # fmt: skip


def _estimate(times: arrivals.Seconds, declared: Arrival) -> float:
    return arrivals.half_lag_rate(times) if declared.law is Law.CONSTANT else arrivals.end_point_rate(times)


def _judged(  # noqa: PLR0917 -- as its only caller reads
    n: int, span: float, estimate: float, asked: float, declared: Arrival, alpha: float
) -> tuple[Outcome, str, str]:
    # The asked span, not the measured one: a tool that sends everything at once is wrong, not short.
    asked_span, shortest = n / asked, SMALLEST_SPAN_S[declared.law]
    enough = max(_smallest_n(declared), math.ceil(shortest * asked))
    if n < enough:
        short = f"{n} requests in {asked_span:.3g} s cannot show a rate of {asked:g}/s"
        return Outcome.UNCLEAR, "", f"{short}; {enough} in {enough / asked:.3g} s are enough"
    deviation = estimate / asked - 1
    if declared.law in {Law.POISSON, Law.GAMMA}:
        interval = stats.honest_rate_interval(n - 1, span, declared.shape, alpha)
        bounds = stats.honest_rate_visible(n - 1, asked, declared.shape, alpha)
        right = asked in interval or abs(deviation) <= stats.FLOOR
        detail = f"interval {interval.low:.4g} to {interval.high:.4g}/s at {alpha:.2g}"
    else:
        fixed = declared.law is Law.FIXED_SPAN
        bounds = (stats.fixed_span_bounds(n, asked_span, declared.shape, alpha) if fixed
                  else stats.even_spacing_bounds(n))  # fmt: skip
        right = deviation in bounds
        detail = "outside what an honest sender shows"
    visible = f"{bounds.low:+.1%}/{bounds.high:+.1%}"
    return (Outcome.PASS, visible, "") if right else (Outcome.FAIL, visible, detail)


def _smallest_n(declared: Arrival) -> int:
    if declared.law is Law.CONSTANT:
        return SMALLEST_N
    if declared.law is Law.FIXED_SPAN:
        return max(SMALLEST_N, math.ceil(FIXED_SPAN_N / declared.shape))
    return max(SMALLEST_N, 1 + stats.gaps_to_see_a_rate(declared.shape))


def _gap(part: Part, asked: float, declared: Arrival | None) -> Finding:
    low = asked - stats.PAUSE_S
    high = asked + part.draining_s + _own_gaps_s(part, declared) + stats.LATE_FIRST_S + stats.PAUSE_S + BEGIN_AGAIN_S
    seen, outcome, detail = part.silence_s, Outcome.PASS, ""
    if seen is None:
        outcome = Outcome.UNCLEAR
        detail = "no request came before it, or none after it, so there is no silence between"
    elif not low <= seen <= high:
        outcome = Outcome.FAIL
        early = (
            "the next stage begins too early" if seen > asked / 2 else "there is no such silence: the stages are merged"
        )
        detail = early if seen < low else "the next stage begins too late"
    return Finding(check=f"rate.gap{part.suffix}", requirement="silence after the stage",
                   expected=f"{low:.3g} to {high:.3g} s", measured="no silence" if seen is None else f"{seen:.3f} s",
                   outcome=outcome, n=0 if seen is None else 1, smallest_deviation=f"-{stats.PAUSE_S:g} s/"
                   f"+{high - asked:.2g} s", detail=detail, evidence=EVIDENCE)  # fmt: skip


def _own_gaps_s(part: Part, declared: Arrival | None) -> float:
    """Return how long the law leaves a stage's end, and the next one's begin, without a request."""
    if part.rate is None or declared is None:
        return part.load.in_flight.median_latency_s
    longest = 1.0 if declared.law is Law.CONSTANT else longest_honest_gap(2, declared.shape, part.alpha)
    return 2 * longest / part.rate
