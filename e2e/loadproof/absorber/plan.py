"""What will be written to this request, and when? A pure function of profile and request.

Times are offsets from the request's arrival, in nanoseconds; the server adds the arrival once, so a late
loop shows as lateness and does not shift the plan. Constants only so far; a law will draw here, keyed by
(seed, body digest, occurrence).
"""

from __future__ import annotations

import msgspec

from loadproof.absorber.profile import Profile

DEFAULT_MAX_TOKENS = 16  # what OpenAI's completions API takes where a request says nothing


class Plan(msgspec.Struct, frozen=True):
    """A reply of `tokens` tokens; token k is due `first_ns + k * gap_ns` after arrival.

    `finish_reason` is "length" when `max_tokens` ended it and "stop" when the model did.
    """

    tokens: int
    finish_reason: str
    first_ns: int
    gap_ns: int

    def due_ns(self, index: int) -> int:
        """Return the offset of token `index` (0-based) from arrival, in nanoseconds."""
        return self.first_ns + index * self.gap_ns


def plan_reply(profile: Profile, *, max_tokens: int | None, min_tokens: int, ignore_eos: bool) -> Plan:
    """Return the plan; `max_tokens` None means that the request did not say.

    The model stops by itself after `profile.output_tokens` unless `ignore_eos`, never before `min_tokens`.
    """
    talks = profile.output_tokens
    limit = max_tokens if max_tokens is not None else max(talks or DEFAULT_MAX_TOKENS, min_tokens)
    stops_itself = talks is not None and not ignore_eos and max(talks, min_tokens) < limit
    tokens = max(talks or 0, min_tokens) if stops_itself else limit
    own_end = stops_itself or (max_tokens is None and talks is not None and not ignore_eos)
    return Plan(tokens, "stop" if own_end else "length", round(profile.ttft_s * 1e9), round(profile.itl_s * 1e9))
