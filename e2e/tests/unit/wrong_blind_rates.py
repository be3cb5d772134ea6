"""When do requests arrive at a rate, from load generators with the faults which real ones had?

Small simulations of a mechanism (users that pace themselves, workers that come up late, a bucket that is full), so
that a journal follows from the fault and not from a guess of what it looks like. Written without knowing the checks.
Left out: replies that decide (wrong_blind_loops.py); what is asked and who has to notice (wrong_blind.py).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np

from loadproof.case import Case
from tests.unit.forge_client import replies
from tests.unit.forge_loops import TURNAROUND_S, Calls, in_order
from tests.unit.forge_times import JITTER_S, Seconds, sent
from tests.unit.wrong_kind import Rng, rate_of

type Sends = Callable[[Case, Rng], Calls]
type Draw = Callable[[int, float, Rng], Seconds]
"""A schedule of n requests at a rate: seconds, ascending."""

# A rate: one thread


def on_time(draw: Draw) -> Sends:
    """One thread keeps to a schedule as well as an honest one does."""

    def calls(asked: Case, rng: Rng) -> Calls:
        arrived = sent(np.sort(draw(asked.n or 0, rate_of(asked), rng)), rng)
        return Calls(arrived, replies(asked, rng)(len(arrived)))

    return calls


def whole_milliseconds(n: int, rate: float, _rng: Rng) -> Seconds:
    """The gap is kept as a whole number of milliseconds."""
    return np.arange(n) * round(1000 / rate) / 1000


def full_bucket(n: int, rate: float, _rng: Rng) -> Seconds:
    """A bucket with a second's tokens is full at the start: those leave at once, the others as tokens come."""
    tokens, at, times = float(int(rate)), 0.0, []
    for _ in range(n):
        at += max(0.0, 1.0 - tokens) / rate
        tokens = max(0.0, tokens - 1.0)
        times.append(at)
    return np.array(times)


def jittered(n: int, rate: float, rng: Rng) -> Seconds:
    """Each instant is off by up to a gap, so that a client does not fall in step with the server."""
    return (1 + np.arange(n) + rng.uniform(-1, 1, n)) / rate


def slower_and_slower(n: int, rate: float, _rng: Rng) -> Seconds:
    """Each gap is slept after looking through all results so far, 10 µs each."""
    return np.cumsum(1 / rate + 10e-6 * np.arange(n))


def coarse_sleeps(gaps: Draw) -> Draw:
    """Each sleep of its own ends with a tick of the system's timer, 64 a second."""

    def draw(n: int, rate: float, rng: Rng) -> Seconds:
        at, times = float(rng.uniform(0, 1 / 64)), []
        for gap in gaps(n, rate, rng).tolist():
            at = np.ceil((at + 0.0002 + gap) * 64) / 64
            times.append(at)
        return np.array(times)

    return draw


def equal_gaps(n: int, rate: float, _rng: Rng) -> Seconds:
    """All gaps of a constant rate."""
    return np.full(n, 1 / rate)


def exponential_gaps(n: int, rate: float, rng: Rng) -> Seconds:
    """All gaps of a Poisson process."""
    return rng.exponential(1 / rate, n)


def uniform_gaps(n: int, rate: float, rng: Rng) -> Seconds:
    """A gap is anything from nothing to twice the mean."""
    return np.cumsum(rng.uniform(0, 2 / rate, n))


def lognormal_gaps(n: int, rate: float, rng: Rng) -> Seconds:
    """Heavy-tailed gaps with the mean and the standard deviation of exponential ones."""
    return np.cumsum(rng.lognormal(-np.log(2) / 2, np.sqrt(np.log(2)), n)) / rate


def same_each_second(n: int, rate: float, rng: Rng) -> Seconds:
    """In each second exactly as many as the rate says, at random instants of it."""
    seconds = np.arange(n) // int(rate)
    return np.sort(seconds + rng.random(n))


def even_in_drawn_seconds(n: int, rate: float, rng: Rng) -> Seconds:
    """How many a second gets is drawn, and they are spread evenly over it."""
    counts = rng.poisson(rate, n)
    return np.concatenate([k + np.arange(count) / count for k, count in enumerate(counts) if count])[:n]


def stalled(gaps: Draw, *, every_s: float, for_s: float) -> Draw:
    """The loop is busy with something else for a while, again and again; what was due then leaves at once."""

    def draw(n: int, rate: float, rng: Rng) -> Seconds:
        due = np.cumsum(gaps(n, rate, rng))
        begin = np.floor(due / every_s) * every_s
        return np.maximum(due, begin + np.where(begin > 0, for_s, 0.0))

    return draw


