"""What is the shortest way for the usual request: whole in one read, on a connection that has nothing else to do?

It is read in one go, and where its reply needs neither pacing nor a count (level `light`, or a precompiled profile) it
is answered, and recorded, in the same go. Whatever is unusual is left to the long way, which also refuses. Left out:
all that `session` decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.absorber.endpoints import GENERATES
from loadproof.absorber.head import END, Refused, read_head
from loadproof.absorber.openai import RequestRefused, read_body
from loadproof.absorber.ready import ReadyReply, ready_reply
from loadproof.absorber.reply import REASON_CODES
from loadproof.absorber.request import Request
from loadproof.absorber.wire import USUAL_HEAD
from loadproof.record import COMPLETE, HOW

if TYPE_CHECKING:
    from loadproof.absorber.head import Head
    from loadproof.absorber.openai import Body
    from loadproof.absorber.plan import Plan
    from loadproof.absorber.server import Server
    from loadproof.absorber.session import Session

_COMPLETE = HOW.index(COMPLETE)


class Express:
    """The short way of one server."""

    def __init__(self, server: Server, *, light: bool) -> None:
        self._server = server
        profile = server.profile
        self._precompiled = profile.precompiled
        unpaced = not profile.draws and profile.ttft_s == 0 and profile.itl_s == 0
        self._at_once = light and unpaced  # and not streamed, if it is not precompiled

    def serve(self, session: Session, data: bytes, arrival: int, kernel: int, read_ns: int) -> bool:
        """Take in what was read; whether it was a usual request."""
        server = self._server
        end = data.find(END) + 4
        try:
            head = read_head(data[:end])
            if len(data) != end + head.length or not head.plain:
                return False
            chat = GENERATES.get(head.path)
            if chat is None:
                return False
            content = data[end:]
            body = read_body(content, chat=chat, model=server.model)
        except (Refused, RequestRefused):
            return False
        if self._at_once and (self._precompiled or not (body.stream or body.n or type(body.prompt) is list)):
            self._answer(session, head, content, body, (arrival, kernel, read_ns), chat=chat)
        else:
            request = server.new_request(session.connection, arrival, kernel, read_ns)
            request.head, request.body, request.received = head, content, read_ns
            session.start_whole(request, body, chat=chat)
        return True

    def _answer(
        self, session: Session, head: Head, content: bytes, body: Body, stamps: tuple[int, int, int], *, chat: bool
    ) -> None:
        """Write the reply and all rows of a request."""
        server, connection = self._server, session.connection
        writer = server.writer
        arrival, kernel, read_ns = stamps
        req, nth = server.next_req, connection.requests
        server.next_req, connection.requests = req + 1, nth + 1
        plan = server.same_plans(body.token_limit(chat=chat), body.min_tokens or 0, bool(body.ignore_eos))[0]
        tokens, form = plan.tokens, server.formats[chat]
        if self._precompiled:
            data, size = ready_reply(form, tokens, server.created, bool(body.stream))
        else:
            said = form.whole(req, server.created_at(arrival), [(tokens, plan.finish_reason)], None)
            size = len(said)
            data = USUAL_HEAD % size + said
        writer.request(
            req, connection.number, nth, arrival, kernel, read_ns, read_ns, head.kept + content, b"", 0, arrival
        )
        stamp = connection.write(data)
        if not stamp:
            self._wait(session, head, (req, nth, *stamps), plan, size, chat=chat)
            return
        reason = REASON_CODES[plan.finish_reason]
        writer.chunk(req, arrival, stamp, tokens, size, 0)
        writer.end(req, stamp, 200, tokens, size, 0, 0, -1, -1, 0, reason, _COMPLETE)
        server.live.arrived += 1
        server.live.ended += 1
        server.metrics.observe(arrival, (stamp,), tokens, reason)

    def _wait(
        self, session: Session, head: Head, known: tuple[int, int, int, int, int], plan: Plan, size: int, *, chat: bool
    ) -> None:
        """Let the long way end what the client did not take at once."""
        req, nth, arrival, kernel, read_ns = known
        server = self._server
        request = Request(req, session.connection.number, nth, arrival, kernel, read_ns)
        request.head, request.received, request.planned_first, request.status = head, read_ns, arrival, 200
        request.generates = request.noted = True
        server.live.arrived += 1
        session.wait_for_taken(request, ReadyReply(session, request, [plan], size), server.formats[chat])
