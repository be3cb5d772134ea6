"""Is bad input told clearly, with exit 64 and nothing half done, and a run that breaks later told as broken?

Everything goes through the real command line. Processes are found by a variable of their environment.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

MARK = "LOADPROOF_TEST_MARK"

EXPECTED = """\
why: a test of bad input
absorber: {ttft_s: 0.0}
workload: {num_requests: 1, prompt_tokens: 8, max_tokens: 2, stream: false, ignore_eos: true}
load: {mode: concurrency, concurrency: 1}
deadline_s: 3
"""


def environment_of_tests() -> dict[str, str]:
    """Return ours without what a session demands of its tools."""
    return {name: value for name, value in os.environ.items() if name != "LOADPROOF_REQUIRE"}


@dataclass(frozen=True)
class Told:
    """How a command ended."""

    code: int
    out: str
    err: str


class Shell:
    """A working folder with the case `good`, and commands that run in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = uuid.uuid4().hex
        self.write("good/expected.yaml", EXPECTED)
        self.write("good/command.args", "true\n")

    def write(self, name: str, text: str, *, mode: int = 0o644) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def tool(self, script: str, *, case: str = "good", deadline_s: float = 3) -> None:
        """Make `script` (Python) the tool of the case."""
        self.write(f"{case}.py", f"#!{sys.executable}\n{script}", mode=0o755)
        self.write(f"{case}/command.args", f"../{case}.py\n{{base_url}}\n{{out}}\n")
        self.write(f"{case}/expected.yaml", EXPECTED.replace("deadline_s: 3", f"deadline_s: {deadline_s}"))

    def tell(self, *argv: str, **env: str) -> Told:
        """Run `loadproof argv`."""
        done = subprocess.run(
            [sys.executable, "-m", "loadproof", *argv], cwd=self.folder,
            env={**environment_of_tests(), MARK: self.mark, **env}, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip
        return Told(done.returncode, done.stdout, done.stderr)

    def listing(self) -> dict[str, bytes | None]:
        """Return every file with its content, every folder with None."""
        paths = sorted(self.folder.rglob("*"))
        return {str(path): path.read_bytes() if path.is_file() else None for path in paths}

    def left_running(self) -> list[list[str]]:
        """Return the command lines of all processes that a command of this shell left behind."""
        left = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark:
                    left.append(process.cmdline())
        return left


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "work"
    folder.mkdir()
    return Shell(folder)


@dataclass(frozen=True)
class Bad:
    """Something wrong on the command line or in a file, and what must be said about it."""

    name: str
    argv: str
    says: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)


def _expected(old: str, new: str) -> dict[str, str]:
    assert old in EXPECTED
    return {"good/expected.yaml": EXPECTED.replace(old, new)}


