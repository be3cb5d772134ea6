"""Which odd bytes may a client send, and what must become of each: answers on the wire, rows in the journal?

A table, used by `test_strictness`. What follows refused bytes is always a request that would be answered if it were
taken for one (`INNER`). Left out: JSON fields, which are a table of their own (`odd_bodies`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from loadproof.absorber.recording import DEFAULT_MODEL as MODEL

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
INNER_PATH = "/smuggled"
INNER = b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
GOOD = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 1}).encode()
GET = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"

type Row = tuple[str, str, int | None, str | None, bool]  # method, path, status, how it ended, whether it came whole


@dataclass(frozen=True)
class Odd:
    """Bytes, the statuses of all answers, whether the connection goes on, and the rows in the journal.

    `any_cut`: the same must come of it when it is sent one byte at a time (then how much of the request line a
    refused row still holds is not looked at).
    """

    name: str
    data: bytes
    statuses: tuple[int, ...]
    rows: tuple[Row, ...]
    goes_on: bool = False
    any_cut: bool = True


def refused(name: str, data: bytes, status: int = 400, at: tuple[str, str] = ("", ""), *, any_cut: bool = True) -> Odd:
    """Return bytes that are no request: refused, and nothing after them is one."""
    row = (*at, status, "refused", False)
    return Odd(name, data + INNER, (status,), (row,), any_cut=any_cut)


def answered(name: str, data: bytes, *at: tuple[str, str], status: int = 200, goes_on: bool = True) -> Odd:
    """Return bytes that are a request for each of `at`, all answered with `status`."""
    how = "refused" if status >= 400 else "complete"
    rows = tuple((*each, status, how, True) for each in at)
    return Odd(name, data if goes_on else data + INNER, (status,) * len(at), rows, goes_on=goes_on)


def post(*headers: bytes, body: bytes = b"") -> bytes:
    lines = [b"POST /v1/completions HTTP/1.1", b"Host: x", *headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def get(*headers: bytes, line: bytes = b"GET /health HTTP/1.1") -> bytes:
    return b"\r\n".join([line, *headers]) + b"\r\n\r\n"


def chunked(framing: bytes, *headers: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", *headers, body=framing)


def coded(*values: bytes) -> bytes:
    return post(*(b"Transfer-Encoding:" + value for value in values), body=b"0\r\n\r\n")


def of_length(*values: bytes) -> bytes:
    return post(*(b"Content-Length:" + value for value in values), body=GOOD)


AT_POST, AT_GET = ("POST", COMPLETIONS), ("GET", "/health")
X = b"Host: x"
FRAMES = b"".join(
    b'%x;ext=1;q="a b"\r\n%b\r\n' % (len(GOOD[i : i + 9]), GOOD[i : i + 9]) for i in range(0, len(GOOD), 9)
)
SIZED = b"Content-Length: %d" % len(GOOD)

NO_HTTP = [
    refused("hello of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64)),
    refused("zeros", bytes(100)),
    refused("nonsense", b"nonsense\r\n\r\n"),
    refused("preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", at=("PRI", "*")),
    refused("HTTP/0.9", b"GET /health\r\n\r\n"),
    refused("HTTP/9.9", get(X, line=b"GET /health HTTP/9.9"), at=AT_GET),
    refused("HTTP/1.2", get(X, line=b"GET /health HTTP/1.2"), at=AT_GET),
    refused("HTTP/2.0", get(X, line=b"GET /health HTTP/2.0"), 505, at=AT_GET),
    refused("RTSP", get(X, line=b"PLAY /health RTSP/1.0"), 505),
    refused("method in small letters", get(X, line=b"get /health HTTP/1.1"), at=("get", "/health")),
    refused("unknown method", get(X, line=b"BREW /health HTTP/1.1"), at=("BREW", "/health")),
    refused("two spaces", get(X, line=b"GET  /health HTTP/1.1")),
    refused("space in the target", get(X, line=b"GET /hea lth HTTP/1.1")),
    refused("space behind the version", get(X, line=b"GET /health HTTP/1.1 ")),
    refused("space before the method", get(X, line=b" GET /health HTTP/1.1")),
    refused("tab for a space", get(X, line=b"GET\t/health HTTP/1.1")),
    refused("high byte in the target", get(X, line=b"GET /\xff HTTP/1.1"), at=("GET", "/ÿ")),
    refused("NUL in the target", get(X, line=b"GET /\0 HTTP/1.1"), at=("GET", "/\0")),
    refused("target without its slash", get(X, line=b"GET health HTTP/1.1"), at=("GET", "health")),
]
LINES = [
    refused("bare LF everywhere", b"GET /health HTTP/1.1\nHost: x\n\n"),
    refused("bare LF after the request line", b"GET /health HTTP/1.1\nHost: x\r\n\r\n"),
    refused("bare LF after a header", get(X, b"A: b\nC: d"), at=AT_GET),
    refused("bare LF at the end", b"GET /health HTTP/1.1\r\nHost: x\r\n\n", at=AT_GET),
    refused("bare CR in a header", get(X, b"A: b\rC: d"), at=AT_GET),
    refused("bare LF before a request", b"\n" + GET),
    refused("bare CR before a request", b"\r" + GET),
    refused("folded header", get(X, b"A: b", b" folded"), at=AT_GET),
    refused("folded with a tab", get(X, b"A: b", b"\tfolded"), at=AT_GET),
    refused("folded first header", get(b" " + X), at=AT_GET),
    refused("space before a colon", get(X, b"A : b"), at=AT_GET),
    refused("header without a colon", get(X, b"A"), at=AT_GET),
    refused("header without a name", get(X, b": b"), at=AT_GET),
    refused("NUL in a value", get(X, b"A: \0"), at=AT_GET),
    refused("NUL in a name", get(X, b"A\0: b"), at=AT_GET),
    refused("bracket in a name", get(X, b"A(: b"), at=AT_GET),
    refused("no Host", get(b"A: b"), at=AT_GET),
    refused("two Hosts", get(X, X), at=AT_GET),
    refused("two Hosts in one", get(b"Host: a,b c"), at=AT_GET),
    refused("user in Host", get(b"Host: u@x"), at=AT_GET),
    refused("user in the target", get(X, line=b"GET http://u:p@x/health HTTP/1.1"), at=AT_GET),
    refused("unknown expectation", get(X, b"Expect: more"), 417, at=AT_GET),
    refused("two expectations", get(X, b"Expect: 100-continue, more"), 417, at=AT_GET),
]
LENGTHS = [
    refused("two lengths", of_length(b"3", b"4"), at=AT_POST),
    refused("two equal lengths", of_length(b"3", b"3"), at=AT_POST),
    refused("two lengths in one", of_length(b"3, 3"), at=AT_POST),
    refused("both length headers", post(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=b"0\r\n\r\n"),
            at=AT_POST),
    refused("both, the other first", post(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=b"0\r\n\r\n"),
            at=AT_POST),
    *(refused(f"length {value!r}", of_length(value), at=AT_POST)
      for value in (b"", b" ", b"-1", b"+3", b"0x3", b"3 3", b"1_0", b"3.0", b"1e1", b"\xb2", b"9" * 23)),
    refused("body over the limit", of_length(b"33554433"), 413, at=AT_POST),
    *(refused(f"coding {b'|'.join(values)!r}", coded(*values), status, at=AT_POST) for status, values in (
        (400, (b"",)), (400, (b" xchunked",)), (400, (b" chunkedx",)), (400, (b" chunked, identity",)),
        (400, (b" chunked, chunked",)), (400, (b" chunked", b" chunked")), (400, (b" chunked", b" gzip")),
        (400, (b" gzip",)), (400, (b" identity",)), (400, (b" chunked;q=1",)), (400, (b' "chunked"',)),
        (400, (b" \x0bchunked",)), (400, (b"\0chunked",)), (501, (b" gzip, chunked",)), (501, (b" gzip", b" chunked")),
        (501, (b" ,chunked",)),
    )),
    refused("coding with a space before its colon", post(b"Transfer-Encoding : chunked", body=b"0\r\n\r\n"),
            at=AT_POST),
    refused("folded coding", post(b"Transfer-Encoding:", b" chunked", body=b"0\r\n\r\n"), at=AT_POST),
    refused("coding in HTTP/1.0", get(b"Transfer-Encoding: chunked", line=b"POST /v1/completions HTTP/1.0"),
            at=AT_POST),
    refused("upgrade with chunks", chunked(b"0\r\n\r\n", b"Connection: upgrade", b"Upgrade: x"), at=AT_POST),
]  # fmt: skip
CHUNKS = [refused(f"chunks {framing!r}", chunked(framing), at=AT_POST) for framing in (
    b"fffffffffffffffff\r\n", b"-1\r\n\r\n", b"+1\r\nx\r\n0\r\n\r\n", b"0x1\r\nx\r\n0\r\n\r\n", b" 1\r\nx\r\n0\r\n\r\n",
    b"1 \r\nx\r\n0\r\n\r\n", b"\r\nx\r\n0\r\n\r\n", b"g\r\nx\r\n0\r\n\r\n", b"1\nx\r\n0\r\n\r\n", b"1\r\nx\n0\r\n\r\n",
    b"3\r\nabcd\r\n0\r\n\r\n", b"3\r\nab\r\n0\r\n\r\n", b"1;a\nb\r\nx\r\n0\r\n\r\n", b"0\n\n", b"0\r\n\n",
    b"1\r\nx\r\n0\r\nA : b\r\n\r\n",
    b"1\r\nx\r\n0\r\nA: b\n\r\n", b"1\r\nx\r\n0\r\n A: b\r\n\r\n", b"1\r\nx0\r\n\r\n",
)]  # fmt: skip
LARGE = [
    refused(
        "long target",
        get(X, line=b"GET /" + b"a" * 70_000 + b" HTTP/1.1"),
        431,
        ("GET", "/" + "a" * 70_000),
        any_cut=False,
    ),
    refused("many headers", get(X, *[b"A: b"] * 50_000), 431, AT_GET, any_cut=False),
    refused("endless header", get(X, b"A: " + b"b" * 3_000_000), 431, AT_GET, any_cut=False),
    refused("many empty names", b"GET /health HTTP/1.1\r\n" + b"\r\n " * 30_000, 400, AT_GET, any_cut=False),
    refused(
        "endless extension", chunked(b"1;" + b"e" * 3_000_000 + b"\r\nx\r\n0\r\n\r\n"), 413, AT_POST, any_cut=False
    ),
    refused("endless trailers", chunked(b"1\r\nx\r\n0\r\n" + b"A: b\r\n" * 500_000), 413, AT_POST, any_cut=False),
    refused("body of chunks over the limit", chunked(b"2625A00\r\n" + b" " * 40_000_000), 413, AT_POST, any_cut=False),
]
TAKEN = [
    answered("plain", GET, AT_GET),
    answered("empty lines before", b"\r\n\r\n" + GET + b"\r\n" + GET, AT_GET, AT_GET),
    answered("empty Host", get(b"Host:"), AT_GET),
    answered("absolute target", get(X, line=b"GET http://a.b:8/health HTTP/1.1"), AT_GET),
    answered("absolute target of no path", get(X, line=b"GET http://a.b HTTP/1.1"), ("GET", "http://a.b"), status=404),
    answered("star", get(X, line=b"OPTIONS * HTTP/1.1"), ("OPTIONS", "*"), status=404),
    answered("tunnel", get(X, line=b"CONNECT a:1 HTTP/1.1"), ("CONNECT", "a:1"), status=404, goes_on=False),
    answered("other length header", get(X, b"Content_Length: 3"), AT_GET),
    answered("length with zeros and space", post(b"Content-Length:\t00%d \t" % len(GOOD), body=GOOD), AT_POST),
    answered("body with GET", get(X, b"Content-Length: 3") + b"abc" + GET, AT_GET, AT_GET),
    answered("chunks", chunked(FRAMES + b"0\r\n\r\n") + GET, AT_POST, AT_GET),
    answered("chunks with trailers", chunked(FRAMES + b"000;e\r\nA: b\r\nC:\r\n\r\n") * 2, AT_POST, AT_POST),
    answered("coding in capitals",
             post(b"Transfer-Encoding: CHUNKED", body=b"%X\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)),
             AT_POST),
    answered("upgrade",
             get(X, b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: A") * 2,
             AT_GET, AT_GET),
    answered("upgrade with a body", post(b"Connection: upgrade", b"Upgrade: websocket", SIZED, body=GOOD) + GET,
             AT_POST, AT_GET),
    answered("last of several", get(X, b"Connection: keep-alive, Close"), AT_GET, goes_on=False),
    answered("old", get(line=b"GET /health HTTP/1.0"), AT_GET, goes_on=False),
    answered("old, kept", get(b"Connection: Keep-Alive", line=b"GET /health HTTP/1.0") * 2, AT_GET, AT_GET),
    answered("old, expecting", get(b"Connection: keep-alive", b"Expect: 100-continue", line=b"GET /health HTTP/1.0"),
             AT_GET),
    answered("unknown path", get(X, line=b"GET /v1 HTTP/1.1"), ("GET", "/v1"), status=404),
    answered("wrong method", get(X, line=b"DELETE /v1/models HTTP/1.1"), ("DELETE", "/v1/models"), status=405),
    answered("forty in one", GET * 40, *[AT_GET] * 40),
]  # fmt: skip
MIXED = [
    Odd("bad after good ones", GET * 3 + post(SIZED, body=GOOD) + b"GET /health HTTP/1.1\r\nA : b\r\n\r\n" + INNER,
        (200, 200, 200, 200, 400),
        (*[("GET", "/health", 200, "complete", True)] * 3, ("POST", COMPLETIONS, 200, "complete", True),
         ("GET", "/health", 400, "refused", False))),
    Odd("bad chunk after good ones", GET + chunked(b"1\r\nxy\r\n") + INNER, (200, 400),
        (("GET", "/health", 200, "complete", True), ("POST", COMPLETIONS, 400, "refused", False))),
    Odd("wrong and then good", post(b"Content-Length: 2", body=b"[]") + GET, (400, 200),
        (("POST", COMPLETIONS, 400, "refused", True), ("GET", "/health", 200, "complete", True)), goes_on=True),
]  # fmt: skip
ALL = [*NO_HTTP, *LINES, *LENGTHS, *CHUNKS, *LARGE, *TAKEN, *MIXED]
