"""What does the absorber's port answer to a plain HTTP client, to good requests and to bad ones?"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING

import httpx
import pytest
import pytest_asyncio

from loadproof.words import pieces

if TYPE_CHECKING:
    from loadproof.tokenizer import TokenCounter
    from tests.absorber.conftest import Absorber, Raw

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
OK = {"role": "user", "content": "x"}


@pytest.fixture(scope="module")
def client(absorber: Absorber) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=absorber.url, timeout=30) as made:
        yield made


@pytest_asyncio.fixture
async def aclient(absorber: Absorber) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=absorber.url, timeout=30) as made:
        yield made


def test_small_endpoints(client: httpx.Client, absorber: Absorber) -> None:
    assert client.get("/health").content == b""
    assert client.get("/version").json().keys() == {"version"}
    (card,) = client.get("/v1/models").json()["data"]
    assert card["id"] == absorber.model
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "vllm:num_requests_running{" in metrics.text


@pytest.mark.parametrize("path", ["/health", "/version", "/v1/models", "/metrics"])
def test_head_has_the_length_and_no_body(client: httpx.Client, path: str) -> None:
    reply = client.head(path)
    assert reply.status_code == 200
    assert reply.content == b""
    if path != "/metrics":  # which grows
        assert int(reply.headers["content-length"]) == len(client.get(path).content)


def test_tokenize_and_back(client: httpx.Client, absorber: Absorber, counter: TokenCounter) -> None:
    text = "naïve café — 東京 🎉"
    bare = client.post("/tokenize", json={"model": absorber.model, "prompt": text, "add_special_tokens": False}).json()
    full = client.post("/tokenize", json={"model": absorber.model, "prompt": text}).json()
    assert bare["count"] == len(bare["tokens"]) == counter.bare([text])[0]
    assert full["tokens"] == [2, *bare["tokens"]]
    chat = client.post("/tokenize", json={"model": absorber.model, "messages": [OK]}).json()
    assert chat["tokens"] == counter.encode_chat([OK])
    assert client.post("/detokenize", json={"tokens": bare["tokens"]}).json() == {"prompt": text}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": 1}),
        ("/tokenize", {"prompt": "x", "messages": [OK]}),
        ("/tokenize", {"messages": [{"role": "nobody", "content": "x"}]}),
        ("/tokenize", {"messages": [{"role": "user", "content": [{"type": "text", "text": {"no": "text"}}]}, {}]}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": [10**30]}),
        ("/detokenize", {"tokens": ["x"]}),
    ],
)
def test_tokenize_refuses_in_words(client: httpx.Client, path: str, body: dict[str, object]) -> None:
    reply = client.post(path, json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["message"]


def test_connection_is_kept_and_closed_as_asked(absorber: Absorber) -> None:
    with httpx.Client(base_url=absorber.url) as client:
        streams = [client.get("/health").extensions["network_stream"] for _ in range(2)]
        ports = {stream.get_extra_info("client_addr")[1] for stream in streams}
        assert len(ports) == 1
        closing = client.get("/health", headers={"Connection": "close"})
        assert closing.headers["connection"] == "close"
        assert client.get("/health").extensions["network_stream"].get_extra_info("client_addr")[1] not in ports


def test_stream_has_the_headers_and_framing_of_one(client: httpx.Client, absorber: Absorber) -> None:
    with client.stream("POST", COMPLETIONS, json=absorber.body(stream=True)) as reply:
        lines = list(reply.iter_lines())
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["transfer-encoding"] == "chunked"
    assert "content-length" not in reply.headers
    assert [line for line in lines if line][-1] == "data: [DONE]"
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    assert [event["choices"][0]["text"] for event in events] == pieces(3)


@pytest.mark.asyncio
async def test_async_client(aclient: httpx.AsyncClient, absorber: Absorber) -> None:
    whole = await aclient.post(COMPLETIONS, json=absorber.body())
    assert whole.json()["choices"][0]["text"] == "".join(pieces(3))
    async with aclient.stream("POST", COMPLETIONS, json=absorber.body(stream=True)) as reply:
        lines = [line async for line in reply.aiter_lines() if line]
    assert len(lines) == 4
    assert (await aclient.post(COMPLETIONS, json=absorber.body(n=0))).json()["error"]["param"] == "n"
    assert (await aclient.get("/health")).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", COMPLETIONS, "POST"), ("PUT", CHAT, "POST"), ("HEAD", COMPLETIONS, "POST"), ("GET", "/tokenize", "POST"),
     ("POST", "/health", "GET"), ("DELETE", "/v1/models", "GET")],
)  # fmt: skip
def test_wrong_method(client: httpx.Client, method: str, path: str, allowed: str) -> None:
    reply = client.request(method, path)
    assert reply.status_code == 405
    assert reply.headers["allow"] == allowed
    if method != "HEAD":
        assert reply.json()["error"]["code"] == 405


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/completions/", "/v1/embeddings", "/%00", "/v1//completions"])
def test_unknown_path(client: httpx.Client, path: str) -> None:
    reply = client.post(path, json={})
    assert reply.status_code == 404
    assert reply.json()["error"].keys() == {"message", "type", "param", "code"}


def test_a_lone_surrogate_within_messages_is_refused(raw: Raw) -> None:
    raw.post(CHAT, b'{"model": "google/gemma-3-270m", "messages": [{"role": "user", "content": "a\\ud800"}]}')
    assert raw.reply().status == 400


def test_the_last_of_two_equal_keys_counts_and_numbers_beyond_floats_are_nothing_to_us(raw: Raw) -> None:
    raw.post(COMPLETIONS, b'{"model": "no", "model": "google/gemma-3-270m", "prompt": "x", "top_p": 1e999}')
    assert raw.reply().status == 200


def test_many_idle_connections_and_abrupt_ends_hurt_nobody(absorber: Absorber) -> None:
    idle = [absorber.raw() for _ in range(300)]
    for number, connection in enumerate(idle):
        if number % 3 == 1:
            connection.post(COMPLETIONS, absorber.body(stream=True))
        if number % 3:  # close with a reset
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.close()
    for connection in idle[::3]:
        connection.post(COMPLETIONS, absorber.body())
    for connection in idle[::3]:
        assert connection.reply().status == 200
        connection.close()
