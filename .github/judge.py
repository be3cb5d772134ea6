"""Run the cases of a folder with a command of the caller's: what the workflow judge.yml does.

    judge.py [--tool TOOL] --out FOLDER CASES COMMAND

Without a tool, each case gets COMMAND, split as a shell splits it, as its command.args, unless it has one; {case} is
the case's folder and {repository} the one from which this was started. With a tool, COMMAND names the program that is
used as that tool, and each case brings the tool's own file. Then `loadproof run` does the rest, and its exit code is
ours. The cases are copied, so that the calling repository is not written to.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import NoReturn

from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.tools.lockfile import PACKAGES

ANY = "command"


class Parser(argparse.ArgumentParser):
    """Wrong arguments are a usage problem like others; argparse would end with 2, which is loadproof's for unclear."""

    def error(self, message: str) -> NoReturn:
        """Raise UsageProblem."""
        raise UsageProblem(f"{message}\n{self.format_usage().rstrip()}")


def main() -> int:
    """Return loadproof's exit code, or 64 for what was asked wrongly."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tool", choices=[ANY, *PACKAGES], default=ANY)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("cases", type=Path)
    parser.add_argument("command")
    try:
        given = parser.parse_args()
        return judge(given.cases, words_of(given.command), given.tool, given.out)
    except LoadproofError as problem:
        sys.stderr.write(f"{problem}\n")
        return problem.exit_code
    except Exception:  # noqa: BLE001 -- Python would end with 1, which says that the load was wrong
        traceback.print_exc()
        return Exit.BROKEN


def words_of(command: str) -> list[str]:
    """Return the command's words. Raises UsageProblem for one that no shell could read, and for none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageProblem(f"the command {command!r} cannot be split into words: {error}; mend its quotes") from error
    if not words:
        raise UsageProblem("the command is empty; say which program is to be judged")
    return words


def judge(cases: Path, words: list[str], tool: str, out: Path) -> int:
    """Run loadproof on copies of the cases; return its exit code."""
    found = sorted(file.parent for file in cases.rglob("expected.yaml") if not hidden(file.relative_to(cases)))
    if not found:
        raise UsageProblem(f"{cases}: has no case; name a folder of folders with expected.yaml")
    environ = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        copies = [copied(case, Path(folder), cases) for case in found]
        if tool == ANY:
            for case in copies:
                give_command(case, words)
        else:
            environ[PACKAGES[tool].own_build] = own_program(words, tool)
        # Isolated (-I): a folder of the calling repository that is named like a module must not be taken for it.
        argv: list[str | Path] = [sys.executable, "-I", "-m", "loadproof", "run", *copies, "--tool", tool, "--out", out]
        return subprocess.run(argv, env=environ, check=False).returncode


def hidden(path: Path) -> bool:
    """Return whether it lies in a folder that begins with a dot, as loadproof's own does in the calling repository."""
    return any(part.startswith(".") for part in path.parts)


def copied(case: Path, folder: Path, root: Path) -> Path:
    """Return a copy of the case, where a file may be added."""
    name = case.relative_to(root) if case != root else case.resolve().name
    return Path(shutil.copytree(case, folder / name))


def give_command(case: Path, words: list[str]) -> None:
    """Write the case's command.args, if it has none; a program with a slash is one of the calling repository.

    Raises UsageProblem for a word that the file, in which a line is a word, cannot hold.
    """
    file = case / "command.args"
    if file.exists():
        return
    program = str(Path(words[0]).absolute()) if "/" in words[0] else words[0]
    lines = [filled(word, case) for word in [program, *words[1:]]]
    for line in lines:
        if not line.strip() or line != line.strip() or line.startswith("#") or "\n" in line:
            raise UsageProblem(f"the command's word {line!r} cannot be a line of command.args; put it into a script")
    file.write_text("".join(f"{line}\n" for line in lines))


def filled(word: str, case: Path) -> str:
    """Return the word with what is ours replaced; the rest is loadproof's."""
    return word.replace("{case}", str(case)).replace("{repository}", str(Path.cwd()))


def own_program(words: list[str], tool: str) -> str:
    """Return the path of the program that is to be used as the tool; loadproof tells when there is none there."""
    if len(words) > 1:
        raise UsageProblem(f"for {tool} the command is the program alone; {words[1]!r} belongs into the cases' files")
    return shutil.which(words[0]) or words[0]


if __name__ == "__main__":
    sys.exit(main())
