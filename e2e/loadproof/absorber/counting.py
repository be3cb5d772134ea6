"""How many tokens is this prompt, without ever holding the event loop?

One thread owns the tokenizer; the loop hands it jobs and gets results back as callbacks. The tokenizer
releases the interpreter's lock while it encodes. Counts are remembered by body digest.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

from loadproof.absorber.openai import Body
from loadproof.tokenizer import TokenCounter

BOS_ID = 2


class Counted(tuple[int, int]):
    """`(bare, usage)`: the text's own tokens, and the prompt tokens that `usage` reports."""

    __slots__ = ()


def count_prompt(counter: TokenCounter, request: Body) -> Counted:
    """Count a request's prompt as vLLM does. Raises ValueError where the chat template refuses it."""
    if request.messages is not None:
        return Counted((counter.chat_bare(request.messages), counter.chat(request.messages)))
    if isinstance(request.prompt, str):
        with_bos = counter.with_bos([request.prompt])[0]
        return Counted((with_bos - 1, with_bos))
    ids = request.prompt or []
    return Counted((len(ids) - (ids[:1] == [BOS_ID]), len(ids)))


class CountingThread:
    """Runs `job(counter)` off the loop, in order; `done(result or exception)` runs on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, counter: TokenCounter) -> None:
        self._loop, self._counter = loop, counter
        self._jobs: queue.SimpleQueue[tuple[Callable[[TokenCounter], object], Callable[[object], None]] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._run, name="token-counting", daemon=True)
        self._thread.start()
        self._known: dict[bytes, Counted] = {}

    def submit[T](self, job: Callable[[TokenCounter], T], done: Callable[[T | Exception], None]) -> None:
        """Queue a job."""
        self._jobs.put((job, done))  # type: ignore[arg-type] # a job and its callback agree on T; the queue cannot say so

    def count(self, digest: bytes, request: Body, done: Callable[[Counted | Exception], None]) -> None:
        """Count a request's prompt, at once if a body with this digest was counted before."""
        known = self._known.get(digest)
        if known is not None:
            done(known)
            return

        def remember(result: Counted | Exception) -> None:
            if not isinstance(result, Exception):
                self._known[digest] = result
            done(result)

        self.submit(lambda counter: count_prompt(counter, request), remember)

    def _run(self) -> None:
        while (item := self._jobs.get()) is not None:
            job, done = item
            result: object
            try:
                result = job(self._counter)
            except Exception as error:  # noqa: BLE001 -- whatever a job raises is its answer; the loop decides
                result = error
            self._loop.call_soon_threadsafe(done, result)

    async def drain(self) -> None:
        """Wait until every job queued so far has been answered, then end the thread."""
        answered: asyncio.Future[None] = self._loop.create_future()
        self.submit(lambda _: None, lambda _: answered.set_result(None))
        await answered
        self._jobs.put(None)
        self._thread.join()
