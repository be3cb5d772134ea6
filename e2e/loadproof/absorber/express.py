"""What is the shortest way for the usual request: whole in one read, on a connection that has nothing else to do?

It is read in one go, and where nothing is paced and there is one choice it is answered from a form (`prepared`): in the
same go where no count has to be waited for. Whatever is unusual is left to the long way, which also refuses.
Left out: all that `session` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.absorber.endpoints import GENERATES
from loadproof.absorber.head import END, Refused, read_head
from loadproof.absorber.openai import decode, usual
from loadproof.absorber.prepared import Prepared, PreparedReply
from loadproof.absorber.request import Request

if TYPE_CHECKING:
    from loadproof.absorber.head import Head
    from loadproof.absorber.server import Server
    from loadproof.absorber.session import Session

KEPT = 4096
LONGEST = 512  # tokens: a longer reply would hold the loop

type Key = tuple[bool, bool | None, int | None, bool | None]  # chat, stream, max_tokens, ignore_eos


class Express:
    """The short way of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        profile = server.profile
        self._precompiled = profile.precompiled
        self._unpaced = profile.unpaced
        self._at_once = not server.knows_bodies
        self._prepared: dict[Key, Prepared] = {}

    def serve(self, session: Session, data: bytes, arrival: int, kernel: int, read_ns: int) -> bool:  # noqa: PLR0911 -- each what is unusual
        """Take in what was read; whether it was a usual request."""
        server = self._server
        end = data.find(END) + 4
        try:
            head = read_head(data[:end])
        except Refused:
            return False
        if not head.usual or len(data) != end + head.length:
            return False
        chat = GENERATES.get(head.path)
        if chat is None:
            return False
        content = data[end:]
        try:
            if not content.isascii():
                content.decode()
            body = decode(content)
        except (ValueError, RecursionError):
            return False
        if not usual(body, chat=chat, model=server.model):
            return False
        prepared = None
        if self._unpaced:
            key = (chat, body.stream, body.max_tokens, body.ignore_eos)
            prepared = self._prepared.get(key) or self._prepare(key)
            if prepared is not None and self._at_once:
                self._answer(session, head, content, prepared, arrival, kernel, read_ns)
                return True
        request = server.new_request(session.connection, arrival, kernel, read_ns)
        request.head, request.body, request.received, request.generates = head, content, read_ns, True
        server.live.arrived += 1
        session.start_whole(request, body, prepared, chat=chat)
        return True

    def _prepare(self, key: Key) -> Prepared | None:
        chat, stream, limit, ignores = key
        server = self._server
        plan = server.same_plans(limit, 0, bool(ignores))[0]
        if plan.tokens > LONGEST and not self._precompiled:
            return None
        usage = server.counts and not stream
        same = server.created if self._precompiled else None
        made = Prepared(server.formats[chat], plan, stream=bool(stream), usage=usage, same=same)
        if len(self._prepared) < KEPT:
            self._prepared[key] = made
        return made

    def _answer(  # noqa: PLR0917 -- by position is fastest
        self, session: Session, head: Head, content: bytes, prepared: Prepared, arrival: int, kernel: int, read_ns: int
    ) -> None:
        """Write the reply and all rows of a request."""
        server, connection = self._server, session.connection
        req, nth = server.next_req, connection.requests
        server.next_req, connection.requests = req + 1, nth + 1
        if self._precompiled:
            data = prepared.same
        else:
            data = prepared.filled(req, (arrival + server.clock_offset_ns) // 1_000_000_000, None)[0]
        stamp = connection.write(data)
        if stamp:
            tokens, reason, size = prepared.tokens, prepared.reason, prepared.size
            chunk = size if prepared.single else 0
            if not chunk:
                prepared.note(session, req, arrival, stamp, size)
            raw = head.kept + content
            server.writer.at_once.append(
                (req, connection.number, nth, arrival, kernel, read_ns, raw, stamp, tokens, size, chunk, reason)
            )
            live = server.live
            live.arrived += 1
            live.ended += 1
            server.metrics.at_once.append((arrival, stamp, prepared.chunks, tokens, reason, None))
        else:
            request = Request(req, connection.number, nth, arrival, kernel, read_ns)
            request.head, request.body, request.received = head, content, read_ns
            self._wait(session, request, prepared)

    def _wait(self, session: Session, request: Request, prepared: Prepared) -> None:
        """Let the long way end what the client did not take at once."""
        request.planned_first, request.status = request.arrival, 200
        request.generates = True
        self._server.live.arrived += 1
        self._server.note(request)
        session.wait_for_taken(request, PreparedReply(session, request, prepared), prepared.form)
