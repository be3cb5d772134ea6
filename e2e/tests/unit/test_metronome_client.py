"""Does the reference sender send exactly what was asked, and understand every way in which a reply can come or not?

Against a fake server of a few lines that keeps what it read and answers as each test says; the honest sender and
each wrong kind are told apart by what that server saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import signal
import socket
import struct
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loadproof.arrival import Arrival, Law
from loadproof.errors import Exit
from loadproof.metronome.__main__ import main
from loadproof.metronome.answer import Answer
from loadproof.metronome.asked import Asked
from loadproof.metronome.claims import claims_of, row
from loadproof.metronome.client import Sender
from loadproof.metronome.connection import Connection
from loadproof.metronome.drive import drive
from loadproof.metronome.exchange import Exchange
from loadproof.metronome.plan import plan
from loadproof.metronome.schedule import generator, offsets_s
from loadproof.metronome.stage import Stage
from loadproof.metronome.wrong import go_wrong
from tests.unit.replying import (
    DEADLINE_S,
    DONE,
    EVENTS,
    HEAD,
    ROLE,
    STREAM,
    TOKENS,
    USAGE,
    WORDS,
    Reply,
    Server,
    chunked,
    event,
    saying,
    serving,
    sized,
)  # fmt: skip


async def resetting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    await writer.drain()
    # Linger of 0 s: the close is a reset.
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    raise ConnectionError


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()  # until the client gives up
    raise ConnectionError


THREE_SLOTS = Stage(concurrency=3, num_requests=12)
HONEST = Asked(model="m", stages=(THREE_SLOTS,), prompt_tokens=9, max_tokens=TOKENS, seed=5, timeout_s=DEADLINE_S)
OPEN = dataclasses.replace(HONEST, stages=(Stage(rate_per_s=400.0, num_requests=12),))
ONE_BY_ONE = dataclasses.replace(HONEST, stages=(Stage(concurrency=1, num_requests=12),))


async def offered(asked: Asked, url: str) -> list[Exchange]:
    async with asyncio.timeout(DEADLINE_S):
        return await drive(plan(asked, url))


def errors(exchanges: Sequence[Exchange]) -> list[str]:
    return [exchange.answer.error for exchange in exchanges]


# --- one reply, in every form ---------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, Sender, socket.socket]]:
    """A connection of its own sender, and the other end of it."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    with theirs:
        async with Sender("127.0.0.1", 1, timeout_s=1) as sender:
            connection = Connection(sender, ours)
            sender.connections.add(connection)
            yield connection, sender, theirs
    assert not sender.connections


@contextlib.asynccontextmanager
async def received(*reads: bytes) -> AsyncIterator[tuple[Exchange, Connection, Sender]]:
    """A request on a connection that then takes `reads`, at the times 1, 2, 3 and so on."""
    async with connected() as (connection, sender, _):
        exchange = Exchange(0, b"request", streamed=True)
        connection.send(exchange)
        for now_ns, read in enumerate(reads, start=1):
            connection.take(read, now_ns)
        yield exchange, connection, sender


@pytest.mark.asyncio
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
async def test_a_stream_split_at_every_byte_is_the_same_stream(newline: bytes) -> None:
    events = b": a comment\n\n" + event(ROLE) + EVENTS
    reply = HEAD + chunked(events.replace(b"\n", newline))
    for offset in range(1, len(reply)):
        async with received(reply[:offset], reply[offset:]) as (exchange, _, sender):
            assert (exchange.answer.error, len(exchange.answer.times_ns), len(sender.idle)) == ("", TOKENS, 1), offset
            assert exchange.answer.usage is not None
            assert exchange.answer.usage.completion_tokens == TOKENS