BAD = [
    Bad("unknown key", "run good", ("good/expected.yaml:3: ", "num_request", "did you mean 'num_requests'?"),
        _expected("num_requests", "num_request")),
    Bad("wrong type", "run good", ("good/expected.yaml:3: workload.prompt_tokens: expected a whole number",),
        _expected("prompt_tokens: 8", "prompt_tokens: many")),
    Bad("duplicate key", "run good", ("good/expected.yaml:6: why: is given twice, first on line 1; keep one",),
        {"good/expected.yaml": EXPECTED + "why: again\n"}),
    Bad("missing tool file", "run good --tool metronome", ("no metronome.args in good", "it has: command")),
    Bad("no such case", "run godo", ("godo: no such case folder", "did you mean 'good'?")),
    Bad("unknown tool", "run good --tool metronom", ("metronom: unknown tool", "did you mean 'metronome'?")),
    Bad("misspelt placeholder", "run good", ("good/command.args:3: nothing replaces {baseurl}; did you mean 'base_",),
        {"good/command.args": "sh\n-c\necho {baseurl}\n"}),
    Bad("tool without a file or an adapter", "run good --tool vllm", ("no vllm-bench.args in good", "it has: command")),
    Bad("out inside the case", "run good --out good/runs", ("good/runs: lies in the case good", "another --out")),
    Bad("run folder in use", "run good --out out", ("out/good-command: is not an empty folder", "another --out"),
        {"out/good-command/precious": "1"}),
    Bad("out is a file", "run good --out out", ("out/good-command: cannot be made", "is a file", "another --out"),
        {"out": "1"}),
    Bad("observe folder in use", "observe --out out -- true", ("out: is not an empty folder",), {"out/precious": "1"}),
    Bad("executable by path is not there", "run good", ("nothing.py: there is no such executable; check the path",),
        {"good/command.args": "../nothing.py\n"}),
    Bad("executable by name is not there", "run good", ("no-such-x: there is no such executable on PATH; install it",),
        {"good/command.args": "no-such-x\n"}),
    Bad("executable may not be executed", "run good", ("plain.py: is not executable; `chmod +x` it",),
        {"good/command.args": "../plain.py\n", "plain.py": "1"}),
    Bad("observe what is not there", "observe --out out -- ./nothing", ("nothing: there is no such executable",)),
    Bad("observe what may not be executed", "observe --out out -- ./plain", ("plain: is not executable; `chmod",),
        {"plain": "1"}),
    Bad("observe nothing", "observe --out out", ("Missing argument 'CMD", "Try `loadproof observe --help`")),
    Bad("own build is not there", "run good --tool inference-perf", ("LOADPROOF_INFERENCE_PERF=nothing: there is no",),
        {"good/inference-perf.yaml": "api: {}\n"}, {"LOADPROOF_INFERENCE_PERF": "nothing"}),
    Bad("own build may not be executed", "run good --tool inference-perf", ("is not executable; `chmod +x` it",),
        {"good/inference-perf.yaml": "api: {}\n", "plain": "1"}, {"LOADPROOF_INFERENCE_PERF": "plain"}),
    Bad("inference-perf.yaml is a list", "run good", ("good/inference-perf.yaml: must be a mapping",),
        {"good/inference-perf.yaml": "- 1\n"}),
    Bad("inference-perf.yaml is no YAML", "run good", ("good/inference-perf.yaml:2: a value is missing",),
        {"good/inference-perf.yaml": "server: [\n"}),
    Bad("inference-perf.yaml has no such letter", "run good", ("good/inference-perf.yaml:1: no character has",),
        {"good/inference-perf.yaml": 'server: "\\U11111111"\n'}),
    Bad("inference-perf.yaml is too deep", "run good", ("good/inference-perf.yaml:1: is nested",),
        {"good/inference-perf.yaml": "[" * 3000}),
    Bad("empty file of arguments", "run good", ("good/command.args: holds no argument; write one per line",),
        {"good/command.args": "# nothing\n"}),
    Bad("twice the same case", "run good good", ("good-command: is asked for twice",)),
    Bad("unknown option", "run good --tol metronome", ("No such option: --tol", "Try `loadproof run --help`")),
    Bad("unknown command", "jugde good", ("No such command 'jugde'", "Try `loadproof --help`")),
    Bad("wrong value", "run good --seed -1", ("Invalid value for '--seed'", "greater than or equal to 0")),
    Bad("unknown required name", "run good", ("LOADPROOF_REQUIRE: 'inference-pref' is unknown", "'inference-perf'"),
        env={"LOADPROOF_REQUIRE": "clear, inference-pref"}),
    Bad("unknown key in a profile", "serve --journal j --profile p.yaml", ("p.yaml:2: ttfts: unknown key", "'ttft_s'"),
        {"p.yaml": "seed: 1\nttfts: 1\n"}),
    Bad("no such profile", "observe --out out --profile p.yaml -- true", ("p.yaml: no such file",)),
    Bad("wrong flag of a profile", "serve --journal j --itl-s -1", ("--itl-s: must be at least 0, got -1",)),
    Bad("judge what is no run", "judge good", ("good: is not a run folder", "that `loadproof run` wrote")),
    Bad("judge what is not there", "judge nothing", ("nothing: there is no such folder",)),
    Bad("judge nothing", "judge", ("name run folders and nothing else, or both --case and --journal",)),
    Bad("judge half", "judge --case good", ("or both --case and --journal",)),
    Bad("judge both", "judge good --case good --journal j", ("name run folders and nothing else",)),
    Bad("judge a run with claims", "judge good --claims c.json", ("name run folders and nothing else",)),
    Bad("judge no journal", "judge --case good --journal j", ("there is no journal; name the folder that `loadproof",)),
    Bad("judge with no claims", "judge --case good --journal j --claims c.json", ("c.json: the claims cannot",)),
    Bad("judge with an unknown tool", "judge --case good --journal j --tool comand", ("did you mean 'command'?",)),
    Bad("allowance for an unknown check", "run good", ("payload.max_token'", "did you mean 'payload.max_tokens'?"),
        _expected("deadline_s", "tools: {command: {allowances: [{check: payload.max_token, because: x}]}}\ndeadline_s"),
        ),
    Bad("unusable cache", "run good --out out", ("(chosen by LOADPROOF_CACHE) cannot be used", "Set LOADPROOF_CACHE"),
        {"cache": "a file"}, {"LOADPROOF_CACHE": "cache"}),
    Bad("sync of an unknown tool", "tools sync inference-pref", ("inference-pref: is not a tool that can",)),
]  # fmt: skip


