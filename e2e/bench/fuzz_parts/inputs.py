"""Which bytes does a hostile, broken or merely unusual client send?

Valid requests and pipelines of them, and those with up to four mutations: of single bytes, of lines, of numbers, of
lengths, of JSON. Input `index` of `seed` is always the same, so that any can be looked at alone.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

MODEL = "m"
COMPLETIONS, CHAT = b"/v1/completions", b"/v1/chat/completions"

_PATHS = (COMPLETIONS, CHAT, COMPLETIONS, CHAT, b"/v1/completions?x=1&api_key=k", b"/health", b"/nowhere", b"*",
          b"http://a.b:8/v1/completions", b"/v1/completions#f", b"x")  # fmt: skip
_METHODS = (b"POST", b"POST", b"POST", b"GET", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"BREW")
_HEADERS = (
    b"Host: y", b"Authorization: Bearer k", b"Accept: */*", b"Connection: close", b"Connection: keep-alive", b"Empty:",
    b"Connection: upgrade\r\nUpgrade: x", b"Expect: 100-continue", b"Expect: x", b"Content-Length: 5",
    b"Content-Length: 0",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"X: \x80\xff", b"X:\t y \t",
    b"content-length:7",
)  # fmt: skip
_BETWEEN = (*[b""] * 28, b"\r\n", b"\r\n\r\n", b"\n", b"\r", b" ", b"\r\n\n")
_SPLINTERS = (
    b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\0", b" ", b"\t", b":", b",", b";", b"\r\n ", b"\r\n\t", b"\xff",
    b"\x80", b"\x7f", b"\x0b", b"0\r\n\r\n", b"chunked", b"x", b"#", b"?", b"HTTP/1.1", b"HTTP/2.0",
    b"GET / HTTP/1.1\r\n",
    b"Content-Length: 3\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: z\r\n", b'"', b"\\", b"{", b"[", b"}", b"]",
)  # fmt: skip
_ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 128, 129, 10**6, 10**6 + 1, 2**31, 2**63, 10**30, 1.0, 0.5, 1e300, "", "x", "16",
    "é", "東京", "\ud800", "\0", [], {}, [[]], ["x"], ["x", "y"], [1], [1, 2], [[1], [2]], [1, "x"], [True], [None],
    [{}], {"include_usage": True}, {"include_usage": 1}, [{"role": "user", "content": "x"}],
)  # fmt: skip
_FIELDS = ("model", "prompt", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens",
           "min_tokens", "ignore_eos", "n", "temperature", "é")  # fmt: skip
_JSON_SPLINTERS = (
    b",", b"{", b"}", b"[", b"]", b'"', b":", b"\\", b"\\u", b"\\ud800", b"\\udc00", b"null", b"NaN", b"-", b"1e999",
    b"01", b".5",
    b"1.", b"+1", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf5", b"\n", b"\0", b"\x1f", b" ", b"\xef\xbb\xbf",
    b'"n":1,',
    b'"model":"m",', b"/**/", b"'", b"Infinity", b"[" * 300, b"9" * 400,
)  # fmt: skip


def rng_of(seed: int, index: int) -> random.Random:
    """Return the random numbers of one input."""
    return random.Random(f"{seed} {index}")  # noqa: S311 -- reproducible on purpose


def stream_of(rng: random.Random) -> bytes:
    """Return what one connection sends."""
    data = b"".join(rng.choice(_BETWEEN) + _request(rng) for _ in range(rng.choice((1, 1, 1, 1, 2, 3))))
    for _ in range(rng.choice((0, 1, 1, 1, 2, 4))):
        data = rng.choice(_MUTATIONS)(rng, data)
    return data


def body_of(rng: random.Random) -> bytes:
    """Return a JSON body, mostly nearly right."""
    fields: dict[str, Any] = {"model": MODEL, "prompt": "x y"} if rng.random() < 0.5 else {
        "model": MODEL, "messages": [{"role": "user", "content": "x"}]}  # fmt: skip
    for _ in range(rng.choice((0, 0, 1, 2, 3))):
        fields[rng.choice(_FIELDS)] = rng.choice(_ODD_VALUES)
    if rng.random() < 0.1:
        fields.pop(rng.choice(list(fields)))
    data = json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    for _ in range(rng.choice((0, 0, 0, 1, 2))):
        at = rng.randrange(len(data) + 1)
        data = data[:at] + rng.choice(_JSON_SPLINTERS) + data[at + rng.choice((0, 0, 1, 3)) :]
    return data


def cuts_of(rng: random.Random, length: int) -> list[int]:
    """Return where to cut so many bytes, 0 and the end with it: at few places, or at every one."""
    if length < 600 and rng.random() < 0.05:
        return list(range(length + 1))
    return sorted({0, length, *(rng.randrange(length) for _ in range(rng.choice((1, 2, 5))) if length)})


def _request(rng: random.Random) -> bytes:
    body = b"" if rng.random() < 0.2 else body_of(rng)
    version = rng.choice((b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.1", b"HTTP/1.0", b"HTTP/1.2"))
    usual = rng.random() < 0.7
    method, path = (b"POST", rng.choice((COMPLETIONS, CHAT))) if usual else (rng.choice(_METHODS), rng.choice(_PATHS))
    lines = [b"%b %b %b" % (method, path, b"HTTP/1.1" if usual else version), b"Host: x"]
    lines += rng.choices(_HEADERS, k=0 if rng.random() < 0.6 else rng.choice((1, 2)))
    if not body:
        return b"\r\n".join(lines) + b"\r\n\r\n"
    if rng.random() < 0.7:
        lines.insert(rng.randrange(1, len(lines) + 1), b"Content-Length: %d" % len(body))
        return b"\r\n".join(lines) + b"\r\n\r\n" + body
    lines.insert(rng.randrange(1, len(lines) + 1), b"Transfer-Encoding: chunked")
    return b"\r\n".join(lines) + b"\r\n\r\n" + _chunks(rng, body)


def _chunks(rng: random.Random, body: bytes) -> bytes:
    places = sorted({0, len(body), *(rng.randrange(len(body)) for _ in range(rng.choice((0, 1, 3))))})
    parts = [body[a:b] for a, b in pairwise(places)]
    extension = rng.choice((b"", b"", b"", b";a=b", b';a="b c"', b";a"))
    size = rng.choice((b"%x", b"%X", b"0%x"))
    framed = b"".join(size % len(part) + extension + b"\r\n" + part + b"\r\n" for part in parts)
    return framed + b"0" + extension + b"\r\n" + rng.choice((b"", b"", b"A: b\r\n", b"A:b\r\nC: d\r\n")) + b"\r\n"


def _flip(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) or 1)
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _insert(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_SPLINTERS) + data[at:]


def _insert_at_line_end(rng: random.Random, data: bytes) -> bytes:
    ends = [at for at in range(len(data)) if data[at : at + 2] == b"\r\n"]
    at = (rng.choice(ends) if ends else 0) + rng.choice((0, 0, 1, 2))
    return data[:at] + rng.choice(_SPLINTERS) + data[at:]


def _delete(rng: random.Random, data: bytes) -> bytes:
    at = rng.randrange(len(data) or 1)
    return data[:at] + data[at + rng.choice((1, 1, 2, 10)) :]


def _truncate(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _repeat(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) or 1)
    stop = start + rng.choice((1, 2, 8, 40))
    return data[:stop] + data[start:]


def _repeat_line(rng: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    at = rng.randrange(len(lines))
    return b"\r\n".join([*lines[: at + 1], lines[rng.randrange(len(lines))], *lines[at + 1 :]])


def _drop_carriage_return(rng: random.Random, data: bytes) -> bytes:
    head, end, rest = data.rpartition(b"\r\n") if rng.random() < 0.3 else data.partition(b"\r\n")
    return head + (b"\n" if end else b"") + rest


def _renumber(rng: random.Random, data: bytes) -> bytes:
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    at = rng.choice(digits) if digits else 0
    return data[:at] + rng.choice((b"0", b"9", b"-", b"+", b"0x", b"a", b"1 ", b"f" * 17, b"")) + data[at + 1 :]


_MUTATIONS: Sequence[Callable[[random.Random, bytes], bytes]] = (
    _flip, _flip, _insert, _insert_at_line_end, _insert_at_line_end, _delete, _truncate, _repeat, _repeat_line,
    _drop_carriage_return, _renumber,
)  # fmt: skip
