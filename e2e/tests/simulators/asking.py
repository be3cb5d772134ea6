"""What the tests ask of a simulator that runs, or has run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import SimNotReady, SimProblem
from tests.simulators.conftest import notes_of

DEADLINE_S = 60.0
GRACE_S = 0.5  # where the grace is meant to pass; what follows the second TERM has as long
DEADLINES_S = (0.3, 1.0, 3.0, 10.0, 30.0)  # meant to pass; a busy machine gets there later

type Make = Callable[[float], LLMDInferenceSimRunner]
type Reached = Callable[[LLMDInferenceSimRunner, str], bool]


def pid_of(sim: LLMDInferenceSimRunner) -> int:
    return int(notes_of(sim, "started")[-1])


def exit_code_of(sim: LLMDInferenceSimRunner) -> int:
    assert sim.ended is not None
    return sim.ended.exit_code


async def for_ever() -> None:
    """Wait until somebody interrupts; else fail."""
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.Event().wait()


async def ask_to_exit(sim: LLMDInferenceSimRunner) -> None:
    """Have it end by itself, with exit code 0."""
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.TransportError):
            await client.get(f"{sim.base_url}/exit")


async def stream_in_flight(sim: LLMDInferenceSimRunner) -> asyncio.StreamWriter:
    """Begin a stream, and return when the simulator has begun to answer."""
    reader, writer = await asyncio.open_connection("127.0.0.1", sim.port)
    writer.write(b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}")
    assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
    return writer


async def block(sim: LLMDInferenceSimRunner, inside: asyncio.Event) -> None:
    """Be inside its block until somebody interrupts."""
    async with sim:
        inside.set()
        await for_ever()


async def refused(sim: LLMDInferenceSimRunner) -> SimProblem:
    """Return why it did not become ready."""
    try:
        async with sim:
            pytest.fail("it was entered")
    except SimProblem as problem:
        return problem


async def too_late(make: Make, reached: Reached) -> str:
    """Return what is told when the deadline passes once that point has been reached."""
    for deadline_s in DEADLINES_S:
        sim = make(deadline_s)
        problem = await refused(sim)
        assert type(problem) is SimNotReady
        assert f"{deadline_s:g} s" in str(problem)
        assert sim.ended is not None
        if reached(sim, str(problem)):
            return str(problem)
    pytest.fail("the machine is too busy")


def asked_twice(sim: LLMDInferenceSimRunner) -> bool:
    return notes_of(sim, "asked").count("/health") > 1
