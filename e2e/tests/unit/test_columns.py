"""Is what a million requests have in few values measured in columns, from the columns that are needed alone?"""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.journal import COMPLETE, SCHEMA, Journal, Metadata, read_journal
from loadproof.judging import judge_journal
from loadproof.load import measured, truth
from loadproof.load.headers import header_values
from loadproof.load.labels import Labels, counts_of
from loadproof.load.measured import Load, measure
from loadproof.load.offered import repeated
from loadproof.load.requests import Requests, measure_requests
from loadproof.prompts import PREFIXES
from loadproof.raw_request import asked_columns
from tests.unit.forge import case, changed, constant, journal, with_columns, with_extra
from tests.unit.records import Record, write_journal

METADATA = Metadata(host="forge", boot_id="", model="m", clock_offset_ns=(0, 0), profile={})
PIECES = st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), max_size=5), max_size=4)


def listed(labels: Labels) -> list[Any]:
    return [labels.values[code] for code in labels.codes.tolist()]


@settings(derandomize=True, max_examples=80, deadline=None)
@given(PIECES, st.booleans())
def test_labels_are_the_values_of_the_column(pieces: list[list[str | None]], dictionary: bool) -> None:
    """In pieces with dictionaries of their own, as the groups of a file have them."""
    arrays = [pa.array(piece, pa.string()) for piece in pieces]
    kind = pa.dictionary(pa.int32(), pa.string()) if dictionary else pa.string()
    column = pa.chunked_array([array.dictionary_encode() for array in arrays] if dictionary else arrays, kind)
    labels, plain = Labels.of(column), [value for piece in pieces for value in piece]
    assert listed(labels) == plain
    assert len(set(labels.values)) == len(labels.values)
    assert labels.counts() == Counter(plain)
    for value in ("a", None, "z"):
        assert labels.equal(value).tolist() == [one == value for one in plain]
    assert labels.among(["a", None]).tolist() == [one in {"a", None} for one in plain]
    assert listed(labels[1:]) == plain[1:]
    assert listed(labels[labels.equal("b")]) == ["b"] * plain.count("b")


def test_values_that_are_told_alike_are_one() -> None:
    labels = Labels.of(pa.chunked_array([["/x?a", "/y", "/x?b", "/x"]]))
    told = labels.told_as(lambda path: path.partition("?")[0])
    assert (listed(told), sorted(told.values)) == (["/x", "/y", "/x", "/x"], ["/x", "/y"])
    assert Labels.of(pa.chunked_array([[True, None, False, True]])).counts() == {True: 2, None: 1, False: 1}


def test_numbers_are_counted_with_what_is_missing() -> None:
    assert counts_of(np.array([16, -1, 16, 0])) == {16: 2, None: 1, 0: 1}
    assert [repeated(np.array(numbers, np.int64)) for numbers in ([], [-1, -1], [3, 0, 3, 3, -1, 0])] == [0, 0, 3]


def sent(prompts: Sequence[str | None]) -> Journal:
    """Requests with these prompts, as sealing would tell of them."""
    bodies = [b"{" if prompt is None else json.dumps({"prompt": prompt}).encode() for prompt in prompts]
    columns = asked_columns([b"POST / HTTP/1.1\r\n\r\n" + body for body in bodies])
    names = ("prompt_digest", "prefix_digests")
    return with_columns(journal(constant(len(prompts), 10)), **{name: columns[name].to_pylist() for name in names})


BEGINNINGS = st.lists(st.tuples(st.sampled_from([0, 63, 64, 96, 100, 128, 200]), st.integers(0, 3)), max_size=20)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(BEGINNINGS)
def test_shared_beginnings_are_those_of_a_comparison_of_all(drawn: list[tuple[int, int]]) -> None:
    """The prompts begin alike for so many bytes; the rest tells them apart, or is nothing."""
    prompts = ["s" * shared + f"{end}" * (150 if end else 0) for shared, end in drawn]
    seen = measure_requests(sent(prompts))
    for k, prompt in enumerate(prompts):
        common = [size for size in PREFIXES if size <= len(prompt) and any(
            earlier[:size] == prompt[:size] for earlier in prompts[:k])]  # fmt: skip
        assert seen.shared_bytes[k] == (common[-1] if common else 0)
    first = [prompt[:64] if len(prompt) >= 64 else None for prompt in prompts]
    assert alike(seen.beginnings.tolist()) == alike(first)
    assert alike(seen.prompts.tolist()) == alike(prompts)