def busy_between(work_s: float, gaps: Draw) -> Draw:
    """The thread needs this long for each request, so that none leaves sooner after another."""

    def draw(n: int, rate: float, rng: Rng) -> Seconds:
        due, work = np.cumsum(gaps(n, rate, rng)), work_s * np.arange(n)
        sends: Seconds = np.maximum.accumulate(due - work) + work
        return sends

    return draw


def throttled(gaps: Draw, *, period_s: float, runs_s: float) -> Draw:
    """The process has used up its share of the processor after `runs_s` of each period, and sleeps to the next one."""

    def draw(n: int, rate: float, rng: Rng) -> Seconds:
        due = np.cumsum(gaps(n, rate, rng)) + rng.uniform(0, period_s)
        begin = np.floor(due / period_s) * period_s
        return np.where(due - begin > runs_s, begin + period_s, due)

    return draw


# A rate: several threads, processes or users


def shares(n: int, workers: int) -> list[int]:
    """Return how many of n requests each worker sends."""
    return [len(part) for part in np.array_split(np.arange(n), workers)]


def even_workers(begins: Callable[[float, Rng], Seconds]) -> Sends:
    """Workers that have a share of the rate each, even by itself, from when the worker begins on."""

    def calls(asked: Case, rng: Rng) -> Calls:
        rate = rate_of(asked)
        begin = begins(rate, rng)
        arrived = [
            sent(at + np.arange(share) * len(begin) / rate, rng, late_first_s=0.0)
            for at, share in zip(begin.tolist(), shares(asked.n or 0, len(begin)), strict=True)
        ]
        starts = np.concatenate(arrived)
        return in_order(starts, replies(asked, rng)(len(starts)))

    return calls


def one_seed(workers: int, within_s: float) -> Sends:
    """Workers that have a share of a Poisson process each, drawn with the same seed, and come up within a while."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, rate = asked.n or 0, rate_of(asked)
        same = np.cumsum(exponential_gaps(n // workers, rate / workers, rng))
        arrived = [sent(at + same, rng, late_first_s=0.0) for at in rng.uniform(0, within_s, workers).tolist()]
        return in_order(np.concatenate(arrived), replies(asked, rng)(len(same) * workers))

    return calls


def spawned(users: int, every_s: float) -> Sends:
    """Users of a Poisson process each, one more every so often, until all of them make the rate together."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, rate = asked.n or 0, rate_of(asked)
        due = [k * every_s + np.cumsum(exponential_gaps(n, rate / users, rng)) for k in range(users)]
        starts = sent(np.sort(np.concatenate(due))[:n], rng, late_first_s=0.0)
        return Calls(starts, replies(asked, rng)(n))

    return calls


def paced_users(users: int) -> Sends:
    """Users that begin evenly spread; each sends once in a period, or when its reply is there if that comes later."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, rate = asked.n or 0, rate_of(asked)
        latency, jitter = replies(asked, rng)(n), rng.uniform(*JITTER_S, n)
        ready = (np.arange(users) / rate).tolist()
        starts = np.empty(n)
        for k in range(n):
            due = heapq.heappop(ready)
            starts[k] = due + jitter[k]
            heapq.heappush(ready, max(due + users / rate, starts[k] + latency[k] + float(rng.uniform(*TURNAROUND_S))))
        return in_order(starts, latency)

    return calls


def late_worker(gaps: Draw, *, workers: int, up_s: float) -> Sends:
    """One schedule is dealt out to workers, and the last of them comes up late, with what was due by then."""

    def calls(asked: Case, rng: Rng) -> Calls:
        due = np.cumsum(gaps(asked.n or 0, rate_of(asked), rng))
        dealt = [due[k::workers] for k in range(workers)]
        dealt[-1] = np.maximum(dealt[-1], up_s)
        starts = np.concatenate([sent(part, rng, late_first_s=0.0) for part in dealt])
        return in_order(starts, replies(asked, rng)(len(starts)))

    return calls


def first_one_awaited(gaps: Draw) -> Sends:
    """The first request is a trial whose reply is awaited before the others are sent, and it counts as one of them."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n = asked.n or 0
        latency = replies(asked, rng)(n)
        rest = sent(latency[0] + 0.02 + np.cumsum(gaps(n - 1, rate_of(asked), rng)), rng, late_first_s=0.0)
        return in_order(np.concatenate([[0.0], rest]), latency)

    return calls
