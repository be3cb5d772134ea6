"""Does a server that begins where another is, or was, leave that one's journal alone, and nothing of its own?"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from loadproof.absorber import recording
from loadproof.absorber.poller import Poller
from loadproof.absorber.profile import Profile
from loadproof.absorber.recording import Options, record
from loadproof.errors import UsageProblem
from loadproof.journal import FILE_NAME, read_journal
from loadproof.live import LiveCounters, read_live
from loadproof.record import Metadata
from loadproof.sealing import seal
from loadproof.streams import JournalWriter
from loadproof.tokenizer import tokenizer_dir


class NoDoor:
    """Nobody comes."""

    def start(self, poller: Poller, on_socket: Callable[..., None], /) -> None:
        """Watch nothing."""

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture(autouse=True)
def _quick_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """No tokenizer, since no prompt is counted, and nothing that would last longer than the test."""
    monkeypatch.setattr(recording, "ready_counter", lambda: SimpleNamespace(folder=tokenizer_dir()))
    for name in ("allow_descriptors", "quiet_memory"):
        monkeypatch.setattr(recording, name, lambda: None)
    monkeypatch.setattr(recording, "take_precedence", lambda _: None)


def recorded(folder: Path, *, worker: int = 0, workers: int = 1) -> None:
    """Begin, and end at once."""
    options = Options(profile=Profile(), journal=folder, workers=workers)
    stopping = asyncio.Event()
    stopping.set()
    asyncio.run(record(options, stopping, NoDoor(), lambda: None, worker=worker))


def other(folder: Path) -> JournalWriter:
    return JournalWriter(folder, Metadata(host="h", boot_id="b", model="m", clock_offset_ns=(0, 0), profile={}))


def test_a_journal_that_is_sealed_while_we_start_is_nobodys_to_add_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = other(tmp_path)

    def meanwhile() -> None:
        running.close()
        seal(tmp_path)

    monkeypatch.setattr(recording, "ready_counter", meanwhile)
    with pytest.raises(UsageProblem, match="already holds a journal, which is never overwritten; name another folder"):
        recorded(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert read_journal(tmp_path).metadata.host == "h"


def test_a_refused_start_leaves_the_counters_of_who_runs(tmp_path: Path) -> None:
    running, live = other(tmp_path), LiveCounters(tmp_path)
    live.arrived = 7
    live.publish()
    inode = (tmp_path / "live-0.bin").stat().st_ino
    with pytest.raises(UsageProblem, match="is part of a journal that was not sealed"):
        recorded(tmp_path)
    assert read_live(tmp_path) == (7, 0)
    assert (tmp_path / "live-0.bin").stat().st_ino == inode
    live.close()
    running.close()


def test_a_refused_start_leaves_no_counters(tmp_path: Path) -> None:
    other(tmp_path).close()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageProblem, match="is part of a journal that was not sealed"):
        recorded(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_without_counters_there_are_no_streams(tmp_path: Path) -> None:
    (tmp_path / "live-0.bin").mkdir()
    with pytest.raises(UsageProblem, match="the journal cannot be written there"):
        recorded(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["live-0.bin"]


def test_a_part_tells_how_many_there_should_be(tmp_path: Path) -> None:
    recorded(tmp_path, worker=0, workers=2)
    metadata = read_journal(tmp_path).metadata
    assert (metadata.workers, metadata.closed) == (2, False)
    recorded(tmp_path, worker=1, workers=2)
    assert read_journal(seal(tmp_path)).metadata.closed
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
