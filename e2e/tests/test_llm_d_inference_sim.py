"""Does real inference-perf, against the real llm-d-inference-sim, send and report what it was told to?

One test for each kind of load is in every run of the end-to-end tests; the whole product of data, load and API is
behind the marker `real_sim`. Counts, failures and output tokens are exact; times are compared with what the simulator
was told, where nobody waits for anybody. The simulator is killed in mid-run, and the tool has to account for every
request. Left out: the offered load itself, which only the absorber sees.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loadproof.bench import ToolRun, run_tool
from loadproof.plugin import Runs
from loadproof.simulators.llm_d import LLMDInferenceSimRunner
from loadproof.simulators.problems import SimDied
from tests.inference_perf_configs import (
    DATA,
    IMPOSSIBLE,
    LOADS,
    PRODUCT,
    Load,
    write_config,
)

TTFT_S, ITL_S = 0.1, 0.01
TTFT_LATE_S, TPOT_EARLY_S, TPOT_LATE_S = 0.05, 0.0005, 0.001
SHORT = [
    ("mock", "constant", "chat"),
    ("shareGPT", "two_stages", "completion"),
    ("random", "constant_fast", "completion"),
    ("shared_prefix", "poisson", "completion"),
    ("shareGPT", "concurrent", "chat"),
]  # fmt: skip
SERVED = "vllm:request_success_total"  # of a streamed reply it is counted when it begins
POLL_S = 0.01
REPLY_S = 1.0  # to the first token, where the simulator is to be killed before the last one

type MakeSim = Callable[..., LLMDInferenceSimRunner]


@pytest.fixture(autouse=True)
def installed(loadproof_runs: Runs) -> None:
    loadproof_runs.require("inference-perf")


async def run_and_check(make: MakeSim, folder: Path, data: str, load: str, api: str) -> ToolRun:
    """Run one cell of the product; everything that must hold of it is asserted here."""
    asked, tokens = LOADS[load], DATA[data].output_tokens[api]
    async with make(ttft_s=TTFT_S, itl_s=ITL_S) as sim:
        ran = await run_tool("inference-perf", write_config(folder, data, load, api), sim.base_url)
        served = (await sim.metrics())[SERVED]
    told = ran.reported
    assert ran.ended.exit_code == 0, ran.log
    assert told is not None
    assert (told.completed, told.failed) == (asked.requests, 0)
    assert told.output_tokens == asked.requests * tokens
    assert served == asked.requests
    if asked.light:
        assert told.ttft_s is not None
        assert told.tpot_s is not None
        assert told.ttft_s.p50 is not None
        assert told.tpot_s.mean is not None
        assert TTFT_S <= told.ttft_s.p50 <= TTFT_S + TTFT_LATE_S
        assert ITL_S - TPOT_EARLY_S <= told.tpot_s.mean <= ITL_S + TPOT_LATE_S
    return ran


@pytest.mark.asyncio
@pytest.mark.parametrize(("data", "load", "api"), SHORT)
async def test_each_kind_of_load(data: str, load: str, api: str, llm_d_sim: MakeSim, tmp_path: Path) -> None:
    await run_and_check(llm_d_sim, tmp_path / "run", data, load, api)


def test_the_short_selection_has_every_load_every_kind_of_data_and_both_apis() -> None:
    chosen = [set(column) for column in zip(*SHORT, strict=True)]
    assert chosen == [set(DATA), set(LOADS), {"completion", "chat"}]
    assert set(SHORT) <= set(PRODUCT)


@pytest.mark.real_sim
@pytest.mark.asyncio
@pytest.mark.parametrize(("data", "load", "api"), PRODUCT)
async def test_the_whole_product(data: str, load: str, api: str, llm_d_sim: MakeSim, tmp_path: Path) -> None:
    await run_and_check(llm_d_sim, tmp_path / "run", data, load, api)


@pytest.mark.real_sim
@pytest.mark.asyncio
@pytest.mark.parametrize(("data", "api"), IMPOSSIBLE)
async def test_what_is_listed_as_impossible_is_refused_by_the_tool(
    data: str, api: str, llm_d_sim: MakeSim, tmp_path: Path
) -> None:
    async with llm_d_sim() as sim:
        ran = await run_tool("inference-perf", write_config(tmp_path / "run", data, "constant", api), sim.base_url)
        served = (await sim.metrics()).get(SERVED, 0)
    assert ran.ended.exit_code != 0
    assert served == 0


@pytest.mark.asyncio
async def test_two_at_once_do_not_meet(llm_d_sim: MakeSim, tmp_path: Path) -> None:
    """Two simulators and two tools in one process, each pair with its own count; times are left to the others."""
    async with llm_d_sim(ttft_s=TTFT_S) as one, llm_d_sim(ttft_s=TTFT_S) as other:
        assert one.port != other.port
        configs = [write_config(tmp_path / load, "random", load, "completion") for load in ("constant", "concurrent")]
        sims = (one, other)
        ran = await asyncio.gather(
            *(run_tool("inference-perf", config, sim.base_url) for config, sim in zip(configs, sims, strict=True))
        )
        served = [(await sim.metrics())[SERVED] for sim in sims]
    assert [each.reported.completed for each in ran if each.reported] == [5, 40]
    assert served == [5, 40]


@dataclass(frozen=True)
class Killed:
    """What is known of a run whose server was killed: by the tool, by the simulator, and how it was asked.

    `begun` replies had been begun when the simulator last told; the KILL came `after_s` seconds later at most. No
    reply takes less than `reply_s`, and no more than `slots` were in flight.
    """

    asked: int
    slots: int
    reply_s: float
    begun: int
    after_s: float
    completed: int
    failed: int

    def not_accounted_for(self) -> list[str]:
        """Return what cannot be: each of `begun` either ended or was one of at most `slots` that were cut."""
        rounds = int(self.after_s / self.reply_s)  # of replies that can have begun and ended since
        least, most = self.begun - self.slots, self.begun + self.slots * rounds
        found = []
        if self.completed + self.failed != self.asked:
            found.append(f"{self.completed} completed and {self.failed} failed of {self.asked} asked")
        if not least <= self.completed <= most:
            found.append(f"{self.completed} completed, and between {least} and {most} can have ended")
        return found


RIGHT = Killed(asked=12, slots=1, reply_s=1.0, begun=6, after_s=0.05, completed=5, failed=7)


@pytest.mark.parametrize(("completed", "failed"), [(5, 6), (5, 8), (7, 5), (4, 8), (6, 7)])
def test_a_request_that_is_lost_or_counted_twice_is_seen(completed: int, failed: int) -> None:
    assert RIGHT.not_accounted_for() == []
    wrong = Killed(**{**vars(RIGHT), "completed": completed, "failed": failed})
    assert wrong.not_accounted_for() != []


async def begun(sim: LLMDInferenceSimRunner, wanted: int) -> tuple[int, float]:
    """Wait until the simulator has begun `wanted` replies; return how many it told of, and when it was asked that."""
    async with asyncio.timeout(120):
        while True:
            asked_at = time.monotonic()
            told = int((await sim.metrics()).get(SERVED, 0))
            if told >= wanted:
                return told, asked_at
            await asyncio.sleep(POLL_S)


@dataclass(frozen=True)
class Cut:
    """A run whose simulator was killed: what it had told last, when that was asked, and what the tool says."""

    begun: int
    after_s: float
    ran: ToolRun


async def run_and_kill(make: MakeSim, config: Path, at: int, seen: list[Cut]) -> None:
    """Kill the simulator when it has begun `at` replies; the tool runs to its own end. Raises SimDied."""
    async with make(ttft_s=REPLY_S, itl_s=ITL_S) as sim:
        running = asyncio.create_task(run_tool("inference-perf", config, sim.base_url))
        try:
            told, asked_at = await begun(sim, at)
            sim.kill()
            after_s = time.monotonic() - asked_at
            seen.append(Cut(told, after_s, await running))
        finally:
            running.cancel()


@pytest.mark.asyncio
@pytest.mark.parametrize(("slots", "requests", "at"), [(1, 12, 6), (4, 40, 14)])
async def test_killed_in_mid_run_every_request_is_accounted_for(
    slots: int, requests: int, at: int, llm_d_sim: MakeSim, tmp_path: Path
) -> None:
    """One slot: just those before the one that was cut have succeeded. Four: of those begun all but at most four."""
    stages = [{"num_requests": requests, "concurrency_level": slots}]
    load = Load("to_be_cut", {"type": "concurrent", "stages": stages}, requests, light=True)
    seen: list[Cut] = []
    with pytest.raises(SimDied, match="SIGKILL"):
        await run_and_kill(llm_d_sim, write_config(tmp_path / "run", "random", load, "completion"), at, seen)
    [cut] = seen
    told = cut.ran.reported
    assert cut.ran.ended.exit_code == 0, cut.ran.log
    assert told is not None
    assert told.completed is not None
    assert told.failed
    killed = Killed(asked=requests, slots=slots, reply_s=REPLY_S, begun=cut.begun, after_s=cut.after_s,
                    completed=told.completed, failed=told.failed)  # fmt: skip
    assert killed.not_accounted_for() == []
