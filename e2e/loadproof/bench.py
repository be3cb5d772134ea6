"""One case x one tool -> one run folder, and any command -> what it offered.

The only place that wires stages: absorber up, tool up, wait, both down, run.json, judge. Each stage leaves
files, so each can be done again without the ones before it.
"""

from __future__ import annotations

import asyncio
import platform
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from loadproof import __version__
from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.absorber.service import Announced
from loadproof.case import Case, read_case
from loadproof.checks.every import check_allowances
from loadproof.errors import UsageProblem
from loadproof.host import this_host
from loadproof.judging import Judgement, judge_run, missing
from loadproof.live import read_live
from loadproof.process import Ended, Process, clean_environment, run_to_end, running
from loadproof.run_folder import RunFolder, RunRecord
from loadproof.tokenizer import tokenizer_dir
from loadproof.tools.args_file import filled
from loadproof.tools.base import OFFLINE, Command, Setting, Tool
from loadproof.tools.command import find_program
from loadproof.tools.registry import TOOLS, tool_named

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
        named = list(tools) or [tool for tool in case.tools_with_files() if tool in TOOLS]
        if not named:
            raise UsageProblem(f"{folder}: has no file of a tool that this loadproof can run: {', '.join(TOOLS)}")
        for name in named:
            tool = tool_named(name)
            executable = tool.executable(case.tool_file(name))
            run = RunFolder(out / f"{case.name}-{name}")
            run.require_empty()
            jobs.append(Job(case, tool, executable, run, seed))
    names = [job.folder.path for job in jobs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageProblem(f"{twice.name}: is asked for twice; name each case and tool once")
    return jobs


async def run_job(job: Job, watch: Watch) -> Judgement:
    """Make one run and judge it; a tool that is not installed gives a visible `unsupported` row."""
    if job.executable is None:
        return missing(job.case.name, job.tool.name, job.tool.how_to_get())
    folder = job.folder
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    for path in (folder.tool_out, folder.journal):
        path.mkdir(parents=True)
    shutil.copytree(job.case.folder, folder.case)
    record = await _record(job, tokenizer, watch)
    folder.write("run.json", record)
    return await asyncio.to_thread(judge_run, folder.path)


async def _record(job: Job, tokenizer: Path, watch: Watch) -> RunRecord:
    host, started_at = this_host(), datetime.now(UTC).isoformat(timespec="seconds")
    git = await _git_state(job)
    profile = job.case.expected.absorber
    async with absorbing(profile, job.folder.journal, log_dir=job.folder.path) as (announced, absorber):
        setting = Setting(base_url=announced.url, model=announced.model, tokenizer=tokenizer,
                          out=job.folder.tool_out.absolute(), seed=job.seed)  # fmt: skip
        assert job.executable is not None  # noqa: S101 -- run_job answered for a missing tool
        command = job.tool.command(job.folder.case / job.case.tool_file(job.tool.name).name, job.executable, setting)
        tool_ended = await _run_tool(job, command, watch, absorber)
        absorber_ended = await absorber.stop("", grace_s=60)
    return RunRecord(
        case=job.case.name, tool=job.tool.name, tool_version=job.tool.version(), loadproof_version=__version__,
        python=platform.python_version(), seed=job.seed, model=announced.model, started_at=started_at, git=git,
        host=host, tool_ended=tool_ended, absorber_ended=absorber_ended,
    )  # fmt: skip


async def _run_tool(job: Job, command: Command, watch: Watch, absorber: Process) -> Ended:
    extra = {**command.env, "HF_HOME": str(job.folder.tool_out.absolute() / "hub")}
    async with running(
        command.argv, log_dir=job.folder.path, name="tool", env=clean_environment(extra), cwd=command.cwd
    ) as process:
        watching = asyncio.create_task(_watch(job, watch))
        dying = asyncio.create_task(absorber.exited())
        ending = asyncio.create_task(process.wait(job.case.expected.deadline_s))
        try:
            await asyncio.wait({dying, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not ending.done():
                return await process.stop("was stopped because the absorber had ended")
            return await ending
        finally:
            for task in (watching, dying, ending):
                task.cancel()


async def _watch(job: Job, watch: Watch) -> None:
    began = time.monotonic()
    while True:
        seen, _ = read_live(job.folder.journal)
        watch(Progress(case=job.case.name, tool=job.tool.name, seen=seen, expected=job.expected_requests,
                       elapsed_s=time.monotonic() - began))  # fmt: skip
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
    """What `observe` saw: how the command ended, and where the journal is."""

    ended: Ended
    journal: Path
    log: str


async def observe(argv: Sequence[str], profile: Profile, out: Path, *, seed: int, deadline_s: float) -> Observed:
    """Run any command against an absorber; {base_url} {model} {tokenizer} {out} {seed} in it are replaced."""
    program = find_program(argv[0], Path.cwd())
    folder = RunFolder(out)
    folder.require_empty()
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    for path in (folder.tool_out, folder.journal):
        path.mkdir(parents=True)
    async with absorbing(profile, folder.journal, log_dir=out) as (announced, _absorber):
        process_argv = [str(program), *filled(argv[1:], _setting(announced, tokenizer, folder, seed))]
        ended, log = await _run_observed(process_argv, out, deadline_s)
    return Observed(ended, folder.journal, log)


def _setting(announced: Announced, tokenizer: Path, folder: RunFolder, seed: int) -> Setting:
    return Setting(base_url=announced.url, model=announced.model, tokenizer=tokenizer,
                   out=folder.tool_out.absolute(), seed=seed)  # fmt: skip


async def _run_observed(argv: list[str], out: Path, deadline_s: float) -> tuple[Ended, str]:
    process: Process
    async with running(argv, log_dir=out, name="tool", env=clean_environment(OFFLINE)) as process:
        ended = await process.wait(deadline_s)
        return ended, process.tail()
