"""How did a program end, and what did it use? The values that `loadproof.process` hands over and `run.json` keeps."""

from __future__ import annotations

import signal

import msgspec


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What a program used with all its descendants, daemons included: CPU seconds, and peak memory in bytes.

    Missing from the CPU seconds is only who was never reaped by anybody, because its parent ignores SIGCHLD.
    """

    cpu_s: float
    peak_memory_bytes: int
    memory_measure: str = "sampled PSS of all processes below the warden"


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a program ended; `exit_code` is negative for a signal, as in `subprocess`.

    `started_ns` and `ended_ns` are CLOCK_MONOTONIC nanoseconds; `stopped_because` is empty when it ended by itself.
    """

    argv: list[str]
    exit_code: int
    started_ns: int
    ended_ns: int
    usage: Usage
    stopped_because: str = ""

    @property
    def wall_s(self) -> float:
        """Return the seconds from spawn to exit."""
        return (self.ended_ns - self.started_ns) / 1e9

    def says(self) -> str:
        """Return how it ended, in words."""
        if self.stopped_because:
            return self.stopped_because
        if self.exit_code < 0:
            return f"was ended by {_signal_name(-self.exit_code)} after {self.wall_s:.1f} s"
        return f"ended with exit code {self.exit_code} after {self.wall_s:.1f} s"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time signals between the first and the last have no name
        return f"signal {number}"
