"""Does anything outlive a run of which one process is killed, and does its journal keep what it must? Ten times.

The measurement is `bench/kills.py`; it runs as a process of its own, because it becomes the parent of whatever
escapes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec

from bench.killing.once import MAY_BE_LOST_NS, Outcome
from bench.killing.victims import ISOLATED

SEED = 20_260_101
TIMES = 10
E2E = Path(__file__).parents[2]


def kills(tmp_path: Path, *more: str) -> list[Outcome]:
    seen = tmp_path / "seen.json"
    argv = [sys.executable, "-m", "bench.kills", "--seed", str(SEED), "--json", str(seen), *more]
    env = {**os.environ, "PYTHONPATH": str(E2E)}
    told = subprocess.run(argv, cwd=E2E, env=env, capture_output=True, text=True, timeout=600, check=False)
    sys.stdout.write(told.stdout)  # the seed and the table, for whoever reads why it failed
    assert told.returncode == 0, told.stdout + told.stderr
    return msgspec.json.decode(seen.read_bytes(), type=list[Outcome])


def test_ten_kills(tmp_path: Path) -> None:
    seen = kills(tmp_path, "--times", str(TIMES))
    assert [one.wrong for one in seen] == [[]] * TIMES
    assert sum(one.left + one.ports for one in seen) == 0
    assert max(one.lost_ms for one in seen) <= MAY_BE_LOST_NS / 1e6
    # Not vacuous: several sorts of victim, and something had been answered and was in flight.
    assert len({one.victim for one in seen}) >= 4
    assert sum(one.answered for one in seen) > 0
    assert sum(one.in_flight[1] for one in seen) > 0


def test_the_measure_finds_what_is_left(tmp_path: Path) -> None:
    """Without isolation, harness and all wardens killed in the same instant do leave daemons: it must say so."""
    argv = [sys.executable, "-m", "bench.kills", "--times", "1", "--only", list(ISOLATED)[-1]]
    env = {**os.environ, "PYTHONPATH": str(E2E)}
    told = subprocess.run(argv, cwd=E2E, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert told.returncode == 1, told.stdout + told.stderr
    assert "WRONG: left: ['kworker/7:1 " in told.stdout
    assert "WRONG: somebody holds the tool's lock" in told.stdout
