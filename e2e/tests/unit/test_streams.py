"""Is what was noted on disk after a flush, in a form that others open, whatever becomes of the writer?"""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from loadproof.errors import UsageProblem
from loadproof.journal import read_journal
from loadproof.record import LIVE, WRITER_KEY, Metadata
from loadproof.sealing import seal
from loadproof.streams import BATCH_CHUNKS, JournalWriter, SameTimeChunks

METADATA = Metadata(host="h", boot_id="b", model="m", clock_offset_ns=(100, 100), profile={"ttft_s": 0.1})
HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n"

# A process that notes and flushes until it is ended: after each flush it says how many requests are on disk.
ENDLESS = """
import sys
from pathlib import Path
from loadproof.record import Metadata
from loadproof.streams import JournalWriter

metadata = Metadata(host="h", boot_id="b", model="m", clock_offset_ns=(0, 0), profile={})
writer = JournalWriter(Path(sys.argv[1]), metadata)
for k in range(10**6):
    head = b"POST /%d HTTP/1.1\\r\\n\\r\\n" % k
    writer.request(k, k % 7, k // 7, 1000 + k, 1, 1001 + k, 1002 + k, head, b"d" * 16, k, 0)
    writer.chunk(k, 2000 + k, 2001 + k, 1, 9, 0)
    writer.chunk(k, 3000 + k, 3002 + k, 1, 9, 0)
    writer.end(k, 4000 + k, 200, 2, 18, 0, 0, 3, 4, 0, 2, 1)
    if writer.rows >= 40:
        writer.flush(0)
        print(k + 1, flush=True)
"""


def noted(writer: JournalWriter, *numbers: int) -> None:
    """Note a whole request of two chunks for each number."""
    for k in numbers:
        writer.request(k, 5, k, 1000 + k, 1, 1001 + k, 1002 + k, HEAD + b"%d" % k, b"d" * 16, k, 1500 + k)
        writer.chunk(k, 2000 + k, 2001 + k, 1, 10, 0)
        writer.chunk(k, 3000 + k, 0, 2, 20, 1)
        writer.end(k, 4000 + k, 200, 3, 30, 7, 8, 9, -1, 0, 2, 1)


def opened(path: Path) -> tuple[list[pa.RecordBatch], list[dict[bytes, bytes]]]:
    """Read a stream with nothing but pyarrow."""
    reader = pa.ipc.open_stream(path.read_bytes())
    found = list(reader.iter_batches_with_custom_metadata())
    return [batch for batch, _ in found], [dict(beside or {}) for _, beside in found]


def test_what_was_noted_is_what_others_read(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, METADATA, worker=3)
    noted(writer, 0, 1)
    assert writer.rows == 8
    writer.flush(123)
    assert writer.rows == 0
    noted(writer, 2)
    writer.flush(-7)
    writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chunks-3.arrows", "ends-3.arrows", "requests-3.arrows"]
    requests, beside = opened(tmp_path / "requests-3.arrows")
    assert beside == [{b"clock_offset_ns": b"123"}, {b"clock_offset_ns": b"-7"}]
    assert [row for batch in requests for row in batch.to_pylist()] == [
        {"req": k, "conn": 5, "nth": k, "arrival": 1000 + k, "kernel": 1, "read": 1001 + k, "received": 1002 + k,
         "raw": HEAD + b"%d" % k, "digest": b"d" * 16, "occurrence": k, "planned_first": 1500 + k}
        for k in range(3)
    ]  # fmt: skip
    chunks, _ = opened(tmp_path / "chunks-3.arrows")
    assert [row for batch in chunks for row in batch.to_pylist()][2:4] == [
        {"req": 1, "planned": 2001, "actual": 2002, "tokens": 1, "bytes": 10, "choice": 0},
        {"req": 1, "planned": 3001, "actual": 0, "tokens": 2, "bytes": 20, "choice": 1},
    ]
    ends, _ = opened(tmp_path / "ends-3.arrows")
    assert [row for batch in ends for row in batch.to_pylist()][2] == {
        "req": 2, "done": 4002, "status": 200, "tokens": 3, "bytes": 30, "blocked_ns": 7, "outq_bytes": 8, "bare": 9,
        "usage": -1, "fault": 0, "reason": 2, "how": 1,
    }  # fmt: skip
    assert b'"worker":3' in ends[0].schema.metadata[b"loadproof"]


