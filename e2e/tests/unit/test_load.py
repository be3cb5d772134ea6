"""Is what is measured of a journal what a slow and simple second way measures of it?"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from loadproof.journal import CLIENT_CLOSED, COMPLETE, REFUSED, Journal, Metadata, read_journal
from loadproof.load.chunks import chunk_groups, chunks_in
from loadproof.load.concurrency import in_flight
from loadproof.load.instrument import measure_timekeeping
from loadproof.load.labels import Labels
from loadproof.load.measured import measure
from loadproof.load.offered import offered, spread
from loadproof.load.requests import NEVER, Requests, measure_requests
from loadproof.load.truth import truth
from tests.unit.forge import EPOCH_NS, LATENCY_S, changed, constant, journal, nanoseconds, with_extra
from tests.unit.records import Record, write_journal

MS = 1_000_000


def listed(labels: Labels) -> list[object]:
    return [labels.values[code] for code in labels.codes.tolist()]


METADATA = Metadata(host="forge", boot_id="", model="m", clock_offset_ns=(0, 0), profile={})


def requests(starts: list[int], ends: list[int]) -> Requests:
    made = measure_requests(journal(constant(len(starts), 10)))
    return replace(made, start_ns=np.array(starts, dtype=np.int64), end_ns=np.array(ends, dtype=np.int64))


SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.one_of(st.integers(-2, 30), st.none())).map(
        lambda pair: (pair[0], NEVER if pair[1] is None else pair[0] + pair[1])
    ),
    min_size=1,
    max_size=25,
)


@seed(20)
@settings(max_examples=300, deadline=None, database=None)
@given(SPANS)
def test_in_flight_is_that_of_a_sweep_over_every_nanosecond(spans: list[tuple[int, int]]) -> None:
    spans = sorted(spans)
    starts, ends = [list(column) for column in zip(*spans, strict=True)]
    measured = in_flight(requests(starts, ends))
    known = [end for end in ends if end < NEVER]
    last_end, first, last_start = max([*starts, *known]), min(starts), max(starts)
    # one that ends at its own start is in flight for 1 ns; [start, end) makes an end come before a start
    live = [(s, max(s + 1, last_end + 1 if e == NEVER else e)) for s, e in spans]
    level = {t: sum(s <= t < e for s, e in live) for t in range(first, last_end + 2)}
    peak = max(level.values())
    at_peak = min(t for t, k in level.items() if k == peak)
    assert measured.peak == peak
    assert measured.ramp_s == pytest.approx((at_peak - first) / 1e9)
    assert measured.plateau_s == pytest.approx((last_start - at_peak) / 1e9)
    starts_on_plateau = sum(s > at_peak for s in starts)
    assert measured.plateau_starts == starts_on_plateau
    if last_start > at_peak:
        mean = sum(level[t] for t in range(at_peak, last_start)) / (last_start - at_peak)
        assert measured.plateau_mean == pytest.approx(mean)
        turnaround = (peak - mean) * (last_start - at_peak) / starts_on_plateau / 1e9
        assert measured.refill_s == pytest.approx(turnaround)
    if last_end > first:
        steps = [level[t] for t in range(first, last_end)]
        assert measured.whole_mean == pytest.approx(sum(steps) / len(steps))
        assert measured.share_at_peak == pytest.approx(steps.count(peak) / len(steps))
    lasted = [max(1, e - s) for s, e in spans if e < NEVER]
    assert measured.median_latency_s == pytest.approx(float(np.median(lasted)) / 1e9 if lasted else 0.0)


def test_never_ended_does_not_overflow() -> None:
    measured = in_flight(requests([EPOCH_NS, EPOCH_NS + 5], [NEVER, NEVER]))
    assert (measured.peak, measured.median_latency_s, measured.ramp_s) == (2, 0.0, 5e-9)
    assert 0 < measured.whole_mean <= 2


def test_of_nothing_everything_is_zero() -> None:
    measured = in_flight(requests([], []))
    assert {getattr(measured, name) for name in measured.__dataclass_fields__} == {0}


def record(
    req: int, *, arrival_ms: float, chunks_ms: list[float], tokens: list[int], body: bytes, **more: object
) -> Record:
    """One request; chunk times are in ms after the arrival, each 0.25 ms later than planned."""
    arrival = EPOCH_NS + round(arrival_ms * MS)
    made = Record(req, 0, req, arrival, arrival)
    made.method, made.target, made.body, made.digest = b"POST", b"/v1/completions", body, bytes([req + 1]) * 16
    made.actual = array("q", [arrival + round(ms * MS) for ms in chunks_ms])
    made.planned = array("q", [stamp - MS // 4 for stamp in made.actual])
    made.chunk_tokens, made.chunk_bytes = array("I", tokens), array("I", [9] * len(tokens))
    made.output_tokens, made.usage_tokens, made.status, made.how = sum(tokens), 10 + req, 200, COMPLETE
    made.done = made.actual[-1] + 7 * MS if chunks_ms else arrival
    for name, value in more.items():
        setattr(made, name, value)
    made.finish_reason = "length" if made.how == COMPLETE else None
    return made


STREAM = b'{"model": "m", "stream": true, "max_tokens": 4, "prompt": [2, 7, 7]}'
WHOLE = b'{"model": "m", "max_tokens": 4, "prompt": "x"}'


def mixed(folder: Path) -> Path:
    """A journal of everything that can happen to a request, as the absorber writes it."""
    records = [
        record(0, arrival_ms=0, chunks_ms=[100, 110, 120, 131], tokens=[1, 1, 1, 1], body=STREAM),
        record(1, arrival_ms=5, chunks_ms=[20, 104, 113, 125, 190], tokens=[0, 1, 1, 1, 1], body=STREAM,
               target=b"/v1/chat/completions"),
        record(2, arrival_ms=9, chunks_ms=[150], tokens=[4], body=WHOLE),
        record(3, arrival_ms=9, chunks_ms=[90], tokens=[1], body=STREAM),
        record(4, arrival_ms=11, chunks_ms=[], tokens=[], body=b"{", status=400, how=REFUSED, usage_tokens=None),
        record(5, arrival_ms=12, chunks_ms=[100, 110], tokens=[1, 1], body=STREAM, how=CLIENT_CLOSED,
               done=EPOCH_NS + 900 * MS),
        record(6, arrival_ms=13, chunks_ms=[100], tokens=[1], body=STREAM, how=None, done=None),
        record(7, arrival_ms=14, chunks_ms=[100, 111, 119, 140], tokens=[2, 1, 1, 1], body=STREAM, blocked_ns=5),
        record(8, arrival_ms=15, chunks_ms=[], tokens=[], body=b"", method=b"GET", target=b"/metrics", output_tokens=0),
    ]  # fmt: skip
    return write_journal(folder, records, METADATA)


def by_polars(path: Path) -> dict[str, list[float]]:
    """TTFT, latency, TPOT and ITL in seconds, from the file alone."""
    rows = pl.read_parquet(path).filter(
        pl.col("path").is_in(["/v1/completions", "/v1/chat/completions"]), pl.col("how_ended") == "complete"
    )
    chunks = (
        rows.select("req", "arrival_ns", "stream", "planned_ns", "late_ns", "chunk_tokens")
        .explode("planned_ns", "late_ns", "chunk_tokens")
        .filter(pl.col("chunk_tokens") > 0)
        .with_columns(at=pl.col("planned_ns") + pl.col("late_ns"))
        .with_columns(gap=pl.col("at").diff().over("req"))
    )
    each = chunks.group_by("req", maintain_order=True).agg(
        ttft=pl.col("at").first() - pl.col("arrival_ns").first(),
        latency=pl.col("at").last() - pl.col("arrival_ns").first(),
        tokens=pl.col("chunk_tokens").cast(pl.Int64).sum(),
        stream=pl.col("stream").first(),
    )
    streamed = each.filter(pl.col("stream"))
    several = streamed.filter(pl.col("tokens") > 1)
    nanos = {
        "ttft_s": streamed["ttft"],
        "latency_s": each["latency"],
        "tpot_s": several.select((pl.col("latency") - pl.col("ttft")) / (pl.col("tokens") - 1)).to_series(),
        "itl_s": chunks.filter(pl.col("stream"), pl.col("gap").is_not_null())["gap"],
    }
    return {name: [value / 1e9 for value in series.to_list()] for name, series in nanos.items()}


def test_the_truth_is_what_polars_finds_in_the_file(tmp_path: Path) -> None:
    path = mixed(tmp_path)
    own, other = truth(read_journal(path)), by_polars(path)
    assert {name: len(values) for name, values in other.items()} == {
        "ttft_s": 4, "latency_s": 5, "tpot_s": 3, "itl_s": 9,
    }  # fmt: skip
    for name, values in other.items():
        distribution = getattr(own, name)
        told = [distribution.mean, distribution.p50, distribution.p90, distribution.p99]
        assert told == pytest.approx([np.mean(values), *np.percentile(values, [50, 90, 99])]), name
    assert (own.completed, own.failed) == (5, 3)
    assert own.output_tokens == 4 + 4 + 4 + 1 + 5
    assert own.input_tokens == 10 + 11 + 12 + 13 + 17
    assert own.duration_s == pytest.approx(0.005 + 0.190 + 0.007)
    assert own.request_rate_per_s == pytest.approx(5 / 0.202)


def test_the_truth_by_hand(tmp_path: Path) -> None:
    write_journal(
        tmp_path, [record(0, arrival_ms=0, chunks_ms=[100, 110, 121], tokens=[1, 1, 1], body=STREAM)], METADATA
    )
    own = truth(read_journal(tmp_path))
    assert own.ttft_s is not None
    assert own.tpot_s is not None
    assert own.itl_s is not None
    assert own.latency_s is not None
    assert (own.ttft_s.p50, own.latency_s.p50) == pytest.approx((0.1, 0.121))
    assert (own.tpot_s.mean, own.itl_s.p50) == pytest.approx((0.0105, 0.0105))


def test_the_truth_of_nothing_is_nothing() -> None:
    own = truth(journal([]))
    assert (own.completed, own.failed, own.ttft_s, own.latency_s, own.duration_s) == (0, 0, None, None, None)


def test_where_each_request_stops_being_in_flight(tmp_path: Path) -> None:
    seen = measure_requests(read_journal(mixed(tmp_path)))
    lasted = [(e - s) / MS if e < NEVER else math.inf for s, e in zip(seen.start_ns, seen.end_ns, strict=True)]
    # last chunk of a whole reply, the close of a client, the refusal itself, never
    assert lasted == pytest.approx([131, 190, 150, 90, 0, 888, math.inf, 140])


def test_requests_side_traffic_and_strays(tmp_path: Path) -> None:
    plain = read_journal(mixed(tmp_path))
    seen = measure_requests(with_extra(plain, at_s=1, method="POST", path="/v1/embeddings"))
    assert seen.n == 8
    assert seen.side_traffic == {("GET", "/metrics"): 1}
    assert seen.unrecognised == {("POST", "/v1/embeddings"): 1}
    assert listed(seen.paths) == ["/v1/completions", "/v1/chat/completions"] + ["/v1/completions"] * 6
    assert listed(seen.streams) == [True, True, None, True, None, True, True, True]
    assert seen.max_tokens.tolist() == [4, 4, 4, 4, -1, 4, 4, 4]
    assert seen.bare_prompt_tokens.tolist() == [-1] * 8
    assert listed(seen.endings[4:7]) == [REFUSED, CLIENT_CLOSED, None]
    assert seen.cut.tolist() == [False] * 5 + [True] + [False] * 2


def test_requests_are_in_the_order_of_arrival() -> None:
    swapped = changed(journal(constant(3, 10)), 0, arrival_ns=EPOCH_NS + 150 * MS)
    seen = measure_requests(swapped)
    assert ((seen.start_ns - EPOCH_NS) // MS).tolist() == [100, 150, 200]
    assert seen.bodies.tolist() == [1, 0, 2]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 99])
def test_without_leading_takes_the_first_of_every_column(count: int) -> None:
    load = measure(journal(constant(4, 10)))
    seen, rest = load.requests, load.without_leading(count).requests
    assert rest.n == max(0, 4 - count)
    assert rest.bodies.tolist() == seen.bodies[count:].tolist()
    assert rest.start_ns.tolist() == seen.start_ns[count:].tolist()
    beside = {"side_traffic", "unrecognised"}
    assert {len(getattr(rest, f.name)) for f in fields(rest) if f.name not in beside} == {rest.n}
    assert (rest.start_s.tolist()[:1], rest.side_traffic) == ([0.0][: rest.n], seen.side_traffic)


def test_a_lateness_of_any_length_survives_the_file(tmp_path: Path) -> None:
    late = record(0, arrival_ms=0, chunks_ms=[9_000], tokens=[1], body=STREAM)
    late.planned = array("q", [EPOCH_NS + 100 * MS])
    seen = read_journal(write_journal(tmp_path, [late], METADATA))
    assert (measure_requests(seen).end_ns - EPOCH_NS).tolist() == [9_000 * MS]
    assert measure_timekeeping(seen).late_max_s == pytest.approx(8.9)


def test_chunks_that_were_never_written_have_no_time() -> None:
    cut = changed(journal([0.0, 1.0], tokens=3), 0, late_ns=[5, None, None], how_ended=CLIENT_CLOSED)
    groups = list(chunk_groups(cut))
    assert [row for group in groups for row in range(2)[group.rows]] == [0, 1]
    assert [count for group in groups for count in group.counts.tolist()] == [3, 3]
    actual, written = np.concatenate([group.actual() for group in groups]), [w for g in groups for w in g.written]
    assert (actual[:3] - EPOCH_NS).tolist() == [100 * MS + 5, -EPOCH_NS, -EPOCH_NS]
    assert written == [True, False, False, True, True, True]
    assert chunks_in(cut) == 6


def test_timekeeping_is_numpys_over_the_chunks() -> None:
    rng = np.random.default_rng(4)
    late = rng.exponential(0.0005, 200)
    kept = measure_timekeeping(journal(constant(200, 20), late_s=late, itl_s=0.02, tokens=5, clock_jump_s=-0.25))
    expected = np.percentile(np.repeat(nanoseconds(late), 5) / 1e9, [50, 99, 100])
    assert (kept.late_p50_s, kept.late_p99_s, kept.late_max_s) == pytest.approx(tuple(expected))
    assert (kept.chunks, kept.interval_s, kept.stamped, kept.clock_jump_s) == (1000, 0.02, 0.0, 0.25)


def test_the_interval_is_inside_streams_and_not_between_them(tmp_path: Path) -> None:
    kept = measure_timekeeping(journal(constant(50, 1), itl_s=0.03, tokens=2))
    assert kept.interval_s == pytest.approx(0.03)
    assert measure_timekeeping(journal(constant(50, 1), tokens=1)).interval_s == 0
    # the row that was blocked does not count, nor what was never written
    assert measure_timekeeping(read_journal(mixed(tmp_path))).chunks == 4 + 5 + 1 + 1 + 2 + 1


def test_what_was_never_written_is_neither_early_nor_late() -> None:
    cut = changed(journal([0.0, 1.0], tokens=3, late_s=0.002), 0, late_ns=[2 * MS, None, None], how_ended=CLIENT_CLOSED)
    kept = measure_timekeeping(cut)
    assert (kept.chunks, kept.late_p50_s, kept.late_max_s) == (4, 0.002, 0.002)


def lagging(n: int, lag_s: list[float], *, unstamped: int = 0) -> Journal:
    """`n` even arrivals, read late by `lag_s`, repeated; the first `unstamped` of them without a kernel stamp."""
    plain = journal(constant(n, 20), kernel=True)
    read = plain.table["arrival_ns"].to_numpy() + nanoseconds(np.resize(lag_s, n))
    table = plain.table
    for name, values in (("read_ns", pa.array(read)), ("arrival_kernel", pa.array(np.arange(n) >= unstamped))):
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return Journal(table, plain.metadata)


def test_lag_is_numpys_over_the_stamped_requests() -> None:
    lags = np.random.default_rng(6).exponential(0.002, 200).tolist()
    kept = measure_timekeeping(lagging(200, lags, unstamped=50))
    rest = nanoseconds(np.array(lags))[50:] / 1e9
    expected = (*np.percentile(rest, [50, 99, 100]), np.mean(rest > 0.005))
    assert (kept.lag_p50_s, kept.lag_p99_s, kept.lag_max_s, kept.late_reads) == pytest.approx(expected)
    assert (kept.stamps, kept.stamped, kept.worst_s) == (150, 0.75, kept.lag_max_s)
    assert kept.late_reads > 0


def test_chunks_that_a_slow_client_made_wait_are_counted_apart() -> None:
    slow = changed(journal(constant(3, 20), tokens=4), 1, blocked_ns=1)
    kept = measure_timekeeping(slow)
    assert (kept.chunks, kept.waited) == (8, 4)


def test_whether_a_stamp_is_the_kernels_stands_beside_its_request() -> None:
    plain = journal(constant(3, 10), kernel=True)
    seen = with_extra(changed(plain, 0, arrival_kernel=False), at_s=0.15, arrival_kernel=False)
    load = measure(with_extra(seen, at_s=0.01, method="GET", path="/health"))
    assert load.kernel.tolist() == [False, True, False, True]
    rest = load.without_leading(1)
    assert (rest.kernel.tolist(), rest.requests.n) == ([True, False, True], 3)


def test_a_clock_that_was_off_bounds_the_peak_from_both_sides() -> None:
    """Three requests, each arriving 0.1 s after the end of the one before."""
    starts = [0.0, LATENCY_S + 0.1, 2 * LATENCY_S + 0.2]
    assert measure(journal(starts, kernel=True, clock_jump_s=-0.09)).peaks_with_clock_off() == (1, 1)
    off = measure(journal(starts, kernel=True, clock_jump_s=-0.11))
    assert (off.in_flight.peak, off.peaks_with_clock_off()) == (1, (1, 2))
    both = measure(journal([0.0, LATENCY_S - 0.1], kernel=True, clock_jump_s=0.11))
    assert (both.in_flight.peak, both.peaks_with_clock_off()) == (2, (1, 2))
    assert measure(journal(starts, clock_jump_s=-0.11)).peaks_with_clock_off() == (1, 1)


def test_timekeeping_of_nothing() -> None:
    kept = measure_timekeeping(journal([]))
    assert (kept.stamps, kept.waited, kept.lag_max_s, kept.worst_s) == (0, 0, 0, 0)
    assert (kept.chunks, kept.late_p99_s, kept.interval_s, kept.stamped, kept.late_reads) == (0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([], "nothing"),
        ([16, 15, 16], "16 x 2, 15 x 1"),
        ([True, False, True, None], "true x 2, false x 1, none x 1"),
        (range(7), "0 x 1, 1 x 1, 2 x 1, 3 x 1, 4 x 1, and 2 others"),
    ],
)
def test_spread(values: list[object], told: str) -> None:
    assert spread(Counter(values)) == told


def told(of: Journal) -> dict[str, str]:
    return dict(offered(measure(of)))


def test_what_was_offered_in_words(tmp_path: Path) -> None:
    words = told(read_journal(mixed(tmp_path)))
    assert words["generation requests"] == "8"
    assert words["how they ended"] == "complete x 5, refused x 1, client_closed x 1, in flight x 1"
    assert words["other requests"] == "1 x GET /metrics"
    assert words["path"] == "/v1/completions x 7, /v1/chat/completions x 1"
    assert words["max_tokens"] == "4 x 7, none x 1"
    assert words["repeated prompts"] == "5"
    even = told(journal(constant(100, 20)))
    assert (even["repeated prompts"], even["connections"]) == ("0", "1")
    assert even["beginnings of prompts"] == "0 had the first 64 bytes of an earlier one"
    assert words["beginnings of prompts"] == "0 had the first 64 bytes of an earlier one"
    assert even["rate"] == "20/s by end points, 20/s by half-lag medians"
    assert even["span, first to last arrival"] == "4.950 s"
    assert even["gaps"] == "mean 50.00 ms, coefficient of variation 0.00 (even 0, Poisson 1)"
    assert even["in flight"].startswith(f"peak {math.ceil(LATENCY_S / 0.05)} after ")
    assert "rate" not in told(journal([0.0]))
    assert told(journal([]))["path"] == "nothing"


def test_lateness_and_lag_are_offered_in_words() -> None:
    words = told(lagging(100, [0.001, 0.002, 0.0034], unstamped=1))
    assert words["our lateness"] == "p50 0.00 ms, p99 0.00 ms, max 0.0 ms"
    assert words["our lag"] == "p50 2.00 ms, p99 3.40 ms, max 3.4 ms; the kernel stamped 99% of the arrivals"
    assert told(journal([0.0]))["our lag"] == "not known: the kernel stamped no arrival"


def test_a_prompt_twice_is_one_repeated_with_its_beginning() -> None:
    first = journal(constant(5, 20))
    row = first.table.slice(0, 1).to_pylist()[0]
    twice = changed(first, 3, prompt_digest=row["prompt_digest"], prefix_digests=row["prefix_digests"])
    words = told(twice)
    assert words["repeated prompts"] == "1"
    assert words["beginnings of prompts"] == "1 had the first 64 bytes of an earlier one, up to 128 bytes"
