"""What does the OpenAI API look like on the wire: which bodies are valid, and what bytes answer them?

Pure functions of bytes and values: reading a request, error objects, the JSON reply, server-sent events.
Shapes follow the public API reference as vLLM serves it: finish_reason rides on the last content chunk,
chat streams begin with a role-only delta, usage comes in an event of its own when it was asked for.
Left out: list prompts and n > 1, which are refused in words.
"""

from __future__ import annotations

import re

import msgspec

MAX_TOKENS_LIMIT = 1_000_000
TOKEN_IDS = 2**31  # what an engine can take in; whether a smaller id is in the vocabulary is not asked

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


class RequestRefused(Exception):
    """A request that the API does not accept: `status` is HTTP's, `kind` is the error's `type`.

    `allow` is the method that a 405 has to name.
    """

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None,
        allow: str = "",
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.message, self.status, self.kind, self.param, self.allow = message, status, kind, param, allow

    def body(self) -> bytes:
        """Return the OpenAI error object."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return msgspec.json.encode({"error": error})


class StreamOptions(msgspec.Struct, frozen=True):
    """`stream_options` of a request."""

    include_usage: bool | None = None


class Body(msgspec.Struct, frozen=True):
    """The fields of a completions or chat request that decide the reply; all others are recorded only."""

    model: str
    prompt: str | list[object] | None = None
    messages: list[dict[str, object]] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int | None = None
    ignore_eos: bool | None = None
    n: int | None = None

    def token_limit(self, *, chat: bool) -> int | None:
        """Return the asked length in tokens; chat's newer name wins, and is no field of completions."""
        return self.max_completion_tokens if chat and self.max_completion_tokens is not None else self.max_tokens

    @property
    def wants_usage_event(self) -> bool:
        """Whether a stream carries a usage event."""
        return bool(self.stream_options and self.stream_options.include_usage)


_decoder = msgspec.json.Decoder(Body)
_FIELD = re.compile(r"at `\$\.([\w.]+)|required field `(\w+)`")


def decoded[T](decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what `body` holds, or raise RequestRefused; `param` is the field that is wrong, where it is one."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        raise RequestRefused(str(error), param=next(filter(None, field.groups())) if field else None) from error
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"The body is not valid JSON: {error}") from error


def read_body(body: bytes, *, chat: bool, model: str) -> Body:
    """Return the request, or raise RequestRefused with the field that is wrong in `param`."""
    request = decoded(_decoder, body)
    _check_text(request, chat=chat)
    _check_numbers(request, chat=chat)
    if request.stream_options is not None and not request.stream:
        raise RequestRefused("stream_options needs stream=true", param="stream_options")
    if request.model != model:
        message = f"The model `{request.model}` does not exist; this server serves `{model}`."
        raise RequestRefused(message, status=404, kind="NotFoundError", param="model")
    return request


def _check_text(request: Body, *, chat: bool) -> None:
    if chat:
        if not request.messages:
            raise RequestRefused("messages must be a list with at least one message", param="messages")
        return
    prompt = request.prompt
    if prompt is None or prompt in ("", []):
        raise RequestRefused("prompt must be a text or a list of token ids, and not empty", param="prompt")
    if isinstance(prompt, list) and not all(type(item) is int and 0 <= item < TOKEN_IDS for item in prompt):
        raise RequestRefused("prompt must be one text or one list of token ids; lists of prompts are not "
                             "supported by this server yet", param="prompt")  # fmt: skip


def _check_numbers(request: Body, *, chat: bool) -> None:
    bounds = {
        "max_tokens": (request.max_tokens, 1, MAX_TOKENS_LIMIT),
        "max_completion_tokens": (request.max_completion_tokens, 1, MAX_TOKENS_LIMIT),
        "min_tokens": (request.min_tokens, 0, MAX_TOKENS_LIMIT),
        "n": (request.n, 1, 1),
    }
    for name, (value, low, high) in bounds.items():
        if value is not None and not low <= value <= high:
            allowed = f"between {low} and {high}" if low < high else f"{low} (this server gives no more choices yet)"
            raise RequestRefused(f"{name} must be {allowed}, got {value}", param=name)
    limit = request.token_limit(chat=chat)
    if request.min_tokens and limit is not None and request.min_tokens > limit:
        raise RequestRefused("min_tokens is above max_tokens", param="min_tokens")


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Return the API's usage object."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "total_tokens": total, "completion_tokens": completion_tokens}


class Wire:
    """The bytes of one reply; `identity` is unique per request, `created` is Unix seconds."""

    __slots__ = ("_base", "_open", "_text", "chat")

    def __init__(self, *, chat: bool, identity: int, model: str, created: int) -> None:
        self.chat = chat
        prefix = "chatcmpl" if chat else "cmpl"
        kind = "chat.completion" if chat else "text_completion"
        self._base = {"id": f"{prefix}-{identity:016x}", "object": kind, "created": created, "model": model}
        event = dict(self._base, object="chat.completion.chunk" if chat else kind)
        self._open = b"data: " + msgspec.json.encode(event)[:-1] + b',"choices":'
        self._text = b'[{"index":0,"delta":{"content":' if chat else b'[{"index":0,"text":'

    def role_event(self) -> bytes:
        """Return chat's first delta, which carries no token; nothing for completions."""
        if not self.chat:
            return b""
        choice = b'[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return self._open + choice + b"}\n\n"

    def token_event(self, text: str, finish_reason: str | None) -> bytes:
        """Return the event of one chunk of text."""
        closing = b"}" if self.chat else b""
        tail = closing + b',"logprobs":null,"finish_reason":' + msgspec.json.encode(finish_reason) + b"}]}\n\n"
        return self._open + self._text + msgspec.json.encode(text) + tail

    def last_events(self, tokens: dict[str, int] | None) -> bytes:
        """Return what follows the last chunk: the usage event if asked for, and [DONE]."""
        event = b"" if tokens is None else self._open + b'[],"usage":' + msgspec.json.encode(tokens) + b"}\n\n"
        return event + b"data: [DONE]\n\n"

    def whole(self, text: str, finish_reason: str, tokens: dict[str, int]) -> bytes:
        """Return the reply that is not streamed."""
        said: dict[str, object] = {"message": {"role": "assistant", "content": text}} if self.chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
        return msgspec.json.encode({**self._base, "choices": [choice], "usage": tokens})
