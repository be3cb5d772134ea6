"""concurrency: was the asked number of requests in flight, and was a freed slot used again at once?

Null hypothesis: an honest client with C slots, each used again at once (docs/statistics.md: concurrency).
slots: the peak is exactly C, both sides, at any n. refill: the turnaround of a slot is at most max(20 ms, 5 % of the
median latency), from max(2C, 50) starts on a plateau of at least 4 median latencies on. ramp: the peak is reached
within 0.25 s + C x 0.5 ms, at any n. Exact or bounded, no sampling error, so no rate of false alarms; honest clients
reach 17 ms of turnaround at worst. All rest on our own writes. Cannot see: how long the peak was held, beyond what
refill says of it; who made a slot wait. Left out: stages (`unsupported`), waves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadproof.checks.question import EVIDENCE, NOTHING, Question, exact
from loadproof.expected import ConcurrencyLoad, StagesLoad
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.concurrency import InFlight

BACK_TO_BACK_S = 0.005


def findings(question: Question) -> Iterator[Finding]:
    """Yield the concurrency findings; nothing for an open loop."""
    asked = question.expected.load
    load = question.trimmed()
    if isinstance(asked, StagesLoad) and any(stage.concurrency for stage in asked.stages):
        yield Finding(check="concurrency.slots", requirement="the asked slots in every stage", expected="stages",
                      measured="not judged yet", outcome=Outcome.UNSUPPORTED, n=load.requests.n, evidence=EVIDENCE,
                      detail="the concurrency of stages is not judged yet")  # fmt: skip
    if isinstance(asked, ConcurrencyLoad):
        measured = load.in_flight
        yield _slots(measured, asked.concurrency, load.requests.n)
        yield _refill(measured, asked.concurrency)
        yield _ramp(measured, asked.concurrency, load.requests.n)


def _slots(measured: InFlight, asked: int, n: int) -> Finding:
    detail = (f"plateau mean {measured.plateau_mean:.2f}, whole run {measured.whole_mean:.2f}, at the peak "
              f"{measured.share_at_peak:.0%} of the time")  # fmt: skip
    if measured.peak < asked and 0 < measured.refill_s < BACK_TO_BACK_S:
        detail += "; starts follow ends at once: the client is limited to fewer slots"
    return exact("concurrency.slots", "peak in flight exactly as asked", f"{asked}",
                 f"{measured.peak}", n=n, detail=detail)  # fmt: skip


def _refill(measured: InFlight, asked: int) -> Finding:
    bound = max(0.02, 0.05 * measured.median_latency_s)
    starts, length = max(2 * asked, 50), 4 * measured.median_latency_s
    outcome, detail = Outcome.PASS, ""
    if measured.plateau_starts < starts or measured.plateau_s < length:
        outcome = Outcome.UNCLEAR
        detail = (f"the plateau has {measured.plateau_starts} starts in {measured.plateau_s:.2f} s; {starts} in "
                  f"{length:.2f} s are enough")  # fmt: skip
    elif measured.refill_s > bound:
        outcome = Outcome.FAIL
        detail = f"a freed slot stays empty: plateau mean {measured.plateau_mean:.2f} of {measured.peak}"
    return Finding(check="concurrency.refill", requirement="a freed slot is refilled at once",
                   expected=f"<= {bound * 1e3:.1f} ms", measured=f"{measured.refill_s * 1e3:.1f} ms", outcome=outcome,
                   n=measured.plateau_starts, smallest_deviation=f"{bound * 1e3:.1f} ms", detail=detail,
                   evidence=EVIDENCE)  # fmt: skip


def _ramp(measured: InFlight, asked: int, n: int) -> Finding:
    bound = 0.25 + asked * 0.0005
    outcome, detail = Outcome.PASS, ""
    if n == 0:
        outcome, detail = Outcome.UNCLEAR, NOTHING
    elif measured.ramp_s > bound:
        outcome, detail = Outcome.FAIL, "slots are filled one after another"
    return Finding(check="concurrency.ramp", requirement="the peak is reached at once",
                   expected=f"<= {bound:.3f} s", measured=f"{measured.ramp_s:.3f} s", outcome=outcome, n=n,
                   smallest_deviation=f"{bound:.3f} s", evidence=EVIDENCE,
                   detail=detail)  # fmt: skip
