"""instrument: was the absorber itself on time, so that the other findings may rest on it?

Late when the p99 lateness of chunks (ours, not a slow client's) is above max(1 ms, 5 % of the interval), or
more than 1 % of requests had a loop lag above 5 ms, or the clock jumped by more than 1 ms (design: section 5).
`weighed` then turns failures that rest on our writes into unclear: concurrency when it was late; rate when the
clock jumped, or when arrivals were stamped by our own reads and the loop once stood still for so long (1 % of the
span, the floor of every rate finding) that this could be the deviation. Count and payload keep theirs, and a pass
stays a pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from loadproof.checks.question import EVIDENCE, Question
from loadproof.load.arrivals import span_s
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.instrument import Timekeeping
    from loadproof.load.measured import Load

CLOCK_JUMP_S = 0.001
LATE = "the absorber was late (a busy machine?); a failure that rests on its writes would be unclear, a pass stays"
LATE_READS = 0.01
KERNEL_STAMPED = 0.99
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
    measured = f"p50 {kept.late_p50_s * 1e3:.2f}, p99 {kept.late_p99_s * 1e3:.2f}, max {kept.late_max_s * 1e3:.1f} ms"
    late = was_late(kept) or kept.chunks == 0
    yield Finding(check="instrument.lateness", requirement="our own writes are on time",
                  expected=f"p99 <= {late_bound_s(kept) * 1e3:.1f} ms", measured=measured,
                  outcome=Outcome.UNCLEAR if late else Outcome.PASS, n=kept.chunks, counted=False, evidence=EVIDENCE,
                  detail=LATE if late else "")  # fmt: skip
    jumped = clock_jumped(kept)
    yield Finding(check="instrument.clock", requirement="the clock did not jump",
                  expected=f"<= {CLOCK_JUMP_S * 1e3:g} ms", measured=f"{kept.clock_jump_s * 1e3:.3f} ms",
                  outcome=Outcome.UNCLEAR if jumped else Outcome.PASS, n=2, evidence=EVIDENCE)  # fmt: skip


def _doubtful(load: Load) -> tuple[str, ...]:
    """Return the beginnings of the names of checks whose failures this instrument cannot carry."""
    kept = load.timekeeping
    stood_still = kept.late_max_s > STANDSTILL * span_s(load.requests.start_s)
    rates = clock_jumped(kept) or (kept.stamped < KERNEL_STAMPED and stood_still)
    writes = rates or was_late(kept)
    return (*(("concurrency.",) if writes else ()), *(("rate.",) if rates else ()))


def weighed(found: Iterable[Finding], load: Load) -> Iterator[Finding]:
    """Yield the findings; a failure that rests on a late instrument becomes unclear."""
    doubtful = _doubtful(load)
    for finding in found:
        if finding.outcome is Outcome.FAIL and finding.check.startswith(doubtful):
            why = "would fail, but the instrument was late or its clock jumped; run again on a quieter machine"
            yield msgspec.structs.replace(finding, outcome=Outcome.UNCLEAR, detail=f"{why}. {finding.detail}".strip())
        else:
            yield finding
