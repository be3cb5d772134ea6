"""Does a program that we start always end, with all that it started, measured, reaped and its output kept?"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import psutil
import pytest

from loadproof import process_tree
from loadproof.ended import Ended
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.process import Process, clean_environment, run_to_end, running, tail

pytestmark = pytest.mark.asyncio

DEADLINE_S = 60.0
FOREVER = "import signal\nprint('up', flush=True)\nwhile True: signal.pause()"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER

type Start = Callable[[str], AbstractAsyncContextManager[Process]]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def python(script: str) -> AbstractAsyncContextManager[Process]:
        return running([sys.executable, "-c", script], log_dir=tmp_path / "logs", name="it", env=clean_environment({}))

    return python


async def _up(process: Process) -> None:
    """Wait until the program has written its first line."""
    async with asyncio.timeout(DEADLINE_S):
        while not process.stdout.read_text().endswith("\n"):  # noqa: ASYNC110 -- no event comes from another process
            await asyncio.sleep(0.01)


async def _grown(process: Process) -> None:
    """Wait until 100 MB of memory have been seen."""
    async with asyncio.timeout(DEADLINE_S):
        while process._peak_bytes < 100_000_000:  # noqa: ASYNC110 -- the sampler tells nobody
            await asyncio.sleep(0.05)


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _gone(pid: int) -> bool:
    return not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("script", "code", "says"),
    [
        ("pass", 0, "ended with exit code 0 after "),
        ("raise SystemExit(7)", 7, "ended with exit code 7 after "),
        ("import os; os.kill(os.getpid(), 9)", -9, "was ended by SIGKILL after "),
        ("import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 1)", -35, "was ended by signal 35 after "),
    ],
)
async def test_how_it_ended(start: Start, script: str, code: int, says: str) -> None:
    async with start(script) as process:
        ended = await process.wait(DEADLINE_S)
    assert ended.exit_code == code
    assert ended.stopped_because == ""
    assert ended.says().startswith(says)
    assert ended.argv == [sys.executable, "-c", script]
    assert ended.started_ns < ended.ended_ns
    with pytest.raises(ChildProcessError):  # reaped: no zombie of ours is there to wait for
        os.waitpid(process._warden.pid, os.WNOHANG)  # noqa: ASYNC222 -- WNOHANG returns at once
    assert not psutil.pid_exists(process.pid)


async def test_deadline(start: Start) -> None:
    async with start(FOREVER) as process:
        await _up(process)
        ended = await process.wait(0.01)
    assert ended.exit_code == -signal.SIGTERM
    assert ended.says() == "was still running after its deadline of 0.01 s and was stopped"


async def test_a_program_that_ignores_term_is_killed(start: Start) -> None:
    async with start(DEAF) as process:
        await _up(process)
        ended = await process.stop("enough", grace_s=0.05)
    assert ended.exit_code == -signal.SIGKILL
    assert ended.says() == "enough"


async def test_a_program_that_tidies_up_on_term_has_the_time(start: Start) -> None:
    script = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n" + FOREVER
    async with start(script) as process:
        await _up(process)
        ended = await process.stop("enough", grace_s=DEADLINE_S)
    assert ended.exit_code == 5


async def test_why_it_was_stopped_is_not_said_of_one_that_had_ended(start: Start) -> None:
    async with start("pass") as process:
        await process.exited()
        ended = await process.stop("too late")
    assert ended.stopped_because == ""
    assert ended.exit_code == 0


async def test_stopping_twice_and_at_once_gives_the_same_end(start: Start) -> None:
    async with start(FOREVER) as process:
        await _up(process)
        first, second = await asyncio.gather(process.stop("a"), process.stop("a"))
        third = await process.wait(DEADLINE_S)
    assert first == second == third


@pytest.mark.parametrize("leader", ["", DEAF], ids=["leader-ends", "leader-is-stopped"])
async def test_children_in_the_group_end_too(start: Start, leader: str) -> None:
    child = f"import subprocess, sys\nprint(subprocess.Popen([sys.executable, '-c', {DEAF!r}]).pid, flush=True)\n"
    async with start(child + leader) as process:
        await _up(process)
        ended = await (process.stop("enough", grace_s=0.05) if leader else process.wait(DEADLINE_S))
    assert ended.exit_code == (-signal.SIGKILL if leader else 0)
    assert _gone(int(process.stdout.read_text().split()[0]))


async def test_leaving_the_block_by_an_exception_ends_it(start: Start) -> None:
    process: Process | None = None
    with pytest.raises(ZeroDivisionError):
        async with start(FOREVER) as process:
            raise ZeroDivisionError
    assert process is not None
    assert _gone(process.pid)


async def _block(start: Start, inside: asyncio.Queue[Process]) -> None:
    async with start(DEAF) as process:
        await _up(process)
        inside.put_nowait(process)
        await process.wait(DEADLINE_S)


@pytest.mark.parametrize("times", [2, 5])
async def test_impatience_ends_it_at_once(start: Start, times: int) -> None:
    """Each cancellation reaches the task on its own; the second one already takes the place of the grace."""
    inside: asyncio.Queue[Process] = asyncio.Queue()
    task = asyncio.create_task(_block(start, inside))
    process = await inside.get()
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _gone(process.pid)
    assert (await process.stop("late")).exit_code == -signal.SIGKILL


async def test_cancellation_in_the_block_ends_it(start: Start) -> None:
    script = "import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n" + FOREVER
    inside: asyncio.Queue[Process] = asyncio.Queue()

    async def block() -> None:
        async with start(script) as process:
            await _up(process)
            inside.put_nowait(process)
            await process.wait(DEADLINE_S)

    task = asyncio.create_task(block())
    process = await inside.get()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = await process.stop("late")
    assert ended.exit_code == 5
    assert ended.stopped_because == "was stopped by the harness"


async def test_no_descriptor_and_no_task_is_left(start: Start) -> None:
    async def once() -> None:
        async with start("pass") as process:
            await process.wait(DEADLINE_S)

    await once()  # whatever the loop opens for its first child
    descriptors, tasks = _descriptors(), asyncio.all_tasks()
    for _ in range(5):
        await once()
    await asyncio.sleep(0)
    assert _descriptors() == descriptors
    assert asyncio.all_tasks() == tasks


async def test_what_outlives_kill_is_told(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("loadproof.process.KILL_WAIT_S", 0.02)
    held: list[tuple[Process, psutil.Process]] = []

    async def hold() -> None:
        async with start(FOREVER) as process:
            await _up(process)
            [inner] = psutil.Process(process._warden.pid).children()
            inner.suspend()  # stands for a command that waits for a device: nobody reports its end
            held.append((process, inner))
            await process.stop("enough", grace_s=0.02)

    with pytest.raises(BrokenRun, match=r"outlived SIGKILL by 0\.02 s; look at `ps"):
        await hold()
    [(process, inner)] = held
    inner.resume()
    process._warden._popen.wait(DEADLINE_S)
    assert _gone(process.pid)


async def test_use_of_processor_and_memory(start: Start) -> None:
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    hold = "x = b'x' * 100_000_000\nprint('held', flush=True)\n"
    script = f"import signal, subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r}])\n{hold}signal.pause()"
    async with start(script) as process:
        await _up(process)
        await _grown(process)
        ended = await process.stop("seen")
    assert 0.5 <= ended.usage.cpu_s < 10
    assert 100_000_000 <= ended.usage.peak_memory_bytes < 400_000_000


async def test_memory_is_that_of_the_children_too(start: Start) -> None:
    hold = "import signal\nx = b'x' * 100_000_000\nprint('held', flush=True)\nsignal.pause()"
    async with start(f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {hold!r}])") as process:
        await _up(process)
        assert process_tree.memory_below_bytes(process._warden.pid) >= 100_000_000
    assert process_tree.memory_below_bytes(process._warden.pid) == 0


DAEMON = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"


async def test_what_daemons_use_is_counted_too(start: Start) -> None:
    burn = (
        DAEMON + "import time\nx = b'x' * 100_000_000\nwhile time.process_time() < 0.5: pass\nprint('up', flush=True)"
    )
    script = (
        f"import signal, subprocess, sys\nsubprocess.run([sys.executable, '-c', {burn!r} + '; time.sleep(1000)'])\n"
    )
    async with start(script + "while True: signal.pause()") as process:
        await _up(process)
        await _grown(process)
        ended = await process.stop("seen")
    assert 0.5 <= ended.usage.cpu_s < 10


async def test_the_wardens_own_use_is_not_counted(start: Start) -> None:
    async with start("import os\nos.execvp('sleep', ['sleep', '1000'])") as process:
        async with asyncio.timeout(DEADLINE_S):
            while psutil.Process(process.pid).name() != "sleep":  # noqa: ASYNC110 -- no event comes from an exec
                await asyncio.sleep(0.01)
        wardens = sum(each.memory_info().rss for each in psutil.Process(process.pid).parents()[:2])
        assert process_tree.memory_below_bytes(process._warden.pid) < 2_000_000 < wardens


async def test_logs_and_standard_input(start: Start) -> None:
    async with start("import sys\nprint(repr(sys.stdin.read()))\nsys.stderr.write('wrong')") as process:
        await process.wait(DEADLINE_S)
    assert process.stdout.read_text() == "''\n"
    assert process.stderr.read_text() == "wrong"
    assert process.tail() == (
        f"--- last lines of {process.stdout}\n  ''\n--- last lines of {process.stderr}\n  wrong"
    )  # fmt: skip


async def test_tail_of_odd_logs(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert tail(log) == ""
    log.write_bytes(b"")
    assert tail(log) == ""
    log.write_text("".join(f"line {k}\n" for k in range(100_000)))
    assert tail(log, lines=2) == f"--- last lines of {log}\n  line 99998\n  line 99999"
    log.write_bytes(b"\x1b[1;31mred\x1b[0m\xff\x07\ttab \xc3\xa9\n" + b"x" * 1_000_000)
    first, second, third = tail(log, lines=2).splitlines()[0], *tail(log, lines=2).splitlines()[-1:], len(tail(log))
    assert first == f"--- last lines of {log}"
    assert second == f"  {'x' * 500} ..."
    assert third < 1000
    log.write_bytes(b"\x1b[1;31mred\x1b[0m\xff\x07\ttab \xc3\xa9\rover")
    assert tail(log).splitlines()[1:] == ["  red\ufffd\ttab é", "  over"]


async def test_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_HOME", "HTTPS_PROXY", "no_proxy", "PYTHONPATH", "VIRTUAL_ENV", "UV_INDEX", "COV_CORE", "KEPT"):
        monkeypatch.setenv(name, "x")
    made = clean_environment({"HF_HOME": "ours"})
    assert made["KEPT"] == "x"
    assert made["HF_HOME"] == "ours"
    assert made["PATH"] == os.environ["PATH"]
    assert made.keys().isdisjoint({"HTTPS_PROXY", "no_proxy", "PYTHONPATH", "VIRTUAL_ENV", "UV_INDEX", "COV_CORE"})
    script = f"import os, sys; sys.exit(dict(os.environ).get('KEPT') != 'x' or os.getcwd() != {str(tmp_path)!r})"
    ended = await run_to_end([sys.executable, "-c", script], log_dir=tmp_path / "logs", name="it", env=made,
                             deadline_s=DEADLINE_S, cwd=tmp_path)  # fmt: skip
    assert ended.exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "mode", "says"),
    [
        ("absent", None, 0, "there is no such executable; check the path, or install it first"),
        ("plain", "1", 0o644, "is not executable; `chmod +x` it"),
        ("orphan", "#!/no/such/interpreter\n", 0o755, "the interpreter that its first line names is not there"),
        ("data", "\0\0\0\0", 0o755, "is not a program for this machine"),
    ],
)
async def test_what_cannot_be_started(tmp_path: Path, name: str, content: str | None, mode: int, says: str) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_text(content)
        path.chmod(mode)
    before = _descriptors()
    with pytest.raises(UsageProblem, match=f"{name}: .*{re.escape(says)}"):
        await run_to_end([str(path)], log_dir=tmp_path / "logs", name="it", env={}, deadline_s=1)
    assert _descriptors() == before


async def test_an_end_is_a_value(start: Start) -> None:
    async with start("pass") as process:
        ended = await process.wait(DEADLINE_S)
    assert isinstance(ended, Ended)
    assert ended.wall_s == (ended.ended_ns - ended.started_ns) / 1e9
