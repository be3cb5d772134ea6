"""Does the real llm-d-inference-sim do under its runner what the stand-in does? Skipped where it is not on PATH."""

# ruff: noqa: PT012 -- the error is that of leaving a block, and the block is what provokes it

from __future__ import annotations

import asyncio
import json
import re
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import pytest_asyncio

from loadproof import simulated
from loadproof.simulators import offline_tokenizer, starting
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import (
    SimCannotExpress,
    SimDied,
    SimPortInUse,
    SimProblem,
    SimRejectedFlag,
    SimWrongTokenizer,
)
from loadproof.tokenizer import bundled_counter
from tests.simulators.asking import refused
from tests.simulators.conftest import GivePorts, MakeStranger

pytestmark = [pytest.mark.asyncio, pytest.mark.usefixtures("nothing_left")]

DEADLINE_S = 60.0

type MakeSim = Callable[..., LLMDInferenceSimRunner]


@pytest_asyncio.fixture(autouse=True)
async def takes_a_tokenizer(tmp_path: Path, llm_d_sim: MakeSim) -> None:
    """These tests are for v0.6.1; later versions count, and end a stream, in other ways."""
    if not await simulated.takes_tokenizer(tmp_path):
        pytest.skip("the simulator on PATH is a later one: these tests are for v0.6.1")


def pid_of(sim: LLMDInferenceSimRunner) -> int:
    assert sim._life._process
    return sim._life._process.pid


@asynccontextmanager
async def client_of(sim: LLMDInferenceSimRunner) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=sim.base_url, trust_env=False, timeout=DEADLINE_S) as client:
        yield client


def body(sim: LLMDInferenceSimRunner, max_tokens: int, *, stream: bool, **more: Any) -> dict[str, Any]:
    return {"model": sim._asked.model, "max_tokens": max_tokens, "ignore_eos": True, "stream": stream, **more}


COMPLETION = ("/v1/completions", {"prompt": "one two three"})
CHAT = ("/v1/chat/completions", {"messages": [{"role": "user", "content": "one two three"}]})


@pytest.mark.parametrize(("path", "prompt"), [COMPLETION, CHAT])
async def test_both_interfaces(llm_d_sim: MakeSim, path: str, prompt: dict[str, Any]) -> None:
    async with llm_d_sim(tokenizer_dir=None) as sim, client_of(sim) as client:
        names = [model["id"] for model in (await client.get("/v1/models")).json()["data"]]
        assert names[0] == sim._asked.model
        assert names[1].startswith("nonce-")
        whole = (await client.post(path, json=body(sim, 5, stream=False, **prompt))).json()
        assert whole["usage"]["completion_tokens"] == 5
        async with client.stream("POST", path, json=body(sim, 5, stream=True, **prompt)) as reply:
            lines = [line async for line in reply.aiter_lines() if line]
        assert lines[-1] == "data: [DONE]"
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        assert "length" in [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
        assert (await sim.metrics())["vllm:request_success_total"] == 2
    assert sim.ended
    assert sim.ended.exit_code == 0


async def test_it_counts_as_we_do(llm_d_sim: MakeSim) -> None:
    text = "a text that was not asked when it was made ready: \u00e9t\u00e9"
    async with llm_d_sim() as sim, client_of(sim) as client:
        told = (await client.post("/tokenize", json={"model": sim._asked.model, "prompt": text})).json()
    assert [told["count"]] == bundled_counter().with_bos([text])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda copy, small: copy.write_bytes(small.read_bytes()), "/tokenize counts [0-9]+ tokens for "),
        (lambda copy, small: copy.write_text("{"), "/tokenize answers HTTP 500: Failed to tokenize"),
    ],
)
async def test_another_tokenizer(
    llm_d_sim: MakeSim, small_tokenizer: Path, monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, Path], object], says: str,
) -> None:  # fmt: skip
    @contextmanager
    def changed(folder: Path, model: str, parent: Path) -> Iterator[Path]:
        with offline_tokenizer.disposable_copy(folder, model, parent) as copy:
            change(copy / model / "tokenizer.json", small_tokenizer / "tokenizer.json")
            yield copy

    monkeypatch.setattr(starting, "disposable_copy", changed)
    problem = await refused(llm_d_sim())
    assert type(problem) is SimWrongTokenizer
    assert re.search(says, str(problem))


