"""How is llm-d-inference-sim run, so that it is ours, ready, as told, and gone in the end?

Method: everything runs under a warden (`loadproof.process`), since no exit code of it can be trusted: up to v0.9.1
every failure to start ends with 0. It is asked for its `--help` first, which tells how it takes times (`dialect`); it
is started on a port that was free a moment ago, again on another if that was taken meanwhile, and it is ready when it
answers as ours (`readiness`). A task watches for its death. It ends by TERM, grace, TERM, KILL: the first TERM waits
for its streams, the second one ends it.
Left out: what it is worth as a server. Its times drift, its counts are no tokenizer's, it leaks a slot for each
client that goes away; nothing here corrects that.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from loadproof.ended import Ended
from loadproof.simulators.asked import Asked
from loadproof.simulators.interruption import Interruption
from loadproof.simulators.life import Life
from loadproof.simulators.problems import HOW_TO_GET, NAME, SimExitedEarly, SimNotReady
from loadproof.simulators.starting import Circumstances, Started, start

__all__ = ["HOW_TO_GET", "NAME", "LLMDInferenceSimRunner"]

_DEATH_NEWS_S = 1.0  # a broken connection is seen before the end that broke it is reported


class LLMDInferenceSimRunner:
    """One llm-d-inference-sim for the length of one `async with` block.

    Made, it has checked what was asked and started nothing: UsageProblem for what can never be asked. Entering the
    block starts it and waits until it is ready, and raises a `SimProblem` (or UsageProblem: the tokenizer's or the
    log's folder) with nothing left running. Inside, a death that nobody asked for cancels the task that entered, and
    that cancellation leaves the block as SimDied; cancellations of others stay what they are. Leaving the block ends
    it, and raises SimDied, from the block's own exception, if it had died or was killed.

    Args:
        model: its model's name, the one to ask by and the one in its metrics' labels.
        tokenizer_dir: a folder with tokenizer.json, of which it gets a copy; needed for its /tokenize alone.
        ttft_s: seconds to the first token, a whole number of milliseconds; so is `itl_s`, between tokens.
        itl_s: see `ttft_s`.
        max_num_seqs: requests that it serves at once.
        max_model_len: most tokens of prompt and reply together.
        max_waiting: requests that may wait beyond those; it refuses more.
        seed: of its random replies, reproducible only one request at a time.
        extra_args: more arguments, in its own words; not those that the runner itself sets.
        executable: a name on PATH, or a path.
        log_dir: where its output goes, as NAME.stdout and NAME.stderr; one folder for each simulator.
        ready_deadline_s: from its start to being ready, and for its `--help`.
        stop_grace_s: from TERM to the second TERM, and from there to KILL.
        cpus: the cores that it may use (empty: all).
        isolate: "pid" gives it a PID namespace.
    """

    def __init__(
        self, model: str, *, tokenizer_dir: Path | None = None, ttft_s: float = 0.0, itl_s: float = 0.0,
        max_num_seqs: int = 64, max_model_len: int = 32768, max_waiting: int = 10_000, seed: int = 0,
        extra_args: Sequence[str] = (), executable: str = NAME, log_dir: Path,
        ready_deadline_s: float = 60.0, stop_grace_s: float = 2.0, cpus: Collection[int] = (), isolate: str = "",
    ) -> None:  # fmt: skip
        self._asked = Asked(
            model=model, ttft_s=ttft_s, itl_s=itl_s, max_num_seqs=max_num_seqs, max_model_len=max_model_len,
            max_waiting=max_waiting, seed=seed, extra_args=tuple(extra_args),
        )  # fmt: skip
        self._given = Circumstances(
            executable=executable, tokenizer_dir=tokenizer_dir, log_dir=log_dir, ready_deadline_s=ready_deadline_s,
            cpus=cpus, isolate=isolate,
        )  # fmt: skip
        self._stop_grace_s = stop_grace_s
        self._life, self._stack = Life(), AsyncExitStack()
        self._interruption: Interruption | None = None
        self._starting: asyncio.Task[Started] | None = None
        self._closing: asyncio.Task[None] | None = None

    def is_available(self) -> bool:
        """Return whether the executable is there; nothing is started."""
        return shutil.which(self._given.executable) is not None

    @property
    def base_url(self) -> str:
        """`http://127.0.0.1:PORT`, without a path. Raises RuntimeError before it is ready."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        """The port; it listens on all IPv4 addresses. Raises RuntimeError before it is ready."""
        return self._started.port

    @property
    def dialect(self) -> str:
        """How it takes times: "integer milliseconds" or "Go durations". Raises RuntimeError before it is ready."""
        return str(self._started.speech.dialect)

    @property
    def ended(self) -> Ended | None:
        """How it ended, None before that; after `aclose` always there if it had been started."""
        return self._life.ended

    @property
    def _started(self) -> Started:
        if self._starting is None or not self._starting.done():
            raise RuntimeError("it is not ready: ask inside the `async with` block")
        return self._starting.result()

    async def __aenter__(self) -> Self:
        """Start it and wait until it is ready. Raises every SimProblem but SimDied, and UsageProblem."""
        if self._starting or self._closing:
            raise RuntimeError("a runner is for one block: make another one")
        self._interruption = Interruption()
        self._starting = asyncio.create_task(start(self._asked, self._given, self._life, self._stack))
        try:
            await asyncio.wait({self._starting})
            self._require_open()
            self._life.watch(self._starting.result().process, self._interruption)
        except BaseException:
            await self.aclose()
            raise
        return self

    def _require_open(self) -> None:
        if self._closing:
            raise SimExitedEarly(f"{NAME} was closed while it was starting")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it; raise SimDied if it had ended by itself, or was killed, meanwhile."""
        interrupted = self._interruption is not None and self._interruption.over(error)
        await self.aclose()
        problem = self._life.problem()
        if problem is None or error is problem:
            return
        if interrupted or error is None or isinstance(error, Exception):
            raise problem from error

    async def wait_ready(self) -> None:
        """Return when it answers as ours: at once inside the block, unless it hangs, or counts otherwise by now.

        Raises SimNotReady, SimWrongTokenizer; SimDied when it has died.
        """
        if self._life.over or not await self._started.is_ready(self._given.ready_deadline_s):
            raise await self._why_over()

    async def died(self) -> None:
        """Wait until it has ended without being asked to, or by `kill`; never returns before that. For races."""
        await self._life.died()

    async def metrics(self) -> dict[str, float]:
        """Return /metrics: each sample's name and the sum over its labels, buckets left out.

        Raises SimDied when it has died, SimNotReady when it runs and does not answer within some seconds.
        """
        try:
            if not self._life.over:
                return await self._started.answers.metrics()
        except (httpx.HTTPError, ValueError) as problem:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.died(), _DEATH_NEWS_S)
            if not self._life.over:
                raise SimNotReady(f"{NAME} runs, and did not answer /metrics: {problem!r}\n"
                                  f"{self.log_tail()}") from problem  # fmt: skip
        raise await self._why_over()

    async def _why_over(self) -> Exception:
        return await self._life.death() or RuntimeError("it has ended as it was asked to: ask inside the block")

    def kill(self) -> None:
        """KILL to it and all that it started, at once; the block goes on, and its end raises SimDied."""
        self._life.kill()

    def log_tail(self) -> str:
        """Return the last lines of its log, also when it has ended; empty before it has started."""
        return self._life.log_tail()

    async def aclose(self) -> None:
        """End it: TERM, grace, TERM, grace, KILL, reap. Idempotent; it raises nothing about how it ended.

        A cancellation meanwhile is raised when it is over; a second one takes the place of the grace.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        cancelled = 0
        while not self._closing.done():
            try:
                await asyncio.wait({self._closing})
            except asyncio.CancelledError:
                cancelled += 1
                if cancelled > 1:
                    self._life.kill()
        if cancelled:
            raise asyncio.CancelledError from None if self._closing.cancelled() else self._closing.exception()
        self._closing.result()

    async def _close(self) -> None:
        try:
            if self._starting is not None:
                self._starting.cancel()
                await asyncio.gather(self._starting, return_exceptions=True)
            await self._life.end(self._stop_grace_s)
        except asyncio.CancelledError:  # the loop is ending
            self._life.kill()
            raise
        finally:
            await self._stack.aclose()
