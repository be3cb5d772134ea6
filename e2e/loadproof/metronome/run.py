"""What is in flight, what was launched, and is it over?

The state that all stages of a run share. What launches when is in `open_loop` and `closed_loop`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from loadproof.errors import UsageProblem
from loadproof.metronome.client import Sender
from loadproof.metronome.exchange import Ended, Exchange


class Run:
    """All exchanges of one run; made within the running loop."""

    def __init__(self, sender: Sender, requests: Iterator[bytes], *, streamed: bool) -> None:
        """`requests` yields whole HTTP requests in the order of sending, as many as are wanted."""
        self.exchanges: list[Exchange] = []
        self.in_flight = 0
        self.waiting = 0  # due, and not sent for want of a place under a cap
        self._sender, self._requests, self._streamed = sender, requests, streamed
        self._stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited: tuple[Callable[[], bool], asyncio.Future[None]] | None = None

    @property
    def stopped(self) -> bool:
        """Whether nothing more is to be sent."""
        return self._stopped.done()

    def stop(self) -> None:
        """Send nothing more, wait for nothing more."""
        if not self.stopped:
            self._stopped.set_result(None)

    def launch(self, ended: Ended | None = None, intended_ns: int = 0) -> None:
        """Send the next request now; `ended` is called once, when its answer is over or given up.

        `intended_ns`: when it was planned, 0 where nothing was. Without another request to send, the run stops with
        that problem.
        """
        if self.stopped:
            return
        try:
            request = next(self._requests)
        except UsageProblem as problem:
            self._stopped.set_exception(problem)
            return
        exchange = Exchange(len(self.exchanges), request, streamed=self._streamed)
        exchange.intended_ns = intended_ns
        self.exchanges.append(exchange)
        self.in_flight += 1

        def over(of: Exchange) -> None:
            self.in_flight -= 1
            if ended is not None:
                ended(of)
            self.noticed()

        self._sender.launch(exchange, over)

    def noticed(self) -> None:
        """Something changed: look whether what `until` waits for has come."""
        if self._awaited is not None and not self._awaited[1].done() and self._awaited[0]():
            self._awaited[1].set_result(None)

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until `true` says so after a change, or the run is stopped; one waiter at a time.

        Raises what stopped it, if that was an error.
        """
        come: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._awaited = (true, come)
        self.noticed()
        await asyncio.wait((come, self._stopped), return_when=asyncio.FIRST_COMPLETED)
        self._awaited = None
        if self.stopped:
            self._stopped.result()

    def abandon_the_rest(self) -> None:
        """End what is in flight."""
        for exchange in self.exchanges:
            if not exchange.done_ns:
                exchange.abandoned = True
                exchange.end("abandoned: the run was stopped")
