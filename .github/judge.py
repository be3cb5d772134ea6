"""Run the cases of a folder with a command of the caller's: what the workflow judge.yml does.

    judge.py [--tool TOOL] --out FOLDER CASES COMMAND

Without a tool, each case gets COMMAND, split as a shell splits it, as its command.args, unless it has one; {case} is
its folder. With one, COMMAND names the program that is used as that tool, and each case brings the tool's own file.
Then `loadproof run` does the rest, and its exit code is ours. The calling repository is not written to.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from loadproof.errors import Exit
from loadproof.tools.lockfile import PACKAGES

ANY = "command"


def main() -> int:
    """Return loadproof's exit code, or 64 for what was asked wrongly."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tool", choices=[ANY, *PACKAGES], default=ANY)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("cases", type=Path)
    parser.add_argument("command")
    given = parser.parse_args()
    found = sorted(file.parent for file in given.cases.rglob("expected.yaml"))
    words = shlex.split(given.command)
    if not found or not words:
        sys.stderr.write(f"{given.cases}: has no case (a folder with expected.yaml)\n" if words else "no command\n")
        return Exit.USAGE
    environ = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        cases = [copied(case, Path(folder), given.cases) for case in found]
        if given.tool == ANY:
            for case in cases:
                give_command(case, words)
        else:
            environ[PACKAGES[given.tool].own_build] = shutil.which(words[0]) or words[0]
        argv = [sys.executable, "-m", "loadproof", "run", *cases, "--tool", given.tool, "--out", given.out]
        return subprocess.run(argv, env=environ, check=False).returncode


def copied(case: Path, folder: Path, root: Path) -> Path:
    """Return a copy of the case, where a file may be added."""
    return Path(
        shutil.copytree(case, folder / case.relative_to(root) if case != root else folder / case.resolve().name)
    )


def give_command(case: Path, words: list[str]) -> None:
    """Write the case's command.args, if it has none; a program with a slash is one of the calling repository."""
    file = case / "command.args"
    if not file.exists():
        program = str(Path(words[0]).absolute()) if "/" in words[0] else words[0]
        file.write_text("".join(f"{word.replace('{case}', str(case))}\n" for word in [program, *words[1:]]))


if __name__ == "__main__":
    sys.exit(main())
