"""Where a run goes wrong: does it end as a clear error, or as a `broken` run that says what happened and opens?

And does judging it again never call it a pass.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from loadproof.absorber.profile import Profile
from loadproof.bench import Progress
from loadproof.errors import BrokenRun, Exit, UsageProblem
from loadproof.journal import read_journal
from loadproof.judging import judge_run
from loadproof.observing import observe
from loadproof.process import running
from loadproof.run_folder import RunFolder, write_json
from loadproof.verdict import Outcome
from tests.robustness.conftest import PRELUDE, MakeCase, MakeRun, absorbers_of, read_only

DEADLINE_S = 120
LINES = 200_000


def broken_again(run: Path, *says: str) -> str:
    """Judge it again, and return the same reason."""
    verdict = judge_run(run).verdict
    assert verdict.outcome is Outcome.BROKEN
    for words in says:
        assert words in verdict.reason
    return verdict.reason


CHATTY = f"""
for number in range({LINES}):
    os.write(1, b"%d says the output, and some more so that it fills any pipe many times\\n" % number)
    os.write(2, b"%d says the error, and some more so that it fills any pipe many times\\n" % number)
"""


def test_a_tool_that_never_stops_talking(make_case: MakeCase, run: MakeRun, tmp_path: Path) -> None:
    verdict = run(make_case(CHATTY + "sys.exit(7)")).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith("command ended with exit code 7 after ")
    lines = verdict.reason.splitlines()
    assert len(lines) == 1 + 2 * (1 + 20)  # each log under its name
    assert f"{LINES - 1} says the output" in lines[21]
    assert f"{LINES - 1} says the error" in lines[42]
    for name in ("stdout", "stderr"):  # nothing is lost, only not quoted
        assert (tmp_path / "out" / "wrong-command" / f"tool.{name}").read_bytes().count(b"\n") == LINES


def test_our_memory_does_not_grow_with_what_a_tool_says(tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss

    async def talk() -> int:
        argv = [sys.executable, "-S", "-c", f"import os{CHATTY}"]
        async with running(argv, log_dir=tmp_path, name="it", env={}) as process:
            await process.wait(DEADLINE_S)
            assert f"{LINES - 1} says the error" in process.tail()
        return process.stdout.stat().st_size + process.stderr.stat().st_size

    said = asyncio.run(talk())
    assert said > 25_000_000
    assert psutil.Process().memory_info().rss - before < said / 4


OUTLIVED = """
lock = os.open(OUT + "/lock", os.O_CREAT | os.O_RDWR)
import fcntl
fcntl.flock(lock, fcntl.LOCK_EX)
if not os.fork():
    os.setsid()
    if os.fork(): os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1000)
send()
"""


def test_children_that_outlive_the_tool_end_with_it(make_case: MakeCase, run: MakeRun, tmp_path: Path) -> None:
    judgement = run(make_case(OUTLIVED))
    assert judgement.verdict.outcome is not Outcome.BROKEN  # the tool itself did what it should
    with (tmp_path / "out" / "wrong-command" / "tool" / "lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # or else a daemon is alive


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_tool_that_is_killed(make_case: MakeCase, run: MakeRun, tmp_path: Path, number: signal.Signals) -> None:
    verdict = run(make_case(f"send()\nprint('last words', flush=True)\nos.kill(os.getpid(), {int(number)})")).verdict
    assert verdict.outcome is Outcome.BROKEN
    folder = tmp_path / "out" / "wrong-command"
    assert broken_again(folder, f"command was ended by {number.name} after ", "last words") == verdict.reason
    assert read_journal(folder / "journal").table.num_rows == 1


def killer_of_the_absorber(out: Path) -> Callable[[Progress], None]:
    """Kill it half a second after a request was seen: it has written by then that there is one."""
    looks = []

    def watch(progress: Progress) -> None:
        looks.append(progress.seen)
        if sum(map(bool, looks)) == 2:
            for process in absorbers_of(out):
                process.kill()

    return watch


def test_an_absorber_that_is_killed(make_case: MakeCase, run: MakeRun, tmp_path: Path) -> None:
    verdict = run(make_case("send()", ttft_s=30), watch=killer_of_the_absorber(tmp_path)).verdict
    assert verdict.outcome is Outcome.BROKEN
    folder = tmp_path / "out" / "wrong-command"
    assert broken_again(folder, "the absorber was ended by SIGKILL after ") == verdict.reason
    record = RunFolder(folder).read_record()
    assert record.tool_ended is not None
    assert record.tool_ended.stopped_because in {"", "was stopped because the absorber had ended"}
    assert [path.suffix for path in (folder / "journal").iterdir() if path.suffix != ".bin"] == [".parquet"]  # sealed
    assert read_journal(folder / "journal").table["how_ended"].to_pylist() == [None]


def test_an_absorber_that_is_killed_under_observation(tmp_path: Path) -> None:
    (tmp_path / "tool.py").write_text(f"{PRELUDE}send()")
    argv = [sys.executable, str(tmp_path / "tool.py"), "{base_url}", "{model}", "{out}"]
    watch = killer_of_the_absorber(tmp_path)
    with pytest.raises(BrokenRun, match="the absorber was ended by SIGKILL after "):
        asyncio.run(observe(argv, Profile(ttft_s=30), tmp_path / "out", seed=0, deadline_s=DEADLINE_S, watch=watch))
    assert read_journal(tmp_path / "out" / "journal").table["how_ended"].to_pylist() == [None]


FILL = """
with open(OUT + "/filler", "wb", buffering=0) as file:
    try:
        while True: file.write(bytes(1000))
    except OSError: pass
