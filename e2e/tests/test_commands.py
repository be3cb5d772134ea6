"""Do the commands do what their help says, each as a person runs it: another process, another folder, Ctrl-C?"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

MARK = "LOADPROOF_TEST_MARK"
DEADLINE_S = 120

EXPECTED = """\
why: a test of the commands
absorber: {ttft_s: 0.05}
workload: {num_requests: 16, prompt_tokens: 32, max_tokens: 4, stream: true, ignore_eos: true, unique_prompts: true}
load: {mode: concurrency, concurrency: 2}
deadline_s: 60
tools:
  metronome: {prompt_extra: {bos: 1}}
"""
METRONOME = "--concurrency\n2\n--num-requests\n16\n--prompt-tokens\n32\n--max-tokens\n4\n"
SEND = """\
import json, sys, urllib.request
url, model, tokenizer, out, seed = sys.argv[1:]
body = {"model": model, "prompt": "one two three", "max_tokens": 2, "ignore_eos": True}
headers = {"Content-Type": "application/json"}
request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(), headers)
urllib.request.urlopen(request).read()
print("seed", seed, "in", out)
assert open(tokenizer + "/tokenizer.json").read(1) == "{"
"""
PLACEHOLDERS = ("{base_url}", "{model}", "{tokenizer}", "{out}", "{seed}")


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def case(tmp_path: Path) -> Path:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "expected.yaml").write_text(EXPECTED)
    (folder / "metronome.args").write_text(METRONOME)
    return folder


def _command(argv: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "loadproof", *argv]


OF_THE_SESSION = {"LOADPROOF_REQUIRE", "LOADPROOF_INFERENCE_PERF"}
ORDINARY = {name: value for name, value in os.environ.items() if name not in OF_THE_SESSION}


def tell(*argv: str, cwd: Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(_command(argv), cwd=cwd, env={**ORDINARY, **(env or {})}, capture_output=True, text=True,
                          check=False, timeout=DEADLINE_S)  # fmt: skip


@contextmanager
def started(
    *argv: str, cwd: Path, mark: str, env: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:  # fmt: skip
    with subprocess.Popen(_command(argv), cwd=cwd, env={**ORDINARY, **(env or {}), MARK: mark}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def left_running(mark: str) -> list[list[str]]:
    left = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(MARK) == mark:
                left.append(process.cmdline())
    return left


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run of the reference sender, made once; each test judges a copy or puts back what it takes away."""
    folder = tmp_path_factory.mktemp("stored")
    case = folder / "small"
    case.mkdir()
    (case / "expected.yaml").write_text(EXPECTED)
    (case / "metronome.args").write_text(METRONOME)
    told = tell("run", "small", "--tool", "metronome", "--out", "out", cwd=folder)
    assert told.returncode in {0, 2}, told  # the load is short: what a busy machine leaves unclear may be so
    assert "small x metronome: 0 / 16 requests, " in told.stderr
    assert "small x metronome" in told.stdout
    assert "requests, " not in told.stdout.replace("16 requests, ", "")
    return folder / "out" / "small-metronome"


@pytest.mark.parametrize("where", ["beside", "inside"])
def test_a_stored_run_judged_again_says_the_same(stored: Path, where: str) -> None:
    names = ("findings.json", "claims.json", "verdict.json")
    before = {name: (stored / name).read_bytes() for name in names}
    for name in names:
        (stored / name).unlink()
    told = tell("judge", ".", cwd=stored) if where == "inside" else tell("judge", stored.name, cwd=stored.parent)
    assert told.returncode in {0, 2}, told
    assert {name: (stored / name).read_bytes() for name in names} == before
    assert [finding["outcome"] for finding in json.loads(before["findings.json"])][:4] == ["pass"] * 4


def test_with_a_row_less_the_count_fails(stored: Path) -> None:
    journal = stored / "journal" / "journal.parquet"
    whole = journal.read_bytes()
    table = pq.read_table(journal)
    try:
        pq.write_table(table.slice(0, table.num_rows - 1), journal)
        told = tell("judge", str(stored), cwd=stored)
        findings = {finding["check"]: finding for finding in json.loads((stored / "findings.json").read_text())}
    finally:
        journal.write_bytes(whole)
        tell("judge", str(stored), cwd=stored)
    assert told.returncode == 1
    assert findings["count.requests"]["outcome"] == "fail"
    assert findings["count.requests"]["measured"] == "15"
    assert "small x metronome: count.requests: fail" in told.stdout
    assert "  again: " not in told.stdout  # it would say the same again


def test_a_missing_journal_is_broken(stored: Path) -> None:
    journal = stored / "journal" / "journal.parquet"
    whole = journal.read_bytes()
    journal.unlink()
    try:
        told = tell("judge", str(stored), cwd=stored)
    finally:
        journal.write_bytes(whole)
        tell("judge", str(stored), cwd=stored)
    assert told.returncode == 3
    assert "there is no journal" in told.stdout


