"""Which servers are measured, and how is each started on its core?

No port is guessed: nginx shares one that we hold, the recorder gets a socket that listens already, the
absorber announces its own. Everything they write goes to a temporary folder.
"""

from __future__ import annotations

import http.client
import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from bench.speed_parts.machine import child, end
from loadproof.absorber.precedence import LOOP
from loadproof.errors import BrokenRun

READY_S = 60.0
RECORDER = Path(__file__).with_name("recorder.py")
PATH = "/v1/completions"
ARGPARSE_USAGE, OUR_USAGE = 2, 64

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 4096; use epoll; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 3600s; default_type application/json;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port} reuseport; location / {{ return 200 '{body}'; }} }}
}}
"""


class NotThere(Exception):
    """The absorber does not know what it was asked for: a row that has to wait, not a failure."""


class Server(msgspec.Struct, frozen=True):
    """A server that answers: `url` of completions, and the process whose main thread is its loop."""

    url: str
    pid: int
    journal: Path | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.url)
        return str(parts.hostname), int(parts.port or 80)


@contextmanager
def nginx(folder: Path, *, core: int, reply_bytes: int) -> Iterator[Server]:
    """Run one nginx worker that answers everything with 200 and `reply_bytes` bytes."""
    with socket.socket() as held, (folder / "nginx.log").open("wb") as log:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        held.bind(("127.0.0.1", 0))  # ours until the end, and it never listens: nginx alone gets connections
        port, config = held.getsockname()[1], folder / "nginx.conf"
        config.write_text(NGINX.format(folder=folder, port=port, body="x" * reply_bytes))
        with child(["nginx", "-p", str(folder), "-e", "stderr", "-c", str(config)], core=core, stderr=log) as process:
            _same_precedence(process.pid)
            server = Server(f"http://127.0.0.1:{port}{PATH}", process.pid)
            _answers(server, process, folder / "nginx.log")
            yield server


@contextmanager
def recorder(folder: Path, *, core: int) -> Iterator[Server]:
    """Run the aiohttp recorder."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener, (folder / "recorder.log").open("wb") as log:
        argv = [sys.executable, "-P", str(RECORDER), str(listener.fileno())]
        with child(argv, core=core, stderr=log, pass_fds=[listener.fileno()]) as process:
            _same_precedence(process.pid)
            server = Server(f"http://127.0.0.1:{listener.getsockname()[1]}{PATH}", process.pid)
            _answers(server, process, folder / "recorder.log")
            yield server


@contextmanager
def absorber(
    folder: Path, *, core: int, profile: dict[str, object] | None = None, options: Sequence[str] = (),
    keep_journal: bool = True,
) -> Iterator[Server]:  # fmt: skip
    """Run an absorber whose journal goes to `folder`; on leaving the block it is sealed, if it is to be kept.

    Raises NotThere for an option or a profile that this absorber does not know.
    """
    folder.mkdir(parents=True)
    argv = [sys.executable, "-P", "-m", "loadproof.absorber", "--journal", str(folder)]
    argv += ["--profile-json", json.dumps(profile or {}), *options]
    log = folder.with_suffix(".log")
    with log.open("wb") as errors, child(argv, core=core, stderr=errors) as process:
        yield Server(f"{_announced_url(process, log)}{PATH}", process.pid, folder)
        if not keep_journal:
            process.kill()  # sealing what nobody reads would take longer than the rounds
        elif end(process) != 0:
            raise BrokenRun(f"the absorber ended with {process.returncode}:\n{log.read_text()[-2000:]}")


def _announced_url(process: subprocess.Popen[bytes], log: Path) -> str:
    assert process.stdout is not None  # noqa: S101 -- `child` always makes the pipe
    line = process.stdout.readline() if select.select([process.stdout], [], [], READY_S)[0] else b""
    if line:
        return str(msgspec.json.decode(line)["url"])
    code = end(process) if process.poll() is None and not _ended(process) else process.returncode
    said = log.read_text().strip()
    last = said.splitlines()[-1] if said else "it said nothing"
    if code in {ARGPARSE_USAGE, OUR_USAGE}:
        raise NotThere(last)
    raise BrokenRun(f"the absorber was not ready within {READY_S:g} s (exit status {code}): {last}")


def _ended(process: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)  # its output is closed already
    return process.returncode is not None


def _answers(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait for the first answer."""
    limit = time.monotonic() + READY_S
    while process.poll() is None and time.monotonic() < limit:
        try:
            reply_size(server, stream=True)
        except ConnectionRefusedError:
            time.sleep(0.01)
        else:
            return
    raise BrokenRun(f"{server.url} does not answer:\n{log.read_text()[-2000:]}")


def _same_precedence(pid: int) -> None:
    """Schedule a rival as our loop is scheduled, where the system allows it: else ours alone would keep its caches."""
    with suppress(OSError):
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(LOOP))


def reply_size(server: Server, *, stream: bool) -> int:
    """Ask for 16 tokens once and return the size of the reply's body in bytes."""
    asked = {"model": "google/gemma-3-270m", "prompt": "one word", "max_tokens": 16, "ignore_eos": True}
    connection = http.client.HTTPConnection(*server.address, timeout=READY_S)
    try:
        connection.request("POST", PATH, json.dumps({**asked, "stream": stream}), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if answer.status != 200:
        raise BrokenRun(f"{server.url} answers {answer.status}: {body[:500]!r}")
    return len(body)
