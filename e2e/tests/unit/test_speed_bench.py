"""Is the speed bench's own arithmetic right, does its load have the shape that it says, does a round measure?"""

from __future__ import annotations

import json
import math
import os
import shutil
import socketserver
import threading
import types
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.speed_parts import bare_send, lateness, profiles
from bench.speed_parts.closed_loop import Round, one_round, read_told
from bench.speed_parts.lateness import Chunks, at_once, entropy_bytes, groups_due_at_once, size_of
from bench.speed_parts.machine import Quiet, ThreadUse, moment, quiet_between, two_cores, use_between
from bench.speed_parts.ratios import least, least_us
from bench.speed_parts.servers import Server, nginx
from bench.speed_parts.streams import Driver, in_phase, request_bytes, spread
from bench.speed_parts.table import Bar, absent, barred, markdown
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.words import WORDS

SEED = 20240607
QUIET = Quiet(0.0, 0.0)
GOOD = {"requests": 9, "seconds": 1.5, "bytes": 1, "connect": 0, "read": 0, "write": 0, "status": 0, "timeout": 0}


# Bars and the table


@pytest.mark.parametrize(
    ("value", "bar", "outcome"),
    [
        (2.5, Bar(2.5), "reached"),
        (2.51, Bar(2.5), "MISSED by 0.4%"),
        (5.0, Bar(2.5), "MISSED by 100%"),
        (8.0, Bar(8, at_least=True), "reached"),
        (6.0, Bar(8, at_least=True), "MISSED by 25%"),
    ],
)
def test_a_bar_says_by_how_much_it_was_missed(value: float, bar: Bar, outcome: str) -> None:
    row = barred("k", "w", value, bar)
    assert (row.outcome, row.missed) == (outcome, outcome != "reached")


def test_what_is_not_there_misses_no_bar_and_keeps_it_in_sight() -> None:
    row = absent("k", "w", "no such option", Bar(1.6, "x nginx"))
    assert (row.outcome, row.bar, row.missed) == ("not there yet", "<= 1.6 x nginx", False)


def test_markdown_has_a_line_a_row_and_no_cell_breaks_it() -> None:
    text = markdown([barred("k", "a|b `c`", 3.004, Bar(3, "bytes"))], ["host"])
    row = text.splitlines()[-1]
    assert row == r"| a\|b `c` | 3.00 bytes | \<= 3 bytes | MISSED by 0.1% |  |  |"


# CPU and quietness


def test_the_loop_is_the_main_thread_and_the_second_the_busiest_other() -> None:
    use = use_between(7, {7: 100, 8: 50, 9: 5}, {7: 350, 8: 60, 9: 905, 10: 3})
    assert use == ThreadUse(loop=250, second=900, rest=13)
    assert use.whole == 1163


def test_quietness_is_what_others_used_and_what_was_stolen() -> None:
    def text(user: int, idle: int, steal: int) -> str:
        return f"cpu  {user} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n"

    first, second = moment(text(100, 100, 0)), moment(text(200, 150, 3))
    second = type(second)(first.at + 10**9, second.busy, second.stolen)
    assert quiet_between(first, second, ours_ns=10**9) == Quiet(stolen=0.03, others=0.0)
    assert quiet_between(first, second, ours_ns=8 * 10**8).others == pytest.approx(0.2)
    assert quiet_between(first, second, ours_ns=10**9).disturbed
    assert not Quiet(0.01, 0.05).disturbed
    assert Quiet(0.0, 0.11).disturbed


def test_the_least_round_counts_by_cpu_a_request_and_not_by_rate() -> None:
    cheap = Round(1000, 2.0, ThreadUse(10**7, 0, 0), QUIET)
    quick = Round(9000, 2.0, ThreadUse(18 * 10**7, 0, 0), QUIET)
    assert least([quick, cheap]) is cheap
    assert least_us([quick, cheap]) == 10.0
    assert quick.rate_per_s == 4500.0


# What wrk says


def test_what_wrk_says_is_read() -> None:
    told = read_told("Running 1s test\n@" + json.dumps(GOOD) + "\nRequests/sec: 6\n")
    assert (told.requests, told.seconds) == (9, 1.5)


@pytest.mark.parametrize("wrong", [{"status": 1}, {"read": 2}, {"timeout": 1}, {"requests": 0}])
def test_a_round_with_errors_measures_nothing(wrong: dict[str, int]) -> None:
    with pytest.raises(BrokenRun, match="measures nothing"):
        read_told("@" + json.dumps(GOOD | wrong))


