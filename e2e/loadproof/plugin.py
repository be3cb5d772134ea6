"""The pytest plugin: real runs for tests, and one table of what they said at the session's end.

`loadproof_runs` makes a run of a case and tool once per session and keeps it; `clearly` asks something of it,
repeats an unclear answer twice with a new run, and then fails where LOADPROOF_REQUIRE names `clear`, or skips and
counts. `llm_d_sim` makes llm-d-inference-sims. A tool, or a simulator, that is not installed is a counted skip, and a
failure where LOADPROOF_REQUIRE names it. The table (case, tool, server, outcome, which test asked first, host; skips
and unclears counted) goes to the terminal and, as summary.json and summary.md, into the folder named by
LOADPROOF_SUMMARY. Silent in sessions that use none of it, and it costs them little: what runs anything is imported when
a fixture needs it. Left out: sessions split over several processes, whose runs would disturb each other's times.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from loadproof.errors import Exit, UsageProblem
from loadproof.host import this_host
from loadproof.report.summary import Summary, SummaryRow, as_markdown, summary_table
from loadproof.requirements import CLEAR, SIMULATOR, required
from loadproof.run_folder import ABSORBER, write_json
from loadproof.verdict import Outcome

if TYPE_CHECKING:
    from loadproof.judging import Judgement
    from loadproof.simulators.llm_d import LLMDInferenceSimRunner

VARIABLE = "LOADPROOF_SUMMARY"
ATTEMPTS = 3
SEED = 20_260_101

type MakeSim = Callable[..., LLMDInferenceSimRunner]


@dataclass(frozen=True)
class StoredRun:
    """A run that was made, and where it is."""

    folder: Path
    judgement: Judgement


@dataclass
class _Session:
    """What the session's summary is made of."""

    rows: list[SummaryRow] = field(default_factory=list)
    timed: set[str] = field(default_factory=set)
    unclear: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    not_written: str = ""

    def skip_missing(self, test: str, name: str, how_to_get: str) -> NoReturn:
        """Skip the test, counted; or fail it where `name` is required."""
        if name in required():
            pytest.fail(f"{name} is required and not installed: {how_to_get}", pytrace=False)
        self.missing.add(test)
        pytest.skip(f"{name} is not installed: {how_to_get}")

    def summary(self) -> Summary | None:
        """Return what there is to show, None in a session that used nothing of it."""
        if not (self.rows or self.missing):
            return None
        return Summary(host=this_host(), rows=self.rows, timed=len(self.timed), unclear=len(self.unclear),
                       tool_missing=len(self.missing))  # fmt: skip


_SESSION = pytest.StashKey[_Session]()


class Runs:
    """Real runs, made when first asked for. `clearly` is what tests use."""

    def __init__(self, session: _Session, out: Path) -> None:
        self._session, self._out = session, out
        self._made: dict[tuple[Path, str, str, int], StoredRun] = {}
        self._begun = itertools.count(1)
        self.test = ""

    def require(self, tool: str) -> None:
        """Skip (or fail) the test when this tool of the registry, other than `command`, is not installed."""
        from loadproof.tools.registry import tool_named  # noqa: PLC0415 -- see the module's docstring

        if tool_named(tool).executable(Path()) is None:
            self._session.skip_missing(self.test, tool, tool_named(tool).how_to_get())

    def attempt(self, case: Path, tool: str, number: int = 0, *, server: str = ABSORBER) -> StoredRun:
        """Return attempt `number` of this case and tool; skips (or fails) the test when something is not installed."""
        from loadproof import bench  # noqa: PLC0415 -- see the module's docstring

        key = (case.resolve(), tool, server, number)
        if key not in self._made:
            # Numbered, because cases of one name can lie in different folders.
            [job] = bench.plan_jobs([case], [tool], self._out / str(next(self._begun)), SEED + number, server=server)
            for name, how_to_get in job.absent.items():
                self._session.skip_missing(self.test, name, how_to_get)
            judgement = asyncio.run(bench.run_job(job, lambda _progress: None))
            self._session.rows.append(SummaryRow.of(judgement.verdict, server=server, asked_by=self.test))
            self._made[key] = StoredRun(job.folder.path, judgement)
        return self._made[key]

    def clearly(
        self, case: Path, tool: str, ask: Callable[[StoredRun], Outcome], *, server: str = ABSORBER
    ) -> StoredRun:
        """Return the first run to which `ask` does not answer unclear; `ask` asserts what must hold anyhow."""
        for number in range(ATTEMPTS):
            run = self.attempt(case, tool, number, server=server)
            self._session.timed.add(self.test)  # not before: a test that is skipped for a missing tool timed nothing
            if ask(run) is not Outcome.UNCLEAR:
                return run
        self._session.unclear.add(self.test)
        text = f"{case.name}, {tool}: unclear in {ATTEMPTS} runs: the machine was too busy, or the case is too small"
        if CLEAR in required():
            pytest.fail(text, pytrace=False)
        pytest.skip(text)


