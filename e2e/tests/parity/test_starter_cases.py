"""Does real inference-perf, and our reference sender, offer what the two starter cases ask?

One real run per case and tool; all that is asked of it afterwards is asked of the stored run, offline: what
must pass, what must fail when something else had been expected, and that judging again gives the same bytes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq
import pytest

from loadproof.judging import Judgement, judge_run
from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Finding, Outcome

CASES = Path(__file__).parent / "cases"
FIXED_RATE, FIXED_CONCURRENCY = CASES / "a_fixed_rate", CASES / "b_fixed_concurrency"
EXACT = ("count.", "payload.")
TOOLS = ("inference-perf", "metronome")


def finding(judgement: Judgement, check: str) -> Finding:
    [found] = [one for one in judgement.findings if one.check == check]
    return found


def assert_exact_findings_pass(judgement: Judgement, n: int) -> None:
    exact = [one for one in judgement.findings if one.check.startswith(EXACT)]
    assert {one.check for one in exact} >= {
        "count.requests", "count.unique", "count.recognised", "count.after_end", "payload.path", "payload.model",
        "payload.stream", "payload.ignore_eos", "payload.max_tokens", "payload.prompt_tokens",
    }  # fmt: skip
    assert [one.check for one in exact if one.outcome is not Outcome.PASS] == []
    assert finding(judgement, "count.requests").measured == str(n)
    assert finding(judgement, "payload.prompt_tokens").measured == f"127 x {n}"
    assert finding(judgement, "payload.max_tokens").measured == f"16 x {n}"


def outcome_of(check: str, n: int) -> Callable[[StoredRun], Outcome]:
    def ask(run: StoredRun) -> Outcome:
        assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
        assert_exact_findings_pass(run.judgement, n)
        return finding(run.judgement, check).outcome

    return ask


def judged_as(run: StoredRun, tmp_path: Path, old: str, new: str) -> Judgement:
    """Judge a copy of the run whose case expects something else."""
    copy = tmp_path / f"as-{len(list(tmp_path.iterdir()))}"
    shutil.copytree(run.folder, copy)
    expected = copy / "case" / "expected.yaml"
    text = expected.read_text()
    assert text.count(old) == 1
    expected.write_text(text.replace(old, new))
    return judge_run(copy)


@pytest.mark.parametrize("tool", TOOLS)
def test_fixed_rate_is_offered_as_asked(tool: str, loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(FIXED_RATE, tool, outcome_of("rate.mean", 600))
    assert finding(run.judgement, "rate.mean").outcome is Outcome.PASS
    assert finding(run.judgement, "rate.mean").n == 600
    assert run.judgement.verdict.outcome is Outcome.PASS


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("asked", ["44", "36"])
def test_fixed_rate_fails_when_ten_per_cent_more_or_less_was_expected(
    tool: str, asked: str, loadproof_runs: Runs, tmp_path: Path
) -> None:
    def ask(run: StoredRun) -> Outcome:
        return finding(judged_as(run, tmp_path, "rate: 40", f"rate: {asked}"), "rate.mean").outcome

    run = loadproof_runs.clearly(FIXED_RATE, tool, ask)
    assert ask(run) is Outcome.FAIL


SPACING = ("rate.", "arrivals.")


def failed(judgement: Judgement, modules: tuple[str, ...]) -> set[str]:
    return {one.check for one in judgement.findings if one.check.startswith(modules) and one.outcome is Outcome.FAIL}


def test_what_inference_perf_calls_constant_is_a_fixed_span_of_exponential_gaps(
    loadproof_runs: Runs, tmp_path: Path
) -> None:
    run = loadproof_runs.clearly(FIXED_RATE, "inference-perf", outcome_of("rate.mean", 600))
    assert failed(run.judgement, SPACING) == set()
    assert finding(run.judgement, "arrivals.gaps").outcome is Outcome.PASS
    constant = judged_as(run, tmp_path, "arrival: fixed-span", "arrival: constant")
    assert "arrivals.even" in failed(constant, SPACING)
    assert "gaps look exponential" in finding(constant, "arrivals.even").detail
    assert constant.verdict.outcome is Outcome.FAIL


def test_even_spacing_is_neither_poisson_nor_a_fixed_span(loadproof_runs: Runs, tmp_path: Path) -> None:
    run = loadproof_runs.clearly(FIXED_RATE, "metronome", outcome_of("arrivals.even", 600))
    own = "metronome:\n    arrival: "
    for law in ("poisson", "fixed-span"):
        judged = judged_as(run, tmp_path, f"{own}constant", f"{own}{law}")
        assert {"arrivals.gaps", "arrivals.counts"} <= failed(judged, SPACING)
        assert "evenly spaced" in finding(judged, "arrivals.gaps").detail


@pytest.mark.parametrize("tool", TOOLS)
def test_fixed_concurrency_is_offered_as_asked(tool: str, loadproof_runs: Runs) -> None:
    run = loadproof_runs.clearly(FIXED_CONCURRENCY, tool, outcome_of("concurrency.slots", 240))
    slots = finding(run.judgement, "concurrency.slots")
    assert (slots.outcome, slots.measured) == (Outcome.PASS, "8")


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("asked", ["7", "9"])
def test_fixed_concurrency_fails_when_one_slot_more_or_less_was_expected(
    tool: str, asked: str, loadproof_runs: Runs, tmp_path: Path
) -> None:
    def ask(run: StoredRun) -> Outcome:
        judgement = judged_as(run, tmp_path, "concurrency: 8", f"concurrency: {asked}")
        return finding(judgement, "concurrency.slots").outcome

    run = loadproof_runs.clearly(FIXED_CONCURRENCY, tool, ask)
    assert ask(run) is Outcome.FAIL


@pytest.mark.parametrize("tool", TOOLS)
def test_a_stored_run_judged_again_gives_the_same_bytes(tool: str, loadproof_runs: Runs, tmp_path: Path) -> None:
    run = loadproof_runs.attempt(FIXED_RATE, tool)
    copy = tmp_path / "elsewhere" / run.folder.name
    shutil.copytree(run.folder, copy)
    names = ("findings.json", "claims.json", "verdict.json")
    for name in names:
        (copy / name).unlink()
    judge_run(copy)
    assert [(copy / name).read_bytes() for name in names] == [(run.folder / name).read_bytes() for name in names]


def test_a_missing_journal_row_fails_the_count(loadproof_runs: Runs, tmp_path: Path) -> None:
    run = loadproof_runs.attempt(FIXED_RATE, "inference-perf")
    copy = tmp_path / "short"
    shutil.copytree(run.folder, copy)
    journal = copy / "journal" / "journal.parquet"
    table = pq.read_table(journal)
    pq.write_table(table.slice(0, table.num_rows - 1), journal)
    count = finding(judge_run(copy), "count.requests")
    assert (count.outcome, count.measured) == (Outcome.FAIL, "599")


def test_claims_of_inference_perf_are_shown_beside_the_truth(loadproof_runs: Runs) -> None:
    """The table's numbers, recomputed by hand: the tool's own file, and plain polars over the journal."""
    run = loadproof_runs.attempt(FIXED_RATE, "inference-perf")
    shown = {claim.quantity: claim for claim in run.judgement.claims}
    summary = pl.read_json(run.folder / "tool" / "reports" / "summary_lifecycle_metrics.json").row(0, named=True)
    good = summary["successes"]
    latency = good["latency"]
    assert shown["completed"].claimed == good["count"] == 600
    assert shown["failed"].claimed == summary["failures"]["count"] == 0
    assert shown["ttft_s.mean"].claimed == latency["time_to_first_token"]["mean"]
    assert shown["latency_s.p50"].claimed == latency["request_latency"]["median"]
    assert shown["tpot_s.p99"].claimed == latency["time_per_output_token"]["p99"]
    assert shown["itl_s.p90"].claimed == latency["inter_token_latency"]["p90"]
    assert shown["output_tokens"].claimed == good["output_tokens"]["total"] == 600 * 16
    assert shown["input_tokens"].claimed == good["prompt_tokens"]["total"] == 600 * 128

    writes = (
        pl.read_parquet(run.folder / "journal" / "journal.parquet")
        .select("req", "arrival_ns", "planned_ns", "late_ns")
        .explode("planned_ns", "late_ns")
        .with_columns(at=(pl.col("planned_ns") + pl.col("late_ns").cast(pl.Int64) - pl.col("arrival_ns")) / 1e9)
    )
    each = writes.group_by("req").agg(first=pl.col("at").min(), last=pl.col("at").max(), tokens=pl.len())
    gaps = writes.sort("req", "at").select(pl.col("at").diff().over("req")).drop_nulls()["at"]
    tpot = (each["last"] - each["first"]) / (each["tokens"] - 1)
    by_hand = {
        "ttft_s.mean": each["first"].mean(), "ttft_s.p99": each["first"].quantile(0.99, "linear"),
        "latency_s.mean": each["last"].mean(), "latency_s.p50": each["last"].quantile(0.5, "linear"),
        "tpot_s.mean": tpot.mean(), "tpot_s.p90": tpot.quantile(0.9, "linear"),
        "itl_s.mean": gaps.mean(), "itl_s.p99": gaps.quantile(0.99, "linear"),
        "completed": 600, "failed": 0, "output_tokens": int(each["tokens"].sum()),
    }  # fmt: skip
    assert {name: shown[name].truth for name in by_hand} == pytest.approx(by_hand, rel=1e-9)
