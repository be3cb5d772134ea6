"""What does a tool's lock say: which version, for which Python, how much of it, and for which program?

A lock is `locks/<tool>.txt`: a header of `# key: value` lines, then pinned requirements with hashes and without
any address, for every Linux architecture at once. `PACKAGES` is the registry of the tools that have one.
Left out: making a lock (its header quotes the command) and installing it (`installer`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from loadproof.errors import UsageProblem

LOCKS = Path(__file__).parent / "locks"


class Package(msgspec.Struct, frozen=True):
    """A tool with a lock: the program it installs, and the variable that names a person's own build instead."""

    program: str
    own_build: str


PACKAGES: Mapping[str, Package] = {
    "inference-perf": Package(program="inference-perf", own_build="LOADPROOF_INFERENCE_PERF"),
}


class ToolLock(msgspec.Struct, frozen=True, kw_only=True):
    """The header of `locks/<tool>.txt`; `digest` is the file's sha256 in hex, `packages` counts those for Linux."""

    tool: str
    version: str
    python: str
    date: str
    size_mb: int
    packages: int
    digest: str
    path: Path

    def __str__(self) -> str:
        """Return tool and version, as progress lines and messages name them."""
        return f"{self.tool} {self.version}"


def read_lock(tool: str) -> ToolLock:
    """Return the parsed lock of `tool`; UsageProblem if there is none, ValueError if its header is not complete."""
    path = LOCKS / f"{tool}.txt"
    if tool not in PACKAGES:
        raise UsageProblem(f"{tool}: is not a tool that can be installed here; there are: {', '.join(PACKAGES)}")
    content = path.read_bytes()
    text = content.decode()
    header = dict(re.findall(r"^# ([a-z ]+): (.+)$", text, re.MULTILINE))
    missing = {"tool", "version", "python", "date", "approximate size"} - header.keys()
    if missing or header["tool"] != tool:
        raise ValueError(f"{path}: the header lacks {sorted(missing) or 'the right tool'}")
    return ToolLock(
        tool=tool,
        version=header["version"],
        python=header["python"],
        date=header["date"],
        size_mb=int(header["approximate size"].removesuffix(" MB")),
        packages=len(re.findall(r"^[a-z0-9][^\s=]*==(?!.*sys_platform == 'win32')", text, re.MULTILINE)),
        digest=hashlib.sha256(content).hexdigest(),
        path=path,
    )