@dataclass(frozen=True)
class Aftermath:
    """What one bad command said and left."""

    told: Told
    before: dict[str, bytes | None]
    after: dict[str, bytes | None]
    left_running: list[list[str]]


def _aftermath(bad: Bad, folder: Path) -> Aftermath:
    shell = Shell(folder)
    for name, text in bad.files.items():
        shell.write(name, text)
    before = shell.listing()
    told = shell.tell(*bad.argv.split(), **bad.env)
    return Aftermath(told, before, shell.listing(), shell.left_running())


@pytest.fixture(scope="module")
def aftermaths(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Aftermath]]]:
    """Two at a time, because most of each command's time is Python's start; only those that are selected."""
    selected = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    wanted: list[Bad] = [params["bad"] for params in selected if "bad" in params]
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {bad.name: pool.submit(_aftermath, bad, tmp_path_factory.mktemp("work")) for bad in wanted}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.name.replace(" ", "-"))
def test_bad_input_is_told_and_nothing_is_begun(aftermaths: dict[str, Future[Aftermath]], bad: Bad) -> None:
    seen = aftermaths[bad.name].result()
    assert seen.told.code == 64, seen.told
    assert seen.told.out == ""
    assert "\nloadproof: " in f"\n{seen.told.err}"
    assert "Traceback" not in seen.told.err
    for words in bad.says:
        assert words in seen.told.err
    assert seen.after == seen.before
    assert seen.left_running == []


def test_port_in_use(shell: Shell) -> None:
    before = shell.listing()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = shell.tell("serve", "--port", str(port), "--journal", "journal")
    assert told.code == 64
    assert f"cannot listen on 127.0.0.1 port {port}: " in told.err
    assert "choose another --port (0 takes any free one)" in told.err
    assert shell.listing() == before
    assert shell.left_running() == []


def test_one_wrong_case_of_several_begins_none(shell: Shell) -> None:
    before = shell.listing()
    told = shell.tell("run", "good", "godo", "--out", "out")
    assert told.code == 64
    assert shell.listing() == before


SEND = """\
import json, sys, urllib.request
body = {"model": "google/gemma-3-270m", "prompt": "one two three", "max_tokens": 2, "ignore_eos": True}
request = urllib.request.Request(sys.argv[1] + "/v1/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
assert json.load(urllib.request.urlopen(request))["usage"]["completion_tokens"] == 2
"""
KILL_ABSORBER = """\
import psutil, signal
harness = psutil.Process().parents()[2]  # our two wardens are between us
[absorber] = [each for each in harness.children(recursive=True) if "loadproof.absorber" in each.cmdline()]
absorber.kill()
signal.pause()
"""
CHATTY = """\
import sys
line = "\\x1b[31mred\\x1b[0m " + "y" * 90 + "\\n"
for number in range(500):
    sys.stdout.write(line * 1000)
print("the last words")
sys.exit(9)
"""


@dataclass(frozen=True)
class Broken:
    """A tool that goes wrong, what is said of it, and the case's deadline in seconds."""

    name: str
    script: str
    says: tuple[str, ...]
    deadline_s: float = 60


BROKEN = [
    Broken("exits-at-once", "import sys\nprint('no such model')\nsys.exit(7)",
           ("command ended with exit code 7 after", "tool.stdout\n  no such model")),
    Broken("never-sends", "import os\nos.write(2, b'all is well')",
           ("command ended with exit code 0 after", "never sent a request to a generation path", "  all is well")),
    Broken("overruns", SEND + "import signal\nprint('waiting', flush=True)\nsignal.pause()",
           ("still running after its deadline of 2 s and was stopped", "  waiting"), deadline_s=2),
    Broken("ignores-TERM", "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: signal.pause()",
           ("still running after its deadline of 1 s and was stopped", "(its output is empty)"), deadline_s=1),
    Broken("absorber-is-killed", KILL_ABSORBER, ("the absorber was ended by SIGKILL after",), deadline_s=10_000),
    Broken("chatty", CHATTY, ("command ended with exit code 9", "  the last words", "  red yyy")),
    Broken("is-ended-by-a-signal", "import os\nos.kill(os.getpid(), 11)", ("command was ended by SIGSEGV after",)),
    Broken("orphan", "", ("orphan.py: cannot be started: the interpreter that its first line names is not there",)),
]  # fmt: skip


