"""Is a simulator's end that nobody wanted told, in time, and to the one whom it concerns?"""

# ruff: noqa: PT012 -- the error is that of leaving a block, and the block is what provokes it

from __future__ import annotations

import asyncio
import os
import signal

import httpx
import psutil
import pytest

from loadproof.simulators import answers
from loadproof.simulators.interruption import Interruption
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import SimDied, SimNotReady
from tests.simulators.asking import DEADLINE_S, ask_to_exit, block, exit_code_of, for_ever, pid_of
from tests.simulators.conftest import MakeFake, notes_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_left")]


async def test_its_death_interrupts(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied) as caught:
        async with sim:
            await ask_to_exit(sim)
            await for_ever()
    told = str(caught.value)
    assert told.startswith("llm-d-inference-sim ended with exit code 0 after ")
    assert "in the middle of the run: nobody had asked it to end" in told
    assert "its last words" in told
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert exit_code_of(sim) == 0
    assert sim.ended
    assert sim.ended.stopped_because == ""


async def test_after_its_death_the_task_is_as_before(fake: MakeFake) -> None:
    task = asyncio.current_task()
    assert task
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(SimDied):
            async with fake() as sim:
                os.kill(pid_of(sim), signal.SIGKILL)
                await for_ever()
        assert task.cancelling() == 0
        await asyncio.sleep(0.001)


async def test_its_death_is_told_where_the_block_does_not_wait(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied, match="was ended by SIGKILL after"):
        async with sim:
            dead = asyncio.create_task(sim.died())
            os.kill(pid_of(sim), signal.SIGKILL)
            try:
                await for_ever()
            except asyncio.CancelledError:
                assert sim.ended
            await dead  # a block that goes on after all


async def test_its_death_in_a_task_group(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied) as caught:
        async with sim, asyncio.TaskGroup() as group:
            group.create_task(for_ever())
            os.kill(pid_of(sim), signal.SIGKILL)
            await for_ever()
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)


async def test_its_death_and_what_the_block_says_of_it(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied) as caught:
        async with sim, asyncio.TaskGroup() as group:
            group.create_task(_cry(sim))
            os.kill(pid_of(sim), signal.SIGKILL)
            await for_ever()
    assert isinstance(caught.value.__cause__, ExceptionGroup)
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # nor is a cancellation on its way


async def _cry(sim: LLMDInferenceSimRunner) -> None:
    await sim.died()
    raise ZeroDivisionError


@pytest.mark.parametrize("first", ["death", "cancellation"])
async def test_a_cancellation_at_the_same_time_stays_one(fake: MakeFake, first: str) -> None:
    sim, inside = fake(), asyncio.Event()
    task = asyncio.create_task(block(sim, inside))
    await inside.wait()
    assert sim._interruption
    for send in (sim._interruption.send, task.cancel) if first == "death" else (task.cancel, sim._interruption.send):
        send()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    assert task.cancelling() == 1


async def test_a_cancellation_just_after_its_death_stays_one(fake: MakeFake) -> None:
    sim, inside = fake(), asyncio.Event()
    task = asyncio.create_task(block(sim, inside))
    await inside.wait()
    os.kill(pid_of(sim), signal.SIGKILL)
    await sim.died()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_both_of_two_die(fake: MakeFake) -> None:
    outer, inner = fake(), fake()
    with pytest.raises(SimDied) as caught:
        async with outer, inner:
            for sim in (inner, outer):
                os.kill(pid_of(sim), signal.SIGKILL)
            await for_ever()
    assert str(pid_of(outer)) not in str(caught.value)
    for sim in (outer, inner):
        assert exit_code_of(sim) == -signal.SIGKILL
    task = asyncio.current_task()
    assert task
    assert task.cancelling() == 0


async def test_one_of_two_dies(fake: MakeFake) -> None:
    outer, inner = fake(), fake()
    with pytest.raises(SimDied):
        async with outer, inner:
            os.kill(pid_of(outer), signal.SIGKILL)
            await for_ever()
    assert exit_code_of(outer) == -signal.SIGKILL
    assert exit_code_of(inner) == 0


async def test_an_interruption_is_one_and_may_come_too_late() -> None:
    task = asyncio.current_task()
    assert task
    interruption, late = Interruption(), Interruption()
    assert not late.over(None)
    late.send()
    assert task.cancelling() == 0
    for _ in range(2):
        interruption.send()
    assert task.cancelling() == 1
    with pytest.raises(asyncio.CancelledError):
        await asyncio.sleep(0)
    assert interruption.over(asyncio.CancelledError())
    assert task.cancelling() == 0


async def test_an_interruption_is_no_excuse_for_another_task() -> None:
    made, may_end = asyncio.Queue[Interruption](), asyncio.Event()

    async def enter() -> None:
        made.put_nowait(Interruption())
        await may_end.wait()

    entered = asyncio.create_task(enter())
    interruption = await made.get()
    interruption.send()
    assert not interruption.over(asyncio.CancelledError())
    await asyncio.wait({entered})
    assert entered.cancelled()


