"""What bytes answer a generation request?

Shapes as vLLM serves them: finish_reason rides on the last content chunk, chat streams begin with a role-only delta,
usage comes in an event of its own when it was asked for. What all replies share is made once, what a request adds is
its id and time. Left out: when they are sent.
"""

from __future__ import annotations

from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec

from loadproof.words import WORDS, pieces

if TYPE_CHECKING:
    from loadproof.absorber.request import Request

JSON, EVENT_STREAM = "application/json", "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
LAST_CHUNK = b"0\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
CYCLE = len(WORDS)  # after so many tokens the text repeats itself
# The texts of tokens 0 to CYCLE, of which those of 1 to CYCLE come again; in mid-reply, and at its end.
_EXACT = pieces(CYCLE + 1)
_SPACED = pieces(CYCLE + 2, trailing_space=True)[:-1]
_UNSPACED = [text.strip() for text in _SPACED]


def place_of(index: int) -> int:
    """Return which of the tokens 0 to CYCLE says what token `index` (0-based) of every reply says."""
    return index if index <= CYCLE else (index - 1) % CYCLE + 1


@lru_cache(maxsize=256)
def _head_form(status: int, content_type: str, framing: str, connection: str, allow: str) -> bytes:
    lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}", f"content-type: {content_type}"]
    lines += [framing] if framing else []
    lines += [f"allow: {allow}"] if allow else []
    lines += [f"connection: {connection}"] if connection else []
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def knows_no_chunks(request: Request) -> bool:
    """Return whether only the end of the connection can end a stream to this client."""
    return request.head is not None and request.head.http_1_0


def _connection(request: Request) -> str:
    if request.close_after:
        return "close"
    return "keep-alive" if request.head is not None and request.head.http_1_0 else ""


def sized_head(request: Request, status: int, content_type: str, length: int, *, allow: str = "") -> bytes:
    """Return the head of a reply of `length` bytes."""
    return _head_form(status, content_type, "content-length: %d", _connection(request), allow) % length


def stream_head(request: Request) -> bytes:
    """Return the head of a stream: of chunks, or up to the end of the connection."""
    framing = "" if knows_no_chunks(request) else "transfer-encoding: chunked"
    return _head_form(200, EVENT_STREAM, framing, _connection(request), "")


USUAL_HEAD = _head_form(200, JSON, "content-length: %d", "", "")
USUAL_STREAM_HEAD = _head_form(200, EVENT_STREAM, "transfer-encoding: chunked", "", "")


@lru_cache(maxsize=64)
def whole_text(tokens: int) -> bytes:
    """Return the text of a reply of `tokens` tokens, as a JSON string."""
    return msgspec.json.encode("".join(pieces(tokens)))


class Format:
    """One API's bytes for one served model; `trailing_space`: a stream is cut behind its spaces, not before."""

    def __init__(self, model: str, *, chat: bool, trailing_space: bool = False) -> None:
        self.chat = chat
        self._texts, self._last_texts = (_SPACED, _UNSPACED) if trailing_space else (_EXACT, _EXACT)
        prefix, kind = (b"chatcmpl", b"chat.completion") if chat else (b"cmpl", b"text_completion")
        name = msgspec.json.encode(model).replace(b"%", b"%%")
        base = b'{"id":"' + prefix + b'-%016x","object":"'
        rest = b'","created":%d,"model":' + name + b',"choices":'
        self._event = b"data: " + base + kind + (b".chunk" if chat else b"") + rest
        self._whole = base + kind + rest
        self.tails = [self.tail(index, None) for index in range(CYCLE + 1)]  # in mid-reply, at `place_of` a token

    def opening(self, identity: int, created: int) -> bytes:
        """Return how every event of one reply begins; `identity` is unique, `created` is Unix seconds."""
        return self._event % (identity, created)

    def role(self) -> bytes:
        """Return what chat's first event of a choice says, after `of_choice`; it carries no token."""
        return b'"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}\n\n'

    def tail(self, index: int, reason: str | None) -> bytes:
        """Return what the event of token `index` says, after `of_choice`; the last of a reply has a `reason`."""
        text = msgspec.json.encode((self._texts if reason is None else self._last_texts)[place_of(index)])
        said = b'"delta":{"content":' + text + b"}" if self.chat else b'"text":' + text
        return said + b',"logprobs":null,"finish_reason":' + msgspec.json.encode(reason) + b"}]}\n\n"

    def template(self, tokens: int, reason: str) -> bytes:
        """Return a reply of one choice up to its `usage`, to be filled with (identity, created)."""
        return self._whole + b"[" + _choice(self.chat, 0, tokens, reason).replace(b"%", b"%%") + b"]"

    def whole(
        self, identity: int, created: int, choices: list[tuple[int, str]], tokens: tuple[int, int] | None
    ) -> bytes:
        """Return a reply that is not streamed: (tokens, finish_reason) of each choice; `tokens` as in `usage`."""
        if len(choices) == 1:
            said = _choice(self.chat, 0, *choices[0])
        else:
            said = b",".join([_choice(self.chat, index, *choice) for index, choice in enumerate(choices)])
        end = b"" if tokens is None else b',"usage":' + usage_json(*tokens)
        return self._whole % (identity, created) + b"[" + said + b"]" + end + b"}"


@lru_cache(maxsize=256)
def _choice(chat: bool, index: int, tokens: int, reason: str) -> bytes:  # noqa: FBT001 -- a cache's key
    text = whole_text(tokens)
    said = b'"message":{"role":"assistant","content":' + text + b"}" if chat else b'"text":' + text
    return b'{"index":%d,%b,"logprobs":null,"finish_reason":"%b"}' % (index, said, reason.encode())


def of_choice(number: int) -> bytes:
    """Return what an event says between its opening and its tail."""
    return b'[{"index":%d,' % number


def last_events(opening: bytes, tokens: tuple[int, int] | None) -> bytes:
    """Return what follows the last chunk: the usage event if there is one, and [DONE]."""
    return DONE if tokens is None else opening + b'[],"usage":' + usage_json(*tokens) + b"}\n\n" + DONE


def usage_json(prompt: int, completion: int) -> bytes:
    """Return the API's usage object."""
    total = prompt + completion
    return b'{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d}' % (prompt, total, completion)
