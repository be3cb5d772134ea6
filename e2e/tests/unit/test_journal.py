"""Does a journal hold what was recorded, in a form that others read, and does a wrong file say what it is?"""

from __future__ import annotations

import hashlib
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.journal import (
    CLIENT_CLOSED,
    COMPLETE,
    FILE_NAME,
    METADATA_KEY,
    SCHEMA,
    Metadata,
    read_journal,
)
from tests.unit.records import Record, write_journal

METADATA = Metadata(host="h", boot_id="b", model="m", clock_offset_ns=(5, 6), clock_jump_ns=1,
                    profile={"ttft_s": 0.1})  # fmt: skip


def record(req: int, late: tuple[int | None, ...] = (), **fields: object) -> Record:
    """Return a record with one chunk per entry of `late` (None: never written), 1 ms apart."""
    made = Record(req, 1, req, 1000 + req, 1001 + req)
    made.method, made.target = b"POST", b"/"
    for k, ns in enumerate(late):
        planned = 2_000_000 + k * 1_000_000
        made.planned.append(planned)
        made.actual.append(0 if ns is None else planned + ns)
        made.chunk_tokens.append(1)
        made.chunk_bytes.append(100 + k)
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_what_was_recorded_is_what_is_read(tmp_path: Path) -> None:
    body = b'{"model":"m","prompt":"x","stream":true,"ignore_eos":false,"max_tokens":7,"seed":1,"a":null}'
    first = record(
        0, (0, 5, 7_000_000_000), method=b"POST", target=b"/v1/completions?q", body=body, digest=b"d" * 16,
        head=[(b"Host", b"\xe9"), (b"Empty", b"")], done=99, status=200, output_tokens=3, size=303, blocked_ns=4,
        outq_bytes=8,
        how=COMPLETE, finish_reason="length", bare_tokens=1, usage_tokens=2, planned_first=2_000_000, received=1500,
    )  # fmt: skip
    second = record(1, (3, None), how=CLIENT_CLOSED)
    write_journal(tmp_path, [first, second], METADATA)
    journal = read_journal(tmp_path)
    assert journal.metadata == METADATA
    assert journal.table.schema.remove_metadata() == SCHEMA
    row, other = journal.table.to_pylist()
    assert row == {
        "req": 0, "worker": 0, "conn": 1, "nth": 0, "arrival_ns": 1000, "arrival_kernel": False, "read_ns": 1001,
        "received_ns": 1500, "method": "POST", "path": "/v1/completions?q",
        "headers": [{"name": "Host", "value": "é"}, {"name": "Empty", "value": ""}], "header_names": "host,empty",
        "body": body,
        "digest": b"d" * 16, "occurrence": 0, "model": "m", "stream": True, "ignore_eos": False, "max_tokens": 7,
        "extra_fields": '{"a": null, "seed": 1}', "prompt_digest": hashlib.sha256(b"x").digest()[:16],
        "prefix_digests": [], "bare_prompt_tokens": 1, "usage_prompt_tokens": 2,
        "planned_first_ns": 2_000_000, "planned_ns": [2_000_000, 3_000_000, 4_000_000],
        "late_ns": [0, 5, 7_000_000_000], "chunk_tokens": [1, 1, 1], "chunk_bytes": [100, 101, 102],
        "chunk_choice": [0, 0, 0], "done_ns": 99,
        "status": 200, "output_tokens": 3, "bytes": 303, "blocked_ns": 4, "outq_bytes": 8, "fault": None,
        "finish_reason": "length",
        "how_ended": COMPLETE,
    }  # fmt: skip
    assert (other["late_ns"], other["how_ended"], other["status"]) == ([3, None], CLIENT_CLOSED, None)
    assert (other["header_names"], other["prompt_digest"], other["prefix_digests"]) == ("", None, [])


def test_a_journal_of_nothing_is_one(tmp_path: Path) -> None:
    write_journal(tmp_path, [], METADATA)
    assert read_journal(tmp_path).table.num_rows == 0


def test_columns_come_flat_with_offsets(tmp_path: Path) -> None:
    write_journal(tmp_path, [record(0, (1, 2)), record(1), record(2, (None,))], METADATA)
    journal = read_journal(tmp_path / FILE_NAME)
    values, offsets = journal.list_column("late_ns", missing=-1)
    assert values.tolist() == [1, 2, -1]
    assert offsets.tolist() == [0, 2, 2, 3]
    assert journal.int_column("status", missing=-7).tolist() == [-7] * 3


