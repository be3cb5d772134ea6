"""Does sealing give the rows that were noted, wherever the streams were cut and however often it is done?"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.journal import FILE_NAME, SCHEMA, read_journal
from loadproof.judging import judge_journal
from loadproof.merging import GROUP_ROWS
from loadproof.parts import read_parts
from loadproof.raw_request import asked_columns
from loadproof.record import HOW, LIVE, METADATA_KEY, REASONS, Metadata
from loadproof.sealing import seal
from loadproof.streams import JournalWriter
from loadproof.verdict import Outcome
from tests.unit.forge import closed_case

METADATA = Metadata(host="h", boot_id="b", model="m", clock_offset_ns=(100, 100), profile={"ttft_s": 0.1})
WORKER = 2**48

type Row = dict[str, Any]


@dataclass
class Noted:
    """One request as it is noted: `ends` and `requests` may be several, of which the last counts."""

    k: int
    body: bytes = b"{}"
    received: int = 1
    chunks: list[tuple[int, int, int, int]] = field(default_factory=list)  # gap, lateness or -1, tokens, choice
    repeats: int = 1
    ends: list[tuple[int, int]] = field(default_factory=list)  # reason, how

    def planned(self) -> list[int]:
        return (10_000 * self.k + np.cumsum([gap for gap, *_ in self.chunks], dtype=np.int64)).tolist()

    def note_request(self, writer: JournalWriter, worker: int, *, last: bool) -> None:
        head = b"POST /%d HTTP/1.1\r\nX: %d\r\n\r\n" % (self.k, self.k)
        body, received = (self.body, self.received) if last else (self.body[:1], 0)
        digest, planned_first = bytes([self.k % 256]) * 16, 0 if self.k % 3 else 50 + self.k
        writer.request(worker * WORKER + self.k, self.k % 5, self.k, 100 + self.k, self.k % 2, 101 + self.k, received,
                       head + body, digest, self.k // 3, planned_first)  # fmt: skip

    def note_chunks(self, writer: JournalWriter, worker: int) -> None:
        for planned, (_, late, tokens, choice) in zip(self.planned(), self.chunks, strict=True):
            writer.chunk(worker * WORKER + self.k, planned, 0 if late < 0 else planned + late, tokens, tokens, choice)

    def note_ends(self, writer: JournalWriter, worker: int) -> None:
        for i, (reason, how) in enumerate(self.ends):
            writer.end(worker * WORKER + self.k, 900 + self.k, 200 + i, 70, 71, 72, 73, i - 1, self.k, i, reason, how)

    def row(self, worker: int) -> Row:
        """What must come of it, by the words of record.py."""
        reason, how = self.ends[-1] if self.ends else (0, 0)
        i, known = len(self.ends) - 1, bool(self.ends)
        written = sum(tokens for _, late, tokens, _ in self.chunks if late >= 0)
        return {
            "req": worker * WORKER + self.k, "worker": worker, "conn": self.k % 5, "nth": self.k,
            "arrival_ns": 100 + self.k, "arrival_kernel": self.k % 2 == 1, "read_ns": 101 + self.k,
            "received_ns": self.received, "method": "POST", "path": f"/{self.k}",
            "headers": [{"name": "X", "value": str(self.k)}], "header_names": "x", "body": self.body,
            "digest": bytes([self.k % 256]) * 16, "occurrence": self.k // 3, "model": None, "stream": None,
            "ignore_eos": None, "max_tokens": None, "extra_fields": "{}",
            "prompt_digest": None, "prefix_digests": [],
            "bare_prompt_tokens": i - 1 if i > 0 else None, "usage_prompt_tokens": self.k if known else None,
            "planned_first_ns": None if self.k % 3 else 50 + self.k, "planned_ns": self.planned(),
            "late_ns": [None if late < 0 else late for _, late, *_ in self.chunks],
            "chunk_tokens": [tokens for *_, tokens, _ in self.chunks],
            "chunk_bytes": [tokens for *_, tokens, _ in self.chunks],
            "chunk_choice": [choice for *_, choice in self.chunks],
            "done_ns": 900 + self.k if known else None, "status": 200 + i if known else None,
            "output_tokens": 70 if how else written, "bytes": 71 if how else written,
            "blocked_ns": 72 if known else 0, "outq_bytes": 73 if known else 0, "fault": i if i > 0 else None,
            "finish_reason": REASONS[reason], "how_ended": HOW[how],
        }  # fmt: skip


CHUNK = st.tuples(
    st.integers(1, 2**40), st.one_of(st.just(-1), st.integers(0, 2**40)), st.integers(0, 2**28), st.integers(0, 9)
)
NOTED = st.builds(
    Noted,
    k=st.integers(0, 400),
    body=st.binary(max_size=9).map(lambda data: b"-" + data),
    received=st.integers(0, 9),
    chunks=st.lists(CHUNK, max_size=6),
    repeats=st.integers(1, 3),
    ends=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=3),
)


def write(folder: Path, noted: Sequence[Noted], *, flush_every: int = 3, worker: int = 0, **metadata: object) -> None:
    """Note requests first, then the rest, chunks of all requests in turns, with flushes in between."""
    writer = JournalWriter(folder, Metadata(**{**_fields(), **metadata}), worker=worker)
    for turn in range(3):
        for i, each in enumerate(noted):
            if turn < each.repeats:
                each.note_request(writer, worker, last=turn == each.repeats - 1)
            if turn == 1:
                each.note_chunks(writer, worker)
            if turn == 2:
                each.note_ends(writer, worker)
            if i % flush_every == 0:
                writer.flush(100)
    writer.flush(100)
    writer.close()


def _fields() -> dict[str, Any]:
    return {name: getattr(METADATA, name) for name in METADATA.__struct_fields__}


def some(n: int = 4) -> list[Noted]:
    """Ordinary requests of a few chunks each."""
    return [Noted(k=k, chunks=[(5 + j, j, 1, 0) for j in range(k % 3 + 1)], ends=[(2, 1)]) for k in range(n)]


def rows_in(folder: Path) -> list[Row]:
    return [dict(row) for row in read_journal(folder).table.to_pylist()]


@settings(derandomize=True, max_examples=50, deadline=None)
@given(st.lists(NOTED, max_size=12, unique_by=lambda noted: noted.k), st.integers(1, 9), st.booleans())
def test_sealing_gives_the_rows_that_were_noted(
    tmp_path_factory: pytest.TempPathFactory, noted: list[Noted], flush_every: int, by_workers: bool
) -> None:
    folder = tmp_path_factory.mktemp("property")
    split = [noted[::2], noted[1::2]] if by_workers else [noted]
    for worker, own in enumerate(split):
        write(folder, own, flush_every=flush_every, worker=worker, workers=len(split))
    wanted = [each.row(w) for w, own in enumerate(split) for each in sorted(own, key=lambda one: one.k)]
    unsealed = read_journal(folder)
    assert unsealed.table.to_pylist() == wanted
    assert len(list(folder.iterdir())) == 3 * len(split)  # reading changed nothing
    assert seal(folder) == folder / FILE_NAME
    sealed = read_journal(folder)
    assert sealed.table.to_pylist() == wanted
    assert sealed.metadata == unsealed.metadata == Metadata(**{**_fields(), "workers": len(split)})
    assert [path.name for path in folder.iterdir()] == [FILE_NAME]
    shutil.rmtree(folder)


@pytest.mark.parametrize("kind", list(LIVE))
def test_a_stream_may_be_cut_at_every_byte(tmp_path: Path, kind: str) -> None:
    """Of the header and of two batches; what came before the cut counts, and never a wrong row."""
    whole = tmp_path / "whole"
    whole.mkdir()
    noted = [Noted(k=k, chunks=[(5, 3, 1, 0), (6, -1, 2, 1)], ends=[(2, 1)]) for k in range(4)]
    writer = JournalWriter(whole, METADATA)
    stops = []
    for each in noted:
        stops.append((whole / f"{kind}-0.arrows").stat().st_size)
        each.note_request(writer, 0, last=True)
        each.note_chunks(writer, 0)
        each.note_ends(writer, 0)
        writer.flush(100)
    writer.close()
    data = (whole / f"{kind}-0.arrows").read_bytes()
    folder = tmp_path / "cut"
    shutil.copytree(whole, folder)
    stream, place = folder / f"{kind}-0.arrows", list(LIVE).index(kind)
    everything = read_parts(whole)[0].streams[place].table
    for cut in [*range(0, stops[1], 11), *range(stops[1], stops[2] + 1), len(data) - 1, len(data)]:
        stream.write_bytes(data[:cut])
        batches = sum(cut >= stop for stop in [*stops[1:], len(data) - 8])
        left = read_parts(folder)[0].streams[place]
        assert left.table.equals(everything[: batches * everything.num_rows // 4]), cut
        assert left.closed == (cut == len(data)), cut
    for batches, stop in enumerate([*stops, len(data) - 8]):
        stream.write_bytes(data[: stop + 5])
        journal = read_journal(folder)
        assert journal.table.to_pylist() == [left_of(each, kind, cut=each.k >= batches) for each in noted
                                             if kind != "requests" or each.k < batches]  # fmt: skip
        assert journal.metadata.lost_requests == (4 - batches if kind == "requests" else 0)
        assert (journal.metadata.closed, journal.metadata.model) == (False, "m")


def left_of(noted: Noted, kind: str, *, cut: bool) -> Row:
    """The row of a request of which one stream has no rows."""
    chunks, ends = [] if cut and kind == "chunks" else noted.chunks, [] if cut and kind == "ends" else noted.ends
    return Noted(noted.k, chunks=chunks, ends=ends).row(0)


@pytest.mark.parametrize("missing", [("chunks",), ("ends",), ("requests",), ("chunks", "ends"), tuple(LIVE)])
def test_missing_or_empty_streams_have_no_rows(tmp_path: Path, missing: tuple[str, ...]) -> None:
    for name, empty in (("gone", False), ("empty", True)):
        folder = tmp_path / name
        folder.mkdir()
        write(folder, some())
        for kind in missing:
            (folder / f"{kind}-0.arrows").unlink()
            if empty:
                (folder / f"{kind}-0.arrows").touch()
        if missing == tuple(LIVE) and not empty:
            with pytest.raises(UsageProblem, match="there is no journal; name the folder"):
                seal(folder)
            continue
        journal = read_journal(seal(folder))
        assert journal.table.num_rows == (0 if "requests" in missing else 4)
        assert not journal.metadata.closed
        assert journal.metadata.host == ("" if missing == tuple(LIVE) else "h")


def test_sealing_twice_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path, some())
    path = seal(tmp_path)
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    assert seal(tmp_path) == path
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_many_may_seal_at_once(tmp_path: Path) -> None:
    write(tmp_path, some(300))
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(seal, [tmp_path] * 12)) == {tmp_path / FILE_NAME}
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert len(rows_in(tmp_path)) == 300


@pytest.mark.parametrize("at", [(pq.ParquetWriter, "write_table"), (os, "fsync"), (Path, "rename")])
def test_interrupted_sealing_leaves_the_streams_and_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: tuple[object, str]
) -> None:
    write(tmp_path, some())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(*at, fails)
        with pytest.raises(OSError, match="No space left"):
            seal(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert [row["req"] for row in rows_in(seal(tmp_path))] == [0, 1, 2, 3]


def test_after_a_kill_between_renaming_and_removing_the_streams_go(tmp_path: Path) -> None:
    write(tmp_path, some())
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in list(tmp_path.glob("*.arrows")):
        shutil.copy(path, copy)
    shutil.copy(seal(tmp_path), copy)
    (copy / f".{FILE_NAME}.part").write_bytes(b"of an earlier kill")
    before = (copy / FILE_NAME).read_bytes()
    seal(copy)
    assert list(copy.glob("*.arrows")) == []
    assert (copy / FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("kind", list(LIVE))
def test_streams_beside_a_journal_that_is_not_theirs_are_kept(tmp_path: Path, kind: str) -> None:
    """Of a server that began while another sealed: they have the same names, and rows that are nowhere else."""
    write(tmp_path, some())
    seal(tmp_path)
    write(tmp_path, some(7))
    (tmp_path / "live-0.bin").write_bytes(bytes(16))
    for other in set(LIVE) - {kind}:
        (tmp_path / f"{other}-0.arrows").unlink()  # as a kill in the midst of removing would leave them
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(UsageProblem, match=rf"not of the streams beside it \({kind}-0\.arrows\); move them"):
        seal(tmp_path)
    with pytest.raises(UsageProblem, match="judge that one too"):
        judge_journal(closed_case(4, 1), "command", tmp_path, None)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    own = tmp_path / "own"
    own.mkdir()
    (tmp_path / f"{kind}-0.arrows").rename(own / f"{kind}-0.arrows")
    assert read_journal(seal(own)).table.num_rows == (7 if kind == "requests" else 0)


@pytest.mark.parametrize("damage", ["cut", "of nobody", "of a part"])
def test_a_journal_that_does_not_say_whose_it_is_takes_no_streams_away(tmp_path: Path, damage: str) -> None:
    write(tmp_path, some(), worker=1, workers=2)
    path = tmp_path / "first" / FILE_NAME
    path.parent.mkdir()
    for stream in tmp_path.glob("*.arrows"):
        shutil.copy(stream, path.parent)
    seal(path.parent)
    if damage == "of a part":
        write(tmp_path, some())
    elif damage == "of nobody":
        pq.write_table(pq.read_table(path).replace_schema_metadata(), path)
    else:
        path.write_bytes(path.read_bytes()[:-1])
    path.rename(tmp_path / FILE_NAME)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageProblem, match="is not of the streams beside it"):
        seal(tmp_path)
    assert sorted(tmp_path.iterdir()) == before


def test_a_stream_without_a_whole_header_has_nothing_to_lose(tmp_path: Path) -> None:
    write(tmp_path, some())
    seal(tmp_path)
    (tmp_path / "requests-0.arrows").touch()
    seal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_the_disk_has_the_journal_before_the_streams_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, some())
    at_sync, real = [], os.fsync

    def noted(fd: int) -> None:
        real(fd)
        held = pq.read_table(f"/proc/self/fd/{fd}")
        at_sync.append((held.num_rows, len(list(tmp_path.glob("*.arrows")))))

    monkeypatch.setattr(os, "fsync", noted)
    seal(tmp_path)
    assert at_sync == [(4, 3)]


def test_the_counters_of_a_killed_server_go_with_its_streams(tmp_path: Path) -> None:
    write(tmp_path, some())
    (tmp_path / "live-0.bin").write_bytes(bytes(16))
    seal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


@pytest.mark.parametrize("there", [(0, 1, 2), (0, 1), (2,), (0, 1, 2, 3)])
def test_a_journal_without_all_its_parts_has_no_end(tmp_path: Path, there: tuple[int, ...]) -> None:
    """Each part came to its own end."""
    for worker in there:
        write(tmp_path, some(2), worker=worker, workers=3)
    whole = there == (0, 1, 2)
    assert read_journal(tmp_path).metadata.closed == whole
    journal = read_journal(seal(tmp_path))
    assert (journal.metadata.closed, journal.metadata.workers) == (whole, 3)
    assert journal.table.num_rows == 2 * len(there)
    verdict = judge_journal(closed_case(4, 1), "command", tmp_path, None).verdict
    assert (verdict.outcome is Outcome.BROKEN) == (not whole)


def test_a_leftover_of_a_killed_sealing_is_in_nobodys_way(tmp_path: Path) -> None:
    write(tmp_path, some())
    (tmp_path / f".{FILE_NAME}.part").write_bytes(b"half")
    seal(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_what_is_still_being_written_is_left_alone_and_can_be_read(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    some()[0].note_request(writer, 0, last=True)
    writer.flush(100)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(UsageProblem, match="is still being written; stop its server first"):
        seal(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    journal = read_journal(tmp_path)
    assert (journal.table.num_rows, journal.metadata.closed) == (1, False)
    writer.close()
    assert [row["req"] for row in rows_in(seal(tmp_path))] == [0]


def test_at_the_light_level_digest_and_occurrence_are_found_when_sealing(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, Metadata(**{**_fields(), "level": "light"}), worker=0)
    bodies = [b"a", b"b", b"a", b"a", b"cut", b"a"]
    for k, body in enumerate(bodies):
        writer.request(k, 0, k, 1, 0, 1, 0 if body == b"cut" else 1, b"POST / HTTP/1.1\r\n\r\n" + body, b"", 0, 0)
    writer.flush(100)
    writer.close()
    journal = read_journal(seal(tmp_path))
    rows = journal.table.to_pylist()
    assert journal.metadata.level == "light"
    assert [row["occurrence"] for row in rows] == [0, 0, 1, 2, 0, 3]
    wanted = [bytes(16) if body == b"cut" else hashlib.sha256(body).digest()[:16] for body in bodies]
    assert [row["digest"] for row in rows] == wanted


def test_at_the_light_level_what_was_drawn_by_stays(tmp_path: Path) -> None:
    """The second of two equal bodies can be whole first, and its reply is then drawn as the first's."""
    writer = JournalWriter(tmp_path, Metadata(**{**_fields(), "level": "light"}), worker=0)
    digest = hashlib.sha256(b"a").digest()[:16]
    for k, occurrence in enumerate((1, 0)):
        writer.request(k, k, 0, 1, 0, 1, 1, b"POST / HTTP/1.1\r\n\r\na", digest, occurrence, 0)
    writer.flush(100)
    writer.close()
    rows = read_journal(seal(tmp_path)).table.to_pylist()
    assert [(row["digest"], row["occurrence"]) for row in rows] == [(digest, 1), (digest, 0)]


