"""When do requests arrive where replies decide, from load generators with the faults which real ones had?

Small simulations of a mechanism (slots divided among workers, a retry, a pool that closes what is idle), so that a
journal follows from the fault. Written without knowing the checks. Left out: schedules (wrong_blind_rates.py); what is
asked and who has to notice (wrong_blind.py).
"""

from __future__ import annotations

import heapq
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from loadproof.case import Case
from loadproof.journal import CLIENT_CLOSED, Journal
from loadproof.prompts import prompt_columns
from tests.unit import forge
from tests.unit.forge_client import calls_of, recorded, replies
from tests.unit.forge_loops import ITL_S, TOKENS, TURNAROUND_S, Calls, in_order, joined, slots
from tests.unit.forge_times import JITTER_S, SEND_S
from tests.unit.wrong_blind_rates import Sends, shares
from tests.unit.wrong_kind import Rng
from tests.unit.wrong_loops import C

type Bools = npt.NDArray[np.bool_]


def divided_slots(workers: int, concurrency: int) -> Sends:
    """Each worker has a share of the slots and an equal share of the requests, and ends when those are done."""

    def calls(asked: Case, rng: Rng) -> Calls:
        return joined(*(
            slots(count, rng, replies(asked, rng), n=n)
            for count, n in zip(shares(concurrency, workers), shares(asked.n or 0, workers), strict=True)
        ))  # fmt: skip

    return calls


def low_water(concurrency: int, mark: int) -> Sends:
    """Nothing is sent until no more than `mark` are in flight, then as many as there is place for."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, now = asked.n or 0, 0.0
        latency = replies(asked, rng)(n)
        starts, flying = np.empty(n), list[float]()
        for k in range(n):
            if len(flying) == concurrency:
                while len(flying) > mark:
                    now = max(now, heapq.heappop(flying))
                now += float(rng.uniform(*TURNAROUND_S))
            now += float(rng.uniform(*SEND_S))
            starts[k] = now
            heapq.heappush(flying, now + latency[k])
        return in_order(starts, latency)

    return calls


def counted_first(concurrency: int, work_s: float) -> Sends:
    """One thread counts each reply's tokens, one after the other, before that reply's slot is free."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, busy, sends = asked.n or 0, 0.0, 0.0
        latency = replies(asked, rng)(n)
        starts, ends, free = np.empty(n), list[float](), [0.0] * concurrency
        for k in range(n):
            if not free:
                busy = max(busy, heapq.heappop(ends)) + work_s
                free.append(busy)
            sends = max(sends + float(rng.uniform(*SEND_S)), free.pop())
            starts[k] = sends + float(rng.uniform(*JITTER_S))
            heapq.heappush(ends, starts[k] + latency[k])
        return in_order(starts, latency)

    return calls


