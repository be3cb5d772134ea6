"""Which JSON is no request of the OpenAI API, and which field is to blame? A table, used by `test_strictness`."""

from __future__ import annotations

import json
from typing import Any

from loadproof.absorber.recording import DEFAULT_MODEL as MODEL

MISSING: Any = object()
OK = {"role": "user", "content": "x"}
NAME = json.dumps(MODEL).encode()

PROMPTS: tuple[Any, ...] = (
    "", [], None, 7, {}, True, [""], ["a", ""], ["a", 1], ["a", [1]], [[1], "a"], [[1], []], [[]], [[[1]]], [None],
    [1, "x"], [-1], [True], [1.5], [2**31], [10**30], [[-1]], [[1], [True]], ["x"] * 4097,
)  # fmt: skip
LIMITS: tuple[Any, ...] = (
    0, -1, -(10**30), 1_000_001, 10**9, 10**19, 10**50, 10**4000, "16", 1.5, 1.0, True, [], {},
)  # fmt: skip
SHORTEST: tuple[Any, ...] = (-1, 1_000_001, "1", 0.5, False)
CHOICES: tuple[Any, ...] = (0, -1, 129, "2", 1.0, True)
NO_BOOL: tuple[Any, ...] = ("yes", 1, 0, [], {})
NO_OPTIONS: tuple[Any, ...] = (1, "x", [])

PRECOMPILED_TAKES: dict[str, Any] = {"n": 128, "max_tokens": 10_000, "ignore_eos": True}
"""What is too long for all but a precompiled reply, which is the same whatever is asked."""

FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"model": MISSING}, "model"),
    ({"model": 1}, "model"),
    ({"model": None}, "model"),
    ({"model": [MODEL]}, "model"),
    ({"prompt": MISSING}, "prompt"),
    *(({"prompt": wrong}, "prompt") for wrong in PROMPTS),
    *(({name: wrong}, name) for name in ("max_tokens", "max_completion_tokens") for wrong in LIMITS),
    *(({"min_tokens": wrong}, "min_tokens") for wrong in SHORTEST),
    ({"min_tokens": 9, "max_tokens": 8}, "min_tokens"),
    *(({"n": wrong}, "n") for wrong in CHOICES),
    (PRECOMPILED_TAKES, "n"),
    ({"n": 128, "prompt": ["x"] * 33}, "prompt"),
    *(({"stream": wrong}, "stream") for wrong in NO_BOOL),
    *(({"ignore_eos": wrong}, "ignore_eos") for wrong in NO_BOOL),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": False, "stream_options": {}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": "y"}}, "stream_options.include_usage"),
    *(({"stream": True, "stream_options": wrong}, "stream_options") for wrong in NO_OPTIONS),
]  # fmt: skip
MESSAGES: list[object] = [MISSING, [], None, "text", {}, 1, [1], [None], ["x"], [[OK]]]
ODD_MESSAGES: list[object] = [
    [{}],
    [{"role": "user", "content": None}],
    [{"role": "user", "content": 5}],
    [{"role": "user", "content": {"a": 1}}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "nobody", "content": "x"}],
    [{"role": 7, "content": "x"}],
    [OK, OK],
    [{"role": "system", "content": 5}, OK],
    [{"role": "system", "content": []}, OK],
]
"""What only the chat template refuses, which is asked where prompts are counted."""

NO_JSON = [
    b"", b" ", b"{", b"}", b"[]", b"null", b"1", b'"text"', b"\xff\xfe", b"\xef\xbb\xbf{}", b"{}{}", b"{'model': 1}",
    b'{"model": ' + NAME + b', "prompt": "\xff"}',
    b'{"model": ' + NAME + b', "prompt": "x", "other": "\xff"}',
    b'{"model": ' + NAME + b', "prompt": "x", "\xff": 1}',
    b'{"model": ' + NAME + b', "prompt": "x", "other": "\xed\xa0\x80"}',
    b'{"model": ' + NAME + b', "prompt": "\\ud800"}',
    b'{"model": ' + NAME + b', "prompt": "\\x"}',
    b'{"model": ' + NAME + b', "prompt": "x", "other": "\\x"}',
    b'{"model": ' + NAME + b', "prompt": "x", "other": "\\u12"}',
    b'{"model": ' + NAME + b', "prompt": "x", "other": "a\nb"}',
    b'{"model": ' + NAME + b', "prompt": "a\nb"}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": NaN}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": -Infinity}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": 01}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": 1.}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": .5}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": +1}',
    b'{"model": ' + NAME + b', "prompt": "x", "temperature": 1e}',
    b'{"model": ' + NAME + b', "prompt": "x", "max_tokens": 01}',
    b'{"model": ' + NAME + b', "prompt": "x",}',
    b'{"model": ' + NAME + b', "prompt": "x" "n": 1}',
    b'{"model": ' + NAME + b', "prompt": "x"} trailing',
    b'{"model": ' + NAME + b', "prompt": "x"}\0',
    b'{"model": ' + NAME + b', "prompt": ' + b"[" * 50_000,
    b'{"model": ' + NAME + b', "prompt": "x", "deep": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
]  # fmt: skip


def completion(fields: dict[str, Any]) -> bytes:
    return encoded({"model": MODEL, "prompt": "x", **fields})


def chat(messages: object, **fields: object) -> bytes:
    return encoded({"model": MODEL, "messages": messages, **fields})


def encoded(fields: dict[str, Any]) -> bytes:
    return json.dumps({name: value for name, value in fields.items() if value is not MISSING}).encode()
