"""What is wrong with a list of wheels that Nix fetches, beside the lock that it was made of?

The locks are read here once more, not as make_wheel_lists.py reads them. Compared are names, versions, hashes, file
names where the lock has them, and tags for the system and its Python. Left out: whether the address that fetchPypi
forms of a wheel leads to its file; only an open network can tell.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

from packaging.markers import Marker
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import Version

from tests.environment.workshop import ROOT

SCRIPT = ROOT / "nix" / "make_wheel_lists.py"
MACHINES = {"x86_64-linux": "x86_64", "aarch64-linux": "aarch64"}
GLIBC_MINOR = 40  # of nixos-25.11
ARGUMENTS = ["pname", "version", "dist", "python", "abi", "platform", "hash"]  # of nixpkgs' fetchPypi

Wheel = dict[str, str]
Wheels = dict[str, list[Wheel]]


class Locked(NamedTuple):
    """A package of a lock; `files` has each file's name, or nothing where the lock has none, by its hash for Nix."""

    version: str
    files: dict[str, str]
    marker: str


def for_nix(digest: str) -> str:
    """Return a sha256 in hex as Nix writes it."""
    return f"sha256-{base64.b64encode(bytes.fromhex(digest)).decode()}"


@functools.cache
def pdm_lock(in_group: str, *but_in: str) -> dict[str, Locked]:
    found = {}
    for package in tomllib.loads((ROOT / "pdm.lock").read_text())["package"]:
        groups = set(package["groups"])
        if in_group in groups and not groups & set(but_in):
            files = {for_nix(file["hash"].removeprefix("sha256:")): file["file"] for file in package["files"]}
            found[str(canonicalize_name(package["name"]))] = Locked(
                package["version"], files, package.get("marker", "")
            )
    return found


@functools.cache
def tool_lock() -> dict[str, Locked]:
    text = (ROOT / "e2e/loadproof/tools/locks/inference-perf.txt").read_text()
    package = re.compile(
        r"^([\w.-]+)==(\S+)(?: ; (.+))? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE
    )
    rest = package.sub("", text)
    assert not [line for line in rest.splitlines() if not line.startswith("#")], "a line that was not understood"
    found = {}
    for name, version, marker, hashes in package.findall(text):
        files = dict.fromkeys(map(for_nix, re.findall("[0-9a-f]{64}", hashes)), "")
        found[str(canonicalize_name(name))] = Locked(version, files, marker)
    return found


LOCKS: dict[str, Callable[[], dict[str, Locked]]] = {
    "inference-perf-wheels.json": tool_lock,
    "loadproof-wheels.json": lambda: pdm_lock("default"),
    "loadproof-test-wheels.json": lambda: pdm_lock("dev", "default"),
}


def wheels_in(file: str) -> Wheels:
    return dict(json.loads((ROOT / "nix" / file).read_text()))


@functools.cache
def maker() -> ModuleType:
    """Return make_wheel_lists.py, a script in no package, as a module."""
    spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the names in annotations
    spec.loader.exec_module(module)
    return module


def problems_of(wheels: Wheels, lock: dict[str, Locked]) -> list[str]:
    """Return what is wrong with a list, as lines; nothing when each system gets what the lock means there."""
    if wheels.keys() != {"any", *MACHINES}:
        return [f"lists for {sorted(wheels)}"]
    return [problem for system in MACHINES for problem in problems_on(system, wheels["any"] + wheels[system], lock)]


def problems_on(system: str, wheels: list[Wheel], lock: dict[str, Locked]) -> Iterator[str]:
    machine = MACHINES[system]
    here = {"platform_machine": machine, "python_version": "3.13", "python_full_version": "3.13.0",
            "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "implementation_name": "cpython",
            "platform_python_implementation": "CPython"}  # fmt: skip
    missing = {name for name, locked in lock.items() if not locked.marker or Marker(locked.marker).evaluate(here)}
    for wheel in wheels:
        name, *problems = read_wheel(wheel, lock, fitting(machine))
        if name and name not in missing:
            problems.append("is twice in the list, or not wanted")
        missing.discard(name)
        yield from (f"{system}: {wheel.get('pname')}: {problem}" for problem in problems)
    yield from (f"{system}: {name}: is missing" for name in sorted(missing))


def read_wheel(wheel: Wheel, lock: dict[str, Locked], tags: set[Tag]) -> list[str]:
    """Return the name of a wheel's package in the lock, or nothing, and then what is wrong with the wheel."""
    if list(wheel) != ARGUMENTS or "://" in "".join(wheel.values()):
        return ["", f"has {wheel}"]
    file = "-".join(wheel[part] for part in ("pname", "version", "python", "abi", "platform")) + ".whl"
    try:
        name, version, build, its_tags = parse_wheel_filename(file)
    except InvalidWheelFilename as problem:
        return ["", str(problem)]
    if name not in lock:
        return ["", "is not in the lock"]
    locked = lock[name]
    its_file = locked.files.get(wheel["hash"])
    right = {
        "has a build number": not build,
        f"is not {locked.version}": version == Version(locked.version),
        "has another hash than the lock": its_file is not None,
        f"is not the file of that hash, {its_file}": its_file in {None, "", file},
        "is for another system or Python": bool(its_tags & tags),
        "is looked for under another Python": wheel["dist"] == wheel["python"],
    }
    return [name, *(problem for problem, is_right in right.items() if not is_right)]


@functools.cache
def fitting(machine: str) -> set[Tag]:
    """Return the tags of wheels for CPython 3.13 on glibc 2.40 of this machine."""
    old = {"x86_64": ["manylinux2014", "manylinux2010", "manylinux1"], "aarch64": ["manylinux2014"]}
    names = [f"manylinux_2_{minor}" for minor in range(GLIBC_MINOR, 4, -1)] + old[machine]
    platforms = [f"{name}_{machine}" for name in names]
    return {*cpython_tags((3, 13), ["cp313"], platforms), *compatible_tags((3, 13), "cp313", platforms)}
