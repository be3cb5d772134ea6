"""What is the absorber told to do?

One frozen model, read from a case's `absorber:` block, a YAML file or flags. It says how the server
behaves and never what is expected of a tool. Only constant laws so far: a number is a constant, and a
mapping with a `law` key has its place here when the other laws come.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, le=3600, allow_inf_nan=False)]


class Profile(BaseModel):
    """The server's behaviour; times in seconds, lengths in tokens.

    `ttft_s`: from a request's arrival to its first token. `itl_s`: between two tokens of a stream.
    `output_tokens`: how long the model would talk if nobody stopped it (None: until `max_tokens`).
    `seed`: of everything drawn; constants draw nothing.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    ttft_s: Seconds = 0.0
    itl_s: Seconds = 0.0
    output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    def latency_s(self, tokens: int) -> float:
        """Return the asked time from arrival to last token of a reply of `tokens` tokens, in seconds."""
        return self.ttft_s + max(0, tokens - 1) * self.itl_s
