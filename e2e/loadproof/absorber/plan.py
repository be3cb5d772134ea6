"""What will be written to this request, and when? A pure function of profile and request.

Times are offsets from the request's arrival, in nanoseconds; the server adds the arrival once, so a late
loop shows as lateness and does not shift the plan. What a law decides is drawn from the request's own numbers
(`draws`): rounded to whole nanoseconds or tokens, and kept within the bounds that constants have, too.
"""

from __future__ import annotations

from array import array
from functools import lru_cache

import msgspec
import numpy as np

from loadproof.absorber.draws import Stream, key_of, uniform, uniforms
from loadproof.absorber.laws import Law
from loadproof.absorber.profile import LONGEST_S, MOST_TOKENS, Profile

DEFAULT_MAX_TOKENS = 16  # what OpenAI's completions API takes where a request says nothing
GAPS_AT_ONCE = 1024  # a very long reply is drawn as it goes on, so that no single call holds the loop
PLANS_KEPT = 4096


class DrawnGaps:
    """The gaps of one reply of `tokens` tokens, drawn in blocks when they are asked for."""

    __slots__ = ("_key", "_law", "_offsets", "_tokens")

    def __init__(self, law: Law, key: bytes, tokens: int) -> None:
        self._law, self._key, self._tokens = law, key, tokens
        self._offsets = array("q", (0,))

    def until(self, index: int) -> int:
        """Return the sum of the gaps before token `index`, in nanoseconds. Raises IndexError from `tokens` on."""
        while index >= len(self._offsets):
            self._draw_block()
        return self._offsets[index]

    def _draw_block(self) -> None:
        drawn = len(self._offsets) - 1
        count = min(GAPS_AT_ONCE, self._tokens - 1 - drawn)
        if count <= 0:
            raise IndexError(f"this reply has {self._tokens} tokens")
        gaps = self._law.quantiles(uniforms(self._key, Stream.GAPS, count, drawn // GAPS_AT_ONCE))
        gaps_ns = np.rint(np.minimum(gaps, LONGEST_S) * 1e9).astype(np.int64)
        if drawn:
            gaps_ns[0] += self._offsets[-1]
        self._offsets.frombytes(np.add.accumulate(gaps_ns).tobytes())


class Plan(msgspec.Struct, frozen=True):
    """A reply of `tokens` tokens; token k is due `due_ns(k)` after arrival, the first one at `first_ns`.

    `finish_reason` is "length" when `max_tokens` ended it and "stop" when the model did. Between two tokens lie
    `gap_ns`, or what was drawn.
    """

    tokens: int
    finish_reason: str
    first_ns: int
    gap_ns: int = 0
    drawn: DrawnGaps | None = None

    def due_ns(self, index: int) -> int:
        """Return the offset of token `index` (0-based, below `tokens`) from arrival, in nanoseconds."""
        if self.drawn is None:
            return self.first_ns + index * self.gap_ns
        return self.first_ns + self.drawn.until(index)


def plan_reply(
    profile: Profile, *, max_tokens: int | None, min_tokens: int, ignore_eos: bool, digest: bytes = b"",
    occurrence: int = 0, choice: int = 0,
) -> Plan:  # fmt: skip
    """Return the plan; `max_tokens` None means that the request did not say.

    The model stops by itself after `profile.output_tokens` unless `ignore_eos`, never before `min_tokens`.
    `digest` is the body's and matters only where the profile draws; `occurrence` counts the earlier requests
    with that body, `choice` is the index among several replies to one request. Raises ValueError where a
    profile draws and there is no digest: all replies would be the same.
    """
    if not profile.draws:
        return _constant(profile, max_tokens, min_tokens, ignore_eos)
    if not digest:
        raise ValueError("a profile that draws needs the digest of the request's body")
    key = key_of(profile.seed, digest, occurrence, choice)
    return _plan(profile, max_tokens, min_tokens, ignore_eos, key)


def _plan(profile: Profile, max_tokens: int | None, min_tokens: int, ignore_eos: bool, key: bytes = b"") -> Plan:  # noqa: FBT001 -- a cache's key
    talks, gap = _talks(profile.output_tokens, key), profile.itl_s
    if profile.precompiled and talks is not None:
        return Plan(talks, "stop", 0)
    tokens, reason = _length(talks, max_tokens, min_tokens, ignore_eos=ignore_eos)
    first_ns = _first_ns(profile.ttft_s, key)
    if isinstance(gap, Law):
        return Plan(tokens, reason, first_ns, drawn=DrawnGaps(gap, key, tokens))
    return Plan(tokens, reason, first_ns, round(gap * 1e9))


_constant = lru_cache(PLANS_KEPT)(_plan)


def _talks(amount: int | Law | None, key: bytes) -> int | None:
    if not isinstance(amount, Law):
        return amount
    return min(max(1, round(amount.quantile(uniform(key, Stream.LENGTH)))), MOST_TOKENS)


def _first_ns(amount: float | Law, key: bytes) -> int:
    seconds = amount.quantile(uniform(key, Stream.FIRST)) if isinstance(amount, Law) else amount
    return round(min(seconds, LONGEST_S) * 1e9)


def _length(talks: int | None, max_tokens: int | None, min_tokens: int, *, ignore_eos: bool) -> tuple[int, str]:
    """Return how many tokens a model that would stop after `talks` says, and why it ends there."""
    limit = max_tokens if max_tokens is not None else max(talks or DEFAULT_MAX_TOKENS, min_tokens)
    stops_itself = talks is not None and not ignore_eos and max(talks, min_tokens) < limit
    tokens = max(talks or 0, min_tokens) if stops_itself else limit
    own_end = stops_itself or (max_tokens is None and talks is not None and not ignore_eos)
    return tokens, "stop" if own_end else "length"