@pytest.mark.asyncio
async def test_a_stream_in_single_bytes_is_the_same_stream() -> None:
    async with received(*(bytes([byte]) for byte in STREAM)) as (exchange, _, sender):
        assert (exchange.answer.error, len(exchange.answer.times_ns), len(sender.idle)) == ("", TOKENS, 1)
        assert exchange.answer.times_ns == sorted(exchange.answer.times_ns)
        assert exchange.done_ns == len(STREAM)  # the stamp of the last read, not the time of its handling


def test_times_are_of_the_read_that_ended_the_line() -> None:
    answer = Answer(streamed=True)
    answer.status = 200
    both = event(WORDS[0]) + event(WORDS[1])
    for now_ns, read in enumerate([event(ROLE), both, event(WORDS[3])[:-2], b"\n", b"\n"], start=1):
        answer.feed(read, now_ns)
    assert answer.times_ns == [2, 2, 4]


@pytest.mark.asyncio
async def test_an_interim_answer_is_not_the_answer() -> None:
    async with received(b"HTTP/1.1 100 Continue\r\n\r\n" + STREAM) as (exchange, _, _):
        assert (exchange.answer.error, exchange.answer.status) == ("", 200)


@pytest.mark.asyncio
async def test_a_connection_with_surplus_bytes_is_not_used_again() -> None:
    async with received(STREAM + STREAM) as (exchange, connection, sender):
        assert exchange.answer.error == ""
        assert sender.idle == []
        assert connection.closed


@pytest.mark.asyncio
async def test_a_connection_that_is_closed_fails_the_request_at_once() -> None:
    # The second reply, which nobody asked for, ends the connection.
    async with received(STREAM, STREAM) as (_, connection, _):
        exchange = Exchange(1, b"request", streamed=True)
        connection.send(exchange)
        assert (exchange.answer.error, exchange.sent_ns) == ("the server closed before anything was sent", 0)


@pytest.mark.asyncio
async def test_bytes_on_an_idle_connection_end_it() -> None:
    async with received(STREAM) as (_, connection, sender):
        assert sender.idle == [connection]
        connection.take(STREAM, 2)
        assert connection.closed
        assert sender.idle == []


@pytest.mark.asyncio
async def test_a_request_that_the_kernel_takes_in_parts_arrives_whole() -> None:
    request = bytes(range(256)) * 8192
    arrived = bytearray()
    async with connected() as (connection, _, theirs), asyncio.timeout(DEADLINE_S):
        connection.send(Exchange(0, request, streamed=True))
        while len(arrived) < len(request):
            arrived += await asyncio.get_running_loop().sock_recv(theirs, 65536)
        assert not asyncio.get_running_loop().remove_writer(connection._fd)  # nothing is waited for any more
    assert arrived == request


@pytest.mark.asyncio
async def test_a_send_into_a_connection_that_is_gone_fails_its_request() -> None:
    async with connected() as (connection, _, theirs):
        theirs.close()
        exchange = Exchange(0, b"request", streamed=True)
        connection.send(exchange)
        assert "the connection was lost: " in exchange.answer.error
        assert exchange.done_ns


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (HEAD + chunked(b"".join(map(event, WORDS))), "without [DONE]"),
        (HEAD + chunked(b"".join(map(event, WORDS[:3])) + DONE), "without a finish_reason"),
        (HEAD + chunked(event(WORDS[0]) + event({"error": {"message": "boom"}}) + DONE), "boom"),
        (HEAD + chunked(event({"object": "error", "message": "old form"}) + EVENTS), "old form"),
        (HEAD + chunked(b"event: error\n" + EVENTS), "error event"),
        (HEAD + chunked(event(b'{"choices": [') + EVENTS), "not the JSON"),
        (HEAD + chunked(event(b'{"choices": [{"text": "\xff"}]}') + EVENTS), "not the JSON"),
        (HEAD + chunked(b""), "without"),
        (sized(b'{"error": {"message": "full"}}'), "without a finish_reason"),
        (sized(b"no room", b"503 Service Unavailable"), "status 503: no room"),
        (b"SSH-2.0-OpenSSH\r\n", "not HTTP"),
    ],
)
@pytest.mark.asyncio
async def test_a_reply_that_is_not_whole_is_a_failure_with_its_reason(reply: bytes, why: str) -> None:
    async with received(reply) as (exchange, _, _):
        assert exchange.done_ns
        assert why in exchange.answer.error


