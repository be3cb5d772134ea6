"""What does any command offer? It runs against an absorber; there is no case, and nothing is judged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from loadproof.absorber.profile import Profile
from loadproof.absorber.workers import check_workers
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, LoadproofError
from loadproof.placement import UNPLACED, Placement
from loadproof.process import tail
from loadproof.run_folder import RunFolder
from loadproof.sealing import seal
from loadproof.together import Progress, Together, Watch
from loadproof.tokenizer import tokenizer_dir
from loadproof.tools.args_file import filled
from loadproof.tools.base import OFFLINE, Command
from loadproof.tools.command import find_program


@dataclass(frozen=True)
class Observed:
    """What `observe` saw: how the command ended, where the journal is, and the last lines of its output."""

    ended: Ended
    journal: Path
    log: str


async def observe(
    argv: Sequence[str], profile: Profile, out: Path, *, seed: int, deadline_s: float, watch: Watch,
    placement: Placement = UNPLACED, level: str = "full", workers: int = 1,
) -> Observed:  # fmt: skip
    """Run any command against an absorber; {base_url} {model} {tokenizer} {out} {seed} in it are replaced.

    Raises UsageProblem when nothing could be begun, BrokenRun when the command cannot be started or the
    absorber does not end as it must; what it had recorded is sealed then, where that can be done.
    """
    check_workers(workers, profile)
    program = find_program(argv[0], Path.cwd())
    folder = RunFolder(out)
    folder.require_empty()
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    folder.claim()
    begun = Progress(case="observe", tool=program.name, seen=0, expected=None, elapsed_s=0.0)
    together = Together(folder, profile, placement, begun, watch, level=level, workers=workers)
    try:
        async with together.absorbing() as (announced, absorber):
            arguments = filled(argv[1:], together.setting(announced, tokenizer, seed))
            command = Command(argv=[str(program), *arguments], env=OFFLINE)
            ended = await together.run(command, absorber, deadline_s)
    except BrokenRun:
        with suppress(OSError, LoadproofError):
            await asyncio.to_thread(seal, folder.journal)
        raise
    return Observed(ended, folder.journal, tail(out / "tool.stdout", out / "tool.stderr"))
