"""When is the simulator ready, and is it ours that answers?

Method: ask until /health is 200, /v1/models lists the nonce of this very start, and, with a tokenizer, /tokenize
counts as we do. A process that has ended decides, whoever answers. A stranger on the port lacks the nonce and is
waited out: ours may yet bind, or end because it cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx
import msgspec

from loadproof.process import Process
from loadproof.simulators.answers import Answers
from loadproof.simulators.problems import NAME, SimNotReady, SimWrongTokenizer

FIRST_PAUSE_S, LONGEST_PAUSE_S, GROWTH = 0.005, 0.1, 1.5


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """How ours is told from any other: its names, and how many tokens it counts in which text (empty: not asked)."""

    model: str
    nonce: str
    counts: Mapping[str, int]


class Readiness:
    """One wait for `identity` to answer."""

    def __init__(self, answers: Answers, identity: Identity) -> None:
        self._answers, self._identity = answers, identity
        self._seen, self._asking = "nothing has answered yet", ""

    def last_seen(self) -> str:
        """Return in words what was answered last, and which answer is still to come."""
        return f"{self._seen}; it owes an answer to {self._asking}" if self._asking else self._seen

    async def until_ready(self) -> None:
        """Ask again and again, without end: the caller has the deadline.

        Raises SimWrongTokenizer as soon as ours counts otherwise than it must.
        """
        pause_s = FIRST_PAUSE_S
        while not await self._is_ready():
            await asyncio.sleep(pause_s)
            pause_s = min(GROWTH * pause_s, LONGEST_PAUSE_S)

    async def _is_ready(self) -> bool:
        try:
            ready = await self._answers_as_ours()
        except httpx.HTTPError as problem:
            self._seen, ready = f"nothing whole is answered there ({type(problem).__name__}: {problem})", False
        self._asking = ""  # not after a cancellation: the deadline has passed then, and this says why
        return ready

    async def _answers_as_ours(self) -> bool:
        self._asking = "/health"
        status = await self._answers.health()
        self._asking = "/v1/models"
        names = await self._answers.names()
        if self._identity.nonce not in names:
            self._seen = (f"somebody else answers there: /v1/models lists {names[:9]} and not this run's "
                          f"{self._identity.nonce}")  # fmt: skip
            return False
        if status != httpx.codes.OK:
            self._seen = f"its /health answers HTTP {status}"
            return False
        self._asking = "/tokenize"
        await self._require_counts()
        return True

    async def _require_counts(self) -> None:
        for text, ours in self._identity.counts.items():
            theirs = await self._answers.count(self._identity.model, text)
            if theirs != ours:
                counted = f"counts {theirs} tokens" if isinstance(theirs, int) else f"answers {theirs}"
                raise SimWrongTokenizer(f"{NAME}: /tokenize {counted} for {text!r}, where ours counts {ours} with BOS; "
                                        "give it the tokenizer's own folder, whole, as tokenizer_dir")  # fmt: skip


async def ready_before_end(readiness: Readiness, process: Process, deadline_s: float) -> bool:
    """Return True when it is ready, False when `process` ended first, or at the same time.

    Raises SimNotReady after `deadline_s` seconds, SimWrongTokenizer as `until_ready` does.
    """
    ready, end = asyncio.create_task(readiness.until_ready()), asyncio.create_task(process.exited())
    try:
        await asyncio.wait({ready, end}, timeout=deadline_s, return_when=asyncio.FIRST_COMPLETED)
        if end.done():
            return False
        if ready.done():
            ready.result()
            return True
    finally:
        for task in (ready, end):
            task.cancel()
        await asyncio.gather(ready, end, return_exceptions=True)
    raise SimNotReady(f"{NAME} runs and was not ready after {deadline_s:g} s: {readiness.last_seen()}\n"
                      f"{process.tail()}")  # fmt: skip
