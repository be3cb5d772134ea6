"""Is an environment taken for whole only when it is, and is it made once, in the open, and never by half?

A small shell script stands in for uv: it records how it is called, and does as the test says.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.tools import environments, installer, lockfile
from loadproof.tools.environments import environment_dir, executable_of, own_build, sync, tool_rows
from loadproof.tools.lockfile import read_lock

TOOL = "inference-perf"
DEADLINE_S = 60.0
OWN = "LOADPROOF_INFERENCE_PERF"

FAKE_UV = """#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
echo $$ >> "$here/pids"
case "$1" in
--version) echo "uv 1.0.0 (a stand-in)" ;;
python) exit 2 ;;
venv)
    mkdir -p "$4/bin"
    ln -s /bin/sh "$4/bin/python"
    ;;
pip)
    env > "$here/environ"
    pwd > "$here/cwd"
    readlink /proc/$$/fd/* > "$here/descriptors"
    environment=$(dirname "$(dirname "$6")")
    touch "$here/started"
    INSTALL
    ;;
esac
"""
PROGRAM = 'echo "#!/bin/sh" > "$environment/bin/inference-perf"; chmod +x "$environment/bin/inference-perf"'
GATE = 'while [ ! -e "$here/go" ]; do sleep 0.01; done'
FOREVER = "sleep 1000"

IN_A_PROCESS = """
import asyncio
from loadproof.tools.environments import sync
asyncio.run(sync("inference-perf", say=lambda line: print(line, flush=True)))
"""


class FakeUv:
    """The stand-in's folder; `does` sets what its `pip install` does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.does(PROGRAM)

    def does(self, install: str) -> None:
        new = self.folder / "uv.new"
        new.write_text(FAKE_UV.replace("INSTALL", install))
        new.chmod(0o755)
        new.rename(self.folder / "uv")
        (self.folder / "started").unlink(missing_ok=True)

    def calls(self, first: str = "") -> list[list[str]]:
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line.split() for line in lines if line.startswith(first)]

    async def started(self) -> None:
        """Wait until the stand-in installs."""
        async with asyncio.timeout(DEADLINE_S):
            while not (self.folder / "started").exists():  # noqa: ASYNC110 -- another process's doing, no Event of ours
                await asyncio.sleep(0.005)

    def alive(self) -> list[str]:
        """Return the pids of all its calls that still run."""
        pids = (self.folder / "pids").read_text().split()
        assert pids
        return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


@pytest.fixture
def fake_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeUv:
    fake = FakeUv(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{fake.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOADPROOF_CACHE", str(tmp_path / "cache"))
    for name in (OWN, "LOADPROOF_FIT_ENVIRONMENT"):  # as the flake's shell sets them
        monkeypatch.delenv(name, raising=False)
    return fake


@pytest.fixture
def lock_for_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that puts a lock for another Python in the place of the real one."""

    def write(version: str) -> None:
        text = read_lock(TOOL).path.read_text().replace("# python: 3.13", f"# python: {version}", 1)
        (tmp_path / "locks").mkdir()
        (tmp_path / "locks" / f"{TOOL}.txt").write_text(text)
        monkeypatch.setattr(lockfile, "LOCKS", tmp_path / "locks")

    return write


def executable(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def here() -> Path:
    return environment_dir(read_lock(TOOL))


# --- making it


@pytest.mark.asyncio
async def test_it_is_made_once_and_then_taken_as_it_is(fake_uv: FakeUv) -> None:
    assert executable_of(TOOL, TOOL) is None
    lines: list[str] = []
    environment = await sync(TOOL, say=lines.append)
    assert environment == here()
    python = str(environment / "bin" / "python")
    install = ["pip", "install", "--require-hashes", "--compile-bytecode", "--python", python]
    made_by = [
        ["--version"],
        ["venv", "--python", sys.executable, str(environment)],
        [*install, "-r", str(read_lock(TOOL).path)],
    ]
    assert fake_uv.calls() == made_by
    assert executable_of(TOOL, TOOL) == environment / "bin" / TOOL
    assert executable_of(TOOL, "another-program") is None
    assert lines[0] == f"inference-perf 0.7.0: installing 78 packages, about 770 MB, into {environment}"
    assert await sync(TOOL, say=lines.append) == environment
    assert fake_uv.calls() == made_by
    assert lines[-1] == f"inference-perf 0.7.0: is installed in {environment}"


@pytest.mark.asyncio
async def test_uv_keeps_the_persons_settings_but_no_other_python(
    fake_uv: FakeUv, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_DEFAULT_INDEX", "somewhere")
    monkeypatch.setenv("SSL_CERT_FILE", "certificates.pem")
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "automatic")
    monkeypatch.setenv("VIRTUAL_ENV", "another")
    monkeypatch.setenv("PYTHONPATH", "another")
    await sync(TOOL, say=lambda _line: None)
    given = dict(line.split("=", 1) for line in (fake_uv.folder / "environ").read_text().splitlines() if "=" in line)
    assert given["UV_DEFAULT_INDEX"] == "somewhere"
    assert given["SSL_CERT_FILE"] == "certificates.pem"
    assert given["UV_PYTHON_DOWNLOADS"] == "never"
    assert not {"VIRTUAL_ENV", "PYTHONPATH"} & given.keys()
    assert (fake_uv.folder / "cwd").read_text().strip() == str(here().parent)
    # A uv that outlives us keeps the next sync out, because it holds the file lock too.
    assert f"{here()}.lock" in (fake_uv.folder / "descriptors").read_text().splitlines()


@pytest.mark.asyncio
async def test_progress_comes_in_whole_lines_while_uv_works(fake_uv: FakeUv, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "PROGRESS_INTERVAL_S", 0.01)
    fake_uv.does(f"{GATE}; {PROGRAM}")
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if "still installing" in line:
            (fake_uv.folder / "go").touch()

    await asyncio.wait_for(sync(TOOL, say=say), DEADLINE_S)
    assert "inference-perf 0.7.0: still installing, 0 s" in lines
    assert not [line for line in lines if "\n" in line or not line.startswith("inference-perf 0.7.0: ")]


@pytest.mark.asyncio
async def test_a_uv_that_is_found_and_does_not_run_is_passed_over(
    fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = executable(tmp_path / "shims" / "uv", "echo 'not in this version' >&2; exit 127")
    monkeypatch.setenv("PATH", f"{shim.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(installer, "_bundled_uv", lambda: str(fake_uv.folder / "uv"))
    await sync(TOOL, say=lambda _line: None)
    assert len(fake_uv.calls("pip install")) == 1
    shutil.rmtree(here())
    monkeypatch.setattr(installer, "_bundled_uv", lambda: None)
    with pytest.raises(UsageProblem, match="no uv that runs was found"):
        await sync(TOOL, say=lambda _line: None)


# --- whole or not


@pytest.mark.asyncio
async def test_what_was_installed_is_fitted_where_the_shell_says_how(
    fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = executable(tmp_path / "fitting", f'echo "$1" >> {tmp_path}/fitted; test ! -e {tmp_path}/wrong')
    monkeypatch.setenv("LOADPROOF_FIT_ENVIRONMENT", str(fitting))
    (tmp_path / "wrong").touch()
    with pytest.raises(BrokenRun, match="`fitting "):
        await sync(TOOL, say=lambda _line: None)
    assert executable_of(TOOL, TOOL) is None
    (tmp_path / "wrong").unlink()
    environment = await sync(TOOL, say=lambda _line: None)
    assert (tmp_path / "fitted").read_text().split() == [str(environment)] * 2
    assert len(fake_uv.calls("pip")) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("damage", ["no marker", "cut marker", "no interpreter"])
async def test_what_is_not_whole_is_not_used_and_is_made_anew(fake_uv: FakeUv, damage: str) -> None:
    environment = await sync(TOOL, say=lambda _line: None)
    marker = environment / environments.MARKER
    if damage == "no marker":
        marker.unlink()
    elif damage == "cut marker":
        marker.write_bytes(marker.read_bytes()[:-1])
    else:
        (environment / "bin" / "python").unlink()
    (environment / "left-over").touch()
    assert executable_of(TOOL, TOOL) is None
    assert not tool_rows()[0].installed
    await sync(TOOL, say=lambda _line: None)
    assert executable_of(TOOL, TOOL) is not None
    assert not (environment / "left-over").exists()
    assert len(fake_uv.calls("venv")) == 2


@pytest.mark.asyncio
async def test_another_lock_is_another_environment(
    fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = await sync(TOOL, say=lambda _line: None)
    (tmp_path / "locks").mkdir()
    (tmp_path / "locks" / f"{TOOL}.txt").write_text(read_lock(TOOL).path.read_text() + "# another\n")
    monkeypatch.setattr(lockfile, "LOCKS", tmp_path / "locks")
    assert executable_of(TOOL, TOOL) is None
    assert here() != environment


@pytest.mark.asyncio
async def test_interrupted_leaves_no_process_and_nothing_that_looks_whole(fake_uv: FakeUv) -> None:
    fake_uv.does(f'{PROGRAM}; touch "$environment/half"; {FOREVER}')
    task = asyncio.create_task(sync(TOOL, say=lambda _line: None))
    await fake_uv.started()
    assert len(fake_uv.alive()) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, DEADLINE_S)
    assert fake_uv.alive() == []
    assert executable_of(TOOL, TOOL) is None
    fake_uv.does(PROGRAM)
    lines: list[str] = []
    environment = await sync(TOOL, say=lines.append)
    assert executable_of(TOOL, TOOL) is not None
    assert not (environment / "half").exists()


# --- two at once


@pytest.mark.asyncio
async def test_two_tasks_at_once_make_it_once(fake_uv: FakeUv) -> None:
    lines: list[str] = []
    both = await asyncio.gather(sync(TOOL, say=lines.append), sync(TOOL, say=lines.append))
    assert set(both) == {here()}
    assert len(fake_uv.calls("venv")) == 1
    assert lines.count("inference-perf 0.7.0: somebody else is installing it just now; waiting for that") == 1


@pytest.mark.asyncio
async def test_two_processes_at_once_make_it_once(fake_uv: FakeUv) -> None:
    fake_uv.does(f"{GATE}; {PROGRAM}")
    argv = [sys.executable, "-c", IN_A_PROCESS]
    pipe = asyncio.subprocess.PIPE
    first = await asyncio.create_subprocess_exec(*argv, stdout=pipe)
    second = None
    try:
        await fake_uv.started()
        second = await asyncio.create_subprocess_exec(*argv, stdout=pipe)
        assert second.stdout is not None
        line = await asyncio.wait_for(second.stdout.readline(), DEADLINE_S)
        assert b"waiting for that" in line
    finally:
        (fake_uv.folder / "go").touch()
        said, _ = await asyncio.wait_for(first.communicate(), DEADLINE_S)
        said_second, _ = await asyncio.wait_for(second.communicate(), DEADLINE_S) if second is not None else (b"", b"")
    assert (first.returncode, second.returncode) == (0, 0)
    assert b"installed in" in said
    assert b"has been installed in" in said_second
    assert len(fake_uv.calls("venv")) == 1


# --- what goes wrong


@pytest.mark.asyncio
async def test_uv_that_fails_is_quoted_with_its_end(fake_uv: FakeUv) -> None:
    fake_uv.does("seq -f 'line %g' 1 100 >&2; exit 2")
    with pytest.raises(BrokenRun) as caught:
        await sync(TOOL, say=lambda _line: None)
    text = str(caught.value)
    assert text.startswith("inference-perf 0.7.0: could not be installed: `uv pip` ended with exit code 2")
    assert "  line 100\n" in text
    assert "  line 1\n" not in text
    assert str(here().parent / "logs" / f"{here().name}.install.stderr") in text
    assert "`loadproof tools sync inference-perf`" in text
    assert executable_of(TOOL, TOOL) is None


@pytest.mark.asyncio
async def test_uv_that_does_not_end_is_stopped(fake_uv: FakeUv) -> None:
    fake_uv.does(f"trap 'exit 0' TERM; {FOREVER} & wait")  # a clean exit is no success here
    with pytest.raises(BrokenRun, match="deadline"):
        await asyncio.wait_for(sync(TOOL, say=lambda _line: None, deadline_s=1.0), DEADLINE_S)
    assert executable_of(TOOL, TOOL) is None
    assert fake_uv.alive() == []


@pytest.mark.asyncio
async def test_a_lock_that_does_not_bring_the_program_is_noticed(fake_uv: FakeUv) -> None:
    fake_uv.does("true")
    with pytest.raises(BrokenRun, match=r"there is no .*/bin/inference-perf; the lock is wrong"):
        await sync(TOOL, say=lambda _line: None)
    assert not (here() / environments.MARKER).exists()


