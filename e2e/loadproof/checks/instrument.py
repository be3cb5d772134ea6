"""instrument: was the absorber itself on time, so that the other findings may rest on it?

Late when the p99 lateness of chunks (ours, not a slow client's) is above max(1 ms, 5 % of the interval), or more than
1 % of the requests that the kernel stamped had a loop lag above 5 ms, or the clock jumped by more than 1 ms. Where the
kernel stamped no arrival, none rests on that clock, and its jump does not count.
`weighed` then turns failures that may be our own doing into unclear. All that rest on times: when the clock jumped.
Concurrency, reuse of connections, and a rate with a cap: when we were late. Any other rate: when more than 1 % of
arrivals were stamped by our own reads and the loop once stood still for so long (by its writes or its stamped reads;
1 % of the span, the floor of every rate finding) that this could be the deviation. Arrivals: whenever more than 1 %
were stamped by our own reads, because a loop that reads late while nothing is due leaves no trace, and then groups and
silences may be ours. Slots, which are exact: when a clock that was off by its largest jump, however small, could have
made the peak of what was asked.
Count and payload keep theirs, and a pass stays a pass. No hypothesis is tested here: bounds, from one chunk or stamp
on. Cannot see: a loop that stood still while nothing was due and the kernel stamped nothing; that a lag is the doing of
a client that pipelines more than 1 MiB ahead, which is not read on until its replies have left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import msgspec

from loadproof.checks.question import EVIDENCE, KERNEL_STAMPED, Part, Question
from loadproof.load.arrivals import span_s
from loadproof.load.concurrency import earlier
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.load.instrument import Timekeeping
    from loadproof.load.measured import Load

CLOCK_JUMP_S = 0.001
LATE = "loadproof's own server was late here (a busy machine?); a failure that rests on that would be unclear"
QUIETER = "run again on a quieter machine"
LATE_READS = 0.01
STANDSTILL = 0.01
BY_OUR_WRITES = ("concurrency.", "connections.reuse")
BY_THE_CLOCK = (*BY_OUR_WRITES, "rate.", "arrivals.", "count.duration", "count.stage")


def late_bound_s(kept: Timekeeping) -> float:
    """Return the p99 lateness that is still on time, in seconds."""
    return max(0.001, 0.05 * kept.interval_s)


def writes_late(kept: Timekeeping) -> bool:
    """Return whether writes were late."""
    return kept.late_p99_s > late_bound_s(kept)


def reads_late(kept: Timekeeping) -> bool:
    """Return whether reads were late, where the kernel tells."""
    return kept.late_reads > LATE_READS


def was_late(kept: Timekeeping) -> bool:
    """Return whether writes or reads were late."""
    return writes_late(kept) or reads_late(kept)


def clock_jumped(kept: Timekeeping) -> bool:
    """Return whether the clock that the kernel stamped arrivals by jumped."""
    return kept.stamps > 0 and kept.clock_jump_s > CLOCK_JUMP_S


def findings(question: Question) -> Iterator[Finding]:
    """Yield the instrument findings; lateness and lag do not count by themselves, only through `weighed`."""
    kept = question.load.timekeeping
    yield _lateness(kept)
    yield _lag(kept)
    yield from _other_profile(question)
    jumped = kept.clock_jump_s > CLOCK_JUMP_S
    unused = "" if kept.stamps else "the kernel stamped no arrival, so none rests on this clock"
    yield Finding(check="instrument.clock", requirement="the clock did not jump",
                  expected=f"<= {CLOCK_JUMP_S * 1e3:g} ms", measured=f"{kept.clock_jump_s * 1e3:.3f} ms",
                  outcome=Outcome.UNCLEAR if jumped else Outcome.PASS, n=kept.stamps, counted=kept.stamps > 0,
                  evidence=EVIDENCE, detail=unused if jumped else "")  # fmt: skip


def _lateness(kept: Timekeeping) -> Finding:
    detail = ""
    if writes_late(kept):
        detail = LATE
    elif not kept.chunks:
        what = "nothing that did not have to wait for a slow client" if kept.waited else "nothing"
        detail = f"it wrote {what}, so nothing is known of its punctuality"
    return Finding(check="instrument.lateness", requirement="we wrote on time (p50, p99, max)",
                   expected=f"p99 <= {late_bound_s(kept) * 1e3:.1f} ms",
                   measured=_shown(kept.late_p50_s, kept.late_p99_s, kept.late_max_s),
                   outcome=Outcome.UNCLEAR if detail else Outcome.PASS, n=kept.chunks, counted=False,
                   evidence=EVIDENCE, detail=detail)  # fmt: skip


def _lag(kept: Timekeeping) -> Finding:
    measured = f"{_shown(kept.lag_p50_s, kept.lag_p99_s, kept.lag_max_s)} of {kept.stamped_share}"
    detail = ""
    if reads_late(kept):
        detail = f"{LATE}; {kept.late_reads:.1%} of its reads were more than 5 ms late"
    elif not kept.stamps:
        detail = "the kernel stamped no arrival, so how late we read is not known; an arrival is our own read"
    elif kept.stamped < KERNEL_STAMPED:
        detail = (f"the kernel stamped {kept.stamped_share} of the arrivals; the others are our own reads, and how "
                  "late those were is not known")  # fmt: skip
    return Finding(check="instrument.lag", requirement="lag of stamped (p50, p99, max)",
                   expected="<= 1% above 5 ms", measured=measured if kept.stamps else "no arrival stamped",
                   outcome=Outcome.UNCLEAR if detail else Outcome.PASS, n=kept.stamps, counted=False,
                   evidence=EVIDENCE, detail=detail)  # fmt: skip


def _shown(p50: float, p99: float, worst: float) -> str:
    return f"{p50 * 1e3:.2f}, {p99 * 1e3:.2f}, {worst * 1e3:.1f} ms"


def _other_profile(question: Question) -> Iterator[Finding]:
    """Yield a finding where the server was told otherwise than the case says, as a person's `serve` may be."""
    asked, told = question.expected.absorber.model_dump(), question.load.profile
    differing = [name for name in asked if name in told and told[name] != asked[name]]
    if differing:
        yield Finding(check="instrument.profile", requirement="the server did as the case says",
                      expected=", ".join(f"{name} {asked[name]}" for name in differing),
                      measured=", ".join(f"{name} {told[name]}" for name in differing), outcome=Outcome.UNCLEAR, n=1,
                      evidence=EVIDENCE, detail="serve with the case's own profile, or judge another case")  # fmt: skip


