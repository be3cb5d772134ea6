"""rate, where a limit of requests in flight holds it back: asked for as `cap`, or the tool's own.

`rate.cap`: never more in flight than the cap; exact, at any n. A rate that is too low because the cap was reached is
not the tool's fault: unclear. But nothing holds a tool back in the time in which fewer were in flight: where all
requests are too few for that time alone (the interval of `rate`; even ones by 1 %, a late first send and a pause), the
rate fails. So is spacing unclear only where a quarter of all requests filled the last place within 20 ms after an end.
Where no cap was asked for, a rate that is too low because requests wait for others to end is told in words from the
statistic of `load.following`: 8 of 10 of the starts that bring most in flight come within 5 ms after an end, and by
chance no more than 4 of 10 would. Words only: nothing fails by them. Cannot see: a limit that is reached at so high a
rate that there is always an end within 5 ms, or that makes evenly spaced arrivals.
"""

from __future__ import annotations

import math

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.checks import stats
from loadproof.checks.question import Part
from loadproof.checks.wording import verdict_on
from loadproof.load.concurrency import flight
from loadproof.load.evenness import measure_evenness
from loadproof.load.following import AFTER_S, Following, following
from loadproof.verdict import Finding

FOLLOWING, BY_CHANCE, FEWEST_STARTS = 0.8, 0.4, 20

DELAYED = 0.25
"""Of all requests: fewer that are late are below the floors of the findings on spacing."""

TURNAROUND_S = 0.02
"""A place that was waited for is used again within that time: then fewer are in flight, and nobody is to blame."""


def cap_finding(part: Part) -> Finding:
    """Return the finding of a part with a cap."""
    peak, cap, n = part.load.in_flight.peak, part.cap or 0, part.load.requests.n
    return verdict_on(f"rate.cap{part.suffix}", "never more in flight", f"<= {cap}", f"{peak}", right=peak <= cap, n=n,
                      detail=f"{peak} were in flight at once")  # fmt: skip


def held_back(part: Part, declared: Arrival) -> str:
    """Say that the cap made the rate too low, and what would be enough; "" where it did not, or there is none."""
    if part.cap is None or part.rate is None or part.load.in_flight.peak < part.cap:
        return ""
    at_cap, refilled = _time_at(part.cap, part)
    free_s = (1 - at_cap) * part.load.requests.start_s[-1] - refilled * TURNAROUND_S
    if _most_in(free_s, part, declared) < part.rate * (1 - stats.FLOOR):
        return ""
    needed = part.rate * part.load.in_flight.median_latency_s
    enough = max(part.cap + 1, math.ceil(needed + 2 * math.sqrt(needed)))
    return (f"held back by the cap: {part.cap} were in flight for {at_cap:.0%} of the time; a cap of {enough} or a "
            "lower rate is enough")  # fmt: skip


def _most_in(free_s: float, part: Part, declared: Arrival) -> float:
    """Return the largest rate that explains all requests in the time in which nothing held them back."""
    gaps = part.load.requests.n - 1
    if declared.law is not Law.CONSTANT:
        return stats.honest_rate_interval(gaps, free_s, declared.shape, part.alpha).high
    free_s -= stats.LATE_FIRST_S + stats.PAUSE_S
    return gaps / free_s * (1 + stats.FLOOR) if free_s > 0 else math.inf


def delayed(part: Part) -> bool:
    """Whether so many requests waited for a place under the cap that their spacing may be its doing."""
    if part.cap is None or part.load.in_flight.peak < part.cap:
        return False
    requests = part.load.requests
    full = requests.start_ns[flight(requests).levels >= part.cap]
    ends = np.sort(requests.end_ns)
    before = np.searchsorted(ends, full, side="right")
    waited = (before > 0) & (full - ends[np.maximum(before - 1, 0)] <= TURNAROUND_S * 1e9)
    return int(np.count_nonzero(waited)) >= DELAYED * requests.n


def _time_at(cap: int, part: Part) -> tuple[float, int]:
    """Return the share of the time in which so many were in flight, and how many starts made it so many."""
    starts, held = part.load.requests.start_ns, flight(part.load.requests)
    refilled = int(np.count_nonzero(held.levels >= cap))
    if starts[-1] == starts[0]:
        return 1.0, refilled
    return float(held.shares_at(cap, np.array([starts[0], starts[-1]], np.float64))[0]), refilled


def waits_for_others(part: Part) -> str:
    """Say that requests start when others end; "" where they do not, or it cannot be told."""
    seen = following(part.load.requests)
    if seen.starts < FEWEST_STARTS or seen.share < FOLLOWING or seen.by_chance > BY_CHANCE:
        return ""
    # An even schedule, whose gap goes into the latency without a rest, starts when others end and waits for none.
    return "" if measure_evenness(part.load.requests.start_s).median_late_s <= AFTER_S else _words(seen)


def _words(seen: Following) -> str:
    return (f"arrivals follow the ends of replies: never more than {seen.peak} in flight, {seen.share:.0%} of the "
            f"starts that reach {seen.peak} within 5 ms after an end (by chance {seen.by_chance:.0%}); the tool waits "
            "for a free place")  # fmt: skip
