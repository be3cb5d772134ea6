"""Is this body a request of the API, by the documented rules? An oracle that shares nothing with the server.

The standard library's JSON, made strict, and the rules of each field written anew. Where JSON itself leaves a choice
(a field twice, half a surrogate pair, very deep nesting, numbers of any size) a body may be taken or refused.
"""

from __future__ import annotations

import json
import re
from typing import Any

from bench.fuzz_parts.strict_http import Fate

_LONGEST, _TOO_DEEP = 1_000_000, 400


class _NotJson(ValueError):
    pass


def judge(body: bytes, *, chat: bool, model: str) -> Fate:
    """Return whether it must be taken, must be refused, or may be either."""
    twice: set[str] = set()
    try:
        text = body.decode()
        read = json.loads(text, parse_constant=_no_constant, object_pairs_hook=lambda pairs: _fields(pairs, twice))
    except RecursionError:
        return Fate.EITHER
    except ValueError:
        return Fate.REFUSED
    if not isinstance(read, dict):
        return Fate.REFUSED
    if not _types(read) or not _rules(read, chat=chat, model=model):
        return Fate.REFUSED
    doubtful = twice or _has_surrogate(read) or max(map(text.count, "[{")) > _TOO_DEEP
    return Fate.EITHER if doubtful or _large_number(text) else Fate.TAKEN


def _no_constant(name: str) -> None:
    raise _NotJson(name)


def _fields(pairs: list[tuple[str, Any]], twice: set[str]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice.update(found)
    return found


def _has_surrogate(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False


def _large_number(text: str) -> bool:
    """Return whether there may be a number that floats do not hold."""
    return re.search(r"[eE]\+?\d{3}|\d{300}", text) is not None


def _is_int(value: object) -> bool:
    return type(value) is int


def _types(read: dict[str, Any]) -> bool:
    """Return whether each field that is there is of its type; all but `model` may be null."""
    kinds = {
        "prompt": lambda v: isinstance(v, str | list),
        "messages": lambda v: isinstance(v, list) and all(isinstance(each, dict) for each in v),
        "stream": lambda v: isinstance(v, bool),
        "ignore_eos": lambda v: isinstance(v, bool),
        "stream_options": _are_options,
    } | dict.fromkeys(("max_tokens", "max_completion_tokens", "min_tokens", "n"), _is_int)
    return isinstance(read.get("model"), str) and all(
        read.get(name) is None or is_right(read[name]) for name, is_right in kinds.items()
    )


def _are_options(value: object) -> bool:
    return isinstance(value, dict) and (value.get("include_usage") is None or isinstance(value["include_usage"], bool))


def _rules(read: dict[str, Any], *, chat: bool, model: str) -> bool:
    limits = {
        "max_tokens": (1, _LONGEST),
        "max_completion_tokens": (1, _LONGEST),
        "min_tokens": (0, _LONGEST),
        "n": (1, 128),
    }
    for name, (low, high) in limits.items():
        if read.get(name) is not None and not low <= read[name] <= high:
            return False
    limit = read.get("max_tokens")
    if chat and read.get("max_completion_tokens") is not None:
        limit = read["max_completion_tokens"]
    if read.get("min_tokens") is not None and limit is not None and read["min_tokens"] > limit:
        return False
    if read.get("stream_options") is not None and not read.get("stream"):
        return False
    asks = bool(read.get("messages")) if chat else _is_prompt(read.get("prompt"), read.get("n") or 1)
    return asks and read["model"] == model


def _is_prompt(prompt: object, choices: int) -> bool:
    if isinstance(prompt, str):
        return bool(prompt)
    if not isinstance(prompt, list) or not prompt:
        return False
    if _are_ids(prompt):
        return True
    texts = all(isinstance(each, str) and each for each in prompt)
    lists = all(isinstance(each, list) and each and _are_ids(each) for each in prompt)
    return (texts or lists) and len(prompt) * choices <= 4096


def _are_ids(items: list[object]) -> bool:
    return all(type(item) is int and 0 <= item < 2**31 for item in items)
