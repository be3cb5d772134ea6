"""What does a tool say of itself, in one shape for all tools?

The form of `claims.json` (docs/own-tool.md), which a person's own tool may leave, and into which every
adapter reads its tool's files. Everything is optional: what a tool does not say is absent.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from loadproof.errors import BrokenRun

CLAIMS_FILE = "claims.json"


class Distribution(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Seconds, over the requests that succeeded."""

    mean: float | None = None
    p50: float | None = None
    p90: float | None = None
    p99: float | None = None


Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class Reported(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool's report; times in seconds, tokens are sums over the requests that succeeded."""

    tool: str = ""
    version: str = ""
    completed: Count | None = None
    failed: Count | None = None
    abandoned: Count | None = None
    duration_s: float | None = None
    request_rate_per_s: float | None = None
    ttft_s: Distribution | None = None
    itl_s: Distribution | None = None
    tpot_s: Distribution | None = None
    latency_s: Distribution | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None


UNITS = {
    "completed": "requests", "failed": "requests", "abandoned": "requests", "duration_s": "s",
    "request_rate_per_s": "/s", "ttft_s": "s", "itl_s": "s", "tpot_s": "s", "latency_s": "s",
    "input_tokens": "tokens", "output_tokens": "tokens",
}  # fmt: skip


def numbers(reported: Reported) -> dict[str, float]:
    """Return every number that is there: `completed`, …, `ttft_s.mean`, `ttft_s.p50` and so on."""
    flat: dict[str, float] = {}
    for name in UNITS:
        value = getattr(reported, name)
        if isinstance(value, Distribution):
            parts = {part: getattr(value, part) for part in value.__struct_fields__}
            flat |= {f"{name}.{part}": number for part, number in parts.items() if number is not None}
        elif value is not None:
            flat[name] = value
    return flat


def read_claims(path: Path) -> Reported:
    """Read a `claims.json`. Raises BrokenRun naming the field that is wrong."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reported)
    except OSError as error:
        raise BrokenRun(f"{path}: the claims cannot be read: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise BrokenRun(f"{path}: is not a claims file: {error}; its form is in docs/own-tool.md") from error
