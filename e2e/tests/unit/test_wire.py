"""Are the bytes of the API exactly what it promises, and is every body either read or refused?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof.absorber.http import LAST_CHUNK, Request, RequestReader, chunk, head
from loadproof.absorber.openai import Body, RequestRefused, Wire, read_body, usage
from loadproof.absorber.reply import piece, whole_text
from loadproof.record import Record
from loadproof.words import WORDS, pieces

MODEL = "m"
SEEDED = settings(deadline=None, derandomize=True)


def wire(*, chat: bool) -> Wire:
    return Wire(chat=chat, identity=0xAB, model=MODEL, created=1_700_000_000)


def test_one_token_event_of_completions_to_the_byte() -> None:
    assert wire(chat=False).token_event(" hi", None) == (
        b'data: {"id":"cmpl-00000000000000ab","object":"text_completion","created":1700000000,"model":"m","choices":'
        b'[{"index":0,"text":" hi","logprobs":null,"finish_reason":null}]}\n\n'
    )


def test_the_last_token_event_of_chat_to_the_byte() -> None:
    assert wire(chat=True).token_event(" hi", "length") == (
        b'data: {"id":"chatcmpl-00000000000000ab","object":"chat.completion.chunk","created":1700000000,"model":"m",'
        b'"choices":[{"index":0,"delta":{"content":" hi"},"logprobs":null,"finish_reason":"length"}]}\n\n'
    )


def test_only_chat_begins_with_a_role() -> None:
    assert wire(chat=False).role_event() == b""
    (choice,) = event_of(wire(chat=True).role_event())["choices"]
    assert choice == {
        "index": 0,
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
@given(text=st.text(st.characters(exclude_categories=["Cs"])), chat=st.booleans())
def test_any_text_arrives_as_it_is_and_on_one_line(text: str, *, chat: bool) -> None:
    (choice,) = event_of(wire(chat=chat).token_event(text, "stop"))["choices"]
    assert (choice["delta"]["content"] if chat else choice["text"]) == text
    assert choice["finish_reason"] == "stop"


@pytest.mark.parametrize("chat", [False, True])
def test_the_end_of_a_stream(*, chat: bool) -> None:
    assert wire(chat=chat).last_events(None) == b"data: [DONE]\n\n"
    told, done, nothing = wire(chat=chat).last_events(usage(3, 4)).split(b"\n\n")
    event = event_of(told + b"\n\n")
    assert (event["choices"], event["usage"]["total_tokens"]) == ([], 7)
    assert (done, nothing) == (b"data: [DONE]", b"")


@pytest.mark.parametrize("chat", [False, True])
def test_a_whole_reply(*, chat: bool) -> None:
    reply = json.loads(wire(chat=chat).whole("a b", "stop", usage(1, 2)))
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "stop"
    assert (choice["message"] if chat else choice["text"]) == (
        {"role": "assistant", "content": "a b"} if chat else "a b"
    )
    assert reply["usage"] == {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}


@pytest.mark.parametrize("count", [1, 2, len(WORDS) - 1, len(WORDS), len(WORDS) + 1, 3 * len(WORDS) + 5])
def test_a_reply_is_the_same_text_streamed_and_whole(count: int) -> None:
    assert [piece(index) for index in range(count)] == pieces(count)
    assert whole_text(count) == "".join(pieces(count))


def test_chunked_framing() -> None:
    assert chunk(b"x" * 26) + LAST_CHUNK == b"1a\r\n" + b"x" * 26 + b"\r\n0\r\n\r\n"


def test_heads() -> None:
    request = Request(Record(0, 0, 0, 0, 0))
    assert head(request, 200, "a/b", length=3) == b"HTTP/1.1 200 OK\r\ncontent-type: a/b\r\ncontent-length: 3\r\n\r\n"
    request.close_after = True
    assert head(request, 405, "a/b", length=None, chunked=True, allow="GET") == (
        b"HTTP/1.1 405 Method Not Allowed\r\ncontent-type: a/b\r\ntransfer-encoding: chunked\r\nallow: GET\r\n"
        b"connection: close\r\n\r\n"
    )


REQUEST = (
    b"POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nAUTHORIZATION: Bearer s3cret\r\ncookie: s3cret\r\nEmpty:\r\n"
    b"Content-Length: 4\r\n\r\nbody"
    b"POST /2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"
    b"GET /3 HTTP/1.0\r\n\r\n"
)


@pytest.mark.parametrize("size", range(1, 40))
def test_requests_are_the_same_however_their_bytes_are_cut(size: int) -> None:
    made: list[Record] = []
    known: list[Record] = []

    def new_record(read_ns: int) -> Record:
        made.append(Record(len(made), 0, len(made), read_ns, read_ns))
        return made[-1]

    reader = RequestReader(new_record, known.append)
    for start in range(0, len(REQUEST), size):
        reader.feed(REQUEST[start : start + size], start)
    requests = list(reader.whole)
    assert [request.record for request in requests] == made == known
    assert [(r.method, r.target, r.body) for r in made] == [
        (b"POST", b"/v1/completions?x=1", b"body"),
        (b"POST", b"/2", b"abc"),
        (b"GET", b"/3", b""),
    ]
    secret = b"<blanked>"
    assert made[0].head[:4] == [(b"Host", b"a"), (b"AUTHORIZATION", secret), (b"cookie", secret), (b"Empty", b"")]
    assert [request.close_after for request in requests] == [False, False, True]
    assert all(r.arrival <= r.received for r in made)


@SEEDED
@given(data=st.lists(st.binary(max_size=40), max_size=8))
def test_arbitrary_bytes_never_raise_and_are_all_accounted_for(data: list[bytes]) -> None:
    made: list[Record] = []

    def new_record(read_ns: int) -> Record:
        made.append(Record(len(made), 0, 0, read_ns, read_ns))
        return made[-1]

    reader = RequestReader(new_record, lambda _: None)
    for piece_of_it in data:
        reader.feed(piece_of_it, 1)
    seen = [request.record for request in reader.whole] + ([reader.partial.record] if reader.partial else [])
    assert seen == made


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
