"""How is a request answered as fast as this server can: one reply, made once, for everybody?

The bytes of a reply of the profile's length, by API, by streamed or not, and by how the connection goes on. Its id is
the same for all; `usage` is left out. Left out: pacing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from loadproof.absorber.reply import Reply, Row
from loadproof.absorber.wire import (
    DONE,
    JSON,
    LAST_CHUNK,
    USUAL_HEAD,
    USUAL_STREAM_HEAD,
    Format,
    knows_no_chunks,
    sized_head,
    stream_head,
)
from loadproof.record import COMPLETE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from loadproof.absorber.plan import Plan
    from loadproof.absorber.request import Request
    from loadproof.absorber.session import Session


@lru_cache(maxsize=64)
def _ready_body(form: Format, tokens: int, created: int, *, stream: bool, chunked: bool) -> tuple[bytes, int]:
    """Return the framed body, and its length without framing."""
    if not stream:
        body = form.whole(0, created, [(tokens, "stop")], None)
        return body, len(body)
    opening = form.opening(0, created)
    events = [opening + form.role(0)] if form.chat else []
    said = [form.said(0, index, "stop" if index == tokens - 1 else None) for index in range(tokens)]
    events += [opening + each for each in said]
    events.append(DONE)
    framed = [b"%x\r\n%b\r\n" % (len(event), event) if chunked else event for event in events]
    return b"".join(framed) + (LAST_CHUNK if chunked else b""), sum(map(len, events))


@lru_cache(maxsize=64)
def ready_reply(form: Format, tokens: int, created: int, stream: bool) -> tuple[bytes, int]:  # noqa: FBT001 -- a cache's key
    """Return a whole reply on a connection that goes on, and the length of its body without framing."""
    body, size = _ready_body(form, tokens, created, stream=stream, chunked=stream)
    return (USUAL_STREAM_HEAD if stream else USUAL_HEAD % size) + body, size


class ReadyReply(Reply):
    """One that is sent in one piece: a single chunk, of `size` bytes, in the journal."""

    __slots__ = ("_row",)

    def __init__(self, session: Session, request: Request, plans: Sequence[Plan], size: int = 0) -> None:
        super().__init__(session, request, plans, usage=False)
        self._row: Row = (self._arrival, self._tokens, size, 0)

    def send(self, *, stream: bool) -> None:
        """Send what is ready."""
        session, request = self._session, self._request
        chunked = stream and not knows_no_chunks(request)
        request.close_after |= stream and not chunked
        created = session.server.created
        body, size = _ready_body(session.format, self._tokens, created, stream=stream, chunked=chunked)
        head = stream_head(request) if stream else sized_head(request, 200, JSON, size)
        request.status, request.planned_first = 200, self._arrival
        session.server.note(request)
        self._row = (self._arrival, self._tokens, size, 0)
        stamp = session.connection.write(head + body)
        if stamp:
            self.taken(stamp)

    def taken(self, stamp: int) -> None:
        """End it."""
        self._note((self._row,), stamp)
        self._observed((stamp,))
        self._session.finished(self._request, COMPLETE, stamp)

    def abandon(self) -> None:
        """Note that it was never taken."""
        self._note((self._row,), 0)
