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
from contextlib import suppress
from itertools import batched

from loadproof.absorber.openai import Body, RequestRefused
from loadproof.absorber.precedence import COUNTING, take_precedence
from loadproof.chat_template import ChatTemplate, written
from loadproof.tokenizer import TokenCounter

BOS_ID = 2
TOGETHER = 8  # counted and handed back together: each time costs the loop a wake-up and a fight for the lock
REMEMBERED = 200_000  # counts by body, about 40 MB
# Messages are any JSON, and a template meets them unprepared: whatever it trips over is the sender's doing.
ODD_INPUT = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Counted(tuple[int, int]):
    """`(bare, usage)`: the text's own tokens, and the prompt tokens that `usage` reports."""

    __slots__ = ()


type Job[T] = Callable[[TokenCounter], T]
type Key = tuple[bytes, bool]  # a body's digest, and whether it is a chat
type Work = tuple[Job[object], Callable[[object], None], Key | None]
type Result = tuple[Callable[[object], None], Key | None, object]


def prompt_job(template: ChatTemplate, request: Body, *, chat: bool) -> Job[Counted]:
    """Return what will count a request's prompt as vLLM does, and cannot fail any more.

    Of a list of prompts the sums: `usage` has one number for all. Raises RequestRefused where the chat template refuses
    the messages.
    """
    if chat:
        return _chat_job(template, request)
    if type(request.prompt) is str:
        return _Text(request.prompt)
    prompts = request.prompts
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    ids = [prompt for prompt in prompts if not isinstance(prompt, str)]
    bare = sum(len(each) - (each[:1] == [BOS_ID]) for each in ids)
    known = sum(map(len, ids))
    if not texts:
        counted = Counted((bare, known))
        return lambda _: counted

    def job(counter: TokenCounter) -> Counted:
        with_bos = sum(counter.with_bos(texts))
        return Counted((with_bos - len(texts), with_bos))

    return job


class _Text:
    """The usual job, of which several are done in one go."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, counter: TokenCounter) -> Counted:
        with_bos = counter.with_bos([self.text])[0]
        return Counted((with_bos - 1, with_bos))


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
        self._waiting: list[Work] = []
        self._jobs: queue.SimpleQueue[list[Work] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run, name="token-counting", daemon=True)
        self.thread.start()
        self._known: dict[Key, Counted] = {}

    def submit[T](self, job: Job[T], done: Callable[[T | Exception], None]) -> None:
        """Take in a job; it begins with the next `hand_over`."""
        self._waiting.append((job, done, None))  # type: ignore[arg-type] # a job and its callback agree on T; a list cannot say so

    def hand_over(self) -> None:
        """Give the thread what was submitted since: to wake it costs the loop more than to count costs it."""
        if self._waiting:
            self._jobs.put(self._waiting)
            self._waiting = []

    def count(self, digest: bytes, request: Body, done: Callable[[Counted], None], *, chat: bool) -> None:
        """Count a request's prompt, at once if it was counted before. Raises RequestRefused as `prompt_job` does."""
        key = (digest, chat)
        known = self._known.get(key)
        if known is not None:
            done(known)
        else:
            self._waiting.append((prompt_job(self._template, request, chat=chat), done, key))  # type: ignore[arg-type] # as above

    def _run(self) -> None:
        take_precedence(COUNTING)
        while (work := self._jobs.get()) is not None:
            for some in batched(work, TOGETHER, strict=False):
                answers = _answers([job for job, _, _ in some], self._counter)
                results = [(done, key, answer) for (_, done, key), answer in zip(some, answers, strict=True)]
                self._loop.call_soon_threadsafe(self._deliver, results)
            del work, some, answers, results  # the next may come late, and these hold a connection

    def _deliver(self, results: list[Result]) -> None:
        known = self._known
        failed: list[BaseException] = []
        for done, key, result in results:
            if key is not None:
                if isinstance(result, BaseException):
                    failed.append(result)
                    continue
                if len(known) >= REMEMBERED:
                    known.clear()
                known[key] = result  # type: ignore[assignment] # what has a key is a count
            done(result)
        self.hand_over()  # a request that came meanwhile may have begun within
        if failed:
            raise RuntimeError("a prompt could not be counted") from failed[0]

    async def drain(self) -> None:
        """Wait until every job submitted so far has been answered, then end the thread."""
        answered: asyncio.Future[None] = self._loop.create_future()
        self.submit(lambda _: None, lambda _: answered.set_result(None))
        self.hand_over()
        await answered
        self._jobs.put(None)
        self.thread.join()


def _answers(jobs: list[Job[object]], counter: TokenCounter) -> list[object]:
    texts = [job.text for job in jobs if type(job) is _Text]
    if 1 < len(texts) == len(jobs):
        with suppress(BaseException):  # one that cannot be counted: each by itself tells which
            return [Counted((count - 1, count)) for count in counter.with_bos(texts)]
    return [_answer(job, counter) for job in jobs]


def _answer(job: Job[object], counter: TokenCounter) -> object:
    try:
        return job(counter)
    except BaseException as error:  # noqa: BLE001 -- whatever a job raises is its answer, a tokenizer's panic too
        return error
