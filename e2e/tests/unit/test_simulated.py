"""Is everything that the simulator cannot do named, the rest told to it, and is its death the end of the tool?

With a stand-in for the runner; tests/test_against_simulator.py has the real one, with a made-up executable.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Self

import pytest
from pydantic import create_model

from loadproof import simulated
from loadproof.absorber.profile import Profile
from loadproof.case import Case, read_case
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.placement import Placement
from loadproof.planning import plan_jobs
from loadproof.requirements import SIMULATOR
from loadproof.run_folder import RunFolder
from loadproof.simulated import lacking, simulating, simulator_for
from loadproof.simulators.problems import HOW_TO_GET, SimDied, SimExitedEarly
from loadproof.strict_yaml import read_strict
from loadproof.tool_run import Progress, run_beside
from loadproof.tools.base import Command
from loadproof.verdict import Outcome

EXPECTED = """\
why: a test
absorber: {absorber}
workload: {{num_requests: {n}, prompt_tokens: {prompt}, max_tokens: 16, stream: true, ignore_eos: true}}
load: {{mode: concurrency, concurrency: {slots}}}
"""


def case_of(folder: Path, absorber: str = "{}", *, n: int = 80, prompt: int = 8, slots: int = 2) -> Case:
    folder.mkdir(exist_ok=True)
    (folder / "expected.yaml").write_text(EXPECTED.format(absorber=absorber, n=n, prompt=prompt, slots=slots))
    (folder / "metronome.args").write_text("--concurrency\n2\n")
    return read_case(folder)


@pytest.mark.parametrize(
    ("absorber", "named"),
    [
        ("{}", []),
        ("{ttft_s: 0.1, itl_s: 0.007, slots: 3, seed: 5}", []),
        ("{chunk_text: trailing_space}", []),
        ("{chunk_text: exact}", ["chunk_text"]),
        ("{ttft_s: {law: gamma, mean: 0.1, shape: 2}}", ["ttft_s"]),
        ("{ttft_s: 0.1, itl_s: 0.0009}", ["itl_s"]),
        ("{ttft_s: 0.0105}", ["ttft_s"]),
        ("{output_tokens: 16}", ["output_tokens"]),
        ("max-throughput", ["output_tokens", "precompiled"]),
        ("variable-response", ["itl_s", "output_tokens", "ttft_s"]),
    ],
)
def test_what_is_lacking_is_named(absorber: str, named: list[str], tmp_path: Path) -> None:
    assert sorted(lacking(case_of(tmp_path / "case", absorber).expected.absorber)) == named


def test_a_default_that_is_written_out_is_no_lack(tmp_path: Path) -> None:
    written = read_strict_profile(tmp_path, "{ttft_s: 0, precompiled: false}")
    assert lacking(written) == {}


def read_strict_profile(folder: Path, text: str) -> Profile:
    (folder / "profile.yaml").write_text(text)
    return read_strict(folder / "profile.yaml", Profile)


def test_a_key_of_a_later_version_is_refused_unless_it_is_default(monkeypatch: pytest.MonkeyPatch) -> None:
    later = create_model("Later", __base__=Profile, done_delay_s=(float, 0.0))
    monkeypatch.setattr(simulated, "Profile", later)
    assert lacking(later()) == {}
    assert lacking(later.model_validate({"done_delay_s": 0.5})) == {"done_delay_s": "has no such setting"}


class Asked:
    """Stands in for the runner's class: takes what a runner is given."""

    def __init__(self, model: str, **options: object) -> None:
        self.options = {"model": model, **options}


