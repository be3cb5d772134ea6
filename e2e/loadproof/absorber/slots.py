"""When does a request's service begin, where only so many are served at once?

A G/G/N queue on planned times: who finds a slot free begins with its arrival, the others wait in the order of arrival
and begin when a slot comes free, which is at the planned end of a reply, whenever the client took it, or when a client
goes away. So a late loop does not shift the schedule: begins and ends follow from arrivals, lengths and leaves alone,
and ends are worked off in the order of their times. Only who is read first is the loop's: who comes to be read after
another has begun does not overtake it, even with an earlier arrival. Left out: what a request does with its slot.
"""

from __future__ import annotations

import heapq
import time
from bisect import bisect_right, insort
from collections.abc import Callable

type Go = Callable[[int], None]


class Slots:
    """`count` slots and their queue; all times are nanoseconds of one clock.

    `at(deadline, run)` runs `run()` at that time or later, at once if it has passed. Requests are known by their
    numbers, which rise.
    """

    def __init__(
        self, count: int, at: Callable[[int, Callable[[], None]], None], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._at, self._clock = at, clock
        self._free = [0] * count  # since when, rising
        self._served: set[int] = set()
        self._to_end: list[
            tuple[int, int]
        ] = []  # a heap of (end, request); of one that left both, and the first counts
        self._waiting: dict[int, tuple[int, Go]] = {}  # how long each will take, and its `go`
        self._in_turn: list[tuple[int, int]] = []  # a heap of (arrival, request); also of who left
        self._working_off = False

    @property
    def held(self) -> int:
        """How many requests are being served."""
        return len(self._served)

    @property
    def waiting(self) -> int:
        """How many requests wait for a slot."""
        return len(self._waiting)

    def join(self, request: int, arrival: int, lasts_ns: int, go: Go) -> bool:
        """Let a request in, whose service takes `lasts_ns`; whether that has begun.

        `go(begin)` is called once, when it begins; in this call, if a slot is free.
        """
        free = self._free
        if not free:
            self._waiting[request] = (lasts_ns, go)
            heapq.heappush(self._in_turn, (arrival, request))
            return False
        # The one that came free last before the arrival; what is free for longer may be for one that is read later.
        since = free.pop(max(0, bisect_right(free, arrival) - 1))
        self._serve(request, max(arrival, since), lasts_ns, go)
        return True

    def leave(self, request: int, now: int) -> None:
        """Take a request out, whose client is gone since `now`; nothing happens if its service is over.

        Where its turn had come before, and the loop had not come to it, `go` is called now.
        """
        self._work_off(now)
        if self._waiting.pop(request, None) is None and request in self._served:
            heapq.heappush(self._to_end, (now, request))
        self._work_off()

    def _serve(self, request: int, begin: int, lasts_ns: int, go: Go) -> None:
        end = begin + lasts_ns
        self._served.add(request)
        heapq.heappush(self._to_end, (end, request))
        go(begin)
        self._at(end, self._work_off)

    def _work_off(self, until: int | None = None) -> None:
        """Give on the slots of all services that have ended by then, or by now, in the order of their ends.

        A loop, and never within itself, because a reply that is late may end, or its client be found gone, at once.
        """
        if self._working_off:
            return
        self._working_off = True
        to_end = self._to_end
        while to_end and to_end[0][0] <= (self._clock() if until is None else until):
            end, request = heapq.heappop(to_end)
            if request in self._served:
                self._served.remove(request)
                self._give_on(end)
        self._working_off = False

    def _give_on(self, since: int) -> None:
        while self._in_turn:
            arrival, request = heapq.heappop(self._in_turn)
            waited = self._waiting.pop(request, None)
            if waited is not None:
                self._serve(request, max(arrival, since), *waited)
                return
        insort(self._free, since)
