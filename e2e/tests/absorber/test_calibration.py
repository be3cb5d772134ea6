"""Are our time stamps those of the packets that carried the very bytes?

The short form of `bench/calibrate.py`, where packets may be captured, and the same data with stamps that are 200 us
off, which must not pass. Then the capture's own reading: streams that were split, repeated and disordered in known
ways, and requests and replies whose bytes passed at known times.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
import struct
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bench import calibrate
from bench.calibration import gather as gathering
from bench.calibration.agreement import Agreement, _taken_last, of_absorber, of_metronome
from bench.calibration.clock import Bridge, Sample
from bench.calibration.exchanges import Seen, exchanges
from bench.calibration.gather import METRONOME, Gathered, gather
from bench.calibration.packet_socket import why_not
from bench.calibration.pcap import Segment, read_pcap, write_pcap
from bench.calibration.reassembly import Conversation, Stream, conversations
from bench.calibration.scenarios import SCENARIOS
from loadproof.absorber.sockets import READ_BYTES
from loadproof.errors import BrokenRun, Exit
from loadproof.requirements import CAPTURE, required

SCALE = 0.1
SHIFT_NS = 200_000
STAMPS = ("send", "TTFT", "ITL", "TPOT", "latency")
CLIENT, SERVER = (b"\x7f\0\0\1", 50000), (b"\x7f\0\0\1", 8000)


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Gathered:
    """One run of everything, captured."""
    if reason := why_not():
        (pytest.fail if CAPTURE in required() else pytest.skip)(reason)
    return asyncio.run(gather(tmp_path_factory.mktemp("calibration"), capture="packet-socket", scale=SCALE))


def table(agreements: list[Agreement], *, holding: bool) -> str:
    return "\n".join(" | ".join(one.cells()) for one in agreements if one.holds is holding)


def told(agreements: list[Agreement]) -> list[tuple[str, str]]:
    return [(one.scenario, one.stamp) for one in agreements]


def test_every_median_is_within_50_us_of_the_capture(gathered: Gathered) -> None:
    agreements = gathered.agreements()
    assert set(told(agreements)) == {
        *((scenario, stamp) for scenario in (*SCENARIOS, *METRONOME) for stamp in ("arrival", "chunk")),
        *((scenario, stamp) for scenario in METRONOME for stamp in STAMPS),
    }
    assert table(agreements, holding=False) == ""


def test_stamps_200_us_late_fail_in_every_row(gathered: Gathered) -> None:
    assert table(gathered.agreements(SHIFT_NS), holding=True) == ""


def test_stamps_200_us_early_fail_in_every_row(gathered: Gathered) -> None:
    assert table(gathered.agreements(-SHIFT_NS), holding=True) == ""


def test_everything_that_was_sent_was_compared(gathered: Gathered) -> None:
    counts = {(one.scenario, one.stamp): len(one.errors_ns) for one in gathered.agreements()}
    for scenario, names in gathered.names.items():
        assert counts[scenario, "arrival"] == len(set(names)) >= 10
    assert counts["streams of 16 chunks at 5 ms", "chunk"] == 16 * counts["streams of 16 chunks at 5 ms", "arrival"]
    assert counts["bursts of 200 connections", "arrival"] == 400
    for scenario in METRONOME:
        assert counts[scenario, "TTFT"] == counts[scenario, "latency"] == 30
        assert counts[scenario, "ITL"] == 30 * 15


def test_bodies_in_several_segments_were_seen_as_such(gathered: Gathered) -> None:
    segments = [len(gathered.seen[name].times_ns) for name in gathered.names["bodies of several segments"]]
    assert min(segments) >= 2
    in_two = [gathered.seen[name] for name in gathered.names["head and body in two writes, 2 ms apart"]]
    assert all(len(one.times_ns) == 2 and np.ptp(one.times_ns) >= 2_000_000 for one in in_two)


def test_a_request_that_is_missing_is_not_left_out_in_silence(gathered: Gathered) -> None:
    name = gathered.names["one after the other, keep-alive"][0]
    kept = gathered.seen.pop(name)
    try:
        with pytest.raises(BrokenRun, match=name):
            gathered.agreements()
    finally:
        gathered.seen[name] = kept


def test_claims_that_are_not_made_of_the_rows_are_told(gathered: Gathered) -> None:
    told = gathered.told[0]
    assert told.claims.ttft_s is not None
    mean = told.claims.ttft_s.mean
    assert mean is not None
    invented = msgspec.structs.replace(told.claims.ttft_s, mean=mean + 1e-6)
    claims = msgspec.structs.replace(told.claims, ttft_s=invented)
    with pytest.raises(BrokenRun, match="the claimed ttft_s is not made of the stamps"):
        of_metronome(dataclasses.replace(told, claims=claims), gathered.seen)


def test_chunks_that_end_elsewhere_than_the_events_are_told(gathered: Gathered) -> None:
    """As if a reply had been taken for another one."""
    names = gathered.names["streams of 16 chunks at 5 ms"][:2]
    other = gathered.names["one after the other, keep-alive"][0]
    seen = gathered.seen | {names[0]: gathered.seen[other]}
    with pytest.raises(BrokenRun, match=f"{names[0]}: the journal's chunks do not end where"):
        of_absorber("streams", names, seen, gathered.journal)


# --- the capture's own reading --------------------------------------------------------------------------------------


def segment(time_ns: int, sequence: int, payload: bytes, *, back: bool = False, begins: bool = False) -> Segment:
    source, target = (SERVER, CLIENT) if back else (CLIENT, SERVER)
    return Segment(time_ns, source, target, sequence % 2**32, begins, ends=False, payload=payload)


OPENING = [segment(1, 99, b"", begins=True), segment(2, 499, b"", back=True, begins=True)]


@pytest.mark.parametrize("seed", range(20))
def test_each_byte_has_the_time_of_the_packet_that_brought_it_first(seed: int) -> None:
    """Random cuts, some segments again, neighbours exchanged, and numbers that wrap round."""
    rng = random.Random(seed)
    data = rng.randbytes(500)
    first = 2**32 - rng.randrange(1, 400)
    cuts = sorted({0, len(data), *rng.sample(range(len(data)), 12)})
    parts = [(at, data[at:end], 10 + k) for k, (at, end) in enumerate(itertools.pairwise(cuts))]
    sent = [segment(time_ns, first + at, part) for at, part, time_ns in parts]
    for k in range(0, len(sent) - 1, 3):
        sent[k], sent[k + 1] = sent[k + 1], sent[k]
    again = [segment(100 + k, first + at, part) for k, (at, part, _) in enumerate(rng.sample(parts, 4))]
    opening = [segment(1, first - 1, b"", begins=True), segment(2, 499, b"", back=True, begins=True)]
    [connection] = conversations([*opening, *sent, *again], SERVER[1])
    assert connection.sent.data == data
    for at, part, time_ns in parts:
        assert {connection.sent.time_ns(at), connection.sent.time_ns(at + len(part) - 1)} == {time_ns}


def test_a_segment_that_overlaps_brings_only_its_news() -> None:
    [connection] = conversations([*OPENING, segment(10, 100, b"abc"), segment(20, 101, b"bcde")], SERVER[1])
    assert connection.sent.data == b"abcde"
    assert [connection.sent.time_ns(k) for k in range(5)] == [10, 10, 10, 20, 20]
    with pytest.raises(IndexError):
        connection.sent.time_ns(5)


def test_an_early_segment_that_came_twice_has_its_first_time() -> None:
    early = [segment(20, 103, b"de"), segment(30, 103, b"de"), segment(40, 100, b"abc")]
    [connection] = conversations([*OPENING, *early], SERVER[1])
    assert [connection.sent.time_ns(k) for k in range(5)] == [40, 40, 40, 20, 20]


def test_a_packet_that_was_lost_is_told() -> None:
    with pytest.raises(BrokenRun, match="nothing carried byte 3 of a stream"):
        conversations([*OPENING, segment(10, 100, b"abc"), segment(20, 104, b"e")], SERVER[1])


def test_a_port_that_is_used_again_is_another_connection() -> None:
    second = [segment(30, 7099, b"", begins=True), segment(31, 8099, b"", back=True, begins=True)]
    found = conversations([*OPENING, segment(10, 100, b"one"), *second, segment(40, 7100, b"two")], SERVER[1])
    assert [connection.sent.data for connection in found] == [b"one", b"two"]


def stream(*parts: bytes) -> Stream:
    """The k-th part passed at 10 * (k + 1)."""
    ends = np.cumsum([len(part) for part in parts])
    return Stream(b"".join(parts), ends.astype(np.int64), 10 * np.arange(1, len(parts) + 1, dtype=np.int64))


HEAD = b"POST /v1/completions HTTP/1.1\r\nX-Request-ID: %s\r\nContent-Length: 4\r\n\r\n"
EVENTS = b'data: {"choices": [{"text": "a"}]}\n\n', b'data: {"choices": [{"text": ""}]}\n\n', b"data: [DONE]\n\n"


def test_requests_and_replies_are_found_by_their_bytes() -> None:
    chunks = [b"%x\r\n%s\r\n" % (len(event), event) for event in (EVENTS[0], *EVENTS)]
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    interrupted = chunks[1][:20], chunks[1][20:]
    received = stream(head + chunks[0], *interrupted, b"".join(chunks[2:]), b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n")
    sent = stream(HEAD % b"one", b"bo", b"dy" + HEAD % b"two" + b"body")
    found = exchanges([Conversation(CLIENT, sent, received)])
    assert list(found) == ["one", "two"]
    head_bytes = len(HEAD % b"one")
    assert found["one"].starts.tolist() == [0, head_bytes, head_bytes + 2]
    assert found["one"].times_ns.tolist() == [10, 20, 30]
    assert (found["one"].sent_ns, found["two"].times_ns.tolist()) == (30, [30])
    reply = found["one"].reply
    assert reply is not None
    assert reply.body == b"".join((EVENTS[0], *EVENTS))
    assert reply.text_times_ns() == [10, 30]
    assert [reply.time_ns(k) for k in (0, len(EVENTS[0]) - 1, len(EVENTS[0]))] == [10, 10, 20]
    assert found["two"].reply is None


def test_two_requests_of_one_name_are_refused() -> None:
    both = stream(HEAD % b"one" + b"body", HEAD % b"one" + b"body")
    with pytest.raises(BrokenRun, match="two requests are named one"):
        exchanges([Conversation(CLIENT, both, stream(b""))])


@pytest.mark.parametrize(("read_ns", "taken_ns"), [(15, 10), (20, 20), (39, 30), (99, 40), (5, 10)])
def test_an_arrival_is_that_of_the_last_segment_that_the_first_read_could_take(read_ns: int, taken_ns: int) -> None:
    starts, times_ns = np.array([0, 100, READ_BYTES - 1, READ_BYTES - 1, READ_BYTES]), np.array([10, 20, 30, 40, 50])
    assert _taken_last(Seen(starts, times_ns, None), read_ns) == taken_ns


def frame(payload: bytes) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", 50000, 8000, 7, 0, 5 << 4, 0x18, 0, 0, 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, CLIENT[0], SERVER[0]) + tcp
    return bytes(12) + b"\x08\x00" + ip


def test_a_capture_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    times = [1_700_000_000_123_456_789, 1_700_000_001_000_000_001]
    padded = frame(b"two") + b"\0" * 6  # short packets are padded on some devices
    write_pcap(path, [(times[0], frame(b"one")), (times[0], bytes(60)), (times[1], padded)])
    assert [(one.time_ns, one.payload) for one in read_pcap(path)] == list(zip(times, [b"one", b"two"], strict=True))
    assert read_pcap(path)[0] == segment(times[0], 7, b"one")
    path.write_bytes(path.read_bytes()[:-1])
    assert len(read_pcap(path)) == 1


@pytest.mark.parametrize("wrong", [b"", b"\xd4\xc3\xb2\xa1" + bytes(20)])
def test_a_capture_without_nanoseconds_is_refused(wrong: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.pcap"
    path.write_bytes(wrong)
    with pytest.raises(BrokenRun, match="nanosecond stamps"):
        read_pcap(path)


def test_the_clock_is_bridged_in_a_straight_line_and_a_jump_is_told() -> None:
    bridge = Bridge(Sample(1_000_000, 400, 1), Sample(3_000_000, 500, 1))
    assert [bridge.monotonic_ns(real) for real in (1_000_000, 2_000_000, 3_000_000)] == [999_600, 1_999_550, 2_999_500]
    with pytest.raises(BrokenRun, match="moved by"):
        Bridge(Sample(0, 0, 1), Sample(1, 2_000_000, 1))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--capture", "tcpdump"], Exit.BROKEN, "not here"),
        ([], Exit.BROKEN, "neither here"),
        (["--capture", "ears"], Exit.USAGE, "invalid choice"),
        (["--shift-us", "much"], Exit.USAGE, "invalid float"),
        (["--colour", "red"], Exit.USAGE, "unrecognized arguments"),
    ],
)
def test_what_cannot_be_measured_says_why(
    arguments: list[str], code: Exit, says: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(gathering.CAPTURES, "tcpdump", lambda: "not here")
    monkeypatch.setitem(gathering.CAPTURES, "packet-socket", lambda: "neither here")
    assert calibrate.main(arguments) == code
    assert says in capsys.readouterr().err
