"""arrivals, declared poisson, gamma or fixed-span: are gaps independent draws of the declared law?

Null hypothesis: an honest sender (first request up to 0.3 s late, pauses up to 0.1 s, jitter of 3 ms) of a schedule
with gamma gaps of the declared shape a (1: exponential) at the asked rate. A fixed span has the same gaps rescaled,
which the statistics, relative to their own mean, do not notice. Each finding fails when the lower confidence bound of
an effect, at 1e-6, is beyond its floor (`stats_gaps`, `stats_counts`, `stats_lattice`; docs/statistics.md: arrivals):
- gaps: Kolmogorov's distance from the law, floor 0.10 and what jitter alone makes at this rate and shape.
- counts: variance of counts in windows (1, 2 and 5 s, or as `window_s` says) over the law's; floors 2 and 0.5, above
  also what pauses move from one window to the next.
- order: largest rank correlation of gaps at lags up to a quarter of them, floor 0.2 and what jitter makes.
- silence: longest gap beyond the law's, floor 0.25 s. burst: rate of the busiest second, floor 40 % above the asked;
  and of the fullest 5 or 20 ms beside the silence that came before them, floor 10 %.
- lull: rate of the emptiest 2, 5 or 10 s, floor 20 % below the asked.
- trend: Laplace's, floor 0.05 (the rate grows by 5 % of its mean from the first to the last arrival).
- lattice: R on ticks of 1 ms to 1 s (16 periods), floor 0.3; share of seconds with an arrival within 2 or 4 ms of it,
  floor 0.10 above chance.
gaps, counts, order, trend and lull look at arrivals after the first second. Smallest n: 200, and 100/a, in an asked
span of 10 s; silence and burst, which are exact, from 2. False alarms below 1e-6 by exact laws or tail bounds, each
measured to be conservative at 1e-2 and 1e-3; the gaps' jitter and the pauses are bounds, no law. Cannot see: ticks far
shorter than a gap, one place in the second at 1000/s and more, a drift of 15 % below n = 29,000, anything of how gaps
far shorter than the jitter were meant to be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.checks import stats_counts, stats_gaps, stats_lulls
from loadproof.checks.arrivals_ticks import lattice
from loadproof.checks.question import NOTHING, Part
from loadproof.checks.spacing import Spaced
from loadproof.checks.stats import LATE_FIRST_S, PAUSE_S, Z_POWER
from loadproof.checks.stats_jitter import jitter_of
from loadproof.load.arrivals import Seconds
from loadproof.verdict import Finding

SMALLEST_N, SMALLEST_N_OF_SHAPE, SMALLEST_SPAN_S = 200, 100, 10.0
GAPS = 0.10
CLUSTERED, REGULAR = 2.0, 0.5
PAUSED = 1e-3
"""Of the variance, per request a second: a pause moves up to 0.1 s of requests over a window's end."""
ORDER = 0.2
SILENCE_S = 0.25
BURST = LATE_FIRST_S + PAUSE_S  # of a second: what an honest sender may have to catch up
TREND = 0.05
LULL = 0.2
CROWD = 0.1


def findings(part: Part, declared: Arrival) -> Iterator[Finding]:
    """Yield the findings of a part whose requests are declared to have gamma gaps."""
    spaced, shape = Spaced(part), declared.shape
    settled = spaced.settled
    few = spaced.too_few(max(SMALLEST_N, math.ceil(SMALLEST_N_OF_SHAPE / shape)), SMALLEST_SPAN_S)
    if not few and not settled[-1] > settled[0]:
        few = "all requests came at one instant, so nothing can be said of how they are spaced"
    if few:
        for check, requirement in (("gaps", _law(declared)), *REQUIREMENTS.items()):
            yield spaced.unclear(check, requirement, few)
    else:
        gaps = np.diff(settled)
        yield _gaps(spaced, gaps, declared)
        yield _counts(spaced, settled, shape)
        yield _order(spaced, gaps, shape)
        yield _trend(spaced, settled, shape)
        yield _lull(spaced, settled, shape)
        yield lattice(spaced, shape)
    yield from _extremes(spaced, shape)


REQUIREMENTS = {
    "counts": "as many clusters as by the law", "order": "gaps in no order", "trend": "one rate throughout",
    "lull": "no stretch with too few", "lattice": "on no ticks, at no fixed place",
}  # fmt: skip


def _law(declared: Arrival) -> str:
    rescaled = ", rescaled" if declared.law is Law.FIXED_SPAN else ""
    return f"exponential gaps{rescaled}" if declared.shape == 1 else f"gamma({declared.shape:g}) gaps{rescaled}"


def _gaps(spaced: Spaced, gaps: Seconds, declared: Arrival) -> Finding:
    k, shape = len(gaps), declared.shape
    floor, noise = GAPS + jitter_of(spaced.rate, shape).distance, stats_gaps.dkw(k, spaced.alpha)
    distance = stats_gaps.gaps_distance(gaps, shape)
    seen = floor + noise + Z_POWER / 2 / math.sqrt(k)  # a share has a standard deviation of at most 1 / (2 sqrt k)
    return spaced.finding("gaps", _law(declared), f"distance <= {floor + noise:.3f}", f"{distance:.3f}",
                          wrong=distance - noise > floor, seen=f"{seen:.2f} of the gaps", n=k,
                          detail=f"{distance:.0%} of the gaps are longer or shorter than by the law")  # fmt: skip


