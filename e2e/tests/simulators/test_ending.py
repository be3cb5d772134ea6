"""Does a simulator always end, with all that it started, whoever ends it and whoever interrupts?"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx
import psutil
import pytest

from loadproof.errors import UsageProblem
from loadproof.process import try_isolation
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.offline_tokenizer import expected_counts
from tests.simulators.asking import DEADLINE_S, GRACE_S, block, exit_code_of, pid_of, stream_in_flight
from tests.simulators.conftest import MakeFake, notes_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_left")]


async def test_nothing_in_flight(fake: MakeFake) -> None:
    async with fake() as sim:
        pass
    assert exit_code_of(sim) == 0
    assert notes_of(sim, "term") == [""]
    assert not psutil.pid_exists(pid_of(sim))


async def test_a_stream_in_flight(fake: MakeFake) -> None:
    async with fake(stop_grace_s=GRACE_S) as sim:
        writer = await stream_in_flight(sim)
    writer.close()
    assert notes_of(sim, "term") == ["", ""]
    assert exit_code_of(sim) == 1  # of the second TERM
    assert sim.ended
    assert sim.ended.says() == "was stopped by the harness"


async def test_one_that_ignores_term(fake: MakeFake) -> None:
    async with fake({"term": "ignore"}, stop_grace_s=GRACE_S) as sim:
        pass
    assert exit_code_of(sim) == -signal.SIGKILL
    assert not psutil.pid_exists(pid_of(sim))


async def test_a_child_that_it_leaves(fake: MakeFake) -> None:
    async with fake({"child": True}) as sim:
        [child] = notes_of(sim, "child")
        assert psutil.pid_exists(int(child))
    assert not psutil.pid_exists(int(child))


@pytest.mark.parametrize("error", [ZeroDivisionError, asyncio.CancelledError, GeneratorExit])
async def test_what_the_block_raises_leaves_it(fake: MakeFake, error: type[BaseException]) -> None:
    sim = fake()
    with pytest.raises(error):
        async with sim:
            raise error
    assert exit_code_of(sim) == 0


async def test_cancelled_inside(fake: MakeFake) -> None:
    sim, inside = fake(), asyncio.Event()
    task = asyncio.create_task(block(sim, inside))
    await inside.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert exit_code_of(sim) == 0


async def test_dying_is_not_told_of_one_that_was_stopped(fake: MakeFake) -> None:
    async with fake() as sim:
        dead = asyncio.create_task(sim.died())
        await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not dead.done()
    dead.cancel()


async def test_closing_inside_theblock(fake: MakeFake) -> None:
    async with fake() as sim:
        for _ in range(2):
            await sim.aclose()
            assert exit_code_of(sim) == 0
    assert notes_of(sim, "term") == [""]


async def test_closing_at_once_by_many(fake: MakeFake) -> None:
    async with fake() as sim:
        await asyncio.gather(*(sim.aclose() for _ in range(5)))
    assert notes_of(sim, "term") == [""]


async def _closing(sim: LLMDInferenceSimRunner) -> asyncio.Task[None]:
    """Return a task that closes it, and has sent the first TERM."""
    closing = asyncio.create_task(sim.aclose())
    async with asyncio.timeout(DEADLINE_S):
        while not notes_of(sim, "term"):  # noqa: ASYNC110 -- no event comes from another process
            await asyncio.sleep(0.005)
    return closing


async def test_a_cancellation_while_it_closes_waits(fake: MakeFake) -> None:
    async with fake(stop_grace_s=GRACE_S) as sim:
        writer = await stream_in_flight(sim)
        closing = await _closing(sim)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert exit_code_of(sim) == 1  # the second TERM came at its time
        writer.close()


async def test_a_second_cancellation_ends_the_grace(fake: MakeFake) -> None:
    async with fake(stop_grace_s=100 * DEADLINE_S) as sim:
        writer = await stream_in_flight(sim)
        closing = await _closing(sim)
        for _ in range(2):
            closing.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            async with asyncio.timeout(DEADLINE_S):
                await closing
        assert exit_code_of(sim) == -signal.SIGKILL
        writer.close()


async def test_who_comes_later_leaves_it_its_grace(fake: MakeFake) -> None:
    async with fake(stop_grace_s=100 * DEADLINE_S) as sim:
        writer = await stream_in_flight(sim)
        closing = [await _closing(sim), asyncio.create_task(sim.aclose())]
        async with httpx.AsyncClient(base_url=sim.base_url, trust_env=False) as client:
            for _ in range(50):  # longer than a TERM takes
                await client.get("/health")
        assert notes_of(sim, "term") == [""]
        sim.kill()
        await asyncio.gather(*closing)
        writer.close()


async def test_one_of_those_who_close_is_cancelled(fake: MakeFake) -> None:
    async with fake(stop_grace_s=GRACE_S) as sim:
        writer = await stream_in_flight(sim)
        closing, another = await _closing(sim), asyncio.create_task(sim.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await another
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert exit_code_of(sim) == 1
        writer.close()


async def test_a_loop_that_ends_under_it(fake: MakeFake, small_tokenizer: Path) -> None:
    """What `asyncio.run` cancels at its end, the closing itself among it, leaves nothing and has no patience."""
    sim = fake({"child": True, "counts": expected_counts(small_tokenizer)}, tokenizer_dir=small_tokenizer)
    tasks = []

    async def main() -> None:
        inside = asyncio.Event()
        tasks.append(asyncio.create_task(block(sim, inside)))
        await inside.wait()
        writer = await stream_in_flight(sim)
        tasks.append(await _closing(sim))
        writer.close()

    await asyncio.to_thread(asyncio.run, main())
    assert [task.cancelled() for task in tasks] == [True, True]
    assert notes_of(sim, "term") == [""]
    [child] = notes_of(sim, "child")
    for pid in (pid_of(sim), int(child)):
        assert not psutil.pid_exists(pid)


async def test_its_cores_and_its_namespace(fake: MakeFake) -> None:
    core = min(os.sched_getaffinity(0))
    async with fake(cpus=[core]) as sim:
        assert os.sched_getaffinity(pid_of(sim)) == {core}
    try:
        await try_isolation()
    except UsageProblem as problem:
        pytest.skip(f"no isolation: {problem}")
    async with fake({"child": True}, isolate="pid", stop_grace_s=GRACE_S) as sim:
        assert pid_of(sim) < 10  # by its own count
        writer = await stream_in_flight(sim)
    writer.close()
    assert exit_code_of(sim) == 1
