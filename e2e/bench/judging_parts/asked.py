"""What was the made run asked for?"""

from __future__ import annotations

import json
from pathlib import Path

from bench.judging_parts.made import BARE_TOKENS, RATE
from loadproof.case import Case
from loadproof.expected import Expected


def case_of(requests: int, max_tokens: int) -> Case:
    """Return a case of Poisson arrivals that the made run fits."""
    document = {
        "why": "A long run.",
        "workload": {"num_requests": requests, "prompt_tokens": BARE_TOKENS + 1, "max_tokens": max_tokens,
                     "stream": True, "ignore_eos": True, "unique_prompts": True},
        "load": {"mode": "rate", "rate": RATE},
        "tools": {"command": {"arrival": "poisson"}},
    }  # fmt: skip
    return Case(name="long", folder=Path("long"), expected=Expected.model_validate_json(json.dumps(document)))
