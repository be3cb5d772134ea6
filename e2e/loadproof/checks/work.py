"""Which fields of a request change how much work it is for a server, and which values of them change nothing?

As the completions and chat completions of OpenAI know them, with the names that the open servers of that API add. Left
out: fields that have a key of their own in a case; sampling by `temperature`, `top_p`, `top_k` and `min_p`,
which draws other tokens at the same cost; and the size of a reply's text (`stream_options`, token ids).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

CHANGES_WORK: Mapping[str, tuple[Any, ...]] = {
    # how many replies
    "n": (1,), "best_of": (1,), "use_beam_search": (False,), "echo": (False,), "prediction": (),
    # where a reply ends
    "min_tokens": (0,), "stop": (), "stop_token_ids": (), "stop_regex": (), "bad_words": (), "max_new_tokens": (),
    "repetition_detection": (), "thinking_token_budget": (-1,), "reasoning_effort": (), "reasoning": (),
    # what is computed beside the tokens
    "logprobs": (False,), "top_logprobs": (0,), "prompt_logprobs": (False,), "logprob_token_ids": (),
    "return_hidden_states": (False,), "decoder_input_details": (False,),
    # what bounds or weighs each token
    "response_format": ({"type": "text"},), "structured_outputs": (), "json_schema": (), "regex": (), "ebnf": (),
    "grammar": (), "tools": (), "tool_choice": ("none", "auto"), "functions": (), "function_call": ("none", "auto"),
    "logit_bias": (), "logits_processors": (), "allowed_token_ids": (), "custom_logit_processor": (),
    "repetition_penalty": (1,), "length_penalty": (1,), "presence_penalty": (0,), "frequency_penalty": (0,),
    "typical_p": (1,), "watermark": (False,), "watermarking": (False,),
    # what the prompt becomes
    "suffix": (), "truncate_prompt_tokens": (-1,), "truncate": (), "prompt_embeds": (), "documents": (),
    "chat_template": (), "chat_template_kwargs": (), "add_generation_prompt": (True,),
    "continue_final_message": (False,), "mm_processor_kwargs": (), "modalities": (["text"],), "audio": (),
    "web_search_options": (),
    # where, when and with what it is served
    "priority": (0,), "service_tier": ("auto", "default"), "kv_transfer_params": (), "ec_transfer_params": (),
    "cache_salt": (), "lora_path": (), "data_parallel_rank": (), "stream_interval": (1,),
}  # fmt: skip
"""The values that are no change, beside null, an empty text, list and mapping."""

FAMILIES = re.compile(r"guided_.*|bootstrap_.*|.*_xargs")
"""Names of this form change the work, too."""

BY_API: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "completions": {"add_special_tokens": (True,)},
    "chat": {"add_special_tokens": (False,)},  # the template has them
}

OF_A_REQUEST = frozenset({
    "seed", "user", "request_id", "rid", "session_id", "metadata", "safety_identifier", "prompt_cache_key",
})  # fmt: skip
"""Fields that name a request or its user, or seed its draws: honest ones differ from request to request."""

SAMPLING = frozenset({"temperature", "top_p", "top_k", "min_p"})


_EMPTY: tuple[Any, ...] = (None, "", [], {})


@cache
def neutral(name: str, api: str) -> frozenset[bytes] | None:
    """Return the values, as JSON, with which a request is the same work as without this field; None where all are."""
    if name not in CHANGES_WORK and name not in BY_API[api] and not FAMILIES.fullmatch(name):
        return None
    values = (*CHANGES_WORK.get(name, ()), *BY_API[api].get(name, ()), *_EMPTY)
    return frozenset(json.dumps(value, sort_keys=True).encode() for value in values)


def changes_work(name: str, value: bytes, api: str) -> bool:
    """Does this field with this value, as JSON, make a request more, less or other work than without it?"""
    known = neutral(name, api)
    return known is not None and value not in known


def asks_nothing(name: str, value: bytes, api: str) -> bool:
    """Is a request with this field the same as one without it, as far as this list knows?"""
    return value in {b"null", b"[]", b"{}"} or value in (neutral(name, api) or ())


def same(one: object, other: object) -> bool:
    """Are two JSON values the same? A whole number is the same as 1 and as 1.0, and true is no number."""
    match one, other:
        case bool(), _:
            return one is other
        case _, bool():
            return False
        case dict(), dict():
            return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
        case list(), list():
            return len(one) == len(other) and all(map(same, one, other))
    return one == other
