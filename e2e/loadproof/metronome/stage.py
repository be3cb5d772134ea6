"""What is one stage of an order, and how is it written as one argument?

`rate=20,duration_s=5,gap_s=1` or `concurrency=4,num_requests=60`: the words of `load.stages` in `expected.yaml`. A
plain `--rate` or `--concurrency` is a single stage. Left out: when a stage begins (`drive`), and which instants its
rate makes (`schedule`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt

from loadproof.errors import UsageProblem
from loadproof.plain_words import nearest

type Offsets = npt.NDArray[np.float64]
type Reschedule = Callable[[Offsets, float], Offsets]

_WHOLE = ("concurrency", "num_requests")
_KEYS = ("rate", "concurrency", "num_requests", "duration_s", "gap_s")


@dataclass(frozen=True, kw_only=True)
class Slots:
    """How slots are filled; the honest way is the default, all else is for the wrong kinds.

    `turnaround_s` from an answer's end to the slot's next send; `ramp_s` from the first slot's first send to the last
    one's; `waves`: nobody sends again before all have their answers; `lost`: slots that stop after half the requests.
    """

    turnaround_s: float = 0.0
    ramp_s: float = 0.0
    waves: bool = False
    lost: int = 0


HONEST_SLOTS = Slots()


@dataclass(frozen=True, kw_only=True)
class Stage:
    """Requests at a rate or a concurrency, so many or for so long, then `gap_s` without a send.

    `cap`: with a rate, how many are in flight at most. `reschedule`: what a wrong kind does to the offsets (ascending,
    seconds from the stage's start), given the rate; `slots` likewise.
    """

    rate_per_s: float | None = None
    concurrency: int | None = None
    num_requests: int | None = None
    duration_s: float | None = None
    gap_s: float = 0.0
    cap: int | None = None
    reschedule: tuple[Reschedule, ...] = ()
    slots: Slots = HONEST_SLOTS

    def __post_init__(self) -> None:
        """Refuse what says too much or too little."""
        if (self.rate_per_s is None) == (self.concurrency is None):
            raise UsageProblem("give either --rate (with --arrival) or --concurrency, and not both")
        if (self.num_requests is None) == (self.duration_s is None):
            raise UsageProblem("give either --num-requests or --duration-s, and not both")
        if self.cap is not None and self.rate_per_s is None:
            raise UsageProblem("--cap needs --rate: a concurrency is its own cap")

    @property
    def about(self) -> float | None:
        """How many requests it makes, give or take chance; None for a concurrency by duration."""
        if self.num_requests is not None or self.rate_per_s is None or self.duration_s is None:
            return self.num_requests
        return self.rate_per_s * self.duration_s

    @property
    def asked_span_s(self) -> float:
        """How long its schedule is by what was asked: `duration_s`, or the number by the rate; 0 for a concurrency."""
        if self.rate_per_s is None:
            return 0.0
        return (self.about or 0.0) / self.rate_per_s

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `key=value,...`. Raises `UsageProblem` for anything that is not a stage."""
        pairs = [part.partition("=") for part in text.replace(" ", "").split(",")]
        given = {key: value for key, _, value in pairs}
        if len(given) < len(pairs):
            raise UsageProblem(f"--stage {text!r}: a key stands there twice; give each once")
        numbers = {key: _number(text, key, value) for key, value in given.items()}
        for one, other in (("rate", "concurrency"), ("num_requests", "duration_s")):
            if (one in numbers) == (other in numbers):
                raise UsageProblem(f"--stage {text!r}: give either {one} or {other}, and not both")
        count, slots = numbers.get("num_requests"), numbers.get("concurrency")
        return cls(
            rate_per_s=numbers.get("rate"),
            concurrency=None if slots is None else int(slots),
            num_requests=None if count is None else int(count),
            duration_s=numbers.get("duration_s"),
            gap_s=numbers.get("gap_s", 0.0),
        )


def _number(text: str, key: str, value: str) -> float:
    if key not in _KEYS:
        raise UsageProblem(
            f"--stage {text!r}: no key {key!r}{nearest(key, _KEYS) or '; known are ' + ', '.join(_KEYS)}"
        )
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    least = 1.0 if key in _WHOLE else 0.0
    too_small = number < least or (number == 0 and key != "gap_s")
    if not math.isfinite(number) or too_small or (key in _WHOLE and number % 1):
        wanted = "a whole number of at least 1" if key in _WHOLE else "a number above 0"
        raise UsageProblem(
            f"--stage {text!r}: {key} must be {'0 or ' if key == 'gap_s' else ''}{wanted}, not {value!r}"
        )
    return number
