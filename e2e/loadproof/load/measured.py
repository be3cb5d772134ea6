"""All that is measured of one journal, in one value for the checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.concurrency import InFlight, in_flight
from loadproof.load.instrument import Timekeeping, measure_timekeeping
from loadproof.load.requests import Bools, Requests, generation_rows, measure_requests

if TYPE_CHECKING:
    from loadproof.journal import Journal

CHUNK_COLUMNS = ("planned_ns", "late_ns", "chunk_tokens", "chunk_bytes", "chunk_choice")  # most of what is left to sort


@dataclass(frozen=True)
class Load:
    """What was offered.

    `model` is the served name, `profile` what the server was told, `tool_ended_ns` when the tool's process was gone,
    if known; `counted`: whether it counted the prompts' tokens. `kernel` has an entry per request: whether its arrival
    is the kernel's stamp; where it is not, it is our own read.
    """

    requests: Requests
    timekeeping: Timekeeping
    model: str
    profile: dict[str, object]
    kernel: Bools
    tool_ended_ns: int | None = None
    counted: bool = True

    @property
    def in_flight(self) -> InFlight:
        """The in-flight concurrency of all requests."""
        return in_flight(self.requests)

    def without_leading(self, count: int) -> Load:
        """Return the load without the first `count` requests."""
        return replace(self, requests=self.requests.without_leading(count), kernel=self.kernel[count:])

    def peaks_with_clock_off(self) -> tuple[int, int]:
        """Return the smallest and the largest peak in flight, had each kernel stamp been off by the clock's jump.

        Ends are of another clock: what comes later is in flight for a shorter time, so these two bound the true peak.
        """
        off = np.where(self.kernel, round(self.timekeeping.clock_jump_s * 1e9), 0)
        low, high = (
            in_flight(replace(self.requests, start_ns=self.requests.start_ns + shift)).peak for shift in (off, -off)
        )
        return low, high


def measure(journal: Journal, *, tool_ended_ns: int | None = None) -> Load:
    """Measure a journal."""
    told = journal.metadata
    without_chunks = journal.table.drop_columns(list(CHUNK_COLUMNS))
    kernel = generation_rows(type(journal)(without_chunks, told)).table["arrival_kernel"].to_numpy()
    return Load(measure_requests(journal), measure_timekeeping(journal), told.model, told.profile,
                np.asarray(kernel, dtype=np.bool_), tool_ended_ns, told.counts_prompts)  # fmt: skip