@pytest.mark.asyncio
async def test_a_disk_that_is_too_small_is_told_before_anything_is_fetched(
    fake_uv: FakeUv, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = int(read_lock(TOOL).size_mb * 1.25)
    usage = shutil.disk_usage("/")
    free = (needed - 1) * 1024**2
    monkeypatch.setattr(shutil, "disk_usage", lambda _place: usage._replace(free=free))
    with pytest.raises(UsageProblem, match=rf"needs about {needed} MB .* {needed - 1} MB are free; .*LOADPROOF_CACHE"):
        await sync(TOOL, say=lambda _line: None)
    assert fake_uv.calls() == []
    free += 1024**2
    assert await sync(TOOL, say=lambda _line: None) == here()


# --- another Python than ours


@pytest.mark.asyncio
async def test_pyenvs_versions_are_found_even_when_not_switched_on(
    fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lock_for_python: Callable[[str], None]
) -> None:
    lock_for_python("3.99")
    executable(fake_uv.folder / "python3.99", "echo 'pyenv: not in this version' >&2; exit 127")
    python = executable(tmp_path / "pyenv" / "versions" / "3.99.1" / "bin" / "python3.99", "echo 3.99")
    executable(tmp_path / "pyenv" / "versions" / "3.99.2" / "bin" / "python3.99", "exit 1")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    await sync(TOOL, say=lambda _line: None)
    assert fake_uv.calls("venv") == [["venv", "--python", str(python), str(here())]]
    assert "-py3.99-" in here().name


@pytest.mark.asyncio
async def test_a_python_that_is_nowhere_is_asked_for(fake_uv: FakeUv, lock_for_python: Callable[[str], None]) -> None:
    lock_for_python("3.99")
    with pytest.raises(UsageProblem, match=r"needs Python 3\.99; none was found .*pyenv install 3\.99"):
        await sync(TOOL, say=lambda _line: None)
    assert fake_uv.calls("python") == [["python", "find", "--no-python-downloads", "3.99"]]
    assert fake_uv.calls("venv") == []


# --- a person's own build, and the table


def test_own_build_is_none_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(OWN, raising=False)
    assert own_build(OWN) is None
    monkeypatch.setenv(OWN, "")
    assert own_build(OWN) is None


def test_own_build_is_an_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executable(tmp_path / "mine", "true")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(OWN, "mine")
    assert own_build(OWN) == tmp_path / "mine"


@pytest.mark.parametrize(
    ("value", "problem"),
    [("nothing", "there is no such file"), ("folder", "is not a file"), ("plain", "is not executable")],
)
def test_own_build_that_cannot_run_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, problem: str
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    monkeypatch.setenv(OWN, str(tmp_path / value))
    with pytest.raises(UsageProblem, match=rf"^{OWN}=.*/{value}: {problem}"):
        own_build(OWN)
    row = tool_rows()[0]
    assert not row.installed
    assert problem in row.where


@pytest.mark.asyncio
async def test_with_an_own_build_there_is_nothing_to_install(
    fake_uv: FakeUv, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = executable(tmp_path / "mine", "true")
    monkeypatch.setenv(OWN, str(mine))
    lines: list[str] = []
    assert await sync(TOOL, say=lines.append) == mine
    assert lines == [f"inference-perf 0.7.0: nothing to install, {OWN} names {mine}"]
    assert fake_uv.calls() == []
    assert not here().exists()


@pytest.mark.asyncio
async def test_rows_tell_what_is_there_and_how_to_get_it(fake_uv: FakeUv, monkeypatch: pytest.MonkeyPatch) -> None:
    [row] = tool_rows()
    assert (row.name, row.version, row.installed, row.where, row.size_mb) == (TOOL, "0.7.0", False, "", None)
    assert row.how.startswith("loadproof tools sync inference-perf (about 770 MB), or LOADPROOF_INFERENCE_PERF=")
    fake_uv.does(f'{PROGRAM}; head -c 3200000 /dev/zero > "$environment/big"')
    environment = await sync(TOOL, say=lambda _line: None)
    [row] = tool_rows()
    assert (row.installed, row.where, row.size_mb) == (True, str(environment), 3)
    monkeypatch.setenv(OWN, str(environment / "bin" / TOOL))
    [row] = tool_rows()
    assert (row.installed, row.size_mb) == (True, None)
    assert row.where == f"{environment}/bin/{TOOL} ({OWN})"