@pytest.mark.parametrize(
    ("body", "why"),
    [(b'{"choices": [{"text": "a"}]}', ""), (b'{"choices": []}', "no choices"), (b'{"choices"', "not the JSON"),
     (b'{"error": {"message": "boom"}}', "boom")],
)  # fmt: skip
def test_a_reply_in_one_piece(body: bytes, why: str) -> None:
    answer = Answer(streamed=False)
    answer.status = 200
    answer.feed(body[:7], 1)
    answer.feed(body[7:], 2)
    answer.close(3)
    assert why in answer.error
    assert bool(answer.error) == bool(why)


# --- over sockets ---------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
@pytest.mark.parametrize("asked", [HONEST, OPEN])
async def test_everything_is_sent_once_in_order_and_answered(asked: Asked) -> None:
    async with serving(saying(STREAM)) as (server, url):
        exchanges = await offered(asked, url)
    assert errors(exchanges) == [""] * 12
    assert len({body["prompt"] for body in server.bodies}) == 12
    assert {len(body["prompt"].split()) for body in server.bodies} == {8}
    assert set(server.paths) == {"/v1/completions"}
    assert server.bodies[0] == {
        "model": "m", "prompt": server.bodies[0]["prompt"], "max_tokens": TOKENS, "stream": True,
        "stream_options": {"include_usage": True}, "ignore_eos": True,
    }  # fmt: skip
    assert server.opened == 3 if asked is HONEST else server.opened <= 12


@pytest.mark.asyncio
async def test_nothing_leaves_before_its_plan() -> None:
    """Poisson at 2000/s: gaps far below the millisecond of the event loop's own timers."""
    poisson = Arrival(Law.POISSON)
    asked = dataclasses.replace(OPEN, stages=(Stage(rate_per_s=2000.0, num_requests=200),), arrival=poisson)
    async with serving(saying(STREAM)) as (_, url):
        exchanges = await offered(asked, url)
    planned_s = offsets_s(poisson, count=200, rate_per_s=2000.0, rng=generator(asked.seed))
    start_ns = exchanges[0].intended_ns - round(float(planned_s[0]) * 1e9)
    assert [e.intended_ns - start_ns for e in exchanges] == [round(float(offset) * 1e9) for offset in planned_s]
    assert all(e.sent_ns >= e.intended_ns for e in exchanges)


@pytest.mark.asyncio
async def test_an_open_loop_waits_for_no_answer() -> None:
    server: Server

    async def when_all_are_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.until(lambda: server.peak == 12)
        writer.write(STREAM)

    async with serving(when_all_are_here) as (server, url):
        exchanges = await offered(OPEN, url)
    assert errors(exchanges) == [""] * 12


