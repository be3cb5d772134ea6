"""When do requests arrive where replies decide: slots that are used again, a cap in flight, connections of a pool?

Discrete events of a client that never ran. `slots` is an honest single-threaded one (forge_times.py: its noise), told
apart from wrong ones by its parameters alone. Everything random comes from a generator that the caller seeds. Left
out: what the requests are.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tests.unit.forge_times import JITTER_S, SEND_S, Seconds, pauses

type Ints = npt.NDArray[np.int64]
type Bools = npt.NDArray[np.bool_]
type Latencies = Callable[[int], Seconds]
"""How long the server takes for each of n requests, in seconds."""

TTFT_S, ITL_S, TOKENS = 0.1, 0.01, 16
LATENCY_S = TTFT_S + (TOKENS - 1) * ITL_S
TURNAROUND_S = (0.001, 0.006)  # of an honest client, from the end of a reply to its slot's next send
LONGEST_LOOP_S = 3600.0  # until when pauses are drawn at most


@dataclass(frozen=True)
class Calls:
    """Requests in order of arrival: when each starts and how long the server takes for it, in seconds, float64[n]."""

    starts_s: Seconds
    latency_s: Seconds

    @property
    def ends_s(self) -> Seconds:
        """When each reply ends."""
        ended: Seconds = self.starts_s + self.latency_s
        return ended

    def later(self, by_s: float) -> Calls:
        """Return the same, moved by so many seconds."""
        return Calls(self.starts_s + by_s, self.latency_s)

    def rows(self, rows: slice | Bools) -> Calls:
        """Return some of the requests."""
        return Calls(self.starts_s[rows], self.latency_s[rows])


def in_order(starts: Seconds, latency: Seconds) -> Calls:
    """Return the calls by their start."""
    order = np.argsort(starts, kind="stable")
    return Calls(starts[order], latency[order])


def joined(*calls: Calls) -> Calls:
    """Return the requests of all."""
    return in_order(np.concatenate([c.starts_s for c in calls]), np.concatenate([c.latency_s for c in calls]))


def closed_loop(
    n: int, slots: int, *, turnaround_s: float = 0.0, latency_s: float = LATENCY_S, ramp_s: float = 0.0
) -> Seconds:
    """Return n starts of `slots` slots, filled evenly within `ramp_s`, each used again `turnaround_s` after its end."""
    ready = (np.arange(slots) * (ramp_s / max(1, slots - 1))).tolist()
    heapq.heapify(ready)
    starts = []
    for _ in range(n):
        starts.append(heapq.heappop(ready))
        heapq.heappush(ready, starts[-1] + latency_s + turnaround_s)
    return np.array(starts)


class _Sender:
    """One thread: a send costs time, and pauses hold it up."""

    def __init__(self, rng: np.random.Generator, until_s: float, pauses_per_s: float) -> None:
        self._begins, self._lengths = pauses(0.0, min(until_s, LONGEST_LOOP_S), rng, pauses_per_s)
        self._free, self._pause = 0.0, 0

    def send(self, ready: float, cost: float) -> float:
        at = max(ready, self._free)
        while self._pause < len(self._begins) and self._begins[self._pause] <= at:
            at = max(at, self._begins[self._pause] + self._lengths[self._pause])
            self._pause += 1
        self._free = at + cost
        return at


def slots(
    count: int,
    rng: np.random.Generator,
    latencies: Latencies,
    *,
    n: int | None = None,
    duration_s: float = math.inf,
    pauses_per_s: float = 0.3,
    turnaround_s: tuple[float, float] = TURNAROUND_S,
    ramp_s: float = 0.0,
    lost: Callable[[int, float], int] = lambda _k, _at: 0,
    away_s: tuple[float, float] = (0.0, 0.0),
    away: int | None = None,
) -> Calls:
    """Return what `count` slots send: n requests, or those before `duration_s`; each slot again after its reply.

    A turnaround is uniform in `turnaround_s`; the slots are first filled evenly within `ramp_s`; `lost(k, at)` says how
    many slots are no more when the k-th request is due at `at` seconds. The first `away` slots (all, if it is not
    said) that are due from `away_s[0]` to `away_s[1]` wait until that has passed.
    """
    most = n if n is not None else math.ceil(3 * count * duration_s / max(float(latencies(50).mean()), 1e-3)) + count
    drawn = (latencies(most), *(rng.uniform(*limits, most) for limits in (turnaround_s, SEND_S, JITTER_S)))
    latency, turn, cost, jitter = (values.tolist() for values in drawn)
    sender = _Sender(rng, 2.0 * sum(latency) / count + 10.0, pauses_per_s)
    ready = (np.arange(count) * (ramp_s / max(1, count - 1))).tolist()
    heapq.heapify(ready)
    starts: list[float] = []
    gone, waiting, most_away = 0, 0, count if away is None else away
    while (k := len(starts)) < most:
        due = heapq.heappop(ready)
        while gone < lost(k, due) and ready:
            due, gone = heapq.heappop(ready), gone + 1
        if due > duration_s:
            break
        if away_s[0] <= due < away_s[1] and waiting < most_away:
            heapq.heappush(ready, away_s[1])
            waiting += 1
            continue
        starts.append(sender.send(due, cost[k]) + jitter[k])
        heapq.heappush(ready, starts[-1] + latency[k] + turn[k])
    return in_order(np.array(starts), np.array(latency[: len(starts)]))


def waves(count: int, n: int, rng: np.random.Generator, latencies: Latencies, *, share: float = 1.0) -> Calls:
    """Return what a client sends that awaits a whole batch of `count` before it sends the next, a share of the time.

    Between those batches each slot is used again after its own reply.
    """
    latency, turn = latencies(n), rng.uniform(*TURNAROUND_S, n)
    ready, free, starts = [0.0] * count, 0.0, np.empty(n)
    for k in range(n):
        if k % count == 0 and int((k // count + 1) * share) > int(k // count * share):
            ready = [max(ready)] * count
        starts[k] = max(heapq.heappop(ready), free) + JITTER_S[0]
        free = starts[k] + SEND_S[1]
        heapq.heappush(ready, starts[k] + latency[k] + turn[k])
    return in_order(starts, latency)


def capped(
    due: Seconds, cap: int, rng: np.random.Generator, latencies: Latencies, *,
    turnaround_s: tuple[float, float] = TURNAROUND_S,
) -> Calls:  # fmt: skip
    """Return the calls that are due, where at most `cap` are in flight: one that finds no place waits for one."""
    latency = latencies(len(due))
    turn = rng.uniform(*turnaround_s, len(due)).tolist()
    free = [0.0] * cap
    starts = []
    for at, takes, pause in zip(due.tolist(), latency.tolist(), turn, strict=True):
        start = max(at, heapq.heappop(free))
        starts.append(start)
        heapq.heappush(free, start + takes + pause)
    return in_order(np.array(starts), latency)


def pooled(calls: Calls, *, uses: int | None = None, fresh: Bools | None = None) -> Ints:
    """Return the connection of each call: the one that was last given back, a new one where none is free.

    `uses`: after so many requests a connection is closed; `fresh`: these calls open a new one whatever is free.
    """
    busy: list[tuple[float, int]] = []
    idle: list[int] = []
    used: list[int] = []
    taken = []
    anew = (np.zeros(len(calls.starts_s), np.bool_) if fresh is None else fresh).tolist()
    for start, end, new in zip(calls.starts_s.tolist(), calls.ends_s.tolist(), anew, strict=True):
        while busy and busy[0][0] < start:
            idle.append(heapq.heappop(busy)[1])
        while idle and uses is not None and used[idle[-1]] >= uses:
            idle.pop()
        if new or not idle:
            idle.append(len(used))
            used.append(0)
        conn = idle.pop()
        used[conn] += 1
        taken.append(conn)
        heapq.heappush(busy, (end, conn))
    return np.array(taken, dtype=np.int64)
