"""Does nothing outlive its warden, whatever the command does and whoever is killed, and is the command left as it is?

What is left is found by a lock that every descendant inherits with a descriptor: a file lock that can be taken means
that none holds it any more, whatever name, session, parent or environment it gave itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest

from loadproof import warden
from loadproof.errors import UsageProblem
from loadproof.process import Process, clean_environment, running, try_isolation

pytestmark = pytest.mark.asyncio

DEADLINE_S = 60.0

# Deaf to everything that can be ignored; daemons in sessions of their own, with no environment and another name.
STUBBORN = """\
import os, signal, sys, time
DAEMON = '''
import os, signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
os.setsid()
if os.fork(): os._exit(0)
os.setsid() if os.getsid(0) != os.getpid() else None
print(os.getpid(), flush=True)
time.sleep(1000)
'''
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)
for _ in range(3):
    if not os.fork():
        os.execve(sys.executable, ["kworker", "-S", "-E", "-c", DAEMON], {})
print("up", flush=True)
time.sleep(1000)
"""

type Start = Callable[..., AbstractAsyncContextManager[Process]]


class Lock:
    """A file lock that is given away by its descriptor."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def give_away(self) -> None:
        os.close(self.descriptor)

    def is_free(self) -> bool:
        with self._path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    return Lock(tmp_path / "lock")


@pytest.fixture
def start(tmp_path: Path, lock: Lock) -> Start:
    def python(script: str, **more: str) -> AbstractAsyncContextManager[Process]:
        return running([sys.executable, "-S", "-c", script], log_dir=tmp_path / "logs", name="it",
                       env=clean_environment({}), pass_fds=[lock.descriptor], **more)  # type: ignore[arg-type] # the rest is `isolate`  # fmt: skip

    return python


async def _lines(process: Process, count: int) -> list[str]:
    """Wait until that many whole lines are there; return them."""
    async with asyncio.timeout(DEADLINE_S):
        while process.stdout.read_text().count("\n") < count:  # noqa: ASYNC110 -- no event comes from another process
            await asyncio.sleep(0.01)
    return process.stdout.read_text().splitlines()


async def _until_free(lock: Lock) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not lock.is_free():  # noqa: ASYNC110 -- nobody tells when a lock is let go of
            await asyncio.sleep(0.01)


async def test_the_lock_finds_a_daemon(start: Start, lock: Lock) -> None:
    """The measure itself: it says "left" while they live."""
    async with start(STUBBORN) as process:
        lock.give_away()
        await _lines(process, 4)
        assert not lock.is_free()
        process.kill()
    assert lock.is_free()


@pytest.mark.parametrize("isolate", ["", "pid"])
@pytest.mark.parametrize("how", ["stop", "kill", "the command is killed"])
async def test_nothing_outlives_the_end(start: Start, lock: Lock, how: str, isolate: str) -> None:
    if isolate:
        await _isolation_or_skip()
    async with start(STUBBORN, isolate=isolate) as process:
        lock.give_away()
        await _lines(process, 4)
        if how == "stop":
            ended = await process.stop("enough", grace_s=0.05)
        elif how == "kill":
            process.kill()
            ended = await process.wait(DEADLINE_S)
        else:
            os.kill(process.pid, signal.SIGKILL)
            ended = await process.wait(DEADLINE_S)
        assert lock.is_free()
    assert ended.exit_code == -signal.SIGKILL
    assert ended.stopped_because == ("enough" if how == "stop" else "")


async def _isolation_or_skip() -> None:
    try:
        await try_isolation()
    except UsageProblem as problem:
        pytest.skip(str(problem))


@pytest.mark.parametrize("isolate", ["", "pid"])
@pytest.mark.parametrize("twin", ["outer", "inner"])
async def test_a_killed_warden_leaves_nothing_and_the_run_says_so(
    start: Start, lock: Lock, twin: str, isolate: str
) -> None:
    if isolate:
        await _isolation_or_skip()
    async with start(STUBBORN, isolate=isolate) as process:
        lock.give_away()
        await _lines(process, 4)
        inner, outer = psutil.Process(process.pid).parents()[:2]
        assert outer.pid == process._warden.pid
        (outer if twin == "outer" else inner).kill()
        ended = await process.wait(DEADLINE_S)
        assert lock.is_free()
    assert ended.exit_code == -signal.SIGKILL
    assert ended.says() == "was ended because its warden process had been killed"