async def test_entered_in_one_task_and_left_in_another(fake: MakeFake) -> None:
    """As fixtures do: nobody is interrupted, and its death is told at the end."""
    sim = await asyncio.create_task(fake().__aenter__())
    os.kill(pid_of(sim), signal.SIGKILL)
    await sim.died()
    with pytest.raises(SimDied, match="was ended by SIGKILL after"):
        await sim.__aexit__(None, None, None)


async def test_its_warden_is_killed(fake: MakeFake) -> None:
    with pytest.raises(SimDied, match="was ended because its warden process had been killed"):
        async with fake() as sim:
            assert sim._life._process
            os.kill(sim._life._process._warden.pid, signal.SIGKILL)
            await for_ever()


async def test_killed_by_others_at_the_very_end(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied, match="nobody had asked it to end"):
        async with sim:
            os.kill(pid_of(sim), signal.SIGKILL)
    assert exit_code_of(sim) == -signal.SIGKILL


async def test_killed_on_purpose(fake: MakeFake) -> None:
    """The block sees what follows, undisturbed, and its end says it all the same."""
    sim = fake({"child": True})
    with pytest.raises(SimDied) as caught:
        async with sim:
            sim.kill()
            sim.kill()
            async with asyncio.timeout(DEADLINE_S):
                await sim.died()
            assert exit_code_of(sim) == -signal.SIGKILL
            await asyncio.sleep(0.001)
    assert str(caught.value).startswith("llm-d-inference-sim was ended by SIGKILL after ")
    assert "in the middle of the run: it was killed on purpose (`kill`)" in str(caught.value)
    assert caught.value.__cause__ is None
    [child] = notes_of(sim, "child")
    assert not psutil.pid_exists(int(child))


async def test_killed_at_the_very_end(fake: MakeFake) -> None:
    sim = fake()
    with pytest.raises(SimDied, match=r"was ended by SIGKILL after .*it was killed on purpose"):
        async with sim:
            sim.kill()
    assert notes_of(sim, "term") == []


async def test_killed_and_what_the_block_says_of_it(fake: MakeFake) -> None:
    with pytest.raises(SimDied) as caught:
        async with fake() as sim:
            sim.kill()
            await sim.died()
            async with httpx.AsyncClient(trust_env=False) as client:
                await client.get(f"{sim.base_url}/health")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, GeneratorExit])
async def test_killed_and_interrupted_from_outside(fake: MakeFake, error: type[BaseException]) -> None:
    with pytest.raises(error):
        async with fake() as sim:
            sim.kill()
            raise error


@pytest.mark.parametrize("question", ["metrics", "wait_ready"])
@pytest.mark.parametrize("patient", [False, True])
async def test_questions_to_the_dead(fake: MakeFake, question: str, patient: bool) -> None:
    told = None
    with pytest.raises(SimDied, match="was ended by SIGKILL after") as caught:
        async with fake() as sim:
            sim.kill()
            if patient:
                await sim.died()
            try:
                await getattr(sim, question)()
            except SimDied as problem:
                told = problem
                raise
    assert caught.value is told
    assert caught.value.__cause__ is None


async def test_questions_after_the_end(fake: MakeFake) -> None:
    async with fake() as sim:
        pass
    for question in (sim.metrics, sim.wait_ready):
        with pytest.raises(RuntimeError, match="it has ended as it was asked to"):
            await question()
    sim.kill()
    assert exit_code_of(sim) == 0


@pytest.mark.parametrize("question", ["metrics", "wait_ready"])
async def test_it_dies_while_it_is_asked(fake: MakeFake, question: str) -> None:
    """The task that asks is not the one that entered, and learns it too."""
    faults = {"metrics": {"quiet": "/metrics"}, "wait_ready": {"quiet": "/health", "quiet_after": 1}}[question]
    told: list[BaseException] = []

    async def ask(sim: LLMDInferenceSimRunner) -> None:
        try:
            await getattr(sim, question)()
        except SimDied as problem:
            told.append(problem)

    with pytest.raises(SimDied) as caught:
        async with fake(faults) as sim:
            asking = asyncio.create_task(ask(sim))
            async with asyncio.timeout(DEADLINE_S):
                while notes_of(sim, "quiet") == []:  # noqa: ASYNC110 -- no event comes from another process
                    await asyncio.sleep(0.005)
            os.kill(pid_of(sim), signal.SIGKILL)
            try:
                await for_ever()
            finally:
                await asking
    assert told == [caught.value]


async def test_metrics_that_do_not_come(fake: MakeFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "PATIENCE_S", 0.3)
    monkeypatch.setattr("loadproof.simulators.llm_d._DEATH_NEWS_S", 0.01)
    async with fake({"quiet": "/metrics"}) as sim:
        with pytest.raises(SimNotReady, match=r"runs, and did not answer /metrics: ReadTimeout.*\n--- last lines of"):
            await sim.metrics()


async def test_metrics_that_are_none(fake: MakeFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadproof.simulators.llm_d._DEATH_NEWS_S", 0.01)
    async with fake({"metrics": "this is no exposition {{{ x"}) as sim:
        with pytest.raises(SimNotReady, match="runs, and did not answer /metrics: ValueError"):
            await sim.metrics()
