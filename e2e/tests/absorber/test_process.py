"""How does the absorber's process begin, refuse to begin, and end?"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from loadproof.absorber.client import absorbing
from loadproof.absorber.profile import Profile
from loadproof.errors import BrokenRun, Exit
from loadproof.journal import read_journal


def refused(*arguments: str) -> str:
    """Run the absorber with arguments that it cannot start with; return what it says."""
    argv = [sys.executable, "-m", "loadproof.absorber", *arguments]
    ended = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (Exit.USAGE, "")
    assert "Traceback" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--profile-json", "{"], "--profile-json: JSON: Invalid JSON"),
        (["--profile-json", '{"ttft": 1}'], "--profile-json: ttft: Extra inputs are not permitted"),
        (["--port", "99999"], "cannot listen on 127.0.0.1 port 99999: a port is between 0 and 65535"),
        (["--host", "a..b"], "cannot listen on a..b port 0"),
    ],
)
def test_what_cannot_be_started_says_why_and_leaves_nothing(tmp_path: Path, arguments: list[str], says: str) -> None:
    assert says in refused("--journal", str(tmp_path / "journal"), *arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        message = refused("--journal", str(tmp_path / "journal"), "--port", port)
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use; choose another --port" in message
    assert list(tmp_path.iterdir()) == []


def test_a_journal_is_never_overwritten(tmp_path: Path) -> None:
    kept = tmp_path / "journal.parquet"
    kept.write_bytes(b"kept")
    assert "already holds a journal" in refused("--journal", str(tmp_path))
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"kept"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert "the journal cannot be written there" in refused("--journal", str(tmp_path / "file" / "journal"))


@pytest.mark.asyncio
async def test_more_connections_than_descriptors_wait_for_their_turn(tmp_path: Path) -> None:
    async with absorbing(Profile(), tmp_path / "journal", log_dir=tmp_path) as (announced, process):
        used = psutil.Process(announced.pid).num_fds()
        _, hard = resource.prlimit(announced.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(announced.pid, resource.RLIMIT_NOFILE, (used + 5, hard))
        with ExitStack() as first:
            for _ in range(20):
                first.enter_context(socket.create_connection((announced.host, announced.port), timeout=30))
            last = await asyncio.to_thread(socket.create_connection, (announced.host, announced.port), 30)
        with last:
            last.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await asyncio.to_thread(last.recv, 1000)).startswith(b"HTTP/1.1 200 OK")
    assert process.stderr.read_text() == ""
    assert read_journal(tmp_path / "journal").table["path"].to_pylist() == ["/health"]


@pytest.mark.asyncio
async def test_an_absorber_that_is_killed_is_a_broken_run(tmp_path: Path) -> None:
    async def killed() -> None:
        async with absorbing(Profile(), tmp_path / "journal", log_dir=tmp_path) as (announced, process):
            os.kill(announced.pid, signal.SIGKILL)
            await process.exited()

    with pytest.raises(BrokenRun, match="the absorber was ended by SIGKILL"):
        await killed()


DEFECT = """
import sys
from loadproof.absorber import __main__, server
def fail(self, connection):
    raise ZeroDivisionError("on purpose")
server.Server.accept = fail
sys.exit(__main__.main())
"""


def test_a_defect_of_our_own_ends_it_as_broken_with_the_journal_kept(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", DEFECT, "--journal", str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        with socket.create_connection((announced["host"], announced["port"])):
            _, errors = process.communicate(timeout=60)
    assert process.returncode == Exit.BROKEN
    assert "the absorber failed in its own code and stopped; its journal is kept: ZeroDivisionError" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["journal.parquet"]


@pytest.mark.parametrize("end", ["lifeline", "term", "interrupt"])
def test_every_end_writes_the_journal(tmp_path: Path, end: str) -> None:
    ours, theirs = os.pipe()
    argv = [sys.executable, "-m", "loadproof.absorber", "--journal", str(tmp_path), "--lifeline", str(ours)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=[ours]) as process:
        os.close(ours)
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")
        if end == "lifeline":
            os.close(theirs)
        else:
            process.send_signal(signal.SIGTERM if end == "term" else signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    if end != "lifeline":
        os.close(theirs)
    assert (process.returncode, errors) == (0, b"")
    assert read_journal(tmp_path).table.num_rows == 0
