"""How can a request's content be wrong?

Functions from the place of a request in the load (from 0) and its body to the body that is sent instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from loadproof.metronome.asked import Body, Rewrite
from loadproof.words import WORDS

_SHARED = 100  # bytes: beyond the shortest beginnings that a journal can compare


def _with_text(body: Body, change: Callable[[str], str]) -> Body:
    if "prompt" in body:
        return body | {"prompt": change(cast("str", body["prompt"]))}
    [message] = cast("list[dict[str, Any]]", body["messages"])
    return body | {"messages": [message | {"content": change(message["content"])}]}


def every(nth: int, change: Callable[[Body], Body]) -> Rewrite:
    """Change the nth request, and each nth after it."""
    return lambda position, body: change(body) if position % nth == nth - 1 else body


def with_field(name: str, value: object) -> Callable[[Body], Body]:
    """Add a field, or give it another value."""
    return lambda body: body | {name: value}


def without_field(name: str) -> Callable[[Body], Body]:
    """Leave a field out."""
    return lambda body: {key: value for key, value in body.items() if key != name}


def shorter_answer(body: Body) -> Body:
    """Ask for one token less."""
    name = "max_tokens" if "max_tokens" in body else "max_completion_tokens"
    return body | {name: cast("int", body[name]) - 1}


def one_word_more(body: Body) -> Body:
    """Send one token more."""
    return _with_text(body, lambda text: f"{text} {WORDS[0]}")


def same_beginning(body: Body) -> Body:
    """Begin with the same 100 bytes, in as many tokens as before."""
    count, size = 0, 0
    while size < _SHARED:
        size += len(WORDS[count]) + 1
        count += 1
    return _with_text(body, lambda text: " ".join([*WORDS[:count], *text.split(" ")[count:]]))


def other_order(body: Body) -> Body:
    """Say the same in other bytes."""
    return dict(reversed(body.items()))
