"""How is a reply sent that is due at once, in one piece that was made before?

Where nothing is paced, every reply of one length says the same but for its id, its time and its usage: a form is made
once and filled in. A streamed one leaves in one send, all its chunks in it, a row each. Left out: who is answered so
(`express`), and replies that are paced (`reply`, `stream`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from loadproof.absorber.reply import REASON_CODES, Reply
from loadproof.absorber.wire import DONE, LAST_CHUNK, USUAL_HEAD, USUAL_STREAM_HEAD, Format, of_choice, usage_json
from loadproof.record import COMPLETE
from loadproof.streams import SameTimeChunks

if TYPE_CHECKING:
    from loadproof.absorber.plan import Plan
    from loadproof.absorber.request import Request
    from loadproof.absorber.session import Session

_OPENING = b"\0"  # stands in a form for how each event begins


class Prepared:
    """The form of one plan's reply.

    `same` fills it in once, with that time: a precompiled reply, the same for everybody. `size` is the length of what
    it says without framing, 0 where usage changes it.
    """

    def __init__(self, form: Format, plan: Plan, *, stream: bool, usage: bool, same: int | None = None) -> None:
        self.form, self.plan, self.stream, self._usage = form, plan, stream, usage
        self.tokens, self.reason = plan.tokens, REASON_CODES[plan.finish_reason]
        self.single = not stream or same is not None  # one chunk in the journal
        self.chunks = 1 if self.single else plan.tokens  # with tokens
        self.same = b""
        self._made = self._streamed() if stream else self._whole()
        if same is not None:
            self.same = self.filled(0, same, (0, 0))[0]

    def _whole(self) -> bytes:
        body = self.form.template(self.tokens, self.plan.finish_reason)
        if self._usage:
            self.size = 0
            self._chunk_sizes = [0]
            return body
        self.size = len(body % (0, 10**9)) + 1  # a time has ten digits until the year 2286
        self._chunk_sizes = [self.size]
        return (USUAL_HEAD % self.size).replace(b"%", b"%%") + body + b"}"

    def _streamed(self) -> bytes:
        form, last = self.form, self.tokens - 1
        opening = len(form.opening(0, 10**9))
        tails = [form.role()] if form.chat else []
        tails += [form.tail(index, self.plan.finish_reason if index == last else None) for index in range(last + 1)]
        said = [of_choice(0) + tail for tail in tails]
        self._chunk_sizes = [opening + len(each) for each in said]
        self.size = sum(self._chunk_sizes) + len(DONE)
        counts = [0, *[1] * self.tokens] if form.chat else [1] * self.tokens
        self._rows = SameTimeChunks(counts, self._chunk_sizes)
        framed = [b"%x\r\n%b%b\r\n" % (opening + len(each), _OPENING, each) for each in said]
        return USUAL_STREAM_HEAD + b"".join(framed) + b"%x\r\n%b\r\n" % (len(DONE), DONE) + LAST_CHUNK

    def filled(self, identity: int, created: int, counted: tuple[int, int] | None) -> tuple[bytes, int]:
        """Return the bytes of one reply, and its length without framing; `counted` as a prompt's count is."""
        if self.same:
            return self.same, self.size
        if self.stream:
            return self._made.replace(_OPENING, self.form.opening(identity, created)), self.size
        data = self._made % (identity, created)
        if not self._usage or counted is None:
            return data, self.size
        data += b',"usage":' + usage_json(counted[1], self.tokens) + b"}"
        size = len(data)
        return USUAL_HEAD % size + data, size

    def note(self, session: Session, req: int, planned: int, stamp: int, size: int) -> None:
        """Write the rows of its chunks; `stamp` 0: they were never taken."""
        writer = session.server.writer
        if not self.single:
            writer.same_time_chunks(self._rows, req, planned, stamp)
        else:
            writer.chunk(req, planned, stamp, self.tokens, size, 0)


class PreparedReply(Reply):
    """One reply from a form."""

    __slots__ = ("_prepared", "_size")

    def __init__(self, session: Session, request: Request, prepared: Prepared) -> None:
        self._session, self._request, self._prepared = session, request, prepared
        self._owes_end = False
        self._size = prepared.size

    def wait(self) -> None:
        """Send it when the count is there."""
        self._owes_end = True

    def _send_end(self) -> None:
        self.send()

    def send(self) -> None:
        """Send it now."""
        session, request = self._session, self._request
        created = session.server.created_at(request.arrival)
        data, self._size = self._prepared.filled(request.req, created, request.counted)
        request.status = 200
        stamp = session.connection.write(data)
        if stamp:
            self.taken(stamp)

    def taken(self, stamp: int) -> None:
        """Write its rows, and end it."""
        session, request, prepared, size = self._session, self._request, self._prepared, self._size
        server = session.server
        request.tokens, request.size, request.reason = prepared.tokens, size, prepared.reason
        prepared.note(session, request.req, request.planned_first, stamp, size)
        counted = request if server.counts else None  # else its count never comes, and it would be waited for
        server.metrics.at_once.append(
            (request.arrival, stamp, prepared.chunks, prepared.tokens, prepared.reason, counted)
        )
        session.finished(request, COMPLETE, stamp)

    def abandon(self) -> None:
        """Note that it was never taken, if it was sent."""
        if self._request.status:
            self._prepared.note(self._session, self._request.req, self._request.planned_first, 0, self._size)
