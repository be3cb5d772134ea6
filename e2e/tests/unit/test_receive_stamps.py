"""Does the reader of kernel stamps begin where every reading of a clock takes long?"""

from __future__ import annotations

import time

import pytest

from loadproof.metronome.receive_stamps import StampedReads

STEP_NS = 20_000  # far above what counts as close
OFFSET_NS = 10**18


class SlowClocks:
    """Two clocks of which each reading takes `STEP_NS`, once twenty times that; bounded, or a wait would never end."""

    def __init__(self) -> None:
        self.now_ns = self.readings = 0

    def monotonic_ns(self) -> int:
        self.readings += 1
        assert self.readings < 1000, "waits for a close reading, which never comes"
        self.now_ns += STEP_NS * (20 if self.readings == 2 else 1)
        return self.now_ns

    def time_ns(self) -> int:
        return self.monotonic_ns() + OFFSET_NS


def test_the_closest_of_the_first_readings_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = SlowClocks()
    monkeypatch.setattr(time, "monotonic_ns", clocks.monotonic_ns)
    monkeypatch.setattr(time, "time_ns", clocks.time_ns)
    reads = StampedReads()
    assert reads._offset_ns == OFFSET_NS  # no read shows it without a stamp of the kernel's real clock