@pytest.mark.parametrize(
    ("absorber", "changes", "expected"),
    [
        ("{}", {}, {"ttft_s": 0, "itl_s": 0, "max_num_seqs": 1024, "max_waiting": 10_000, "max_model_len": 32_768}),
        ("{ttft_s: 0.1, itl_s: 0.01, slots: 3}", {}, {"ttft_s": 0.1, "itl_s": 0.01, "max_num_seqs": 3}),
        ("{}", {"n": 30_000, "slots": 700}, {"max_num_seqs": 1400, "max_waiting": 30_000}),
        ("{}", {"prompt": 100_000}, {"max_model_len": 800_016}),
    ],
)
def test_what_the_simulator_is_told(
    absorber: str, changes: dict[str, int], expected: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "LLMDInferenceSimRunner", Asked)
    placement = Placement(cpus={"tool": [1], "absorber": [0]}, isolate="pid")
    made = simulator_for(case_of(tmp_path / "case", absorber, **changes), tokenizer=Path("t"), seed=7,
                         log_dir=Path("logs"), placement=placement)  # fmt: skip
    assert isinstance(made, Asked)
    assert made.options.items() >= expected.items()
    told = {name: made.options[name] for name in ("model", "tokenizer_dir", "seed", "log_dir", "cpus", "isolate")}
    assert told == {"model": "google/gemma-3-270m", "tokenizer_dir": Path("t"), "seed": 7, "log_dir": Path("logs"),
                    "cpus": [0], "isolate": "pid"}  # fmt: skip


