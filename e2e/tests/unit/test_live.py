"""Can another process see how far the absorber is, and is nobody harmed who looks?"""

from __future__ import annotations

import mmap
from pathlib import Path

import pytest

from loadproof.live import LiveCounters, live_files, read_live


def test_the_counters_of_all_writers_are_added(tmp_path: Path) -> None:
    writers = [LiveCounters(tmp_path, worker) for worker in range(3)]
    for k, live in enumerate(writers):
        live.arrived, live.ended = 10 + k, k
        live.publish()
    assert read_live(tmp_path) == (33, 3)
    (tmp_path / "live-1.bin").write_bytes(b"cut")
    assert read_live(tmp_path) == (22, 2)
    for live in writers:
        live.close()
    assert live_files(tmp_path) == []
    assert read_live(tmp_path) == (0, 0)


def test_what_was_mapped_before_stays_whole(tmp_path: Path) -> None:
    """A file that is cut short under a mapping ends the process that reads it."""
    earlier = LiveCounters(tmp_path)
    earlier.arrived = 5
    earlier.publish()
    with (tmp_path / "live-0.bin").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        later = LiveCounters(tmp_path)
        assert read_live(tmp_path) == (0, 0)
        assert int.from_bytes(mapped[:8], "little") == 5
    later.close()
    earlier.close()
    assert live_files(tmp_path) == []


def test_counters_that_cannot_be_mapped_leave_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("loadproof.live.mmap.mmap", fails)
    with pytest.raises(OSError, match="Cannot allocate"):
        LiveCounters(tmp_path)
    assert list(tmp_path.iterdir()) == []