@pytest.mark.parametrize(
    ("path", "body", "limit"),
    [
        (b"/v1/chat/completions", b'{"max_tokens":5,"max_completion_tokens":6}', 6),
        (b"/v1/chat/completions?x", b'{"max_tokens":5,"max_completion_tokens":null}', 5),
        (b"/v1/completions", b'{"max_tokens":5,"max_completion_tokens":6}', 5),
        (b"/v1/completions", b'{"max_tokens":true}', None),
        (b"/v1/completions", b'{"max_tokens":9223372036854775808}', None),
        (b"/v1/completions", b'{"max_tokens":5,"x":1e999}', 5),
        (b"/v1/completions", b"[5]", None),
        (b"/v1/completions", b"\xff", None),
        (b"/v1/completions", b"[" * 100_000, None),
    ],
)
def test_the_asked_length(tmp_path: Path, path: bytes, body: bytes, limit: int | None) -> None:
    write_journal(tmp_path, [record(0, target=path, body=body)], METADATA)
    (row,) = read_journal(tmp_path).table.to_pylist()
    assert row["max_tokens"] == limit
    assert row["body"] == body


@pytest.mark.parametrize("depth", [100, 900, 3000, 9000])
def test_no_depth_of_a_body_prevents_the_journal(tmp_path: Path, depth: int) -> None:
    body = b'{"max_tokens":5,"x":' + b"[" * depth + b"]" * depth + b"}"
    write_journal(tmp_path, [record(0, body=body)], METADATA)
    assert read_journal(tmp_path).table["body"].to_pylist() == [body]


def test_chunk_times_are_stored_as_the_design_says(tmp_path: Path) -> None:
    rows = [record(i, tuple(range(i, i + 16))) for i in range(100)]
    metadata = pq.ParquetFile(write_journal(tmp_path, rows, METADATA)).metadata
    group = metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in columns["planned_ns.list.element"].encodings
    assert "BYTE_STREAM_SPLIT" in columns["late_ns.list.element"].encodings
    assert columns["late_ns.list.element"].compression == "ZSTD"
    for name in ("planned_ns.list.element", "late_ns.list.element"):
        assert not columns[name].has_dictionary_page


def test_polars_reads_it_without_us(tmp_path: Path) -> None:
    write_journal(tmp_path, [record(0, (1, None)), record(1)], METADATA)
    frame = pl.read_parquet(tmp_path / FILE_NAME)
    assert frame["late_ns"].to_list() == [[1, None], []]
    assert frame["req"].to_list() == [0, 1]


def test_a_folder_that_looks_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "status=7"
    folder.mkdir()
    write_journal(folder, [record(0, status=200)], METADATA)
    assert read_journal(folder).table["status"].to_pylist() == [200]


def test_no_journal_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="there is no journal; name the folder"):
        read_journal(tmp_path)


def test_a_foreign_parquet_is_no_journal(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(BrokenRun, match="is not a journal of loadproof") as caught:
        read_journal(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("keep", [0, 3, 0.5, -1])
def test_a_cut_file_is_damaged(tmp_path: Path, keep: float) -> None:
    path = write_journal(tmp_path, [record(0, (1, 2))], METADATA)
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * keep) if keep == 0.5 else int(keep)])
    with pytest.raises(BrokenRun, match="is damaged, or is no journal"):
        read_journal(tmp_path)


def test_another_schema_version_names_both(tmp_path: Path) -> None:
    path = write_journal(tmp_path, [record(0)], METADATA)
    table = pq.read_table(path)
    older = table.drop_columns("late_ns").replace_schema_metadata({METADATA_KEY: b'{"schema_version": 0}'})
    pq.write_table(older, path)
    with pytest.raises(BrokenRun, match=r"schema version 0, missing columns \['late_ns'\].*reads version 3"):
        read_journal(tmp_path)


def test_a_missing_column_or_author_is_broken_too(tmp_path: Path) -> None:
    path = write_journal(tmp_path, [record(0)], METADATA)
    table = pq.read_table(path)
    pq.write_table(table.drop_columns("body"), path)
    with pytest.raises(BrokenRun, match=r"missing columns \['body'\]"):
        read_journal(tmp_path)
    pq.write_table(table.replace_schema_metadata({METADATA_KEY: b'{"schema_version": 3}'}), path)
    with pytest.raises(BrokenRun, match="does not say who wrote it"):
        read_journal(tmp_path)


def test_a_failed_write_leaves_the_name_free(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        write_journal(tmp_path / "nowhere", [record(0)], METADATA)
    assert list(tmp_path.iterdir()) == []
