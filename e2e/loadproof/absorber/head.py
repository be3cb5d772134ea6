"""What does the head of an HTTP/1.x request say, strictly read, and what of it may be kept?

llhttp parses; added are its lenient spots (bare line ends before and spaces in the request line, other protocols and
versions, Host), what RFC 9112 makes the server's duty (codings, Transfer-Encoding in HTTP/1.0, absolute targets), and
limits. The same head always reads the same, so what was read is remembered: a tool sends the same few heads thousands
of times. Credentials are blanked here, before anything is kept. Left out: bodies.
"""

from __future__ import annotations

import re
from functools import lru_cache
from http import HTTPStatus

import httptools
import msgspec

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
CHUNKED = -1
END = b"\r\n\r\n"
BLANKED = b"<blanked>"

_WORDS = rb"auth|key|token|secret|cookie|password|credential|bearer"
_LOWER_WORDS = tuple(_WORDS.split(b"|"))
_FOLDED = rb"[^\r\n]*(?:\r?\n[ \t][^\r\n]*)*"
_HEADER = re.compile(rb"^([^\r\n:]*(?:" + _WORDS + rb")[^\r\n:]*:)" + _FOLDED, re.IGNORECASE | re.MULTILINE)
_VALUE = re.compile(rb"^([^\r\n:]*:)[ \t]*bearer\b" + _FOLDED, re.IGNORECASE | re.MULTILINE)
_QUERY = re.compile(rb"([?&][^=&\s]*(?:" + _WORDS + rb")[^=&\s]*=)[^&\s]*", re.IGNORECASE)
# Where nothing can be relied on, a value goes on until a line that begins as a header does, or an empty one.
_LINES = rb"[^\r\n]*(?:(?!\r?\n(?:[!#$%&'*+.^`|~\w-]+:|\r?\n))[\r\n][^\r\n]*)*"
_ANYWHERE = re.compile(rb"((?:" + _WORDS + rb")[^\s:=]*[:=]?)" + _LINES, re.IGNORECASE)
_USER = re.compile(rb"(://)[^/?#\s]*@")
_REQUEST_LINE = re.compile(rb"[A-Z-]+ \S+ HTTP/[\d.]+")
_AUTHORITY = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
_HOST = re.compile(rb"[\w.~!$&'()*+,;=:%\[\]-]*")


class Refused(Exception):
    """These bytes are not served: `status` is what HTTP calls it; the connection ends after the answer."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def too_large(status: HTTPStatus) -> Refused:
    """Return the refusal of a head (431) or a body (413) over its limit."""
    in_body = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    what, limit = ("body", MAX_BODY_BYTES) if in_body else ("head", MAX_HEAD_BYTES)
    return Refused(status, f"The request's {what} is larger than the {limit} bytes that this server accepts.")


class Head(msgspec.Struct, frozen=True):
    """A head that is valid; `length` is the body's in bytes or `CHUNKED`; `kept` are its bytes, credentials blanked."""

    method: bytes
    target: bytes
    path: str
    length: int
    keep_alive: bool
    http_1_0: bool
    awaits_continue: bool
    kept: bytes
    usual: bool  # a POST of a body of known length on a connection that goes on, and nothing else


class _Fields:
    """Collects what llhttp found."""

    def __init__(self) -> None:
        self.fields: list[tuple[bytes, bytes]] = []
        self.complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        self.complete = True

    def values(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.fields if found == name]


