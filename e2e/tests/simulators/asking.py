"""What the tests ask of a simulator that runs, or has run."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from tests.simulators.conftest import notes_of

DEADLINE_S = 60.0
GRACE_S = 0.5  # where the grace is meant to pass; what follows the second TERM has as long


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