def test_silence_of_wrk_is_told_with_what_it_did_say() -> None:
    with pytest.raises(BrokenRun, match="incomplete request at 8:776"):
        read_told("incomplete request at 8:776\n")


# Moments of sending


@given(st.integers(2, 1500), st.integers(1, 50))
@settings(max_examples=60, derandomize=True)
def test_spread_streams_take_every_phase_once(streams: int, itl_ms: int) -> None:
    itl_ns = itl_ms * 10**6
    times, step = spread(streams, itl_ns), itl_ns // streams
    phases = sorted(time % (step * streams) for time in times)
    assert phases == [k * step for k in range(streams)]
    assert times == sorted(times)


def test_streams_in_phase_are_sent_on_whole_periods() -> None:
    times = in_phase(25, 20_000_000, 10)
    assert {time % 20_000_000 for time in times} == {0}
    assert [times.count(k * 20_000_000) for k in range(3)] == [10, 10, 5]


# Lateness


def _groups(each_us: float, streams: int = 1000, groups: int = 3) -> Chunks:
    planned = np.repeat(np.arange(groups) * 20_000_000, streams)
    late = np.tile(np.round(np.arange(1, streams + 1) * each_us * 1000).astype(np.int64), groups)
    return Chunks(planned, late, streams, 0, 10**9, 0)


@pytest.mark.parametrize("each_us", [5.0, 7.0])
def test_a_group_due_at_once_shows_what_each_stream_takes(each_us: float) -> None:
    found = at_once(_groups(each_us))
    assert found is not None
    assert (found.groups, found.within_us) == (3, 0.0)
    assert (found.median_us, found.worst_us, found.worst_kth_us) == pytest.approx((each_us,) * 3)


def test_one_slow_group_is_the_worst_and_not_the_median() -> None:
    chunks = _groups(5.0)
    chunks.late[-1] += 4_000_000
    found = at_once(chunks)
    assert found is not None
    assert found.median_us == pytest.approx(5.0)
    assert found.worst_us == pytest.approx(9.0)


def test_the_order_of_writing_does_not_matter_and_spread_streams_are_no_group() -> None:
    chunks = _groups(5.0)
    for start in range(0, 3000, 1000):
        chunks.late[start : start + 1000] = chunks.late[start : start + 1000][::-1].copy()
    found = at_once(chunks)
    assert found is not None
    assert found.worst_kth_us == pytest.approx(5.0)
    apart = np.arange(1000) * 2_000_000
    assert at_once(Chunks(apart, np.zeros(1000, np.int64), 1000, 0, 10**10, 0)) is None
    assert groups_due_at_once(np.array([0, 1, 2, 5_000_000, 5_000_001]), 2) == [slice(0, 3), slice(3, 5)]


def test_the_plateau_leaves_out_what_was_due_before_all_streams_were_open() -> None:
    chunks = Chunks(np.arange(10), np.arange(10) * 100, 2, begin=3, stop=7, blocked=0)
    assert chunks.plateau().late.tolist() == [300, 400, 500, 600, 700]


def test_entropy_of_known_laws() -> None:
    generator = np.random.default_rng(SEED)
    assert entropy_bytes(generator.integers(0, 2**16, 200_000), SEED) == pytest.approx(2.0, abs=0.02)
    assert entropy_bytes(np.full(200_000, 7), SEED) == pytest.approx(0.0, abs=0.02)
    normal = np.round(generator.normal(0, 20_000, 200_000)).astype(np.int64)
    assert entropy_bytes(normal, SEED) == pytest.approx(
        math.log2(20_000 * math.sqrt(2 * math.pi * math.e)) / 8, abs=0.02
    )


def test_the_size_is_of_the_columns_with_an_entry_a_chunk(tmp_path: Path) -> None:
    chunks = pa.array([[1, 2, 3], [4]], pa.list_(pa.int64()))
    pairs = pa.array(
        [[{"name": "a", "value": "b"}], []], pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
    )
    table = pa.table({"req": [0, 1], "planned_ns": chunks, "late_ns": chunks, "headers": pairs})
    pq.write_table(table, tmp_path / "journal.parquet")
    size = size_of(tmp_path)
    group = pq.ParquetFile(tmp_path / "journal.parquet").metadata.row_group(0)
    assert size.chunk_columns == group.column(1).total_compressed_size + group.column(2).total_compressed_size
    assert (size.chunks, size.whole_file) == (4, (tmp_path / "journal.parquet").stat().st_size)
    assert size.each == size.chunk_columns / 4