def test_chunks_that_leave_together_are_the_chunks_one_by_one(tmp_path: Path) -> None:
    together, single = JournalWriter(tmp_path, METADATA), JournalWriter(tmp_path, METADATA, worker=1)
    form = SameTimeChunks([0, 1, 1], [9, 20, 2**32 - 1])
    for req, planned, actual in ((2**64 - 1, 5, 7), (3, 6, 0)):
        together.same_time_chunks(form, req, planned, actual)
        for tokens, size in ((0, 9), (1, 20), (1, 2**32 - 1)):
            single.chunk(req, planned, actual, tokens, size, 0)
    assert together.rows == single.rows == 6
    for writer in (together, single):
        writer.flush(0)
        writer.close()
    (first,), (second,) = (opened(tmp_path / f"chunks-{worker}.arrows")[0] for worker in (0, 1))
    assert first.to_pylist() == second.to_pylist()


def test_a_stream_is_full_with_as_many_rows_as_a_batch_should_have(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    for k in range(BATCH_CHUNKS):
        assert not writer.full
        writer.chunk(k, 1, 1, 1, 1, 0)
    assert writer.full
    writer.flush(0)
    assert not writer.full
    writer.close()


def test_the_widest_values_fit(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    top = 2**63 - 1
    writer.request(2**64 - 1, 2**32 - 1, 2**32 - 1, top, 1, top, top, b"", b"", 2**32 - 1, top)
    writer.chunk(2**64 - 1, top, top, 2**32 - 1, 2**32 - 1, 2**16 - 1)
    writer.end(2**64 - 1, top, 599, 2**32 - 1, 2**64 - 1, top, 2**32 - 1, 2**31 - 1, 2**31 - 1, 2**16 - 1, 2, 3)
    writer.flush(top)
    writer.close()
    rows = [opened(tmp_path / f"{kind}-0.arrows")[0][0].to_pylist()[0] for kind in LIVE]
    assert [row["req"] for row in rows] == [2**64 - 1] * 3
    assert rows[0]["digest"] == bytes(16)
    assert (rows[1]["tokens"], rows[2]["bytes"]) == (2**32 - 1, 2**64 - 1)


def test_nothing_is_on_disk_before_a_flush_and_one_write_brings_each_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    before = {path.name: path.stat().st_size for path in tmp_path.iterdir()}
    noted(writer, *range(100))
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == before
    writes: list[str] = []
    real = os.write

    def seen(fd: int, data: bytes) -> int:
        writes.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        return real(fd, data)

    monkeypatch.setattr(os, "write", seen)
    writer.flush(0)
    assert writes == ["requests-0.arrows", "chunks-0.arrows", "ends-0.arrows"]
    writer.end(7, 1, 200, 0, 0, 0, 0, 3, 4, 0, 0, 1)
    writer.flush(0)
    assert writes[3:] == ["ends-0.arrows"]
    writer.flush(0)
    assert len(writes) == 4
    writer.close()


def test_a_short_write_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, real = JournalWriter(tmp_path, METADATA), os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:100]))
    noted(writer, *range(9))
    writer.flush(0)
    writer.close()
    assert [opened(tmp_path / f"{kind}-0.arrows")[0][0].num_rows for kind in LIVE] == [9, 18, 9]


@pytest.mark.parametrize("kind", list(LIVE))
@pytest.mark.parametrize("taken", [0, 1, 100])
def test_a_full_disk_costs_what_was_not_written_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, taken: int
) -> None:
    writer, real = JournalWriter(tmp_path, METADATA), os.write
    noted(writer, 0, 1, 2)
    writer.flush(0)
    room = iter([taken] if taken else [])

    def full(fd: int, data: bytes) -> int:
        if not Path(f"/proc/self/fd/{fd}").readlink().name.startswith(kind):
            return real(fd, data)
        left = next(room, 0)
        if not left:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:left])

    monkeypatch.setattr(os, "write", full)
    noted(writer, 3)
    with pytest.raises(OSError, match="No space left"):
        writer.flush(0)
    assert writer.rows > 0
    with pytest.raises(OSError, match="No space left"):
        writer.flush(0)
    writer.close()
    monkeypatch.undo()
    journal = read_journal(seal(tmp_path))
    rows = journal.table.to_pylist()
    assert [row["req"] for row in rows] == ([0, 1, 2] if kind == "requests" else [0, 1, 2, 3])
    assert [row["how_ended"] for row in rows[:3]] == ["complete"] * 3
    assert [len(row["planned_ns"]) for row in rows] == [2, 2, 2, *([0] if kind == "chunks" else [2])][: len(rows)]
    assert not journal.metadata.closed


