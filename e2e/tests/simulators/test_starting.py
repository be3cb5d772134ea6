"""Is a simulator that was entered ours, ready and as told, and is every way in which that fails told for what it is?"""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from loadproof.errors import Exit, UsageProblem
from loadproof.simulators import starting
from loadproof.simulators.answers import Answers
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import (
    HOW_TO_GET,
    SimCannotExpress,
    SimExitedEarly,
    SimMissing,
    SimNotReady,
    SimProblem,
    SimRejectedFlag,
)
from loadproof.simulators.readiness import Identity, Readiness
from loadproof.simulators.starting import free_port
from tests.simulators.asking import DEADLINES_S, asked_twice, refused, too_late
from tests.simulators.conftest import MakeFake, has_asked, notes_of

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_left")]


@pytest.mark.parametrize(("time_type", "dialect"), [("int", "integer milliseconds"), ("duration", "Go durations")])
async def test_ready(fake: MakeFake, time_type: str, dialect: str) -> None:
    async with fake({"time_type": time_type}, ttft_s=0.1, itl_s=0.007, extra_args=["--mode", "echo"]) as sim:
        assert sim.base_url == f"http://127.0.0.1:{sim.port}"
        assert sim.dialect == dialect
        assert await sim.metrics() == {
            "vllm:request_success_total": 7, "vllm:num_requests_running": 2,
            "vllm:e2e_request_latency_seconds_sum": 1.5, "vllm:e2e_request_latency_seconds_count": 7,
        }  # fmt: skip
        await sim.wait_ready()
        assert '"Configuration:"' in sim.log_tail()
        assert sim.ended is None
    assert sim.ended is not None
    assert sim.ended.says() == "was stopped by the harness"
    assert sim.ended.exit_code == 0
    assert sorted(path.name for path in sim._given.log_dir.iterdir()) == [
        "llm-d-inference-sim.stderr", "llm-d-inference-sim.stdout",
    ]  # fmt: skip


async def test_its_environment(fake: MakeFake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HOME", "/somewhere")
    async with fake() as sim:
        environment = notes_of(sim, "environment")
    assert environment == ["HF_HUB_OFFLINE=1"]


async def test_two_at_once_are_each_their_own(fake: MakeFake) -> None:
    async with fake() as first, fake() as second:
        assert first.port != second.port
        for sim in (first, second):
            await sim.wait_ready()
    assert notes_of(first, "started") != notes_of(second, "started")


async def test_a_runner_is_for_one_block(fake: MakeFake) -> None:
    sim = fake()
    for ask in ("port", "base_url", "dialect"):
        with pytest.raises(RuntimeError, match="it is not ready: ask inside"):
            getattr(sim, ask)
    assert sim.log_tail() == ""
    async with sim:
        pass
    with pytest.raises(RuntimeError, match="a runner is for one block"):
        await sim.__aenter__()


@pytest.mark.parametrize("times", [1, 3])
async def test_closing_what_was_never_entered(fake: MakeFake, times: int) -> None:
    sim = fake()
    for _ in range(times):
        await sim.aclose()
    assert sim.ended is None
    with pytest.raises(RuntimeError, match="a runner is for one block"):
        await sim.__aenter__()


async def test_what_is_wrong_is_told_before_anything_starts(fake: MakeFake) -> None:
    with pytest.raises(UsageProblem, match="max_num_seqs: must be from 1"):
        fake(max_num_seqs=0)


async def test_missing(tmp_path: Path) -> None:
    sim = LLMDInferenceSimRunner("m", executable="no-such-simulator", log_dir=tmp_path / "logs")
    assert not sim.is_available()
    problem = await refused(sim)
    assert type(problem) is SimMissing
    assert str(problem).startswith(f"no-such-simulator: there is no such executable; {HOW_TO_GET}")
    assert problem.exit_code == Exit.USAGE
    assert not (tmp_path / "logs").exists()


async def test_available_on_the_path(fake: MakeFake, monkeypatch: pytest.MonkeyPatch) -> None:
    there = fake()
    monkeypatch.setenv("PATH", str(Path(there._given.executable).parent), prepend=":")
    assert there.is_available()
    assert fake(executable="stand-in").is_available()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("#!/no/such/interpreter\n", "the interpreter that its first line names is not there"),
        ("#!/bin/sh\necho one; echo two >&2\nexit 3\n", "ended with exit code 3 after .* does not say how it takes -"),
    ],
)
async def test_what_cannot_be_run(tmp_path: Path, content: str, says: str) -> None:
    executable = tmp_path / "it"
    executable.write_text(content)
    executable.chmod(0o755)
    problem = await refused(LLMDInferenceSimRunner("m", executable=str(executable), log_dir=tmp_path / "logs"))
    assert type(problem) is SimMissing
    assert re.search(says, str(problem))
    assert HOW_TO_GET in str(problem)


