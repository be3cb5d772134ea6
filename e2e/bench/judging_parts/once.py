"""One step in a process of its own, on one core: `make`, `seal` or `judge`; a JSON line says how long it took.

Seconds are of the step alone, imports apart; memory is seen from outside, when the process has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from time import perf_counter, process_time


def main() -> None:
    """Do the step, and say what it took."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # before any library counts the cores
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("step", choices=sorted(STEPS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("plan", type=json.loads)
    given = parser.parse_args()
    told = STEPS[given.step](given.folder, given.plan)
    sys.stdout.write(json.dumps(told) + "\n")


def _make(folder: Path, plan: dict[str, int]) -> dict[str, float]:
    from bench.judging_parts.made import Plan, make_streams  # noqa: PLC0415 -- after the core is chosen

    begun = perf_counter(), process_time()
    make_streams(folder, Plan(**plan))
    return _took(begun, 0.0)


def _seal(folder: Path, _plan: dict[str, int]) -> dict[str, float]:
    importing = perf_counter()
    from loadproof.sealing import seal  # noqa: PLC0415 -- its time is shown apart

    begun = perf_counter(), process_time()
    seal(folder)
    return _took(begun, begun[0] - importing)


def _judge(folder: Path, plan: dict[str, int]) -> dict[str, float]:
    importing = perf_counter()
    import scipy.special  # noqa: F401, PLC0415 -- the time of imports is shown apart; checks import these when asked

    from bench.judging_parts.asked import case_of  # noqa: PLC0415 -- as above
    from loadproof.judging import judge_journal  # noqa: PLC0415 -- as above

    case = case_of(plan["requests"], plan["chunks"])
    begun = perf_counter(), process_time()
    judged = judge_journal(case, "command", folder, None)
    told = _took(begun, begun[0] - importing)
    wrong = [f"{found.check}: {found.measured}" for found in judged.findings if found.outcome.value == "fail"]
    if wrong or judged.verdict.reason:
        raise SystemExit(f"an honest run was judged {wrong or judged.verdict.reason}")
    return told


def _took(begun: tuple[float, float], importing: float) -> dict[str, float]:
    wall, cpu = begun
    return {"wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu, "import_s": importing}


STEPS = {"make": _make, "seal": _seal, "judge": _judge}

if __name__ == "__main__":
    main()
