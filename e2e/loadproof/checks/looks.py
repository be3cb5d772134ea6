"""What do these arrivals look like, in words?

For the detail of a finding that failed: a person reads "arrivals come in groups of 10" faster than a distance of 0.6.
Each kind is a function of times alone that says a clause or nothing; only what stands far out of chance is said, so an
honest sender of a law looks like its law and nothing else. In order: when (silences, a rush at the start, another rate
in the second half), how many times the asked rate, then how they are spaced: groups, even, ticks, gaps (`looks_gaps`).
Nothing rests on these words. Left out: whether any of it is wrong.
"""

from __future__ import annotations

import math

import numpy as np

from loadproof.checks.looks_gaps import spacing
from loadproof.load.arrivals import Seconds, end_point_rate, span_s

FEWEST = 20
MOST = 50_000  # arrivals whose spacing is looked at: the first ones, as many say as much
CLAUSES = 3
FEW = 0.02  # of the gaps: more silences than that are no silences
SURE = 6.0  # standard deviations: less could be chance


def looks_like(times_s: Seconds, rate: float) -> str:
    """Say in a clause what arrivals look like that were asked for at `rate` a second; "" when nothing can be said.

    `times_s` is float64[n], ascending, seconds since the first one.
    """
    if len(times_s) < FEWEST:
        return ""
    if span_s(times_s) <= 0.01 * len(times_s) / rate:
        return f"all {len(times_s)} within {span_s(times_s):.2g} s"
    said = [clause for kind in (_silence, _rush) if (clause := kind(times_s, rate))]
    # Each of these changes the rate of a half, and a rate that changes is no multiple.
    said = said or [clause for clause in (_change(times_s) or _multiple(times_s, rate),) if clause]
    said += spacing(_settled(times_s, rate)[:MOST], rate)
    return ", ".join(said[:CLAUSES])


def _settled(times: Seconds, rate: float) -> Seconds:
    """Return the arrivals after the first second, or all where these are fewer than half."""
    after = times[times >= 1.0]
    return after if len(after) >= max(FEWEST, 0.5 * len(times)) and rate else times


def _silence(times: Seconds, rate: float) -> str:
    gaps = np.diff(times)
    typical = max(1 / rate, span_s(times) / len(times))
    longer = min(4.0, max(1.0, _varied(_usual(gaps))) ** 2)  # the longest of gamma gaps grows with 1 / shape
    longest = 0.25 + (math.log(len(gaps)) + 14) * min(typical, 4 / rate) * longer
    silent = np.flatnonzero(gaps > longest)
    if not len(silent) or len(silent) > FEW * len(gaps):
        return ""
    at = silent[gaps[silent].argmax()]
    again = f" ({len(silent)} such silences)" if len(silent) > 1 else ""
    return f"nothing was sent for {gaps[at]:.3g} s, from {times[at]:.1f} s on{again}"


def _rush(times: Seconds, rate: float) -> str:
    """Say how many came at once at the start, unless as many come at once later, too."""
    fast, varied = max(rate, end_point_rate(times)), max(1.0, _varied(_usual(np.diff(times))))
    for stretch in (0.1, 1.0):
        first = int(np.searchsorted(times, stretch))
        # A late first send makes up for 0.3 s, and a pause for a little more.
        if first <= fast * (stretch + 0.5) + SURE * varied * math.sqrt(fast * (stretch + 0.5)) + 1:
            continue
        later = times[first:]
        most = np.searchsorted(later, later + stretch) - np.arange(len(later))
        if not len(later) or first > 2 * int(most.max()):
            return f"{first} arrivals in the first {stretch:g} s: a burst at the start"
    return ""


def _usual(gaps: Seconds) -> Seconds:
    return gaps[gaps <= np.quantile(gaps, 1 - FEW)]


def _varied(gaps: Seconds) -> float:
    """Return how much gaps vary, in means: gaps that vary more make counts vary more."""
    return float(gaps.std() / max(gaps.mean(), 1e-9))


def _change(times: Seconds) -> str:
    """Say when the second half, of the arrivals or of the time, is faster or slower, and whether little by little."""
    quarters = np.histogram(times, bins=4)[0].astype(float)
    first, second = quarters[:2].sum(), quarters[2:].sum()
    middle = float(times[len(times) // 2])
    ratios = [second / max(first, 1), middle / max(float(times[-1]) - middle, 1e-9)]
    ratio = max(ratios, key=lambda one: abs(math.log(max(one, 1e-9))))
    deviation = max(0.3, _varied(np.diff(times))) * 2 / math.sqrt(len(times))  # of the ratio's logarithm
    if 0.83 < ratio < 1.2 or abs(math.log(max(ratio, 1e-9))) < SURE * deviation:
        return ""
    pace = f"{_times_as(ratio, max(0.05, 2 * deviation))} in the second half"
    steps = np.diff(quarters) * math.copysign(1, ratio - 1)
    steady = bool(np.all(steps > 0)) and steps.max() < 0.6 * steps.sum()
    growing = ("faster and faster" if ratio > 1 else "slower and slower") + ": "
    return (growing if steady else "") + pace


def _times_as(ratio: float, unsure: float) -> str:
    if abs(ratio / 2 - 1) < unsure:
        return "twice as fast"
    if abs(ratio * 2 - 1) < unsure:
        return "half as fast"
    return f"{ratio:.2g} times as fast"


def _multiple(times: Seconds, rate: float) -> str:
    """Say when the rate is a whole multiple of the asked one, or a whole part of it."""
    seen = end_point_rate(times)
    by_chance = SURE * max(0.3, _varied(np.diff(times))) / math.sqrt(len(times))  # of the ratio's logarithm
    noise = max(0.02, by_chance)
    for ratio, words in ((seen / rate, "{} times the asked rate: do {} senders each send all of it?"),
                         (rate / seen, "1/{} of the asked rate: does one of {} senders send?")):  # fmt: skip
        whole = round(ratio)
        if 2 <= whole <= 64 and math.log(ratio) > by_chance and abs(ratio / whole - 1) < min(noise, 0.3 / whole):
            return words.format(whole, whole)
    return ""
