"""What is left of one run when one of its processes is killed at one moment?

We are a subreaper, so whatever escapes everybody else's care becomes a child of ours: no name, session, environment
or parent hides it. The tool's descendants hold a file lock besides. What the journal must hold is known from the
tool's own log, which says what it had sent and what it had got answered, and when.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from bench.killing.victims import ISOLATED, SINGLE, below, kill
from loadproof.errors import LoadproofError
from loadproof.journal import read_journal
from loadproof.judging import judge_run
from loadproof.log_tail import tail

CLIENTS = 6
MAY_BE_LOST_NS = 200_000_000
AT_ONCE_NS = 50_000_000  # a request sent this long before is in the journal's buffer for certain
DEADLINE_S = 60.0
EXPECTED = """\
why: a run that somebody kills
absorber: {ttft_s: 0.1, itl_s: 0.02}
workload: {num_requests: 1000000, prompt_tokens: 8, max_tokens: 16, stream: true, ignore_eos: true}
load: {mode: concurrency, concurrency: 6}
deadline_s: 3600
"""
_LINE = re.compile(r"(url|sent|answered) (\S+) (\d+)\n")


class Outcome(msgspec.Struct, kw_only=True):
    """One round: `wrong` is empty when nothing is. Times in ms; `in_flight` is (open in the journal, due there)."""

    number: int
    victim: str
    after_ms: float
    gone_ms: float = 0.0
    left: int = 0
    ports: int = 0
    rows: int | None = None
    answered: int = 0
    lost: int = 0
    lost_ms: float = 0.0
    in_flight: tuple[int, int] = (0, 0)
    says: str = ""
    wrong: list[str] = []


@dataclass
class Log:
    """What the tool said: when it had sent and had got answered each request (ns), and where the absorber listened."""

    url: str = ""
    sent: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Log:
        """Read it; a last line that was cut is left out."""
        log = cls()
        for kind, what, when in _LINE.findall(path.read_text() if path.exists() else ""):
            if kind == "url":
                log.url = what
            else:
                (log.sent if kind == "sent" else log.answered)[what] = int(when)
        return log


def plan(seed: int, number: int, *, isolate: bool, only: str = "") -> tuple[str, bool, float]:
    """Return whom to kill, whether to count from the tool's first word (or the harness's start), and after how long."""
    rng = random.Random(f"{seed}/{number}")  # noqa: S311 -- seeded, not secret
    victim = only or rng.choice(list(ISOLATED if isolate else SINGLE))
    while_loading = rng.random() < 0.2
    return victim, not while_loading, rng.uniform(0.1, 5.0) if while_loading else rng.uniform(0.0, 2.5)


def one_round(folder: Path, number: int, seed: int, *, isolate: bool, only: str = "") -> Outcome:
    """Make a run in `folder`, which is empty, kill, wait until all is over, and look at what is left."""
    victim, when_sending, after_s = plan(seed, number, isolate=isolate, only=only)
    outcome = Outcome(number=number, victim=victim, after_ms=0.0)
    case, run = folder / "case", folder / "out" / "case-command"
    case.mkdir()
    (case / "expected.yaml").write_text(EXPECTED)
    tool = Path(__file__).with_name("tool.py")
    (case / "command.args").write_text(f"{sys.executable}\n-S\n{tool}\n{{base_url}}\n{{model}}\n{{out}}\n{CLIENTS}\n")
    argv = [sys.executable, "-m", "loadproof", "run", str(case), "--out", str(folder / "out")]
    with (folder / "said").open("wb") as said:
        harness = subprocess.Popen([*argv, *(["--isolate", "pid"] if isolate else [])], stdout=said, stderr=said)
        begun = time.monotonic()
        try:
            if when_sending and not _until(lambda: bool(Log.read(run / "tool" / "log").sent)):
                outcome.wrong.append("the tool never sent anything")
            time.sleep(after_s)  # the seeded moment is what is tried, not a wait for something
            killed_ns = kill(harness.pid, SINGLE.get(victim) or ISOLATED[victim], DEADLINE_S)
            outcome.after_ms = 1e3 * (time.monotonic() - begun)
            _wait_for_the_end(outcome, harness, folder / "said")
            _look_for_traces(outcome, run, Log.read(run / "tool" / "log"))
        finally:
            _tidy()
    if not killed_ns:
        outcome.wrong.append("whom to kill was never there")
    _look(outcome, run, killed_ns)
    return outcome


def _wait_for_the_end(outcome: Outcome, harness: subprocess.Popen[bytes], said: Path) -> None:
    """Wait until the harness has ended, and then at most 10 s for all others: what is there then is left."""
    since = time.monotonic()
    try:
        code = harness.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        outcome.wrong.append("the harness never ended")
    else:
        if code not in {-signal.SIGKILL, 3}:
            outcome.wrong.append(f"the harness ended with {code}\n{tail(said)}")
    _until(lambda: not below(os.getpid()), 10)
    outcome.gone_ms = 1e3 * (time.monotonic() - since)
    outcome.left = len(below(os.getpid()))
    if outcome.left:
        outcome.wrong.append(f"left: {[' '.join(each.cmdline()) for each in below(os.getpid())]}")


def _tidy() -> None:
    """End and reap what is below us, which is this round's alone."""

    def gone() -> bool:
        for each in (children := below(os.getpid())):
            each.kill()
        return not children

    _until(gone)
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _look_for_traces(outcome: Outcome, run: Path, log: Log) -> None:
    """Look at the lock and at the port."""
    if not _lock_is_free(run / "tool" / "lock"):
        outcome.wrong.append("somebody holds the tool's lock")
    if log.url and _listens(log.url):
        outcome.ports = 1
        outcome.wrong.append(f"{log.url} still answers")


