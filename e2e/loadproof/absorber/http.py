"""How do HTTP/1.1 bytes become requests, and replies become bytes?

httptools (llhttp) parses; this file adds the limits, the time stamps and the framing of replies. Bytes that
are no request end the connection's input: the error is the last request of that connection and is answered
in its turn. An upgrade is ignored, as the standard allows. Left out: strictness beyond llhttp's own rules.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools

from loadproof.journal import Record

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
_SECRET = re.compile(rb"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_SECRET_QUERY = re.compile(rb"([?&][^=&]*(?:auth|key|token|secret|password|credential)[^=&]*=)[^&]*", re.IGNORECASE)
BLANKED = b"<blanked>"


class TooLarge(Exception):
    """Head or body over the limit; `status` is 431 or 413."""

    def __init__(self, status: HTTPStatus) -> None:
        in_body = status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        what, limit = ("body", MAX_BODY_BYTES) if in_body else ("head", MAX_HEAD_BYTES)
        super().__init__(f"The request's {what} is larger than the {limit} bytes that this server accepts.")
        self.status = status


class Request:
    """One request: its journal record, and what its framing asks of the reply.

    `refusal` is (status, message) of bytes that were no request.
    """

    __slots__ = ("awaits_continue", "close_after", "generates", "http_1_0", "record", "refusal")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.close_after = self.http_1_0 = self.awaits_continue = self.generates = False
        self.refusal: tuple[int, str] | None = None


class RequestReader:
    """Feed it what was read; it fills `whole` with requests, in their order.

    `new_record(read_ns)` makes the record when the first byte of a request is parsed, `know_body(record)` is
    told when its body is there. Credentials are blanked here, before anything is kept.
    """

    def __init__(self, new_record: Callable[[int], Record], know_body: Callable[[Record], None]) -> None:
        self._parser: Any = httptools.HttpRequestParser(self)
        self._new_record, self._know_body = new_record, know_body
        self.whole: deque[Request] = deque()
        self.partial: Request | None = None
        self._read_ns = 0
        self._body: list[bytes] = []
        self._size = self._head_size = self._head_fed = 0
        self._in_head = self._over = False

    def feed(self, data: bytes, read_ns: int) -> None:
        """Parse `data`, read at `read_ns`; nothing more is parsed after an error or a last request."""
        if self._over:
            return
        self._read_ns = read_ns
        try:
            self._parse(data)
            self._limit_unfinished_head(len(data))
        except TooLarge as error:
            self._refuse(error.status, str(error))
        except httptools.HttpParserError as error:
            if not self._over:  # what comes after the last request is nobody's
                self._refuse(HTTPStatus.BAD_REQUEST, f"Not a valid HTTP/1.1 request: {error}")

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = data[upgrade.args[0] :]
            except httptools.HttpParserCallbackError as error:
                raise (error.__context__ or error) from None
            else:
                return

    def _limit_unfinished_head(self, fed: int) -> None:
        """Bound what the parser keeps of a header that does not end; such a one reaches no callback."""
        self._head_fed = self._head_fed + fed if self._in_head else 0
        if self._head_fed > 2 * MAX_HEAD_BYTES:  # twice: the first of these bytes may be of the request before
            raise TooLarge(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def _refuse(self, status: int, message: str) -> None:
        if self.partial is None:
            self._body, self.partial = [], Request(self._new_record(self._read_ns))
        request = self.partial
        request.refusal, request.close_after = (status, message), True
        request.record.received = self._read_ns
        self.end()
        self.whole.append(request)

    def end(self) -> None:
        """Parse nothing more. The parser holds our methods and we hold it: that cycle ends here."""
        if self.partial is not None:
            self._keep_body(self.partial.record)  # what came of it; no digest, because it is not whole
        self._over, self.partial, self._parser = True, None, None

    def _keep_body(self, record: Record) -> None:
        record.body, self._body = b"".join(self._body), []

    def on_message_begin(self) -> None:
        """Start a record: its arrival is the read that brought its first byte."""
        self.partial = Request(self._new_record(self._read_ns))
        self._body = []
        self._size = self._head_size = 0
        self._in_head = True

    def on_url(self, url: bytes) -> None:
        """Collect the target, which may come in pieces."""
        self._count_head(url)
        if self.partial:
            self.partial.record.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header, a credential's value blanked."""
        self._count_head(name + value)
        lower = name.lower()
        if self.partial:
            self.partial.awaits_continue |= lower == b"expect" and value.lower() == b"100-continue"
            self.partial.record.head.append((name, BLANKED if _SECRET.search(name) else value))
        if lower == b"content-length" and value.isdigit() and int(value) > MAX_BODY_BYTES:
            raise TooLarge(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    def _count_head(self, data: bytes) -> None:
        self._head_size += len(data)
        if self._head_size > MAX_HEAD_BYTES:
            raise TooLarge(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Note the method and what the framing asks for."""
        self._in_head = False
        if self.partial:
            record = self.partial.record
            record.method = self._parser.get_method()
            record.target = _SECRET_QUERY.sub(rb"\1" + BLANKED, record.target)
            self.partial.http_1_0 = self._parser.get_http_version() in {"0.9", "1.0"}
            self.partial.awaits_continue &= not self.partial.http_1_0

    def on_body(self, data: bytes) -> None:
        """Collect the body up to the limit."""
        self._size += len(data)
        if self._size > MAX_BODY_BYTES:
            raise TooLarge(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if self.partial:
            self.partial.awaits_continue = False  # it did not wait
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Put the whole request where it is taken from."""
        request, self.partial = self.partial, None
        if request:
            self._keep_body(request.record)
            self._know_body(request.record)
            request.record.received = self._read_ns
            request.close_after = self._over = not self._parser.should_keep_alive()
            self.whole.append(request)


def head(
    request: Request, status: int, content_type: str, *, length: int | None, chunked: bool = False, allow: str = ""
) -> bytes:
    """Return a reply's head; `length` None and not `chunked` means that the end of the connection ends the body."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-type: {content_type}"]
    if length is not None:
        lines.append(f"content-length: {length}")
    if chunked:
        lines.append("transfer-encoding: chunked")
    if allow:
        lines.append(f"allow: {allow}")
    if request.close_after:
        lines.append("connection: close")
    elif request.http_1_0:
        lines.append("connection: keep-alive")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(data: bytes) -> bytes:
    """Return `data`, which is not empty, in the framing of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
