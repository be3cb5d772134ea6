"""arrivals.lattice: do requests that should come at any time keep to ticks, or one of each second to its place?

The part of `arrivals_random` (hypothesis, floors, level, what cannot be seen) that has two statistics: R for 16 periods
and the share of seconds with an arrival at one place, both in whole seconds after the first arrival, at half of the
level each. A tick is a timer's; a place in the second is that of a schedule that is fitted into whole seconds.
"""

from __future__ import annotations

import math

from loadproof.checks import stats_lattice
from loadproof.checks.spacing import Spaced
from loadproof.checks.stats import Z_POWER
from loadproof.verdict import Finding

TICK, EDGE = 0.3, 0.10
CHECK, REQUIREMENT = "lattice", "on no ticks, at no fixed place"


def lattice(spaced: Spaced, shape: float) -> Finding:
    """Return the finding of a part of enough requests."""
    ticks = stats_lattice.ticks(spaced.times, spaced.rate, shape, spaced.alpha)
    edges = stats_lattice.edges(spaced.times, spaced.rate, shape)
    if not edges:
        return spaced.unclear(
            CHECK, REQUIREMENT, "all requests came within a second, so none can be compared with the next"
        )
    needed = {edge.width_ms: stats_lattice.fewest_hits(edge, EDGE, spaced.alpha) for edge in edges}
    edge = max(edges, key=lambda e: e.hits - needed[e.width_ms])
    placed = edge.hits >= needed[edge.width_ms]
    told = [f"{edge.hits} of {edge.seconds} s at one place"]
    widest = max(needed)  # an honest sender's jitter of 3 ms is within it
    visible = _visible(needed[widest], edge.seconds)
    seen = [f"{visible} of {edge.seconds} s"] if visible <= edge.seconds else []
    where = (f"{edge.hits} of {edge.seconds} seconds have an arrival within {edge.width_ms} ms at {edge.at_s:.3f} s of "
             f"the second (by chance {edge.chance:.0%})")  # fmt: skip
    detail = [where] if placed else []
    ticking = False
    if ticks:
        tick = max(ticks, key=lambda t: (t.resultant - t.noise > TICK, t.resultant - t.noise))
        ticking = tick.resultant - tick.noise > TICK
        told.insert(0, f"R {tick.resultant:.2f} at {tick.period_ms} ms")
        # R has a standard deviation of at most 1 / sqrt(2 n).
        seen.insert(0, f"R {TICK + tick.noise + 0.9 / math.sqrt(spaced.n):.2f}")
        detail += [f"arrivals keep to ticks of {tick.period_ms} ms (R {tick.resultant:.2f})"] if ticking else []
    return spaced.finding(CHECK, REQUIREMENT, "any time", ", ".join(told), wrong=ticking or placed,
                          seen=", ".join(seen) or "nothing", detail="; ".join(detail))  # fmt: skip


def _visible(hits: int, seconds: int) -> int:
    """Return how many seconds must have an arrival at one place so that 9 of 10 runs show `hits` of them."""
    share = min(1.0, hits / seconds)
    return math.ceil(hits + Z_POWER * math.sqrt(seconds * share * (1 - share)))
