"""What does the OpenAI API look like on the wire: which bodies are valid, and what bytes answer them?

Pure functions of bytes and values: reading a request, error objects, the JSON reply, server-sent events.
Shapes follow the public API reference as vLLM serves it: finish_reason rides on the last content chunk,
chat streams begin with a role-only delta, usage comes in an event of its own when it was asked for.
Left out: list prompts and n > 1, which are refused in words.
"""

from __future__ import annotations

import msgspec

MAX_TOKENS_LIMIT = 1_000_000

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"


class RequestRefused(Exception):
    """A request that the API does not accept: `status` is HTTP's, `kind` is the error's `type`."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind, self.param = message, status, kind, param

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

    @property
    def token_limit(self) -> int | None:
        """The asked length in tokens; chat's newer name wins."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens

    @property
    def wants_usage_event(self) -> bool:
        """Whether a stream carries a usage event."""
        return bool(self.stream_options and self.stream_options.include_usage)


_decoder = msgspec.json.Decoder(Body)


def read_body(body: bytes, *, chat: bool, model: str) -> Body:
    """Return the request, or raise RequestRefused with the field that is wrong in `param`."""
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        raise RequestRefused(str(error)) from error
    except msgspec.DecodeError as error:
        raise RequestRefused(f"The body is not valid JSON: {error}") from error
    _check_text(request, chat=chat)
    _check_numbers(request)
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
    if isinstance(prompt, list) and not all(type(item) is int and item >= 0 for item in prompt):
        raise RequestRefused("prompt must be one text or one list of token ids; lists of prompts are not "
                             "supported by this server", param="prompt")  # fmt: skip


def _check_numbers(request: Body) -> None:
    bounds = {
        "max_tokens": (request.max_tokens, 1, MAX_TOKENS_LIMIT),
        "max_completion_tokens": (request.max_completion_tokens, 1, MAX_TOKENS_LIMIT),
        "min_tokens": (request.min_tokens, 0, MAX_TOKENS_LIMIT),
        "n": (request.n, 1, 1),
    }
    for name, (value, low, high) in bounds.items():
        if value is not None and not low <= value <= high:
            raise RequestRefused(f"{name} must be between {low} and {high}, got {value}", param=name)
    if request.min_tokens and request.token_limit is not None and request.min_tokens > request.token_limit:
        raise RequestRefused("min_tokens is above max_tokens", param="min_tokens")


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, int]:
    """Return the API's usage object."""
    total = prompt_tokens + completion_tokens
    return {"prompt_tokens": prompt_tokens, "total_tokens": total, "completion_tokens": completion_tokens}


class Wire:
    """The bytes of one reply; `identity` is unique per request, `created` is Unix seconds."""

    __slots__ = ("_base", "_chat", "_close", "_open")

    def __init__(self, *, chat: bool, identity: int, model: str, created: int) -> None:
        self._chat = chat
        prefix = "chatcmpl" if chat else "cmpl"
        kind = ("chat.completion" if chat else "text_completion")  # fmt: skip
        self._base = {"id": f"{prefix}-{identity:016x}", "object": kind, "created": created, "model": model}
        event = dict(self._base, object="chat.completion.chunk" if chat else kind)
        self._open = b"data: " + msgspec.json.encode(event)[:-1] + b',"choices":'
        inner = b'[{"index":0,"delta":{"content":' if chat else b'[{"index":0,"text":'
        self._close = inner

    def role_event(self) -> bytes:
        """Return chat's first delta, which carries no token; nothing for completions."""
        if not self._chat:
            return b""
        choice = b'[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]'
        return self._open + choice + b"}\n\n"

    def token_event(self, text: str, finish_reason: str | None) -> bytes:
        """Return the event of one chunk of text."""
        closing = b"}" if self._chat else b""
        tail = closing + b',"logprobs":null,"finish_reason":' + msgspec.json.encode(finish_reason) + b"}]}\n\n"
        return self._open + self._close + msgspec.json.encode(text) + tail

    def last_events(self, tokens: dict[str, int] | None) -> bytes:
        """Return what follows the last chunk: the usage event if asked for, and [DONE]."""
        event = b"" if tokens is None else self._open + b'[],"usage":' + msgspec.json.encode(tokens) + b"}\n\n"
        return event + b"data: [DONE]\n\n"

    def whole(self, text: str, finish_reason: str, tokens: dict[str, int]) -> bytes:
        """Return the reply that is not streamed."""
        said: dict[str, object] = {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        choice = {"index": 0, **said, "logprobs": None, "finish_reason": finish_reason}
        return msgspec.json.encode({**self._base, "choices": [choice], "usage": tokens})
