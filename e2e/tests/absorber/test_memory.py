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
from loadproof.absorber.http import Request, RequestReader
from loadproof.absorber.listener import Listener
from loadproof.absorber.profile import Profile
from loadproof.absorber.reply import Reply
from loadproof.absorber.server import Server
from loadproof.absorber.session import Session
from loadproof.absorber.sockets import Connection
from loadproof.live import LiveCounters
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


@pytest_asyncio.fixture
async def served(tmp_path: Path) -> AsyncIterator[tuple[Server, int]]:
    loop = asyncio.get_running_loop()
    live = LiveCounters(tmp_path)
    counting = CountingThread(loop, CheapCounter(tokenizer_dir()))
    server = Server(Profile(ttft_s=0.001, itl_s=0.001), MODEL, counting, live)
    listener = Listener(loop, "127.0.0.1", 0)
    listener.start(server.accept)
    yield server, listener.port
    listener.close()
    server.stop()
    await counting.drain()
    live.close()


def post(path: str, body: object, *headers: str) -> bytes:
    data = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"Content-Length: {len(data)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def visits(number: int) -> list[bytes]:
    """What the connections of one round send; `number` makes the prompts fresh."""
    prompt, close = f"p {number}", "Connection: close"
    chat = {"model": MODEL, "messages": [{"role": "user", "content": prompt}], "stream": True}
    refused = {"model": MODEL, "messages": [{"role": "nobody", "content": prompt}]}
    return [
        post("/v1/completions", {"model": MODEL, "prompt": prompt, "stream": True}, close),
        post("/v1/completions", {"model": MODEL, "prompt": prompt}, close),
        post("/v1/chat/completions", chat | {"stream_options": {"include_usage": True}}, close),
        post("/v1/chat/completions", refused, close),
        post("/tokenize", refused, close),
        post("/v1/completions", {"model": MODEL, "prompt": prompt, "n": 3}) * 3 + post("/tokenize", [], close),
        b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n",
        b"garbage\r\n\r\n",
    ]


def come_and_go(port: int, rounds: range) -> None:
    for number in rounds:
        for data in visits(number):
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(data)
                while client.recv(65536):
                    pass
        body = {"model": MODEL, "prompt": "x", "stream": True, "max_tokens": 50}
        for reset in (False, True):  # these leave in mid-stream
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(post("/v1/completions", body))
                client.recv(10)
                if reset:
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")


def alive() -> Counter[str]:
    return Counter(type(thing).__name__ for thing in gc.get_objects() if isinstance(thing, PER_REQUEST))


async def all_gone() -> None:
    async with asyncio.timeout(10):
        while alive():  # noqa: ASYNC110 -- the end of an object is no event
            await asyncio.sleep(0.01)


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_collector")
async def test_nothing_of_a_request_outlives_its_connection(served: tuple[Server, int]) -> None:
    server, port = served
    with socket.create_connection(("127.0.0.1", port)) as idle:
        idle.sendall(b"GET /health HTTP/1.1\r\n\r\n")
        await asyncio.to_thread(idle.recv, 1000)
        assert alive() == {"Connection": 1, "Session": 1, "RequestReader": 1}  # the search does find what is there
    await asyncio.to_thread(come_and_go, port, range(5))
    await all_gone()
    assert len(server.records) == 1 + 5 * 13
    assert not server.open


@pytest.mark.asyncio
@pytest.mark.usefixtures("no_collector")
async def test_what_a_collector_would_find_does_not_grow_with_the_requests(served: tuple[Server, int]) -> None:
    _, port = served
    await asyncio.to_thread(come_and_go, port, range(3))
    gc.collect()
    await asyncio.to_thread(come_and_go, port, range(3, 23))
    await all_gone()
    assert gc.collect() < 20 * 10, "less than one object for each connection"
