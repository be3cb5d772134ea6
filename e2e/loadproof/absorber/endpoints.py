"""What do the small endpoints answer: models, health, version, metrics, tokenize, detokenize?

All but the last two answer at once; those two run on the counting thread, as everything with tokens does.
An unknown path is 404, a wrong method 405, both in OpenAI's error form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from loadproof import __version__
from loadproof.absorber.counting import ODD_INPUT
from loadproof.absorber.openai import CHAT, COMPLETIONS, RequestRefused, decoded

if TYPE_CHECKING:
    from loadproof.absorber.head import Head
    from loadproof.absorber.request import Request
    from loadproof.absorber.session import Session
    from loadproof.tokenizer import TokenCounter

METHODS = {
    COMPLETIONS: "POST", CHAT: "POST", "/tokenize": "POST", "/detokenize": "POST",
    "/v1/models": "GET", "/health": "GET", "/version": "GET", "/metrics": "GET",
}  # fmt: skip
GENERATES = {COMPLETIONS: False, CHAT: True}  # whether it is chat
MAX_MODEL_LEN = 32768


class TokenizeBody(msgspec.Struct, frozen=True):
    """A /tokenize request, of a prompt or of chat messages."""

    prompt: str | None = None
    messages: list[dict[str, object]] | None = None
    add_special_tokens: bool = True


class DetokenizeBody(msgspec.Struct, frozen=True):
    """A /detokenize request."""

    tokens: list[int]


def answer_small(session: Session, request: Request, head: Head) -> None:
    """Answer everything that is not a generation. Raises RequestRefused."""
    path = head.path
    allowed, method = METHODS.get(path), head.method.decode("latin-1")
    if allowed is None:
        raise RequestRefused(f"There is no {path} here.", status=404, kind="NotFoundError")
    if method != allowed and not (method == "HEAD" and allowed == "GET"):
        raise RequestRefused(f"{path} takes {allowed}, not {method}.", status=405, kind="MethodNotAllowedError",
                             allow=allowed)  # fmt: skip
    server = session.server
    if path == "/health":
        session.answer(request, 200, b"")
    elif path == "/version":
        session.answer(request, 200, msgspec.json.encode({"version": __version__}))
    elif path == "/metrics":
        if not server.alone:
            raise RequestRefused("/metrics sees all requests only where one worker serves: leave --workers out.",
                                 status=501, kind="NotImplementedError")  # fmt: skip
        session.answer(request, 200, server.metrics_text(), "text/plain; version=0.0.4; charset=utf-8")
    elif path == "/v1/models":
        card = {"id": server.model, "object": "model", "created": server.created, "owned_by": "loadproof",
                "root": server.model, "parent": None, "max_model_len": MAX_MODEL_LEN}  # fmt: skip
        session.answer(request, 200, msgspec.json.encode({"object": "list", "data": [card]}))
    else:
        job = _tokenize_job if path == "/tokenize" else _detokenize_job
        server.counting.submit(job(request.body), partial(_reply, session, request))


_tokenize_decoder = msgspec.json.Decoder(TokenizeBody)
_detokenize_decoder = msgspec.json.Decoder(DetokenizeBody)


def _tokenize_job(body: bytes) -> Callable[[TokenCounter], bytes]:
    asked = decoded(_tokenize_decoder, body)
    if (asked.prompt is None) == (asked.messages is None):
        raise RequestRefused("either prompt or messages is needed", param="prompt")

    def job(counter: TokenCounter) -> bytes:
        if asked.prompt is not None:
            tokens = counter.encode(asked.prompt, bos=asked.add_special_tokens)
        else:
            tokens = counter.encode_chat(asked.messages or [])
        return msgspec.json.encode({"count": len(tokens), "max_model_len": MAX_MODEL_LEN, "tokens": tokens})

    return job


def _detokenize_job(body: bytes) -> Callable[[TokenCounter], bytes]:
    asked = decoded(_detokenize_decoder, body)
    return lambda counter: msgspec.json.encode({"prompt": counter.decode(asked.tokens)})


def _reply(session: Session, request: Request, result: bytes | Exception) -> None:
    if session.connection.closed:
        return
    if isinstance(result, ODD_INPUT):
        refused = RequestRefused(str(result) or type(result).__name__)
        session.answer(request, refused.status, refused.body())
    elif isinstance(result, Exception):
        raise result
    else:
        session.answer(request, 200, result)
