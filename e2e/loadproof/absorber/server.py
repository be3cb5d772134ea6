"""What do all connections of one absorber share?

The profile, the journal's writer, the tokenizer's thread, the poller, the pacer, the slots and the counters. Left out:
faults.
"""

from __future__ import annotations

import asyncio
import socket
import time
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from loadproof.absorber.express import Express
from loadproof.absorber.metrics import Metrics
from loadproof.absorber.openai import MAX_TOKENS_LIMIT, RequestRefused
from loadproof.absorber.pacer import Pacer
from loadproof.absorber.plan import Plan, plan_reply
from loadproof.absorber.poller import Poller
from loadproof.absorber.request import Request
from loadproof.absorber.session import Session
from loadproof.absorber.slots import Slots
from loadproof.absorber.sockets import Connection
from loadproof.absorber.wire import Format
from loadproof.record import COMPLETE, HOW

if TYPE_CHECKING:
    from loadproof.absorber.counting import CountingThread
    from loadproof.absorber.openai import Body
    from loadproof.absorber.profile import Profile
    from loadproof.live import LiveCounters
    from loadproof.streams import JournalWriter

PLANS_KEPT = 4096
WORKER_REQUESTS = 2**48  # requests of worker W are numbered from W times this
_HOW_CODES = {how: code for code, how in enumerate(HOW)}


def clock_offset_ns() -> int:
    """Return CLOCK_REALTIME - CLOCK_MONOTONIC in nanoseconds, from the closest of five pairs of reads.

    A thread that loses the processor between two reads would look like a clock that jumped.
    """
    pairs = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, real, after = min(pairs, key=lambda pair: pair[2] - pair[0])
    return real - (before + after) // 2


class JournalUnwritable(Exception):
    """The rows could not be written, for the system's reason (a full disk)."""


