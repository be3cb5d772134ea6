"""Which runs are asked for, and can each be made?

Everything that is wrong with any of them is a `UsageProblem` before anything is started or written. What is only not
to be had here (a tool or a simulator that is not installed, a profile that the simulator cannot follow) makes that run
a visible `unsupported` row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadproof.case import Case, read_case
from loadproof.checks.every import check_allowances
from loadproof.descriptors import require_descriptors
from loadproof.errors import UsageProblem
from loadproof.judging import row_of_missing_tool
from loadproof.placement import UNPLACED, Placement
from loadproof.plain_words import nearest
from loadproof.requirements import SIMULATOR
from loadproof.run_folder import ABSORBER, RunFolder
from loadproof.simulated import is_installed, lacking, row_of_lacking, row_of_missing
from loadproof.simulators.problems import HOW_TO_GET
from loadproof.tools.base import Tool
from loadproof.tools.names import TOOL_FILES
from loadproof.tools.registry import tool_named
from loadproof.verdict import Finding

SERVERS = (ABSORBER, SIMULATOR)


@dataclass(frozen=True)
class Job:
    """One run to be made: validated, nothing started.

    `absent` is what is not installed and how to get it; with it, or with a profile that the server cannot follow,
    there are `obstacles`, and the run is not made.
    """

    case: Case
    tool: Tool
    executable: Path | None
    folder: RunFolder
    seed: int
    placement: Placement = UNPLACED
    server: str = ABSORBER
    absent: dict[str, str] = field(default_factory=dict)
    obstacles: tuple[Finding, ...] = ()

    @property
    def expected_requests(self) -> int | None:
        """How many requests the progress counts up to."""
        asked = self.case.expected.workload.num_requests
        return None if asked is None else asked + self.case.declaration(self.tool.name).leading_extra_requests


def plan_jobs(
    folders: Sequence[Path], tools: Sequence[str], out: Path, seed: int, placement: Placement = UNPLACED, *,
    server: str = ABSORBER,
) -> list[Job]:  # fmt: skip
    """Return the runs for these cases and tools (none named: every tool that a case has a file for).

    Raises UsageProblem for anything that is wrong with any of them, before anything is started or written.
    """
    if server not in SERVERS:
        raise UsageProblem(f"{server}: unknown server{nearest(server, SERVERS) or '; known are ' + ', '.join(SERVERS)}")
    jobs = []
    for folder in folders:
        case = read_case(folder)
        check_allowances(case)
        require_descriptors(case)
        named = list(tools) or case.tools_with_files()
        if not named:
            raise UsageProblem(f"{folder}: has no tool's file, so there is nothing to run; add one of "
                               f"{', '.join(TOOL_FILES.values())}")  # fmt: skip
        if out.resolve().is_relative_to(folder.resolve()):
            raise UsageProblem(f"{out}: lies in the case {folder}, which every run copies; choose another --out")
        jobs += [_job(case, name, out, seed, placement, server=server) for name in named]
    names = [job.folder.path for job in jobs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageProblem(f"{twice.name}: is asked for twice; name each case and tool once, and run cases of the same "
                           "folder name one after the other, each with its own --out")  # fmt: skip
    return jobs


def _job(case: Case, name: str, out: Path, seed: int, placement: Placement, *, server: str) -> Job:
    tool, config = tool_named(name), case.tool_file(name)
    tool.check(config)
    executable = tool.executable(config)
    folder = RunFolder(out / f"{case.name}-{name}")
    folder.require_empty()
    absent, obstacles = dict[str, str](), list[Finding]()
    if executable is None:
        absent[name] = tool.how_to_get()
        obstacles.append(row_of_missing_tool(tool.how_to_get()))
    if server == SIMULATOR:
        obstacles += [row_of_lacking(key, why) for key, why in lacking(case.expected.absorber).items()]
        if not is_installed():
            absent[SIMULATOR] = HOW_TO_GET
            obstacles.append(row_of_missing())
    return Job(case, tool, executable, folder, seed, placement, server, absent, tuple(obstacles))
