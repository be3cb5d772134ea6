"""rate: did requests arrive at the asked rate?

Null hypothesis: the rate is the asked one, under the spacing that the case declares for the tool.
Statistic, floor and smallest n per spacing (statistics.md: rate): poisson and gamma by the exact chi-squared
interval, failing only beyond 1 % (false alarms 1e-6, from 50 requests on); fixed-span by bounds for the
end-point rate, from a span of 5 s on; constant by the half-lag slope within max(1 %, 2/n), from 50 requests on.
Left out: stages, the shape of the gaps, what a cap did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadproof.arrival import Law
from loadproof.checks import stats
from loadproof.checks.question import EVIDENCE, Question
from loadproof.expected import RateLoad, StagesLoad
from loadproof.load import arrivals
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.arrival import Arrival

FLOOR = 0.01
SMALLEST_N = 50
SMALLEST_SPAN_S = 5.0


def findings(question: Question) -> Iterator[Finding]:
    """Yield the rate finding; nothing for a closed loop, which has no asked rate."""
    asked, declared = question.expected.load, question.declared.arrival
    if isinstance(asked, StagesLoad):
        yield Finding(check="rate.mean", requirement="the asked rate in every stage", expected="stages", measured="",
                      outcome=Outcome.UNSUPPORTED, n=question.load.requests.n, evidence=EVIDENCE,
                      detail="the rate of stages is not judged yet")  # fmt: skip
    elif isinstance(asked, RateLoad) and declared is not None:
        yield _rate(question.trimmed().requests.start_s, asked.rate, declared)


def _rate(times: arrivals.Seconds, asked: float, declared: Arrival) -> Finding:
    n, span = len(times), arrivals.span_s(times)
    estimate = arrivals.half_lag_rate(times) if declared.law is Law.CONSTANT else arrivals.end_point_rate(times)
    outcome, visible, detail = _judged(n, span, estimate, asked, declared)
    measured = f"{estimate:.4g}/s ({estimate / asked - 1:+.1%})"
    return Finding(check="rate.mean", requirement=f"the asked rate, {declared} spacing", expected=f"{asked:g}/s",
                   measured=measured, outcome=outcome, n=n, smallest_deviation=visible, detail=detail,
                   evidence=EVIDENCE)  # fmt: skip


def _judged(n: int, span: float, estimate: float, asked: float, declared: Arrival) -> tuple[Outcome, str, str]:
    if n < SMALLEST_N or span <= 0:
        return Outcome.UNCLEAR, "", f"{n} requests cannot show a rate; {SMALLEST_N} are enough"
    deviation = estimate / asked - 1
    if declared.law in {Law.POISSON, Law.GAMMA}:
        interval = stats.gamma_rate_interval(n - 1, span, declared.shape)
        wrong = asked not in interval and abs(deviation) > FLOOR
        visible = max(FLOOR, stats.gamma_rate_smallest_deviation(n - 1, declared.shape))
        interval_text = f"interval {interval.low:.4g} to {interval.high:.4g}/s at 1e-6"
        return (Outcome.FAIL, f"{visible:.1%}", interval_text) if wrong else (Outcome.PASS, f"{visible:.1%}", "")
    asked_span = n / asked
    if declared.law is Law.FIXED_SPAN:
        if declared.shape != 1:
            return Outcome.UNSUPPORTED, "", "fixed-span gaps of another shape are not judged yet"
        if asked_span < SMALLEST_SPAN_S:
            return Outcome.UNCLEAR, "", f"a span of {asked_span:.3g} s is too short; {SMALLEST_SPAN_S:g} s is enough"
        bounds = stats.fixed_span_bounds(n, asked_span)
    else:
        bounds = stats.even_spacing_bounds(n)
    outcome = Outcome.PASS if deviation in bounds else Outcome.FAIL
    return outcome, f"{bounds.low:+.1%}/{bounds.high:+.1%}", "" if outcome is Outcome.PASS else "outside the bounds"
