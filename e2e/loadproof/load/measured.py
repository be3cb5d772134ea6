"""All that is measured of one journal, in one value for the checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadproof.load.concurrency import InFlight, in_flight
from loadproof.load.instrument import Timekeeping, measure_timekeeping
from loadproof.load.requests import Requests, measure_requests

if TYPE_CHECKING:
    from loadproof.journal import Journal


@dataclass(frozen=True)
class Load:
    """What was offered.

    `model` is the served name, `profile` what the server was told, `tool_ended_ns` when the tool's process was gone,
    if known; `counted`: whether it counted the prompts' tokens.
    """

    requests: Requests
    timekeeping: Timekeeping
    model: str
    profile: dict[str, object]
    tool_ended_ns: int | None = None
    counted: bool = True

    @property
    def in_flight(self) -> InFlight:
        """The in-flight concurrency of all requests."""
        return in_flight(self.requests)


def measure(journal: Journal, *, tool_ended_ns: int | None = None) -> Load:
    """Measure a journal."""
    told = journal.metadata
    return Load(measure_requests(journal), measure_timekeeping(journal), told.model, told.profile, tool_ended_ns,
                told.counts_prompts)  # fmt: skip