@dataclass(frozen=True)
class Wreck:
    """All the broken runs, made by one command and judged again by another."""

    shell: Shell
    told: Told
    again: Told
    verdicts: dict[str, bytes]  # as the runs left them; they are deleted before judging again
    left_running: list[list[str]]


@pytest.fixture(scope="module")
def wreck(tmp_path_factory: pytest.TempPathFactory) -> Wreck:
    shell = Shell(tmp_path_factory.mktemp("work"))
    for broken in BROKEN:
        shell.tool(broken.script, case=broken.name, deadline_s=broken.deadline_s)
    shell.write("orphan.py", "#!/no/such/interpreter\n", mode=0o755)
    told = shell.tell("run", *(broken.name for broken in BROKEN), "--out", "out")
    left, verdicts = shell.left_running(), {}
    for broken in BROKEN:
        path = shell.folder / "out" / f"{broken.name}-command" / "verdict.json"
        verdicts[broken.name] = path.read_bytes()
        path.unlink()
    again = shell.tell("judge", *(f"out/{broken.name}-command" for broken in BROKEN))
    return Wreck(shell, told, again, verdicts, left)


def test_broken_runs_end_with_3_and_leave_no_process(wreck: Wreck) -> None:
    assert wreck.told.code == 3, wreck.told
    assert "Traceback" not in wreck.told.out + wreck.told.err
    assert "\x1b" not in wreck.told.out
    assert wreck.told.out.count("BROKEN") == len(BROKEN)
    assert len(wreck.told.out) < 100_000  # of 50 MB
    assert wreck.left_running == []


def test_judged_again_they_are_broken_again(wreck: Wreck) -> None:
    assert wreck.again.code == 3, wreck.again
    for name, verdict in wreck.verdicts.items():
        assert (wreck.shell.folder / "out" / f"{name}-command" / "verdict.json").read_bytes() == verdict


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_what_breaks_after_the_start(wreck: Wreck, broken: Broken) -> None:
    run = wreck.shell.folder / "out" / f"{broken.name}-command"
    verdict = json.loads(wreck.verdicts[broken.name])
    assert verdict["outcome"] == "broken"
    for words in broken.says:
        assert words in verdict["reason"]
    assert f"{broken.name} x command: broken: {verdict['reason']}" in wreck.told.out
    assert {"run.json", "absorber.stderr", "tool.stdout", "tool.stderr", "case", "journal"} <= {
        path.name for path in run.iterdir()
    }


def test_a_killed_absorber_ends_the_tool_before_its_deadline(wreck: Wreck) -> None:
    record = json.loads((wreck.shell.folder / "out" / "absorber-is-killed-command" / "run.json").read_text())
    assert record["tool_ended"]["stopped_because"] == "was stopped because the absorber had ended"
    assert record["absorber_ended"]["exit_code"] == -9


def test_claims_that_cannot_be_read_cost_the_claims_and_not_the_judgement(shell: Shell) -> None:
    shell.tool(SEND + "open(sys.argv[2] + '/claims.json', 'w').write('{\"completd\": 1}')")
    told = shell.tell("run", "good", "--out", "out")
    run = shell.folder / "out" / "good-command"
    found = {one["check"]: one for one in json.loads((run / "findings.json").read_bytes())}
    assert found["count.requests"]["outcome"] == "pass", told
    assert found["claims.readable"]["outcome"] == "unsupported"
    assert "tool/claims.json: is not a claims file" in found["claims.readable"]["detail"]
    assert "completd" in told.out
    assert json.loads((run / "claims.json").read_bytes()) == []


def test_a_child_that_the_tool_leaves_behind_is_ended_too(shell: Shell) -> None:
    shell.tool(SEND + "import subprocess\nprint(subprocess.Popen(['sleep', '1000']).pid)")
    told = shell.tell("run", "good", "--out", "out")
    run = shell.folder / "out" / "good-command"
    assert json.loads((run / "verdict.json").read_text())["outcome"] != "broken", told
    child = int((run / "tool.stdout").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert shell.left_running() == []


def test_observe_a_script_whose_interpreter_is_not_there(shell: Shell) -> None:
    shell.write("orphan.py", "#!/no/such/interpreter\n", mode=0o755)
    observed = shell.tell("observe", "--out", "observed", "--", "./orphan.py")
    assert observed.code == 3
    assert "the interpreter that its first line names is not there" in observed.err
    assert shell.left_running() == []
