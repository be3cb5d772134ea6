"""What does a stage look like that is not what was asked: missing, too short, too long, another's?

Words for a finding that has failed, from the stage's own number, span and rate beside those of the others. Left out: a
judgement; the spacing within a stage (`looks`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadproof.load.arrivals import end_point_rate, span_s

if TYPE_CHECKING:
    from loadproof.checks.parts import Part

ALIKE = 0.15
"""Two rates, or two lengths, are taken for the same up to this."""


def stage_looks_like(part: Part, parts: Sequence[Part]) -> str:
    """Return what a stage with a rate looks like; "" where it stands for nothing that can be named."""
    times = part.load.requests.start_s
    if part.rate is None or len(parts) == 1:
        return ""
    if not len(times):
        return "no request came in this stage"
    if (at := _seen(part)) is None:
        return ""
    if not _alike(at, part.rate):
        others = [other for other in parts if other is not part and other.rate and _alike(at, other.rate)]
        return _anothers(part, others[0], at) if others else ""
    asked_s = part.duration_s or (part.n or 0) / part.rate
    lasted_s = span_s(times) + 1 / part.rate
    if _alike(lasted_s, asked_s):
        return ""
    wrong = "short" if lasted_s < asked_s else "long"
    return f"it is too {wrong}: {lasted_s:.3g} s at the asked rate, not {asked_s:.3g} s"


def _anothers(part: Part, other: Part, at: float) -> str:
    swapped = part.rate is not None and (back := _seen(other)) is not None and _alike(back, part.rate)
    rate = f"{at:.3g}/s is the rate of stage {other.suffix[1:-1]}"
    return f"{rate}, and the other way round: are they swapped?" if swapped else rate


def _seen(part: Part) -> float | None:
    times = part.load.requests.start_s
    return end_point_rate(times) if span_s(times) > 0 else None


def _alike(one: float, other: float) -> bool:
    return abs(one / other - 1) <= ALIKE
