"""How many tokens is this prompt, without ever holding the event loop?

A prompt is made ready on the loop, where everything that can be refused is refused; that is cheap, and a
chat template is interpreted Python, which would hold the loop from any thread. One thread owns the tokenizer,
which releases the interpreter's lock while it encodes: the loop hands it jobs and gets results back as
callbacks. Counts are remembered by body digest and API.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable

from loadproof.absorber.openai import Body, RequestRefused
from loadproof.absorber.precedence import COUNTING, take_precedence
from loadproof.chat_template import ChatTemplate, written
from loadproof.tokenizer import TokenCounter

BOS_ID = 2
# Messages are any JSON, and a template meets them unprepared: whatever it trips over is the sender's doing.
ODD_INPUT = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Counted(tuple[int, int]):
    """`(bare, usage)`: the text's own tokens, and the prompt tokens that `usage` reports."""

    __slots__ = ()


type Job[T] = Callable[[TokenCounter], T]


def prompt_job(template: ChatTemplate, request: Body, *, chat: bool) -> Job[Counted]:
    """Return what will count a request's prompt as vLLM does, and cannot fail any more.

    Raises RequestRefused where the chat template refuses the messages.
    """
    if chat:
        return _chat_job(template, request)
    if isinstance(request.prompt, str):
        text = request.prompt

        def job(counter: TokenCounter) -> Counted:
            with_bos = counter.with_bos([text])[0]
            return Counted((with_bos - 1, with_bos))

        return job
    ids = request.prompt or []
    counted = Counted((len(ids) - (ids[:1] == [BOS_ID]), len(ids)))
    return lambda _: counted


def _chat_job(template: ChatTemplate, request: Body) -> Job[Counted]:
    messages = request.messages or []
    try:
        texts = [template.prompt(messages), *map(written, messages)]
    except ODD_INPUT as error:
        raise RequestRefused(str(error) or type(error).__name__, param="messages") from error

    def job(counter: TokenCounter) -> Counted:
        usage, *bare = counter.bare(texts)  # the template has written its own BOS
        return Counted((sum(bare), usage))

    return job


class CountingThread:
    """Runs `job(counter)` off the loop, in order; `done(result or exception)` runs on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, counter: TokenCounter) -> None:
        self._loop, self._counter = loop, counter
        self._template = ChatTemplate(counter.folder / "tokenizer_config.json")
        self._jobs: queue.SimpleQueue[tuple[Job[object], Callable[[object], None]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="token-counting", daemon=True)
        self._thread.start()
        self._known: dict[tuple[bytes, bool], Counted] = {}

    def submit[T](self, job: Job[T], done: Callable[[T | Exception], None]) -> None:
        """Queue a job."""
        self._jobs.put((job, done))  # type: ignore[arg-type] # a job and its callback agree on T; the queue cannot say so

    def count(self, digest: bytes, request: Body, done: Callable[[Counted], None], *, chat: bool) -> None:
        """Count a request's prompt, at once if it was counted before. Raises RequestRefused as `prompt_job` does."""
        key = (digest, chat)
        known = self._known.get(key)
        if known is not None:
            done(known)
            return

        def remember(result: Counted | Exception) -> None:
            if isinstance(result, Exception):
                raise result
            self._known[key] = result
            done(result)

        self.submit(prompt_job(self._template, request, chat=chat), remember)

    def _run(self) -> None:
        take_precedence(COUNTING)
        while (item := self._jobs.get()) is not None:
            job, done = item
            result: object
            try:
                result = job(self._counter)
            except Exception as error:  # noqa: BLE001 -- whatever a job raises is its answer; the loop decides
                result = error
            self._loop.call_soon_threadsafe(done, result)
            del item, job, done, result  # the next job may come late, and these hold a connection

    async def drain(self) -> None:
        """Wait until every job queued so far has been answered, then end the thread."""
        answered: asyncio.Future[None] = self._loop.create_future()
        self.submit(lambda _: None, lambda _: answered.set_result(None))
        await answered
        self._jobs.put(None)
        self._thread.join()
