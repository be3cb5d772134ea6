"""One case x one tool -> one run folder.

The only place that wires stages: server up, tool up, wait, both down, run.json, judge. Each stage leaves
files, so each can be done again without the ones before it.
"""

from __future__ import annotations

import asyncio
import errno
import platform
import shutil
import traceback
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from loadproof import __version__
from loadproof.absorber.client import STOP_GRACE_S
from loadproof.absorber.recording import DEFAULT_MODEL
from loadproof.errors import LoadproofError
from loadproof.host import this_host
from loadproof.judging import Judgement, judge_run, not_made
from loadproof.planning import Job, plan_jobs
from loadproof.process import clean_environment, run_to_end
from loadproof.run_folder import ABSORBER, RunRecord, what_helps
from loadproof.simulated import sha256_of_executable, simulating, simulator_for, takes_tokenizer
from loadproof.together import Together
from loadproof.tokenizer import tokenizer_dir
from loadproof.tool_run import Progress, ToolRun, Watch, run_beside, run_tool
from loadproof.tools.base import Command, Setting

__all__ = ["Job", "Progress", "ToolRun", "Watch", "plan_jobs", "run_job", "run_tool"]

# What the system refuses to the run folder is not our defect.
_OF_THE_SYSTEM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EMFILE,
                            errno.ENFILE})  # fmt: skip


async def run_job(job: Job, watch: Watch) -> Judgement:
    """Make one run and judge it; one that cannot be made here (`Job.obstacles`) gives visible `unsupported` rows.

    Raises UsageProblem when nothing could be begun; whatever goes wrong later is a `broken` verdict.
    """
    if job.obstacles:
        return not_made(job.case.name, job.tool.name, job.obstacles, job.server)
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    job.folder.claim(journal=job.server == ABSORBER)
    await _Run(job, watch, tokenizer, _begun(job)).make()
    return await asyncio.to_thread(judge_run, job.folder.path)


@dataclass
class _Run:
    """One run while it is made; `record` says all that is known of it so far."""

    job: Job
    watch: Watch
    tokenizer: Path
    record: RunRecord

    def note(self, **known: object) -> None:
        self.record = replace(self.record, **known)

    async def make(self) -> None:
        """Make it. Raises only what interrupts us; whatever else goes wrong is noted."""
        job, folder = self.job, self.job.folder
        folder.write("run.json", self.record)  # should we be killed, this says that the run did not come to its end
        try:
            shutil.copytree(job.case.folder, folder.case, ignore=shutil.ignore_patterns(".*"))
            self.note(git=await _git_state(job))
            await (self._beside_absorber() if job.server == ABSORBER else self._beside_simulator())
        except BaseException as error:
            self.note(broken=_why(error))
            if not isinstance(error, Exception):
                raise
        finally:
            folder.write("run.json", self.record)

    async def _beside_absorber(self) -> None:
        job = self.job
        together = Together(job.folder, job.case.expected.absorber, job.placement, _progress(job), self.watch)
        async with together.absorbing() as (announced, absorber):
            self.note(model=announced.model)
            command = self._command(together.setting(announced, self.tokenizer, job.seed))
            self.note(tool_ended=await together.run(command, absorber, job.case.expected.deadline_s))
            self.note(absorber_ended=await absorber.stop("", grace_s=STOP_GRACE_S))

    async def _beside_simulator(self) -> None:
        job = self.job
        self.note(counts_tokens=await takes_tokenizer(job.folder.path),
                  simulator_sha256=await asyncio.to_thread(sha256_of_executable))  # fmt: skip
        simulator = simulator_for(
            job.case, tokenizer=self.tokenizer if self.record.counts_tokens else None, seed=job.seed,
            log_dir=job.folder.path, placement=job.placement,
        )  # fmt: skip
        try:
            async with simulating(simulator, _progress(job), self.watch) as beside:
                self.note(model=DEFAULT_MODEL, dialect=simulator.dialect)
                setting = Setting(base_url=simulator.base_url, model=DEFAULT_MODEL, tokenizer=self.tokenizer,
                                  out=job.folder.tool_out.absolute(), seed=job.seed)  # fmt: skip
                ended = await run_beside(
                    self._command(setting), job.folder, job.case.expected.deadline_s, beside=beside,
                    placement=job.placement,
                )  # fmt: skip
                self.note(tool_ended=ended)
                if ended.stopped_because and (complaint := beside.complaint()):
                    self.note(broken=f"{job.tool.name} {ended.says()}, and {complaint}")
        finally:
            self.note(simulator_ended=simulator.ended)

    def _command(self, setting: Setting) -> Command:
        job = self.job
        assert job.executable is not None  # noqa: S101 -- it would be an obstacle
        return job.tool.command(job.folder.case / job.case.tool_file(job.tool.name).name, job.executable, setting)


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
        python=platform.python_version(), seed=job.seed, git="", host=this_host(), server=job.server,
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
