"""How does an event interrupt the task that is inside a block, without being taken for somebody else's cancellation?

Method: that of `asyncio.timeout`. The task is cancelled; at the block's end the request is taken back (`uncancel`),
and if no other is outstanding the CancelledError was ours and may become another exception.
Left out: a block that is entered in one task and left in another. Who is in it then is not known: the one that entered
is interrupted, if it still runs, and nothing that another was told is taken for an interruption.
"""

from __future__ import annotations

import asyncio


class Interruption:
    """Of the task that makes it, from then until `over`."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("only a task can be interrupted")
        self._task = task
        self._before = task.cancelling()
        self._sent = self._over = False

    def send(self) -> None:
        """Interrupt, once at most, and not when it is over."""
        if not (self._sent or self._over):
            self._sent = True
            self._task.cancel()

    def over(self, error: BaseException | None) -> bool:
        """Take it back; return whether `error`, with which the block ended, is its doing alone. To be asked once."""
        self._over = True
        if not self._sent or asyncio.current_task() is not self._task:
            return False
        others = self._task.uncancel() > self._before
        return isinstance(error, asyncio.CancelledError) and not others
