"""Do tool and absorber run where `--cpus` and `--isolate` say, and does the run's record tell?"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from loadproof.bench import Progress, plan_jobs, run_job
from loadproof.errors import UsageProblem
from loadproof.placement import Placement
from loadproof.process import try_isolation
from loadproof.run_folder import RunFolder
from loadproof.verdict import Outcome
from tests.robustness.conftest import MakeCase, absorbers_of

LOOK = "send()\nprint(os.getpid(), sorted(os.sched_getaffinity(0)), flush=True)"


def test_a_run_that_is_placed(make_case: MakeCase, tmp_path: Path) -> None:
    try:
        asyncio.run(try_isolation())
    except UsageProblem as problem:
        pytest.skip(str(problem))
    first, last = min(os.sched_getaffinity(0)), max(os.sched_getaffinity(0))
    placement = Placement(cpus={"tool": [first], "absorber": [last]}, isolate="pid")
    seen: dict[int, list[int]] = {}

    def watch(_progress: Progress) -> None:
        for process in absorbers_of(tmp_path):
            seen[process.pid] = process.cpu_affinity()

    [job] = plan_jobs([make_case(LOOK, ttft_s=1.0)], ["command"], tmp_path / "out", 0, placement)
    judgement = asyncio.run(run_job(job, watch))
    run = RunFolder(tmp_path / "out" / "wrong-command")
    assert judgement.verdict.outcome is not Outcome.BROKEN
    assert (run.path / "tool.stdout").read_text() == f"2 [{first}]\n"
    assert list(seen.values()) == [[last]]
    assert run.read_record().placement == placement
