"""How large can a probability be of which k events in n trials were seen?

The exact interval of Clopper and Pearson (The use of confidence or fiducial limits, Biometrika 26, 1934), by beta
quantiles. Left out: what the events are.
"""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.999
"""Of each side."""


@dataclass(frozen=True)
class Seen:
    """`events` in `trials`."""

    events: int
    trials: int

    @property
    def share(self) -> float:
        """Events a trial; 0 of none."""
        return self.events / self.trials if self.trials else 0.0

    @property
    def low(self) -> float:
        """A probability that is lower than this shows so many events or more with 0.1 % at most."""
        from scipy.special import betaincinv  # noqa: PLC0415 -- 0.6 s that --help need not wait

        if not self.events:
            return 0.0
        return float(betaincinv(self.events, self.trials - self.events + 1, 1 - CONFIDENCE))

    @property
    def high(self) -> float:
        """A probability that is higher than this shows so many events or fewer with 0.1 % at most."""
        from scipy.special import betaincinv  # noqa: PLC0415 -- as above

        if self.events == self.trials:
            return 1.0
        return float(betaincinv(self.events + 1, self.trials - self.events, CONFIDENCE))

    def __add__(self, other: Seen) -> Seen:
        """Return the events and trials of both."""
        return Seen(self.events + other.events, self.trials + other.trials)


WORST_FIRST = ("ABOVE", "level within bounds", "below", "conservative")
TELLING = 20
"""So many events must be expected before few of them mean anything."""


def judged(seen: Seen, nominal: float) -> str:
    """Return how a share stands to the level that was meant.

    `conservative`: below a tenth of it, in trials enough to tell. `below`: not even the upper bound is above it.
    `level within bounds`: it lies between them, as it must for an exact law, whose rate *is* the level, and does for
    any other in too few trials. `ABOVE`: even the lower bound is above it.
    """
    if seen.low > nominal:
        return "ABOVE"
    if seen.share < nominal / 10 and nominal * seen.trials >= TELLING:
        return "conservative"
    return "level within bounds" if seen.high > nominal else "below"