@pytest.mark.parametrize("isolate", ["", "pid"])
async def test_a_harness_that_is_killed_leaves_nothing(tmp_path: Path, lock: Lock, isolate: str) -> None:
    if isolate:
        await _isolation_or_skip()
    harness = f"""
import asyncio, sys
from pathlib import Path
from loadproof.process import running
async def main():
    async with running([sys.executable, "-S", "-c", {STUBBORN!r}], log_dir=Path({str(tmp_path)!r}), name="it", env={{}},
                       pass_fds=[{lock.descriptor}], isolate={isolate!r}) as process:
        await process.wait(1000)
asyncio.run(main())
"""
    async with running([sys.executable, "-c", harness], log_dir=tmp_path, name="harness",
                       env=clean_environment({"PYTHONPATH": os.pathsep.join(sys.path)}),
                       pass_fds=[lock.descriptor]) as process:  # fmt: skip
        lock.give_away()
        async with asyncio.timeout(DEADLINE_S):
            log = tmp_path / "it.stdout"
            while not log.exists() or log.read_text().count("\n") < 4:  # noqa: ASYNC110 -- as above
                await asyncio.sleep(0.01)
        wardens = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGKILL)
        if isolate:  # and both wardens in the same breath
            for warden in wardens[:2]:
                warden.kill()
            await _until_free(lock)
    await _until_free(lock)


COMET = """\
import os, time
print("up", flush=True)
for _ in range(200_000):
    if os.fork(): os._exit(0)
    os.setsid()
"""
BOMB = """\
import os, time
print("up", flush=True)
for _ in range(9): os.fork()
time.sleep(1000)
"""


@pytest.mark.parametrize("script", [COMET, BOMB], ids=["comet", "bomb"])
async def test_forking_is_no_escape(start: Start, lock: Lock, script: str) -> None:
    """A process that exists only until its child does, each in a session of its own; and one that doubles."""
    async with start(f"import os\nif os.fork(): os.read(0, 1); __import__('time').sleep(1000)\n{script}") as process:
        lock.give_away()
        await _lines(process, 1)
        process.kill()
        await process.wait(DEADLINE_S)
        assert lock.is_free()


async def test_orphans_are_reaped_while_the_command_runs(start: Start) -> None:
    daemon = "if not os.fork():\n  os.fork()\n  os._exit(0)\n"
    async with start(f"import os, time\n{daemon}os.wait()\nprint('up', flush=True)\ntime.sleep(1000)") as process:
        await _lines(process, 1)
        [inner] = psutil.Process(process._warden.pid).children()
        async with asyncio.timeout(DEADLINE_S):
            while len(inner.children()) > 1:  # noqa: ASYNC110 -- the warden tells nobody
                await asyncio.sleep(0.05)
        assert [child.pid for child in inner.children()] == [process.pid]


LOOK = """\
import os, signal, sys
status = open("/proc/self/status").read()
ignored = int([line.split()[1] for line in status.splitlines() if line.startswith("SigIgn")][0], 16)
blocked = int([line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")][0], 16)
print(sorted(os.listdir("/proc/self/fd")), os.readlink("/proc/self/fd/0"), dict(os.environ), os.getcwd(),
      os.getsid(0) == os.getpid(), ignored & ~(1 << 12 | 1 << 24), blocked)
"""


async def test_the_command_gets_what_it_was_given_and_no_more(tmp_path: Path) -> None:
    reading, kept = os.pipe()
    try:
        env = {"A": "", "B": "x=y\n", "ODD": "\udcff"}
        async with running([str(shutil.which("env")), "-0"], log_dir=tmp_path, name="env", env=env) as process:
            await process.wait(DEADLINE_S)
        assert process.stdout.read_bytes() == b"A=\0B=x=y\n\0ODD=\xff\0"
        script = [sys.executable, "-I", "-S", "-c", LOOK, "", "two\nlines", "\udcff"]
        async with running(script, log_dir=tmp_path, name="it", env={}, pass_fds=[kept], cwd=tmp_path) as process:
            ended = await process.wait(DEADLINE_S)
        assert ended.argv == script
        descriptors = sorted(["0", "1", "2", "3", str(kept)])  # 3 is the listing itself
        said = f"{descriptors} /dev/null {{'LC_CTYPE': 'C.UTF-8'}} {tmp_path} True 0 0\n"  # Python sets that for itself
        assert process.stdout.read_text() == said
    finally:
        os.close(reading)
        os.close(kept)


