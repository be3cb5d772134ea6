"""How does one get from what was asked of llm-d-inference-sim to a process that is ours and ready?

Method: ask for its `--help` first, so that what it cannot be told is an error before anything is loaded or started.
Then find a free port, let go of it, start, and wait until it answers as ours; where somebody else was faster with the
port, try another. Left out: ending it. Whatever is begun here is put on the caller's stack, also when starting fails.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import socket
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from loadproof.errors import UsageProblem
from loadproof.process import Process, clean_environment, running
from loadproof.simulators.answers import Answers
from loadproof.simulators.asked import Asked
from loadproof.simulators.dialect import Speech, speech_of
from loadproof.simulators.early_exit import why_it_ended
from loadproof.simulators.life import Life
from loadproof.simulators.offline_tokenizer import disposable_copy, expected_counts
from loadproof.simulators.problems import HOW_TO_GET, NAME, SimMissing, SimPortInUse
from loadproof.simulators.readiness import Identity, Readiness, ready_before_end

ATTEMPTS = 5


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """Under which it runs: see the runner's arguments of the same names."""

    executable: str
    tokenizer_dir: Path | None
    log_dir: Path
    ready_deadline_s: float
    cpus: Collection[int]
    isolate: str


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """A simulator that was started."""

    process: Process
    port: int
    speech: Speech
    answers: Answers
    identity: Identity

    async def is_ready(self, deadline_s: float) -> bool:
        """Wait until it answers as ours; return False if it ended first. Raises SimNotReady, SimWrongTokenizer."""
        return await ready_before_end(Readiness(self.answers, self.identity), self.process, deadline_s)


async def start(asked: Asked, given: Circumstances, life: Life, stack: AsyncExitStack) -> Started:
    """Start it and wait until it is ready; `life` holds the process as soon as there is one.

    Raises every SimProblem but SimDied, and UsageProblem for a folder that cannot be used.
    """
    try:
        return await _start(asked, given, life, stack)
    except OSError as problem:
        raise UsageProblem(f"{given.log_dir}: cannot hold the log: {problem.strerror or problem}; name another "
                           "log_dir, for this simulator alone") from problem  # fmt: skip


async def _start(asked: Asked, given: Circumstances, life: Life, stack: AsyncExitStack) -> Started:
    executable = shutil.which(given.executable)
    if executable is None:
        raise SimMissing(f"{given.executable}: there is no such executable; {HOW_TO_GET}")
    given.log_dir.mkdir(parents=True, exist_ok=True)
    speech = await speech_of(executable, given.log_dir, given.ready_deadline_s)
    tokenizers, counts = Path() if given.tokenizer_dir else None, dict[str, int]()
    asked.arguments(speech, port=0, nonce="", tokenizers=tokenizers)  # what it raises comes before 3 s of loading
    if given.tokenizer_dir:
        counts = await _counted(given.tokenizer_dir)
        tokenizers = stack.enter_context(disposable_copy(given.tokenizer_dir, asked.model, given.log_dir))
    told = ""
    for _ in range(ATTEMPTS):
        identity = Identity(model=asked.model, nonce=f"nonce-{secrets.token_hex(8)}", counts=counts)
        port = free_port()
        words = asked.arguments(speech, port=port, nonce=identity.nonce, tokenizers=tokenizers)
        process = await stack.enter_async_context(running(
            [executable, *words], log_dir=given.log_dir, name=NAME, env=clean_environment({"HF_HUB_OFFLINE": "1"}),
            cpus=given.cpus, isolate=given.isolate,
        ))  # fmt: skip
        life.hold(process)
        answers = await stack.enter_async_context(Answers(f"http://127.0.0.1:{port}"))
        started = Started(process=process, port=port, speech=speech, answers=answers, identity=identity)
        if await started.is_ready(given.ready_deadline_s):
            return started
        problem = why_it_ended(await process.stop(""), process.stderr)
        if not isinstance(problem, SimPortInUse):
            raise problem
        told = str(problem)
    raise SimPortInUse(f"{ATTEMPTS} ports were free, and taken when {NAME} wanted them; the last time it said: {told}")


def free_port() -> int:
    """Return a port that was free a moment ago, on all addresses, as the simulator binds them."""
    with socket.socket() as probe:
        probe.bind(("0.0.0.0", 0))  # noqa: S104 -- nothing listens on it; it is where the simulator will
        port: int = probe.getsockname()[1]
        return port


async def _counted(folder: Path) -> dict[str, int]:
    """Return what `expected_counts` does; also a cancellation waits for it, as nothing can interrupt a thread."""
    counting = asyncio.ensure_future(asyncio.to_thread(expected_counts, folder))
    try:
        await asyncio.wait({counting})
    except asyncio.CancelledError:
        await asyncio.wait({counting})
        raise
    return counting.result()