def _look(outcome: Outcome, run: Path, killed_ns: int) -> None:
    """Look at verdict and journal."""
    log = Log.read(run / "tool" / "log")
    outcome.answered = len(log.answered)
    if not (run / "run.json").exists():
        if log.sent:
            outcome.wrong.append("there is no run.json")
        outcome.says = "no run had begun"
        return
    verdict = judge_run(run).verdict
    outcome.says = f"{verdict.outcome}: {verdict.reason.splitlines()[0] if verdict.reason else ''}"
    if verdict.outcome != "broken":
        outcome.wrong.append(f"judged {verdict.outcome}")
    try:
        _compare(outcome, log, run / "journal", killed_ns)
    except LoadproofError as error:
        if log.sent:
            outcome.wrong.append(f"the journal does not open: {error}")


def _compare(outcome: Outcome, log: Log, journal: Path, killed_ns: int) -> None:
    """Compare the journal with what the tool had sent and had got answered."""
    table = read_journal(journal).table
    rows = {
        json.loads(body)["prompt"].split()[1]: how
        for body, how in zip(table["body"].to_pylist(), table["how_ended"].to_pylist(), strict=True)
        if body
    }
    outcome.rows = len(rows)
    last_ns = max([killed_ns, *log.answered.values()])
    missing = [when for what, when in log.answered.items() if rows.get(what) != "complete"]  # the row, or its end
    outcome.lost, outcome.lost_ms = len(missing), (last_ns - min(missing, default=last_ns)) / 1e6
    if last_ns - min(missing, default=last_ns) > MAY_BE_LOST_NS:
        outcome.wrong.append(f"{outcome.lost} answered requests are lost, of the last {outcome.lost_ms:.0f} ms")
    due = [what for what, when in log.sent.items()
           if what not in log.answered and when < killed_ns - MAY_BE_LOST_NS - AT_ONCE_NS]  # fmt: skip
    # One or the other may have been complete in the same moment, before the tool could say so.
    outcome.in_flight = sum(rows.get(what, "complete") != "complete" for what in due), len(due)
    if unseen := [what for what in due if what not in rows]:
        outcome.wrong.append(f"{len(unseen)} requests in flight are not in the journal")


def _until(true: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    until = time.monotonic() + deadline_s
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)  # what other processes do has no event for us
    return True


def _lock_is_free(path: Path) -> bool:
    if not path.exists():
        return True
    with path.open("rb") as file, suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def _listens(url: str) -> bool:
    host, _, port = url.removeprefix("http://").partition(":")
    with suppress(ConnectionRefusedError), socket.create_connection((host, int(port)), 5):
        return True
    return False
