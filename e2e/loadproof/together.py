"""How do a tool and an absorber run together once, so that the end of either is the end of both?

The absorber is started, the tool runs beside it (`tool_run.run_beside`), and somebody may watch how far it is by the
absorber's live counters.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.absorber.service import Announced
from loadproof.ended import Ended
from loadproof.live import read_live
from loadproof.placement import Placement
from loadproof.process import Process
from loadproof.run_folder import RunFolder
from loadproof.tool_run import Beside, Progress, Watch, run_beside
from loadproof.tools.base import Command, Setting

__all__ = ["Progress", "Together", "Watch"]

PROGRESS_INTERVAL_S = 0.5


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
        beside = Beside(name="the absorber", gone=absorber.exited, seen=self._seen, interval_s=PROGRESS_INTERVAL_S,
                        begun=self.begun, watch=self.watch)  # fmt: skip
        return await run_beside(command, self.folder, deadline_s, beside=beside, placement=self.placement)

    async def _seen(self) -> int | None:
        return read_live(self.folder.journal)[0]
