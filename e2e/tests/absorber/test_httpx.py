"""What does the absorber's port answer to a plain HTTP client, to good requests and to bad ones?"""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Any

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
    assert (await aclient.post(COMPLETIONS, json=absorber.body(n=2))).json()["error"]["param"] == "n"
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


MISSING = object()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": MISSING}, "model"),
        ({"prompt": MISSING}, "prompt"),
        ({"model": 1}, "model"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": 7}, "prompt"),
        ({"prompt": ["a", "b"]}, "prompt"),
        ({"prompt": [[1], [2]]}, "prompt"),
        ({"prompt": [1, "x"]}, "prompt"),
        ({"prompt": [-1]}, "prompt"),
        ({"prompt": [True]}, "prompt"),
        ({"prompt": [10**30]}, "prompt"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"max_tokens": 10**50}, "max_tokens"),
        ({"max_tokens": 10**4000}, "max_tokens"),
        ({"max_tokens": "16"}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"include_usage": "y"}}, "stream_options.include_usage"),
        ({"ignore_eos": 1}, "ignore_eos"),
        ({"n": 2}, "n"),
        ({"n": 0}, "n"),
    ],
)
def test_bad_completions_name_the_field(
    client: httpx.Client, absorber: Absorber, fields: dict[str, Any], param: str
) -> None:
    good = {"model": absorber.model, "prompt": "x"}
    body = {name: value for name, value in {**good, **fields}.items() if value is not MISSING}
    reply = client.post(COMPLETIONS, json=body)
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, param, 400)
    assert client.post(COMPLETIONS, json=absorber.body()).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "messages",
    [
        [],
        None,
        "text",
        [1],
        [None],
        [{}],
        [{"role": "user", "content": None}],
        [{"role": "user", "content": 5}],
        [{"role": "user", "content": {"a": 1}}],
        [{"role": "user", "content": [{"type": "text"}]}],
        [{"role": "nobody", "content": "x"}],
        [{"role": 7, "content": "x"}],
        [OK, OK],
        [{"role": "system", "content": 5}, OK],
        [{"role": "system", "content": []}, OK],
    ],
)
def test_odd_messages_are_refused_before_anything_is_sent(
    client: httpx.Client, absorber: Absorber, messages: object, *, stream: bool
) -> None:
    reply = client.post(CHAT, json={"model": absorber.model, "messages": messages, "stream": stream})
    assert reply.status_code == 400
    assert str(reply.json()["error"]["param"]).startswith("messages")
    assert client.post(CHAT, json={"model": absorber.model, "messages": [OK], "stream": stream}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe",
        b'{"model": "google/gemma-3-270m", "prompt": "\xff"}',
        b'{"model": "google/gemma-3-270m", "prompt": "\\ud800"}',
        b'{"model": "google/gemma-3-270m", "prompt": "x", "temperature": NaN}',
        b'{"model": "google/gemma-3-270m", "prompt": ' + b"[" * 50_000,
        b'{"model": "google/gemma-3-270m", "prompt": "x", "deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"model": "google/gemma-3-270m", "prompt": "x"} trailing',
    ],
)
@pytest.mark.parametrize("path", [COMPLETIONS, CHAT, "/tokenize", "/detokenize"])
def test_what_is_no_json_object_is_refused_and_the_connection_goes_on(raw: Raw, path: str, body: bytes) -> None:
    raw.post(path, body)
    refused = raw.reply()
    assert refused.status == 400
    assert refused.error["message"]
    raw.send(b"GET /health HTTP/1.1\r\n\r\n")
    assert raw.reply().status == 200


def test_a_lone_surrogate_within_messages_is_refused(raw: Raw) -> None:
    raw.post(CHAT, b'{"model": "google/gemma-3-270m", "messages": [{"role": "user", "content": "a\\ud800"}]}')
    assert raw.reply().status == 400


def test_the_last_of_two_equal_keys_counts_and_numbers_beyond_floats_are_nothing_to_us(raw: Raw) -> None:
    raw.post(COMPLETIONS, b'{"model": "no", "model": "google/gemma-3-270m", "prompt": "x", "top_p": 1e999}')
    assert raw.reply().status == 200


NOT_HTTP = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64),
    b"\x00" * 100,
    b"nonsense\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET /health HTTP/9.9\r\n\r\n",
    b"GET /hea lth HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\nHost: x\n\n",
    b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
    b"GET /health HTTP/1.1\r\nA: b\r\n folded\r\n\r\n",
    b"GET /health HTTP/1.1\r\nA: \x00\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: \r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET ",
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
]


@pytest.mark.parametrize("data", NOT_HTTP)
def test_what_is_no_request_gets_400_and_the_end(absorber: Absorber, raw: Raw, data: bytes) -> None:
    raw.send(data)
    reply = raw.reply()
    assert (reply.status, reply.headers["connection"]) == (400, "close")
    assert reply.error["code"] == 400
    assert raw.rest() == b""
    with absorber.raw() as fresh:
        fresh.post(COMPLETIONS, absorber.body())
        assert fresh.reply().status == 200


@pytest.mark.parametrize("split", [1, 7])
@pytest.mark.parametrize("data", NOT_HTTP[3:])
def test_no_request_in_pieces_after_a_good_one(absorber: Absorber, raw: Raw, data: bytes, split: int) -> None:
    raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    raw.post(COMPLETIONS, absorber.body())
    for i in range(0, len(data), split):
        raw.send(data[i : i + split])
    assert raw.reply().status == 200
    assert raw.reply().status == 400
    assert raw.rest() == b""


LARGE = [
    (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n", 431),
    (b"GET /health HTTP/1.1\r\n" + b"A: b\r\n" * 50_000, 431),
    (b"GET /health HTTP/1.1\r\nA: " + b"b" * 3_000_000, 431),
    (b"POST /v1/completions HTTP/1.1\r\nContent-Length: 40000000\r\n\r\n", 413),
    (b"POST /v1/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2625A00\r\n" + b" " * 40_000_000, 413),
]


@pytest.mark.parametrize(("data", "status"), LARGE)
def test_too_large_is_said_and_heard(raw: Raw, data: bytes, status: int) -> None:
    raw.send(data)
    reply = raw.reply()
    assert reply.status == status
    assert raw.rest() == b""


def test_an_upgrade_is_ignored(raw: Raw) -> None:
    upgrade = (
        b"GET /version HTTP/1.1\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: A\r\n\r\n"
    )
    raw.send(upgrade * 1200)
    for _ in range(1200):
        assert raw.reply().status == 200


def test_nothing_after_a_last_request_is_answered(raw: Raw) -> None:
    raw.send(b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\nGET /health HTTP/1.1\r\n\r\n" + b"x" * 1000)
    assert raw.reply().headers["connection"] == "close"
    assert raw.rest() == b""


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
