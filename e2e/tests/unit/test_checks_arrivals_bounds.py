"""Does each finding of random spacing turn from pass to fail just where its formula says, in plain loops and scipy?

A deformation of honest arrivals grows from nothing; the verdict at every step must be that of the effect and the bound
as they are computed here, another way. A floor, a level or a tail that moved would turn some step's verdict. Left out:
whether the bounds are right for honest senders (test_error_rates.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats as reference

from loadproof.verdict import Finding, Outcome
from tests.unit import forge, forge_times
from tests.unit.forge import Seconds, ask, journal, rate_case

RATE, N, ALPHA = 20.0, 1000, 1e-6
type Deform = Callable[[float], Seconds]
type Beyond = Callable[[Seconds], float]
"""The effect less its bound: above 0 is a failure."""


def honest(seed: int = 11) -> Seconds:
    return forge_times.poisson(N, RATE, np.random.default_rng(seed))


def settled(times: Seconds) -> Seconds:
    since = times - times[0]
    return np.asarray(since[since >= 1.0])


# gaps: exponential ones to a power, of the same mean


def less_varied(by: float) -> Seconds:
    gaps = np.random.default_rng(1).exponential(1.0, N) ** (1 - by)
    return np.cumsum(gaps / gaps.mean() / RATE)


def gaps_beyond(times: Seconds) -> float:
    gaps = np.diff(settled(times))
    distance = reference.kstest(gaps, reference.expon(scale=gaps.mean()).cdf).statistic
    return float(distance) - math.sqrt(math.log(2 / ALPHA) / 2 / len(gaps)) - 0.10


# counts: seconds with more arrivals and with fewer in turn; or all of them ever nearer to even spacing


def gathered(by: float) -> Seconds:
    rng = np.random.default_rng(2)
    pace = np.where(np.arange(200) % 2, 1 + by, 1 - by)
    counts = reference.poisson(RATE * pace).ppf(rng.random(200)).astype(int)
    places = rng.random((200, 100))
    return np.sort(np.concatenate([k + places[k, :count] for k, count in enumerate(counts)]))


def evened(by: float) -> Seconds:
    return (1 - by) * honest() + by * forge_times.constant(N, RATE)


def windows(times: Seconds) -> list[tuple[float, float, float]]:
    """Return the ratio of the counts' variance to the law's, its degrees of freedom and the width, a width each."""
    after = settled(times)
    found = []
    for width in (1.0, 2.0, 5.0):
        begins = after[0] + width * np.arange(math.floor((after[-1] - after[0]) / width))
        if len(begins) < 20:
            continue
        counts = [np.count_nonzero((after > begin) & (after <= begin + width)) for begin in begins]
        free = (len(counts) - 1) / (1 + 1 / np.mean(counts))
        found.append((float(np.var(counts, ddof=1) / np.mean(counts)), float(free), width))
    return found


def counts_beyond(times: Seconds) -> float:
    found = windows(times)
    level = ALPHA / len(found) / 4
    return max(ratio * free / reference.chi2(free).isf(level) / (2 + 0.001 * RATE / width) - 1
               for ratio, free, width in found)  # fmt: skip


def regular_beyond(times: Seconds) -> float:
    found = windows(times)
    level = ALPHA / len(found) / 4
    return max(0.5 - ratio * free / reference.chi2(free).ppf(level) for ratio, free, _ in found)


# order: each gap resembles the one before


def in_order(by: float) -> Seconds:
    rng = np.random.default_rng(3)
    noise = rng.normal(size=N)
    for k in range(1, N):
        noise[k] = by * noise[k - 1] + math.sqrt(1 - by**2) * noise[k]
    return np.cumsum(reference.expon(scale=1 / RATE).ppf(reference.norm.cdf(noise)))


def order_beyond(times: Seconds) -> float:
    ranks = reference.rankdata(np.diff(settled(times)))
    ranks -= ranks.mean()
    k = len(ranks)
    found = [abs(ranks[lag:] @ ranks[:-lag]) / (ranks @ ranks) for lag in range(1, k // 4 + 1)]
    return float(max(found)) - math.sqrt(2 * math.log(2 * (k // 4) / ALPHA) / k) - 0.2


# trend: a rate that grows evenly


def grown(by: float) -> Seconds:
    even = honest() / honest()[-1]
    share = even if by == 0 else (-(1 - by / 2) + np.sqrt((1 - by / 2) ** 2 + 2 * by * even)) / by
    return np.asarray(share * N / RATE)


def trend_beyond(times: Seconds) -> float:
    after = settled(times)
    places = (after[1:-1] - after[0]) / (after[-1] - after[0])
    k = len(after) - 1
    deviation = math.sqrt(12 * (k + 1) / (k - 1) / (k + 1))
    return abs(12 * (float(places.mean()) - 0.5)) - deviation * math.sqrt(2 * math.log(2 / ALPHA)) - 0.05


# lull: 5 s that have fewer


def thinned(by: float) -> Seconds:
    times, rng = honest(), np.random.default_rng(4)
    return times[(times < 20) | (times > 25) | (rng.random(N) >= by)]


def lull_beyond(times: Seconds) -> float:
    after = settled(times)
    beyond = []
    for width in (2.0, 5.0, 10.0):
        begins = after[after <= after[-1] - width]
        fewest = min(np.count_nonzero((after > begin) & (after <= begin + width)) for begin in begins)
        # k or fewer in a stretch at 80 % of the rate, one of all those that were looked at
        chance = reference.poisson(0.8 * RATE * width).cdf(fewest) * len(begins) * 3 * 2 / ALPHA
        beyond.append(-math.log(max(chance, 1e-300)))
    return max(beyond)


# silence: one gap is longer; burst: one second has more (half of the level: the other half is that of crowds)


def silent(by: float) -> Seconds:
    return honest() + by * (np.arange(N) >= 500)


def silence_beyond(times: Seconds) -> float:
    return float(np.diff(times).max()) - math.log(2 * (len(times) - 1) / ALPHA) / RATE - 0.25


def rushed(by: float) -> Seconds:
    return np.sort(np.concatenate([honest(), 20 + np.linspace(0, 0.9, round(by))]))


def burst_beyond(times: Seconds) -> float:
    most = max(np.count_nonzero((times >= begin) & (times < begin + 1)) for begin in times)
    chance = reference.poisson(1.4 * RATE).sf(most - 2) * len(times) * 4 / ALPHA  # most - 1 or more after the first
    return -math.log(max(float(chance), 1e-300))


def crowded(by: float) -> Seconds:
    return np.sort(np.concatenate([honest(), 20 + np.linspace(0, 0.004, round(by))]))


def crowd_beyond(times: Seconds) -> float:
    after = settled(times)
    gaps = np.diff(after, prepend=after[0] - 0.5)
    beyond = []
    for at, begin in enumerate(after):
        held_s = sum(sorted(gaps[: at + 1][after[: at + 1] >= begin - 0.5])[-2:])
        for width in (0.005, 0.02):
            more = np.count_nonzero((after >= begin) & (after < begin + width)) - 1
            chance = reference.gamma.cdf(1.1 * RATE * (held_s + width + 0.003), more) if more else 1.0
            beyond.append(-math.log(max(chance * len(after) * 8 / ALPHA, 1e-300)))
    return float(max(beyond))


# lattice: a share of arrivals on ticks, or of seconds with one at their begin


def ticking(by: float) -> Seconds:
    times = honest()
    on = np.random.default_rng(5).random(N) < by
    return np.sort(np.where(on, np.ceil(times * 25) / 25, times))


def ticks_beyond(times: Seconds) -> float:
    since = times[1:] - times[0]
    since = since[since < math.floor(since[-1])]
    periods = [p / 1000 for p in (1, 2, 4, 5, 8, 10, 20, 25, 40, 50, 100, 125, 200, 250, 500, 1000)]
    found = [abs(np.exp(2j * np.pi * since / period).mean()) for period in periods if period * RATE >= 0.05]
    return float(max(found) - math.sqrt(math.log(2 * 16 / ALPHA) / len(since)) - 0.3)


def placed(by: float) -> Seconds:
    """One arrival more at the same moment of some seconds."""
    times = honest()
    seconds = np.arange(1, math.floor(times[-1]))
    return np.sort(np.concatenate([times, seconds[np.random.default_rng(6).random(len(seconds)) < by] + 0.5]))


def places_beyond(times: Seconds) -> float:
    since = times[1:] - times[0]
    seconds = math.floor(since[-1])
    ms = np.unique((since[since < seconds] * 1000).astype(int))
    beyond = []
    for width in (2, 4):
        hits = [0] * 1000
        for begin in {int(one) - back for one in ms for back in range(width)}:
            hits[begin % 1000] += 1
        # Clopper and Pearson's lower end at a quarter of 1 in 1,000 of the level, above what chance makes
        low = reference.beta(max(hits), seconds - max(hits) + 1).ppf(ALPHA / 4 / 1000)
        beyond.append(low - (1 - math.exp(-RATE * width / 1000)) - 0.1)
    return float(max(beyond))


PAIRS: dict[str, tuple[str, Deform, Beyond, float]] = {
    "gaps": ("gaps", less_varied, gaps_beyond, 0.9),
    "counts": ("counts", gathered, counts_beyond, 0.9),
    "regular": ("counts", evened, regular_beyond, 0.9),
    "order": ("order", in_order, order_beyond, 0.95),
    "trend": ("trend", grown, trend_beyond, 1.5),
    "lull": ("lull", thinned, lull_beyond, 1.0),
    "silence": ("silence", silent, silence_beyond, 2.5),
    "burst": ("burst", rushed, burst_beyond, 60.0),
    "crowd": ("burst", crowded, crowd_beyond, 30.0),
    "ticks": ("lattice", ticking, ticks_beyond, 1.0),
    "places": ("lattice", placed, places_beyond, 1.0),
}


def judged(times: Seconds) -> dict[str, Finding]:
    return ask(rate_case(len(times), RATE, "poisson"), journal(times, tokens=1, kernel=True))


@pytest.mark.parametrize("pair", PAIRS)
def test_the_verdict_turns_where_the_plain_formula_does(pair: str) -> None:
    check, deform, beyond, most = PAIRS[pair]
    low, high = 0.0, most
    assert beyond(deform(low)) < 0 < beyond(deform(high))
    for _ in range(14):  # ever nearer to where it turns
        middle = (low + high) / 2
        times = deform(middle)
        excess = beyond(times - times[0])
        assert judged(times)[f"arrivals.{check}"].outcome is (Outcome.FAIL if excess > 0 else Outcome.PASS), middle
        low, high = (low, middle) if excess > 0 else (middle, high)
    assert judged(deform(0.0))[f"arrivals.{check}"].outcome is Outcome.PASS
    assert judged(deform(most))[f"arrivals.{check}"].outcome is Outcome.FAIL


@pytest.mark.parametrize("stages", [2, 5])
def test_stages_share_the_level(stages: int) -> None:
    rng, length = np.random.default_rng(6), N / RATE + 5
    times = np.concatenate([forge_times.fixed_span(N, RATE, rng) + k * length for k in range(stages)])
    asked = forge.case({"mode": "stages", "stages": [{"rate": RATE, "duration_s": N / RATE, "gap_s": 5}] * stages},
                       workload={"num_requests": N * stages}, arrival="fixed-span")  # fmt: skip
    found = ask(asked, journal(times, tokens=1, kernel=True))
    for stage in range(1, stages + 1):
        gaps = found[f"arrivals.gaps[{stage}]"]
        bound = 0.10 + math.sqrt(math.log(2 * stages / ALPHA) / 2 / gaps.n)
        assert (gaps.outcome, gaps.expected) == (Outcome.PASS, f"distance <= {bound:.3f}")
