"""By which law does a tool space its requests, as a case declares it?

One value, parsed from the text in `expected.yaml` and written back as that text. Left out: what the laws
mean for a measurement (the checks), and how a sender draws from them (the reference sender).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from loadproof.plain_words import nearest, shown


class Law(StrEnum):
    """The laws by which a tool may space its requests; a fixed span is exponential or gamma gaps rescaled to it."""

    CONSTANT = "constant"
    FIXED_SPAN = "fixed-span"
    POISSON = "poisson"
    GAMMA = "gamma"


SMALLEST_SPAN_S = {Law.CONSTANT: 2.0, Law.FIXED_SPAN: 5.0, Law.POISSON: 1.0, Law.GAMMA: 1.0}
"""From which span on, in seconds, a rate of such arrivals can be judged at all."""

SMALLEST_N = 50
"""From how many requests on."""

FORMS = "constant, fixed-span, fixed-span(shape), poisson, gamma(shape)"


@dataclass(frozen=True)
class Arrival:
    """How a tool spaces its requests: a law, and the shape of its gamma gaps.

    `shape` is 1.0 (exponential gaps) for `fixed-span` and `poisson`, and without meaning for `constant`.
    """

    law: Law
    shape: float = 1.0

    @classmethod
    def parse(cls, text: object) -> Self:
        """Read `constant`, `fixed-span`, `fixed-span(shape)`, `poisson` or `gamma(shape)`.

        Raises:
            ValueError: none of these, or the shape is not a positive number.
        """
        if isinstance(text, cls):
            return text
        match = re.fullmatch(r"([^()]*)(?:\(([^()]*)\))?", text) if isinstance(text, str) else None
        name, shape = (match[1].strip(), match[2]) if match else ("", None)
        if name not in set(Law):
            raise ValueError(f"expected one of {FORMS}, got {shown(text)}{_meant(text, name)}")
        law = Law(name)
        if shape is None and law is Law.GAMMA:
            raise ValueError("gamma needs the shape of its gaps, as in gamma(0.5)")
        if shape is not None and law in {Law.CONSTANT, Law.POISSON}:
            raise ValueError(f"{law} takes no shape, got {shown(text)}; did you mean '{law}'?")
        return cls(law) if shape is None else cls(law, _shape(shape))

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        plain = self.law is not Law.GAMMA and self.shape == 1.0
        return self.law.value if plain else f"{self.law}({repr(self.shape).removesuffix('.0')})"


def _meant(text: object, name: str) -> str:
    """Return the form that was meant by `gamma 0.5`, `gamma[0.5]` or `{law: gamma, shape: 0.5}`, else the nearest."""
    written = " ".join(str(part) for part in text.values()) if isinstance(text, dict) else str(text)
    parts = re.fullmatch(r"(fixed-span|gamma)[^\w.]+([\d.]+)[^\w.]*", written)
    return f"; did you mean '{parts[1]}({parts[2]})'?" if parts else nearest(name, Law)


def _shape(text: str) -> float:
    try:
        shape = float(text)
    except ValueError:
        shape = math.nan
    if not 0 < shape < math.inf:
        raise ValueError(f"the shape of the gaps must be a number greater than 0, got {shown(text)}")
    return shape