def _doubtful(question: Question) -> dict[str, str]:
    """Return why this instrument cannot carry a failure, by the beginning of the names of its checks."""
    kept = question.load.timekeeping
    own_reads = kept.stamped < KERNEL_STAMPED
    if clock_jumped(kept):
        return dict.fromkeys(BY_THE_CLOCK, f"our clock jumped; {QUIETER}")
    doubtful, late = {}, f"our own server was late; {QUIETER}"
    if was_late(kept):
        capped = any(part.cap is not None for part in question.parts)
        doubtful = dict.fromkeys((*BY_OUR_WRITES, "rate.") if capped else BY_OUR_WRITES, late)
    else:
        moved = f"{kept.clock_jump_s * 1e3:.4g} ms"
        doubtful = {
            f"concurrency.slots{part.suffix}": f"our clock moved by {moved}, which alone can make this; run again"
            for part in question.parts
            if part.concurrency is not None and _clock_may_be_it(question.trimmed, part.load, part.concurrency)
        }
    if own_reads and kept.worst_s > STANDSTILL * min(map(_span_s, question.parts)):
        doubtful["rate."] = f"we stamped the arrivals ourselves and stood still for {kept.worst_s:.3g} s; {QUIETER}"
    if own_reads:
        doubtful["arrivals."] = (f"the kernel stamped {kept.stamped_share} of the arrivals, and reading late ourselves "
                                 "looks the same; run where the kernel stamps them (Linux, no sandbox)")  # fmt: skip
    return doubtful


def _clock_may_be_it(everything: Load, load: Load, asked: int) -> bool:
    """Return whether the clock's largest jump could hide a peak exactly as asked in this part of the load."""
    low, high = load.peaks_with_clock_off(earlier(everything.requests, load.requests))
    return low <= asked <= high


def _span_s(part: Part) -> float:
    """Return the longer of the measured and the asked span: what is sent all at once has none of its own."""
    requests = part.load.requests
    return max(span_s(requests.start_s), requests.n / part.rate if part.rate else 0.0)


def weighed(found: Iterable[Finding], question: Question) -> Iterator[Finding]:
    """Yield the findings; a failure that may be the instrument's own becomes unclear."""
    doubtful = _doubtful(question)
    for finding in found:
        why = next((why for name, why in doubtful.items() if finding.check.startswith(name)), "")
        if finding.outcome is Outcome.FAIL and why:
            detail = f"would fail, but {why}. {finding.detail}".strip()
            yield msgspec.structs.replace(finding, outcome=Outcome.UNCLEAR, detail=detail)
        else:
            yield finding
