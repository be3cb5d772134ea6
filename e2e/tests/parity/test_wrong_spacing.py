"""Is a real sender that stalls, or sends in groups, found by the check of its spacing, though its slope is right?

A small program of the test's own, run as the `command` tool, with a seeded prompt of the right length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from loadproof.plugin import Runs, StoredRun
from loadproof.verdict import Outcome

EXPECTED = """\
why: even spacing, by a program that may stall or group its sends
absorber: {ttft_s: 0.02, itl_s: 0.005}
workload: {num_requests: 160, prompt_tokens: 32, max_tokens: 4, stream: false, ignore_eos: true, unique_prompts: true}
load: {mode: rate, rate: 40}
tools:
  command: {arrival: constant, connections: per_request}
"""
SENDER = """\
import json, random, sys, threading, time, urllib.request
from loadproof.words import random_text

url, model, stall_s, group = sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
bodies = [
    json.dumps({"model": model, "prompt": random_text(31, random.Random(k)), "max_tokens": 4, "ignore_eos": True})
    for k in range(160)
]


def send(body):
    request = urllib.request.Request(url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request).read()


threads = [threading.Thread(target=send, args=(body,)) for body in bodies]
start = time.monotonic()
for k, thread in enumerate(threads):
    due = start + (k - k % group) / 40 + (stall_s if k >= 140 else 0)
    time.sleep(max(0, due - time.monotonic()))
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize(
    ("name", "stall_s", "group", "checks", "may"),
    [
        ("even", 0.0, 1, set[str](), set[str]()),
        ("stall", 0.6, 1, {"arrivals.silence"}, {"arrivals.halves"}),
        ("groups", 0.0, 8, {"arrivals.even"}, {"arrivals.burst", "arrivals.halves", "arrivals.silence", "rate.mean"}),
    ],
)
def test_spacing(
    *, name: str, stall_s: float, group: int, checks: set[str], may: set[str], loadproof_runs: Runs, tmp_path: Path
) -> None:
    case = tmp_path / f"spacing-{name}"
    case.mkdir()
    (case / "expected.yaml").write_text(EXPECTED)
    (case / "sender").write_text(f"#!{sys.executable}\n{SENDER}")
    (case / "sender").chmod(0o755)
    (case / "command.args").write_text(f"./sender\n{{base_url}}\n{{model}}\n{stall_s}\n{group}\n")

    def ask(run: StoredRun) -> Outcome:
        assert run.judgement.verdict.outcome is not Outcome.BROKEN, run.judgement.verdict.reason
        return run.judgement.verdict.outcome

    run = loadproof_runs.clearly(case, "command", ask)
    failed = {one.check for one in run.judgement.findings if one.outcome is Outcome.FAIL}
    assert checks <= failed <= checks | may
