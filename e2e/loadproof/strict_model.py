"""What do the models of a case have in common?

They are frozen and strict, and allow no key that they do not know; and the numbers and sentences in them have bounds
far beyond any real run, which keep arithmetic on what was read free of overflow. Left out: every key.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _sentence(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be empty; write one sentence")
    return " ".join(text.split())


Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
Duration = Annotated[float, Field(gt=0, le=1e7, allow_inf_nan=False)]
Sentence = Annotated[str, AfterValidator(_sentence)]


class Strict(BaseModel):
    """A mapping of a case."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def exactly_one(self, first: str, second: str) -> None:
        """Raise ValueError unless one of two keys is given."""
        match (getattr(self, first), getattr(self, second)):
            case (None, None):
                raise ValueError(f"{first} or {second} is missing; give exactly one of them")
            case (one, other) if one is not None and other is not None:
                raise ValueError(f"both {first} and {second} are given; give exactly one of them")
