"""Does the pacer run everything, in order, nothing before its time, and let go of what it holds?"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from loadproof.absorber.pacer import MAX_DUE, Pacer

MS = 1_000_000


def nothing() -> None:
    """Stand where nobody waits for a turn's end."""


@pytest_asyncio.fixture
async def pacer() -> AsyncIterator[Pacer]:
    made = Pacer(asyncio.get_running_loop(), nothing)
    yield made
    made.close()


@pytest.mark.asyncio
async def test_nothing_runs_before_its_deadline_and_all_run_in_order(pacer: Pacer) -> None:
    rng = random.Random(7)
    start = time.monotonic_ns()
    deadlines = [start + rng.randrange(20 * MS, 80 * MS) for _ in range(500)]
    ran: list[tuple[int, int]] = []
    everything = asyncio.Event()

    def due_at(deadline: int) -> None:
        ran.append((deadline, time.monotonic_ns()))
        if len(ran) == len(deadlines):
            everything.set()

    for deadline in deadlines:
        pacer.at(deadline, lambda deadline=deadline: due_at(deadline))  # type: ignore[misc] # mypy cannot see through the default
    already = len(ran)  # on a slow machine some were past when they were given
    await asyncio.wait_for(everything.wait(), 30)
    assert sorted(deadline for deadline, _ in ran) == sorted(deadlines)
    assert [deadline for deadline, _ in ran[already:]] == sorted(deadline for deadline, _ in ran[already:])
    assert all(at >= deadline for deadline, at in ran)


@pytest.mark.asyncio
async def test_a_past_deadline_runs_within_the_call(pacer: Pacer) -> None:
    ran: list[str] = []
    pacer.at(time.monotonic_ns() - 1, lambda: ran.append("past"))
    pacer.at(0, lambda: ran.append("zero"))
    assert ran == ["past", "zero"]


@pytest.mark.asyncio
async def test_an_entry_goes_on_with_the_deadline_that_it_returns(pacer: Pacer) -> None:
    start = time.monotonic_ns()
    times: list[int] = []
    last = asyncio.Event()

    def due() -> int | None:
        times.append(time.monotonic_ns())
        if len(times) == 5:
            last.set()
            return None
        return start + len(times) * 2 * MS

    pacer.at(start, due)
    await asyncio.wait_for(last.wait(), 30)
    assert len(times) == 5
    assert all(at >= start + k * 2 * MS for k, at in enumerate(times))


@pytest.mark.asyncio
async def test_a_wake_up_runs_a_bounded_number_and_others_get_their_turn(pacer: Pacer) -> None:
    loop = asyncio.get_running_loop()
    ran = 0
    seen_between: list[int] = []
    everything = asyncio.Event()

    def due() -> None:
        nonlocal ran
        if ran % MAX_DUE == 0:
            loop.call_soon(lambda: seen_between.append(ran))
        ran += 1
        if ran == 5 * MAX_DUE:
            everything.set()

    deadline = time.monotonic_ns() + 5 * MS
    for _ in range(5 * MAX_DUE):
        pacer.at(deadline, due)
    await asyncio.wait_for(everything.wait(), 30)
    assert len(seen_between) >= 4
    assert all(count % MAX_DUE == 0 for count in seen_between[:4])


@pytest.mark.asyncio
async def test_an_entry_that_raises_stops_no_other() -> None:
    loop = asyncio.get_running_loop()
    raised: list[object] = []
    loop.set_exception_handler(lambda _loop, context: raised.append(context["exception"]))
    turns: list[int] = []
    pacer = Pacer(loop, lambda: turns.append(1))
    ran = asyncio.Event()

    def fail() -> None:
        raise LookupError("on purpose")

    deadline = time.monotonic_ns() + MS
    pacer.at(deadline, fail)
    pacer.at(deadline + MS, ran.set)
    await asyncio.wait_for(ran.wait(), 30)
    pacer.close()
    assert [type(error) for error in raised] == [LookupError]
    assert len(turns) >= 1, "the end of the turn that failed"


def timers() -> int:
    links = [path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    return sum(link.name == "anon_inode:[timerfd]" for link in links)


@pytest.mark.asyncio
async def test_close_releases_the_timer_and_forgets_everything() -> None:
    before = timers()
    pacer = Pacer(asyncio.get_running_loop(), nothing)
    ran: list[int] = []
    pacer.at(time.monotonic_ns() + 5 * MS, lambda: ran.append(1))
    assert timers() == before + 1
    pacer.close()
    pacer.close()
    pacer.at(0, lambda: ran.append(2))
    pacer.at(time.monotonic_ns() + MS, lambda: ran.append(3))
    assert timers() == before
    assert ran == []
