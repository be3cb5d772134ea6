"""How is asyncio work run from a command line so that an interruption leaves nothing behind?"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


class Interrupted(Exception):
    """A signal asked for the end, and everything that was started has ended; `exit_code` is as shells say it."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(number.name)
        self.exit_code = 128 + number


def to_the_end[T](work: Coroutine[Any, Any, T]) -> T:
    """Run asyncio work and return its result.

    Raises Interrupted after Ctrl-C, SIGTERM or SIGHUP: they cancel the work, whose own `async with` blocks end what
    they started.
    """
    came: list[signal.Signals] = []

    async def guarded() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def unwind(number: signal.Signals) -> None:
            came.append(number)
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, unwind, number)
        return await task

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if not came:
            raise
        raise Interrupted(came[0]) from None
