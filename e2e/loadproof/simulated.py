"""What of a case can llm-d-inference-sim do, and how does a tool run beside it?

It takes constant times and a number of slots. What else a case's profile asks for it cannot do, and is named: every
key that is not in the table below and differs from its default, so that a key of a later version is never silently
ignored. It keeps no journal and its times are nominal, so it is somewhere to send requests to, never an oracle. How the
simulator itself is started and ended is for `simulators`.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from loadproof.absorber.laws import Law
from loadproof.absorber.profile import Profile
from loadproof.absorber.recording import DEFAULT_MODEL
from loadproof.case import Case
from loadproof.descriptors import in_flight
from loadproof.lengths import longest
from loadproof.placement import Placement
from loadproof.requirements import SIMULATOR
from loadproof.simulators.asked import MOST_REQUESTS, MOST_TOKENS
from loadproof.simulators.dialect import TOKENIZERS_FLAG, Dialect, speech_of, whole_milliseconds
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import HOW_TO_GET, SimCannotExpress, SimMissing
from loadproof.tool_run import Beside, Progress, Watch
from loadproof.tools.environments import ToolRow
from loadproof.verdict import Finding, Outcome

POLL_S = 1.0
SILENT_S = 10.0  # an answer takes milliseconds, on a machine where the tool takes every core longer
HELP_DEADLINE_S = 60.0
COUNTER = "vllm:request_success_total"
MANY = 1024
"""At least so many slots where the case sets none; a client that hangs up is said to cost it one for good."""

UNITS_OF_A_TOKEN = 8
"""It counts a prompt by words and signs, and a token may be a run of signs: this is room for most prompts."""


def _time(value: object) -> str:
    if not isinstance(value, int | float):
        return "takes constant times, no law"
    try:
        whole_milliseconds("", value, Dialect.INTEGERS)  # it cuts its times to these in either dialect
    except SimCannotExpress:
        return f"takes whole milliseconds and would cut {value:g} s"
    return ""


def _anything(_value: object) -> str:
    return ""


def _chunk_text(value: object) -> str:
    return "" if value == "trailing_space" else "streams each word with its trailing space"


_CARRIED: dict[str, Callable[[object], str]] = {
    "ttft_s": _time,
    "itl_s": _time,
    "slots": _anything,
    "seed": _anything,  # of draws, and constants draw nothing; the simulator gets the run's own seed
    "chunk_text": _chunk_text,
}
"""Why a value of the key cannot be had, empty where it can; a key that is not here is refused unless it is default."""

_REASONS = {
    "output_tokens": "ends a reply at max_tokens, or at random where it may end before",
    "precompiled": "has no precompiled reply",
}


def lacking(profile: Profile) -> dict[str, str]:
    """Return what the simulator cannot do of a profile: key -> why; empty when it can do all of it.

    `chunk_text` counts only where it was said: who did not say it takes what comes.
    """
    plain, found = Profile(), dict[str, str]()
    for key in Profile.model_fields:
        value = getattr(profile, key)
        if key not in profile.model_fields_set and value == getattr(plain, key):
            continue
        if key in _CARRIED:
            why = _CARRIED[key](value)
        else:
            why = "" if value == getattr(plain, key) else _REASONS.get(key, "has no such setting")
        if why:
            found[key] = why
    return found


def row_of_lacking(key: str, why: str) -> Finding:
    """Return the visible row of a key that the simulator lacks."""
    return Finding(check=f"server.{key}", requirement="the server does as the case says", expected=f"absorber.{key}",
                   measured="not possible", outcome=Outcome.UNSUPPORTED, n=0,
                   detail=f"absorber.{key}: {SIMULATOR} {why}; run this case against the absorber")  # fmt: skip


def is_installed() -> bool:
    """Return whether the simulator is there; nothing is started."""
    return shutil.which(SIMULATOR) is not None


def simulator_row() -> ToolRow:
    """Return its row in the table of tools; it does not tell its version."""
    where = shutil.which(SIMULATOR)
    return ToolRow(name=SIMULATOR, version="", installed=where is not None, where=where or "", size_mb=None,
                   how=HOW_TO_GET)  # fmt: skip


def sha256_of_executable() -> str:
    """Return the digest of the executable, its only name: it does not tell its version. Blocks some tenths of a second.

    Raises SimMissing when it is gone.
    """
    try:
        with Path(shutil.which(SIMULATOR) or SIMULATOR).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SimMissing(f"{SIMULATOR}: {error.strerror}; {HOW_TO_GET}") from error


def row_of_missing() -> Finding:
    """Return the visible row of a simulator that is not installed."""
    return Finding(check="server", requirement="the server can be run", expected="installed", measured="missing",
                   outcome=Outcome.UNSUPPORTED, n=0,
                   detail=f"{SIMULATOR} is not installed: {HOW_TO_GET}")  # fmt: skip


async def takes_tokenizer(log_dir: Path) -> bool:
    """Return whether the simulator that is installed can be given a tokenizer: later versions only count words."""
    return TOKENIZERS_FLAG in (await speech_of(SIMULATOR, log_dir, HELP_DEADLINE_S)).flags


def simulator_for(
    case: Case, *, tokenizer: Path | None, seed: int, log_dir: Path, placement: Placement
) -> LLMDInferenceSimRunner:
    """Return the simulator that does what the case's profile says; not started. `lacking` has nothing to say of it."""
    profile, asked = case.expected.absorber, case.expected.workload
    return LLMDInferenceSimRunner(
        DEFAULT_MODEL, tokenizer_dir=tokenizer, seed=seed, log_dir=log_dir,
        ttft_s=_constant(profile.ttft_s), itl_s=_constant(profile.itl_s),
        # Without slots an absorber serves any number at once, and with them any number waits.
        max_num_seqs=profile.slots or min(max(MANY, 2 * in_flight(case)), MOST_REQUESTS),
        max_waiting=min(max(10_000, asked.num_requests or 0), MOST_REQUESTS),
        max_model_len=min(
            max(32_768, UNITS_OF_A_TOKEN * longest(asked.prompt_tokens) + longest(asked.max_tokens)), MOST_TOKENS
        ),
        cpus=placement.of_absorber, isolate=placement.isolate,
    )  # fmt: skip


