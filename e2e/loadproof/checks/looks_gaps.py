"""How are arrivals spaced, in words: in groups, evenly, on ticks, or as gaps of some law?

The part of `looks` that looks at gaps. The first kind that fits is said, because the others follow from it (even
spacing is on ticks, too), and then what gaps do in their order. Left out: when arrivals came.
"""

from __future__ import annotations

import numpy as np

from loadproof.checks.looks_ticks import keeps_to
from loadproof.checks.stats_gaps import gaps_distance, mid_ranks
from loadproof.checks.stats_lattice import Edge, edge_effect, edges
from loadproof.load.arrivals import Seconds
from loadproof.load.labels import Bools

type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

SHAPES = 2.0 ** np.arange(-3, 7.25, 0.25)
LIKE = 0.08  # so much of the gaps' law may differ from one that they look like
PACE, PACE_S = 0.05, 4.0  # another pace in the end than at first, in gaps; a late first send is made up for sooner
AGAIN = "the same gaps come again"
MOST_REPEATS = 20  # lags that are looked at
MOSTLY_AGAIN = 0.9  # of the largest correlation
SURELY = 1e-6
MOST_OF_A_LAW = 20.0  # mean gaps: longer is a silence, not a gap


def spacing(times: Seconds, rate: float) -> list[str]:
    """Return what can be said of the spacing of arrivals (float64[n], seconds, ascending, n >= 20)."""
    gaps = np.diff(times)
    if not gaps.max() > 0:
        return []
    if grouped := _groups(times, gaps):
        return [grouped]
    if even := _even(times, gaps, rate):
        return [even]
    ordered, independent = _order(gaps)
    # Gaps that come again are on ticks and at places of the second, too.
    placed = "" if AGAIN in ordered else keeps_to(times, rate) or _placed(times, rate)
    clustered = "" if placed else _clusters(times, gaps)
    law = "" if clustered else _law(gaps[gaps < MOST_OF_A_LAW * gaps.mean()], drawn=independent and not placed)
    return [clause for clause in (placed, clustered, ordered, law) if clause]


def _sizes(gaps: Seconds) -> tuple[Ints, Ints]:
    """Return where groups begin and the sizes of those that are whole, if most arrivals are in groups; else nothing."""
    near = gaps < _within(gaps)
    begins = np.flatnonzero(np.concatenate([[True], ~near]))
    sizes = np.diff(begins)[1:]  # the first group may be cut, and the last is
    if near.mean() < 0.4 or len(sizes) < 5 or np.median(sizes) < 2:
        return begins[:0], sizes[:0]
    return begins, sizes


def _groups(times: Seconds, gaps: Seconds) -> str:
    """Say the size of groups if most of them have the same."""
    begins, sizes = _sizes(gaps)
    values, counts = np.unique(sizes, return_counts=True)
    if not len(sizes) or counts.max() < 0.5 * len(sizes):
        return ""
    usual = int(values[counts.argmax()])
    between = np.diff(times[begins])
    spread = np.quantile(between, 0.9) - np.quantile(between, 0.1)
    every = f", one every {_ms(float(np.median(between)))}" if spread < 0.2 * np.median(between) else ""
    return f"arrivals come in groups of {usual}{' (pairs)' if usual == 2 else ''}{every}"


def _clusters(times: Seconds, gaps: Seconds) -> str:
    """Say that groups have several sizes, if they are larger than those of chance."""
    _, sizes = _sizes(gaps)
    if len(sizes) * 20 > len(times) * 9:
        return ""
    low, high = np.quantile(sizes, [0.1, 0.9]).astype(int).tolist() if len(sizes) else (0, 0)
    return f"arrivals come in groups, of {low} to {high}" if high > 2 else ""


def _within(gaps: Seconds) -> float:
    """Return up to which gap two arrivals are in one group: where sorted gaps leap, else a tenth of the mean."""
    tenth = 0.1 * float(gaps.mean())
    inner = np.sort(gaps)[int(0.3 * len(gaps)) : int(0.98 * len(gaps))]
    leaps = np.maximum(inner[1:], 1e-9) / np.maximum(inner[:-1], 1e-9)
    at = int(leaps.argmax())
    return float(inner[at + 1]) if leaps[at] > 4 and inner[at + 1] > tenth else tenth