def test_tool_may_be_repeated_and_a_missing_one_is_a_row(case: Path, tmp_path: Path) -> None:
    (case / "inference-perf.yaml").write_text("api: {type: completion}\n")
    (case / "expected.yaml").write_text(EXPECTED + "  inference-perf: {prompt_extra: {bos: 1}}\n")
    argv = ("run", "small", "--tool", "inference-perf", "--out", "out")
    env = {"LOADPROOF_CACHE": str(tmp_path / "cache")}  # where no tool is installed
    alone = tell(*argv, cwd=tmp_path, env=env)
    assert alone.returncode == 0, alone
    assert "missing" in alone.stdout
    assert "unsupported" in alone.stdout
    assert "not installed: `loadproof tools sync inference-perf`, or LOADPROOF_INFERENCE_PERF=" in alone.stdout
    assert not (tmp_path / "out").exists()
    must = tell(*argv, cwd=tmp_path, env={**env, "LOADPROOF_REQUIRE": "clear,inference-perf"})
    assert must.returncode == 3
    assert "required (LOADPROOF_REQUIRE) and not installed: inference-perf" in must.stdout
    both = tell(*argv, "--tool", "metronome", cwd=tmp_path, env=env)
    assert both.returncode in {0, 2}, both
    assert "small x inference-perf: unsupported" in both.stdout
    assert "in out/small-metronome" in both.stdout
    assert (tmp_path / "out" / "small-metronome" / "verdict.json").exists()


def test_a_tool_without_an_adapter_is_a_row_too(case: Path, tmp_path: Path) -> None:
    (case / "vllm-bench.args").write_text("--model\n")
    for kind in ("command.args", "metronome.args"):
        (case / kind).unlink(missing_ok=True)
    told = tell("run", "small", "--out", "out", cwd=tmp_path)
    assert told.returncode == 0, told
    assert "small x vllm: unsupported: not installed: this version of loadproof cannot run it; it runs " in told.stdout
    must = tell("run", "small", "--out", "out", cwd=tmp_path, env={"LOADPROOF_REQUIRE": "vllm"})
    assert must.returncode == 3


def test_tools(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    told = tell("tools", cwd=tmp_path, env={"LOADPROOF_CACHE": str(cache)})
    assert told.returncode == 0
    assert re.search(
        r"^inference-perf +0\.7\.0 +not installed +loadproof tools sync inference-perf", told.stdout, re.MULTILINE
    )
    own = tell("tools", cwd=tmp_path, env={"LOADPROOF_CACHE": str(cache), "LOADPROOF_INFERENCE_PERF": sys.executable})
    assert re.search(rf"^inference-perf +own build +installed +{re.escape(sys.executable)} ", own.stdout, re.MULTILINE)


HELPS = {
    (): ("run", "observe", "serve", "judge", "tools", "metronome"),
    ("run",): ("CASE...", "--tool", "--out", "--server", "llm-d-inference-sim", "--seed"),
    ("observe",): ("CMD {base_url}", "--profile", "--ttft-s", "--deadline-s"),
    ("serve",): ("--host", "--port", "--profile", "--journal"),
    ("judge",): ("RUN...", "--case", "--journal", "--claims"),
    ("tools",): ("sync",),
    ("tools", "sync"): ("NAME...",),
    ("metronome",): ("--rate", "--concurrency", "--wrong"),
}


@pytest.mark.parametrize("command", HELPS, ids=lambda command: "-".join(command) or "loadproof")
def test_help(tmp_path: Path, command: tuple[str, ...]) -> None:
    told = tell(*command, "--help", cwd=tmp_path, env={"COLUMNS": "120", "NO_COLOR": "1"})
    assert told.returncode == 0
    assert told.stderr == ""
    for words in HELPS[command]:
        assert words in told.stdout


def test_no_command_shows_the_help_and_is_64(tmp_path: Path) -> None:
    told = tell(cwd=tmp_path)
    assert told.returncode == 64
    assert "observe" in told.stdout + told.stderr


def test_observe(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SEND)
    told = tell("observe", "--out", "seen", "--seed", "7", "--ttft-s", "0.01", "--", sys.executable, "send.py",
                *PLACEHOLDERS, cwd=tmp_path)  # fmt: skip
    assert told.returncode == 0, told
    lines = dict(re.split(r": +", line, maxsplit=1) for line in told.stdout.splitlines())
    assert lines["generation requests"] == "1"
    assert lines["max_tokens"] == "2 x 1"
    assert lines["path"] == "/v1/completions x 1"
    assert lines["the command"].startswith("ended with exit code 0 after ")
    assert lines["journal and logs"] == "seen"
    assert (tmp_path / "seen" / "journal" / "journal.parquet").is_file()
    assert (tmp_path / "seen" / "tool.stdout").read_text() == f"seed 7 in {tmp_path / 'seen' / 'tool'}\n"


def test_observe_a_failing_command_that_sends_nothing(tmp_path: Path) -> None:
    told = tell(
        "observe", "--out", "seen", "--", sys.executable, "-c", "raise SystemExit('no such model')", cwd=tmp_path
    )
    assert told.returncode == 3
    assert re.search(r"^generation requests: +0$", told.stdout, re.MULTILINE)
    assert "ended with exit code 1 after" in told.stdout
    assert "tool.stderr\n  no such model" in told.stdout


def test_observe_stops_a_command_at_its_deadline(tmp_path: Path, mark: str) -> None:
    told = tell(
        "observe", "--out", "seen", "--deadline-s", "0.2", "--", "sleep", "1000", cwd=tmp_path, env={MARK: mark}
    )
    assert told.returncode == 3
    assert "was still running after its deadline of 0.2 s and was stopped" in told.stdout
    assert left_running(mark) == []


def _request(url: str, prompt: str) -> None:
    body = {"model": "google/gemma-3-270m", "prompt": prompt, "max_tokens": 4, "stream": True, "ignore_eos": True}
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), headers)  # noqa: S310 -- loopback
    with urllib.request.urlopen(asked, timeout=DEADLINE_S) as answer:  # noqa: S310 -- loopback
        assert answer.read().endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["ctrl-c", "term", "hup"])