def test_at_the_full_level_no_digest_is_made_up(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    writer.request(0, 0, 0, 1, 0, 1, 1, b"garbage", b"", 0, 0)
    writer.flush(100)
    writer.close()
    (row,) = rows_in(seal(tmp_path))
    assert (row["digest"], row["method"], row["path"], row["headers"], row["body"]) == (
        bytes(16), "", "", [], b"garbage",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        (b"GET /x?y=1 HTTP/1.1\r\nA:b\r\nC: \td \r\n\r\nbody", ("GET", "/x?y=1", [("A", "b"), ("C", "d")], b"body")),
        (b"GET / HTTP/1.0\r\n\r\n", ("GET", "/", [], b"")),
        (b"POST / HTTP/1.1\r\nA: b\r\nHalf", ("POST", "/", [("A", "b")], b"")),
        (b"GET /\xe9 HTTP/1.1\r\nA: \xff\r\n\r\n\r\n\r\nx", ("GET", "/é", [("A", "ÿ")], b"\r\n\r\nx")),
        (b"GET /\r\n\r\nrest", ("", "", [], b"GET /\r\n\r\nrest")),
        (b"\x16\x03\x01", ("", "", [], b"\x16\x03\x01")),
        (b"", ("", "", [], b"")),
    ],
)
def test_heads_are_read_as_they_came(
    tmp_path: Path, raw: bytes, read: tuple[str, str, list[tuple[str, str]], bytes]
) -> None:
    writer = JournalWriter(tmp_path, METADATA)
    writer.request(0, 0, 0, 1, 0, 1, 0, raw, b"", 0, 0)
    writer.flush(100)
    writer.close()
    (row,) = rows_in(seal(tmp_path))
    headers = [(pair["name"], pair["value"]) for pair in row["headers"]]
    assert (row["method"], row["path"], headers, row["body"]) == read


