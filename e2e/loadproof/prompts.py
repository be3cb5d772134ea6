"""Which prompt does a body hold, and with which beginnings?

The prompt's bytes are its text; of a chat each message's role and content on lines of their own; of anything else its
JSON. A beginning is the first `PREFIXES[k]` bytes, told by a multilinear hash of 64 bits (Lemire and Kaser, Strongly
universal string hashing is fast, 2014) over words of 32 bits: two texts that differ have the same one with a
probability of about 2^-60. Left out: tokens, whose blocks a server's cache counts by; 64 bytes are some 16 of them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, starmap

import numpy as np
import pyarrow as pa

PREFIXES = tuple(size << k for k in range(14) for size in (64, 96))
"""Lengths of beginnings in bytes, ascending: 64, 96, 128, 192, … 786,432; each at most half as long again."""

_WORD = 4
_BLOCK_BYTES = 256 * 1024  # of text that is hashed at a time: what is in a core's own cache is hashed in half the time
type _Words = np.ndarray[tuple[int], np.dtype[np.uint64]]
type _Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


def prompt_bytes(fields: dict[str, object]) -> bytes | None:
    """Return the prompt of a body's fields, None where there is none."""
    messages = fields.get("messages")
    if isinstance(messages, list):
        return b"".join(map(_message, messages))
    prompt = fields.get("prompt")
    return None if prompt is None else _bytes(prompt)


def _message(message: object) -> bytes:
    if not isinstance(message, dict):
        return _bytes(message) + b"\n"
    return _bytes(message.get("role")) + b"\n" + _bytes(message.get("content")) + b"\n"


def _bytes(value: object) -> bytes:
    # JSON can spell a lone surrogate, which UTF-8 cannot
    return (value if isinstance(value, str) else json.dumps(value)).encode("utf-8", "surrogatepass")


def prompt_columns(prompts: Sequence[bytes | None]) -> dict[str, pa.Array]:
    """Return `prompt_digest` (binary(16), null: none) and `prefix_digests` (list of uint64, one a length that fits)."""
    digests = [None if prompt is None else hashlib.sha256(prompt).digest()[:16] for prompt in prompts]
    return {"prompt_digest": pa.array(digests, pa.binary(16)), "prefix_digests": _prefixes(prompts)}


def _prefixes(prompts: Sequence[bytes | None]) -> pa.ListArray:
    sizes = np.array([0 if prompt is None else len(prompt) for prompt in prompts], np.int64)
    ladder = np.array(PREFIXES, np.int64)
    counts = np.searchsorted(ladder, sizes, side="right")
    kept = np.where(counts > 0, ladder[np.maximum(counts - 1, 0)], 0)  # no byte behind the longest beginning counts
    blocks = np.cumsum(kept) // _BLOCK_BYTES
    stops = (np.flatnonzero(np.diff(blocks)) + 1).tolist()
    values = [np.empty(0, np.uint64)]
    for block in starmap(slice, pairwise([0, *stops, len(prompts)])):
        texts = [(prompt or b"")[:size] for prompt, size in zip(prompts[block], kept[block].tolist(), strict=True)]
        values.append(_hashes(b"".join(texts), kept[block] // _WORD, counts[block], ladder // _WORD))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values)))


def _hashes(text: bytes, lengths: _Ints, counts: _Ints, ladder: _Ints) -> _Words:
    """Return the hashes of the first `counts` beginnings of each of the texts, one after another.

    A hash is the sum modulo 2^64 of each word times the multiplier of its place. `text` holds them all, of so many
    words each; `ladder` has the lengths of the beginnings in words.
    """
    words = np.frombuffer(text, "<u4").astype(np.uint64)
    begins = np.cumsum(lengths) - lengths
    sums = np.zeros(len(words) + 1, np.uint64)
    np.cumsum(words * _multipliers()[np.arange(len(words)) - np.repeat(begins, lengths)], out=sums[1:])
    rows = np.repeat(np.arange(len(lengths)), counts)
    rung = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    hashes: _Words = sums[begins[rows] + ladder[rung]] - sums[begins[rows]]
    return hashes


@cache
def _multipliers() -> _Words:
    """Return an odd number of 64 bits for each place: the splitmix64 sequence (Steele, Lea and Flood, 2014)."""
    mixed = np.arange(1, PREFIXES[-1] // _WORD + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (mixed ^ (mixed >> np.uint64(31))) | np.uint64(1)
