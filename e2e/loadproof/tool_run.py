"""How is a tool run once, against whatever serves, so that it is offline, bounded, and gone in the end?

`run_beside` is the one way in which a load generator is started here: a controlled environment with a hub folder of its
own, under the warden, until it ends, its deadline passes or the server beside it is gone. `run_tool` is all that a
person's test needs of it: one tool of the registry, one configuration, one base URL. Left out: cases, journals and
judging, which is what `bench.run_job` adds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec
from msgspec.structs import replace

from loadproof.absorber.recording import DEFAULT_MODEL
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.placement import UNPLACED, Placement
from loadproof.process import clean_environment, running, tail
from loadproof.reported import Reported
from loadproof.run_folder import RunFolder
from loadproof.tokenizer import tokenizer_dir
from loadproof.tools.base import Command, Setting, Tool
from loadproof.tools.registry import tool_named


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run is: generation requests seen, of `expected` (None: unknown), after `elapsed_s` seconds."""

    case: str
    tool: str
    seen: int
    expected: int | None
    elapsed_s: float


type Watch = Callable[[Progress], None]


@dataclass(frozen=True, kw_only=True)
class Beside:
    """The server that a tool runs against, as far as running the tool goes.

    `name` is what people are told ("the absorber"); `gone` waits until it has ended; `seen` returns how many
    generation requests came so far, None when that could not be asked; it is asked every `interval_s` seconds, and
    `watch` is told, beginning with `begun`. `complaint` says what is wrong with a server that has not ended, empty:
    nothing that is known.
    """

    name: str
    gone: Callable[[], Awaitable[None]]
    seen: Callable[[], Awaitable[int | None]]
    interval_s: float
    begun: Progress
    watch: Watch
    complaint: Callable[[], str] = lambda: ""

    async def watching(self) -> None:
        """Tell `watch` how far the run is, until cancelled."""
        since, seen = time.monotonic(), 0
        while True:
            now = await self.seen()
            seen = seen if now is None else now
            self.watch(replace(self.begun, seen=seen, elapsed_s=time.monotonic() - since))
            await asyncio.sleep(self.interval_s)


async def run_beside(
    command: Command, folder: RunFolder, deadline_s: float, *, beside: Beside | None = None,
    placement: Placement = UNPLACED,
) -> Ended:  # fmt: skip
    """Run the tool until it ends, `deadline_s` seconds have passed or the server beside it is gone.

    Its logs are `tool.stdout` and `tool.stderr` in the folder. Raises BrokenRun when it cannot be started.
    """
    env = clean_environment({**command.env, "HF_HOME": str(folder.tool_out.absolute() / "hub")})
    tasks = [asyncio.create_task(beside.watching()), asyncio.ensure_future(beside.gone())] if beside else []
    try:
        async with running(
            command.argv, log_dir=folder.path, name="tool", env=env, cwd=command.cwd,
            cpus=placement.of_tool, isolate=placement.isolate,
        ) as process:  # fmt: skip
            ending = asyncio.create_task(process.wait(deadline_s))
            await asyncio.wait({ending, *tasks[1:]}, return_when=asyncio.FIRST_COMPLETED)
            if beside is None or ending.done():
                return await ending
            ending.cancel()
            return await process.stop(f"was stopped because {beside.name} had ended")
    except UsageProblem as problem:
        raise BrokenRun(str(problem)) from problem  # whatever is beside it had been started by then
    finally:
        for task in tasks:
            task.cancel()


@dataclass(frozen=True, kw_only=True)
class ToolRun:
    """What `run_tool` returns.

    `ended` says how the tool ended, `reported` what it reported (None: it left no report), `out` is the tool's own
    folder with its report files, `log` the last lines of its output.
    """

    ended: Ended
    reported: Reported | None
    out: Path
    log: str


async def run_tool(
    name: str, config: Path, base_url: str, *, out: Path | None = None, model: str = DEFAULT_MODEL, seed: int = 0,
    deadline_s: float = 600.0,
) -> ToolRun:  # fmt: skip
    """Run one tool of the registry once against any OpenAI-compatible server, and return its reports.

    `config` is the tool's own file, as in a case folder; our three or four values are put into a copy of it.
    `base_url` is `http://HOST:PORT`, without `/v1`. `out` (default: the configuration's name without its ending and
    `-out`, beside it) must be empty or not there: it gets the tool's logs, and a folder `tool` that is the tool's own.
    After `deadline_s` seconds, start-up included, the tool is stopped. Several may run at once, in one process or in
    several, each with an `out` of its own.

    A tool that ended otherwise than with exit code 0, or was stopped, is returned and not raised; look at `ended`.
    What it left half written is no report then.

    Raises:
        UsageProblem: nothing was begun: an unknown tool, one that is not installed (with how to get it), a
            configuration that cannot be used, or an `out` that holds something.
        BrokenRun: the tool cannot be started, or ended well and left a report that cannot be read.
    """
    tool, executable, folder = _prepared(name, config, base_url, out)
    tokenizer = await asyncio.to_thread(tokenizer_dir)
    folder.claim(journal=False)
    own = folder.tool_out.absolute()
    setting = Setting(base_url=base_url.rstrip("/"), model=model, tokenizer=tokenizer, out=own, seed=seed)
    ended = await run_beside(tool.command(config, executable, setting), folder, deadline_s)
    log = tail(folder.path / "tool.stdout", folder.path / "tool.stderr")
    return ToolRun(ended=ended, reported=_report(tool, own, ended), out=own, log=log)


def _prepared(name: str, config: Path, base_url: str, out: Path | None) -> tuple[Tool, Path, RunFolder]:
    tool = tool_named(name)
    if not base_url.startswith(("http://", "https://")) or base_url.rstrip("/").endswith("/v1"):
        raise UsageProblem(f"{base_url}: is not a base URL; give one as http://127.0.0.1:8000, without /v1")
    if not config.is_file():
        raise UsageProblem(f"{config}: there is no such file; name {name}'s configuration")
    tool.check(config)
    executable = tool.executable(config)
    if executable is None:
        raise UsageProblem(f"{name} is not installed: {tool.how_to_get()}")
    folder = RunFolder(out or config.with_name(f"{config.stem}-out"))
    folder.require_empty()
    return tool, executable, folder


def _report(tool: Tool, out: Path, ended: Ended) -> Reported | None:
    try:
        return tool.claims(out)
    except BrokenRun:
        if ended.exit_code == 0 and not ended.stopped_because:
            raise
        return None