@pytest.mark.parametrize(
    ("faults", "kind", "says"),
    [
        ({"help": "libraries"}, SimMissing, r"ended with exit code 127 .*error while loading shared libraries: libzmq"),
        ({"time_type": "float"}, SimMissing, r"not say how it takes --time-to-first-token.*--time-to-first-token f"),
        ({"lacks": ["--seed"]}, SimRejectedFlag, "this version does not know --seed"),
        ({"exits": 0}, SimExitedEarly, r"ended with exit code 0 after .*, before it was ready\n.*Starting vLLM"),
        ({"complains": "bind: no"}, SimExitedEarly, r"with exit code 0 after .*, before it was ready: bind: no\n---"),
        ({"exits": 3}, SimExitedEarly, "ended with exit code 3 after .*, before it was ready"),
    ],
)
async def test_it_does_not_start(fake: MakeFake, faults: dict[str, Any], kind: type[SimProblem], says: str) -> None:
    problem = await refused(fake(faults))
    assert type(problem) is kind
    assert re.search(says, str(problem), re.DOTALL)


async def test_help_that_hangs(fake: MakeFake) -> None:
    problem = await refused(fake({"help": "hang"}, ready_deadline_s=0.3))
    assert type(problem) is SimNotReady
    assert "--help was still running after its deadline of 0.3 s and was stopped" in str(problem)


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--absent", "1"], "this version does not know --absent"),
        (["--data-parallel-size", "100ms"], 'rejected its arguments: invalid argument "100ms" for "--data-par'),
        (["--mode", "odd"], "rejected its arguments: invalid mode 'odd', valid values are 'random' and 'echo'; it was"),
    ],
)
async def test_what_it_rejects(fake: MakeFake, extra: list[str], says: str) -> None:
    sim = fake(extra_args=extra)
    problem = await refused(sim)
    assert type(problem) is SimRejectedFlag
    assert says in str(problem)
    assert notes_of(sim, "started") == []


@pytest.mark.parametrize("time_type", ["int", "duration"])
async def test_a_time_that_would_be_cut(fake: MakeFake, time_type: str) -> None:
    sim = fake({"time_type": time_type}, itl_s=0.0009)
    problem = await refused(sim)
    assert isinstance(problem, SimCannotExpress)
    assert problem.option == "itl_s"
    assert notes_of(sim, "started") == []


async def test_a_log_folder_that_cannot_be_made(fake: MakeFake, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageProblem, match="file/logs: cannot hold the log: Not a directory; name another log_dir"):
        await fake(log_dir=tmp_path / "file" / "logs").__aenter__()


async def test_it_binds_never(fake: MakeFake) -> None:
    told = await too_late(
        lambda deadline_s: fake({"bind": "/never"}, ready_deadline_s=deadline_s),
        lambda _, told: "nothing whole is answered there (ConnectError" in told and "Starting vLLM" in told,
    )
    assert told.startswith("llm-d-inference-sim runs and was not ready after ")
    assert "--- last lines of" in told


async def test_it_is_not_well(fake: MakeFake) -> None:
    told = await too_late(
        lambda deadline_s: fake({"health": 503}, ready_deadline_s=deadline_s), lambda sim, _: asked_twice(sim)
    )
    assert "its /health answers HTTP 503" in told


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/tokenize"])
async def test_it_hangs(fake: MakeFake, small_tokenizer: Path, path: str) -> None:
    told = await too_late(
        lambda deadline_s: fake({"quiet": path}, tokenizer_dir=small_tokenizer, ready_deadline_s=deadline_s),
        lambda sim, _: path in notes_of(sim, "asked"),
    )
    assert f"; it owes an answer to {path}\n" in told


