"""One case x one tool -> one run folder, and any command -> what it offered.

The only place that wires stages: absorber up, tool up, wait, both down, run.json, judge. Each stage leaves
files, so each can be done again without the ones before it.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import time
import traceback
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from loadproof import __version__
from loadproof.absorber.client import STOP_GRACE_S, absorbing
from loadproof.absorber.profile import Profile
from loadproof.absorber.service import Announced
from loadproof.case import Case, read_case
from loadproof.checks.every import check_allowances
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, LoadproofError, UsageProblem
from loadproof.host import this_host
from loadproof.judging import Judgement, judge_run, missing
from loadproof.live import read_live
from loadproof.process import Process, clean_environment, run_to_end, running, tail
from loadproof.run_folder import RunFolder, RunRecord
from loadproof.tokenizer import tokenizer_dir
from loadproof.tools.args_file import filled
from loadproof.tools.base import OFFLINE, Command, Setting, Tool
from loadproof.tools.command import find_program
from loadproof.tools.names import TOOL_FILES
from loadproof.tools.registry import tool_named

PROGRESS_INTERVAL_S = 0.5


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: generation requests seen, of `expected` (None: unknown), after `elapsed_s` seconds."""

    case: str
    tool: str
    seen: int
    expected: int | None
    elapsed_s: float


type Watch = Callable[[Progress], None]


@dataclass(frozen=True)
class Job:
    """One run to be made: validated, nothing started."""

    case: Case
    tool: Tool
    executable: Path | None
    folder: RunFolder
    seed: int

    @property
    def expected_requests(self) -> int | None:
        """How many requests the progress counts up to."""
        asked = self.case.expected.workload.num_requests
        return None if asked is None else asked + self.case.declaration(self.tool.name).leading_extra_requests


def plan_jobs(folders: Sequence[Path], tools: Sequence[str], out: Path, seed: int) -> list[Job]:
    """Return the runs for these cases and tools (none named: every tool that a case has a file for).

    Raises UsageProblem for anything that is wrong with any of them, before anything is started or written.
    """
    jobs = []
    for folder in folders:
        case = read_case(folder)
        check_allowances(case)
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
            jobs.append(Job(case, tool, executable, run, seed))
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
    folder.claim()
    try:
        shutil.copytree(job.case.folder, folder.case, ignore=shutil.ignore_patterns(".*"))
        record = replace(record, git=await _git_state(job))
        async with absorbing(job.case.expected.absorber, folder.journal, log_dir=folder.path) as (announced, absorber):
            setting = _setting(announced, tokenizer, folder, job.seed)
            command = job.tool.command(folder.case / job.case.tool_file(job.tool.name).name, job.executable, setting)
            watching = _watch(folder.journal, _progress(job), watch)
            tool_ended = await _run_tool(command, folder, absorber, job.case.expected.deadline_s, watching)
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
    return f"this is a defect of loadproof\n{''.join(traceback.format_exception(error))}"


def _begun(job: Job) -> RunRecord:
    return RunRecord(
        case=job.case.name, tool=job.tool.name, tool_version=job.tool.version(), loadproof_version=__version__,
        python=platform.python_version(), seed=job.seed, git="", host=this_host(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )  # fmt: skip


async def _run_tool(
    command: Command, folder: RunFolder, absorber: Process, deadline_s: float, watching: Coroutine[Any, Any, None]
) -> Ended:
    """Run it until it ends, its deadline passes or the absorber is gone, with `watching` beside it."""
    env = clean_environment({**command.env, "HF_HOME": str(folder.tool_out.absolute() / "hub")})
    beside = asyncio.create_task(watching)
    dying = asyncio.create_task(absorber.exited())
    try:
        async with running(command.argv, log_dir=folder.path, name="tool", env=env, cwd=command.cwd) as process:
            ending = asyncio.create_task(process.wait(deadline_s))
            await asyncio.wait({dying, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                ending.cancel()
                return await process.stop("was stopped because the absorber had ended")
            return await ending
    except UsageProblem as problem:
        raise BrokenRun(str(problem)) from problem  # the absorber had been started by then
    finally:
        beside.cancel()
        dying.cancel()


async def _watch(journal: Path, begun: Progress, watch: Watch) -> None:
    since = time.monotonic()
    while True:
        seen, _ = read_live(journal)
        watch(replace(begun, seen=seen, elapsed_s=time.monotonic() - since))
        await asyncio.sleep(PROGRESS_INTERVAL_S)


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


@dataclass(frozen=True)
class Observed:
    """What `observe` saw: how the command ended, where the journal is, and the last lines of its output."""

    ended: Ended
    journal: Path
    log: str


async def observe(
    argv: Sequence[str], profile: Profile, out: Path, *, seed: int, deadline_s: float, watch: Watch
) -> Observed:
    """Run any command against an absorber; {base_url} {model} {tokenizer} {out} {seed} in it are replaced.

    Raises UsageProblem when nothing could be begun, BrokenRun when the command cannot be started or the
    absorber does not end as it must.
    """
    program = find_program(argv[0], Path.cwd())
    folder = RunFolder(out)
    folder.require_empty()
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    folder.claim()
    begun = Progress(case="observe", tool=program.name, seen=0, expected=None, elapsed_s=0.0)
    async with absorbing(profile, folder.journal, log_dir=out) as (announced, absorber):
        arguments = filled(argv[1:], _setting(announced, tokenizer, folder, seed))
        command = Command(argv=[str(program), *arguments], env=OFFLINE)
        ended = await _run_tool(command, folder, absorber, deadline_s, _watch(folder.journal, begun, watch))
    return Observed(ended, folder.journal, tail(out / "tool.stdout", out / "tool.stderr"))


def _setting(announced: Announced, tokenizer: Path, folder: RunFolder, seed: int) -> Setting:
    return Setting(base_url=announced.url, model=announced.model, tokenizer=tokenizer,
                   out=folder.tool_out.absolute(), seed=seed)  # fmt: skip
