"""Runs that are to go wrong: a case whose tool is a few lines of Python, and disks that can be filled."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from loadproof.bench import Job, Progress, plan_jobs, run_job
from loadproof.judging import Judgement

EXPECTED = """\
why: a run that goes wrong
absorber: {{ttft_s: {ttft_s}}}
workload: {{num_requests: {requests}, prompt_tokens: 4, max_tokens: 2, stream: false, ignore_eos: true}}
load: {{mode: concurrency, concurrency: {concurrency}}}
deadline_s: 120
"""
# What the tools below begin with; {base_url} {model} {out} are its arguments.
PRELUDE = """\
import http.client, json, os, signal, sys, time
URL, MODEL, OUT = sys.argv[1:4]
def connection():
    return http.client.HTTPConnection(URL.removeprefix("http://"), timeout=100)
def ask(connection, prompt="one two three"):
    body = json.dumps({"model": MODEL, "prompt": prompt, "max_tokens": 2, "ignore_eos": True})
    connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json"})
def send(prompt="one two three"):
    ask(asked := connection(), prompt)
    return asked.getresponse().read()
"""


def absorbers_of(out: Path) -> list[psutil.Process]:
    """Return the absorbers that write their journal below `out`; other tests of the session may have theirs."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = process.cmdline()
            if "loadproof.absorber" in words and any(word.startswith(str(out)) for word in words):
                found.append(process)
    return found


type MakeCase = Callable[..., Path]
type MakeRun = Callable[..., Judgement]


@pytest.fixture
def make_case(tmp_path: Path) -> MakeCase:
    def make(script: str, *, requests: int = 1, concurrency: int = 1, ttft_s: float = 0.0) -> Path:
        folder = tmp_path / "wrong"
        folder.mkdir()
        (folder / "expected.yaml").write_text(
            EXPECTED.format(requests=requests, concurrency=concurrency, ttft_s=ttft_s)
        )
        (tmp_path / "tool.py").write_text(PRELUDE + script)
        (folder / "command.args").write_text(
            f"{sys.executable}\n-S\n{tmp_path / 'tool.py'}\n{{base_url}}\n{{model}}\n{{out}}\n"
        )
        return folder

    return make


def job_of(case: Path, out: Path) -> Job:
    [job] = plan_jobs([case], ["command"], out, 0)
    return job


@pytest.fixture
def run(tmp_path: Path) -> MakeRun:
    """Make a run in this process; the run folder is `tmp_path/out/wrong-command` unless `out` says another place."""

    def made(case: Path, *, out: Path | None = None, watch: Callable[[Progress], None] = lambda _: None) -> Judgement:
        return asyncio.run(run_job(job_of(case, out or tmp_path / "out"), watch))

    return made


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB; tests that want it are skipped where nothing may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    told = _mount("-t", "tmpfs", "-o", "size=4m", "none", str(folder))
    if told:
        pytest.skip(f"a small disk cannot be mounted here: {told}")
    try:
        yield folder
    finally:
        subprocess.run([shutil.which("umount") or "umount", str(folder)], check=True)


def read_only(folder: Path) -> None:
    told = _mount("-o", "remount,ro", str(folder))
    assert not told, told


def _mount(*argv: str) -> str:
    """Return why it cannot be mounted; empty when it was."""
    mount = shutil.which("mount")
    if mount is None:
        return "there is no `mount`"
    told = subprocess.run([mount, *argv], capture_output=True, text=True, check=False)
    return told.stderr.strip() or (f"exit code {told.returncode}" if told.returncode else "")
