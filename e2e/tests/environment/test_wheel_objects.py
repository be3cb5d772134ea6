"""What do the wheels that we install want of the machine that is not in them, and does the flake give all of it?

Looked up in the ELF files of our own environment and, where it is installed, inference-perf's: executables with an
interpreter do not start where /lib64 has no loader, and shared objects want libraries by name.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from loadproof.tools.environments import executable_of
from tests.environment.workshop import ROOT, needs, own_environ, run

FORMULA = ROOT / "nix" / "fit-environment.nix"
# glibc's own: a Python that runs has loaded one, and Nix's loader finds the others beside it.
GLIBC = re.compile(r"(ld-linux-(x86-64|aarch64)|lib(c|dl|m|mvec|pthread|rt|util|resolv))\.so\.\d")
# libstdc++ brings it: it is linked to it.
BROUGHT = {"libgcc_s.so.1": "libstdc++.so.6"}


def environments() -> list[Path]:
    theirs = executable_of("inference-perf", "inference-perf")
    return [Path(sys.prefix), *([theirs.parents[1]] if theirs else [])]


def elf_files(environment: Path) -> list[Path]:
    return [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path)]


def is_elf(path: Path) -> bool:
    with path.open("rb") as handle:
        return handle.read(4) == b"\x7fELF"


def headers(files: list[Path]) -> str:
    """Return what readelf tells of the program headers and dynamic sections; of more than one file it names each."""
    told = run(["readelf", "--wide", "--program-headers", "--dynamic", *files], env=own_environ(LC_ALL="C"), cwd=ROOT)
    assert told.returncode == 0, told.stderr
    return told.stdout


def given(option: str) -> set[str]:
    return set(re.findall(rf"--{option} .*?/([^/\s]+)(?= |$)", FORMULA.read_text(), re.MULTILINE))


def test_executables_of_wheels_have_a_program_of_the_flake() -> None:
    needs("readelf")
    told = headers(elf_files(Path(sys.prefix))).split("File: ")[1:]
    wanting = {Path(one.partition("\n")[0]).name for one in told if re.search(r"^ +INTERP", one, re.MULTILINE)}
    if "LOADPROOF_FIT_ENVIRONMENT" not in os.environ:
        assert wanting, "not one was found: is this an environment?"
    assert wanting <= given("program")


@pytest.mark.parametrize("environment", environments(), ids=lambda path: path.name)
def test_shared_objects_want_only_what_is_theirs_glibcs_or_preloaded(environment: Path) -> None:
    needs("readelf")
    files = elf_files(environment)
    told = headers(files)
    wanted = set(re.findall(r"\(NEEDED\).*\[(.+)\]", told))
    own = {path.name for path in environment.rglob("*.so*")} | set(re.findall(r"\(SONAME\).*\[(.+)\]", told))
    foreign = {name for name in wanted - own if not GLIBC.fullmatch(name)}
    assert foreign, "not even libstdc++: was anything read?"
    assert {BROUGHT.get(name, name) for name in foreign} <= given("library")
