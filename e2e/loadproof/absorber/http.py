"""How do bytes become requests?

A head is read as soon as its empty line is there (`head`), a body is counted or, when it is chunked, left to llhttp.
Heads that come in pieces are probed, so that bytes that are no request are refused at once. The refusal is the last
request of that connection and is answered in its turn. What follows it, or a request that closes, is nobody's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import httptools

from loadproof.absorber.head import (
    CHUNKED,
    END,
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    Refused,
    blanked_unparsed,
    read_head,
    too_large,
)
from loadproof.absorber.request import Request

Begin = Callable[[int, int, int], Request]


def _nothing_begins(_arrival: int, _kernel: int, _read_ns: int) -> Request:
    raise AssertionError("a reader that has ended begins nothing")


class _Chunks:
    """Takes in a chunked body; holds no parser, so that no cycle is left."""

    __slots__ = ("edge", "fed", "parts", "size", "whole")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.edge = b""  # the last bytes that were fed, in which the end may have begun
        self.size = self.fed = 0
        self.whole = False

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)

    def on_message_complete(self) -> None:
        self.whole = True


class RequestReader:
    """Feed it what was read; it fills `whole` with requests, in their order; `partial` is the one under way.

    `begin(arrival, kernel, read_ns)` makes a request when its first byte is there. What of it was refused, or is
    still to come, was never received: `received` stays 0.
    """

    __slots__ = (
        "_arrival", "_asks", "_begin", "_chunks", "_held", "_kernel", "_need", "_over", "_parser", "_parts", "_read",
        "partial", "whole",
    )  # fmt: skip

    def __init__(self, begin: Begin) -> None:
        self._begin: Begin = begin
        self.whole: deque[Request] = deque()
        self.partial: Request | None = None
        self._held = b""  # of a head that is not complete
        self._need = 0  # bytes of the body that are to come; CHUNKED: as its chunks say
        self._parts: list[bytes] = []
        self._parser: Any = None  # a probe of a head in pieces, or the reader of a chunked body
        self._chunks: _Chunks | None = None
        self._asks = self._over = False

    @property
    def idle(self) -> bool:
        """Whether the next byte begins a request."""
        return self.partial is None and not (self._held or self._over or self.whole)

    def feed(self, data: bytes, arrival: int, kernel: int, read_ns: int) -> None:
        """Take in `data`, read at `read_ns`, arrived at `arrival`; nothing after an error or a last request."""
        self._arrival, self._kernel, self._read = arrival, kernel, read_ns
        try:
            while data and not self._over:
                data = self._take_body(data) if self._need else self._take_head(data)
        except Refused as refused:
            self._refuse(refused, data)

    def _take_head(self, data: bytes) -> bytes:
        """Take in a head and what is there of its body; return what comes after them."""
        request = self.partial
        if request is None:
            data, self._held = self._held + data, b""
            start = 0
            while data.startswith(b"\r\n", start):  # empty lines before a request, which the standard asks to ignore
                start += 2
            data = data[start:]
            if not data:
                return b""
            if data == b"\r":
                self._held = data
                return b""
            request = self.partial = self._begin(self._arrival, self._kernel, self._read)
        if self._held:
            data = self._held + data
        end = data.find(END, max(0, len(self._held) - 3)) + 4
        if end < 4 or end > MAX_HEAD_BYTES:
            self._hold(data)
            return b""
        head = request.head = read_head(data[:end])
        request.close_after = not head.keep_alive
        if self._held:
            self._held, self._parser = b"", None
        self._asks = head.awaits_continue and len(data) == end
        stop = end + head.length
        if head.length == CHUNKED:
            self._begin_chunks(data[:end])
            return data[end:]
        if len(data) < stop:
            self._parts, self._need = [data[end:]], stop - len(data)
            return b""
        self._complete(request, data[end:stop])
        return data[stop:]

    def _hold(self, data: bytes) -> None:
        """Keep a head's beginning, unless it cannot become a head any more."""
        if self._parser is None:
            self._parser = httptools.HttpRequestParser(self)
        try:
            self._parser.feed_data(data[len(self._held) : MAX_HEAD_BYTES])
        except httptools.HttpParserError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, f"Not a valid HTTP/1.1 request: {error}") from error
        if len(data) > MAX_HEAD_BYTES:
            raise too_large(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        self._held = data

    def _take_body(self, data: bytes) -> bytes:
        self._asks = False  # it did not wait
        if self._need == CHUNKED:
            return self._take_chunks(data)
        part, rest = data[: self._need], data[self._need :]
        self._parts.append(part)
        self._need -= len(part)
        if not self._need and self.partial is not None:
            self._complete(self.partial, b"".join(self._parts))
        return rest

    def _begin_chunks(self, head: bytes) -> None:
        self._need, self._chunks = CHUNKED, _Chunks()
        self._parser = httptools.HttpRequestParser(self._chunks)
        self._parser.feed_data(head)

    def _take_chunks(self, data: bytes) -> bytes:
        """Feed up to each empty line: a message ends with one, so what follows is not taken for its own."""
        chunks, start = self._chunks, 0
        if chunks is None or self.partial is None:
            return b""
        shift, window = len(chunks.edge), chunks.edge + data
        while start < len(data) and not chunks.whole:
            stop = window.find(END, max(0, shift + start - 3)) + 4 - shift
            stop = len(data) if stop < 4 - shift else stop
            chunks.fed += stop - start
            try:
                self._parser.feed_data(data[start:stop])
            except httptools.HttpParserError as error:
                raise Refused(HTTPStatus.BAD_REQUEST, f"Not a valid chunked body: {error}") from error
            start = stop
            # A byte of the body costs at most 6 in the framing; more is extensions and trailers without end.
            if chunks.size > MAX_BODY_BYTES or chunks.fed > MAX_HEAD_BYTES + 8 * chunks.size:
                raise too_large(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        chunks.edge = window[-3:]
        if chunks.whole:
            self._complete(self.partial, b"".join(chunks.parts))
        return data[start:]

    def _complete(self, request: Request, body: bytes) -> None:
        request.body, request.received = body, self._read
        self.partial, self._need, self._parts = None, 0, []
        self._parser = self._chunks = None
        self._asks, self._over = False, request.close_after
        self.whole.append(request)

    def asks_to_continue(self) -> bool:
        """Return, once, whether a client wants to be told that its body is welcome."""
        asks, self._asks = self._asks, False
        return asks

    def note_body(self) -> None:
        """Give the request under way what has come of it."""
        if self.partial is None:
            return
        if self.partial.head is None:
            self.partial.unparsed = blanked_unparsed(self._held)
        else:
            self.partial.body = b"".join(self._chunks.parts if self._chunks else self._parts)

    def _refuse(self, refused: Refused, data: bytes) -> None:
        request = self.partial or self._begin(self._arrival, self._kernel, self._read)
        if request.head is None:
            request.unparsed = blanked_unparsed((self._held + data)[: 2 * MAX_HEAD_BYTES])
        else:
            self.partial = request
            self.note_body()
        # A new one: what was raised holds the frames that it came through, and those hold the request.
        request.refusal, request.close_after = Refused(refused.status, refused.message), True
        self.end()
        self.whole.append(request)

    def end(self) -> None:
        """Take in nothing more. A probe and our owner hold us and we hold them: those cycles end here."""
        self._over, self.partial, self._parser, self._chunks = True, None, None, None
        self._begin = _nothing_begins
        self._held, self._parts = b"", []
