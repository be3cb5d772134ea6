"""Is each slot refilled by the end of its own request, or are slots refilled together, once others have ended, too?

The k-th start on the plateau refills what the k-th end freed, so waits are known from starts and ends alone. Of each
wait the shared part is looked at: from the end to the last end before the next start, which is how long a slot stayed
empty while others still ended and nobody sent. Clients that are merely slow have such a part by chance: as much as
there is when the same waits are dealt to the ends at random. Left out: which request was in which slot, which nobody
can know; several groups that wait each for itself, whose starts fall between each other's ends.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadproof.load.requests import NEVER

if TYPE_CHECKING:
    from loadproof.load.concurrency import Flight, Floats, Plateau
    from loadproof.load.requests import Ints, Requests

SEED = 7
"""Of the dealing of waits: the same journal gives the same numbers."""


@dataclass(frozen=True)
class Refills:
    """How the plateau's slots were refilled; seconds.

    `waits_s` float64[k], in order of the ends; zero where a start came before the end that freed its slot.
    `shared_s`: the mean shared part of a wait; `shared_by_chance_s`: the same after dealing. `group` starts came one
    after another with no end between them (the median over starts), such groups every `every_s` (median).
    """

    waits_s: Floats
    shared_s: float
    shared_by_chance_s: float
    group: int
    every_s: float

    @property
    def together_s(self) -> float:
        """How much longer than by chance a slot stayed empty for the sake of others."""
        return self.shared_s - self.shared_by_chance_s


def refills(held: Flight, top: Plateau) -> Refills:
    """Measure the refills of a plateau; of none all is zero."""
    starts = held.starts[np.searchsorted(held.starts, top.begin_ns, side="right") :]
    ends = held.freed[np.searchsorted(held.freed, top.begin_ns, side="right") :]
    k = min(len(starts), len(ends))
    if not k:
        return Refills(np.zeros(0), 0.0, 0.0, 0, 0.0)
    starts, ends = starts[:k], ends[:k]
    waits = np.maximum(starts - ends, 0)
    dealt = np.sort(ends + np.random.default_rng(SEED).permutation(waits))
    group, every = _groups(starts, ends)
    return Refills(waits / 1e9, _shared(starts, ends), _shared(dealt, ends), group, every)


def _shared(starts: Ints, ends: Ints) -> float:
    """Return the mean time (s) from each end to the last end before the next start; ends and starts ascending."""
    following = np.searchsorted(starts, ends)
    refilled = following < len(starts)
    if not refilled.any():
        return 0.0
    last = np.searchsorted(ends, starts[following[refilled]], side="right") - 1
    return float(np.mean(ends[last] - ends[refilled])) / 1e9


def _groups(starts: Ints, ends: Ints) -> tuple[int, float]:
    """Return the size of groups of starts with no end between them, the median over starts, and how often they come."""
    before = np.searchsorted(ends, starts, side="right")
    first = np.flatnonzero(np.diff(before, prepend=-1))
    sizes = np.diff(np.append(first, len(starts)))
    group = int(np.median(np.repeat(sizes, sizes)))
    begins = starts[first[2 * sizes >= group]]
    return group, float(np.median(np.diff(begins))) / 1e9 if len(begins) > 1 else 0.0


def waves_would_wait_s(requests: Requests, slots: int) -> float:
    """Return how long a slot would wait for others (mean, s) if these requests were sent in waves of `slots`.

    From the latencies of those that ended, in the order of their starts: the longest of each wave less its mean.
    """
    lasted = (requests.end_ns - requests.start_ns)[requests.end_ns < NEVER]
    whole = len(lasted) // max(1, slots) * slots
    if not whole:
        return 0.0
    waves = lasted[:whole].reshape(-1, slots)
    return float(np.mean(waves.max(axis=1) - waves.mean(axis=1))) / 1e9