try:
    for number in range(1000): send(f"request {number} " + "x" * 1000)
except OSError: pass
time.sleep(1000)
"""


def test_a_disk_that_fills_up(make_case: MakeCase, run: MakeRun, small_disk: Path) -> None:
    case = make_case(FILL, requests=1000)
    folder = small_disk / "out" / "wrong-command"
    with pytest.raises(BrokenRun, match=r"run\.json: cannot be written: No space left on device; free some space"):
        run(case, out=small_disk / "out")
    (folder / "tool" / "filler").unlink()
    broken_again(folder, "the run did not come to its end")
    assert not list(folder.rglob("*.part"))


def test_a_disk_that_is_full_from_the_beginning(make_case: MakeCase, run: MakeRun, small_disk: Path) -> None:
    case = make_case("send()")
    with (small_disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_bsize)
    with pytest.raises(
        BrokenRun, match=r"cannot be written: No space left on device; free some space there, or choose"
    ):
        run(case, out=small_disk / "out")


def test_a_folder_that_is_read_only(make_case: MakeCase, run: MakeRun, small_disk: Path) -> None:
    read_only(small_disk)
    with pytest.raises(UsageProblem, match=r"cannot be made, because .* may not be written; choose"):
        run(make_case("send()"), out=small_disk / "out")


def test_a_folder_that_is_read_only_when_judged(make_case: MakeCase, run: MakeRun, small_disk: Path) -> None:
    folder = small_disk / "out" / "wrong-command"
    run(make_case("sys.exit(7)"), out=small_disk / "out")
    read_only(small_disk)
    with pytest.raises(BrokenRun, match=r"findings\.json: cannot be written: Read-only file system"):
        judge_run(folder)


def limited(limit: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))


def tell(case: Path, tmp_path: Path, limit: int) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "loadproof", "run", str(case), "--out", str(tmp_path / "out")]
    return subprocess.run(
        argv, capture_output=True, text=True, check=False, timeout=DEADLINE_S, preexec_fn=limited(limit)
    )


MANY = """
many = [connection() for _ in range(110)]
for each in many: each.connect()
for each in many: ask(each)
for each in many:
    assert each.getresponse().status == 200
    each.close()
"""


def test_without_descriptors_connections_wait_for_their_turn(make_case: MakeCase, tmp_path: Path) -> None:
    told = tell(make_case(MANY, requests=110, concurrency=32), tmp_path, 128)
    folder = tmp_path / "out" / "wrong-command"
    assert told.returncode in {Exit.CLEAN, Exit.FAIL, Exit.UNCLEAR}, told  # its concurrency is not what was asked
    assert (folder / "absorber.stderr").read_text() == ""
    table = read_journal(folder / "journal").table
    assert table["how_ended"].to_pylist() == ["complete"] * 110
    assert len(set(table["conn"].to_pylist())) == 110


def test_a_limit_that_is_too_low_is_told_before_anything_is_started(make_case: MakeCase, tmp_path: Path) -> None:
    told = tell(make_case("send()", concurrency=100), tmp_path, 128)
    assert told.returncode == Exit.USAGE
    assert "asks for 100 requests in flight at once, and a process may have 128 open files here (hard limit, " in (
        told.stderr
    )
    assert "Raise it, as root, with `ulimit -Hn 164`" in told.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "x"),
            "x: No space left on device; free some space there, or",
        ),
        (OSError(errno.EMFILE, "Too many open files"), "the run folder: Too many open files; raise the limit of open"),
        (shutil.Error([("a", "b", "[Errno 28] No space")]), "the case could not be copied: [Errno 28] No space"),
        (OSError(errno.EBADF, "Bad file descriptor"), "this is a defect of loadproof\nTraceback"),
    ],
)
def test_what_the_system_refuses_is_not_called_our_defect(
    make_case: MakeCase, run: MakeRun, monkeypatch: pytest.MonkeyPatch, error: OSError, says: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(shutil, "copytree", fails)
    verdict = run(make_case("send()")).verdict
    assert verdict.outcome is Outcome.BROKEN
    assert verdict.reason.startswith(says)


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(
        BrokenRun, match=r"run\.json: cannot be written: No such file or directory; choose another --out"
    ):
        write_json(tmp_path / "taken away" / "run.json", {})
