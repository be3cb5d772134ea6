"""Which wheels does a lock of ours mean on each system that the flake is for? Write them down for Nix.

    pdm run python nix/make_wheel_lists.py

By hand, with a network, after a lock changed. pip chooses and downloads each package's wheel for x86_64 and aarch64
against the lock's hashes; what it chose becomes `*-wheels.json` beside this file: for each system, and for `any` of
them, the arguments of nixpkgs' fetchPypi. A package without a wheel is an error, and then no list is written. Markers
are evaluated here, because pip would take the machine that it runs on. Left out: comparing lists and locks, which
e2e/tests/environment/test_wheel_lists.py does offline.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.markers import Marker
from packaging.requirements import Requirement

NIX = Path(__file__).resolve().parent
PYTHON = "3.13"
SYSTEMS = {"x86_64-linux": "x86_64", "aarch64-linux": "aarch64"}
# glibc of nixos-25.11 is 2.40; wheels for older ones are taken, too. Musl's are not.
TAGS = [f"manylinux_2_{minor}" for minor in range(40, 4, -1)] + ["manylinux2014", "manylinux2010", "manylinux1"]


@dataclass(frozen=True)
class Locked:
    """A package of a lock: its name as the lock has it, and sha256 digests, in hex, of all its files."""

    name: str
    version: str
    hashes: frozenset[str]
    marker: str = ""

    def wanted_on(self, machine: str) -> bool:
        """Tell whether Linux on this machine, with our Python, wants it."""
        here = {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix", "platform_machine": machine,
                "python_version": PYTHON, "python_full_version": f"{PYTHON}.0",
                "implementation_name": "cpython", "platform_python_implementation": "CPython"}  # fmt: skip
        return not self.marker or Marker(self.marker).evaluate(here)


def of_pdm_lock(text: str, group: str, but_not: str = "") -> Iterator[Locked]:
    """Yield the packages of a group, without those that another group has already."""
    for package in tomllib.loads(text)["package"]:
        if group in package["groups"] and but_not not in package["groups"] and "extras" not in package:
            hashes = frozenset(file["hash"].removeprefix("sha256:") for file in package["files"])
            yield Locked(package["name"], package["version"], hashes, package.get("marker", ""))


def of_tool_lock(text: str) -> Iterator[Locked]:
    """Yield the packages of a lock in pip's form, as uv writes it."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if line and not line.startswith("#"):
            requirement, *hashes = re.split(r"\s+--hash=sha256:", line.strip())
            read = Requirement(requirement)
            version = str(read.specifier).removeprefix("==")
            yield Locked(read.name, version, frozenset(hashes), str(read.marker or ""))


def lists() -> dict[str, list[Locked]]:
    """Return the packages for each list, by the list's file name."""
    ours = (NIX.parent / "pdm.lock").read_text()
    theirs = (NIX.parent / "e2e/loadproof/tools/locks/inference-perf.txt").read_text()
    return {
        "loadproof-wheels.json": list(of_pdm_lock(ours, "default")),
        "loadproof-test-wheels.json": list(of_pdm_lock(ours, "dev", but_not="default")),
        "inference-perf-wheels.json": list(of_tool_lock(theirs)),
    }


def download(packages: list[Locked], machine: str, folder: Path) -> list[Path]:
    """Let pip choose the wheels for the machine and put them into the folder; exits with pip's words when it cannot."""
    uv = shutil.which("uv") or sys.exit("uv, which runs pip, is not on PATH; `pdm run` has it")
    wanted = [package for package in packages if package.wanted_on(machine)]
    rows = [f"{p.name}=={p.version} " + " ".join(f"--hash=sha256:{one}" for one in sorted(p.hashes)) for p in wanted]
    (folder / "requirements.txt").write_text("\n".join(rows) + "\n")
    platforms = [f"--platform={tag}_{machine}" for tag in TAGS]
    python = [f"--python-version={PYTHON}", "--implementation=cp", "--abi=cp313", "--abi=abi3", "--abi=none"]
    strictly = ["--require-hashes", "--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--quiet"]
    argv = [uv, "tool", "run", "pip", "download", *strictly, *platforms, *python]
    ended = subprocess.run([*argv, "--dest", folder, "--requirement", folder / "requirements.txt"], check=False)
    wheels = sorted(folder.glob("*.whl"))
    if ended.returncode != 0 or len(wheels) != len(wanted):
        sys.exit(f"pip found {len(wheels)} of {len(wanted)} wheels for {machine}; its message above says why")
    return wheels


def entry(wheel: Path) -> dict[str, str]:
    """Return the arguments with which fetchPypi fetches this very file."""
    parts = wheel.name.removesuffix(".whl").split("-")
    if len(parts) != len(("name", "version", "python", "abi", "platform")):
        sys.exit(f"{wheel.name}: has a build number, and fetchPypi can name no such file")
    name, version, python, abi, platform = parts
    digest = base64.b64encode(hashlib.sha256(wheel.read_bytes()).digest()).decode()
    return {"pname": name, "version": version, "dist": python, "python": python, "abi": abi, "platform": platform,
            "hash": f"sha256-{digest}"}  # fmt: skip


def list_of(packages: list[Locked]) -> dict[str, list[dict[str, str]]]:
    """Return the wheels of each system; `any` holds those that all systems share."""
    chosen: dict[str, list[dict[str, str]]] = {}
    for system, machine in SYSTEMS.items():
        with tempfile.TemporaryDirectory() as folder:
            chosen[system] = [entry(wheel) for wheel in download(packages, machine, Path(folder))]
    shared = [one for one in chosen["x86_64-linux"] if all(one in wheels for wheels in chosen.values())]
    own = {system: [one for one in wheels if one not in shared] for system, wheels in chosen.items()}
    return {"any": shared, **own}


def text_of(wheels: dict[str, list[dict[str, str]]]) -> str:
    """Return a list as JSON with a line for each wheel, so that a package that changes is a line that changes."""
    rows = {system: ",\n".join(f"  {json.dumps(one)}" for one in own) for system, own in wheels.items()}
    return "{\n" + ",\n".join(f' "{system}": [\n{own}\n ]' for system, own in rows.items()) + "\n}\n"


def main() -> None:
    """Write every list, or none."""
    made = {file: list_of(packages) for file, packages in lists().items()}
    for file, wheels in made.items():
        (NIX / file).write_text(text_of(wheels))
        sys.stdout.write(f"{file}: {', '.join(f'{len(own)} for {system}' for system, own in wheels.items())}\n")


if __name__ == "__main__":
    main()