async def test_a_pipe_ends_with_the_command_and_not_with_its_warden(tmp_path: Path) -> None:
    """Both wardens have it at first; while they live on, its end is still the command's."""
    reading, theirs = os.pipe()
    script = "import os, time\nos.write(1, b'word')\nos.close(1)\ntime.sleep(1000)"
    async with running([sys.executable, "-S", "-c", script], log_dir=tmp_path, name="it", env={}, stdout_fd=theirs):
        os.close(theirs)
        with os.fdopen(reading, "rb") as file:
            assert await asyncio.wait_for(asyncio.to_thread(file.read), DEADLINE_S) == b"word"


async def test_its_end_is_stamped_when_it_ends_not_when_all_is_gone(start: Start) -> None:
    script = "import os, time\nif os.fork(): print(time.monotonic_ns(), flush=True); os._exit(0)\ntime.sleep(1000)"
    async with start(script) as process:
        ended = await process.wait(DEADLINE_S)
    last = int(process.stdout.read_text())
    assert ended.started_ns < last < ended.ended_ns < time.monotonic_ns()


MARK = "a mark of its own"


async def test_a_search_by_name_finds_the_command_alone(start: Start) -> None:
    async with start(f"{MARK!r}; import time; time.sleep(1000)") as process:
        found = [each.pid for each in psutil.process_iter(["cmdline"]) if MARK in " ".join(each.info["cmdline"] or ())]
    assert found == [process.pid]


async def test_cores(tmp_path: Path) -> None:
    one_core = max(os.sched_getaffinity(0))
    script = "import os; print(os.sched_getaffinity(0))"
    async with running([sys.executable, "-c", script], log_dir=tmp_path, name="it", env={}, cpus=[one_core]) as process:
        await process.wait(DEADLINE_S)
    assert process.stdout.read_text() == f"{{{one_core}}}\n"


async def test_cores_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="cannot be started with the isolation or the cores asked for: Invalid arg"):
        async with running([sys.executable], log_dir=tmp_path, name="it", env={}, cpus=[1023]):
            pass


async def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="absent: cannot be entered: No such file or directory"):
        async with running([sys.executable], log_dir=tmp_path, name="it", env={}, cwd=tmp_path / "absent"):
            pass


async def test_an_isolated_command_sees_itself_alone(tmp_path: Path) -> None:
    await _isolation_or_skip()
    script = (
        "import os, time; seen = sorted(int(name) for name in os.listdir('/proc') if name.isdigit()); "
        "print(os.getpid(), seen, flush=True); time.sleep(1000)"
    )
    argv = [sys.executable, "-S", "-c", script]
    async with running(argv, log_dir=tmp_path, name="it", env={}, isolate="pid") as process:
        [said] = await _lines(process, 1)
        assert psutil.Process(process.pid).cmdline() == argv  # its pid as we see it
    assert said == "2 [1, 2]"


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A warden on a system that allows no namespace."""
    path, source = tmp_path / "warden.py", Path(warden.__file__).read_text()
    changed = source.replace("os.unshare(os.CLONE_NEWPID)", "raise OSError(28, 'No space left on device')")
    assert changed != source
    path.write_text(changed)
    monkeypatch.setattr("loadproof.warden.__file__", str(path))


async def test_where_isolation_is_refused_it_says_so(refusing: None) -> None:
    with pytest.raises(UsageProblem, match=r"--isolate pid: this system does not allow it \(.*No space left on device"):
        await try_isolation()


async def test_a_pid_that_nobody_knows_is_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zero would be a signal's own group: what reads it must fail instead."""
    (tmp_path / "warden.py").write_text("raise SystemExit(1)")  # gone before it could start anything
    monkeypatch.setattr("loadproof.warden.__file__", str(tmp_path / "warden.py"))
    async with running([sys.executable], log_dir=tmp_path, name="it", env={}) as process:
        with pytest.raises(ProcessLookupError):
            _ = process.pid
        assert (await process.wait(DEADLINE_S)).says() == "was ended because its warden process had been killed"