@lru_cache(maxsize=512)
def read_head(data: bytes) -> Head:
    """Read a head that ends with its empty line. Raises Refused."""
    if len(data) > MAX_HEAD_BYTES:
        raise too_large(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
    found = _Fields()
    upgrades = False
    try:
        httptools.HttpRequestParser(found).feed_data(data)
    except httptools.HttpParserUpgrade:
        upgrades = True  # ignored, as the standard allows
    except httptools.HttpParserError as error:
        raise _bad(str(error)) from error
    if not found.complete:
        raise _bad("its head ends before it is complete")
    words = data[: data.index(b"\r\n")].split(b" ")
    if len(words) != 3 or words[0][:1] in {b"\r", b"\n"}:
        raise _bad("its first line must be a method, a target and a version, each with one space between")
    method, target, version = words
    http_1_0 = _is_1_0(version)
    hosts = found.values(b"host")
    if len(hosts) > 1 or (not hosts and not http_1_0) or not all(map(_HOST.fullmatch, hosts)):
        raise _bad("exactly one Host header is needed, with a host's name or address")
    length = _body_length(found, http_1_0=http_1_0)
    if upgrades and length == CHUNKED:
        raise _bad("an upgrade with a chunked body")
    options = {word.strip() for value in found.values(b"connection") for word in value.lower().split(b",")}
    keep_alive = b"close" not in options and (not http_1_0 or b"keep-alive" in options) and method != b"CONNECT"
    awaits_continue = _awaits_continue(found) and not http_1_0
    return Head(
        method=method,
        target=_QUERY.sub(rb"\1" + BLANKED, target),
        path=_path(target),
        length=length,
        keep_alive=keep_alive,
        http_1_0=http_1_0,
        awaits_continue=awaits_continue,
        kept=_blanked(data),
        usual=method == b"POST" and length >= 0 and keep_alive and not http_1_0 and not awaits_continue,
    )


def _bad(why: str) -> Refused:
    return Refused(HTTPStatus.BAD_REQUEST, f"Not a valid HTTP/1.1 request: {why}")


def _path(target: bytes) -> str:
    """Return the path of a target; one that names a host, too, as for a proxy, has to be understood as well."""
    authority = _AUTHORITY.match(target)
    if authority:
        if not authority[1] or not _HOST.fullmatch(authority[1]):
            raise _bad("its target must name a host, and no user")
        target = target[authority.end() :]
    path = target.partition(b"?")[0]
    return path.decode("latin-1") or "/"


def _is_1_0(version: bytes) -> bool:
    if version not in {b"HTTP/1.1", b"HTTP/1.0"}:
        raise Refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "This server speaks HTTP/1.1 and HTTP/1.0.")
    return version == b"HTTP/1.0"


def _body_length(found: _Fields, *, http_1_0: bool) -> int:
    codings, lengths = found.values(b"transfer-encoding"), found.values(b"content-length")
    if codings and http_1_0:
        raise _bad("Transfer-Encoding in HTTP/1.0")
    if codings:
        if len(codings) != 1 or codings[0].lower() != b"chunked":
            raise Refused(HTTPStatus.NOT_IMPLEMENTED, "This server knows no other transfer coding than chunked.")
        return CHUNKED
    length = int(lengths[0]) if lengths else 0
    if length > MAX_BODY_BYTES:
        raise too_large(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
    return length


def _awaits_continue(found: _Fields) -> bool:
    expected = [value.lower() for value in found.values(b"expect")]
    if expected and expected != [b"100-continue"]:
        raise Refused(HTTPStatus.EXPECTATION_FAILED, "This server knows no other expectation than 100-continue.")
    return bool(expected)


def _may_hold_secrets(head: bytes) -> bool:
    lower = head.lower()
    return any(word in lower for word in _LOWER_WORDS)


def _blanked(head: bytes) -> bytes:
    """Return a valid head with the values of credentials blanked, in headers and in the target's query."""
    if not _may_hold_secrets(head):
        return head
    line, end, fields = head.partition(b"\r\n")
    fields = _VALUE.sub(rb"\1 " + BLANKED, _HEADER.sub(rb"\1 " + BLANKED, fields))
    return _QUERY.sub(rb"\1" + BLANKED, line) + end + fields


def blanked_unparsed(data: bytes) -> bytes:
    """Return bytes that are no valid head with all blanked that may belong to a word of credentials before it."""
    data = _USER.sub(rb"\1" + BLANKED + b"@", data)
    if not _may_hold_secrets(data):
        return data
    line, end, rest = data.partition(b"\r\n")
    if _REQUEST_LINE.fullmatch(line):  # what was asked is worth knowing
        return _QUERY.sub(rb"\1" + BLANKED, line) + end + _ANYWHERE.sub(rb"\1" + BLANKED, rest)
    return _ANYWHERE.sub(rb"\1" + BLANKED, data)