async def test_it_writes_much(fake: MakeFake) -> None:
    async with fake({"log_mb": 10}) as sim:
        await sim.wait_ready()
    assert (sim._given.log_dir / "llm-d-inference-sim.stderr").stat().st_size > 10_000_000


async def test_what_was_seen_last() -> None:
    """Nobody owes an answer between two questions."""
    async with Answers(f"http://127.0.0.1:{free_port()}") as asked:
        readiness = Readiness(asked, Identity(model="m", nonce="n", counts={}))
        assert readiness.last_seen() == "nothing has answered yet"
        assert not await readiness._is_ready()
        assert readiness.last_seen() == "nothing whole is answered there (ConnectError: All connection attempts failed)"


async def test_a_version_without_a_tokenizer(fake: MakeFake, tmp_path: Path) -> None:
    """Told before the tokenizer is loaded: there is none."""
    problem = await refused(fake({"lacks": ["--tokenizers-cache-dir"]}, tokenizer_dir=tmp_path))
    assert type(problem) is SimRejectedFlag
    assert "does not know --tokenizers-cache-dir; versions from 0.7 on" in str(problem)


@pytest.mark.parametrize("rounds", [1, 2, 3, 5, 8, 13, 21, 34, 55, 89])
async def test_cancelled_after_some_turns_of_the_loop(fake: MakeFake, small_tokenizer: Path, rounds: int) -> None:
    """Wherever it is by then; `nothing_left` looks at what is left."""
    sim = fake({"bind": "/never"}, tokenizer_dir=small_tokenizer)
    entering = asyncio.create_task(sim.__aenter__())
    for _ in range(rounds):
        await asyncio.sleep(0.002)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert entering.cancelled()


@pytest.mark.parametrize("path", ["/health", "/v1/models", "/tokenize"])
async def test_cancelled_while_it_waits_for_an_answer(fake: MakeFake, small_tokenizer: Path, path: str) -> None:
    sim = fake({"quiet": path}, tokenizer_dir=small_tokenizer)
    entering = asyncio.create_task(sim.__aenter__())
    await has_asked(sim, path)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert sim.ended is not None
    assert sim.ended.stopped_because


async def test_cancelled_while_it_loads_the_tokenizer_it_waits_for_that(
    fake: MakeFake, small_tokenizer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow(_folder: Path) -> dict[str, int]:
        begun.set()
        may_end.wait(DEADLINES_S[-1])
        ended.set()
        return {}

    monkeypatch.setattr(starting, "expected_counts", slow)
    task = asyncio.create_task(fake(tokenizer_dir=small_tokenizer).__aenter__())
    await asyncio.to_thread(begun.wait, DEADLINES_S[-1])
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_killed_before_it_is_there(fake: MakeFake) -> None:
    sim = fake()
    sim.kill()
    assert type(await refused(sim)) is SimExitedEarly


async def test_a_log_that_cannot_be_written(fake: MakeFake, tmp_path: Path) -> None:
    sim = fake()
    (sim._given.log_dir / "llm-d-inference-sim.stderr").mkdir(parents=True)
    with pytest.raises(UsageProblem, match="cannot hold the log"):
        await sim.__aenter__()


async def test_closed_by_another_task_while_it_starts(fake: MakeFake) -> None:
    sim = fake({"quiet": "/health"})
    entering = asyncio.create_task(sim.__aenter__())
    await has_asked(sim, "/health")
    await sim.aclose()
    with pytest.raises(SimExitedEarly, match="was closed while it was starting"):
        await entering


async def test_killed_while_it_starts(fake: MakeFake) -> None:
    sim = fake({"quiet": "/health"})
    entering = asyncio.create_task(sim.__aenter__())
    await has_asked(sim, "/health")
    sim.kill()
    with pytest.raises(SimExitedEarly, match="was ended by SIGKILL after"):
        await entering