def test_when_there_is_room_again_nothing_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, real = JournalWriter(tmp_path, METADATA), os.write

    def no_room(fd: int, data: bytes) -> int:
        if len(data) > 50:
            return real(fd, data[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", no_room)
    noted(writer, 0)
    with pytest.raises(OSError, match="No space left"):
        writer.flush(0)
    monkeypatch.undo()
    noted(writer, 1)
    writer.flush(0)
    writer.close()
    journal = read_journal(seal(tmp_path))
    assert [(row["req"], len(row["planned_ns"]), row["how_ended"]) for row in journal.table.to_pylist()] == [
        (0, 2, "complete"), (1, 2, "complete"),
    ]  # fmt: skip
    assert journal.metadata.closed


def test_streams_that_lie_there_are_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "chunks-0.arrows").write_bytes(b"precious")
    with pytest.raises(UsageProblem, match="is part of a journal that was not sealed; judge or move it, or name ano"):
        JournalWriter(tmp_path, METADATA)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("chunks-0.arrows", b"precious")]
    JournalWriter(tmp_path, METADATA, worker=1).close()


def test_streams_can_be_taken_away_again(tmp_path: Path) -> None:
    writer, other = JournalWriter(tmp_path, METADATA), JournalWriter(tmp_path, METADATA, worker=1)
    writer.discard()
    writer.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{kind}-1.arrows" for kind in sorted(LIVE)]
    JournalWriter(tmp_path, METADATA).close()
    other.close()


def test_no_two_writers_have_one_name(tmp_path: Path) -> None:
    for worker in range(2):
        JournalWriter(tmp_path, METADATA, worker=worker).close()
    found = [pa.ipc.open_stream(path.read_bytes()).schema.metadata[WRITER_KEY] for path in tmp_path.iterdir()]
    assert sorted(found.count(name) for name in set(found)) == [3, 3]


def test_a_folder_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        JournalWriter(tmp_path / "nowhere", METADATA)


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_writer_loses_only_what_it_had_not_flushed(tmp_path: Path, seed: int) -> None:
    flushes = random.Random(seed).randint(1, 60)
    with subprocess.Popen([sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(flushes)]
        process.send_signal(signal.SIGKILL)
        said += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    on_disk = int(next(line for line in reversed(said) if line.endswith("\n")))
    journal = read_journal(seal(tmp_path))
    rows = journal.table.to_pylist()
    assert on_disk <= len(rows) <= on_disk + 10, f"seed {seed}"  # a batch may be there that was not announced
    for k, row in enumerate(rows):
        assert (row["req"], row["path"], row["arrival_ns"]) == (k, f"/{k}", 1000 + k)
    for k, row in enumerate(rows[:on_disk]):
        assert (row["planned_ns"], row["late_ns"], row["done_ns"]) == ([2000 + k, 3000 + k], [1, 2], 4000 + k)
    assert not journal.metadata.closed


def test_a_limit_of_the_system_itself(tmp_path: Path) -> None:
    """The kernel's own short write and error, at a largest size of a file."""
    limit = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))\n"
    leave = "        except OSError:\n            writer.close()\n            sys.exit()\n"
    flush = "        writer.flush(0)\n"
    limited = limit + ENDLESS.replace(flush, f"        try:\n    {flush}{leave}")
    ended = subprocess.run(
        [sys.executable, "-c", limited, tmp_path], capture_output=True, text=True, check=False, timeout=60
    )
    on_disk = int(ended.stdout.splitlines()[-1])
    assert (ended.returncode, ended.stderr) == (0, "")
    journal = read_journal(seal(tmp_path))
    rows = journal.table.to_pylist()
    assert on_disk <= len(rows) <= on_disk + 10
    assert len(rows) > 100
    assert [row["how_ended"] for row in rows[:on_disk]] == ["complete"] * on_disk
    assert not journal.metadata.closed
