"""How often does a statistic without its floor alarm under the very law that it assumes?

Forged ideal runs, each statistic asked at 1e-2 and, where that is an alarm, at 1e-3 (a smaller level alarms less). The
share has an exact binomial interval. The step to 1e-6 is the laws' own. Left out: noise, which the floors are for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.error_rates_parts.intervals import WORST_FIRST, Seen, judged
from bench.error_rates_parts.spreading import spread
from bench.error_rates_parts.statistics import LAWS, STATISTICS, ideal
from bench.error_rates_parts.tables import markdown
from loadproof.arrival import Arrival

LEVELS = (1e-2, 1e-3)
RUNS = {200: 100_000, 600: 100_000, 2000: 100_000, 10_000: 10_000, 100_000: 1000}
"""How many runs are forged of each number of arrivals."""

ARRIVALS_A_BLOCK = 200_000


@dataclass(frozen=True)
class Block:
    """Some runs of n arrivals of a law; each is a function of seed, law, n and its number."""

    seed: int
    law: str
    n: int
    first: int
    runs: int


@dataclass
class Counts:
    """Alarms by statistic and level, of `runs` runs."""

    runs: int = 0
    alarms: dict[tuple[str, float], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, other: Counts) -> None:
        """Add what another block counted."""
        self.runs += other.runs
        for key, count in other.alarms.items():
            self.alarms[key] += count


def count(block: Block) -> Counts:
    """Return the alarms of a block."""
    law, counts = Arrival.parse(block.law), Counts(block.runs)
    counts.alarms = dict.fromkeys(((s.name, level) for s in STATISTICS if law.law in s.laws for level in LEVELS), 0)
    for run in range(block.first, block.first + block.runs):
        rng = np.random.default_rng([block.seed, *block.law.encode(), block.n, run])
        times = ideal(law, block.n, rng)
        for statistic in STATISTICS:
            for level in LEVELS if law.law in statistic.laws else ():
                if not statistic.alarm(times, law, level):
                    break
                counts.alarms[statistic.name, level] += 1
    return counts


def blocks(seed: int, runs: dict[int, int], laws: Sequence[Arrival] = LAWS, others: int = 1) -> list[Block]:
    """Return what there is to do, the longest runs first; of other laws than the first `others` times fewer runs."""
    return [
        Block(seed, str(law), n, first, min(step, wanted - first))
        for n, most in sorted(runs.items(), reverse=True)
        for step in [max(1, ARRIVALS_A_BLOCK // n)]
        for law in laws
        for wanted in [most if law == laws[0] else most // others]
        for first in range(0, wanted, step)
    ]


def measured(
    seed: int, runs: dict[int, int], processes: int, laws: Sequence[Arrival] = LAWS, others: int = 1
) -> dict[tuple[str, int], Counts]:
    """Return the counts of each law and number of arrivals."""
    found: dict[tuple[str, int], Counts] = defaultdict(Counts)
    for block, counts in spread(count, blocks(seed, runs, laws, others), processes):
        found[block.law, block.n].add(counts)
    return dict(found)


def table(found: dict[tuple[str, int], Counts], level: float) -> str:
    """Return a row per statistic and law, and in it for each number of arrivals the share and its upper bound."""
    sizes = sorted({n for _, n in found})
    rows = []
    for statistic in STATISTICS:
        for law in sorted({law for law, _ in found}):
            cells = [_seen(found[law, n], statistic.name, level) for n in sizes if (law, n) in found]
            told = [seen for seen in cells if seen is not None]
            if told:
                against = sorted({judged(seen, level) for seen in told}, key=WORST_FIRST.index)
                rows.append(
                    [
                        statistic.name,
                        law,
                        *(f"{100 * s.share:.2g} % (≤ {100 * s.high:.2g} %) of {s.trials:,}" for s in told),
                        ", ".join(against),
                    ]
                )
    return markdown(["statistic", "law", *(f"n = {n:,}" for n in sizes), f"against {level:g}"], rows)


def _seen(counts: Counts, name: str, level: float) -> Seen | None:
    return Seen(counts.alarms[name, level], counts.runs) if (name, level) in counts.alarms else None


def above(found: dict[tuple[str, int], Counts]) -> list[str]:
    """Return where even the lower bound of a rate is above its level: a statistic that alarms too often."""
    return [
        f"{name} ({law}, n = {n}) at {level:g}: {seen.events} of {seen.trials}"
        for (law, n), counts in found.items()
        for (name, level), events in counts.alarms.items()
        for seen in [Seen(events, counts.runs)]
        if judged(seen, level) == WORST_FIRST[0]
    ]