def test_what_has_no_request_is_counted(tmp_path: Path) -> None:
    write(tmp_path, some())
    writer = JournalWriter(tmp_path, METADATA, worker=1)
    writer.chunk(WORKER + 1, 1, 1, 1, 1, 0)
    writer.chunk(WORKER + 1, 2, 2, 1, 1, 0)
    writer.chunk(WORKER + 2, 2, 2, 1, 1, 0)
    writer.end(WORKER + 2, 1, 200, 1, 1, 0, 0, 1, 1, 0, 1, 1)
    writer.end(WORKER + 9, 1, 200, 1, 1, 0, 0, 1, 1, 0, 1, 1)
    writer.flush(100)
    writer.close()
    journal = read_journal(seal(tmp_path))
    assert journal.table.to_pylist() == [each.row(0) for each in some()]
    assert journal.metadata.lost_requests == 3


def test_the_clock_is_of_all_batches(tmp_path: Path) -> None:
    for worker, clocks in enumerate(([100, 90, 95, 200, 210], [101, 150, 99])):
        writer = JournalWriter(tmp_path, METADATA, worker=worker)
        for k, clock in enumerate(clocks):
            Noted(k=k).note_request(writer, worker, last=True)
            writer.flush(clock)
        writer.close()
    metadata = read_journal(seal(tmp_path)).metadata
    assert (metadata.clock_offset_ns, metadata.clock_jump_ns) == ((100, 210), 105)