def test_serve_and_judge_its_journal(case: Path, tmp_path: Path, mark: str, number: signal.Signals) -> None:
    with started("serve", "--journal", "my journal", cwd=tmp_path, mark=mark) as server:
        assert server.stdout is not None
        first = server.stdout.readline()
        found = re.fullmatch(
            r"listening on (http://127\.0\.0\.1:\d+) \(model google/gemma-3-270m\); Ctrl-C ends it\n", first
        )
        assert found, first
        for k in range(16):
            _request(found[1], f"prompt number {k}")
        server.send_signal(number)
        rest = server.stdout.read()
        assert server.wait(DEADLINE_S) == 0
    assert "judge it: loadproof judge --case CASE --journal 'my journal'" in rest
    assert left_running(mark) == []

    (tmp_path / "claims.json").write_text('{"completed": 15, "ttft_s": {"mean": 0.5}}')
    before = sorted(tmp_path.rglob("*"))
    told = tell("judge", "--case", "small", "--journal", "my journal", "--claims", "claims.json", cwd=tmp_path)
    assert told.returncode == 1, told
    assert re.search(r"^ count\.requests +exactly the asked number +16 +16 +16 +exact +pass", told.stdout, re.MULTILINE)
    assert re.search(
        r"^ payload\.prompt_tokens .* fail", told.stdout, re.MULTILINE
    )  # their prompts are shorter than asked
    assert re.search(r"^ completed +15 requests +16 requests +-1 requests", told.stdout, re.MULTILINE)
    assert sorted(tmp_path.rglob("*")) == before
    [evidence] = set(re.findall(r"evidence (.*)$", told.stdout, re.MULTILINE))
    assert (tmp_path / evidence).is_file()


WAIT = """\
import pathlib, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN if len(sys.argv) > 2 else signal.SIG_DFL)
pathlib.Path(sys.argv[1], "up").touch()
while True: signal.pause()
"""


@pytest.mark.parametrize(
    "signals",
    [(signal.SIGINT,), (signal.SIGTERM,), (signal.SIGINT, signal.SIGINT)],
    ids=["ctrl-c", "term", "ctrl-c-twice"],
)
def test_interrupting_a_run(case: Path, tmp_path: Path, mark: str, signals: tuple[signal.Signals, ...]) -> None:
    tool = tmp_path / "tool.py"
    tool.write_text(f"#!{sys.executable}\n{WAIT}")
    tool.chmod(0o755)
    (case / "command.args").write_text("../tool.py\n{out}\n" + "deaf\n" * (len(signals) - 1))
    run = tmp_path / "out" / "small-command"
    with started("run", "small", "--tool", "command", "--out", "out", cwd=tmp_path, mark=mark) as process:
        until = time.monotonic() + DEADLINE_S
        while not (run / "tool" / "up").exists():
            assert process.poll() is None, process.stdout and process.stdout.read()
            assert time.monotonic() < until
            time.sleep(0.02)
        for number in signals:
            process.send_signal(number)
        assert process.wait(DEADLINE_S) == 128 + signals[0]
        assert process.stdout is not None
        told = process.stdout.read()
    assert f"loadproof: interrupted by {signals[0].name}; everything that was started has ended" in told
    assert left_running(mark) == []
    again = tell("judge", str(run), cwd=tmp_path)
    assert again.returncode == 3
    assert "broken: the run was interrupted" in again.stdout
