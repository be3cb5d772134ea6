"""What do all connections of one absorber share?

The profile, the records of the journal, the tokenizer's thread, the pacer and the counters. Left out: faults,
queues, several workers.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.metrics import Metrics
from loadproof.absorber.pacer import Pacer
from loadproof.absorber.profile import Profile
from loadproof.absorber.session import Session
from loadproof.absorber.sockets import Connection
from loadproof.journal import COMPLETE, Record
from loadproof.live import LiveCounters


def clock_offset_ns() -> int:
    """Return CLOCK_REALTIME - CLOCK_MONOTONIC in nanoseconds, from the closest of five pairs of reads.

    A thread that loses the processor between two reads would look like a clock that jumped.
    """
    pairs = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, real, after = min(pairs, key=lambda pair: pair[2] - pair[0])
    return real - (before + after) // 2


class Server:
    """The absorber's state: all records, and what is needed to answer."""

    def __init__(self, profile: Profile, model: str, counting: CountingThread, live: LiveCounters) -> None:
        self.profile, self.model, self.counting, self.live = profile, model, counting, live
        self.pacer = Pacer(asyncio.get_running_loop())
        self.records: list[Record] = []
        self.open: set[Connection] = set()
        self.clock_offset_ns = clock_offset_ns()
        self.created = int(time.time())
        self._metrics = Metrics(model)
        self._bodies: Counter[bytes] = Counter()

    def accept(self, connection: Connection) -> None:
        """Serve a new connection until it closes."""
        self.open.add(connection)
        Session(self, connection)

    def new_record(self, connection: Connection, read_ns: int) -> Record:
        """Begin a row for the request whose first byte was read at `read_ns`."""
        record = Record(len(self.records), connection.number, connection.requests, read_ns, read_ns)
        connection.requests += 1
        self.records.append(record)
        return record

    def know_body(self, record: Record) -> None:
        """Set digest and occurrence."""
        record.digest = hashlib.sha256(record.body).digest()[:16]
        record.occurrence = self._bodies[record.digest]
        self._bodies[record.digest] += 1

    def generation_ended(self, record: Record) -> None:
        """Count a generation request that has ended, in whatever way."""
        self.live.ended += 1
        if record.how == COMPLETE:
            self._metrics.observe(record)

    def metrics_text(self) -> bytes:
        """Return /metrics in Prometheus' text format."""
        self._metrics.running = self.live.arrived - self.live.ended
        return self._metrics.text()

    def stop(self) -> None:
        """Read and write nothing more; what is in flight stays so in the journal."""
        self.pacer.close()
        for connection in self.open:
            connection.abandon()
        self.open.clear()