def test_rows_in_groups_are_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GROUP_ROWS > 1000
    write(tmp_path, some(50), flush_every=7)
    monkeypatch.setattr("loadproof.merging.GROUP_ROWS", 7)
    path = seal(tmp_path)
    assert pq.ParquetFile(path).metadata.num_row_groups > 5
    assert rows_in(path) == [each.row(0) for each in some(50)]


@pytest.mark.parametrize("gap", [1, 3])
def test_chunks_of_many_open_replies_find_their_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gap: int) -> None:
    """Some replies stay open through all blocks of the stream and groups of rows; some chunks are of nobody."""
    monkeypatch.setattr("loadproof.merging.GROUP_ROWS", 4)
    monkeypatch.setattr("loadproof.placed_chunks._BLOCK", 5)
    rng = np.random.default_rng(8)
    noted = [Noted(k=gap * k, chunks=[(5, j, 1 + k, j % 2) for j in range(rng.integers(0, 9))]) for k in range(30)]
    turns = rng.permuted(np.repeat(np.arange(30), [len(each.chunks) for each in noted])).tolist()
    writer, left = JournalWriter(tmp_path, METADATA), {each.k: 0 for each in noted}
    for each in noted:
        each.note_request(writer, 0, last=True)
    for turn in turns:
        each, place = noted[turn], left[noted[turn].k]
        left[each.k] += 1
        writer.chunk(each.k, each.planned()[place], each.planned()[place] + place, 1 + turn, 1 + turn, place % 2)
        if turn % 7 == 0:
            writer.chunk(10_000, 1, 1, 1, 1, 0)
            writer.flush(100)
    writer.flush(100)
    writer.close()
    journal = read_journal(seal(tmp_path))
    assert journal.table.to_pylist() == [each.row(0) for each in noted]
    assert journal.metadata.lost_requests == 1


