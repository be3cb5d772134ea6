"""arrivals: were evenly spaced requests really evenly spaced?

Null hypothesis: an honest sender of one request every 1/rate seconds, which pauses up to 0.1 s. Two findings, for
declared `constant` spacing only (docs/statistics.md: arrivals). even: the median residual from the half-lag line is
at most max(5 ms, 0.1/rate); honest senders reach 1.5 ms, groups and random gaps tens of ms; from 50 arrivals after
the first second on. silence: no gap longer than 1/rate + 0.25 s, at any n. Bounds, no law: no alarm in the honest
runs of the tests. p90 and the worst lateness are told when it fails, not judged. Cannot see: a burst within the first
second. Left out: random spacing, of which nothing is judged but the rate.
"""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.arrival import SMALLEST_N, Law
from loadproof.checks.question import EVIDENCE, NOTHING, Question
from loadproof.expected import RateLoad
from loadproof.load.evenness import Evenness, measure_evenness
from loadproof.verdict import Finding, Outcome


def findings(question: Question) -> Iterator[Finding]:
    """Yield the arrivals findings; nothing for random spacing and closed loops."""
    asked, declared = question.expected.load, question.declared.arrival
    if isinstance(asked, RateLoad) and declared is not None and declared.law is Law.CONSTANT:
        requests = question.trimmed().requests
        measured = measure_evenness(requests.start_s)
        yield _even(measured, asked.rate)
        yield _silence(measured, asked.rate, requests.n)


def _even(measured: Evenness, rate: float) -> Finding:
    bound = max(0.005, 0.1 / rate)
    outcome, detail = Outcome.PASS, ""
    if measured.n < SMALLEST_N:
        outcome = Outcome.UNCLEAR
        detail = f"{measured.n} arrivals after the first second cannot show how even they were; {SMALLEST_N} are enough"
    elif measured.median_late_s > bound:
        outcome = Outcome.FAIL
        detail = (f"arrivals come in groups or at random: p90 {measured.p90_late_s * 1e3:.1f} ms, worst "
                  f"{measured.worst_late_s * 1e3:.0f} ms off the line")  # fmt: skip
    return Finding(check="arrivals.even", requirement="evenly spaced (median residual)",
                   expected=f"<= {bound * 1e3:.1f} ms", measured=f"{measured.median_late_s * 1e3:.1f} ms",
                   outcome=outcome, n=measured.n, smallest_deviation=f"{bound * 1e3:.1f} ms", detail=detail,
                   evidence=EVIDENCE)  # fmt: skip


def _silence(measured: Evenness, rate: float, n: int) -> Finding:
    bound = 1 / rate + 0.25
    outcome, detail = Outcome.PASS, ""
    if n < 2:
        outcome, detail = Outcome.UNCLEAR, NOTHING if n == 0 else "one request has no gap"
    elif measured.longest_gap_s > bound:
        outcome, detail = Outcome.FAIL, "the tool stopped sending for a while"
    return Finding(check="arrivals.silence", requirement="no silence", expected=f"<= {bound:.3f} s",
                   measured=f"{measured.longest_gap_s:.3f} s", outcome=outcome, n=n,
                   smallest_deviation=f"{bound:.3f} s", detail=detail, evidence=EVIDENCE)  # fmt: skip
