"""Do several workers serve one port as one absorber, with one journal, and is the loss of one never overlooked?

One absorber of each kind gets all exchanges; the tests look at what came of them. Those that lose a worker, or stop
it, have one of their own.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio

from loadproof.absorber import workers
from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile, profile_named
from loadproof.absorber.server import WORKER_REQUESTS
from loadproof.absorber.workers import MOST_WORKERS, Dealer, check_workers
from loadproof.errors import BrokenRun, Exit, UsageProblem
from loadproof.journal import COMPLETE, Metadata, read_journal
from tests.absorber.conftest import DEADLINE_S, Absorber, Reply
from tests.absorber.odd_requests import COMPLETIONS, GET

WORKERS, CONNECTIONS, EACH = 2, 4, 3
SECRET = b"s3cr3t-qpwoeiruty"
SHOWN = b"kept-qpwoeiruty"  # the search must be able to find something
WITH_SECRET = (f"Authorization: Bearer {SECRET.decode()}", f"X-Shown: {SHOWN.decode()}")
KINDS: dict[str, tuple[Profile, str]] = {
    "full": (Profile(output_tokens=9), "full"),
    "light precompiled": (profile_named("max-throughput"), "light"),
}


def containing(folder: Path, wanted: bytes) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and wanted in path.read_bytes()]


def workers_of(pid: int) -> list[psutil.Process]:
    """Return the worker processes of an absorber, in their order."""
    below = psutil.Process(pid).children(recursive=True)
    found = {argv[-3]: process for process in below if (argv := process.cmdline())[-2:-1] == ["--inbox"]
             and "loadproof.absorber" in argv and "-P" in argv}  # fmt: skip
    return [found[number] for number in sorted(found)]


@dataclass
class Run:
    """What one absorber with workers answered and left."""

    kind: str
    folder: Path
    replies: list[list[Reply]] = field(default_factory=list)  # by connection
    small: dict[str, Reply] = field(default_factory=dict)
    secret_while_running: list[str] = field(default_factory=list)
    shown_while_running: list[str] = field(default_factory=list)
    left: list[psutil.Process] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    metadata: Metadata | None = None
    stderr: str = ""

    @property
    def asked(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["path"] == COMPLETIONS]


def exchange(absorber: Absorber, run: Run) -> None:
    with ExitStack() as stack:
        connections = [stack.enter_context(absorber.raw()) for _ in range(CONNECTIONS)]
        for nth in range(EACH):
            for raw in connections:
                raw.post(COMPLETIONS, absorber.body(stream=nth == 1, user=str(nth)), *WITH_SECRET)
        run.replies = [[raw.reply() for _ in range(EACH)] for raw in connections]
        unfinished = stack.enter_context(absorber.raw())
        unfinished.send(b"POST /v1/completions?api_key=" + SECRET + b" HTTP/1.1\r\nAuthorization: Bearer " + SECRET)
        raw = connections[0]
        raw.send(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        run.small["/metrics"] = raw.reply()
        raw.post("/tokenize", {"prompt": "one two three"})
        run.small["/tokenize"] = raw.reply()
        until_rows(absorber.journal, CONNECTIONS * EACH + 3)
        run.secret_while_running = containing(run.folder, SECRET)
        run.shown_while_running = containing(run.folder, SHOWN)


def until_rows(folder: Path, count: int) -> None:
    """Wait until so many rows have been written by all workers together."""
    deadline = time.monotonic() + DEADLINE_S
    while read_journal(folder).table.num_rows < count:
        assert time.monotonic() < deadline, "the journal did not grow"
        time.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Run]:
    profile, level = KINDS[request.param]
    found = Run(request.param, tmp_path_factory.mktemp("workers"))
    journal = found.folder / "journal"
    async with absorbing(profile, journal, log_dir=found.folder, level=level, workers=WORKERS) as (announced, process):
        absorber = Absorber(announced.url, announced.host, announced.port, announced.model, journal)
        started = [psutil.Process(announced.pid), *psutil.Process(announced.pid).children(recursive=True)]
        assert len(workers_of(announced.pid)) == WORKERS
        await asyncio.to_thread(exchange, absorber, found)
    found.stderr = process.stderr.read_text()
    found.left = [each for each in started if each.is_running()]
    sealed = read_journal(journal)
    found.rows, found.metadata = sealed.table.to_pylist(), sealed.metadata
    yield found


def test_every_request_is_answered_with_an_id_of_its_own(run: Run) -> None:
    replies = [reply for connection in run.replies for reply in connection]
    assert {reply.status for reply in replies} == {200}
    told = [set(re.findall(rb'"id":"([^"]+)"', reply.body)) for reply in replies]
    assert [len(ids) for ids in told] == [1] * CONNECTIONS * EACH  # a stream has one in all its chunks
    if run.kind == "full":  # a precompiled reply is the same bytes each time
        assert len(set.union(*told)) == CONNECTIONS * EACH


def test_connections_are_dealt_in_turn(run: Run) -> None:
    served = {row["conn"]: row["worker"] for row in run.asked}
    assert Counter(served.values()) == dict.fromkeys(range(WORKERS), CONNECTIONS // WORKERS)
    assert [served[conn] for conn in sorted(served)] == [0, 1] * (CONNECTIONS // WORKERS)
    assert Counter(row["conn"] for row in run.asked) == dict.fromkeys(served, EACH)


def test_one_journal_has_the_rows_of_all_with_their_worker(run: Run) -> None:
    assert run.metadata is not None
    assert (run.metadata.closed, run.metadata.lost_requests) == (True, 0)
    assert [row["how_ended"] for row in run.asked] == [COMPLETE] * CONNECTIONS * EACH
    for row in run.rows:
        assert row["req"] // WORKER_REQUESTS == row["worker"]
    assert len({row["req"] for row in run.rows}) == len(run.rows) == CONNECTIONS * EACH + 3
    for worker in range(WORKERS):
        nths = [row["nth"] for row in run.asked if row["worker"] == worker]
        assert Counter(nths) == dict.fromkeys(range(EACH), CONNECTIONS // WORKERS)
    known = {row["usage_prompt_tokens"] for row in run.asked}
    assert known == ({4} if run.kind == "full" else {None})


def test_metrics_are_refused_in_words(run: Run) -> None:
    assert run.small["/metrics"].status == 501
    assert "/metrics sees all requests only where one worker serves" in str(run.small["/metrics"].error["message"])


def test_a_worker_tokenizes(run: Run) -> None:
    assert run.small["/tokenize"].status == 200
    assert json.loads(run.small["/tokenize"].body)["count"] == 4


def test_no_credential_is_on_disk(run: Run) -> None:
    assert run.shown_while_running
    assert run.secret_while_running == []
    assert containing(run.folder, SECRET) == []
    rows = [str(row) for row in run.rows]
    assert sum(SHOWN.decode() in row for row in rows) == CONNECTIONS * EACH
    assert [row for row in rows if SECRET.decode() in row] == []


def test_nothing_is_left_but_the_journal_and_silent_logs(run: Run) -> None:
    assert run.left == []
    assert run.stderr == ""
    logs = {f"absorber-{worker}.{kind}": 0 for worker in range(WORKERS) for kind in ("stdout", "stderr")}
    sizes = {path.name: path.stat().st_size for path in (run.folder / "journal").iterdir()}
    assert sizes.pop("journal.parquet")
    assert sizes == logs


type Losing = Callable[[Absorber, list[psutil.Process]], None]


async def lose(folder: Path, losing: Losing) -> tuple[list[dict[str, Any]], Metadata]:
    """Run an absorber until it ends because `losing` took a worker from it; return its journal."""
    journal, started = folder / "journal", []

    async def until_lost() -> None:
        async with absorbing(Profile(), journal, log_dir=folder, workers=WORKERS) as (announced, process):
            absorber = Absorber(announced.url, announced.host, announced.port, announced.model, journal)
            started.extend(psutil.Process(announced.pid).children(recursive=True))
            await asyncio.to_thread(losing, absorber, workers_of(announced.pid))
            await asyncio.wait_for(process.exited(), 60)

    with pytest.raises(BrokenRun, match=r"the absorber ended with exit code 3 .*(?s:.*)a worker was ended by SIG"):
        await until_lost()
    assert len(started) >= 2 * WORKERS
    assert [each for each in started if each.is_running()] == []
    assert (journal / "journal.parquet").exists()
    sealed = read_journal(journal)
    return sealed.table.to_pylist(), sealed.metadata


def asked_of_each_worker(absorber: Absorber) -> None:
    for _ in range(WORKERS):
        with absorber.raw() as raw:
            raw.post(COMPLETIONS, absorber.body())
            assert raw.reply().status == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_worker_that_is_told_to_end_is_lost(tmp_path: Path, number: signal.Signals) -> None:
    def told(absorber: Absorber, found: list[psutil.Process]) -> None:
        asked_of_each_worker(absorber)
        until_rows(absorber.journal, WORKERS)
        found[1].send_signal(number)

    rows, metadata = await lose(tmp_path, told)
    assert sorted(row["worker"] for row in rows) == [0, 1]
    assert not metadata.closed


def beyond_full() -> int:
    """Return how many connections fill every inbox: each is a message that costs the kernel more than 512 bytes."""
    return WORKERS * int(Path("/proc/sys/net/core/wmem_default").read_text()) // 512


@pytest.mark.asyncio
async def test_a_stopped_worker_holds_up_nobody_else_and_killed_is_lost(tmp_path: Path) -> None:
    sent = 0

    def stopped(absorber: Absorber, found: list[psutil.Process]) -> None:
        nonlocal sent
        found[0].suspend()
        for _ in range(beyond_full()):
            with absorber.raw() as raw:
                raw.send(GET)
        for _ in range(2 * WORKERS):  # all of these go to the other one
            asked_of_each_worker(absorber)
            sent += WORKERS
        found[0].kill()

    rows, metadata = await lose(tmp_path, stopped)
    assert sent == 2 * WORKERS * WORKERS
    assert {row["worker"] for row in rows if row["path"] == COMPLETIONS} == {1}
    assert sum(row["path"] == COMPLETIONS for row in rows) == sent
    assert not metadata.closed


class Connections:
    """A dealer with inboxes that nobody reads, and connections to be dealt."""

    def __init__(self, stack: ExitStack, inboxes: int) -> None:
        pairs = [socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(inboxes)]
        self.theirs = [theirs for _, theirs in pairs]
        for end in (end for pair in pairs for end in pair):
            stack.enter_context(end)
            end.setblocking(False)
        self.dealer = Dealer([ours for ours, _ in pairs], [])
        self._end = stack.enter_context(socket.socket())

    def deal(self, count: int) -> None:
        for _ in range(count):
            self.dealer.deal(socket.socket(fileno=os.dup(self._end.fileno())))

    def taken(self, inbox: int) -> list[int]:
        """Return the numbers of all connections that lie in an inbox."""
        numbers: list[int] = []
        while True:
            try:
                data, fds, _, _ = socket.recv_fds(self.theirs[inbox], 8, 1)
            except BlockingIOError:
                return numbers
            os.close(*fds)
            numbers.append(int.from_bytes(data, sys.byteorder))


@pytest.mark.asyncio
async def test_full_inboxes_keep_nobody_waiting_and_lose_no_connection() -> None:
    with ExitStack() as stack:
        connections = Connections(stack, 2)
        connections.deal(3000)
        first = [connections.taken(0), connections.taken(1)]
        assert first[0][:3] == [1, 3, 5]
        assert first[1][:3] == [2, 4, 6]
        found = {*first[0], *first[1]}
        assert 0 < len(found) < 3000
        deadline = time.monotonic() + DEADLINE_S
        while len(found) < 3000:
            assert time.monotonic() < deadline, "connections were lost"
            await asyncio.sleep(0)
            more = connections.taken(0)
            assert more == sorted(more)
            found.update(more, connections.taken(1))
        assert found == set(range(1, 3001))
        await connections.dealer.stop()


@pytest.mark.asyncio
async def test_a_full_inbox_is_passed_over() -> None:
    with ExitStack() as stack:
        connections = Connections(stack, 2)
        connections.deal(1)
        found = []
        for _ in range(3000):
            connections.deal(1)
            found += connections.taken(1)
        full = connections.taken(0)
        assert len(full) < 1500 < len(found)
        assert sorted([*full, *found]) == list(range(1, 3002))
        await connections.dealer.stop()


@pytest.mark.asyncio
async def test_connections_beyond_those_that_may_wait_are_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_WAITING", 5)
    with ExitStack() as stack:
        connections = Connections(stack, 1)
        connections.deal(3000)
        turned_away = 3000 - 5 - len(connections.taken(0))
        with pytest.raises(BrokenRun, match=f"^{turned_away} connections were closed because no worker took them"):
            await connections.dealer.stop()


@pytest.mark.parametrize(
    ("number", "profile", "recording", "says"),
    [
        (0, Profile(), True, f"--workers 0: must be between 1 and {MOST_WORKERS}"),
        (MOST_WORKERS + 1, Profile(), True, f"--workers {MOST_WORKERS + 1}: must be between 1 and {MOST_WORKERS}"),
        (2, profile_named("variable-response"), True, "--workers 2: this profile needs one worker, because draws"),
        (2, Profile(slots=4), True, "--workers 2: this profile needs one worker, because all requests share its slots"),
        (2, Profile(), False, "--workers 2: workers always record; leave --workers or --no-recording out"),
    ],
)
def test_what_cannot_be(number: int, profile: Profile, recording: bool, says: str) -> None:
    with pytest.raises(UsageProblem, match=f"^{re.escape(says)}"):
        check_workers(number, profile, recording=recording)


@pytest.mark.parametrize(("number", "recording"), [(1, True), (1, False), (2, True), (MOST_WORKERS, True)])
def test_what_can_be(number: int, recording: bool) -> None:
    check_workers(number, Profile(), recording=recording)
    check_workers(1, profile_named("variable-response"), recording=recording)
    check_workers(1, Profile(slots=4), recording=recording)


def test_no_recording_with_workers_is_refused_by_the_process(tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "loadproof.absorber", "--journal", str(tmp_path), "--workers", "2",
            "--no-recording"]  # fmt: skip
    ended = subprocess.run(argv, stdin=subprocess.PIPE, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (Exit.USAGE, "")
    assert ended.stderr.startswith("--workers 2: workers always record")
    assert list(tmp_path.iterdir()) == []
