"""Is each way of being wrong found by the check that is meant for it, and by no other?

The reference sender, honest and wrong in one known way, against the real absorber, on small cases.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Outcome

RATE_LOAD = (420, "mode: rate\n  rate: 100", ["--arrival", "constant", "--rate", "100"])
SLOTS_LOAD = (240, "mode: concurrency\n  concurrency: 6", ["--concurrency", "6"])

EXPECTED = """\
why: a small load for the reference sender
absorber: {{ttft_s: 0.06, itl_s: 0.01}}
workload:
  num_requests: {count}
  prompt_tokens: 32
  max_tokens: 5
  stream: {stream}
  ignore_eos: true
  api: {api}
  unique_prompts: true
load:
  {load}
tools:
  metronome: {declared}
"""

WRONG = {
    "concurrency+1": (SLOTS_LOAD, {"concurrency.slots"}),
    "concurrency-1": (SLOTS_LOAD, {"concurrency.slots"}),
    "rate-10%": (RATE_LOAD, {"rate.mean"}),
    "duplicate": (RATE_LOAD, {"count.unique"}),
    "drop-last": (RATE_LOAD, {"count.requests"}),
    "max-tokens-1": (SLOTS_LOAD, {"payload.max_tokens"}),
    "no-ignore-eos": (SLOTS_LOAD, {"payload.ignore_eos"}),
    "warm-up": (RATE_LOAD, {"count.requests"}),
    "prompt+1": (RATE_LOAD, {"payload.prompt_tokens"}),
}


def make_case(
    folder: Path,
    load: tuple[int, str, list[str]],
    *extra: str,
    api: str = "completions",
    stream: bool = True,
    leading: int = 0,
) -> Path:
    folder.mkdir()
    count, described, arguments = load
    arrival = "arrival: constant, " if load is RATE_LOAD else ""
    declared = f"{{{arrival}leading_extra_requests: {leading}}}"
    text = EXPECTED.format(count=count, load=described, declared=declared, api=api, stream=str(stream).lower())
    (folder / "expected.yaml").write_text(text)
    size = ["--num-requests", f"{count}", "--prompt-tokens", "32", "--max-tokens", "5", "--api", api]
    (folder / "metronome.args").write_text("\n".join([*arguments, *size, *extra]))
    return folder


def failed(run: StoredRun) -> set[str]:
    assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
    return {one.check for one in run.judgement.findings if one.outcome is Outcome.FAIL}


def counted_outcome(run: StoredRun) -> Outcome:
    failed(run)
    return run.judgement.verdict.outcome


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_sender_fails_the_right_check_alone(kind: str, loadproof_runs: Runs, tmp_path: Path) -> None:
    load, checks = WRONG[kind]
    case = make_case(tmp_path / f"wrong-{kind}", load, "--wrong", kind)
    run = loadproof_runs.clearly(case, "metronome", counted_outcome)
    assert failed(run) == checks


@pytest.mark.parametrize(
    ("load", "api", "stream"),
    [
        (RATE_LOAD, "completions", True),
        (SLOTS_LOAD, "completions", True),
        (RATE_LOAD, "chat", True),
        (SLOTS_LOAD, "chat", False),
    ],
)
def test_its_honest_twin_passes(
    load: tuple[int, str, list[str]], api: str, stream: bool, loadproof_runs: Runs, tmp_path: Path
) -> None:
    extra = () if stream else ("--no-stream",)
    name = f"honest-{'rate' if load is RATE_LOAD else 'slots'}-{api}"
    case = make_case(tmp_path / name, load, *extra, api=api, stream=stream)
    run = loadproof_runs.clearly(case, "metronome", counted_outcome)
    assert failed(run) == set()
    assert run.judgement.verdict.outcome is Outcome.PASS


def test_a_declared_warm_up_is_trimmed_and_told(loadproof_runs: Runs, tmp_path: Path) -> None:
    case = make_case(tmp_path / "declared", RATE_LOAD, "--wrong", "warm-up", leading=1)
    run = loadproof_runs.clearly(case, "metronome", counted_outcome)
    assert failed(run) == set()
    [told] = [one for one in run.judgement.findings if one.check == "count.leading_extras"]
    assert told.measured.startswith("1 declared")
    assert not told.counted