@pytest.mark.parametrize(
    "bodies",
    [
        [b'{"b":1,"a":{"z":1.0,"y":[-0.0,1e22]}}', b'{"a":{"z":1.0,"y":[-0.0,1e22]},"b":1}', b'{"b":1,"b":2}'],
        [b'{"x":1e999}', b'{"x":null}', b'{"x":"null"}', b'{"x":-1e999}', b'{"x":null}'],
        [b'{"x":12345678901234567890123}', b'{"x":"\\ud800"}', b'{"x":"\xc3\xa9\xe2\x80\xa8"}', b"{}", b"7"],
    ],
)
def test_other_fields_are_sorted_json_of_each_body_alone(bodies: list[bytes]) -> None:
    told = asked_columns([b"POST / HTTP/1.1\r\n\r\n" + body for body in bodies])["extra_fields"].to_pylist()
    read = [json.loads(body) for body in bodies]
    assert told == [json.dumps(fields if isinstance(fields, dict) else {}, sort_keys=True) for fields in read]


def test_rows_with_heads_alike_are_those_of_each_alone() -> None:
    heads = [
        b"POST /a HTTP/1.1\r\nX: 1\r\nY: 2",
        b"GET / HTTP/1.0",
        b"no head",
        b"POST /a HTTP/1.1\r\nX: 1\r\nY: 2",
        b"",
    ]
    raws = [head + b"\r\n\r\n" + body for head in heads for body in (b"", b'{"max_tokens":3,"prompt":"p"}')] + [
        b"",
        b"GET /",
    ]
    together, alone = asked_columns(raws), [asked_columns([raw]) for raw in raws]
    for name, column in together.items():
        assert column.to_pylist() == [value for each in alone for value in each[name].to_pylist()], name
    assert together["header_names"].to_pylist()[:2] == ["x,y", "x,y"]


