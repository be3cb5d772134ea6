"""Does a whole honest run ever raise an alarm: journal, measurement, every check?

Honest clients of `honest_cases` at the three noise levels of docs/statistics.md; no finding may fail. Also counted is
what stays unclear, by check. Left out: the real server, whose lateness the checks allow for (`honest.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from bench.error_rates_parts.honest_cases import forms
from bench.error_rates_parts.intervals import Seen
from bench.error_rates_parts.spreading import spread
from bench.error_rates_parts.tables import markdown
from loadproof.verdict import Outcome
from tests.unit import forge
from tests.unit.forge_client import Manner, honest
from tests.unit.forge_times import NOISE

RUNS_A_BLOCK = 25


@dataclass(frozen=True)
class Block:
    """Some honest runs of one form at one noise level."""

    seed: int
    noise: str
    form: int
    first: int
    runs: int


@dataclass
class Outcomes:
    """How many runs, what failed in them and what was unclear, by check and form."""

    runs: int = 0
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    unclear: Counter[tuple[str, str]] = field(default_factory=Counter)
    told: list[str] = field(default_factory=list)

    def add(self, other: Outcomes) -> None:
        """Add those of another block."""
        self.runs += other.runs
        self.failed += other.failed
        self.unclear += other.unclear
        self.told += other.told


def judge(block: Block) -> Outcomes:
    """Return the outcomes of a block."""
    form, found = forms()[block.form], Outcomes(block.runs)
    manner = Manner(pauses_per_s=NOISE[block.noise], drains=form.drains)
    for run in range(block.first, block.first + block.runs):
        rng = np.random.default_rng([block.seed, *block.noise.encode(), block.form, run])
        for name, finding in forge.ask(form.asked, honest(form.asked, rng, manner)).items():
            if finding.outcome is Outcome.FAIL:
                found.failed[name, form.name] += 1
                found.told.append(f"{form.name}, {block.noise}, run {run}: {name} {finding.measured}, expected "
                                  f"{finding.expected}: {finding.detail}")  # fmt: skip
            elif finding.outcome is not Outcome.PASS and finding.counted:
                found.unclear[name, form.name] += 1
    return found


def measured(seed: int, runs: int, processes: int, noises: Iterable[str] = NOISE) -> dict[str, Outcomes]:
    """Return the outcomes of `runs` runs of each form, by noise level."""
    blocks = [
        Block(seed, noise, form, first, min(RUNS_A_BLOCK, runs - first))
        for noise in noises
        for form in range(len(forms()))
        for first in range(0, runs, RUNS_A_BLOCK)
    ]
    found = {noise: Outcomes() for noise in noises}
    for block, outcomes in spread(judge, blocks, processes):
        found[block.noise].add(outcomes)
    return found


def table(found: dict[str, Outcomes]) -> str:
    """Return a row per noise level, and what failed and was unclear below it."""
    rows = []
    for noise, outcomes in found.items():
        alarms = Seen(min(outcomes.runs, outcomes.failed.total()), outcomes.runs)
        rows.append([noise, f"{NOISE[noise]:g}", f"{outcomes.runs:,}", f"{alarms.events}", f"{alarms.high:.1e}",
                     f"{outcomes.unclear.total()}"])  # fmt: skip
    head = ["noise", "pauses a second", "honest runs", "alarms", "upper bound a run", "findings unclear"]
    return markdown(head, rows) + "\n" + _by_check(found)


def _by_check(found: dict[str, Outcomes]) -> str:
    failed: Counter[tuple[str, str]] = sum((o.failed for o in found.values()), Counter())
    unclear: Counter[tuple[str, str]] = sum((o.unclear for o in found.values()), Counter())
    return markdown(
        ["check", "form", "alarms", "unclear"],
        (
            [check, form, f"{failed[check, form]}", f"{unclear[check, form]}"]
            for check, form in sorted(failed | unclear)
        ),
    )