def polled(concurrency: int, every_s: float) -> Sends:
    """Ended replies are looked for at every tick, and each one's slot is filled again then."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, ends = asked.n or 0, [0.0] * concurrency
        latency = replies(asked, rng)(n)
        starts, now = np.empty(n), 0.0
        for k in range(n):
            free = heapq.heappop(ends)
            now = max(now + float(rng.uniform(*SEND_S)), np.ceil(free / every_s) * every_s)
            starts[k] = now + float(rng.uniform(*JITTER_S))
            heapq.heappush(ends, starts[k] + latency[k])
        return in_order(starts, latency)

    return calls


def written_out(concurrency: int, *, after: int, for_s: float) -> Sends:
    """After so many requests the loop writes its results to a file, and does nothing else while it does."""

    def calls(asked: Case, rng: Rng) -> Calls:
        n, ends = asked.n or 0, [0.0] * concurrency
        latency = replies(asked, rng)(n)
        starts, now = np.empty(n), 0.0
        for k in range(n):
            now += float(rng.uniform(*SEND_S)) + (for_s if k and k % after == 0 else 0.0)
            now = max(now, heapq.heappop(ends) + float(rng.uniform(*TURNAROUND_S)))
            starts[k] = now
            heapq.heappush(ends, now + latency[k])
        return in_order(starts, latency)

    return calls


def retrying(
    asked: Case, rng: Rng, *, concurrency: int, timeout_s: float
) -> tuple[Calls, npt.NDArray[np.int64], Bools]:
    """Return the calls of slots that give up and try again, which request each is for, and which of them are given up.

    A request is tried three times at most, with half a second in between.
    """
    draw = replies(asked, rng)
    free = [(0.0, k, 0, -1) for k in range(concurrency)]
    rows: list[tuple[float, float, int, bool]] = []
    begun, n = 0, asked.n or 0
    while free:
        at, slot, tries, which = heapq.heappop(free)
        if tries == 0:
            if begun == n:
                continue
            which, begun = begun, begun + 1
        start, latency = at + float(rng.uniform(*JITTER_S)), float(draw(1)[0])
        given_up = latency > timeout_s
        rows.append((start, latency, which, given_up))
        if given_up and tries < 2:
            again = (start + timeout_s + float(rng.uniform(0.4, 0.5)), slot, tries + 1, which)
        else:
            again = (start + min(latency, timeout_s) + float(rng.uniform(*TURNAROUND_S)), slot, 0, -1)
        heapq.heappush(free, again)
    rows.sort()
    starts, latencies, requests, gone = (np.array(column) for column in zip(*rows, strict=True))
    return Calls(starts, latencies), requests, gone


def few_idle(calls: Calls, most: int) -> npt.NDArray[np.int64]:
    """Return the connection of each call of a pool that keeps at most so many idle ones and closes the others."""
    busy: list[tuple[float, int]] = []
    idle: list[int] = []
    taken: list[int] = []
    opened = 0
    for start, end in zip(calls.starts_s.tolist(), calls.ends_s.tolist(), strict=True):
        while busy and busy[0][0] < start:
            conn = heapq.heappop(busy)[1]
            if len(idle) < most:
                idle.append(conn)
        if not idle:
            idle.append(opened)
            opened += 1
        taken.append(idle.pop())
        heapq.heappush(busy, (end, taken[-1]))
    return np.array(taken, dtype=np.int64)


def whole_rounds(asked: Case, rng: Rng) -> Calls:
    """Each slot sends as often as the others, so that n is rounded up."""
    workload = asked.expected.workload.model_copy(update={"num_requests": -(-(asked.n or 0) // C) * C})
    return calls_of(replace(asked, expected=asked.expected.model_copy(update={"workload": workload})), rng)


def tried_again(asked: Case, rng: Rng, timeout_s: float = 0.6) -> Journal:
    """A reply that takes too long is given up, its connection closed, and the request sent again."""
    calls, requests, gone = retrying(asked, rng, concurrency=C, timeout_s=timeout_s)
    closed = forge.EPOCH_NS + forge.nanoseconds(calls.starts_s + timeout_s)
    journal = recorded(calls)
    table = journal.table
    done = np.where(gone, closed, journal.int_column("done_ns"))
    planned, late, ended = (table[name].to_pylist() for name in ("planned_ns", "late_ns", "how_ended"))
    finish = table["finish_reason"].to_pylist()
    for row in np.flatnonzero(gone).tolist():
        late[row] = [0 if chunk < closed[row] else None for chunk in planned[row]]
        ended[row], finish[row] = CLIENT_CLOSED, None
    journal = forge.with_columns(journal, done_ns=done, late_ns=late, how_ended=ended, finish_reason=finish,
                                 digest=forge.digests(1 + requests.astype(np.uint64)))  # fmt: skip
    return prompted(journal, [f"prompt {k}: " + "word " * 100 for k in requests])


def two_idle(asked: Case, rng: Rng) -> Journal:
    """The pool keeps two idle connections and closes the others as they come back."""
    calls = calls_of(asked, rng)
    calls = in_order(calls.starts_s, calls.latency_s)
    return forge.journal(calls.starts_s, ttft_s=calls.latency_s - (TOKENS - 1) * ITL_S, kernel=True,
                         conn=few_idle(calls, 2))  # fmt: skip


def prompted(journal: Journal, prompts: list[str]) -> Journal:
    """The journal with these prompts."""
    return forge.with_columns(journal, **prompt_columns([prompt.encode() for prompt in prompts]))