def test_gaps_are_of_one_request_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = (np.array([10, 30, 60, 1000, 5000, 5007]), np.array([0, 3, 3, 4, 6]))
    journal = types.SimpleNamespace(list_column=lambda _: columns)
    monkeypatch.setattr(lateness, "read_journal", lambda _: journal)
    assert lateness.gaps_of(tmp_path).tolist() == [20, 30, 7]


# Profiles


def test_a_profile_counts_the_main_thread_and_each_function_of_a_stack_once() -> None:
    stacks = [
        "t: MainThread;run (a.py:1);f (b.py:2);f (b.py:9) 3",
        "t: MainThread;run (a.py:1) 1",
        "t: token-counting;x 90",
    ]
    lines = profiles.by_function(stacks)
    assert lines[1:3] == ["  75.0%  f (b.py", "  25.0%  run (a.py"]
    assert lines[4:] == [" 100.0%  run (a.py", "  75.0%  f (b.py"]
    assert profiles.by_function(["t: token-counting;x 90"]) == []


# Real load against a server of our own


class _Replies(socketserver.StreamRequestHandler):
    """Keeps what it is sent; answers each request with a chunked reply in two writes."""

    disable_nagle_algorithm = True

    def handle(self) -> None:
        bodies: list[bytes] = self.server.bodies  # type: ignore[attr-defined] # set where the server is made
        while line := self.rfile.readline():
            length = 0
            while (line := self.rfile.readline()) not in {b"\r\n", b""}:
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            bodies.append(self.rfile.read(length))
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
            self.wfile.write(b"0\r\n\r\n")


@pytest.fixture
def replies() -> Iterator[tuple[Server, list[bytes]]]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Replies) as server:
        server.daemon_threads = True
        bodies: list[bytes] = []
        server.bodies = bodies  # type: ignore[attr-defined] # read by the handler
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield Server(f"http://127.0.0.1:{server.server_address[1]}/v1/completions", 0), bodies
        server.shutdown()
        thread.join()


def test_the_driver_sends_each_request_and_sees_each_end(replies: tuple[Server, list[bytes]]) -> None:
    server, bodies = replies
    requests = [request_bytes(i, 4, SEED) for i in range(6)]
    done = Driver(server, requests, [0, 0, 0, 1_000_000, 2_000_000, 2_000_000]).run(lasts_s=1)
    assert sorted(bodies) == sorted(request.partition(b"\r\n\r\n")[2] for request in requests)
    assert len(done) == 6
    assert all(one.ended > one.sent > 0 for one in done)


def test_the_driver_goes_on_in_a_closed_loop(replies: tuple[Server, list[bytes]]) -> None:
    server, bodies = replies
    done = Driver(server, [request_bytes(0, 4, SEED)], [0], again_s=0.2).run(lasts_s=0.1)
    assert len(done) == len(bodies) > 1
    assert all(later.sent >= earlier.ended for earlier, later in pairwise(done))


def _wants(*programs: str) -> None:
    missing = [program for program in ("taskset", "setpriv", *programs) if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed here: {', '.join(missing)}")
    try:
        two_cores()
    except UsageProblem as problem:
        pytest.skip(str(problem))


def test_wrk_posts_bodies_of_776_bytes_that_never_come_twice(replies: tuple[Server, list[bytes]]) -> None:
    _wants("wrk")
    server, bodies = replies
    made = one_round(server.url, os.getpid(), cores=two_cores(), seconds=1, stream=True, seed=SEED, connections=2)
    assert made.requests > 10
    assert {len(body) for body in bodies} == {776}
    assert len(set(bodies)) == len(bodies) >= made.requests
    asked = json.loads(bodies[0])
    assert (asked["max_tokens"], asked["stream"], asked["ignore_eos"]) == (16, True, True)
    assert len({json.loads(body)["prompt"][:200] for body in bodies[:100]}) == len(bodies[:100])
    assert set(asked["prompt"].split()[1:80]) <= set(WORDS)


def test_a_bare_send_is_measured() -> None:
    _wants()
    floor = bare_send.measure(two_cores(), 8)
    assert 0 < floor.least_us <= floor.median_us


def test_a_round_against_nginx_measures_its_cost(tmp_path: Path) -> None:
    _wants("wrk", "nginx")
    cores = two_cores()
    with nginx(tmp_path, core=cores.server, reply_bytes=345) as server:
        made = one_round(server.url, server.pid, cores=cores, seconds=1, stream=False, seed=SEED)
    assert made.requests > 100
    assert 0 < made.use.loop <= made.use.whole
    assert made.per_request_us(made.use.loop) < 1e6 * made.seconds / made.requests * 2
