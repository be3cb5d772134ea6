"""By which laws may a time or a length be drawn, and which value has a given probability below it?

Each law is a frozen, strict model with the parameters that people know, in the unit of the key that holds it
(seconds or tokens), and turns uniform numbers into values by its inverse distribution function: one uniform
number makes one value, so that a draw depends on its own number alone. Left out: where the uniform numbers
come from (`draws`), and the rounding and bounds of what is drawn (`plan`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainSerializer, Strict

type Floats = NDArray[np.float64]

MOST_VALUES = 1000  # a profile travels to the absorber as one argument of a command, and those are bounded

Spread = Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)]
Shape = Annotated[float, Field(ge=0.01, le=1_000_000, allow_inf_nan=False)]
Sigma = Annotated[float, Field(gt=0, le=5, allow_inf_nan=False)]


class Law(BaseModel):
    """What the laws have in common."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    def model_post_init(self, _context: object) -> None:
        """Load what draws: half a second and 20 MB, which constants save and the first request must not pay."""
        _ = scipy.special  # scipy loads its parts when they are first named

    @property
    @abstractmethod
    def average(self) -> float:
        """The mean of what is drawn, before rounding and bounds."""

    @abstractmethod
    def _inverse(self, u: Any) -> Any:
        """Return the value with the probability `u` below it: a number for a number, an array for an array."""

    def quantile(self, u: float) -> float:
        """Return the value with the probability `u` below it; `u` lies strictly between 0 and 1."""
        return float(self._inverse(u))

    def quantiles(self, u: Floats) -> Floats:
        """Return `quantile` of each."""
        return np.asarray(self._inverse(u), dtype=np.float64)


class Normal[Amount: float](Law):
    """The normal law, cut off at 0.

    What lies below 0 is drawn again, as it were: it is neither moved to 0 nor mirrored. So the mean of what is
    drawn is above `mean`: by 29 % at mean = std, by 2.8 % at mean = 2 std, by 0.003 % at mean = 4 std.
    """

    law: Literal["normal"] = "normal"
    mean: Amount
    std: Spread

    @property
    def average(self) -> float:
        """The mean plus std * pdf(mean / std) / cdf(mean / std), of the standard normal law."""
        z = self.mean / self.std
        return self.mean + self.std * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / float(scipy.special.ndtr(z))

    @cached_property
    def _below_0(self) -> float:
        return float(scipy.special.ndtr(-self.mean / self.std))

    def _inverse(self, u: Any) -> Any:
        # By rounding, what is nearest to 0 may come out on its other side, by 1e-12 s at most.
        return self.mean + self.std * scipy.special.ndtri(self._below_0 + u * (1 - self._below_0))


class Lognormal[Amount: float](Law):
    """The lognormal law: half of the draws are below `median`, and the natural logarithm has deviation `sigma`."""

    law: Literal["lognormal"] = "lognormal"
    median: Amount
    sigma: Sigma

    @property
    def average(self) -> float:
        """The median times exp(sigma^2 / 2)."""
        return self.median * math.exp(self.sigma**2 / 2)

    def _inverse(self, u: Any) -> Any:
        return self.median * np.exp(self.sigma * scipy.special.ndtri(u))


class Gamma[Amount: float](Law):
    """The gamma law; its deviation is mean / sqrt(shape), so that shape 1 is the exponential law."""

    law: Literal["gamma"] = "gamma"
    mean: Amount
    shape: Shape

    @property
    def average(self) -> float:
        """The parameter `mean`."""
        return self.mean

    def _inverse(self, u: Any) -> Any:
        return self.mean / self.shape * scipy.special.gammaincinv(self.shape, u)


def _some[T](values: tuple[T, ...]) -> tuple[T, ...]:
    if not 1 <= len(values) <= MOST_VALUES:
        raise ValueError(f"must hold 1 to {MOST_VALUES} values, got {len(values)}")
    return values


class Empirical[Amount: float](Law):
    """One of `values`, each as likely as the others; a value that stands there twice is twice as likely."""

    law: Literal["empirical"] = "empirical"
    values: Annotated[
        # A list in YAML and in JSON, so it is one in a dump, too; the model itself must not change.
        tuple[Amount, ...], Strict(strict=False), AfterValidator(_some), PlainSerializer(list)
    ]  # fmt: skip

    @property
    def average(self) -> float:
        """The mean of the values."""
        return math.fsum(self.values) / len(self.values)

    @cached_property
    def _sorted(self) -> Floats:
        return np.sort(np.asarray(self.values, dtype=np.float64))

    def _inverse(self, u: Any) -> Any:
        return self._sorted[np.floor(u * len(self.values)).astype(np.intp)]
