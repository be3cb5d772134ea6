"""What is known of one request, from its plan to its end?

Plain state with one rule: only the first end counts. Who sends it is `client`, what was answered `answer`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from loadproof.metronome.answer import Answer

Ended = Callable[["Exchange"], None]


class Exchange:
    """One request and what became of it; times in ns of CLOCK_MONOTONIC, 0 where it has not happened.

    `intended_ns` is the planned send of an open loop; where nothing was planned it becomes the send itself.
    """

    __slots__ = (
        "abandoned",
        "answer",
        "done_ns",
        "ended",
        "give_up",
        "index",
        "intended_ns",
        "request",
        "sent_ns",
        "timer",
    )

    def __init__(self, index: int, request: bytes, *, streamed: bool) -> None:
        """`request`: the whole bytes to send. `streamed`: it asks for a stream."""
        self.index = index
        self.request = request
        self.answer = Answer(streamed=streamed)
        self.intended_ns = self.sent_ns = self.done_ns = 0
        self.abandoned = False
        self.ended: Ended | None = None
        self.give_up: Callable[[], object] | None = None
        self.timer: asyncio.TimerHandle | None = None

    def end(self, why: str = "", at_ns: int = 0) -> None:
        """Over at `at_ns` (0: now), with `why` it failed if it did; only the first end counts."""
        if self.done_ns:
            return
        self.done_ns = at_ns or time.monotonic_ns()
        if why:
            self.answer.fail(why)
        if self.timer is not None:
            self.timer.cancel()
        if self.ended is not None:
            self.ended(self)
