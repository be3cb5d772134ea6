"""How is a wrong client told: what was asked, what was done instead, and which checks have to say so?

One row a kind (wrong_kinds.py has them all): `wrong` makes the journal, with what is here: another case's honest client
(`as_if`), another schedule (`rescheduled`), other calls (`doing`), other rows (`edited`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from loadproof.arrival import Arrival, Law
from loadproof.case import Case
from loadproof.expected import RateLoad
from loadproof.journal import Journal
from tests.unit import forge
from tests.unit.forge_client import calls_of, honest, recorded, replies
from tests.unit.forge_loops import Calls
from tests.unit.forge_times import Seconds, by_law, sent

type Rng = np.random.Generator
type Ask = Callable[[int], Case]
"""A case of n requests."""
type Wrong = Callable[[Case, Rng], Journal]


@dataclass(frozen=True)
class Kind:
    """A kind of wrong client.

    `ask` makes the case of n requests, `n` is from how many on the kind is seen, and `fails` are the checks that then
    fail, all of them. `also` may fail, too, for the reason `because`; nothing else may. A * stands for anything.
    `ended_s`: when the tool's process was gone, in seconds from the begin of the load, if that is known.
    """

    name: str
    ask: Ask
    n: int
    wrong: Wrong
    fails: frozenset[str]
    also: frozenset[str] = frozenset()
    because: str = ""
    ended_s: float | None = None

    def unexpected(self, fails: set[str]) -> set[str]:
        """Return the failures that this kind explains in no way."""
        known = [re.escape(name).replace(r"\*", ".*") for name in self.also]
        return {name for name in fails - self.fails if not any(re.fullmatch(one, name) for one in known)}


def kind(
    name: str, ask: Ask, n: int, wrong: Wrong, fails: str, *, also: str = "", because: str = "",
    ended_s: float | None = None,
) -> Kind:  # fmt: skip
    """Return a row; the checks are words with spaces between."""
    assert bool(also) == bool(because), "say why other checks may fail"
    return Kind(name, ask, n, wrong, frozenset(fails.split()), frozenset(also.split()), because, ended_s)


def as_if(other: Callable[[Case], Case]) -> Wrong:
    """The honest client of another case."""
    return lambda asked, rng: honest(other(asked), rng)


def doing(calls: Callable[[Case, Rng], Calls], *, uses: int | None = None) -> Wrong:
    """Other calls."""
    return lambda asked, rng: recorded(calls(asked, rng), uses=uses)


def changing(change: Callable[[Calls], Calls]) -> Wrong:
    """The honest calls, changed."""
    return lambda asked, rng: recorded(change(calls_of(asked, rng)))


def loaded(**keys: object) -> Wrong:
    """The honest client of a case whose `load` differs in these keys."""

    def other(asked: Case) -> Case:
        load = asked.expected.load.model_copy(update=keys)
        return replace(asked, expected=asked.expected.model_copy(update={"load": load}))

    return as_if(other)


def at_rate(factor: float) -> Wrong:
    """The honest client of another rate."""
    return lambda asked, rng: loaded(rate=rate_of(asked) * factor)(asked, rng)


def rescheduled(change: Callable[[Seconds, float], Seconds], *, noise: bool = True) -> Wrong:
    """Another schedule, made of the honest one (seconds, ascending) and the rate, then sent with the usual noise.

    Without noise a send still costs its time: what is due at once leaves one after the other.
    """

    def wrong(asked: Case, rng: Rng) -> Journal:
        arrival = asked.declaration(forge.TOOL).arrival or Arrival(Law.CONSTANT)
        schedule = np.sort(change(by_law(arrival, asked.n or 0, rate_of(asked), rng), rate_of(asked)))
        arrived = sent(schedule, rng) if noise else queued(schedule)
        return recorded(Calls(arrived, replies(asked, rng)(len(arrived))))

    return wrong


def queued(schedule: Seconds, *, send_s: float = 0.0001) -> Seconds:
    """Return when a schedule is sent where each send takes `send_s` and nothing else is late."""
    taken = np.arange(len(schedule)) * send_s
    sends: Seconds = np.maximum.accumulate(schedule - taken) + taken
    return sends


def spaced(arrival: str) -> Wrong:
    """Another law at the asked rate."""
    law = Arrival.parse(arrival)

    def wrong(asked: Case, rng: Rng) -> Journal:
        arrived = sent(by_law(law, asked.n or 0, rate_of(asked), rng), rng)
        return recorded(Calls(arrived, replies(asked, rng)(len(arrived))))

    return wrong


def rate_of(asked: Case) -> float:
    """Return the asked rate, per second."""
    assert isinstance(asked.expected.load, RateLoad)
    return asked.expected.load.rate


def edited(edit: Callable[[Journal], Journal]) -> Wrong:
    """The honest journal, with other rows."""
    return lambda asked, rng: edit(honest(asked, rng))


def cells(row: int, **values: object) -> Wrong:
    """One row of the honest journal says something else."""
    return edited(lambda journal: forge.changed(journal, row, **values))


def every(nth: int, **values: object) -> Wrong:
    """Every nth row of the honest journal, from the first on, says something else."""

    def edit(journal: Journal) -> Journal:
        columns = {}
        for name, value in values.items():
            columns[name] = journal.table[name].to_pylist()
            columns[name][::nth] = [value] * len(columns[name][::nth])
        return forge.with_columns(journal, **columns)

    return edited(edit)
