"""How are arrivals spaced, in words: in groups, evenly, on ticks, or as gaps of some law?

The part of `looks` that looks at gaps. The first kind that fits is said, because the others follow from it (even
spacing is on ticks, too), and then what gaps do in their order. Left out: when arrivals came.
"""

from __future__ import annotations

import numpy as np

from loadproof.checks.stats_gaps import gaps_distance
from loadproof.checks.stats_lattice import Edge, edge_effect, edges, ticks
from loadproof.load.arrivals import Seconds

type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

SHAPES = 2.0 ** np.arange(-3, 7.25, 0.25)
LIKE = 0.08  # so much of the gaps' law may differ from one that they look like
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
    placed = _placed(times, rate)
    clustered = "" if placed else _clusters(times, gaps)
    law = "" if clustered else _law(gaps[gaps < MOST_OF_A_LAW * gaps.mean()])
    return [clause for clause in (placed, clustered, _order(gaps), law) if clause]


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
    """Say that spacing is even where the time that some arrivals take hardly varies, jitter and pauses apart."""
    mean = float(gaps.mean())
    for stretch in (0.33, 0.2):  # what ticks make even in one of them is not even in the other
        lag = min(max(1, round(stretch / mean)), len(gaps) // 4)
        taken = times[lag:] - times[:-lag]
        low, middle, high = np.quantile(taken, [0.25, 0.5, 0.75]).tolist()
        every = middle / lag
        if ((high - low) / 1.35) ** 2 > lag * every**2 / 64:
            return ""
    longer = every - 1 / rate
    said = f"evenly spaced (every {_ms(every)})"
    if 2e-4 < abs(longer) < 0.5 / rate and abs(longer) > 3 * (high - low) / lag / len(taken) ** 0.5:
        said += f", each gap {_ms(abs(longer))} {'longer' if longer > 0 else 'shorter'} than asked"
        said += ", as from sleeps that begin after each send" if 0 < longer < 0.005 else ""
    return said


def _placed(times: Seconds, rate: float) -> str:
    """Say that arrivals keep to ticks, or that one in each second keeps to its place."""
    seen = [t for t in ticks(times, rate, 1.0, SURELY) if t.resultant - t.noise > 0.3]
    if seen:
        period = max(t.period_ms for t in seen)
        return f"arrivals keep to ticks of {period} ms after each other: timers of {period} ms"
    sure = [e for e in edges(times, rate, 1.0) if edge_effect(e, SURELY) > 0.1]
    return _edge_words(times, max(sure, key=lambda e: e.hits)) if sure else ""


def _edge_words(times: Seconds, edge: Edge) -> str:
    there = np.flatnonzero((times - edge.at_s) % 1.0 < edge.width_ms / 1e3)
    apart = np.diff(there)
    usual = int(np.median(apart)) if len(apart) else 0
    where = f"in {edge.hits} of {edge.seconds} seconds an arrival falls on the same {edge.width_ms} ms of the second"
    if usual > 1 and np.mean(apart == usual) > 0.6:
        return f"the last arrival of each second falls on the whole second: one of {usual} does, {where}"
    return where


def _order(gaps: Seconds) -> str:
    """Say that gaps repeat, alternate or come in runs, by their rank correlation at every lag up to half of them."""
    from scipy.stats import rankdata  # noqa: PLC0415 -- 0.6 s that commands which judge nothing need not wait

    k = len(gaps)
    ranks = rankdata(gaps) - (k + 1) / 2
    if not (ranks**2).sum() > 0 or k < 50:
        return ""
    spectrum = np.abs(np.fft.rfft(ranks, 2 * k)) ** 2
    lags = np.arange(1, k // 2)
    # Fewer pairs at a larger lag: each correlation is of its own pairs.
    at = np.fft.irfft(spectrum)[1 : k // 2] / (ranks**2).mean() / (k - lags)
    sure = np.abs(at) * np.sqrt(k - lags) > 7
    # Of two rates one after the other, every gap resembles every other: a repetition stands out.
    repeats = lags[sure & (at > 0.5 + max(0.0, float(np.median(at))))]
    if len(repeats) and repeats[0] > 2 and at[0] < 0.5:
        return f"the same gaps come again after every {repeats[0]} arrivals"
    if sure[0] and at[0] < -0.3:
        return "long and short gaps alternate"
    return "short gaps follow short ones" if sure[0] and at[0] > 0.25 else ""


def _law(gaps: Seconds) -> str:
    """Say which gamma law the gaps look like."""
    distances = [gaps_distance(gaps, float(shape)) for shape in SHAPES]
    best = int(np.argmin(distances))
    if distances[best] > LIKE or len(gaps) < 100:
        return ""
    shape = float(SHAPES[best])
    return "gaps look exponential" if 0.75 < shape < 1.35 else f"gaps look like gamma of shape {shape:.2g}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.3g} s"
