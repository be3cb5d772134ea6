"""rate: did requests arrive at the asked rate?

Null hypothesis: an honest sender at the asked rate, under the spacing that the case declares for the tool, whose
first request is up to 0.3 s late and which pauses up to 0.1 s. Statistic, floor and smallest n per spacing
(docs/statistics.md: rate; numbers and sources in `stats`): poisson and gamma by the exact chi-squared interval of the
end-point rate, failing only beyond 1 % (false alarms below 1e-6; from 50 requests on, more for gaps that vary more,
and 1 s); fixed-span by bounds for the end-point rate (1e-6; from 50 requests and 5 s on); constant by the half-lag
slope within max(1 %, 2/n) (a bound, no law: none in 1,500 seeded runs; from 50 requests and 2 s on).
Cannot see: a drift within the run, the shape of the gaps, what is smaller than the printed deviation. Left out:
stages, fixed-span of another shape and a cap, which are `unsupported`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadproof.arrival import SMALLEST_N, SMALLEST_SPAN_S, Law
from loadproof.checks import stats
from loadproof.checks.question import EVIDENCE, Question
from loadproof.expected import RateLoad, StagesLoad
from loadproof.load import arrivals
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.arrival import Arrival


def findings(question: Question) -> Iterator[Finding]:
    """Yield the rate findings; nothing for a closed loop, which has no asked rate."""
    asked, declared = question.expected.load, question.declared.arrival
    n = question.load.requests.n
    if isinstance(asked, StagesLoad) and any(stage.rate is not None for stage in asked.stages):
        yield _unsupported("rate.mean", "the asked rate in every stage", "stages", n)
    if isinstance(asked, RateLoad) and declared is not None:
        yield _rate(question.trimmed().requests.start_s, asked.rate, declared)
    if isinstance(asked, RateLoad) and asked.cap is not None:
        yield _unsupported("rate.cap", "at most the cap in flight", f"<= {asked.cap}", n)


def _unsupported(check: str, requirement: str, expected: str, n: int) -> Finding:
    return Finding(check=check, requirement=requirement, expected=expected, measured="not judged yet",
                   outcome=Outcome.UNSUPPORTED, n=n, evidence=EVIDENCE,
                   detail=f"{requirement}: not judged yet")  # fmt: skip


def _rate(times: arrivals.Seconds, asked: float, declared: Arrival) -> Finding:
    n, span = len(times), arrivals.span_s(times)
    estimate = arrivals.half_lag_rate(times) if declared.law is Law.CONSTANT else arrivals.end_point_rate(times)
    outcome, visible, detail = _judged(n, span, estimate, asked, declared)
    measured = f"{estimate:.6g}/s ({estimate / asked - 1:+.2%})"
    return Finding(check="rate.mean", requirement=f"the asked rate ({declared})", expected=f"{asked:g}/s",
                   measured=measured, outcome=outcome, n=n, smallest_deviation=visible, detail=detail,
                   evidence=EVIDENCE)  # fmt: skip


def _judged(n: int, span: float, estimate: float, asked: float, declared: Arrival) -> tuple[Outcome, str, str]:
    if declared.law is Law.FIXED_SPAN and declared.shape != 1:
        return Outcome.UNSUPPORTED, "", "fixed-span gaps of another shape are not judged yet"
    # The asked span, not the measured one: a tool that sends everything at once is wrong, not short.
    asked_span, shortest = n / asked, SMALLEST_SPAN_S[declared.law]
    enough = max(_smallest_n(declared), math.ceil(shortest * asked))
    if n < enough:
        short = f"{n} requests in {asked_span:.3g} s cannot show a rate of {asked:g}/s"
        return Outcome.UNCLEAR, "", f"{short}; {enough} in {enough / asked:.3g} s are enough"
    deviation, detail = estimate / asked - 1, ""
    if declared.law in {Law.POISSON, Law.GAMMA}:
        interval = stats.honest_rate_interval(n - 1, span, declared.shape)
        bounds = stats.honest_rate_visible(n - 1, asked, declared.shape)
        right = asked in interval or abs(deviation) <= stats.FLOOR
        detail = f"interval {interval.low:.4g} to {interval.high:.4g}/s at 1e-6"
    else:
        fixed = declared.law is Law.FIXED_SPAN
        bounds = stats.fixed_span_bounds(n, asked_span) if fixed else stats.even_spacing_bounds(n)
        right = deviation in bounds
        detail = "outside what an honest sender shows"
    visible = f"{bounds.low:+.1%}/{bounds.high:+.1%}"
    return (Outcome.PASS, visible, "") if right else (Outcome.FAIL, visible, detail)


def _smallest_n(declared: Arrival) -> int:
    random = declared.law in {Law.POISSON, Law.GAMMA}
    return max(SMALLEST_N, 1 + stats.gaps_to_see_a_rate(declared.shape) if random else 0)
