"""All that is measured of one journal, in one value for the checks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load import instrument, requests
from loadproof.load.concurrency import InFlight, flight, in_flight
from loadproof.load.headers import header_values
from loadproof.load.instrument import Timekeeping, measure_timekeeping
from loadproof.load.labels import Labels
from loadproof.load.requests import Bools, Requests, generation_rows, measure_requests

if TYPE_CHECKING:
    from loadproof.journal import Journal

COLUMNS = tuple(dict.fromkeys((*requests.COLUMNS, *instrument.COLUMNS)))
"""The journal's columns that are measured; bodies are not, and headers only where some are asked for."""


@dataclass(frozen=True)
class Load:
    """What was offered.

    `model` is the served name, `profile` what the server was told, `tool_ended_ns` when the tool's process was gone,
    if known; `counted`: whether it counted the prompts' tokens. `kernel` has an entry per request: whether its arrival
    is the kernel's stamp; where it is not, it is our own read. `header_values` has those of the headers that were asked
    for, by name as it was asked, None where a request has none.
    """

    requests: Requests
    timekeeping: Timekeeping
    model: str
    profile: dict[str, object]
    kernel: Bools
    tool_ended_ns: int | None = None
    counted: bool = True
    header_values: dict[str, Labels] = field(default_factory=dict)

    @cached_property
    def in_flight(self) -> InFlight:
        """The in-flight concurrency of all requests."""
        return in_flight(self.requests)

    def rows(self, rows: slice | Bools) -> Load:
        """Return the load of some of the requests; timekeeping and side traffic stay those of all."""
        values = {name: labels[rows] for name, labels in self.header_values.items()}
        return replace(self, requests=self.requests.rows(rows), kernel=self.kernel[rows], header_values=values)

    def without_leading(self, count: int) -> Load:
        """Return the load without the first `count` requests."""
        return self.rows(slice(count, None))

    def peaks_with_clock_off(self, before: Requests | None = None) -> tuple[int, int]:
        """Return the smallest and the largest peak in flight, had each kernel stamp been off by the clock's jump.

        Ends are of another clock: what comes later is in flight for a shorter time, so these two bound the true peak.
        Of the requests `before` what had not ended is in flight, too.
        """
        off = np.where(self.kernel, round(self.timekeeping.clock_jump_s * 1e9), 0)
        own = self.requests
        low, high = (flight(replace(own, start_ns=own.start_ns + shift), before).peak for shift in (off, -off))
        return low, high


def measure(journal: Journal, *, tool_ended_ns: int | None = None, headers: Iterable[str] = ()) -> Load:
    """Measure a journal; the values of some headers only where they are asked for by name."""
    told, rows = journal.metadata, generation_rows(journal)
    names = list(headers)
    values = header_values(journal.table["headers"], names) if names else {}
    kernel = np.asarray(journal.table["arrival_kernel"].to_numpy(), dtype=np.bool_)
    return Load(measure_requests(journal), measure_timekeeping(journal), told.model, told.profile, kernel[rows],
                tool_ended_ns, told.counts_prompts,
                {name: labels[rows] for name, labels in values.items()})  # fmt: skip
