"""When do the requests of an open loop arrive: by law, and by what an honest sender adds to its law?

Times in seconds, ascending. The noise is that of docs/statistics.md: one thread, 0.05-0.2 ms a send, 0.1-3 ms jitter,
pauses of 20-100 ms, a first send up to 0.3 s late. Everything random comes from a generator that the caller seeds.
Left out: closed loops, where replies decide (forge_loops.py).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from loadproof.arrival import Arrival, Law

type Seconds = npt.NDArray[np.float64]

NOISE = {"quiet": 0.05, "usual": 0.3, "rough": 1.0}
"""Pauses a second on three machines."""

PAUSE_S = (0.02, 0.1)
SEND_S = (0.05e-3, 0.2e-3)
JITTER_S = (0.1e-3, 3e-3)
LATE_FIRST_S = 0.3


def constant(n: int, rate: float) -> Seconds:
    """Return n evenly spaced times in seconds."""
    return np.arange(n) / rate


def gamma(n: int, rate: float, shape: float, rng: np.random.Generator) -> Seconds:
    """Return n times with gamma gaps of mean 1 / rate."""
    return np.cumsum(rng.gamma(shape, 1 / (shape * rate), n))


def poisson(n: int, rate: float, rng: np.random.Generator) -> Seconds:
    """Return n times with exponential gaps."""
    return gamma(n, rate, 1.0, rng)


def fixed_span(n: int, rate: float, rng: np.random.Generator, *, shape: float = 1.0) -> Seconds:
    """Return gamma (1: exponential) gaps rescaled so that the last time is n / rate."""
    times = gamma(n, rate, shape, rng)
    rescaled: Seconds = times / times[-1] * n / rate
    return rescaled


def by_law(arrival: Arrival, n: int, rate: float, rng: np.random.Generator) -> Seconds:
    """Return the schedule of n requests under a declared law."""
    match arrival.law:
        case Law.CONSTANT:
            return constant(n, rate)
        case Law.FIXED_SPAN:
            return fixed_span(n, rate, rng, shape=arrival.shape)
        case _:
            return gamma(n, rate, arrival.shape, rng)


def within(arrival: Arrival, duration_s: float, rate: float, rng: np.random.Generator) -> Seconds:
    """Return the schedule of a duration: as many as the law puts into it, of a fixed span rate x duration."""
    n = round(rate * duration_s)
    if arrival.law in {Law.CONSTANT, Law.FIXED_SPAN}:
        return by_law(arrival, n, rate, rng)
    # 12 standard deviations of the count more than its mean: what is not drawn would not fall into the duration
    times = by_law(arrival, n + 30 + round(12 * (n / arrival.shape) ** 0.5), rate, rng)
    assert times[-1] > duration_s
    return times[times < duration_s]


def pauses(
    begin_s: float, end_s: float, rng: np.random.Generator, pauses_per_s: float
) -> tuple[list[float], list[float]]:
    """Return when a sender's pauses begin, ascending, and how long each lasts."""
    begins = np.sort(rng.uniform(begin_s, end_s, rng.poisson(pauses_per_s * (end_s - begin_s)))).tolist()
    return begins, rng.uniform(*PAUSE_S, len(begins)).tolist()


def sent(
    schedule: Seconds, rng: np.random.Generator, *, pauses_per_s: float = 0.3, late_first_s: float = LATE_FIRST_S
) -> Seconds:
    """Return when an honest single-threaded sender's requests arrive; the first is ready 0 to `late_first_s` late."""
    if not len(schedule):
        return schedule
    begins, lengths = pauses(float(schedule[0]), float(schedule[-1]), rng, pauses_per_s)
    costs = rng.uniform(*SEND_S, len(schedule)).tolist()
    free, pause, out = float(schedule[0] + rng.uniform(0, late_first_s)), 0, []
    for due, cost in zip(schedule.tolist(), costs, strict=True):
        at = max(due, free)
        while pause < len(begins) and begins[pause] <= at:
            at = max(at, begins[pause] + lengths[pause])
            pause += 1
        out.append(at)
        free = at + cost
    return np.sort(np.array(out) + rng.uniform(*JITTER_S, len(out)))