def pytest_configure(config: pytest.Config) -> None:
    """Begin to note what is run."""
    config.stash[_SESSION] = _Session()


def pytest_sessionstart() -> None:
    """End the session before any test, as a usage error, when LOADPROOF_REQUIRE has an unknown name."""
    try:
        required()
    except UsageProblem as error:
        pytest.exit(str(error), returncode=error.exit_code)


@pytest.fixture(scope="session")
def loadproof_session_runs(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Every real run of the session."""
    return Runs(pytestconfig.stash[_SESSION], tmp_path_factory.mktemp("runs"))


@pytest.fixture
def loadproof_runs(loadproof_session_runs: Runs, request: pytest.FixtureRequest) -> Runs:
    """The session's real runs, for this test."""
    loadproof_session_runs.test = request.node.nodeid
    return loadproof_session_runs


@pytest.fixture
def llm_d_sim(request: pytest.FixtureRequest, tmp_path: Path) -> MakeSim:
    """What makes llm-d-inference-sims, each of which starts where it is entered.

    `async with llm_d_sim(ttft_s=0.1, itl_s=0.01) as sim: ... sim.base_url`. It takes what `LLMDInferenceSimRunner`
    takes. Unless given, the model is the absorber's, the tokenizer the bundled one (`tokenizer_dir=None`: none), the
    seed `SEED`, and the logs go to a new folder below `tmp_path`. Without the simulator the test is skipped, or fails
    where LOADPROOF_REQUIRE names it.
    """
    from loadproof.absorber.recording import DEFAULT_MODEL  # noqa: PLC0415 -- see the module's docstring
    from loadproof.simulators.llm_d import LLMDInferenceSimRunner  # noqa: PLC0415 -- likewise
    from loadproof.simulators.problems import HOW_TO_GET  # noqa: PLC0415 -- likewise
    from loadproof.tokenizer import tokenizer_dir  # noqa: PLC0415 -- likewise

    numbers = itertools.count(1)

    def make(**options: Any) -> LLMDInferenceSimRunner:
        ours: dict[str, Any] = {
            "model": DEFAULT_MODEL,
            "seed": SEED,
            "log_dir": tmp_path / f"{SIMULATOR}-{next(numbers)}",
        }
        if "tokenizer_dir" not in options:
            ours["tokenizer_dir"] = tokenizer_dir()
        return LLMDInferenceSimRunner(**(ours | options))

    if not make(tokenizer_dir=None).is_available():
        request.config.stash[_SESSION].skip_missing(request.node.nodeid, SIMULATOR, HOW_TO_GET)
    return make


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the summary where LOADPROOF_SUMMARY says; a session that passed and could not is a usage error."""
    noted = session.config.stash[_SESSION]
    summary, folder = noted.summary(), os.environ.get(VARIABLE)
    if summary is None or not folder:
        return
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        write_json(path / "summary.json", summary)
        (path / "summary.md").write_text(as_markdown(summary))
    except OSError as error:
        noted.not_written = (f"{VARIABLE}={folder}: the summary was not written: {error.strerror}; "
                             "name a folder that can be made and written")  # fmt: skip
        session.exitstatus = session.exitstatus or Exit.USAGE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table."""
    noted = config.stash[_SESSION]
    summary = noted.summary()
    if summary is None:
        return
    terminalreporter.section("loadproof")
    terminalreporter.write(summary_table(summary))
    if noted.not_written:
        terminalreporter.write_line(noted.not_written, red=True)