@pytest.mark.parametrize(("there", "absent"), [(True, {}), (False, {SIMULATOR: HOW_TO_GET})])
def test_a_plan_says_why_a_run_cannot_be_made(
    there: bool, absent: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if there:
        (tmp_path / SIMULATOR).touch(mode=0o755)
    folder = case_of(tmp_path / "case", "{ttft_s: 0.1, output_tokens: 3}").folder
    [job] = plan_jobs([folder], ["metronome"], tmp_path / "out", 0, server=SIMULATOR)
    assert job.absent == absent
    assert [row.check for row in job.obstacles] == ["server.output_tokens", *(["server"] if absent else [])]
    assert {row.outcome for row in job.obstacles} == {Outcome.UNSUPPORTED}
    assert "absorber.output_tokens: llm-d-inference-sim ends a reply at max_tokens" in job.obstacles[0].detail
    [other] = plan_jobs([folder], ["metronome"], tmp_path / "out", 0)
    assert (other.absent, other.obstacles) == ({}, ())


def test_an_unknown_server_is_refused(tmp_path: Path) -> None:
    folder = case_of(tmp_path / "case").folder
    with pytest.raises(UsageProblem, match=r"llm-d-inference-simm: unknown server.*llm-d-inference-sim"):
        plan_jobs([folder], [], tmp_path / "out", 0, server="llm-d-inference-simm")


class Simulator:
    """Stands in for a runner: the task that entered it is cancelled when it dies, and leaves with SimDied."""

    def __init__(self, *, fails: bool = False, never_ready: bool = False) -> None:
        self.entered = asyncio.Event()
        self.left = asyncio.Event()
        self.asked = 0
        self._dead = False
        self._fails, self._never_ready = fails, never_ready

    async def __aenter__(self) -> Self:
        self._task = asyncio.current_task()
        if self._fails:
            raise SimExitedEarly("it ended before it was ready")
        self.entered.set()
        if self._never_ready:
            try:
                await asyncio.Event().wait()
            finally:
                self.left.set()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        closing = asyncio.create_task(self._close())
        while not closing.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(closing)
        if self._dead:
            assert self._task is not None
            self._task.uncancel()
            raise SimDied("it was ended by SIGKILL")

    async def _close(self) -> None:
        """Take a while, whoever cancels meanwhile, as an end by TERM does."""
        for _ in range(20):
            await asyncio.sleep(0)
        self.left.set()

    def die(self) -> None:
        assert self._task is not None
        self._dead = True
        self._task.cancel()

    async def metrics(self) -> dict[str, float]:
        self.asked += 1
        if self.asked == 1:
            raise ConnectionResetError
        return {"vllm:request_success_total": 7.0}


BEGUN = Progress(case="c", tool="t", seen=0, expected=9, elapsed_s=0.0)
FOREVER = [sys.executable, "-S", "-c", "import signal; signal.pause()"]


async def beside(
    simulator: Simulator, folder: Path, argv: list[str], watch: Callable[[Progress], None] = lambda _: None
) -> list[Ended]:
    """Run a command beside the stand-in; return how it ended, also where the block raises."""
    run, ended = RunFolder(folder), list[Ended]()
    run.claim(journal=False)
    try:
        async with simulating(simulator, BEGUN, watch) as server:  # type: ignore[arg-type]  # a stand-in
            ended.append(await run_beside(Command(argv=argv, cwd=run.tool_out), run, 60, beside=server))
    except SimDied as died:
        died.add_note(ended[0].says() if ended else "the tool was never ended")
        raise
    return ended


def test_a_tool_that_ends_ends_the_simulator(tmp_path: Path) -> None:
    async def run() -> Simulator:
        simulator = Simulator()
        [ended] = await beside(simulator, tmp_path / "run", [sys.executable, "-S", "-c", "raise SystemExit(3)"])
        assert ended.exit_code == 3
        return simulator

    assert asyncio.run(run()).left.is_set()


def test_a_simulator_that_dies_ends_the_tool_which_is_noted_first(tmp_path: Path) -> None:
    async def run() -> None:
        simulator = Simulator()
        await beside(simulator, tmp_path / "run", FOREVER, watch=lambda _: simulator.die())

    with pytest.raises(SimDied) as died:
        asyncio.run(run())
    assert died.value.__notes__ == ["was stopped because the simulator had ended"]


def test_one_that_does_not_start_is_told_and_no_tool_is_started(tmp_path: Path) -> None:
    with pytest.raises(SimExitedEarly):
        asyncio.run(beside_failing(tmp_path / "run"))
    assert not (tmp_path / "run" / "tool.stdout").exists()


async def beside_failing(folder: Path) -> None:
    await beside(Simulator(fails=True), folder, FOREVER)


@pytest.mark.parametrize("never_ready", [False, True])
@pytest.mark.parametrize("times", [1, 2])
def test_who_is_cancelled_ends_both(tmp_path: Path, times: int, *, never_ready: bool) -> None:
    async def run() -> Simulator:
        simulator = Simulator(never_ready=never_ready)
        task = asyncio.create_task(beside(simulator, tmp_path / "run", FOREVER))
        await simulator.entered.wait()
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        return simulator

    assert asyncio.run(run()).left.is_set()


def test_progress_is_what_the_simulator_counts_and_a_failed_look_is_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "POLL_S", 0.001)
    seen = list[Progress]()

    async def run() -> None:
        simulator, enough = Simulator(), asyncio.Event()

        def watch(progress: Progress) -> None:
            seen.append(progress)
            if len(seen) == 3:
                enough.set()

        running = asyncio.create_task(beside(simulator, tmp_path / "run", FOREVER, watch))
        await asyncio.wait_for(enough.wait(), 60)
        simulator.die()
        with pytest.raises(SimDied):
            await running

    asyncio.run(run())
    assert [progress.seen for progress in seen[:3]] == [0, 7, 7]
    assert {progress.expected for progress in seen} == {9}


def test_a_tool_that_cannot_be_started_is_told_rather_than_the_simulator(tmp_path: Path) -> None:
    async def run() -> None:
        await beside(Simulator(), tmp_path / "run", [str(tmp_path / "nothing there")])

    with pytest.raises(BrokenRun, match="nothing there"):
        asyncio.run(run())


def test_a_simulator_that_does_not_answer_is_complained_of(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(simulated, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    async def run() -> None:
        async with simulating(Simulator(), BEGUN, lambda _: None) as seen_as:  # type: ignore[arg-type]  # a stand-in
            clock[0] += 20
            assert seen_as.complaint() == "the simulator has not answered for 20 s"
            assert await seen_as.seen() is None  # the first answer of the stand-in fails
            assert seen_as.complaint() != ""
            assert await seen_as.seen() == 7
            assert seen_as.complaint() == ""
            clock[0] += 1
            assert seen_as.complaint() == ""

    asyncio.run(run())
