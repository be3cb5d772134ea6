"""Which chunks of a streamed reply are due, and what if the client does not take them?

A token a chunk, each choice at its own times. What cannot be written waits, and its rows with it.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from loadproof.absorber.reply import REASON_CODES, Reply, Row
from loadproof.absorber.sockets import QUEUE_BYTES
from loadproof.absorber.wire import CYCLE, LAST_CHUNK, Format, knows_no_chunks, last_events, of_choice, stream_head
from loadproof.record import COMPLETE

if TYPE_CHECKING:
    from loadproof.absorber.plan import Plan

CHUNKS_A_TURN = 512  # of all choices: a stream without pacing must not hold the loop until its last token
OVER = 2**63


class _Choice:
    """One choice of a reply: what of it has been handed out, and when its next token is due (ns after its begin)."""

    __slots__ = ("_last", "_number", "_plan", "_tails", "due", "gap", "index", "last", "opening")

    def __init__(self, number: int, plan: Plan, form: Format) -> None:
        self._number, self._plan, self.index, self.last = number, plan, 0, plan.tokens - 1
        self._tails = form.tails
        self._last = form.tail(plan.tokens - 1, plan.finish_reason)
        self.gap = plan.gap_ns if plan.drawn is None else -1
        self.due = plan.first_ns
        self.opening = b""

    def hand_out(self, elapsed: int, begin: int, most: int, events: list[bytes], rows: list[Row]) -> None:
        """Append the events that are due `elapsed` ns after `begin`, in two halves, and their rows: `most` in all."""
        index, due, opening = self.index, self.due, self.opening
        last, gap, size_before = self.last, self.gap, len(opening)
        while due <= elapsed and len(rows) < most:
            tail = self._tails[index if index <= CYCLE else (index - 1) % CYCLE + 1] if index < last else self._last
            rows.append((begin + due, 1, size_before + len(tail), self._number))
            events += (opening, tail)
            index += 1
            if index > last:
                due = OVER
            elif gap >= 0:
                due += gap
            else:
                due = self._plan.due_ns(index)
        self.index, self.due = index, due

    def one(self) -> bytes:
        """Return the event that is due, which is not the last, and go on to the next."""
        index = self.index
        self.index, self.due = index + 1, self.due + self.gap
        return self.opening + self._tails[index if index <= CYCLE else (index - 1) % CYCLE + 1]


class StreamedReply(Reply):
    """One that is streamed."""

    __slots__ = ("_choices", "_chunked", "_connection", "_end_bytes", "_only", "_opening", "_times", "_unsent")

    def start(self) -> None:
        """Set its first deadline."""
        session, request = self._session, self._request
        self._connection = session.connection
        self._choices = [_Choice(number, plan, session.format) for number, plan in enumerate(self._plans)]
        self._end_bytes = 0
        self._opening = b""
        self._only = self._choices[0] if len(self._choices) == 1 and self._choices[0].gap > 0 else None
        self._times: list[int] = []
        self._unsent: deque[tuple[list[Row], bool]] | None = None
        # HTTP/1.0 knows no chunks: the end of the connection ends the body.
        self._chunked = not knows_no_chunks(request)
        request.close_after |= not self._chunked
        request.planned_first = self._begin + min([choice.due for choice in self._choices])
        session.server.note(request)
        session.server.pacer.at(request.planned_first, self._due)

    def _due(self) -> int | None:
        connection = self._connection
        if connection.closed:
            return None
        if connection.pending_bytes > QUEUE_BYTES:
            connection.on_drained = self._resume
            return None
        begin = self._begin
        elapsed = time.monotonic_ns() - begin
        only = self._only
        if only is not None and self._opening and only.index < only.last and only.due + only.gap > elapsed >= only.due:
            return self._one(only)
        rows: list[Row] = []
        events: list[bytes] = []
        head = b"" if self._opening else self._open(events, rows)
        most = len(rows) + CHUNKS_A_TURN
        due = OVER
        for choice in self._choices:
            if choice.due <= elapsed:
                choice.hand_out(elapsed, begin, most, events, rows)
            due = min(due, choice.due)
        data = head + self._framed(events)
        if due != OVER:
            self._write(data, rows, ends=False)
            return begin + due
        ends = not self._usage or self._request.counted is not None
        self._owes_end = not ends
        self._write(data + self._end() if ends else data, rows, ends=ends)
        return None

    def _one(self, choice: _Choice) -> int:
        """Write the one event that is due, as it is nearly always: the short way. Return when the next is."""
        planned, request = self._begin + choice.due, self._request
        event = choice.one()
        size = len(event)
        data = b"%x\r\n%b\r\n" % (size, event) if self._chunked else event
        stamp = self._connection.write(data)
        if stamp:
            self._session.server.writer.chunk(request.req, planned, stamp, 1, size, 0)
            request.tokens += 1
            request.size += size
            self._times.append(stamp)
        else:
            self._wait([(planned, 1, size, 0)], ends=False)
        return self._begin + choice.due

    def _write(self, data: bytes, rows: list[Row], *, ends: bool) -> None:
        stamp = self._connection.write(data)
        if stamp:
            self._taken(rows, stamp, ends=ends)
        else:
            self._wait(rows, ends=ends)

    def _wait(self, rows: list[Row], *, ends: bool) -> None:
        """Keep the rows of what could not be written at once, or note that it never will be."""
        if self._connection.closed:
            self._note(rows, 0)
            return
        if self._unsent is None:
            self._unsent = deque()
        self._unsent.append((rows, ends))

    def _resume(self) -> None:
        self._session.server.pacer.at(time.monotonic_ns(), self._due)

    def _open(self, events: list[bytes], rows: list[Row]) -> bytes:
        session, request = self._session, self._request
        request.status = 200
        form = session.format
        self._opening = form.opening(request.req, session.server.created_at(request.arrival))
        role = form.role()
        for number, choice in enumerate(self._choices):
            choice.opening = self._opening + of_choice(number)
            if form.chat:  # all roles leave with the first token
                rows.append((request.planned_first, 0, len(choice.opening) + len(role), number))
                events += (choice.opening, role)
        return stream_head(request)

    def _framed(self, events: list[bytes]) -> bytes:
        """Return events, each given in two halves, in the framing of a chunked body: a chunk each."""
        if not self._chunked:
            return b"".join(events)
        if len(events) == 2:
            opening, said = events
            return b"%x\r\n%b%b\r\n" % (len(opening) + len(said), opening, said)
        halves = iter(events)
        return b"".join(
            [
                b"%x\r\n%b%b\r\n" % (len(opening) + len(said), opening, said)
                for opening, said in zip(halves, halves, strict=True)
            ]
        )

    def _end(self) -> bytes:
        counted = self._request.counted
        usage = (counted[1], self._tokens) if self._usage and counted is not None else None
        data = last_events(self._opening, usage)
        self._end_bytes = len(data)
        return b"%x\r\n%b\r\n%b" % (len(data), data, LAST_CHUNK) if self._chunked else data

    def _send_end(self) -> None:
        self._write(self._end(), [], ends=True)

    def taken(self, stamp: int) -> None:
        """Note what had to wait."""
        if self._unsent:
            rows, ends = self._unsent.popleft()
            self._taken(rows, stamp, ends=ends)

    def _taken(self, rows: list[Row], stamp: int, *, ends: bool) -> None:
        request, server = self._request, self._session.server
        req, chunk, times = request.req, server.writer.chunk, self._times
        for planned, tokens, size, choice in rows:
            chunk(req, planned, stamp, tokens, size, choice)
            request.size += size
            if tokens:
                request.tokens += 1
                times.append(stamp)
        if request.tokens == self._tokens:
            request.reason = REASON_CODES[self._plans[-1].finish_reason]
        if ends:
            request.size += self._end_bytes
            self._observed(times)
            self._session.finished(request, COMPLETE, stamp)

    def abandon(self) -> None:
        """Note what was never taken."""
        for rows, _ in self._unsent or ():
            self._note(rows, 0)
