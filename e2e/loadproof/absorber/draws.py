"""Which uniform numbers belong to a request, whenever it arrives and whatever else arrives with it?

SHAKE-128 of (stream, block, seed, occurrence, choice, body digest), read as 64-bit words. Nothing is kept
between requests, so order and concurrency cannot matter; streams have different keys, so that what one draws
cannot shift another; and a longer output begins with the shorter one, so that the first draws of a stream do
not depend on how many are wanted. Left out: what is made of the numbers (`laws`, `plan`).
"""

from __future__ import annotations

import struct
from enum import IntEnum
from hashlib import shake_128

import numpy as np

from loadproof.absorber.laws import Floats

_KEY = struct.Struct("<QQI")
_PLACE = struct.Struct("<BI")
_WORD = np.dtype("<u8")
# 52 bits of a word become the fraction of a float from 1 to 2; half a step above the lower end, 0 stays out.
_SPARE_BITS, _ONE, _BELOW_ONE = np.uint64(12), np.uint64(0x3FF << 52), 1 - 2.0**-53


class Stream(IntEnum):
    """What is drawn. The numbers are part of every key: a new stream takes a new one."""

    FIRST = 0
    GAPS = 1
    LENGTH = 2


def key_of(seed: int, digest: bytes, occurrence: int, choice: int) -> bytes:
    """Return the key of one choice of one request; `occurrence` counts the earlier requests with the same body."""
    return _KEY.pack(seed, occurrence, choice) + digest


def uniforms(key: bytes, stream: Stream, count: int, block: int = 0) -> Floats:
    """Return `count` independent uniform numbers: the odd multiples of 2**-53 between 0 and 1."""
    raw = shake_128(_PLACE.pack(stream, block) + key).digest(8 * count)
    bits = (np.frombuffer(raw, _WORD) >> _SPARE_BITS) | _ONE
    return bits.view(np.float64) - _BELOW_ONE


def uniform(key: bytes, stream: Stream) -> float:
    """Return the first of `uniforms`, without the cost of an array."""
    word = int.from_bytes(shake_128(_PLACE.pack(stream, 0) + key).digest(8), "little")
    return ((word >> 12) + 0.5) * 2.0**-52
