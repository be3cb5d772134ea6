"""How long are the requests, in tokens: all alike, within bounds, or so many of each length?

`128`, `{min: 64, max: 256}`, or `{counts: {"64": 300, "256": 300}}`. Left out: in which order they come, and which
length of an answer goes with which length of a prompt.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag, model_validator

from loadproof.plain_words import LocatedProblems, Problem, shown
from loadproof.strict_model import Count, Strict

_LARGEST = 1_000_000_000


def _length(key: object) -> object:
    if isinstance(key, str):
        if not re.fullmatch(r"[1-9][0-9]{0,9}", key) or int(key) > _LARGEST:
            raise ValueError(f"a length must be a whole number from 1 to {_LARGEST}, got {shown(key)}")
        return int(key)
    return key


def _at_least_one(counts: dict[int, int]) -> dict[int, int]:
    if not counts:
        raise ValueError("must not be empty; say how many requests have each length")
    return counts


class Between(Strict):
    """Each request has a length from `min` to `max`, both included."""

    min: Count
    max: Count

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.min > self.max:
            raise LocatedProblems([Problem(("max",), f"must be at least the min of {self.min}, got {self.max}")])
        return self


class Counted(Strict):
    """Exactly so many requests have each length."""

    counts: Annotated[dict[Annotated[int, BeforeValidator(_length)], Count], AfterValidator(_at_least_one)]

    @property
    def requests(self) -> int:
        """How many requests there are."""
        return sum(self.counts.values())

    @property
    def tokens(self) -> int:
        """How many tokens they have together."""
        return sum(length * count for length, count in self.counts.items())


def _number_or_mapping(value: object) -> object:
    """Refuse what is neither, in words: pydantic would tell what is wrong with it as each of them."""
    if isinstance(value, Strict) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if not isinstance(value, dict) or not value:
        raise ValueError(f"expected a whole number, {{min, max}} or {{counts}}, got {shown(value)}{_meant(value)}")
    if "counts" in value and not value.keys().isdisjoint({"min", "max"}):
        raise ValueError("both min or max and counts are given; give bounds or counts")
    return value


def _meant(value: object) -> str:
    number = re.fullmatch(r"\s*(\d+)(\.0+)?\s*", str(value)) if isinstance(value, str | float) else None
    return f"; did you mean {number[1]}?" if number else ""


def _branch(value: object) -> str:
    """Return which of the forms a value has."""
    if isinstance(value, dict):
        bounds = any(str(key).lower().startswith(("min", "max")) for key in value)
        return "Between" if bounds else "Counted"
    return type(value).__name__ if isinstance(value, Strict) else "number"


Lengths = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Between, Tag("Between")] | Annotated[Counted, Tag("Counted")],
    Discriminator(_branch), BeforeValidator(_number_or_mapping),
]  # fmt: skip


def average(lengths: int | Between | Counted) -> float:
    """Return the mean length in tokens; within bounds, the middle of them."""
    match lengths:
        case Between():
            return (lengths.min + lengths.max) / 2
        case Counted():
            return lengths.tokens / lengths.requests
    return lengths


def longest(lengths: int | Between | Counted) -> int:
    """Return the largest length in tokens."""
    match lengths:
        case Between():
            return lengths.max
        case Counted():
            return max(lengths.counts)
    return lengths


def counts_for(lengths: int | Between | Counted, n: int) -> Counter[int] | None:
    """Return how many of n requests have each length, None within bounds, where nobody knows."""
    match lengths:
        case Between():
            return None
        case Counted():
            return Counter(lengths.counts)
    return Counter({lengths: n} if n else {})
