"""Which bodies are valid requests of the OpenAI API, and how is one refused?

Pure functions of bytes and values; shapes follow the public API reference as vLLM serves it. Left out: what answers
them (`wire`).
"""

from __future__ import annotations

import re

import msgspec

MAX_TOKENS_LIMIT = 1_000_000
MAX_CHOICES = 128  # of one prompt, as OpenAI has it
MAX_ALL_CHOICES = 4096  # of all prompts of a request
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

    @property
    def prompts(self) -> list[str | list[int]]:
        """Return the prompts of a completions request: one, or each of a list of texts or of lists of token ids."""
        if isinstance(self.prompt, list) and not isinstance(self.prompt[0], int):
            return self.prompt  # type: ignore[return-value] # `read_body` has looked at each
        return [self.prompt]  # type: ignore[list-item] # so it has

    @property
    def choices(self) -> int:
        """Return how many choices of each prompt are asked for."""
        return self.n or 1

    def token_limit(self, *, chat: bool) -> int | None:
        """Return the asked length in tokens; chat's newer name wins, and is no field of completions."""
        return self.max_completion_tokens if chat and self.max_completion_tokens is not None else self.max_tokens

    @property
    def wants_usage_event(self) -> bool:
        """Whether a stream carries a usage event."""
        return bool(self.stream_options and self.stream_options.include_usage)


_decoder = msgspec.json.Decoder(Body)
decode = _decoder.decode
_FIELD = re.compile(r"at `\$\.([\w.]+)|required field `(\w+)`")


def decoded[T](decoder: msgspec.json.Decoder[T], body: bytes) -> T:
    """Return what `body` holds, or raise RequestRefused; `param` is the field that is wrong, where it is one."""
    try:
        if not body.isascii():
            body.decode()  # the decoder passes over fields that it does not know, also over what is no text
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        field = _FIELD.search(str(error))
        raise RequestRefused(str(error), param=next(filter(None, field.groups())) if field else None) from error
    except (ValueError, RecursionError) as error:
        raise RequestRefused(f"The body is not valid JSON: {error}") from error


def read_body(body: bytes, *, chat: bool, model: str) -> Body:
    """Return the request, or raise RequestRefused with the field that is wrong in `param`."""
    request = decoded(_decoder, body)
    if usual(request, chat=chat, model=model):
        return request
    _check_text(request, chat=chat)
    _check_numbers(request, chat=chat)
    if request.stream_options is not None and not request.stream:
        raise RequestRefused("stream_options needs stream=true", param="stream_options")
    if request.model != model:
        message = f"The model `{request.model}` does not exist; this server serves `{model}`."
        raise RequestRefused(message, status=404, kind="NotFoundError", param="model")
    return request


def usual(request: Body, *, chat: bool, model: str) -> bool:
    """Return whether a request is of the usual kind, in which nothing can be wrong: the short way."""
    return bool(
        (request.messages if chat else type(request.prompt) is str and request.prompt)
        and request.model == model
        and (request.max_tokens is None or 1 <= request.max_tokens <= MAX_TOKENS_LIMIT)
        and request.max_completion_tokens is None
        and request.min_tokens is None
        and request.n is None
        and request.stream_options is None
    )


def _check_text(request: Body, *, chat: bool) -> None:
    if chat:
        if not request.messages:
            raise RequestRefused("messages must be a list with at least one message", param="messages")
        return
    prompt = request.prompt
    if prompt is None or prompt in ("", []):
        raise RequestRefused("prompt must be a text, a list of token ids, or a list of those, and not empty",
                             param="prompt")  # fmt: skip
    if isinstance(prompt, list) and not (_are_ids(prompt) or all(_is_prompt(item, prompt[0]) for item in prompt)):
        raise RequestRefused("a list in prompt must be token ids, or texts, or lists of token ids, none of them empty "
                             "and all of one kind", param="prompt")  # fmt: skip
    if isinstance(prompt, list) and len(prompt) * request.choices > MAX_ALL_CHOICES and not _are_ids(prompt):
        raise RequestRefused(f"prompts times n must be at most {MAX_ALL_CHOICES}", param="prompt")


def _are_ids(items: list[object]) -> bool:
    return all(type(item) is int and 0 <= item < TOKEN_IDS for item in items)


def _is_prompt(item: object, first: object) -> bool:
    if isinstance(first, list):
        return isinstance(item, list) and bool(item) and _are_ids(item)
    return isinstance(item, str) and bool(item)


# Values outside are refused, as are what no engine can take in. In the order in which they are told.
_BOUNDS = (
    ("max_tokens", 1, MAX_TOKENS_LIMIT),
    ("max_completion_tokens", 1, MAX_TOKENS_LIMIT),
    ("min_tokens", 0, MAX_TOKENS_LIMIT),
    ("n", 1, MAX_CHOICES),
)


def _check_numbers(request: Body, *, chat: bool) -> None:
    for name, low, high in _BOUNDS:
        value = getattr(request, name)
        if value is not None and not low <= value <= high:
            raise RequestRefused(f"{name} must be between {low} and {high}, got {value}", param=name)
    if request.min_tokens:
        limit = request.token_limit(chat=chat)
        if limit is not None and request.min_tokens > limit:
            raise RequestRefused("min_tokens is above max_tokens", param="min_tokens")
