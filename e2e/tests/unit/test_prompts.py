"""Is a prompt found in every kind of body, and are its beginnings told apart where they differ and only there?"""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadproof import prompts
from loadproof.prompts import PREFIXES, prompt_bytes, prompt_columns
from loadproof.raw_request import asked_columns

MASK = 2**64 - 1


def multiplier(place: int) -> int:
    """Return the place-th number of splitmix64 from the state 0, made odd."""
    mixed = (place + 1) * 0x9E3779B97F4A7C15 & MASK
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & MASK
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & MASK
    return (mixed ^ mixed >> 31) | 1


def hashed(prompt: bytes | None) -> list[int]:
    """Return the hashes of a prompt's beginnings, word by word."""
    sizes = [size for size in PREFIXES if prompt is not None and size <= len(prompt)]
    found, total = [], 0
    for place in range(sizes[-1] // 4 if sizes else 0):
        total += int.from_bytes((prompt or b"")[4 * place : 4 * place + 4], "little") * multiplier(place)
        if 4 * (place + 1) in sizes:
            found.append(total & MASK)
    return found


def prefixes(*texts: bytes | None) -> list[list[int]]:
    column: pa.Array = prompt_columns(texts)["prefix_digests"]
    assert column.type == pa.list_(pa.uint64())
    return [list(row) for row in column.to_pylist()]


def text(size: int, seed: int = 0) -> bytes:
    return np.random.default_rng(seed).bytes(size)


def test_beginnings_have_the_lengths_that_are_told() -> None:
    assert PREFIXES[:6] == (64, 96, 128, 192, 256, 384)
    assert PREFIXES[-1] == 786_432
    assert all(a < b <= 1.5 * a and b % 4 == 0 for a, b in pairwise(PREFIXES))


@settings(derandomize=True, max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.tuples(st.sampled_from([0, 1, 63, 64, 65, 95, 96, 97, 128, 400]), st.integers(0, 3))),
        max_size=12,
    ),
    st.sampled_from([1, 64, 300, 2**18]),
)
def test_hashes_are_those_of_plain_integers(sizes: list[tuple[int, int] | None], block: int) -> None:
    texts = [None if size is None else text(*size) for size in sizes]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(prompts, "_BLOCK_BYTES", block)
        assert prefixes(*texts) == [hashed(each) for each in texts]


def test_the_end_of_a_prompt_beyond_the_longest_beginning_does_not_count() -> None:
    long = text(2**20 + 5)
    other = long[: PREFIXES[-1]] + b"another end"
    shorter = long[: PREFIXES[-1] - 1]
    first, second, third = prefixes(long, other, shorter)
    assert first == second == hashed(long)
    assert len(first) == len(PREFIXES)
    assert third == first[:-1]
    digests = prompt_columns([long, other])["prompt_digest"].to_pylist()
    assert digests == [hashlib.sha256(each).digest()[:16] for each in (long, other)]


@pytest.mark.parametrize("shared", [0, 1, 63, 64, 65, 95, 96, 97, 127, 128, 191, 192, 511, 512, 513])
def test_two_prompts_share_the_beginnings_that_lie_in_what_they_share(shared: int) -> None:
    one, other = text(800), bytearray(text(800))
    other[shared] ^= 1  # the smallest difference, at the first byte that is not shared
    ours, theirs = prefixes(one, bytes(other))
    equal = [size for size, a, b in zip(PREFIXES, ours, theirs, strict=False) if a == b]
    assert equal == [size for size in PREFIXES if size <= shared]


def test_the_same_words_in_another_order_have_another_hash() -> None:
    one = text(64)
    swapped = one[4:8] + one[:4] + one[8:]
    ours, theirs = prefixes(one, swapped)
    assert ours != theirs


@pytest.mark.parametrize(
    ("fields", "prompt"),
    [
        ({}, None),
        ({"prompt": None}, None),
        ({"prompt": ""}, b""),
        ({"prompt": "a\u6771"}, "a\u6771".encode()),
        ({"prompt": "x\udfff"}, b"x\xed\xbf\xbf"),
        ({"prompt": [2, 50, 60]}, b"[2, 50, 60]"),
        ({"prompt": ["a", "b"]}, b'["a", "b"]'),
        ({"prompt": ["a, b"]}, b'["a, b"]'),
        ({"messages": []}, b""),
        ({"messages": [{"role": "user", "content": "Hi."}]}, b"user\nHi.\n"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, b"user\n\xed\xa0\x80\n"),
        ({"messages": [{"role": "a", "content": "b"}, {"content": "c"}]}, b"a\nb\nnull\nc\n"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
         b'user\n[{"type": "text", "text": "x"}]\n'),
        ({"messages": ["bare", 3]}, b"bare\n3\n"),
        ({"messages": "no list", "prompt": "p"}, b"p"),
    ],
)  # fmt: skip
def test_the_prompt_of_a_body(fields: dict[str, object], prompt: bytes | None) -> None:
    assert prompt_bytes(fields) == prompt


def test_columns_of_bodies_of_every_kind() -> None:
    head = b"POST /v1/completions HTTP/1.1\r\nA: b\r\n\r\n"
    bodies = [json.dumps({"prompt": "x" * 70, "n": 1}).encode(), b'{"prompt": "\\udfff"}', b"no json", b"[]",
              b'{"messages": [{"role": "user", "content": "Hi."}]}', b'{"x": 1e999, "prompt": [7]}']  # fmt: skip
    columns = asked_columns([head + body for body in bodies])
    wanted = [b"x" * 70, b"\xed\xbf\xbf", None, None, b"user\nHi.\n", b"[7]"]
    digests = [None if prompt is None else hashlib.sha256(prompt).digest()[:16] for prompt in wanted]
    assert columns["prompt_digest"].to_pylist() == digests
    assert columns["prefix_digests"].to_pylist() == [hashed(prompt) for prompt in wanted]
    assert [len(row) for row in columns["prefix_digests"].to_pylist()] == [1, 0, 0, 0, 0, 0]


def test_no_prompts_are_no_rows() -> None:
    assert {name: len(column) for name, column in prompt_columns([]).items()} == {
        "prompt_digest": 0, "prefix_digests": 0,
    }  # fmt: skip
