"""What did a reply say, and when did each piece of text come?

Incremental and pure: body bytes with the time at which they came in go in; times of text, usage, and whether the
reply was whole come out. Server-sent events are read line by line as the line ends arrive (LF or CRLF, split
anywhere); every `data:` line is one event. Left out: events of several `data:` lines and lone-CR line
ends, which no OpenAI-compatible server sends, and `reasoning_content`, which is not counted as text.
"""

from __future__ import annotations

import msgspec

_EXCERPT = 200
_BODY_LIMIT = 64 * 1024 * 1024


class _Text(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    text: str | None = None
    delta: _Text | None = None
    message: _Text | None = None
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Event(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: object = None
    kind: str | None = msgspec.field(default=None, name="object")


_decode = msgspec.json.Decoder(_Event).decode


class Answer:
    """One reply as it comes in.

    `times_ns` has the time of each event that carried text (a role-only delta carries none), which is the time of
    the read that ended it; `error` is empty as long as nothing was wrong and holds the first thing that was.
    """

    __slots__ = ("_done", "_finished", "_rest", "_streamed", "error", "status", "times_ns", "usage")

    def __init__(self, *, streamed: bool) -> None:
        """`streamed`: the request asked for a stream."""
        self.status = 0
        self.times_ns: list[int] = []
        self.usage: _Usage | None = None
        self.error = ""
        self._streamed = streamed
        self._finished = self._done = False
        self._rest = bytearray()

    def fail(self, why: str) -> None:
        """Keep `why` unless something went wrong before."""
        self.error = self.error or why

    def feed(self, data: bytes, now_ns: int) -> None:
        """Take body bytes that came in at `now_ns` (CLOCK_MONOTONIC); never raises."""
        self._rest += data
        if self._streamed and self.status == 200:
            lines = self._rest.split(b"\n")
            self._rest = lines.pop()
            for line in lines:
                self._line(line, now_ns)
        elif len(self._rest) > _BODY_LIMIT:
            self.fail("the reply is longer than 64 MiB")
            self._rest.clear()

    def close(self, now_ns: int) -> None:
        """The message is complete: decide whether the reply was whole. Never raises."""
        if self.status != 200:
            self.fail(f"status {self.status}: {self._excerpt(self._rest)}")
        elif self._streamed:
            self._line(self._rest, now_ns)
            if not self._finished:
                self.fail("the stream ended without a finish_reason")
            if not self._done:
                self.fail("the stream ended without [DONE]")
        else:
            event = self._event(self._rest)
            if event is not None and not event.choices:
                self.fail("the reply has no choices")

    def _line(self, line: bytearray, now_ns: int) -> None:
        if line.startswith(b"data:"):
            payload = line[5:].strip()
            if payload == b"[DONE]":
                self._done = True
            elif (event := self._event(payload)) is not None:
                self._choices(event.choices, now_ns)
        elif line.startswith(b"event:") and line[6:].strip() == b"error":
            self.fail("an error event in the stream")

    def _event(self, payload: bytearray) -> _Event | None:
        try:
            event = _decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            self.fail(f"not the JSON of a reply ({problem}): {self._excerpt(payload)}")
            return None
        if event.error is not None or event.kind == "error":
            self.fail(f"the server says error: {self._excerpt(payload)}")
            return None
        if event.usage is not None:
            self.usage = event.usage
        return event

    def _choices(self, choices: list[_Choice], now_ns: int) -> None:
        for choice in choices:
            if choice.finish_reason is not None:
                self._finished = True
        if any(choice.text or (choice.delta is not None and choice.delta.content) for choice in choices):
            self.times_ns.append(now_ns)

    @staticmethod
    def _excerpt(payload: bytearray) -> str:
        return payload[:_EXCERPT].decode("utf-8", "replace").strip()