def _constant(time: float | Law) -> float:
    if isinstance(time, Law):
        raise TypeError("a law was to be refused before")
    return time


@asynccontextmanager
async def simulating(simulator: LLMDInferenceSimRunner, begun: Progress, watch: Watch) -> AsyncIterator[Beside]:
    """Run the simulator for the length of the block, in which a tool may run beside it.

    It is held by a task of its own: its death interrupts whoever holds it, and the tool must be ended, and its end
    noted, first. Raises what the simulator raises: of its start on entering, SimDied on leaving.
    """
    ready, released = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with simulator:
            ready.set()
            await released.wait()

    holding = asyncio.create_task(hold())
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait({holding, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not holding.done():
            yield _beside(simulator, holding, begun, watch)
    finally:
        waiting.cancel()
        if ready.is_set():
            released.set()
        else:
            holding.cancel()
        await _ended_for_sure(holding)
        if not holding.cancelled():
            holding.exception()  # has been seen: where the block has a failure of its own, that one is told
    holding.result()


def _beside(simulator: LLMDInferenceSimRunner, holding: asyncio.Task[None], begun: Progress, watch: Watch) -> Beside:
    async def gone() -> None:
        await asyncio.wait({holding})

    answered = [time.monotonic()]

    async def seen() -> int | None:
        try:
            count = int((await simulator.metrics()).get(COUNTER, 0))
        except Exception:  # noqa: BLE001 -- a look at the progress; what is wrong with the server is told by its end
            return None
        answered.append(time.monotonic())
        return count

    def complaint() -> str:
        silent_s = time.monotonic() - answered[-1]
        return f"the simulator has not answered for {silent_s:.0f} s" if silent_s > SILENT_S else ""

    return Beside(name="the simulator", gone=gone, seen=seen, interval_s=POLL_S, begun=begun, watch=watch,
                  complaint=complaint)  # fmt: skip


async def _ended_for_sure(holding: asyncio.Task[None]) -> None:
    """Wait until the simulator has ended, whoever cancels meanwhile: that shortens its grace and is then passed on."""
    cancelled = False
    while not holding.done():
        try:
            await asyncio.wait({holding})
        except asyncio.CancelledError:
            cancelled = True
            holding.cancel()
    if cancelled:
        raise asyncio.CancelledError
