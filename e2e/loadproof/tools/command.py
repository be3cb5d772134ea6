"""command: any program. Its arguments are its own; {base_url} {model} {tokenizer} {out} {seed} are ours.

It may leave `claims.json` in {out} (loadproof.reported). A program that is given by a relative path with a
slash is looked for beside its `command.args`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.reported import CLAIMS_FILE, Reported, read_claims
from loadproof.tools.args_file import filled, read_args
from loadproof.tools.base import OFFLINE, Command, Setting


def find_program(program: str, beside: Path) -> Path:
    """Return the program's absolute path. Raises UsageProblem when it is not there or not executable."""
    if "/" in program:
        path = (beside / program).absolute()
        if path.is_file() and os.access(path, os.X_OK):
            return path
        what = "is not executable; `chmod +x` it" if path.is_file() else "there is no such executable; check the path"
        raise UsageProblem(f"{path}: {what}")
    found = shutil.which(program)
    if found is None:
        raise UsageProblem(f"{program}: there is no such executable on PATH; install it, or give its path")
    return Path(found).absolute()


class AnyCommand:
    """The adapter."""

    name = "command"

    def executable(self, config: Path) -> Path | None:
        """Return the program that the file names first."""
        return find_program(read_args(config)[0], config.parent)

    def how_to_get(self) -> str:
        """Return the one line that says how to get it."""
        return "name an executable in command.args"

    def version(self) -> str:
        """Return that we do not know it."""
        return "unknown"

    def check(self, config: Path) -> None:
        """Raise UsageProblem for a file without an argument."""
        read_args(config)

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Return the command with our values filled in."""
        return Command(argv=[str(executable), *filled(read_args(config)[1:], setting)], env=OFFLINE, cwd=setting.out)

    def claims(self, out: Path) -> Reported | None:
        """Read claims.json if the program left one."""
        path = out / CLAIMS_FILE
        return read_claims(path) if path.is_file() else None
