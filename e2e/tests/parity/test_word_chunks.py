"""Where chunks end with their space, whose ITL is still the server's?

The load is the same for both tools. inference-perf tokenises each chunk alone and finds two tokens in "word ", so its
ITL is over 30 gaps where a reply of 16 words has 15; its TPOT counts by the reply as a whole. The reference sender
counts chunks. Of two numbers of one report the ratio is free of a machine's noise; beside the journal's it is not.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Claim, Finding, Outcome

CASE = Path(__file__).parent / "cases" / "word_chunks"
TOOLS = ("inference-perf", "metronome")
N, TOKENS, ITL_S = 128, 16, 0.02
NEAR = (0.9, 1.1)


def finding(run: StoredRun, check: str) -> Finding:
    [found] = [one for one in run.judgement.findings if one.check == check]
    return found


def claim(run: StoredRun, quantity: str) -> Claim:
    [found] = [one for one in run.judgement.claims if one.quantity == quantity]
    return found


def ratio(run: StoredRun, quantity: str) -> float:
    """The claim in units of the truth."""
    found = claim(run, quantity)
    assert found.truth
    return found.claimed / found.truth


def near(value: float) -> bool:
    return NEAR[0] <= value <= NEAR[1]


def outcome(run: StoredRun) -> Outcome:
    """Whether the asked slots were used; unclear where a busy machine shows in the tool's times and in ours."""
    assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
    exact = [one for one in run.judgement.findings if one.check.startswith(("count.", "payload."))]
    assert len(exact) >= 10
    assert [one.check for one in exact if one.outcome is not Outcome.PASS] == []
    if not near(ratio(run, "tpot_s.mean")) and finding(run, "instrument.lateness").outcome is not Outcome.PASS:
        return Outcome.UNCLEAR
    return finding(run, "concurrency.slots").outcome


@pytest.mark.parametrize("tool", TOOLS)
def test_the_load_is_as_asked(tool: str, loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, tool, outcome)
    slots = finding(run, "concurrency.slots")
    assert (slots.outcome, slots.measured) == (Outcome.PASS, "8")
    assert finding(run, "count.requests").measured == str(N)
    assert claim(run, "completed").claimed == claim(run, "completed").truth == N
    assert claim(run, "output_tokens").claimed == claim(run, "output_tokens").truth == N * TOKENS


@pytest.mark.parametrize("tool", TOOLS)
def test_the_servers_own_gaps_are_as_told(tool: str, loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, tool, outcome)
    rows = pl.read_parquet(run.folder / "journal" / "journal.parquet").filter(pl.col("path") == "/v1/completions")
    lists = ("planned_ns", "late_ns", "chunk_tokens")
    chunks = rows.select("req", *lists).explode(*lists)
    assert chunks["chunk_tokens"].to_list() == [1] * (N * TOKENS)
    assert set(chunks.select(pl.col("planned_ns").diff().over("req")).drop_nulls()["planned_ns"]) == {20_000_000}
    # A gap is off its plan by the lateness of its two ends, and of all gaps of a reply only two ends are left.
    off = int(chunks.select(pl.col("late_ns").max()).item()) / 1e9 / (TOKENS - 1)
    truth = claim(run, "itl_s.mean").truth
    assert truth is not None
    assert abs(truth - ITL_S) <= off + 1e-9


def test_inference_perf_finds_twice_the_gaps(loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, "inference-perf", outcome)
    assert claim(run, "itl_s.mean").claimed / claim(run, "tpot_s.mean").claimed == pytest.approx(0.5, abs=0.02)
    assert near(ratio(run, "tpot_s.mean"))
    assert 0.45 <= ratio(run, "itl_s.mean") <= 0.55


def test_the_reference_sender_does_not(loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(CASE, "metronome", outcome)
    assert near(ratio(run, "itl_s.mean"))
    assert near(ratio(run, "tpot_s.mean"))