def alike(values: Sequence[object]) -> list[int]:
    """Return for each value the place of its first equal, -1 for none."""
    return [-1 if value in {None, -1} else values.index(value) for value in values]


def test_what_has_no_prompt_repeats_none() -> None:
    seen = measure_requests(sent([None, "x", None, "x"]))
    assert (seen.prompts.tolist(), seen.beginnings.tolist()) == ([-1, 0, -1, 0], [-1] * 4)
    empty = changed(changed(journal(constant(3, 10)), 0, digest=bytes(16)), 2, digest=bytes(16))
    assert repeated(measure_requests(empty).bodies) == 0


def test_beginnings_are_in_the_order_of_arrival() -> None:
    """The later number arrived first: it is the other that repeats."""
    alike_twice = sent(["s" * 64 + "a", "s" * 64 + "b"])
    stamps = alike_twice.table["arrival_ns"].to_pylist()
    assert measure_requests(alike_twice).shared_bytes.tolist() == [0, 64]
    swapped = measure_requests(with_columns(alike_twice, arrival_ns=stamps[::-1]))
    assert (swapped.shared_bytes.tolist(), swapped.prompts.tolist()) == ([0, 64], [1, 0])


def headers_of(*rows: list[tuple[str, str]] | None) -> pa.ListArray:
    cells = [None if row is None else [{"name": name, "value": value} for name, value in row] for row in rows]
    return pa.array(cells, SCHEMA.field("headers").type)


def test_the_first_value_of_a_header_counts_whatever_its_case() -> None:
    column = pa.chunked_array([
        headers_of([("Host", "h"), ("X-Id", "1"), ("x-id", "2")], [], [("X-ID", "")], None)[1:],
        headers_of([("Host", "h"), ("X-Id", "1"), ("x-id", "2")], [("A", "b"), ("x-iD", "9"), ("x-idx", "8")]),
        headers_of(),
    ])  # fmt: skip
    values = header_values(column, ["X-id", "host", "absent"])
    assert {name: listed(labels) for name, labels in values.items()} == {
        "X-id": [None, "", None, "1", "9"], "host": [None, None, None, "h", None], "absent": [None] * 5,
    }  # fmt: skip


def with_headers(n: int) -> Journal:
    forged = journal(constant(n, 10))
    cells = [[{"name": "X-Id", "value": f"{k}"}] if k % 2 else [] for k in range(n)]
    return with_columns(forged, headers=cells)


def test_headers_are_those_of_the_generation_requests() -> None:
    forged = with_extra(with_headers(5), at_s=0.25, headers=[{"name": "x-id", "value": "late"}])
    load = measure(with_extra(forged, at_s=0.05, method="GET", path="/health"), headers=["x-id"])
    assert listed(load.header_values["x-id"]) == [None, "1", None, "late", "3", None]
    assert listed(load.without_leading(3).header_values["x-id"]) == ["late", "3", None]
    assert measure(forged).header_values == {}


def some(n: int) -> list[Record]:
    """Return ordinary requests of two chunks, and one GET, with unique prompts and the number in a header."""
    made = []
    for k in range(n):
        at = 5_000_000_000_000 + 1_000_000 * k
        body = json.dumps({"model": "m", "stream": True, "prompt": f"{k} " * 40, "max_tokens": 2, "seed": k % 3})
        one = Record(k, k % 2, k, at, at + 100, received=at, method=b"POST", target=b"/v1/completions", how=COMPLETE)
        one.head, one.body, one.digest = [(b"X-Id", b"%d" % k)], body.encode(), bytes([k + 1]) * 16
        one.planned, one.actual = [at + 10, at + 20], [at + 15, at + 21]
        one.chunk_tokens, one.chunk_bytes, one.output_tokens, one.done = [1, 1], [9, 9], 2, at + 30
        one.finish_reason, one.status, one.bare_tokens, one.usage_tokens = "length", 200, 7, 8
        made.append(one)
    made[3].method, made[3].target = b"GET", b"/metrics"
    return made


