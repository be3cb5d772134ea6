"""How far is CLOCK_REALTIME, in which the kernel stamps packets, from CLOCK_MONOTONIC, in which our stamps are?

Method: three readings in a row, monotonic - real - monotonic, the closest of many triples; once before and once after a
capture, and in between a straight line, because the system's clock discipline stretches the one and not the other.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from loadproof.errors import BrokenRun

_TRIPLES = 200
_JUMP_NS = 1_000_000


class Sample(NamedTuple):
    """`offset_ns` = CLOCK_REALTIME - CLOCK_MONOTONIC at `real_ns`, known to about `width_ns`."""

    real_ns: int
    offset_ns: int
    width_ns: int


def sample() -> Sample:
    """Return the closest of many samples, taken now."""
    triples = ((time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(_TRIPLES))
    before, real, after = min(triples, key=lambda triple: triple[2] - triple[0])
    return Sample(real, real - (before + after) // 2, after - before)


class Bridge:
    """Turns CLOCK_REALTIME into CLOCK_MONOTONIC between two samples. Raises BrokenRun if the clock jumped."""

    def __init__(self, before: Sample, after: Sample) -> None:
        self._before = before
        self.drift_ns = after.offset_ns - before.offset_ns
        self.width_ns = max(before.width_ns, after.width_ns)
        self._span_ns = max(1, after.real_ns - before.real_ns)
        if abs(self.drift_ns) > _JUMP_NS:
            raise BrokenRun(f"the system's clock moved by {self.drift_ns / 1e6:.1f} ms during the capture; measure "
                            "again when it is settled")  # fmt: skip

    def monotonic_ns(self, real_ns: int) -> int:
        """Return the CLOCK_MONOTONIC time of `real_ns`."""
        share = (real_ns - self._before.real_ns) / self._span_ns
        return real_ns - self._before.offset_ns - round(self.drift_ns * share)
