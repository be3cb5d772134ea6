"""Is the ramp of real inference-perf found where a run is so short that it takes up all of it, and the reference not?

Its peak is 8 by chance, early, late or never: what is asked of the run is the time for which slots were empty. What 48
requests cannot carry is `unclear` for both.
"""

from __future__ import annotations

from pathlib import Path

from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Finding, Outcome

CASE = Path(__file__).parent / "cases" / "b48_upstream"
TOO_FEW = {"concurrency.refill", "concurrency.held", "concurrency.waves"}


def findings(run: StoredRun) -> dict[str, Finding]:
    assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
    return {finding.check: finding for finding in run.judgement.findings}


def ramp(run: StoredRun) -> Outcome:
    return findings(run)["concurrency.ramp"].outcome


def test_the_ramp_of_inference_perf_is_found(loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, "inference-perf", ramp)
    found = findings(run)
    assert found["count.requests"].outcome is Outcome.PASS
    assert found["concurrency.ramp"].outcome is Outcome.FAIL
    assert found["concurrency.ramp"].detail.startswith("a ramp: ")
    assert run.judgement.verdict.outcome is Outcome.FAIL


def test_the_reference_sender_has_none(loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, "metronome", ramp)
    found = findings(run)
    assert found["concurrency.slots"].measured == "8"
    assert {found[f"concurrency.{name}"].outcome for name in ("slots", "ramp")} == {Outcome.PASS}
    not_passed = {name: one.outcome for name, one in found.items() if one.counted and one.outcome is not Outcome.PASS}
    assert not_passed == dict.fromkeys(TOO_FEW, Outcome.UNCLEAR)
