"""While clients misbehave, is everybody else served, and does the server's memory stay bounded?

Each kind of misbehaviour is held while a good client asks and is answered; what the server keeps for those who do not
read, or who send without end, is bounded by its queues and not by what was asked or sent. And whatever a client does
after it sent a request, the journal has the request's row.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import pytest_asyncio

from loadproof.absorber.profile import Profile
from loadproof.absorber.session import AHEAD_BYTES
from loadproof.absorber.sockets import QUEUE_BYTES
from loadproof.journal import CLIENT_CLOSED, COMPLETE, read_journal
from tests.absorber.conftest import DEADLINE_S
from tests.absorber.odd_requests import COMPLETIONS, GET

if TYPE_CHECKING:
    from tests.absorber.conftest import Absorber, Raw

CLIENTS = 200
MB = 1024 * 1024
LONG = 1_000_000  # tokens; as many events are 200 MB
ROOM = 64 * MB  # what the allocator may keep for itself


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def absorber(
    tmp_path_factory: pytest.TempPathFactory, start: Callable[..., AbstractAsyncContextManager[Absorber]]
) -> AsyncIterator[Absorber]:
    """One of its own: what happens here fills a journal that others would have to read."""
    async with start(Profile(output_tokens=9), tmp_path_factory.mktemp("crowd")) as running:
        yield running


@pytest.fixture
def memory(absorber: Absorber) -> Callable[[], int]:
    """How much memory the absorber has, in bytes."""
    mine = psutil.Process()
    (server,) = {
        process.pid: process for process in mine.children(recursive=True)
        for each in process.net_connections("tcp") if each.laddr.port == absorber.port and each.status == "LISTEN"
    }.values()  # fmt: skip
    return lambda: int(server.memory_info().rss)


@pytest.fixture
def crowd(absorber: Absorber) -> Iterator[list[Raw]]:
    with ExitStack() as stack:
        yield [stack.enter_context(absorber.raw()) for _ in range(CLIENTS)]


def served(absorber: Absorber, times: int = 5) -> None:
    """A good client, on a connection of its own and on one that it keeps, gets what it asks for."""
    with absorber.raw() as kept:
        for _ in range(times):
            kept.post(COMPLETIONS, absorber.body(stream=True))
            assert kept.reply().body.endswith(b"data: [DONE]\n\n")
            with absorber.raw() as fresh:
                fresh.post(COMPLETIONS, absorber.body())
                assert fresh.reply().status == 200


def test_connections_that_say_nothing(absorber: Absorber, crowd: list[Raw]) -> None:
    served(absorber)
    for raw in crowd:
        raw.send(GET)
    assert {raw.reply().status for raw in crowd} == {200}


def test_heads_that_come_a_byte_at_a_time(absorber: Absorber, crowd: list[Raw]) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: 12345678901234567890\r\n\r\n"
    for byte in head[:-1]:
        for raw in crowd:
            raw.send(bytes([byte]))
        if byte in b" \r":
            served(absorber, 1)
    for raw in crowd:
        raw.send(head[-1:])
    assert {raw.reply().status for raw in crowd} == {200}


def test_bodies_that_never_end(absorber: Absorber, crowd: list[Raw], memory: Callable[[], int]) -> None:
    before = memory()
    for raw in crowd:
        raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        raw.send(b"400\r\n" + b" " * 0x400 + b"\r\n")
    served(absorber)
    assert memory() - before < CLIENTS * 1024 + ROOM


def sent_until_held_back(raw: Raw, data: bytes, most: int) -> int:
    """Send without reading until the server takes no more, or until `most` bytes; return how many."""
    raw.socket.setblocking(False)
    sent = refused = 0
    while sent < most and refused < 1000:
        try:
            sent += raw.socket.send(data[sent % len(data) :])
            refused = 0
        except BlockingIOError:
            refused += 1
            served_a_little(raw)
    raw.socket.setblocking(True)
    return sent


def served_a_little(raw: Raw) -> None:
    """Let the server have its turn: a whole exchange with it on a connection of its own."""
    with socket.create_connection(raw.socket.getpeername(), timeout=30) as other:
        other.sendall(GET)
        assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_streams_that_nobody_reads(absorber: Absorber, memory: Callable[[], int]) -> None:
    before = memory()
    with ExitStack() as stack:
        for _ in range(20):
            raw = stack.enter_context(absorber.raw())
            raw.post(COMPLETIONS, absorber.body(stream=True, ignore_eos=True, max_tokens=LONG))
            assert raw.head()[0] == 200
        served(absorber, 20)
        assert memory() - before < 20 * 3 * QUEUE_BYTES + ROOM
    served(absorber)


def test_requests_without_end_by_one_who_reads_no_answer(absorber: Absorber, memory: Callable[[], int]) -> None:
    before = memory()
    most = 64 * MB
    with absorber.raw() as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.post(COMPLETIONS, absorber.body(stream=True, ignore_eos=True, max_tokens=LONG))
        sent = sent_until_held_back(raw, GET * 500, most)
        assert sent < most, "nobody held it back"
        served(absorber)
        assert memory() - before < 30 * AHEAD_BYTES + 3 * QUEUE_BYTES + ROOM
    served(absorber)


def test_one_who_was_held_back_gets_all_answers_in_the_end(absorber: Absorber) -> None:
    tokens, most = 60_000, 64 * MB
    with absorber.raw() as raw:
        raw.post(COMPLETIONS, absorber.body(stream=True, ignore_eos=True, max_tokens=tokens))
        sent = sent_until_held_back(raw, GET, most)
        assert AHEAD_BYTES < sent < most
        assert raw.reply().body.count(b"data: ") == tokens + 1
        answers = [raw.reply().status for _ in range(sent // len(GET))]
    assert len(answers) > 10_000
    assert set(answers) == {200}
    served(absorber)


type Start = Callable[..., AbstractAsyncContextManager[Absorber]]

RESETS = 100
UNREAD = 200
UNREAD_TOKENS = 400  # as events 80 KB: as many replies as that are far more than the sockets' buffers hold
PENDING, PENDING_WORDS = 40, 15_000  # counted in some seconds altogether
SEED = 20261130


def rows_of(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of a sealed journal, which must have lost nothing."""
    journal = read_journal(folder)
    assert (journal.metadata.closed, journal.metadata.lost_requests) == (True, 0)
    rows: list[dict[str, Any]] = journal.table.to_pylist()
    return rows


