"""Is everything that a request needed gone with it, without a garbage collector?

The absorber runs with the collector off, so a cycle per request would grow for as long as it serves. Here a
server runs in this process, with a counter that needs no tokenizer, and clients of every kind come and go.
"""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from loadproof.absorber.counting import CountingThread
from loadproof.absorber.http import RequestReader
from loadproof.absorber.listener import Listener
from loadproof.absorber.profile import Profile, profile_named
from loadproof.absorber.reply import Reply
from loadproof.absorber.request import Request
from loadproof.absorber.server import Server, clock_offset_ns
from loadproof.absorber.session import Session
from loadproof.absorber.sockets import Connection
from loadproof.journal import read_journal
from loadproof.live import LiveCounters
from loadproof.record import Metadata
from loadproof.streams import JournalWriter
from loadproof.tokenizer import TokenCounter, tokenizer_dir

PER_REQUEST = (Connection, Session, RequestReader, Request, Reply)
MODEL = "m"


class CheapCounter(TokenCounter):
    """Counts words, so that no tokenizer has to be loaded."""

    def bare(self, texts: Sequence[str]) -> list[int]:
        return [len(text.split()) for text in texts]

    def with_bos(self, texts: Sequence[str]) -> list[int]:
        return [count + 1 for count in self.bare(texts)]


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


type Served = tuple[Server, int, Path]


@pytest_asyncio.fixture(params=["full", "light", "precompiled", "slots"])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    loop = asyncio.get_running_loop()
    live = LiveCounters(tmp_path)
    counting = CountingThread(loop, CheapCounter(tokenizer_dir()))
    offset = clock_offset_ns()
    writer = JournalWriter(
        tmp_path, Metadata(host="", boot_id="", model=MODEL, profile={}, clock_offset_ns=(offset, offset))
    )
    profile = Profile(ttft_s=0.001, itl_s=0.001) if request.param == "full" else Profile()
    if request.param == "slots":
        profile = Profile(ttft_s=0.001, itl_s=0.001, slots=1)
    if request.param == "precompiled":
        profile = profile_named("max-throughput")
    level = "light" if request.param == "light" else "full"
    server = Server(profile, MODEL, counting, live, writer, level=level)
    listener = Listener(loop, "127.0.0.1", 0)
    listener.start(server.poller, server.accept)
    yield server, listener.port, tmp_path
    listener.close()
    server.stop()
    await counting.drain()
    live.close()
    writer.close()


def post(path: str, body: object, *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def visits(number: int) -> list[bytes]:
    """What the connections of one round send, `REQUESTS` in all; `number` makes the prompts fresh."""
    prompt, close = f"p {number}", "Connection: close"
    chat = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True}
    refused = {"model": MODEL, "messages": [{"role": "nobody", "content": prompt}]}
    several = {"model": MODEL, "prompt": [prompt, "q"], "n": 2, "max_tokens": 2}
    return [
        post("/v1/completions", {"model": MODEL, "prompt": prompt, "stream": True}, close),
        post("/v1/completions", {"model": MODEL, "prompt": prompt}, close),
        post("/v1/completions", several, close),
        post("/v1/completions", several | {"stream": True}, close),
        post("/v1/chat/completions", chat | {"stream_options": {"include_usage": True}}, close),
        post("/v1/chat/completions", refused, close),
        post("/tokenize", refused, close),
        post("/v1/completions", {"model": MODEL, "prompt": prompt}) * 3 + post("/tokenize", [], close),
        b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /health HTTP/1.0\r\n\r\n",
        b"garbage\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n",
    ]


REQUESTS = 16
PARTIAL = (b"GET /hea", b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab",
           b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab")  # fmt: skip
A_ROUND = REQUESTS + len(PARTIAL) + 2


def come_and_go(port: int, rounds: range) -> None:
    for number in rounds:
        for data in visits(number):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(data)
                while client.recv(65536):
                    pass
        for data in PARTIAL:
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                for byte in data:
                    client.sendall(bytes([byte]))
        body = {"model": MODEL, "prompt": "x", "stream": True, "max_tokens": 50}
        for reset in (False, True):  # these leave in mid-stream
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(post("/v1/completions", body))
                client.recv(10)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def alive() -> Counter[str]:
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, PER_REQUEST))


async def all_gone(server: Server) -> None:
    async with asyncio.timeout(10):
        while alive():
            await asyncio.sleep(0.01)
            server.tick()  # what waits for it is to go with it


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_collector")
async def test_nothing_of_a_request_outlives_its_connection(served: Served) -> None:
    server, port, folder = served
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.to_thread(idle.recv, 1000)
        assert alive() == {"Connection": 1, "Session": 1, "RequestReader": 1}  # the search does find what is there
    await asyncio.to_thread(come_and_go, port, range(5))
    await all_gone(server)
    server.tick()
    assert server.next_req == read_journal(folder).table.num_rows == 1 + 5 * A_ROUND
    assert not server._sessions
    assert not server.unnoted
    assert not server.uncounted
    assert server.slots is None or (server.slots.held, server.slots.waiting) == (0, 0)


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_collector")
async def test_what_a_collector_would_find_does_not_grow_with_the_requests(served: Served) -> None:
    server, port, _ = served
    await asyncio.to_thread(come_and_go, port, range(3))
    await all_gone(server)
    gc.collect()
    await asyncio.to_thread(come_and_go, port, range(3, 23))
    await all_gone(server)
    assert gc.collect() < 20 * A_ROUND, "less than one object for each request"
