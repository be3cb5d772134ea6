"""The stand-in for nixpkgs, made for this machine: which programs and libraries of the host do its packages link?

A copy of `standin/` with a `host.json`; our real flake.nix evaluates against it offline by
`--override-input nixpkgs path:COPY`, and `nix develop` really runs. Left out: what is fetched or built by Nix.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TREE = Path(__file__).parent / "standin"
PACKAGES = {
    "bash": ["bash"],
    "curl": ["curl"],
    "git": ["git"],
    "inference-perf": ["inference-perf"],
    "llm-d-inference-sim": ["llm-d-inference-sim"],
    "loadproof": ["loadproof"],
    "mount": ["mount", "setpriv", "taskset", "unshare"],
    "pdm": ["pdm"],
    "pkg-config": ["pkg-config"],
    "python3.13": ["python3.13"],
    "ruff": ["ruff"],
    "treefmt": ["treefmt"],
    "uv": ["uv", "uvx"],
}


def standin(folder: Path, **own: Path) -> Path:
    """Return `folder`, made, as a nixpkgs whose programs are the host's; `own` names others, `_` standing for `-`."""
    shutil.copytree(TREE, folder)
    chosen = {name.replace("_", "-"): path for name, path in own.items()}
    programs = {
        package: [f"{name}={chosen.get(name) or program(name) or ''}" for name in names]
        for package, names in PACKAGES.items()
    }
    host = {"sh": "/bin/sh", "bash": program("bash"), "programs": programs, "libraries": str(libraries(folder))}
    (folder / "host.json").write_text(json.dumps(host, indent=1))
    return folder


def libraries(folder: Path) -> Path:
    """Return a folder, made in `folder`, whose lib/ has the host's libstdc++ and libz."""
    made = folder / "libraries"
    (made / "lib").mkdir(parents=True)
    for name in ("libstdc++.so.6", "libz.so.1"):
        ctypes.CDLL(name)
        stem = name.partition(".so")[0]
        [path] = {
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if f"/{stem}.so" in line
        }
        (made / "lib" / name).symlink_to(path)
    return made


def program(name: str) -> str | None:
    """Return the path of the host's program, not our environment's, behind pyenv's shim; None if there is none."""
    if name == "python3.13":
        return str(Path(sys.base_prefix, "bin", name))
    ours = Path(sys.prefix, "bin")
    found = shutil.which(name, path=os.pathsep.join(part for part in os.get_exec_path() if Path(part) != ours))
    if found and Path(found).parent.name == "shims" and (pyenv := shutil.which("pyenv")):
        asked = subprocess.run([pyenv, "which", name], capture_output=True, text=True, check=False)
        found = asked.stdout.strip() or None
    return found or shutil.which(name, path=str(ours))
