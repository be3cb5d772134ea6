"""Are the bytes of the API exactly what it promises, and is every body either read or refused?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.absorber.head import read_head
from loadproof.absorber.http import RequestReader
from loadproof.absorber.openai import Body, RequestRefused, read_body
from loadproof.absorber.request import Request
from loadproof.absorber.wire import (
    CYCLE,
    LAST_CHUNK,
    USUAL_HEAD,
    USUAL_STREAM_HEAD,
    Format,
    last_events,
    of_choice,
    place_of,
    sized_head,
    stream_head,
    whole_text,
)
from loadproof.words import pieces

MODEL = "m"
SEEDED = settings(deadline=None, derandomize=True)
IDENTITY, CREATED = 0xAB, 1_700_000_000


def token_event(
    index: int, reason: str | None, *, chat: bool, choice: int = 0, model: str = MODEL, spaced: bool = False
) -> bytes:
    form = Format(model, chat=chat, trailing_space=spaced)
    return form.opening(IDENTITY, CREATED) + of_choice(choice) + form.tail(index, reason)


def test_one_token_event_of_completions_to_the_byte() -> None:
    text = json.dumps(pieces(2)[1]).encode()
    assert token_event(1, None, chat=False) == (
        b'data: {"id":"cmpl-00000000000000ab","object":"text_completion","created":1700000000,"model":"m","choices":'
        b'[{"index":0,"text":' + text + b',"logprobs":null,"finish_reason":null}]}\n\n'
    )


def test_the_last_token_event_of_chat_to_the_byte() -> None:
    text = json.dumps(pieces(1)[0]).encode()
    assert token_event(0, "length", chat=True, choice=3) == (
        b'data: {"id":"chatcmpl-00000000000000ab","object":"chat.completion.chunk","created":1700000000,"model":"m",'
        b'"choices":[{"index":3,"delta":{"content":' + text + b'},"logprobs":null,"finish_reason":"length"}]}\n\n'
    )


def test_chat_begins_with_a_role_and_no_token() -> None:
    form = Format(MODEL, chat=True)
    (choice,) = event_of(form.opening(IDENTITY, CREATED) + of_choice(2) + form.role())["choices"]
    assert choice == {
        "index": 2,
        "delta": {"role": "assistant", "content": ""},
        "logprobs": None,
        "finish_reason": None,
    }


def event_of(data: bytes) -> dict[str, Any]:
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    assert data.count(b"\n") == 2
    found = json.loads(data[6:])
    assert isinstance(found, dict)
    return found


@SEEDED
@given(model=st.text(st.characters(exclude_categories=["Cs"])), index=st.integers(0, 3 * CYCLE), chat=st.booleans())
def test_any_model_and_token_arrive_as_they_are_and_on_one_line(model: str, index: int, *, chat: bool) -> None:
    event = event_of(token_event(index, "stop", chat=chat, model=model))
    (choice,) = event["choices"]
    assert event["model"] == model
    assert (choice["delta"]["content"] if chat else choice["text"]) == pieces(index + 1)[-1]
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_the_events_that_repeat_are_those_of_each_token(*, chat: bool, spaced: bool) -> None:
    form = Format(MODEL, chat=chat, trailing_space=spaced)
    assert len(form.tails) == CYCLE + 1
    for index in (0, 1, 2, CYCLE, CYCLE + 1, 2 * CYCLE, 2 * CYCLE + 7):
        assert form.tails[place_of(index)] == form.tail(index, None)
        assert place_of(place_of(index)) == place_of(index)


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize("count", [1, 2, CYCLE, CYCLE + 1, CYCLE + 2, 2 * CYCLE + 7])
def test_the_events_of_a_reply_say_its_pieces(count: int, *, chat: bool, spaced: bool) -> None:
    told = [
        event_of(token_event(index, "length" if index == count - 1 else None, chat=chat, spaced=spaced))["choices"][0]
        for index in range(count)
    ]
    texts = [choice["delta"]["content"] if chat else choice["text"] for choice in told]
    assert texts == pieces(count, trailing_space=spaced)
    assert "".join(texts) == json.loads(whole_text(count))


@pytest.mark.parametrize("chat", [False, True])
def test_the_end_of_a_stream(*, chat: bool) -> None:
    opening = Format(MODEL, chat=chat).opening(IDENTITY, CREATED)
    assert last_events(opening, None) == b"data: [DONE]\n\n"
    told, done, nothing = last_events(opening, (3, 4)).split(b"\n\n")
    event = event_of(told + b"\n\n")
    assert event["choices"] == []
    assert event["usage"] == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert (done, nothing) == (b"data: [DONE]", b"")


@pytest.mark.parametrize("usage", [None, (1, 5)])
@pytest.mark.parametrize("chat", [False, True])
def test_a_whole_reply(usage: tuple[int, int] | None, *, chat: bool) -> None:
    reply = json.loads(Format(MODEL, chat=chat).whole(IDENTITY, CREATED, [(2, "stop"), (3, "length")], usage))
    assert [choice["index"] for choice in reply["choices"]] == [0, 1]
    assert [choice["finish_reason"] for choice in reply["choices"]] == ["stop", "length"]
    for choice, count in zip(reply["choices"], (2, 3), strict=True):
        text = "".join(pieces(count))
        assert (choice["message"] if chat else choice["text"]) == (
            {"role": "assistant", "content": text} if chat else text
        )
    assert reply.get("usage") == (usage and {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6})


def asked(line: bytes = b"POST / HTTP/1.1", *headers: bytes) -> Request:
    request = Request(0, 0, 0, 0, 0, 0)
    request.head = read_head(b"\r\n".join([line, b"Host: x", *headers, b"", b""]))
    request.close_after = not request.head.keep_alive
    return request


def test_heads() -> None:
    assert sized_head(asked(), 200, "a/b", 3) == b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: 3\r\n\r\n"
    assert sized_head(asked(b"GET / HTTP/1.1", b"Connection: close"), 405, "a/b", 0, allow="GET") == (
        b"HTTP/1.1 405 Method Not Allowed\r\ncontent-type: a/b\r\ncontent-length: 0\r\nallow: GET\r\n"
        b"connection: close\r\n\r\n"
    )
    assert sized_head(asked(), 200, "application/json", 7) == USUAL_HEAD % 7
    assert stream_head(asked()) == USUAL_STREAM_HEAD
    assert USUAL_STREAM_HEAD.endswith(b"\r\ntransfer-encoding: chunked\r\n\r\n")
    assert LAST_CHUNK == b"0\r\n\r\n"


def test_a_client_of_http_1_0_gets_no_chunks() -> None:
    old = stream_head(asked(b"POST / HTTP/1.0"))
    assert b"transfer-encoding" not in old
    assert old.endswith(b"\r\nconnection: close\r\n\r\n")
    kept = sized_head(asked(b"GET / HTTP/1.0", b"Connection: keep-alive"), 200, "a/b", 3)
    assert kept.endswith(b"\r\nconnection: keep-alive\r\n\r\n")


REQUEST = (
    b"POST /v1/completions?x=1&api_key=s3cret HTTP/1.1\r\nHost: a\r\nAUTHORIZATION: Bearer s3cret\r\n"
    b"cookie: s3cret\r\nX-Other: bearer s3cret\r\nEmpty:\r\nContent-Length: 4\r\n\r\nbody"
    b"POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nKey: s3cret\r\n\r\n"
    b"GET /3 HTTP/1.0\r\n\r\n"
)


@pytest.mark.parametrize("size", range(1, 40))
def test_requests_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    made: list[Request] = []

    def begin(arrival: int, kernel: int, read_ns: int) -> Request:
        made.append(Request(len(made), 0, len(made), arrival, kernel, read_ns))
        return made[-1]

    reader = RequestReader(begin)
    for start in range(0, len(REQUEST), size):
        reader.feed(REQUEST[start : start + size], start, 1, start + 1)
    requests = list(reader.whole)
    assert requests == made
    assert reader.partial is None
    heads = [request.head for request in requests if request.head is not None]
    assert [(head.method, head.path) for head in heads] == [
        (b"POST", "/v1/completions"),
        (b"POST", "/2"),
        (b"GET", "/3"),
    ]
    assert [request.body for request in requests] == [b"body", b"abc", b""]
    assert [request.close_after for request in requests] == [False, False, True]
    assert [request.arrival for request in requests] == sorted(request.arrival for request in requests)
    assert all(r.arrival < r.read <= r.received for r in made)
    kept = b"".join(head.kept + request.body for head, request in zip(heads, requests, strict=True))
    assert b"s3cret" not in kept
    assert kept.count(b"<blanked>") == 4
    assert b"Empty:\r\nContent-Length: 4\r\n\r\nbody" in kept


@SEEDED
@given(data=st.lists(st.binary(max_size=40), max_size=8))
def test_arbitrary_bytes_never_raise_and_are_all_accounted_for(data: list[bytes]) -> None:
    made: list[Request] = []

    def begin(arrival: int, kernel: int, read_ns: int) -> Request:
        made.append(Request(len(made), 0, 0, arrival, kernel, read_ns))
        return made[-1]

    reader = RequestReader(begin)
    for piece_of_it in data:
        reader.feed(piece_of_it, 1, 0, 1)
    assert [*reader.whole, *([reader.partial] if reader.partial else [])] == made


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={name: JSON | st.just(good) for name, good in (
        ("model", MODEL), ("prompt", "x"), ("messages", [{"role": "user", "content": "x"}]), ("max_tokens", 3),
        ("stream", True), ("stream_options", {"include_usage": True}), ("n", 1), ("min_tokens", 1),
    )},
)  # fmt: skip


def read(body: bytes, *, chat: bool) -> Body | None:
    try:
        return read_body(body, chat=chat, model=MODEL)
    except RequestRefused as error:
        refused = error
    told = json.loads(refused.body())["error"]
    assert told["code"] == refused.status in {400, 404}
    assert told["message"]
    return None


@SEEDED
@given(body=st.binary(max_size=60), chat=st.booleans())
def test_arbitrary_bytes_are_read_or_refused(body: bytes, *, chat: bool) -> None:
    read(body, chat=chat)


@SEEDED
@given(fields=FIELDS | JSON, chat=st.booleans())
def test_arbitrary_json_is_read_or_refused(fields: object, *, chat: bool) -> None:
    found = read(json.dumps(fields).encode(), chat=chat)
    if found is not None:
        assert found.messages if chat else found.prompt
        assert found.model == MODEL


def test_the_search_above_reaches_bodies_that_are_accepted() -> None:
    assert read(b'{"model":"m","prompt":"x","n":1}', chat=False) is not None
    assert read(b'{"model":"m","messages":[{"role":"user","content":"x"}]}', chat=True) is not None


@pytest.mark.parametrize("depth", [10, 500, 5000, 200_000])
@pytest.mark.parametrize("field", ["prompt", "messages", "other"])
def test_no_depth_of_nesting_raises_anything_else(depth: int, field: str) -> None:
    nested = b"[" * depth + b"]" * depth
    read(b'{"model":"m","prompt":"x","' + field.encode() + b'":' + nested + b"}", chat=field == "messages")