class Server:
    """The absorber's state, and what is needed to answer and to record.

    `level` is "full" or "light"; `alone`: no other worker serves the same port.
    """

    def __init__(
        self, profile: Profile, model: str, counting: CountingThread, live: LiveCounters, writer: JournalWriter, *,
        level: str = "full", worker: int = 0, alone: bool = True,
    ) -> None:  # fmt: skip
        self.profile, self.model, self.counting, self.live, self.writer = profile, model, counting, live, writer
        self.alone = alone
        self.counts = level == "full" and not profile.precompiled
        self.knows_bodies = level == "full" or profile.draws
        self._loop = asyncio.get_running_loop()
        self.express = Express(self)
        self.poller = Poller(self._loop, self._after_turn)
        self.pacer = Pacer(self._loop, self._after_turn)
        # Where nothing is paced a slot is held for no time, and so it is never waited for.
        self.slots = None if profile.slots is None or profile.unpaced else Slots(profile.slots, self.pacer.at)
        spaced = profile.chunk_text == "trailing_space"
        self.formats = {chat: Format(model, chat=chat, trailing_space=spaced) for chat in (False, True)}
        self.clock_offset_ns = clock_offset_ns()
        self.created = int(time.time())
        self.unnoted: set[Session] = set()
        self._sessions: set[Session] = set()
        self.same_plans = lru_cache(PLANS_KEPT)(self._same_plans)
        self.next_req = worker * WORKER_REQUESTS
        self._accepted = 0
        self.uncounted: dict[int, Request] = {}  # ended, and the prompt's count is still to come
        self.metrics = Metrics(model)
        self._bodies: dict[bytes, int] = {}  # how often each came

    def accept(self, sock: socket.socket, number: int | None = None) -> None:
        """Serve a new connection until it closes; `number` is its own among those of all workers."""
        self._accepted += 1
        connection = Connection(self._loop, self.poller, sock, self._accepted if number is None else number)
        self._sessions.add(Session(self, connection))

    def left(self, session: Session) -> None:
        """Forget a session that is over."""
        self._sessions.discard(session)
        self.unnoted.discard(session)

    def new_request(self, connection: Connection, arrival: int, kernel: int, read_ns: int) -> Request:
        """Begin a request; its first byte was read at `read_ns`, and had arrived at `arrival`."""
        request = Request(self.next_req, connection.number, connection.requests, arrival, kernel, read_ns)
        connection.requests += 1
        self.next_req += 1
        return request

    def know_body(self, request: Request) -> None:
        """Set digest and occurrence, unless that is left to sealing."""
        if self.knows_bodies:
            digest = request.digest = sha256(request.body).digest()[:16]
            bodies = self._bodies
            request.occurrence = occurrence = bodies.get(digest, 0)
            bodies[digest] = occurrence + 1

    def plans(self, request: Request, body: Body, *, chat: bool) -> list[Plan]:
        """Return a plan for each choice. Raises RequestRefused if all together are too long."""
        asked = (body.token_limit(chat=chat), body.min_tokens or 0, bool(body.ignore_eos))
        choices = body.choices if chat else body.choices * len(body.prompts)
        if choices == 1 and not self.profile.draws:
            return self.same_plans(*asked)
        plans = [self._plan(asked, request, choice) for choice in range(choices)]
        if sum(plan.tokens for plan in plans) > MAX_TOKENS_LIMIT:
            raise RequestRefused(f"all choices together must be at most {MAX_TOKENS_LIMIT} tokens", param="n")
        return plans

    def _plan(self, asked: tuple[int | None, int, bool], request: Request | None = None, choice: int = 0) -> Plan:
        limit, shortest, ignores = asked
        digest, occurrence = (request.digest, request.occurrence) if request else (b"", 0)
        return plan_reply(self.profile, max_tokens=limit, min_tokens=shortest, ignore_eos=ignores, digest=digest,
                          occurrence=occurrence, choice=choice)  # fmt: skip

    def _same_plans(self, *asked: Any) -> list[Plan]:
        return [self._plan(asked)]  # given one by one: that makes a key at no cost

    def created_at(self, arrival: int) -> int:
        """Return the Unix time, in whole seconds, of an arrival."""
        return (arrival + self.clock_offset_ns) // 1_000_000_000

    def note(self, request: Request) -> None:
        """Write what is known of a request that has come; the last time counts."""
        request.noted = True
        head = request.head
        raw = request.unparsed if head is None else head.kept + request.body
        self.writer.request(
            request.req, request.conn, request.nth, request.arrival, request.kernel, request.read, request.received,
            raw, request.digest, request.occurrence, request.planned_first,
        )  # fmt: skip

    def ended(self, request: Request, how: str | None, stamp: int, connection: Connection) -> None:
        """Write how a request ended, `how` None: not at all."""
        request.how, request.done = how, stamp
        if connection.was_blocked:
            request.blocked_ns += connection.take_blocked_ns()
        if how != COMPLETE or request.blocked_ns:  # else the kernel took all at once
            request.outq_bytes = connection.outq_bytes()
        if request.generates:
            self.live.ended += 1
        if request.being_counted:
            self.uncounted[request.req] = request
        else:
            self._note_end(request)

    def count_came(self, request: Request) -> None:
        """Write the end of a request again, or now, with its prompt's count."""
        self.uncounted.pop(request.req, None)
        self._note_end(request)

    def _note_end(self, request: Request) -> None:
        bare, usage = request.counted or (-1, -1)
        self.writer.end(
            request.req, request.done, request.status, request.tokens, request.size, request.blocked_ns,
            request.outq_bytes, bare, usage, 0, request.reason, _HOW_CODES[request.how],
        )  # fmt: skip

    def _after_turn(self) -> None:
        self.counting.hand_over()
        if self.writer.full:
            self._flush()

    def _flush(self) -> None:
        self.clock_offset_ns = clock_offset_ns()
        try:
            self.writer.flush(self.clock_offset_ns)
        except OSError as error:
            raise JournalUnwritable(error.strerror or str(error)) from error

    def tick(self) -> None:
        """Write what there is, also of requests that are not whole or not counted; to be called every 200 ms."""
        for session in self.unnoted:
            session.note_waiting()
        self.unnoted.clear()
        for request in self.uncounted.values():
            if request.being_counted:
                request.being_counted = False
                self._note_end(request)
        self._flush()
        self.metrics.digest()

    def metrics_text(self) -> bytes:
        """Return /metrics in Prometheus' text format."""
        if self.slots is None:
            self.metrics.running = self.live.arrived - self.live.ended
        else:
            self.metrics.running, self.metrics.waiting = self.slots.held, self.slots.waiting
        return self.metrics.text()

    def stop(self) -> None:
        """Read and write nothing more; what is in flight stays so in the journal."""
        self.pacer.close()
        for session in list(self._sessions):
            session.abandon()
        self.poller.close()
