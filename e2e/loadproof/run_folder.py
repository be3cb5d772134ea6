"""What lies in a run folder, and how is each file of it written and read?

    run.json         what ran, on what, how it ended (`RunRecord`)
    case/            the case folder as it was
    journal/         journal.parquet, of an absorber
    tool/            the tool's own folder: its configuration and results
    *.stdout, *.stderr
    findings.json claims.json verdict.json   made by judging, and made again by judging again

JSON is written with sorted keys and an indent, so equal content is equal bytes.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from loadproof.ended import Ended
from loadproof.errors import BrokenRun, UsageProblem
from loadproof.host import Host
from loadproof.placement import Placement

ABSORBER = "absorber"
"""The server that keeps a journal; a run against any other has none."""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run: everything about it that is not in the journal or in the tool's own files.

    Written when a run begins, and again at its end. `broken` says why it did not come to its end; what had not ended
    by then is None. Of the two servers only the one that `server` names has run; `dialect` is how a simulator took
    its times; `counts_tokens`: whether the server had the model's tokenizer.
    """

    case: str
    tool: str
    tool_version: str
    loadproof_version: str
    python: str
    seed: int
    started_at: str
    git: str
    host: Host
    model: str = ""
    placement: Placement = Placement()
    server: str = ABSORBER
    dialect: str = ""
    counts_tokens: bool = True
    simulator_sha256: str = ""
    tool_ended: Ended | None = None
    absorber_ended: Ended | None = None
    simulator_ended: Ended | None = None
    broken: str = ""


@dataclass(frozen=True)
class RunFolder:
    """Paths and files of one run."""

    path: Path

    @property
    def case(self) -> Path:
        """The copy of the case."""
        return self.path / "case"

    @property
    def journal(self) -> Path:
        """The absorber's folder."""
        return self.path / "journal"

    @property
    def tool_out(self) -> Path:
        """The tool's own folder."""
        return self.path / "tool"

    def require_empty(self) -> None:
        """Raise UsageProblem if something is there already (a run never overwrites one) or nothing can be."""
        if self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir())):
            raise UsageProblem(f"{self.path}: is not an empty folder; a run overwrites nothing: remove it or choose "
                               "another --out")  # fmt: skip
        lowest = next(path for path in (self.path.absolute(), *self.path.absolute().parents) if path.exists())
        if not lowest.is_dir():
            raise UsageProblem(f"{self.path}: cannot be made, because {lowest} is a file; choose another --out")
        if not os.access(lowest, os.W_OK | os.X_OK):
            raise UsageProblem(f"{self.path}: cannot be made, because {lowest} may not be written; choose another "
                               "--out")  # fmt: skip

    def claim(self, *, journal: bool = True) -> None:
        """Make the folder and what is empty in it, for this run alone; `journal`: with a folder for one.

        Raises UsageProblem if another run has it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.tool_out.mkdir()  # of two runs that found the folder empty, one comes first here
            if journal:
                self.journal.mkdir()
        except FileExistsError as error:
            raise UsageProblem(f"{self.path}: another run has just begun there; choose another --out") from error
        except OSError as error:
            raise UsageProblem(f"{self.path}: cannot be made: {error.strerror}; choose another --out") from error

    def write(self, name: str, value: object) -> None:
        """Write `name` (a .json file) whole or not at all."""
        write_json(self.path / name, value)

    def read_record(self) -> RunRecord:
        """Read run.json."""
        file = self.path / "run.json"
        if not self.path.is_dir():
            raise UsageProblem(f"{self.path}: there is no such folder; name a folder that `loadproof run` wrote")
        if not file.is_file():
            raise UsageProblem(f"{self.path}: is not a run folder, it has no run.json; name a folder that "
                               "`loadproof run` wrote")  # fmt: skip
        return _read(file, RunRecord, "it is damaged, or of another loadproof; run the case again")


def write_json(path: Path, value: object) -> None:
    """Write a value of ours as JSON under a temporary name and rename it. Raises BrokenRun when it cannot be."""
    text = json.dumps(msgspec.to_builtins(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    temporary = path.with_name(f".{path.name}.part")
    try:
        temporary.write_text(text)
        temporary.rename(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise BrokenRun(f"{path}: cannot be written: {error.strerror}; {what_helps(error)}") from error


def what_helps(error: OSError) -> str:
    """Return what a person can do about an error of the system in a run folder."""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "free some space there, or choose another --out"
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        return "raise the limit of open files, `ulimit -n`"
    return "choose another --out"


def _read[T](path: Path, kind: type[T], what_next: str) -> T:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError) as error:
        raise BrokenRun(f"{path}: cannot be read: {error}; {what_next}") from error
