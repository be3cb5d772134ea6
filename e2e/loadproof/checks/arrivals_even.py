"""arrivals, declared constant: were evenly spaced requests really evenly spaced?

Null hypothesis: an honest sender of one request every 1/rate seconds, whose first one is up to 0.3 s late and which
pauses up to 0.1 s (docs/statistics.md: arrivals, constant). Bounds, no law: no alarm in the honest runs of the tests.
- even: the median residual from the half-lag line is at most max(5 ms, 0.1/rate), the upper quartile at most twice
  that; honest senders reach 2.3 and 2.5 ms, groups and random gaps tens of ms; from 50 arrivals after the first second
  on. p90 and the worst are told, not judged (an honest p90 reaches 34 ms).
- halves: the half-lag rates of the two halves of the arrivals after the first second differ by at most 2 %; honest
  0.8 %; from 50 of them and an asked span of 4 s on.
- silence: no gap longer than 1/rate + 0.25 s, at any n.
- burst: no stretch has more requests than the rate makes in it and 0.5 s more: what a late first send (0.3 s) and
  pauses (0.1 s, twice) leave to catch up; honest 0.4 s. The rate is here 5 % more than the fastest of the asked one and
  those of the halves, so that a rate that is wrong is no burst. At any n. The first second is in it.
Cannot see: groups within 5 ms or a tenth of a gap, a burst of less than 0.5 s of requests,
a quarter of the requests that are late.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from loadproof.arrival import SMALLEST_N
from loadproof.checks.question import NOTHING, Part
from loadproof.checks.spacing import Spaced
from loadproof.checks.stats_counts import surplus
from loadproof.load.evenness import Evenness, measure_evenness
from loadproof.verdict import Finding

SMALLEST_SPAN_S = 4.0
QUARTER = 2.0  # the bound of the upper quartile, in that of the median
HALVES = 0.02
SILENCE_S = 0.25
CATCH_UP_S = 0.5
FASTER = 1.05


def findings(part: Part) -> Iterator[Finding]:
    """Yield the findings of a part whose requests are declared to be evenly spaced."""
    spaced = Spaced(part)
    measured = measure_evenness(spaced.times)
    yield _even(spaced, measured)
    yield _halves(spaced, measured)
    yield _silence(spaced, measured)
    yield _burst(spaced, measured)


def _even(spaced: Spaced, measured: Evenness) -> Finding:
    check, requirement, bound = "even", "evenly spaced (residual p50, p75)", max(0.005, 0.1 / spaced.rate)
    if measured.n < SMALLEST_N:
        few = f"{measured.n} arrivals after the first second cannot show how even they were; {SMALLEST_N} are enough"
        return spaced.unclear(check, requirement, few, n=measured.n)
    late = f"{measured.median_late_s * 1e3:.1f}, {measured.p75_late_s * 1e3:.1f} ms"
    allowed = f"{bound * 1e3:.1f}, {QUARTER * bound * 1e3:.1f} ms"
    detail = f"p90 {measured.p90_late_s * 1e3:.1f} ms, worst {measured.worst_late_s * 1e3:.0f} ms off the line"
    return spaced.finding(check, requirement, f"<= {allowed}", late, seen=allowed, n=measured.n, detail=detail,
                          wrong=measured.median_late_s > bound or measured.p75_late_s > QUARTER * bound)  # fmt: skip


def _halves(spaced: Spaced, measured: Evenness) -> Finding:
    check, requirement, first, second = (
        "halves",
        "both halves at one rate",
        measured.first_half_rate,
        measured.second_half_rate,
    )
    # After the first second: so many that 50 are left.
    if few := spaced.too_few(SMALLEST_N + math.ceil(spaced.rate), SMALLEST_SPAN_S):
        return spaced.unclear(check, requirement, few, n=measured.n)
    if not (0 < first < math.inf and 0 < second < math.inf):
        return spaced.unclear(check, requirement, "nearly all requests came in one second, so there are no halves")
    change = second / first - 1
    return spaced.finding(check, requirement, f"within {HALVES:.0%}", f"{change:+.2%}", wrong=abs(change) > HALVES,
                          seen=f"{HALVES:.0%}", n=measured.n,
                          detail=f"{first:.4g}/s in the first half, {second:.4g}/s in the second")  # fmt: skip


def _silence(spaced: Spaced, measured: Evenness) -> Finding:
    check, requirement, bound = "silence", "no silence", 1 / spaced.rate + SILENCE_S
    if spaced.n < 2:
        return spaced.unclear(check, requirement, "one request has no gap" if spaced.n else NOTHING)
    return spaced.finding(check, requirement, f"<= {bound:.3f} s", f"{measured.longest_gap_s:.3f} s",
                          wrong=measured.longest_gap_s > bound, seen=f"{bound:.3f} s",
                          detail="the tool stopped sending for a while")  # fmt: skip


def _burst(spaced: Spaced, measured: Evenness) -> Finding:
    check, requirement, bound = "burst", "no more at once than the rate", CATCH_UP_S * spaced.rate + 1
    if spaced.n < 2:
        return spaced.unclear(check, requirement, "one request is no burst" if spaced.n else NOTHING)
    rates = (spaced.rate, measured.first_half_rate, measured.second_half_rate)
    more, begin, end = surplus(spaced.times, FASTER * max(rate for rate in rates if rate < math.inf))
    return spaced.finding(check, requirement, f"<= {bound:.4g} too many", f"{more:.4g}", wrong=more > bound,
                          seen=f"{bound:.4g} requests",
                          detail=f"{more:.4g} more than the rate makes, from {begin:.2f} to {end:.2f} s")  # fmt: skip