def _even(times: Seconds, gaps: Seconds, rate: float) -> str:
    """Say that spacing is even where the time that some arrivals take is that of the next ones, but for jitter."""
    mean = float(gaps.mean())
    for stretch in (0.6, 0.33, 0.2):  # what ticks make even in one of them is not even in the other
        lag = min(max(1, round(stretch / mean)), len(gaps) // 4)
        taken = times[lag:] - times[:-lag]
        # From one stretch to the next: what becomes slower little by little is even all the same.
        low, high = np.quantile(taken[lag:] - taken[:-lag], [0.25, 0.75]).tolist()
        every = float(np.median(taken)) / lag
        deviation = (high - low) / 1.35 / 2**0.5
        if deviation**2 > lag * every**2 / 64:
            return ""
    ends = len(taken) // 4
    begun, ended = (float(np.median(part)) / lag for part in (taken[:ends], taken[-ends:]))
    unsure = deviation / lag / every
    if abs(ended - begun) > (PACE + 3 * unsure) * every and times[-1] - times[0] > PACE_S:
        return f"evenly spaced (every {_ms(begun)} at first, every {_ms(ended)} in the end)"
    return f"evenly spaced (every {_ms(every)})" + _longer(every, rate, 4 * unsure * every / len(taken) ** 0.5)


def _longer(every: float, rate: float, noise: float) -> str:
    longer = every - 1 / rate
    if not max(2e-4, noise) < abs(longer) < 0.5 / rate:
        return ""
    said = f", each gap {_ms(abs(longer))} {'longer' if longer > 0 else 'shorter'} than asked"
    return said + (", as from sleeps that begin after each send" if 0 < longer < 0.005 else "")


def _placed(times: Seconds, rate: float) -> str:
    """Say that one arrival in each second keeps to its place."""
    sure = [e for e in edges(times, rate, 1.0) if edge_effect(e, SURELY) > 0.1]
    return _edge_words(times, max(sure, key=lambda e: e.hits)) if sure else ""


def _edge_words(times: Seconds, edge: Edge) -> str:
    there = np.flatnonzero((times - edge.at_s) % 1.0 < edge.width_ms / 1e3)
    apart = np.diff(there)
    usual = int(np.median(apart)) if len(apart) else 0
    where = f"in {edge.hits} of {edge.seconds} seconds an arrival falls on the same {edge.width_ms} ms of the second"
    if usual > 1 and np.mean(apart == usual) > 0.6:
        kept = f"one of every {usual} arrivals keeps to its place in the second"
        return f"{kept}, as where the last arrival of each second falls on the whole second: {where}"
    return where


def _order(gaps: Seconds) -> tuple[str, bool]:
    """Say that gaps repeat, alternate or come in runs, and return whether they may be independent of each other.

    By their rank correlation at every lag up to half of them.
    """
    k = len(gaps)
    ranks = mid_ranks(gaps) - (k + 1) / 2
    if not (ranks**2).sum() > 0 or k < 50:
        return "", True
    spectrum = np.abs(np.fft.rfft(ranks, 2 * k)) ** 2
    lags = np.arange(1, k // 2)
    # Fewer pairs at a larger lag: each correlation is of its own pairs.
    at = np.fft.irfft(spectrum)[1 : k // 2] / (ranks**2).mean() / (k - lags)
    sure = np.abs(at) * np.sqrt(k - lags) > 7
    independent = not (bool(sure.any()) or abs(at[0]) * k**0.5 > 4.5)
    if (again := _again(at, sure)) > 2 and at[0] < 0.5:
        return f"{AGAIN} after every {again} arrivals ({_ms(float(gaps.mean()) * again)})", independent
    if sure[0] and at[0] < -0.3:
        return "long and short gaps alternate", independent
    # Where the pace changes once, every gap resembles all others near it: runs stand out of that.
    runs = sure[0] and at[0] > 0.25 + max(0.0, float(np.median(at[: k // 4])))
    return "short gaps follow short ones" if runs else "", independent


def _again(at: Seconds, sure: Bools) -> int:
    """Return after how many gaps they come again: where their correlation stands out of those near by; else 0."""
    high = at > max(0.5, MOSTLY_AGAIN * float(at[: len(at) // 2].max()))
    for lag in (np.flatnonzero(sure & high) + 1)[:MOST_REPEATS].tolist():
        if at[lag - 1] > 0.5 + max(0.0, float(np.median(at[: 2 * lag + 10]))):
            return int(lag)
    return 0


def _law(gaps: Seconds, *, drawn: bool) -> str:
    """Say which gamma law the gaps look like; one that is not exponential only of gaps that may be `drawn` of it."""
    if len(gaps) < 100:
        return ""
    if gaps_distance(gaps, 1.0) <= LIKE:
        return "gaps look exponential"
    distances = [gaps_distance(gaps, float(shape)) for shape in SHAPES]
    best = int(np.argmin(distances))
    if distances[best] > LIKE:
        return ""
    if 0.75 < SHAPES[best] < 1.35:
        return "gaps look exponential"
    return f"gaps look like gamma of shape {SHAPES[best]:.2g}" if drawn else ""


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 0.99995 else f"{seconds:.3g} s"