def reset(raw: Raw) -> None:
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()


def unread(absorber: Absorber, raw: Raw) -> None:
    """Ask again and again without reading, each time when the server is done with what it can do."""
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else the client's kernel keeps the last ones
    for nth in range(UNREAD):
        raw.post(COMPLETIONS, absorber.body(stream=True, ignore_eos=True, max_tokens=UNREAD_TOKENS, user=str(nth)))
        served_a_little(raw)


@pytest.mark.asyncio
@pytest.mark.parametrize("level", ["light", "full"])
async def test_each_request_of_slow_readers_and_of_resets_has_its_row(tmp_path: Path, start: Start, level: str) -> None:
    def misbehave(absorber: Absorber) -> None:
        with absorber.raw() as raw:
            unread(absorber, raw)
            replies = [raw.reply().body.count(b"data: ") for _ in range(UNREAD)]
            assert set(replies) == {UNREAD_TOKENS + 1}
        with absorber.raw() as raw:
            unread(absorber, raw)
        for nth in range(RESETS):
            raw = absorber.raw()
            raw.post(COMPLETIONS, absorber.body(user=f"reset {nth}"))
            reset(raw)
        served(absorber, 1)

    async with start(Profile(output_tokens=9), tmp_path, level=level) as absorber:
        await asyncio.to_thread(misbehave, absorber)
    rows = [row for row in rows_of(absorber.journal) if row["path"] == COMPLETIONS]
    patient, impatient = rows[:UNREAD], rows[UNREAD : 2 * UNREAD]
    assert len({row["conn"] for row in patient}) == len({row["conn"] for row in impatient}) == 1
    assert [row["nth"] for row in patient] == [row["nth"] for row in impatient] == list(range(UNREAD))
    assert {row["how_ended"] for row in patient} == {COMPLETE}
    assert any(row["blocked_ns"] for row in patient)
    assert {row["how_ended"] for row in impatient} == {COMPLETE, CLIENT_CLOSED}
    resets = [row for row in rows if b"reset " in row["body"]]
    assert len(resets) == len({row["body"] for row in resets}) == RESETS
    assert {row["how_ended"] for row in resets} <= {COMPLETE, CLIENT_CLOSED}
    assert len(rows) == 2 * UNREAD + RESETS + 2


def post_long_prompts(absorber: Absorber, stack: ExitStack) -> list[Raw]:
    """Send prompts that nobody has counted before, and that take long to count, on a connection each."""
    chance, raws = random.Random(SEED), []
    for _ in range(PENDING):
        raw = stack.enter_context(absorber.raw())
        raw.post(COMPLETIONS, absorber.body(prompt=" ".join(str(chance.getrandbits(30)) for _ in range(PENDING_WORDS))))
        raws.append(raw)
    return raws


async def until_received(folder: Path) -> None:
    """Wait until the live streams hold all of the long prompts, whole."""
    deadline = time.monotonic() + DEADLINE_S
    while sum(received > 0 for received in read_journal(folder).table["received_ns"].to_pylist()) < PENDING:
        assert time.monotonic() < deadline, "the journal did not grow"
        await asyncio.sleep(0.02)


@pytest.mark.asyncio
async def test_clients_that_close_while_their_prompts_are_counted_have_ended(tmp_path: Path, start: Start) -> None:
    def close_early(absorber: Absorber) -> None:
        with ExitStack() as stack:
            post_long_prompts(absorber, stack)
        served(absorber, 1)

    async with start(Profile(output_tokens=9), tmp_path) as absorber:
        await asyncio.to_thread(close_early, absorber)
    rows = [row for row in rows_of(absorber.journal) if len(row["body"]) > 10_000]
    assert len(rows) == PENDING
    assert {row["how_ended"] for row in rows} <= {COMPLETE, CLIENT_CLOSED}, f"seed {SEED}"
    assert any(row["how_ended"] == CLIENT_CLOSED for row in rows), "the counts came before the clients closed"
    assert all(row["bare_prompt_tokens"] for row in rows)


@pytest.mark.asyncio
async def test_an_end_while_prompts_are_counted_waits_for_all_counts(tmp_path: Path, start: Start) -> None:
    with ExitStack() as stack:
        async with start(Profile(output_tokens=9), tmp_path) as absorber:
            await asyncio.to_thread(post_long_prompts, absorber, stack)
            await until_received(absorber.journal)
        rows = rows_of(absorber.journal)
    assert len(rows) == PENDING
    assert any(row["how_ended"] is None for row in rows), "the counts came before the end"
    assert [row["bare_prompt_tokens"] for row in rows if not row["bare_prompt_tokens"]] == [], f"seed {SEED}"