def spread(folder: Path, *, random_gaps: bool) -> tuple[float, set[str]]:
    """Seal 100,000 chunks; return bytes a chunk of all columns that have a value for each, and the plan's encodings."""
    rng = np.random.default_rng(11)
    n, each = 2000, 50
    arrival = 5 * 10**15 + np.cumsum(rng.exponential(2e6, n)).astype(np.int64)
    gaps = (
        rng.lognormal(np.log(20e6), 0.5, (n, each)).astype(np.int64) if random_gaps else np.full((n, each), 20 * 10**6)
    )
    planned = arrival[:, None] + np.cumsum(gaps, axis=1)
    late = np.maximum(5e3, rng.lognormal(np.log(30e3), 0.6, (n, each))).astype(np.int64)  # 5 to 100 us, as measured
    sizes = rng.integers(260, 270, each).tolist()
    writer = JournalWriter(folder, METADATA)
    for k, (plan, actual) in enumerate(zip(planned.tolist(), (planned + late).tolist(), strict=True)):
        Noted(k=k).note_request(writer, 0, last=True)
        for j in range(each):
            writer.chunk(k, plan[j], actual[j], 1, sizes[j], 0)
    writer.flush(100)
    writer.close()
    metadata = pq.ParquetFile(seal(folder)).metadata
    group = metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    chunk = [c for c in columns if c.path_in_schema.endswith(".list.element") and "prefix" not in c.path_in_schema]
    assert len(chunk) == 5
    assert {c.num_values for c in chunk} == {n * each}
    encodings = next(set(c.encodings) for c in chunk if c.path_in_schema.startswith("planned_ns"))
    return sum(c.total_compressed_size for c in chunk) / (n * each), encodings


