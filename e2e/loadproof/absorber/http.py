"""How do HTTP/1.1 bytes become requests, and replies become bytes?

httptools (llhttp) parses; this file adds the limits, the time stamps and the framing of replies.
Left out: strictness against smuggling beyond llhttp's own rules.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

import httptools

from loadproof.journal import Record

MAX_BODY_BYTES = 32 * 1024 * 1024
MAX_HEAD_BYTES = 64 * 1024
_SECRET_HEADERS = frozenset({b"authorization", b"api-key", b"x-api-key", b"cookie", b"proxy-authorization"})


class TooLarge(Exception):
    """Head or body over the limit; `status` is 431 or 413."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Request:
    """One parsed request: its journal record, and what its framing asks of the reply."""

    __slots__ = ("close_after", "expects_continue", "http_1_0", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self.close_after = self.http_1_0 = self.expects_continue = False


class RequestReader:
    """Feed it what was read; it calls `on_request` for each whole request, and `on_continue` when one waits.

    `new_record(read_ns)` makes the record when the first byte of a request is parsed. Credentials are
    blanked here, before anything is kept.
    """

    def __init__(
        self, new_record: Callable[[int], Record], on_request: Callable[[Request], None],
        on_continue: Callable[[], None],
    ) -> None:  # fmt: skip
        self._parser = httptools.HttpRequestParser(self)
        self._new_record, self._on_request, self._on_continue = new_record, on_request, on_continue
        self._read_ns = 0
        self._request: Request | None = None
        self._body: list[bytes] = []
        self._size = self._head_size = 0

    @property
    def partial(self) -> Request | None:
        """The request whose bytes have not all come, if any."""
        return self._request

    def feed(self, data: bytes, read_ns: int) -> None:
        """Parse `data`, read at `read_ns`. Raises httptools.HttpParserError or TooLarge."""
        self._read_ns = read_ns
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise TooLarge(HTTPStatus.NOT_IMPLEMENTED) from None
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, TooLarge):
                raise error.__context__ from None
            raise

    def on_message_begin(self) -> None:
        """Start a record: its arrival is the read that brought its first byte."""
        self._request = Request(self._new_record(self._read_ns))
        self._body.clear()
        self._size = self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """Collect the target, which may come in pieces."""
        self._count_head(url)
        if self._request:
            self._request.record.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header, a credential's value blanked."""
        self._count_head(name + value)
        if self._request:
            lower = name.lower()
            self._request.expects_continue |= lower == b"expect" and value.lower() == b"100-continue"
            self._request.record.head.append((name, b"<blanked>" if lower in _SECRET_HEADERS else value))

    def _count_head(self, data: bytes) -> None:
        self._head_size += len(data)
        if self._head_size > MAX_HEAD_BYTES:
            raise TooLarge(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def on_headers_complete(self) -> None:
        """Note the method and what the framing asks for."""
        if self._request:
            self._request.record.method = self._parser.get_method()
            self._request.http_1_0 = self._parser.get_http_version() == "1.0"
            if self._request.expects_continue:
                self._on_continue()

    def on_body(self, data: bytes) -> None:
        """Collect the body up to the limit."""
        self._size += len(data)
        if self._size > MAX_BODY_BYTES:
            raise TooLarge(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        self._body.append(data)

    def on_message_complete(self) -> None:
        """Hand over the whole request."""
        request, self._request = self._request, None
        if request:
            request.record.body = b"".join(self._body)
            request.record.received = self._read_ns
            request.close_after = not self._parser.should_keep_alive()
            self._on_request(request)


def head(status: int, content_type: str, *, length: int | None, close: bool, chunked: bool = False) -> bytes:
    """Return a reply's head; `length` None and not `chunked` means that the end of the connection ends the body."""
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-type: {content_type}"]
    if length is not None:
        lines.append(f"content-length: {length}")
    if chunked:
        lines.append("transfer-encoding: chunked")
    if close:
        lines.append("connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def chunk(data: bytes) -> bytes:
    """Return `data` in the framing of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
