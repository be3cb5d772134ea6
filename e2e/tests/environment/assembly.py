"""How do the tests run assemble.sh, and where are the wheels from?

As Nix does it: wheels with the store's hash before their names and the store's time on them. Real wheels are
downloaded by a list in nix/ alone, against its hashes, by pip, which uv brings.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment.nix_standin import program
from tests.environment.wheel_lists import Wheel, wheels_in
from tests.environment.workshop import ROOT, own_environ, run

SCRIPT = ROOT / "nix" / "assemble.sh"
OFFLINE = re.compile(r"connection broken|Failed to fetch|Could not connect|error sending request|dns error")


def stored(wheel: Path, store: Path) -> Path:
    """Return the wheel as Nix's store would have it."""
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()[:32]
    path = store / f"{digest}-{wheel.name}"
    shutil.copyfile(wheel, path)
    path.chmod(0o444)
    os.utime(path, (1, 1))
    return path


def with_uv() -> dict[str, str]:
    """Return the environment of a program that finds uv, wherever ours is."""
    uv = program("uv")
    assert uv is not None
    own = own_environ()
    return own | {"PATH": f"{Path(uv).parent}{os.pathsep}{own['PATH']}"}


def assemble(*words: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return run(
        [shutil.which("bash") or "bash", SCRIPT, *words], env=with_uv() | environ, cwd=SCRIPT.parent, deadline_s=300
    )


def made(out: Path, *wheels: Path, **environ: str) -> Path:
    """Return the environment that was made of the wheels."""
    ended = assemble(out, sys.executable, *wheels, **environ)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return out


def says(*argv: str | Path) -> str:
    ended = run(argv, env={"PATH": ""}, cwd=ROOT)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def installed(environment: Path) -> list[tuple[str, str]]:
    found = [path.name.removesuffix(".dist-info").split("-") for path in environment.rglob("*.dist-info")]
    return sorted((name, version) for name, version in found)


def downloaded(wheels: list[Wheel], store: Path, **environ: str) -> list[Path]:
    """Return the wheels, found by name and version and of the hashes that the list says; skips without a network."""
    folder = store.parent / "downloaded"
    rows = [
        f"{wheel['pname']}=={wheel['version']} --hash=sha256:{base64.b64decode(wheel['hash'][7:]).hex()}\n"
        for wheel in wheels
    ]
    (store.parent / "requirements.txt").write_text("".join(rows))
    pip = ["uv", "tool", "run", "pip", "download", "--quiet", "--require-hashes", "--no-deps"]
    more = ["--only-binary=:all:", "--python-version=3.13", f"--dest={folder}", "--requirement=../requirements.txt"]
    ended = run([*pip, *more], env=with_uv() | environ, cwd=store, deadline_s=300)
    if ended.returncode != 0 and OFFLINE.search(ended.stderr):
        pytest.skip(f"no network: {ended.stderr.strip().splitlines()[-1]}")
    assert ended.returncode == 0, ended.stderr
    named = ("pname", "version", "python", "abi", "platform")
    return [stored(folder / ("-".join(wheel[part] for part in named) + ".whl"), store) for wheel in wheels]


def wheels_for_this_machine(*lists: str) -> list[Wheel]:
    """Return what Nix would fetch for these lists."""
    read = [wheels_in(file) for file in lists]
    return [wheel for wheels in read for wheel in wheels["any"] + wheels[f"{platform.machine()}-linux"]]