def test_a_chunk_costs_little_more_than_its_lateness(tmp_path: Path) -> None:
    """Of which about 2 bytes are entropy; the seed of the times is in `spread`."""
    size, encodings = spread(tmp_path, random_gaps=False)
    assert size <= 3
    assert "DELTA_BINARY_PACKED" in encodings


def test_at_random_pacing_a_chunk_costs_its_gap_as_well(tmp_path: Path) -> None:
    size, encodings = spread(tmp_path, random_gaps=True)
    assert size <= 6
    assert "BYTE_STREAM_SPLIT" in encodings


def test_others_read_the_sealed_file(tmp_path: Path) -> None:
    write(tmp_path, some())
    frame = pl.read_parquet(seal(tmp_path))
    assert frame["chunk_choice"].to_list() == [[0], [0, 0], [0, 0, 0], [0]]
    assert frame.select(pl.col("planned_ns").list.first() + pl.col("late_ns").list.first()).to_series().to_list() == [
        10_000 * k + 5 for k in range(4)
    ]
    assert pq.read_schema(tmp_path / FILE_NAME).remove_metadata() == SCHEMA


def test_streams_of_another_version_are_not_guessed_at(tmp_path: Path) -> None:
    write(tmp_path, some())
    path = tmp_path / "ends-0.arrows"
    schema = pa.ipc.open_stream(path.read_bytes()).schema
    older = schema.metadata[METADATA_KEY].replace(b'"schema_version":3', b'"schema_version":1')
    path.write_bytes(schema.with_metadata({METADATA_KEY: older}).serialize())
    with pytest.raises(BrokenRun, match=r"ends-0\.arrows: schema version 1; seal it with the loadproof that wrote it"):
        seal(tmp_path)
    path.write_bytes(pa.schema([("a", pa.int64())]).serialize())
    with pytest.raises(BrokenRun, match="is not a live stream of loadproof"):
        read_journal(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_judge_seals_what_a_killed_server_left_and_calls_it_broken(tmp_path: Path) -> None:
    write(tmp_path, some())
    for path in tmp_path.iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    verdict = judge_journal(closed_case(4, 1), "command", tmp_path, None).verdict
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    assert verdict.outcome is Outcome.BROKEN
    assert "the server that wrote it was killed, or its disk was full" in verdict.reason


def test_judge_does_not_seal_under_a_running_server(tmp_path: Path) -> None:
    write(tmp_path, some())
    with (tmp_path / "requests-0.arrows").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UsageProblem, match="is still being written"):
            judge_journal(closed_case(4, 1), "command", tmp_path, None)
    assert judge_journal(closed_case(4, 1), "command", tmp_path, None).verdict.outcome is not Outcome.BROKEN


def test_where_nothing_can_be_written_judging_reads_the_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, some())

    def read_only(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("loadproof.sealing.pq.ParquetWriter", read_only)
    assert judge_journal(closed_case(4, 1), "command", tmp_path, None).verdict.outcome is not Outcome.BROKEN
    assert len(list(tmp_path.iterdir())) == 3
