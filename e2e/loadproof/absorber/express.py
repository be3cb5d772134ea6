"""What is the shortest way for the usual request: whole in one read, on a connection that has nothing else to do?

It is read in one go, and where nothing is paced and there is one choice it is answered from a form (`prepared`): in the
same go where no count has to be waited for. Whatever is unusual is left to the long way, which also refuses.
Left out: all that `session` decides.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from loadproof.absorber.endpoints import GENERATES
from loadproof.absorber.head import END, Refused, read_head
from loadproof.absorber.openai import RequestRefused, read_body
from loadproof.absorber.prepared import Prepared, PreparedReply
from loadproof.absorber.request import Request
from loadproof.record import COMPLETE, HOW

if TYPE_CHECKING:
    from loadproof.absorber.head import Head
    from loadproof.absorber.server import Server
    from loadproof.absorber.session import Session

LONGEST = 512  # tokens: a longer reply would hold the loop
_COMPLETE = HOW.index(COMPLETE)


class Express:
    """The short way of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        profile = server.profile
        self._precompiled = profile.precompiled
        self._unpaced = not profile.draws and profile.ttft_s == 0 and profile.itl_s == 0
        self._prepared = lru_cache(1024)(self._prepare)

    def serve(self, session: Session, data: bytes, arrival: int, kernel: int, read_ns: int) -> bool:
        """Take in what was read; whether it was a usual request."""
        server = self._server
        end = data.find(END) + 4
        try:
            head = read_head(data[:end])
            if not head.usual or len(data) != end + head.length:
                return False
            chat = GENERATES.get(head.path)
            if chat is None:
                return False
            content = data[end:]
            body = read_body(content, chat=chat, model=server.model)
        except (Refused, RequestRefused):
            return False
        prepared = None
        if self._unpaced and (self._precompiled or not (body.n or type(body.prompt) is list or body.stream_options)):
            prepared = self._prepared(chat, body.stream, body.token_limit(chat=chat), body.min_tokens, body.ignore_eos)
        if prepared is not None and not server.knows_bodies:
            self._answer(session, head, content, prepared, arrival, kernel, read_ns)
            return True
        request = server.new_request(session.connection, arrival, kernel, read_ns)
        request.head, request.body, request.received, request.generates = head, content, read_ns, True
        server.live.arrived += 1
        session.start_whole(request, body, prepared, chat=chat)
        return True

    def _prepare(self, *asked: Any) -> Prepared | None:
        chat, stream, limit, shortest, ignores = asked  # given one by one: that makes a key at no cost
        server = self._server
        plan = server.same_plans(limit, shortest or 0, bool(ignores))[0]
        if plan.tokens > LONGEST and not self._precompiled:
            return None
        usage = server.counts and not stream
        same = server.created if self._precompiled else None
        return Prepared(server.formats[chat], plan, stream=bool(stream), usage=usage, same=same)

    def _answer(  # noqa: PLR0917 -- by position is fastest
        self, session: Session, head: Head, content: bytes, prepared: Prepared, arrival: int, kernel: int, read_ns: int
    ) -> None:
        """Write the reply and all rows of a request."""
        server, connection = self._server, session.connection
        writer = server.writer
        req, nth = server.next_req, connection.requests
        server.next_req, connection.requests = req + 1, nth + 1
        raw = head.kept + content
        writer.request(req, connection.number, nth, arrival, kernel, read_ns, read_ns, raw, b"", 0, arrival)
        created = (arrival + server.clock_offset_ns) // 1_000_000_000
        data, size = prepared.filled(req, created, None)
        stamp = connection.write(data)
        if stamp:
            tokens, reason = prepared.tokens, prepared.reason
            prepared.note(session, req, arrival, stamp, size)
            writer.end(req, stamp, 200, tokens, size, 0, 0, -1, -1, 0, reason, _COMPLETE)
            server.live.arrived += 1
            server.live.ended += 1
            server.metrics.at_once.append((arrival, stamp, prepared.chunks, tokens, reason, None))
        else:
            request = Request(req, connection.number, nth, arrival, kernel, read_ns)
            request.head, request.body, request.received = head, content, read_ns
            self._wait(session, request, prepared)

    def _wait(self, session: Session, request: Request, prepared: Prepared) -> None:
        """Let the long way end what the client did not take at once."""
        request.planned_first, request.status = request.arrival, 200
        request.generates = request.noted = True
        self._server.live.arrived += 1
        session.wait_for_taken(request, PreparedReply(session, request, prepared), prepared.form)