def same(one: object, other: object) -> bool:
    """Whether two measurements say the same, arrays and labels by their values."""
    if isinstance(one, Labels) and isinstance(other, Labels):
        return listed(one) == listed(other)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, np.asarray(other))
    if isinstance(one, Load | Requests):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return one == other


def test_the_needed_columns_say_the_same_as_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In groups with dictionaries of their own."""
    monkeypatch.setattr("loadproof.merging.GROUP_ROWS", 4)
    path = write_journal(tmp_path, some(11), METADATA)
    assert pq.ParquetFile(path).num_row_groups > 2
    needed, everything = read_journal(path, measured.COLUMNS), read_journal(path)
    assert set(needed.table.schema.names) == set(measured.COLUMNS)
    assert set(measured.COLUMNS) & {"body", "headers", "chunk_bytes"} == set()
    assert same(measure(needed), measure(everything))
    assert measure(needed).requests.n == 10
    assert truth.truth(read_journal(path, truth.COLUMNS)) == truth.truth(everything)


def test_unsealed_streams_have_the_needed_columns_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.unit.records.seal", lambda folder: folder)
    journal_of = read_journal(write_journal(tmp_path, some(5), METADATA), ["status"])
    assert list(tmp_path.glob("*.parquet")) == []
    assert journal_of.table.to_pylist() == [{"req": k, "status": 200} for k in range(5)]
    assert same(measure(read_journal(tmp_path, measured.COLUMNS)), measure(read_journal(tmp_path)))


@pytest.mark.parametrize(
    ("headers", "claims", "more"),
    [({}, False, set()), ({"x-id": "1"}, False, {"headers"}), ({}, True, set(truth.COLUMNS))],
)
def test_judging_reads_no_body(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], claims: bool, more: set[str]
) -> None:
    path, real = write_journal(tmp_path, some(5), METADATA), pq.ParquetFile.read_row_groups
    read: list[set[str]] = []

    def noted(self: pq.ParquetFile, groups: list[int], columns: list[str] | None = None) -> pa.Table:
        read.append(set(columns or SCHEMA.names))
        return real(self, groups, columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", noted)
    told = tmp_path / "claims.json"
    told.write_text('{"completed": 5}')
    asked = case({"mode": "concurrency", "concurrency": 1}, workload={"headers": headers} if headers else {})
    judge_journal(asked, "command", path, told if claims else None)
    assert read == [{*measured.COLUMNS, *more}]
    assert "body" not in read[0]


def test_measuring_makes_no_object_for_each_request() -> None:
    """Columns of numbers take some 170 bytes a request; a few cells of each as Python's own take more."""
    n = 20_000
    forged = journal(constant(n, 1000), tokens=2)
    measure(journal(constant(10, 1000)))  # what is imported and kept the first time
    tracemalloc.start()
    try:
        measure(forged)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        rows = forged.table.select(["req", "path", "planned_ns"]).to_pylist()
        assert len(rows) == n
        by_row = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak / n < 250
    assert by_row / n > 300


def test_numbers_of_a_part_of_a_journal_are_its_own() -> None:
    whole = sent(["a", "b", "c", "b"])
    part = measure_requests(Journal(whole.table.slice(1), whole.metadata))
    assert alike(part.prompts.tolist()) == [0, 1, 0]
    rest = measure_requests(Journal(whole.table.slice(0, 3), whole.metadata))
    assert alike(rest.prompts.tolist()) == [0, 1, 2]
