"""Where is a tool's own environment, is it whole, and who may make it?

Each tool is installed from its lock into a folder of the cache that is named after the lock's content, so a
changed lock is another environment. A marker, written last and by rename, says that the folder is whole;
without it the folder is removed and made again. A file lock beside the folder, which uv inherits, makes a
second installation wait for the first, even for a uv whose harness was killed.
Left out: how it is made (`installer`), removing old ones, and tools that are not on a package index.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import platform
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from loadproof.cache import cache_root
from loadproof.errors import UsageProblem
from loadproof.tools.installer import Installer, Say
from loadproof.tools.lockfile import PACKAGES, Package, ToolLock, read_lock

MARKER = "loadproof-whole.json"
SYNC_DEADLINE_S = 1800.0
_LOCK_POLL_S = 0.1
_SPARE_DISK = 1.25  # downloads are unpacked in uv's cache, then linked (or copied, if that is another disk)
_MIB = 1024 * 1024


class ToolRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of `loadproof tools`; `size_mb` is None where nothing is installed or it is a person's own build."""

    name: str
    version: str
    installed: bool
    where: str
    size_mb: int | None
    how: str


class _Whole(msgspec.Struct, frozen=True):
    """What the marker says: the environment's size, measured once when it was made."""

    size_mb: int


def environment_dir(lock: ToolLock) -> Path:
    """Return where the environment of `lock` is, or will be, for this machine's architecture."""
    name = f"{lock.tool}-{lock.version}-{lock.digest[:12]}-py{lock.python}-{platform.machine()}"
    return cache_root() / "tools" / name


def _whole(environment: Path) -> _Whole | None:
    """Return the marker, or None where an installation did not end, or the interpreter under it has gone since."""
    try:
        marker = msgspec.json.decode((environment / MARKER).read_bytes(), type=_Whole)
    except (OSError, msgspec.DecodeError):
        return None
    return marker if (environment / "bin" / "python").exists() else None


def executable_of(tool: str, program: str) -> Path | None:
    """Return the path of `program` in the tool's environment; None while that is not wholly installed."""
    environment = environment_dir(read_lock(tool))
    path = environment / "bin" / program
    return path if _whole(environment) and os.access(path, os.X_OK) else None


def own_build(variable: str) -> Path | None:
    """Return the absolute path that `variable` of the person's environment names; None if it is not set.

    Raises UsageProblem, naming the variable, unless that is an executable file.
    """
    value = os.environ.get(variable)
    if not value:
        return None
    path = Path(value).expanduser().absolute()
    advice = f"set {variable} to the path of the program itself, or unset it to use the pinned version"
    if not path.exists():
        raise UsageProblem(f"{variable}={value}: there is no such file; {advice}")
    if not path.is_file():
        raise UsageProblem(f"{variable}={value}: is not a file; {advice}")
    if not os.access(path, os.X_OK):
        raise UsageProblem(f"{variable}={value}: is not executable; `chmod +x` it; {advice}")
    return path


def tool_rows() -> list[ToolRow]:
    """Return a row for each tool with a lock; a wrong own build is told in its row, not raised."""
    return [_row(tool, package) for tool, package in PACKAGES.items()]


def _row(tool: str, package: Package) -> ToolRow:
    lock = read_lock(tool)
    environment = environment_dir(lock)
    whole, version = _whole(environment), lock.version
    installed, where, size_mb = whole is not None, str(environment) if whole else "", whole.size_mb if whole else None
    try:
        own = own_build(package.own_build)
    except UsageProblem as problem:
        installed, where, size_mb = False, str(problem), None
    else:
        if own is not None:
            installed, where, size_mb, version = True, f"{own} ({package.own_build})", None, "own build"
    how = f"loadproof tools sync {tool} (about {lock.size_mb} MB), or {package.own_build}=/path/of/{package.program}"
    return ToolRow(name=tool, version=version, installed=installed, where=where, size_mb=size_mb, how=how)


async def sync(tool: str, *, say: Say, deadline_s: float = SYNC_DEADLINE_S) -> Path:
    """Make the tool's environment unless it is whole, and return its folder; a person's own build is returned as it is.

    `say` gets whole lines of progress. Runs nothing and needs no network when there is nothing to make.
    `deadline_s` is for the installation; waiting for somebody else's is not counted.
    Raises UsageProblem (unknown tool, no uv, no such Python, disk too small) and BrokenRun (uv failed or took
    too long; with the tail of its log).
    """
    lock = read_lock(tool)
    variable = PACKAGES[tool].own_build
    if own := own_build(variable):
        say(f"{lock}: nothing to install, {variable} names {own}")
        return own
    environment = environment_dir(lock)
    if _whole(environment):
        say(f"{lock}: is installed in {environment}")
        return environment
    async with _alone(environment, lock, say) as lock_fd:
        if _whole(environment):
            say(f"{lock}: has been installed in {environment}")
            return environment
        if environment.exists():
            say(f"{lock}: an earlier installation did not end; removing what it left")
            await asyncio.to_thread(shutil.rmtree, environment)
        _check_disk(lock, environment.parent)
        await Installer(lock, environment, say=say, deadline_s=deadline_s, kept_fd=lock_fd).install()
        size_mb = await asyncio.to_thread(_size_mb, environment)
        _write_marker(environment, _Whole(size_mb))
    return environment


def _check_disk(lock: ToolLock, place: Path) -> None:
    free_mb = shutil.disk_usage(place).free // _MIB
    need_mb = int(lock.size_mb * _SPARE_DISK)
    if free_mb < need_mb:
        raise UsageProblem(
            f"{lock}: needs about {need_mb} MB in {place}, where {free_mb} MB are free; make room there, or set "
            f"LOADPROOF_CACHE to a folder on a larger disk, and try again"
        )


@asynccontextmanager
async def _alone(environment: Path, lock: ToolLock, say: Say) -> AsyncIterator[int]:
    """Hold the file lock beside `environment`; the loop stays free while another holds it."""
    environment.parent.mkdir(parents=True, exist_ok=True)
    with environment.with_name(f"{environment.name}.lock").open("w") as file:
        said = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not said:
                    said = True
                    say(f"{lock}: somebody else is installing it just now; waiting for that")
                await asyncio.sleep(_LOCK_POLL_S)
        yield file.fileno()


def _size_mb(folder: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*")) // _MIB


def _write_marker(environment: Path, whole: _Whole) -> None:
    unfinished = environment / f"{MARKER}.unfinished"
    unfinished.write_bytes(msgspec.json.encode(whole))
    unfinished.replace(environment / MARKER)
