"""How do a tool and an absorber run together once, so that the end of either is the end of both?

The tool runs until it ends, its deadline passes or the absorber is gone; beside it somebody may watch how far it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.absorber.service import Announced
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.live import read_live
from loadproof.placement import Placement
from loadproof.process import Process, clean_environment, running
from loadproof.run_folder import RunFolder
from loadproof.tools.base import Command, Setting

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
class Together:
    """One run of a tool against an absorber; `begun` is what `watch` is first told."""

    folder: RunFolder
    profile: Profile
    placement: Placement
    begun: Progress
    watch: Watch
    level: str = "full"
    workers: int = 1

    def absorbing(self) -> AbstractAsyncContextManager[tuple[Announced, Process]]:
        """Run the absorber, as `absorber.client.absorbing` does."""
        return absorbing(self.profile, self.folder.journal, log_dir=self.folder.path, level=self.level,
                         workers=self.workers,
                         cpus=self.placement.of_absorber, isolate=self.placement.isolate)  # fmt: skip

    def setting(self, announced: Announced, tokenizer: Path, seed: int) -> Setting:
        """Return where and against what the tool is to run."""
        return Setting(base_url=announced.url, model=announced.model, tokenizer=tokenizer,
                       out=self.folder.tool_out.absolute(), seed=seed)  # fmt: skip

    async def run(self, command: Command, absorber: Process, deadline_s: float) -> Ended:
        """Run the tool until it ends, `deadline_s` seconds have passed or the absorber is gone.

        Raises BrokenRun when it cannot be started.
        """
        env = clean_environment({**command.env, "HF_HOME": str(self.folder.tool_out.absolute() / "hub")})
        beside = [asyncio.create_task(self._watching()), dying := asyncio.create_task(absorber.exited())]
        try:
            async with running(
                command.argv, log_dir=self.folder.path, name="tool", env=env, cwd=command.cwd,
                cpus=self.placement.of_tool, isolate=self.placement.isolate,
            ) as process:  # fmt: skip
                ending = asyncio.create_task(process.wait(deadline_s))
                await asyncio.wait({dying, ending}, return_when=asyncio.FIRST_COMPLETED)
                if not ending.done():
                    ending.cancel()
                    return await process.stop("was stopped because the absorber had ended")
                return await ending
        except UsageProblem as problem:
            raise BrokenRun(str(problem)) from problem  # the absorber had been started by then
        finally:
            for task in beside:
                task.cancel()

    async def _watching(self) -> None:
        since = time.monotonic()
        while True:
            seen, _ = read_live(self.folder.journal)
            self.watch(replace(self.begun, seen=seen, elapsed_s=time.monotonic() - since))
            await asyncio.sleep(PROGRESS_INTERVAL_S)
