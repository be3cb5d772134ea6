"""instrument: was the absorber itself on time, so that the other findings may rest on it?

Late when the p99 lateness of chunks (ours, not a slow client's) is above max(1 ms, 5 % of the interval), or
more than 1 % of requests had a loop lag above 5 ms, or the clock jumped by more than 1 ms.
`weighed` then turns failures that rest on our writes into unclear: concurrency, and a rate with a cap, when it was
late; any rate, and arrivals, when the clock jumped, or when arrivals were stamped by our own reads and the loop once
stood still for so long (1 % of the span, the floor of every rate finding) that this could be the deviation. Count and
payload keep theirs, and a pass stays a pass. No hypothesis is tested here: bounds, from one chunk on. Cannot see:
a loop that stood still while nothing was due.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from loadproof.checks.question import EVIDENCE, KERNEL_STAMPED, Question
from loadproof.expected import RateLoad
from loadproof.load.arrivals import span_s
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.instrument import Timekeeping

CLOCK_JUMP_S = 0.001
LATE = "loadproof's own server was late here (a busy machine?); a failure that rests on that would be unclear"
LATE_READS = 0.01
STANDSTILL = 0.01


def late_bound_s(kept: Timekeeping) -> float:
    """Return the p99 lateness that is still on time, in seconds."""
    return max(0.001, 0.05 * kept.interval_s)


def was_late(kept: Timekeeping) -> bool:
    """Return whether writes or reads were late."""
    return kept.late_p99_s > late_bound_s(kept) or kept.late_reads > LATE_READS


def clock_jumped(kept: Timekeeping) -> bool:
    """Return whether the clock jumped."""
    return kept.clock_jump_s > CLOCK_JUMP_S


def findings(question: Question) -> Iterator[Finding]:
    """Yield the instrument findings; lateness does not count by itself, only through `weighed`."""
    kept = question.load.timekeeping
    detail = "" if kept.chunks else "it wrote nothing, so nothing is known of its punctuality"
    if was_late(kept):
        reads = f"; {kept.late_reads:.1%} of its reads were more than 5 ms late" if kept.late_reads else ""
        detail = f"{LATE}{reads}"
    shown = f"{kept.late_p50_s * 1e3:.2f}, {kept.late_p99_s * 1e3:.2f}, {kept.late_max_s * 1e3:.1f} ms"
    yield Finding(check="instrument.lateness", requirement="we wrote on time (p50, p99, max)",
                  expected=f"p99 <= {late_bound_s(kept) * 1e3:.1f} ms", measured=shown,
                  outcome=Outcome.UNCLEAR if detail else Outcome.PASS, n=kept.chunks, counted=False,
                  evidence=EVIDENCE, detail=detail)  # fmt: skip
    yield from _other_profile(question)
    jumped = clock_jumped(kept)
    yield Finding(check="instrument.clock", requirement="the clock did not jump",
                  expected=f"<= {CLOCK_JUMP_S * 1e3:g} ms", measured=f"{kept.clock_jump_s * 1e3:.3f} ms",
                  outcome=Outcome.UNCLEAR if jumped else Outcome.PASS, n=2, evidence=EVIDENCE)  # fmt: skip


def _other_profile(question: Question) -> Iterator[Finding]:
    """Yield a finding where the server was told otherwise than the case says, as a person's `serve` may be."""
    asked, told = question.expected.absorber.model_dump(), question.load.profile
    differing = [name for name in asked if name in told and told[name] != asked[name]]
    if differing:
        yield Finding(check="instrument.profile", requirement="the server did as the case says",
                      expected=", ".join(f"{name} {asked[name]}" for name in differing),
                      measured=", ".join(f"{name} {told[name]}" for name in differing), outcome=Outcome.UNCLEAR, n=1,
                      evidence=EVIDENCE, detail="serve with the case's own profile, or judge another case")  # fmt: skip


def _doubtful(question: Question) -> tuple[str, ...]:
    """Return the beginnings of the names of checks whose failures this instrument cannot carry."""
    kept, asked = question.load.timekeeping, question.expected.load
    stood_still = kept.late_max_s > STANDSTILL * _span_s(question)
    arrivals = clock_jumped(kept) or (kept.stamped < KERNEL_STAMPED and stood_still)
    writes = clock_jumped(kept) or was_late(kept)
    rates = writes if isinstance(asked, RateLoad) and asked.cap is not None else arrivals
    resting = {"concurrency.": writes, "rate.": rates, "arrivals.": arrivals}
    return tuple(name for name, doubtful in resting.items() if doubtful)


def _span_s(question: Question) -> float:
    """Return the longer of the measured and the asked span: what is sent all at once has none of its own."""
    requests, asked = question.trimmed().requests, question.expected.load
    asked_s = requests.n / asked.rate if isinstance(asked, RateLoad) else 0.0
    return max(span_s(requests.start_s), asked_s)


def weighed(found: Iterable[Finding], question: Question) -> Iterator[Finding]:
    """Yield the findings; a failure that rests on a late instrument becomes unclear."""
    doubtful = _doubtful(question)
    for finding in found:
        if finding.outcome is Outcome.FAIL and finding.check.startswith(doubtful):
            why = "would fail, but the instrument was late or its clock jumped; run again on a quieter machine"
            yield msgspec.structs.replace(finding, outcome=Outcome.UNCLEAR, detail=f"{why}. {finding.detail}".strip())
        else:
            yield finding
