"""One case x one tool -> one run folder.

The only place that wires stages: absorber up, tool up, wait, both down, run.json, judge. Each stage leaves
files, so each can be done again without the ones before it.
"""

from __future__ import annotations

import asyncio
import errno
import platform
import shutil
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from loadproof import __version__
from loadproof.absorber.client import STOP_GRACE_S
from loadproof.case import Case, read_case
from loadproof.checks.every import check_allowances
from loadproof.descriptors import require_descriptors
from loadproof.errors import LoadproofError, UsageProblem
from loadproof.host import this_host
from loadproof.judging import Judgement, judge_run, missing
from loadproof.placement import UNPLACED, Placement
from loadproof.process import clean_environment, run_to_end
from loadproof.run_folder import RunFolder, RunRecord, what_helps
from loadproof.together import Progress, Together, Watch
from loadproof.tokenizer import tokenizer_dir
from loadproof.tools.base import Tool
from loadproof.tools.names import TOOL_FILES
from loadproof.tools.registry import tool_named

__all__ = ["Job", "Progress", "Watch", "plan_jobs", "run_job"]

# What the system refuses to the run folder is not our defect.
_OF_THE_SYSTEM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE,
                            errno.ENFILE})  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One run to be made: validated, nothing started."""

    case: Case
    tool: Tool
    executable: Path | None
    folder: RunFolder
    seed: int
    placement: Placement = UNPLACED

    @property
    def expected_requests(self) -> int | None:
        """How many requests the progress counts up to."""
        asked = self.case.expected.workload.num_requests
        return None if asked is None else asked + self.case.declaration(self.tool.name).leading_extra_requests


def plan_jobs(
    folders: Sequence[Path], tools: Sequence[str], out: Path, seed: int, placement: Placement = UNPLACED
) -> list[Job]:
    """Return the runs for these cases and tools (none named: every tool that a case has a file for).

    Raises UsageProblem for anything that is wrong with any of them, before anything is started or written.
    """
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
        for name in named:
            tool, config = tool_named(name), case.tool_file(name)
            tool.check(config)
            executable = tool.executable(config)
            run = RunFolder(out / f"{case.name}-{name}")
            run.require_empty()
            jobs.append(Job(case, tool, executable, run, seed, placement))
    names = [job.folder.path for job in jobs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageProblem(f"{twice.name}: is asked for twice; name each case and tool once, and run cases of the same "
                           "folder name one after the other, each with its own --out")  # fmt: skip
    return jobs


async def run_job(job: Job, watch: Watch) -> Judgement:
    """Make one run and judge it; a tool that is not installed gives a visible `unsupported` row.

    Raises UsageProblem when nothing could be begun; whatever goes wrong later is a `broken` verdict.
    """
    if job.executable is None:
        return missing(job.case.name, job.tool.name, job.tool.how_to_get())
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    folder, record = job.folder, _begun(job)
    together = Together(folder, job.case.expected.absorber, job.placement, _progress(job), watch)
    folder.claim()
    folder.write("run.json", record)  # should we be killed, this says that the run did not come to its end
    try:
        shutil.copytree(job.case.folder, folder.case, ignore=shutil.ignore_patterns(".*"))
        record = replace(record, git=await _git_state(job))
        async with together.absorbing() as (announced, absorber):
            setting = together.setting(announced, tokenizer, job.seed)
            command = job.tool.command(folder.case / job.case.tool_file(job.tool.name).name, job.executable, setting)
            tool_ended = await together.run(command, absorber, job.case.expected.deadline_s)
            record = replace(record, model=announced.model, tool_ended=tool_ended)
            record = replace(record, absorber_ended=await absorber.stop("", grace_s=STOP_GRACE_S))
    except BaseException as error:
        record = replace(record, broken=_why(error))
        if not isinstance(error, Exception):
            raise
    finally:
        folder.write("run.json", record)
    return await asyncio.to_thread(judge_run, folder.path)


def _progress(job: Job) -> Progress:
    return Progress(case=job.case.name, tool=job.tool.name, seen=0, expected=job.expected_requests, elapsed_s=0.0)


def _why(error: BaseException) -> str:
    if isinstance(error, LoadproofError):
        return str(error)
    if not isinstance(error, Exception):
        return "the run was interrupted"
    if isinstance(error, OSError) and error.errno in _OF_THE_SYSTEM:
        return f"{error.filename or 'the run folder'}: {error.strerror}; {what_helps(error)}"
    if isinstance(error, shutil.Error):  # one for each file that was not copied: source, destination, why
        return f"the case could not be copied: {error.args[0][0][-1]}"
    return f"this is a defect of loadproof\n{''.join(traceback.format_exception(error))}"


def _begun(job: Job) -> RunRecord:
    return RunRecord(
        case=job.case.name, tool=job.tool.name, tool_version=job.tool.version(), loadproof_version=__version__,
        python=platform.python_version(), seed=job.seed, git="", host=this_host(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"), placement=job.placement,
    )  # fmt: skip


async def _git_state(job: Job) -> str:
    """Return the commit of the case's repository, with -dirty where it is; empty outside a repository."""
    git = shutil.which("git")
    if git is None:
        return ""
    argv = [git, "-C", str(job.case.folder.absolute()), "describe", "--always", "--dirty", "--abbrev=40"]
    ended = await run_to_end(argv, log_dir=job.folder.path, name="git", env=clean_environment({}), deadline_s=30)
    said = (job.folder.path / "git.stdout").read_text().strip()
    for name in ("git.stdout", "git.stderr"):
        (job.folder.path / name).unlink()
    return said if ended.exit_code == 0 else ""
