"""Do the server's readers and the oracles agree on an input, and does it matter how it is cut?

The readers run in this process: no socket, no server. `Disagreement` is a defect, of one of the two. h11, which is
lenient where it can be, is asked of what was taken, too: nothing may be taken that even h11 refuses.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import h11

from bench.fuzz_parts.inputs import CHAT, COMPLETIONS, MODEL, body_of, cuts_of, stream_of
from bench.fuzz_parts.strict_http import MAX_HEAD, Fate, Fated, read
from bench.fuzz_parts.strict_json import judge
from loadproof.absorber.http import RequestReader
from loadproof.absorber.openai import RequestRefused, read_body
from loadproof.absorber.request import Request

_NOW = 1
type Taken = tuple[bytes, bytes, bytes, bool]  # method, path, body, whether the connection ends with it


class Disagreement(Exception):
    """A defect; the message says what was seen."""


class Outcome:
    """What the reader made of bytes: what it took, how it refused (0: not), and whether it waits for more."""

    def __init__(self, data: bytes, cuts: list[int]) -> None:
        reader = RequestReader(lambda arrival, kernel, read_ns: Request(0, 0, 0, arrival, kernel, read_ns))
        for start, stop in pairwise(cuts):
            reader.feed(data[start:stop], _NOW, 0, _NOW)
        self.waits = reader.partial is not None
        self.status, self.taken = 0, []
        for request in reader.whole:
            if request.refusal is not None:
                self.status = int(request.refusal.status)
            elif request.head is None or self.status:
                raise Disagreement("a request after a refusal, or one without a head")
            else:
                self.taken.append(_taken(request))

    def __eq__(self, other: object) -> bool:
        """Return whether both are the same."""
        return isinstance(other, Outcome) and self.says() == other.says()

    __hash__ = None  # type: ignore[assignment] # never in a set

    def says(self) -> tuple[list[Taken], int, bool]:
        """Return all of it."""
        return self.taken, self.status, self.waits

    taken: list[Taken]


def _taken(request: Request) -> Taken:
    head = request.head
    if head is None:
        raise Disagreement("taken without a head")
    return head.method, head.path.encode("latin-1"), request.body, request.close_after


def compare_stream(rng: random.Random, *, ask_h11: bool) -> tuple[bytes, Outcome, list[Fated]]:
    """Make a connection's bytes, read them whole and in pieces, and compare. Raises Disagreement."""
    data = stream_of(rng)
    whole = Outcome(data, [0, len(data)])
    cuts = cuts_of(rng, len(data))
    in_pieces = Outcome(data, cuts)
    if whole != in_pieces:
        raise Disagreement(f"{data!r}\n whole: {whole.says()}\n cut at {cuts}: {in_pieces.says()}")
    expected = read(data)
    why = _differs(whole, expected)
    if why:
        raise Disagreement(f"{data!r}\n {why}\n reader: {whole.says()}\n oracle: {expected}")
    if ask_h11 and whole.taken:
        _ask_h11(data, whole.taken)
    return data, whole, expected


def _differs(outcome: Outcome, expected: list[Fated]) -> str:
    for place, fated in enumerate(expected):
        taken = outcome.taken[place] if place < len(outcome.taken) else None
        if taken is None:
            may = fated.fate in {Fate.REFUSED, Fate.EITHER} or (fated.fate is Fate.OPEN and outcome.waits)
            if outcome.status:
                return "" if fated.fate is not Fate.TAKEN else f"request {place} is refused and is right"
            return "" if may and fated.fate is Fate.OPEN else f"request {place} is neither taken nor refused"
        if fated.fate in {Fate.REFUSED, Fate.OPEN}:
            return f"request {place} is taken and is {fated.fate.value}"
        if taken != (fated.method, fated.path, fated.body, fated.closes):
            return f"request {place} is taken otherwise"
        if fated.fate is Fate.EITHER:
            return ""
    rest = len(outcome.taken) > len(expected) or outcome.status or outcome.waits
    return "there is more than the requests" if rest else ""


def _ask_h11(data: bytes, taken: list[Taken]) -> None:
    for place, (method, _, body, _) in enumerate(taken):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=2 * MAX_HEAD)
        connection.receive_data(data.lstrip(b"\r\n"))
        try:
            events = _events(connection)
        except h11.RemoteProtocolError as error:
            raise Disagreement(f"{data!r}\n request {place} is taken, h11 says: {error}") from error
        content = b"".join(bytes(event.data) for event in events if isinstance(event, h11.Data))
        if not isinstance(events[0], h11.Request) or (events[0].method, content) != (method, body):
            raise Disagreement(f"{data!r}\n request {place} is another to h11: {events}")
        data = connection.trailing_data[0]


def _events(connection: h11.Connection) -> list[Any]:
    events: list[Any] = []
    while not events or not isinstance(events[-1], h11.EndOfMessage):
        event = connection.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            raise h11.RemoteProtocolError("not whole")
        events.append(event)
    return events


def compare_body(rng: random.Random) -> None:
    """Make a body, read it as both APIs would, and compare. Raises Disagreement."""
    body = body_of(rng)
    for chat in (False, True):
        expected = judge(body, chat=chat, model=MODEL)
        taken = takes(body, chat=chat)
        if (taken and expected is Fate.REFUSED) or (not taken and expected is Fate.TAKEN):
            raise Disagreement(f"{body!r} for {'chat' if chat else 'completions'}: taken {taken}, must be {expected}")


def takes(body: bytes, *, chat: bool, model: str = MODEL) -> bool:
    """Return whether the server's reader takes a body."""
    try:
        read_body(body, chat=chat, model=model)
    except RequestRefused as refused:
        if refused.status not in {400, 404} or not refused.message:
            raise Disagreement(f"{body!r} is refused with {refused.status} {refused.message!r}") from refused
        return False
    return True


GENERATES = {COMPLETIONS: False, CHAT: True}