@pytest.mark.asyncio
async def test_chat_and_no_stream() -> None:
    reply = {"choices": [{"message": {"content": "a b"}, "finish_reason": "stop"}], "usage": USAGE["usage"]}
    asked = dataclasses.replace(HONEST, api="chat", stream=False, ignore_eos=False, bos=0)
    async with serving(saying(sized(json.dumps(reply).encode()))) as (server, url):
        exchanges = await offered(asked, url)
    body = server.bodies[0]
    assert set(server.paths) == {"/v1/chat/completions"}
    assert len(body["messages"][0]["content"].split()) == 9
    assert (body["stream"], body["max_completion_tokens"]) == (False, TOKENS)
    assert not body.keys() & {"ignore_eos", "stream_options", "max_tokens", "prompt"}
    claims = claims_of(exchanges)
    assert (claims.completed, claims.input_tokens, claims.output_tokens) == (12, 12 * 9, 12 * TOKENS)
    assert claims.latency_s is not None
    assert (claims.ttft_s, claims.itl_s, claims.tpot_s) == (None, None, None)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (saying(HEAD + b"%x\r\n%s\r\n" % (len(event(WORDS[0])), event(WORDS[0])), close=True), "the server closed"),
        (saying(HEAD + b"5\r\nda", close=True), "the server closed"),
        (saying(b"", close=True), "the server closed"),
        (resetting, "the connection was lost"),
        (saying(sized(b"sorry", b"500 Internal Server Error")), "status 500: sorry"),
    ],
)
async def test_a_broken_reply_fails_its_request_alone_and_nothing_is_sent_again(reply: Reply, why: str) -> None:
    async def every_third(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await (reply if len(server.bodies) % 3 == 0 else saying(STREAM))(reader, writer)

    server: Server
    async with serving(every_third) as (server, url):
        exchanges = await offered(ONE_BY_ONE, url)
    failures = [error for error in errors(exchanges) if error]
    assert len(server.bodies) == 12
    assert len(failures) == 4
    assert all(why in failure for failure in failures)
    claims = claims_of(exchanges)
    assert (claims.completed, claims.failed, claims.abandoned) == (8, 4, 0)


@pytest.mark.asyncio
async def test_a_reply_that_ends_with_its_connection_is_whole() -> None:
    reply = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + EVENTS
    async with serving(saying(reply, close=True)) as (server, url):
        exchanges = await offered(HONEST, url)
    assert errors(exchanges) == [""] * 12
    assert server.opened >= 12


@pytest.mark.asyncio
@pytest.mark.parametrize("asked", [HONEST, OPEN])
async def test_a_server_that_never_answers_costs_the_timeout_and_no_more(asked: Asked) -> None:
    async with serving(silent) as (server, url):
        exchanges = await offered(dataclasses.replace(asked, timeout_s=0.1), url)
    assert errors(exchanges) == ["no complete answer within 0.1 s"] * 12
    assert len(server.bodies) == 12
    if asked is HONEST:  # given up means gone: at most the 3 that end while the next 3 come
        assert server.peak <= 6


@pytest.mark.asyncio
async def test_connections_that_never_come_about_end_too() -> None:
    """A listener that accepts nothing: beyond its backlog a connect hangs."""
    with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
        async with asyncio.timeout(DEADLINE_S):
            async with Sender(*listener.getsockname(), timeout_s=0.1) as sender:
                answered = [asyncio.get_running_loop().create_future() for _ in range(6)]
                for future in answered:
                    sender.launch(Exchange(0, b"request", streamed=True), future.set_result)
                ended = await asyncio.gather(*answered)
            async with Sender(*listener.getsockname(), timeout_s=DEADLINE_S) as sender:
                exchange = Exchange(0, b"request", streamed=True)
                sender.launch(exchange, lambda _: None)
    assert errors(ended) == ["no complete answer within 0.1 s"] * 6
    assert sum(e.sent_ns == 0 for e in ended) >= 3
    assert exchange.answer.error == "no connection"
    assert not sender.connections


@pytest.mark.asyncio
async def test_an_idle_connection_that_was_closed_is_not_used() -> None:
    """Two requests one after the other; the server closes in between."""
    asked = dataclasses.replace(HONEST, stages=(Stage(concurrency=2, num_requests=2),))
    async with serving(saying(STREAM, close=True)) as (server, url):
        to_do = plan(asked, url)
        async with Sender(to_do.host, to_do.port, timeout_s=DEADLINE_S) as sender:
            await sender.open(1)
            for request in itertools.islice(to_do.requests, 2):
                exchange = Exchange(0, request, streamed=True)
                answered = asyncio.get_running_loop().create_future()
                sender.launch(exchange, answered.set_result)
                await answered
                assert exchange.answer.error == ""
                async with asyncio.timeout(DEADLINE_S):
                    while sender.connections:  # noqa: ASYNC110  # the sender has no event for a test to wait on
                        await asyncio.sleep(0)
                assert sender.idle == []
    assert server.opened == 2


@pytest.mark.asyncio
async def test_a_server_that_goes_away_fails_what_is_left() -> None:
    listener: asyncio.Server

    async def only_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        listener.close()
        await reader.readuntil(b"\r\n\r\n")
        writer.close()

    listener = await asyncio.start_server(only_once, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    exchanges = await offered(ONE_BY_ONE, url)
    assert len(exchanges) == 12
    assert all(errors(exchanges))
    assert "no connection" in errors(exchanges)[-1]


# --- honest and wrong -----------------------------------------------------------------------------------------------


async def peak_of(asked: Asked, barrier: int) -> int:
    """The in-flight peak at a server that answers nobody before `barrier` requests were in flight."""

    async def wait_then_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.until(lambda: server.peak >= barrier)
        writer.write(STREAM)

    server: Server
    async with serving(wait_then_answer) as (server, url):
        exchanges = await offered(asked, url)
    assert errors(exchanges) == [""] * asked.about
    return server.peak


@pytest.mark.asyncio
@pytest.mark.parametrize(("wrong", "slots"), [([], 3), (["concurrency+1"], 4), (["concurrency-1"], 2)])
async def test_concurrency_is_reached_and_never_exceeded(wrong: list[str], slots: int) -> None:
    honest = dataclasses.replace(HONEST, stages=(dataclasses.replace(THREE_SLOTS, num_requests=200),))
    asked = go_wrong(honest, wrong)
    assert await peak_of(asked, slots) == slots


def prompts(bodies: list[dict[str, Any]]) -> Counter[str]:
    return Counter(body["prompt"] for body in bodies)


Bodies = list[dict[str, Any]]
VISIBLE: dict[str, Callable[[Bodies, Bodies], bool]] = {
    "duplicate": lambda wrong, honest: (
        len(wrong) == len(honest)
        and sorted(prompts(wrong).values()) == [1] * 10 + [2]
        and len(prompts(honest) - prompts(wrong)) == 1
    ),
    "drop-last": lambda wrong, honest: prompts(honest) - prompts(wrong) == Counter({honest[-1]["prompt"]: 1}),
    "max-tokens-1": lambda wrong, _: {body["max_tokens"] for body in wrong} == {TOKENS - 1},
    "no-ignore-eos": lambda wrong, _: not any("ignore_eos" in body for body in wrong),
    "warm-up": lambda wrong, honest: wrong[1:] == honest and wrong[0]["prompt"] not in prompts(honest),
    "prompt+1": lambda wrong, _: {len(body["prompt"].split()) for body in wrong} == {9},
}


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", VISIBLE)
async def test_a_wrong_kind_is_visible_and_the_honest_twin_is_not(kind: str) -> None:
    seen: list[Bodies] = []
    for asked in (ONE_BY_ONE, ONE_BY_ONE, go_wrong(ONE_BY_ONE, [kind])):
        async with serving(saying(STREAM)) as (server, url):
            exchanges = await offered(asked, url)
        assert not any(errors(exchanges))
        seen.append(server.bodies)
    honest, again, wrong = seen
    assert again == honest
    assert not VISIBLE[kind](again, honest)
    assert VISIBLE[kind](wrong, honest)


@pytest.mark.asyncio
async def test_ten_percent_slower_is_planned_ten_percent_longer() -> None:
    spans_ns = []
    async with serving(saying(STREAM)) as (_, url):
        for asked in (OPEN, go_wrong(OPEN, ["rate-10%"])):
            exchanges = await offered(asked, url)
            spans_ns.append(exchanges[-1].intended_ns - exchanges[0].intended_ns)
    assert spans_ns[1] / spans_ns[0] == pytest.approx(1 / 0.9)


# --- claims ---------------------------------------------------------------------------------------------------------


def ended(*, intended: int, sent: int, times: list[int], done: int, error: str = "") -> Exchange:
    """An exchange as a run leaves it; times in ms."""
    exchange = Exchange(0, b"", streamed=True)
    exchange.intended_ns, exchange.sent_ns, exchange.done_ns = (ms * 1_000_000 for ms in (intended, sent, done))
    exchange.answer.status = 200
    exchange.answer.times_ns = [ms * 1_000_000 for ms in times]
    exchange.answer.error = error
    return exchange


def test_claims_count_from_the_intended_send_and_end_with_the_last_text() -> None:
    claims = claims_of([
        ended(intended=1000, sent=1050, times=[1100, 1110, 1140], done=1200),
        ended(intended=2000, sent=2000, times=[2200], done=2201),
        ended(intended=2000, sent=2000, times=[2900], done=3050, error="boom"),
    ])  # fmt: skip
    assert msgspec.to_builtins(claims) == {
        "tool": "metronome", "version": claims.version, "completed": 2, "failed": 1, "abandoned": 0,
        "duration_s": 2.0, "request_rate_per_s": 1.0, "output_tokens": 4,
        "ttft_s": pytest.approx({"mean": 0.15, "p50": 0.15, "p90": 0.19, "p99": 0.199}),
        "itl_s": pytest.approx({"mean": 0.02, "p50": 0.02, "p90": 0.028, "p99": 0.0298}),
        "tpot_s": pytest.approx({"mean": 0.02, "p50": 0.02, "p90": 0.02, "p99": 0.02}),
        "latency_s": pytest.approx({"mean": 0.17, "p50": 0.17, "p90": 0.194, "p99": 0.1994}),
    }  # fmt: skip


def test_a_row_says_nothing_of_what_did_not_happen() -> None:
    never = Exchange(3, b"", streamed=True)
    never.end("no connection")
    assert msgspec.to_builtins(row(never)) == {
        "index": 3, "intended_ns": None, "sent_ns": None, "first_ns": None, "last_ns": None,
        "done_ns": never.done_ns, "status": None, "tokens": 0, "text_ns": [], "error": "no connection",
    }  # fmt: skip


# --- as a program ---------------------------------------------------------------------------------------------------


def arguments(url: str, out: Path, **changes: str) -> list[str]:
    plain = {"base-url": url, "model": "m", "out": str(out), "num-requests": "6", "prompt-tokens": "9"}
    asked = plain | {"max-tokens": "4", "concurrency": "2"} | {k.replace("_", "-"): v for k, v in changes.items()}
    return [f"--{name}={value}" for name, value in asked.items() if value]


@contextlib.asynccontextmanager
async def program(*args: str) -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "loadproof.metronome", *args, stdout=pipe, stderr=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.asyncio
async def test_the_program_leaves_claims_and_rows(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    async with serving(saying(STREAM)) as (server, url), program(*arguments(url, out)) as process:
        stdout, stderr = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert (process.returncode, stderr) == (Exit.CLEAN, b"")
    assert b"6 completed, 0 failed, 0 abandoned" in stdout
    claims = json.loads((out / "claims.json").read_text())
    assert (claims["tool"], claims["completed"], claims["input_tokens"], claims["output_tokens"]) == (
        "metronome", 6, 54, 24,
    )  # fmt: skip
    rows = [json.loads(line) for line in (out / "requests.jsonl").read_text().splitlines()]
    assert [r["index"] for r in rows] == list(range(6))
    assert all(r["intended_ns"] == r["sent_ns"] <= r["first_ns"] <= r["last_ns"] <= r["done_ns"] for r in rows)
    assert all([r["first_ns"], r["last_ns"]] == [r["text_ns"][0], r["text_ns"][-1]] for r in rows)
    gaps = [b - a for r in rows for a, b in itertools.pairwise(r["text_ns"])]
    assert claims["itl_s"]["mean"] == pytest.approx(sum(gaps) / len(gaps) / 1e9)
    ttft = sorted(r["first_ns"] - r["intended_ns"] for r in rows)
    assert claims["ttft_s"]["p50"] == pytest.approx((ttft[2] + ttft[3]) / 2 / 1e9)
    assert sorted(path.name for path in out.iterdir()) == ["claims.json", "requests.jsonl"]
    assert len(server.bodies) == 6


@pytest.mark.asyncio
async def test_a_failed_request_is_exit_1(tmp_path: Path) -> None:
    async with (
        serving(saying(sized(b"no", b"500 Internal Server Error"))) as (_, url),
        program(*arguments(url, tmp_path)) as process,
    ):
        await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == Exit.FAIL
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert (claims["completed"], claims["failed"]) == (0, 6)
    assert not claims.keys() & {"ttft_s", "itl_s", "tpot_s", "latency_s", "input_tokens", "output_tokens"}


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stopped_run_claims_what_it_abandoned(number: signal.Signals, tmp_path: Path) -> None:
    async with serving(silent) as (server, url), program(*arguments(url, tmp_path)) as process:
        await server.until(lambda: server.in_flight == 2)
        process.send_signal(number)
        await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == Exit.FAIL
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert (claims["completed"], claims["failed"], claims["abandoned"]) == (0, 0, 2)
    assert len((tmp_path / "requests.jsonl").read_text().splitlines()) == 2


@pytest.mark.asyncio
async def test_a_server_that_is_not_there_is_exit_3(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        url = f"http://127.0.0.1:{gone.getsockname()[1]}"
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "claims.json").write_text("of an earlier run")
    async with program(*arguments(url, tmp_path / "out")) as process:
        _, stderr = await asyncio.wait_for(process.communicate(), DEADLINE_S)
    assert process.returncode == Exit.BROKEN
    assert b"no server can be reached at 127.0.0.1:" in stderr
    assert b"Traceback" not in stderr
    assert not (tmp_path / "out" / "claims.json").exists()


def test_an_out_that_is_a_file_is_exit_64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    assert main(arguments("http://127.0.0.1:1", out)) == Exit.USAGE
    assert "cannot be used as a folder (File exists)" in capsys.readouterr().err
    assert out.read_text() == "mine"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"concurrency": ""}, "give either --rate (with --arrival) or --concurrency"),
        ({"rate": "5"}, "give either --rate (with --arrival) or --concurrency"),
        ({"arrival": "poisson"}, "--arrival needs --rate, or a --stage with a rate"),
        ({"concurrency": "0"}, "must be at least 1, not 0"),
        ({"num_requests": "many"}, "invalid whole number value: 'many'"),
        ({"concurrency": "", "rate": "inf"}, "must be above 0 and finite, not inf"),
        ({"prompt_tokens": "1"}, "leaves no text beside the 1 BOS"),
        ({"num_requests": "5000", "prompt_tokens": "2"}, "different prompts of 1 tokens: ask for longer prompts"),
        ({"wrong": "rate-10%"}, "--wrong rate-10% needs --rate"),
        ({"wrong": "late"}, "invalid choice: 'late'"),
        ({"base_url": "127.0.0.1:8000"}, "give something like http://127.0.0.1:8000"),
        ({"base_url": "http://127.0.0.1:"}, "give something like http://127.0.0.1:8000"),
        ({"base_url": "http://127.0.0.1:99999"}, "Port out of range"),
        ({"base_url": "http://127.0.0.1:8000/v1"}, "without /v1"),
        ({"colour": "red"}, "unrecognized arguments: --colour=red"),
    ],
)
def test_bad_arguments_are_exit_64_and_nothing_is_left(
    changes: dict[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(arguments("http://127.0.0.1:1", out, **changes)) == Exit.USAGE
    assert message in capsys.readouterr().err
    assert not out.exists()
