"""Do arrivals keep to one part of a period, whatever the period, in words?

The part of `looks` that looks for ticks: of a timer, or of something that lets requests through for a while and then
holds them back. Method: the Fourier transform of when arrivals came (each moment counts once, so that a heap is no
tick) has a line at the period or at a part of it; folded by the whole multiple that gathers them best, the arc that
has nine of ten arrivals says how they keep to it. Left out: ticks that begin anew after each pause; periods that the
run has fewer than four of; whether any of it is wrong.
"""

from __future__ import annotations

import math

import numpy as np

from loadproof.load.arrivals import Seconds

MOMENT_S = 0.25e-3
MOST_MOMENTS = 2**19
MOST_FOLDED = 5000  # arrivals, evenly chosen: as many say as much
HIGHEST_HZ = 1000.0
FEWEST_PERIODS = (10, 4)  # of a line that is looked for, of a multiple of it
MULTIPLES = range(1, 13)
SURELY = 1e-6
RESULTANT = 0.3  # a line below this share of the arrivals is nothing that one would see
MOST_LINES = 20
BLOCK, BLOCK_PERIODS = 10, 3  # arrivals, periods
MOVED = 1.4  # times as much spread, in all as in a block: ticks have moved
ROUND = 1.05
GATHERED, MOST_OF_ALL = 0.9, 0.6  # so many arrivals in no more than this share of a period are gathered
TICK_S, LONG_TICK_S, TICK = 0.0035, 0.01, 1 / 8  # arrivals so near to each other come at a tick (jitter: 3 ms)
ASKED, TOGETHER = 0.02, 0.25  # of the asked gap; so many of random arrivals at least come at the tick of another one


def keeps_to(times: Seconds, rate: float) -> str:
    """Say to which part of which period arrivals keep (float64[n], seconds, ascending, in some time); else ""."""
    arc, period = _folded(times)
    if arc > MOST_OF_ALL * period:
        return ""
    if arc > max(TICK_S, min(LONG_TICK_S, TICK * period)):
        steady = _steady(times, period)
        return f"9 of 10 arrivals come within the same {_time(arc)} of every {_time(period)}" if steady else ""
    if abs(period * rate - 1) < ASKED and np.mean(np.diff(times) < period / 2) < TOGETHER:
        return f"arrivals keep to every {_time(period)}, the asked gap, but some are left out or late"
    return f"arrivals keep to ticks of {_time(period)} after each other: timers of {_time(period)}"


def _folded(times: Seconds) -> tuple[float, float]:
    """Return the shortest arc, of all periods with a line and their multiples, and its period; both 1 without one."""
    some = times[:: math.ceil(len(times) / MOST_FOLDED)]
    most_s = float(times[-1] - times[0]) / FEWEST_PERIODS[1]
    periods = [many / line for line in _lines(times) for many in MULTIPLES if many == 1 or many / line <= most_s]
    found = [(_arc(some, period), period) for period in periods]
    if not found:
        return 1.0, 1.0
    arc, period = found[int(np.argmin([arc / period for arc, period in found]))]
    short = float(f"{period:.2g}")  # what the run does not tell from a round number is one
    return (_arc(some, short), short) if _arc(some, short) < ROUND * arc else (arc, period)


def _lines(times: Seconds) -> list[float]:
    """Return the frequencies of lines that are sure, in hertz: the lowest ones."""
    since = times - times[0]
    moment = max(MOMENT_S, float(since[-1]) / MOST_MOMENTS)
    came = np.unique((since / moment).astype(np.int64))
    present = np.zeros(2 ** (2 * int(came[-1]) + 1).bit_length())
    present[came] = 1.0
    hertz = np.arange(len(present) // 2 + 1) / (len(present) * moment)
    looked = (hertz >= FEWEST_PERIODS[0] / since[-1]) & (hertz <= min(HIGHEST_HZ, 0.25 / moment))
    resultant = np.where(looked, np.abs(np.fft.rfft(present)), 0.0) / len(came)
    noise = math.sqrt(math.log(max(2, int(looked.sum())) / SURELY) / len(came))
    # A line is some frequencies wide: its middle.
    middle = (resultant[1:-1] >= resultant[:-2]) & (resultant[1:-1] > resultant[2:])
    sure = np.flatnonzero(middle & (resultant[1:-1] > max(RESULTANT, noise)))[:MOST_LINES] + 1
    return [_sharpened(times, float(line)) for line in hertz[sure]]


def _sharpened(times: Seconds, hertz: float) -> float:
    """Return the frequency near one of the Fourier transform at which arrivals are most in phase."""
    some = times[:: math.ceil(len(times) / MOST_FOLDED)]
    near = hertz + np.linspace(-0.5, 0.5, 41) / float(times[-1] - times[0])
    return float(near[np.argmax([abs(np.exp(2j * np.pi * one * some).sum()) for one in near])])


def _steady(times: Seconds, period: float) -> bool:
    """Return whether arrivals are spread over the period as much in any few periods as in all of them.

    Those of a timer that each pause moves are not, and a line of theirs is by chance.
    """
    turns = np.exp(2j * np.pi * times / period)
    size = max(BLOCK, math.ceil(BLOCK_PERIODS * period * len(times) / float(times[-1] - times[0])))
    blocks = np.array_split(turns, max(1, len(times) // size))
    few = 1 - np.mean([abs(block.mean()) for block in blocks])
    return bool(1 - abs(turns.mean()) < MOVED * few)


def _arc(times: Seconds, period: float) -> float:
    """Return the length of the shortest arc of the period that has `GATHERED` of the arrivals, in seconds."""
    places = np.sort(times % period)
    ahead = math.ceil(GATHERED * len(places)) - 1
    return float((np.concatenate([places, places + period])[ahead : ahead + len(places)] - places).min())


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 0.9995 else f"{seconds:.3g} s"