async def test_stopped_with_an_idle_client(llm_d_sim: MakeSim) -> None:
    """A connection that is kept open does not hold it: the grace would be over long after the deadline."""
    sim = llm_d_sim(tokenizer_dir=None, stop_grace_s=10 * DEADLINE_S)
    async with asyncio.timeout(DEADLINE_S), sim:
        client = httpx.AsyncClient(base_url=sim.base_url, trust_env=False)
        assert (await client.get("/health")).status_code == 200
    assert sim.ended
    assert sim.ended.exit_code == 0
    await client.aclose()


async def test_stopped_with_a_stream_in_flight(llm_d_sim: MakeSim) -> None:
    path, prompt = COMPLETION
    lines = []
    async with asyncio.timeout(DEADLINE_S):
        async with llm_d_sim(tokenizer_dir=None, itl_s=1.0, stop_grace_s=0.5) as sim:
            client = httpx.AsyncClient(base_url=sim.base_url, trust_env=False, timeout=DEADLINE_S)
            request = client.build_request("POST", path, json=body(sim, 10_000, stream=True, **prompt))
            reply = await client.send(request, stream=True)
            lines.append(await anext(aiter(reply.aiter_lines())))
        assert sim.ended
        assert sim.ended.exit_code == 1  # of the second TERM
    assert lines[0].startswith("data: {")
    await client.aclose()


async def test_killed(llm_d_sim: MakeSim) -> None:
    with pytest.raises(SimDied, match=r"was ended by SIGKILL .*it was killed on purpose") as caught:
        async with llm_d_sim(tokenizer_dir=None) as sim, client_of(sim) as client:
            sim.kill()
            await sim.died()
            await client.get("/health")
    assert isinstance(caught.value.__cause__, httpx.ConnectError)
    assert sim.ended
    assert sim.ended.exit_code == -signal.SIGKILL


async def test_its_death_interrupts(llm_d_sim: MakeSim) -> None:
    with pytest.raises(SimDied, match=r"ended with exit code 0 .*nobody had asked it to end"):
        async with llm_d_sim(tokenizer_dir=None) as sim, asyncio.timeout(DEADLINE_S):
            psutil.Process(pid_of(sim)).terminate()
            await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        (
            {"extra_args": ["--prefill-overhead", "100ms"]},
            SimRejectedFlag,
            'invalid argument "100ms" for "--prefill-overhead',
        ),
        (
            {"extra_args": ["--mode", "odd"]},
            SimRejectedFlag,
            "invalid mode 'odd', valid values are 'random' and 'echo'",
        ),
        ({"extra_args": ["--absent"]}, SimRejectedFlag, "this version does not know --absent"),
        ({"extra_args": ["-q"]}, SimRejectedFlag, "unknown shorthand flag: 'q' in -q"),
        ({"itl_s": 0.0009}, SimCannotExpress, r"possible is 0.001 s (1 ms)"),
    ],
)
async def test_what_it_rejects(llm_d_sim: MakeSim, options: dict[str, Any], kind: type[SimProblem], says: str) -> None:
    problem = await refused(llm_d_sim(tokenizer_dir=None, **options))
    assert type(problem) is kind
    assert says in str(problem)


async def test_a_port_in_use(llm_d_sim: MakeSim, stranger: MakeStranger, give_ports: GivePorts) -> None:
    async with stranger() as other:
        give_ports(other.port)
        async with llm_d_sim(tokenizer_dir=None) as sim:
            assert sim.port != other.port
        give_ports(*[other.port] * starting.ATTEMPTS)
        assert type(await refused(llm_d_sim(tokenizer_dir=None))) is SimPortInUse


async def test_two_at_once(llm_d_sim: MakeSim) -> None:
    first, second = llm_d_sim(tokenizer_dir=None), llm_d_sim(tokenizer_dir=None)
    await asyncio.gather(first.__aenter__(), second.__aenter__())
    try:
        assert first.port != second.port
        assert first.dialect == second.dialect
        await first.aclose()
        await second.wait_ready()
    finally:
        for sim in (first, second):
            await sim.aclose()


@pytest.mark.parametrize("turns", [2, 5, 10, 20, 40, 80])
async def test_cancelled_while_it_starts(llm_d_sim: MakeSim, turns: int) -> None:
    sim = llm_d_sim(stop_grace_s=0.2)  # the first TERM waits until it has loaded its tokenizer
    entering = asyncio.create_task(sim.__aenter__())
    for _ in range(turns):
        await asyncio.sleep(0.005)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
