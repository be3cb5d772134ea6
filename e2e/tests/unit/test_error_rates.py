"""Do the checks keep their error rates, in a miniature of the long measurement (e2e/bench/error_rates.py)?

The same code with fewer runs. Seeded, so that a bound that holds once holds always.
"""

from __future__ import annotations

import numpy as np
import pytest

from bench import error_rates
from bench.error_rates_parts import false_alarms, honest_runs, misses
from bench.error_rates_parts.dials import DIALS
from bench.error_rates_parts.honest_cases import forms
from bench.error_rates_parts.intervals import Seen, judged
from bench.error_rates_parts.misses import Cell
from bench.error_rates_parts.statistics import LAWS, STATISTICS
from loadproof.errors import UsageProblem
from tests.unit.forge_times import NOISE

SEED = 20_261


@pytest.fixture(scope="module")
def alarms() -> dict[tuple[str, int], false_alarms.Counts]:
    return false_alarms.measured(SEED, {200: 500, 2000: 100}, 1)


def test_no_statistic_alarms_more_often_than_its_level(alarms: dict[tuple[str, int], false_alarms.Counts]) -> None:
    assert len(alarms) == len(LAWS) * 2
    assert false_alarms.above(alarms) == []


@pytest.mark.parametrize("statistic", [s for s in STATISTICS if s.exact], ids=lambda s: s.name)
def test_an_exact_law_alarms_at_its_level(
    statistic: object, alarms: dict[tuple[str, int], false_alarms.Counts]
) -> None:
    """A statistic that never alarms would keep every level, too: the exact ones must reach theirs."""
    name = getattr(statistic, "name", "")
    counted = [Seen(c.alarms[name, 1e-2], c.runs) for c in alarms.values() if (name, 1e-2) in c.alarms]
    together = sum(counted, Seen(0, 0))
    assert together.trials >= 1800
    assert together.low <= 1e-2 <= together.high


def test_a_level_that_is_not_kept_is_told() -> None:
    counts = false_alarms.Counts(1000)
    counts.alarms["gaps", 1e-2] = 30
    assert [line.startswith("gaps (poisson, n = 200) at 0.01: 30 of 1000") for line in
            false_alarms.above({("poisson", 200): counts})] == [True]  # fmt: skip


@pytest.mark.parametrize("noise", NOISE)
def test_no_honest_run_alarms(noise: str) -> None:
    found = honest_runs.measured(SEED, 1, 1, [noise])[noise]
    assert found.runs == len(forms()) > 80
    assert found.told == []


@pytest.mark.parametrize("dial", range(len(DIALS)), ids=[f"{dial.check}: {dial.what}" for dial in DIALS])
def test_what_is_well_beyond_the_printed_deviation_is_seen(dial: int) -> None:
    """Twice of it at 600 requests, or at as many more as twice of what they print can be, or half as much again."""
    cells = (misses.miss_dial(Cell(SEED, dial, n, factor, 10)) for factor in (2.0, 1.5) for n in (600, 2000, 10_000))
    found = next(missed for missed in cells if missed.possible)
    assert found.unclear == 0
    assert found.missed.events <= 1, found


@pytest.mark.parametrize(("law", "n", "deviation"), [
    ("constant", 600, 0.02), ("constant", 600, -0.02), ("fixed-span", 600, 0.1), ("fixed-span", 600, -0.05),
    ("fixed-span(4)", 600, 0.1), ("poisson", 2000, 0.2), ("poisson", 2000, -0.2), ("gamma(4)", 2000, 0.1),
])  # fmt: skip
def test_a_rate_beyond_the_printed_deviation_is_seen(law: str, n: int, deviation: float) -> None:
    found = misses.miss_rate(Cell(SEED, misses.LAWS.index(law), n, deviation, 20))
    assert not misses.by_nature(found, deviation), found.smallest
    assert (found.unclear, found.missed.events) == (0, 0)


def test_what_is_missed_too_often_is_told() -> None:
    cell = Cell(SEED, misses.LAWS.index("constant"), 600, 0.05, 20)
    seen_half = misses.Missed(Seen(10, 20), 0, "-1.0%/+1.0%")
    assert "missed in 10 of 20" in misses.too_often({cell: seen_half}, dial=False)[0]
    assert misses.too_often({cell: misses.Missed(Seen(10, 20), 0, "-6.0%/+6.0%")}, dial=False) == []


@pytest.mark.parametrize(("text", "found"), [
    ("-1.8%/+5.7%", [-0.018, 0.057]), ("20.0 ms", [0.02]), ("0.275 s", [0.275]), ("0.43", [0.43]),
    ("5.0, 10.0 ms", [0.005, 0.01]), ("R 0.41, 29 of 49 s", [0.41, 29, 49]), ("x 0.14 or x 4.9", [0.14, 4.9]),
    ("-12.9%/+inf%", [-0.129, np.inf]), ("exact", []), ("", []),
])  # fmt: skip
def test_printed_deviations_are_read(text: str, found: list[float]) -> None:
    assert misses.amounts(text) == pytest.approx(found)


@pytest.mark.parametrize(("events", "trials", "high"), [
    # 1 - 0.001 ** (1 / n) for none of n, by hand
    (0, 100, 0.06673), (0, 1000, 0.006884), (100, 100, 1.0),
])  # fmt: skip
def test_the_interval_of_a_share(events: int, trials: int, high: float) -> None:
    seen = Seen(events, trials)
    assert seen.high == pytest.approx(high, rel=1e-3)
    assert seen.low <= seen.share <= seen.high


def test_the_words_for_a_share() -> None:
    assert judged(Seen(1000, 100_000), 1e-2) == "level within bounds"
    assert judged(Seen(1200, 100_000), 1e-2) == "ABOVE"
    assert judged(Seen(800, 100_000), 1e-2) == "below"
    assert judged(Seen(80, 100_000), 1e-2) == "conservative"
    assert judged(Seen(0, 40), 1e-2) == "level within bounds"  # 40 runs say nothing of one in a hundred


def test_a_table_is_the_same_on_any_number_of_cores() -> None:
    runs = {200: 12}
    alone, two = (false_alarms.measured(SEED, runs, processes, LAWS[:1]) for processes in (1, 2))
    assert alone == two


def test_the_command_refuses_what_it_cannot_do() -> None:
    with pytest.raises(UsageProblem, match="--processes must be at least 1"):
        error_rates.main(["--processes", "0"])
    with pytest.raises(UsageProblem, match="see --help"):
        error_rates.main(["--only", "everything"])
