"""How does the harness start the absorber, learn its address and end it?"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from loadproof.absorber.service import Announced
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.process import Process, clean_environment, running, tail

if TYPE_CHECKING:
    from loadproof.absorber.profile import Profile

READY_DEADLINE_S = 60.0  # loading the tokenizer takes 3 s on a quiet machine
STOP_GRACE_S = 60.0  # the journal is written then


@asynccontextmanager
async def absorbing(
    profile: Profile,
    journal: Path,
    *,
    log_dir: Path,
    model: str | None = None,
    level: str = "full",
    workers: int = 1,
    cpus: Collection[int] = (),
    isolate: str = "",
) -> AsyncIterator[tuple[Announced, Process]]:
    """Run an absorber of `level` "full" or "light"; on leaving the block it has written its journal.

    `cpus` are the cores that it may use (empty: all); `isolate="pid"` gives it a PID namespace. When we are killed
    its warden kills it; what it had recorded by then is left unsealed.
    Raises BrokenRun if it does not start, ends before its time, or ends otherwise than with its journal written.
    """
    argv = [sys.executable, "-P", "-m", "loadproof.absorber", "--journal", str(journal)]
    argv += ["--profile-json", profile.model_dump_json(), *(["--model", model] if model else [])]
    argv += ["--level", level, "--workers", str(workers)]
    ready_ours, ready_theirs = os.pipe()
    try:
        async with running(
            argv, log_dir=log_dir, name="absorber", env=clean_environment({}), stdout_fd=ready_theirs,
            cpus=cpus, isolate=isolate,
        ) as process:  # fmt: skip
            os.close(ready_theirs)
            ready_theirs = -1
            yield await _announced(process, ready_ours), process
            ended = await process.stop("", grace_s=STOP_GRACE_S)
            if ended.exit_code != 0:
                raise BrokenRun(f"the absorber {ended.says()}{_disk_is_full(journal)}\n{tail(process.stderr)}")
    finally:
        for descriptor in (ready_theirs, ready_ours):
            with suppress(OSError):
                os.close(descriptor)


def _disk_is_full(journal: Path) -> str:
    """Return a hint where that is so: the absorber's own words may not have fitted any more."""
    with suppress(OSError):
        if not os.statvfs(journal).f_bavail:
            return f"; no space is left where {journal} is: free some, or choose another --out"
    return ""


async def _announced(process: Process, ready: int) -> Announced:
    """Read the announcement from our own child's pipe: nobody else can have written it."""
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def came() -> None:
        loop.remove_reader(ready)
        readable.set_result(None)

    loop.add_reader(ready, came)
    try:
        await asyncio.wait_for(readable, READY_DEADLINE_S)
    except TimeoutError:
        raise BrokenRun(f"the absorber was not ready after {READY_DEADLINE_S:g} s\n{tail(process.stderr)}") from None
    finally:
        loop.remove_reader(ready)
    line = os.read(ready, 65536)  # one short line: a pipe hands it over whole
    if not line:
        ended = await process.wait(READY_DEADLINE_S)
        kind = UsageProblem if ended.exit_code == UsageProblem.exit_code else BrokenRun
        raise kind(f"the absorber {ended.says()} before it was ready\n{tail(process.stderr)}")
    return msgspec.json.decode(line, type=Announced)
