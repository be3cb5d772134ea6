"""Which of the requests are wrong, and what do they say, in words?

A failure is understood by its pattern: the first three, every third, all from the 301st on. Left out: what is right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from loadproof.checks.question import exact
from loadproof.load.labels import Bools, Labels
from loadproof.load.offered import spread
from loadproof.verdict import Finding

_MOST_TOLD = 3


def verdict_on(
    check: str, requirement: str, expected: str, measured: str, *, right: bool, n: int, detail: str
) -> Finding:
    """Return an exact finding; of no requests at all nothing is right."""
    found = exact(check, requirement, "", "" if right else "wrong", n=n, detail=detail)
    return replace(found, expected=expected, measured=measured)


def which(wrong: Bools) -> str:
    """Say which of the requests, in order of arrival: "every request", "the last 3", "every 3rd request"."""
    n, places = len(wrong), np.flatnonzero(wrong)
    k = len(places)
    if k in {0, n}:
        return "every request" if k else "no request"
    if k > n / 2 and (step := _step(np.flatnonzero(~wrong), n)):
        return f"every request but each {ordinal(step)}"
    first, last = int(places[0]), int(places[-1])
    if last - first + 1 == k and (first == 0 or last == n - 1):
        said = "the first" if first == 0 else "the last"
        return f"{said} request" if k == 1 else f"{said} {k}"
    if step := _step(places, n):
        return f"every {ordinal(step)} request"
    if k <= 2:
        return " and ".join(f"the {ordinal(int(place) + 1)}" for place in places) + f" of {n}"
    where = f"the {ordinal(first + 1)} to the {ordinal(last + 1)}"
    return where if last - first + 1 == k else f"{k} of {n}, from {where}"


def _step(places: np.ndarray[tuple[int], np.dtype[np.intp]], n: int) -> int:
    """Return the step of places that are equally far from each other from one end to the other, else 0."""
    if len(places) < 3:
        return 0
    steps = np.diff(places)
    step = int(steps[0])
    whole = places[0] < step and places[-1] + step >= n
    return step if step > 1 and whole and bool(np.all(steps == step)) else 0


def ordinal(number: int) -> str:
    """Return the number as one counts places: 1st, 2nd, 3rd, 4th, 11th."""
    ends = {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{'th' if number // 10 % 10 == 1 else ends.get(number % 10, 'th')}"


def times(count: int) -> str:
    """Say how often."""
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


def said_instead(values: Sequence[Any], where: Callable[[Any], Bools], what: Callable[[Any], str] | None = None) -> str:
    """Say what some requests have instead of what was asked, a few values: "15 in every 50th request"."""
    named = what or (lambda value: "missing" if value is None else spread({value: 1}).removesuffix(" x 1"))
    told = [f"{named(value)} in {which(where(value))}" for value in values[:_MOST_TOLD]]
    more = [f"{len(values) - _MOST_TOLD} other values"] if len(values) > _MOST_TOLD else []
    return ", ".join(told + more)


def wrong_labels(labels: Labels, right: Callable[[Any], bool]) -> str:
    """Say which values that are not `right` the requests have, the commonest first."""
    return said_instead([value for value, _ in labels.counts().most_common() if not right(value)], labels.equal)