def _counts(spaced: Spaced, settled: Seconds, shape: float) -> Finding:
    found = stats_counts.dispersions(settled, shape, spaced.alpha)
    judged = []
    for ratio, interval, windows in found:
        ceiling = CLUSTERED + PAUSED * shape * spaced.rate / windows.width_s
        judged.append((max(interval.low / ceiling, REGULAR / max(interval.high, 1e-12)), ratio, ceiling, windows))
    beyond, ratio, ceiling, windows = max(judged, key=lambda one: one[0])
    reach = stats_counts.ratio_visible(windows.freedom, windows.alpha)
    detail = f"counts in windows of {windows.width_s:.3g} s vary {ratio:.3g} times as much as by the law"
    return spaced.finding("counts", REQUIREMENTS["counts"], f"{REGULAR:g} to {ceiling:.3g} x the law's",
                          f"{ratio:.3g} x in {windows.width_s:.3g} s", wrong=beyond > 1, n=windows.count, detail=detail,
                          seen=f"x {REGULAR * reach.low:.2g} or x {ceiling * reach.high:.2g}")  # fmt: skip


def _order(spaced: Spaced, gaps: Seconds, shape: float) -> Finding:
    k = len(gaps)
    correlation, lag = stats_gaps.order_correlation(gaps)
    floor, noise = ORDER + jitter_of(spaced.rate, shape).correlation, stats_gaps.order_noise(k, spaced.alpha)
    found = f"{correlation:+.2f} at lag {lag}"
    return spaced.finding("order", REQUIREMENTS["order"], f"|rank corr.| <= {floor + noise:.2f}", found,
                          wrong=abs(correlation) - noise > floor, n=k,
                          seen=f"{floor + noise + Z_POWER / math.sqrt(k):.2f}",
                          detail=f"gaps are not independent: rank correlation {found}")  # fmt: skip


def _trend(spaced: Spaced, settled: Seconds, shape: float) -> Finding:
    k, drift = len(settled) - 1, stats_counts.trend(settled)
    noise = stats_counts.trend_noise(k, shape, spaced.alpha)
    seen = TREND + noise + Z_POWER * stats_counts.trend_deviation(k, shape)
    return spaced.finding("trend", REQUIREMENTS["trend"], f"drift within {TREND + noise:.1%}", f"{drift:+.1%}",
                          wrong=abs(drift) - noise > TREND, n=k + 1, seen=f"{seen:.1%}",
                          detail=f"the rate drifts by {drift:+.0%} from the first arrival to the last")  # fmt: skip


def _extremes(spaced: Spaced, shape: float) -> Iterator[Finding]:
    """Yield silence and burst: exact, so that two requests are enough."""
    n, rate, alpha = spaced.n, spaced.rate, spaced.alpha
    requirements = {"silence": "no silence", "burst": "no second busier than by the law"}
    if n < 2:
        for check, requirement in requirements.items():
            yield spaced.unclear(check, requirement, "one request has no gap" if n else NOTHING)
        return
    gaps = np.diff(spaced.times)
    longest = stats_gaps.longest_honest_gap(n - 1, shape, alpha) / rate + SILENCE_S
    yield spaced.finding("silence", requirements["silence"], f"<= {longest:.3f} s", f"{float(gaps.max()):.3f} s",
                         wrong=float(gaps.max()) > longest, seen=f"{longest:.3f} s",
                         detail="the tool stopped sending for a while")  # fmt: skip
    yield _burst(spaced, shape, requirements["burst"])


def _burst(spaced: Spaced, shape: float, requirement: str) -> Finding:
    """Return the finding of the busiest second, and of the fullest moment that no silence before it explains."""
    n, rate, alpha = spaced.n, spaced.rate, spaced.alpha / 2
    busiest, at = stats_counts.busiest_second(spaced.times)
    most = stats_counts.most_in_a_second((1 + BURST) * rate, n, shape, alpha)
    crowd = max(stats_lulls.crowds(spaced.settled, shape, alpha), key=lambda one: one.rate)
    crowded = crowd.rate > (1 + CROWD) * rate
    told = f"{crowd.events} within {crowd.width_s * 1e3:g} ms at {crowd.at_s:.2f} s" if crowded else ""
    rush = f"{busiest} requests in the second from {at:.2f} s on" if busiest > most else ""
    return spaced.finding("burst", requirement, f"<= {most} in a second", f"{busiest} at {at:.1f} s",
                          wrong=crowded or busiest > most, seen=f"{most + 1} in a second",
                          detail="; ".join(filter(None, (rush, told))))  # fmt: skip


def _visible(events: int, shape: float) -> float:
    """Return the mean of a stretch that has at most so many in 9 of 10 runs."""
    return max(0.0, events - Z_POWER * math.sqrt(max(events, 0) / shape))


def _lull(spaced: Spaced, settled: Seconds, shape: float) -> Finding:
    check, requirement = "lull", REQUIREMENTS["lull"]
    found = stats_lulls.emptiest(settled, shape, spaced.alpha)
    if not found:
        return spaced.unclear(check, requirement, "nearly all requests came within 2 s, so there is no other stretch")
    worst = min(found, key=lambda one: one.rate)
    slow = (1 - LULL) * spaced.rate
    fewest = stats_lulls.fewest_in(worst.width_s, slow, len(settled), shape, spaced.alpha)
    return spaced.finding(check, requirement, f">= {fewest} in {worst.width_s:g} s", f"{worst.events}",
                          wrong=worst.events < fewest, seen=f"{_visible(fewest - 1, shape):.0f} in {worst.width_s:g} s",
                          n=len(settled), detail=f"{worst.events} requests in the {worst.width_s:g} s from "
                          f"{worst.at_s:.1f} s on")  # fmt: skip
