"""Which requests are in these bytes, by the letter of RFC 9110 and 9112? An oracle that shares nothing with the server.

A grammar in regular expressions over the whole input, where the server has a parser of streams. Where the letter
leaves a choice (methods that nobody registered, forms of targets, extensions of chunks) a request may be taken
or refused, and what follows is not looked at. Left out: speed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

MAX_BODY, MAX_HEAD = 32 * 1024 * 1024, 64 * 1024
_TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_FIELD = rb"(?:" + _TOKEN + rb":[\t\x20-\x7e\x80-\xff]*\r\n)"
_HEAD = re.compile(rb"(" + _TOKEN + rb") ([\x21-\x7e]+) HTTP/(1\.[01])\r\n(" + _FIELD + rb"*)\r\n")
_EXTENSION = (
    rb"(?:;" + _TOKEN + rb"(?:=(?:" + _TOKEN + rb'|"(?:[^"\\\r\n\0-\x08\x0a-\x1f\x7f]|\\[\t\x20-\x7e\x80-\xff])*"))?)*'
)
_SIZE = re.compile(rb"([0-9A-Fa-f]+)(" + _EXTENSION + rb")\r\n")
_LOOSE_SIZE = re.compile(rb"[0-9A-Fa-f]+;[\t\x20-\x7e\x80-\xff]*\r\n")
_TRAILERS = re.compile(_FIELD + rb"*\r\n")
_HOST = re.compile(rb"[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]*")
_ABSOLUTE = re.compile(rb"https?://[A-Za-z0-9._~!$&'()*+,;=:%\[\]-]+(?=[/?]|$)", re.IGNORECASE)
_PADDED_CODING = re.compile(rb"^transfer-encoding:.*[ \t]\r$", re.IGNORECASE | re.MULTILINE)
_SURE_METHODS = {b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"PATCH"}


class Fate(Enum):
    """What must become of a request."""

    TAKEN = "taken"
    REFUSED = "refused"
    EITHER = "taken or refused"
    OPEN = "not whole: waited for, or refused"


@dataclass(frozen=True)
class Fated:
    """One request: its fate, and where it may be taken, what was asked; `closes` as the connection ends with it."""

    fate: Fate
    method: bytes = b""
    path: bytes = b""
    body: bytes = b""
    closes: bool = False


REFUSED, OPEN = Fated(Fate.REFUSED), Fated(Fate.OPEN)


def read(data: bytes) -> list[Fated]:
    """Return the requests in their order; the last may be refused or open, and nothing comes after those."""
    found: list[Fated] = []
    while True:
        while data.startswith(b"\r\n"):
            data = data[2:]
        if data in {b"", b"\r"}:
            return found
        request, length = _one(data)
        found.append(request)
        if request.fate is not Fate.TAKEN or request.closes:
            return found
        data = data[length:]


def _one(data: bytes) -> tuple[Fated, int]:
    """Return the first request, and its length in bytes."""
    end = data.find(b"\r\n\r\n") + 4
    if end < 4:
        return (OPEN if len(data) <= MAX_HEAD else REFUSED), 0
    head = _HEAD.fullmatch(data, 0, end)
    if head is None or end > MAX_HEAD:
        return REFUSED, 0
    method, target, version, lines = head.groups()
    fields = [
        (name.lower(), value.strip(b" \t"))
        for name, _, value in (line.partition(b":") for line in lines.split(b"\r\n")[:-1])
    ]
    old = version == b"1.0"
    length = _length(fields, old=old)
    if length is None or not _right_host(fields, old=old) or not _right_expectation(fields):
        return REFUSED, 0
    sure, path = _path(target)
    if path is None:
        return REFUSED, 0
    options = {word.strip(b" \t").lower() for value in _values(fields, b"connection") for word in value.split(b",")}
    closes = b"close" in options or (old and b"keep-alive" not in options) or method == b"CONNECT"
    sure = sure and method in _SURE_METHODS and not (b"upgrade" in options and length < 0)
    sure = sure and not _PADDED_CODING.search(lines)
    body = _counted(data, end, length) if length >= 0 else _chunked(data, end)
    if isinstance(body, Fate):
        return Fated(body), 0
    content, stop, plain = body
    return Fated(Fate.TAKEN if sure and plain else Fate.EITHER, method, path, content, closes), stop


def _values(fields: list[tuple[bytes, bytes]], name: bytes) -> list[bytes]:
    return [value for found, value in fields if found == name]


def _length(fields: list[tuple[bytes, bytes]], *, old: bool) -> int | None:
    """Return the length of the body, -1 for one in chunks, None where that cannot be told."""
    codings, lengths = _values(fields, b"transfer-encoding"), _values(fields, b"content-length")
    if codings:
        return -1 if [value.lower() for value in codings] == [b"chunked"] and not lengths and not old else None
    if not lengths:
        return 0
    one = len(lengths) == 1 and re.fullmatch(rb"[0-9]{1,18}", lengths[0])
    return int(lengths[0]) if one and int(lengths[0]) <= MAX_BODY else None


def _right_host(fields: list[tuple[bytes, bytes]], *, old: bool) -> bool:
    hosts = _values(fields, b"host")
    return len(hosts) <= 1 and (bool(hosts) or old) and all(_HOST.fullmatch(host) for host in hosts)


def _right_expectation(fields: list[tuple[bytes, bytes]]) -> bool:
    return [value.lower() for value in _values(fields, b"expect")] in ([], [b"100-continue"])


def _path(target: bytes) -> tuple[bool, bytes | None]:
    """Return whether the target must be understood, and its path (None: it must not be)."""
    sure = b"#" not in target
    absolute = _ABSOLUTE.match(target)
    if absolute:
        return sure, target[absolute.end() :].partition(b"?")[0] or b"/"
    if re.match(rb"https?:", target, re.IGNORECASE):
        return False, target.partition(b"?")[0]
    return sure and target.startswith(b"/"), target.partition(b"?")[0]


def _counted(data: bytes, start: int, length: int) -> tuple[bytes, int, bool] | Fate:
    stop = start + length
    return Fate.OPEN if len(data) < stop else (data[start:stop], stop, True)


def _chunked(data: bytes, at: int) -> tuple[bytes, int, bool] | Fate:
    """Return body, its end and whether it is certain; or its fate."""
    body, plain, start = b"", True, at
    while True:
        line_end = data.find(b"\n", at) + 1
        if not line_end:
            return Fate.OPEN
        size = _SIZE.fullmatch(data, at, line_end)
        if size is None and _LOOSE_SIZE.fullmatch(data, at, line_end) is None:
            return Fate.REFUSED
        digits = re.match(rb"[0-9A-Fa-f]+", data[at:line_end])
        assert digits is not None, "both patterns begin with digits"  # noqa: S101 -- tells the type
        plain = plain and size is not None and len(digits[0]) <= 8
        length, at = int(digits[0], 16), line_end
        if not length:
            break
        if length > MAX_BODY:
            return Fate.OPEN  # once so much is there, or at once
        if data[at + length : at + length + 2] != b"\r\n":
            return Fate.REFUSED if len(data) >= at + length + 2 else _cut(data[at + length :])
        body += data[at : at + length]
        at += length + 2
    trailers = _TRAILERS.match(data, at)
    if trailers is None:
        return Fate.REFUSED if b"\r\n\r\n" in data[at - 2 :] else Fate.OPEN
    plain = plain and trailers.end() - start <= MAX_HEAD
    return (
        body,
        trailers.end(),
        plain and not re.search(rb"(?im)^(content-length|transfer-encoding|connection|upgrade):", trailers[0]),
    )


def _cut(rest: bytes) -> Fate:
    return Fate.OPEN if b"\r\n".startswith(rest) else Fate.REFUSED
