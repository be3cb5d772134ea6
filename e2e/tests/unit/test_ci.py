"""Does CI fail when too many timed tests ended unclear, or when nothing was timed at all?"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / ".ci" / "unclear.py"
DEADLINE_S = 30.0


def judged(summary: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", str(SCRIPT), str(summary)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


@pytest.mark.parametrize(
    ("timed", "unclear", "told"),
    [
        (0, 0, "no test was timed; skipped for a missing tool: 5"),
        (3, 0, ""),
        (3, 1, ""),
        (300, 100, ""),
        (300, 101, "101 of 300 timed tests ended unclear; more than a third is too many"),
        (2, 1, "1 of 2 timed tests ended unclear; more than a third is too many"),
    ],
)
def test_at_most_a_third_may_end_unclear(timed: int, unclear: int, told: str, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    summary.write_text(json.dumps({"timed": timed, "unclear": unclear, "tool_missing": 5}))
    ended = judged(summary)
    assert (ended.returncode, ended.stderr.strip()) == (int(bool(told)), told)


def test_a_summary_that_was_not_written_fails(tmp_path: Path) -> None:
    ended = judged(tmp_path / "summary.json")
    assert ended.returncode == 1
    assert ended.stderr.strip() == f"{tmp_path / 'summary.json'}: was not written, so no test made a run"
