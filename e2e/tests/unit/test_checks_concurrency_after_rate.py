"""Is a closed loop that begins while a rate's requests are still in flight judged by its own slots, and no laxer?"""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.verdict import Outcome
from tests.unit.forge import ask, case, closed_loop, constant, journal

LATENCY, RATE, C = 0.5, 20.0, 8
STAGES = ({"rate": RATE, "duration_s": 10}, {"concurrency": C, "num_requests": 200})


def outcomes(slots: int, *, waits_s: float = 0.0) -> dict[str, Outcome]:
    """A rate that leaves 10 in flight, and at once, or later, a loop of its own."""
    loop = 10.0 + waits_s + closed_loop(200, slots, latency_s=LATENCY, turnaround_s=0.003, ramp_s=0.002)
    asked = case({"mode": "stages", "stages": STAGES}, workload={"num_requests": 400}, arrival="constant",
                 absorber={"ttft_s": LATENCY})  # fmt: skip
    found = ask(asked, journal(np.concatenate([constant(200, RATE), loop]), ttft_s=LATENCY, tokens=1, kernel=True))
    return {name: one.outcome for name, one in found.items() if name.startswith("concurrency.") and one.counted}


@pytest.mark.parametrize("waits_s", [0.0, 0.2, 1.0])
def test_an_honest_loop_of_its_own_fails_nothing(waits_s: float) -> None:
    assert Outcome.FAIL not in outcomes(C, waits_s=waits_s).values()
    assert outcomes(C, waits_s=waits_s)["concurrency.slots[2]"] is Outcome.PASS


@pytest.mark.parametrize("waits_s", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("slots", [C - 1, C + 1])
def test_one_slot_less_or_more_fails_all_the_same(slots: int, waits_s: float) -> None:
    assert outcomes(slots, waits_s=waits_s)["concurrency.slots[2]"] is Outcome.FAIL
