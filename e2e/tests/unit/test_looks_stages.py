"""Is a stage that is not what was asked named in words, and one that is merely slow not called anything else?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import Seconds, ask, case, journal

ASKED = ({"rate": 20, "duration_s": 12, "gap_s": 1}, {"rate": 40, "duration_s": 12}, {"rate": 80, "duration_s": 12})


def sent(*stages: tuple[float, float], gap_s: float = 1.0) -> Seconds:
    """Evenly spaced stages of a rate and a duration, with a silence after the first."""
    begin, parts = 0.0, []
    for k, (rate, lasts_s) in enumerate(stages):
        parts.append(begin + forge.constant(round(rate * lasts_s), rate))
        begin += lasts_s + (0.0 if k else gap_s)
    return np.concatenate(parts)


def judged(times: Seconds, stages: tuple[Mapping[str, float], ...] = ASKED) -> dict[str, Finding]:
    asked = case({"mode": "stages", "stages": stages}, workload={"num_requests": None, "duration_s": 37},
                 arrival="constant")  # fmt: skip
    return ask(asked, journal(times, tokens=1, kernel=True))


def names(found: dict[str, Finding]) -> dict[str, str]:
    """What is said of the failures of count and rate."""
    return {
        name: finding.detail
        for name, finding in found.items()
        if finding.outcome is Outcome.FAIL and name.startswith(("count", "rate"))
    }


def test_stages_as_asked_are_called_nothing() -> None:
    assert names(judged(sent((20, 12), (40, 12), (80, 12)))) == {}


def test_swapped_stages() -> None:
    told = names(judged(sent((20, 12), (80, 12), (40, 12))))
    assert set(told) == {"count.stage[2]", "rate.mean[2]", "count.stage[3]", "rate.mean[3]"}
    assert "/s is the rate of stage 3, and the other way round: are they swapped?" in told["rate.mean[2]"]
    assert "/s is the rate of stage 2, and the other way round: are they swapped?" in told["count.stage[3]"]


def test_a_stage_at_the_rate_of_another() -> None:
    told = names(judged(sent((20, 12), (80, 12), (80, 12))))
    assert "80/s is the rate of stage 3" in told["rate.mean[2]"]
    assert "swapped" not in told["rate.mean[2]"]


@pytest.mark.parametrize(("lasts_s", "wrong"), [(6.0, "short"), (24.0, "long")])
def test_a_stage_of_another_length(lasts_s: float, wrong: str) -> None:
    told = names(judged(sent((20, lasts_s), (40, 12), (80, 12))))
    assert set(told) == {"count.stage[1]", "count.duration[1]"}
    assert f"it is too {wrong}: {lasts_s:g} s at the asked rate, not 12 s" in told["count.stage[1]"]


def test_a_missing_stage() -> None:
    told = names(judged(sent((20, 12), (40, 0), (80, 12))))
    assert "no request came in this stage" in told["count.stage[2]"]
    assert "count.stage[3]" not in told


def test_merged_stages() -> None:
    told = names(judged(sent((20, 12), (40, 12), (80, 12), gap_s=0.0)))
    assert told == {"rate.gap[1]": "there is no such silence: the stages are merged"}


def test_a_stage_that_is_slow_is_not_called_another() -> None:
    told = names(judged(sent((20, 12), (60, 12), (80, 12))))
    assert "stage" not in told["rate.mean[2]"]
    assert "too" not in told["rate.mean[2]"]
