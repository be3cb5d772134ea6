"""What does a case folder ask for, and which tools take part?

A case is a folder: `expected.yaml` (`loadproof.expected`, read strictly) and a verbatim configuration file for
each tool that takes part. Every mistake is a `UsageProblem` before anything starts. Left out: what is legal and too
small to carry an answer (`case_rules`), and what the tool files say, which is for the tools.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from loadproof.arrival import Arrival, Law
from loadproof.errors import UsageProblem
from loadproof.expected import (
    Allowance,
    ConcurrencyLoad,
    Expected,
    Load,
    PromptExtra,
    RateLoad,
    Stage,
    StagesLoad,
    ToolDeclaration,
    Workload,
    known_tool,
)
from loadproof.plain_words import nearest
from loadproof.strict_yaml import read_strict
from loadproof.tools.names import TOOL_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = [
    "EXPECTED_FILE",
    "Allowance",
    "Arrival",
    "Case",
    "ConcurrencyLoad",
    "Expected",
    "Law",
    "Load",
    "PromptExtra",
    "RateLoad",
    "Stage",
    "StagesLoad",
    "ToolDeclaration",
    "Workload",
    "read_case",
]

EXPECTED_FILE = "expected.yaml"
_DATA_SUFFIXES = {".json", ".jsonl"}
_OWN_FILES = (EXPECTED_FILE, "README.md", *TOOL_FILES.values())


@dataclass(frozen=True, kw_only=True)
class Case:
    """A case folder that was read: its name, where it is, and what it expects."""

    name: str
    folder: Path
    expected: Expected

    @property
    def n(self) -> int | None:
        """The number of requests that is asked, None when a duration is asked instead."""
        return self.expected.workload.num_requests

    @property
    def span_s(self) -> float | None:
        """How long the asked load lasts, in seconds; None where the server's answers decide that."""
        asked, load = self.expected.workload, self.expected.load
        if asked.num_requests is not None and isinstance(load, RateLoad):
            return asked.num_requests / load.rate
        return asked.duration_s

    @property
    def service_s(self) -> float:
        """The planned time from the begin of service to last token of one reply, in seconds."""
        asked, profile = self.expected.workload, self.expected.absorber
        return profile.latency_s(profile.usual_tokens(asked.usual_max_tokens, ignore_eos=asked.ignore_eos))

    @property
    def latency_s(self) -> float:
        """The planned time from arrival to last token of one reply, in seconds.

        With the wait for a slot of the server's where more are asked to be in flight than it has; without it in an
        open loop, where it depends on all that came before.
        """
        load = self.expected.load
        return self.latency_at(load.concurrency if isinstance(load, ConcurrencyLoad) else None)

    def latency_at(self, concurrency: int | None) -> float:
        """Return `latency_s` with so many in flight; None: as many as come."""
        slots = self.expected.absorber.slots
        return self.service_s * max(1, concurrency / slots if slots and concurrency else 1)

    def tools_with_files(self) -> list[str]:
        """Return the names of the tools that take part, in the order of the registry."""
        return _tools_in(self.folder)

    def tool_file(self, tool: str) -> Path:
        """Return the tool's configuration in this folder.

        Raises:
            UsageProblem: the tool is unknown, or is not part of this case.
        """
        path = self.folder / _file_of(tool)
        if path.is_file():
            return path
        has = ", ".join(self.tools_with_files()) or "no tool file"
        raise UsageProblem(f"no {path.name} in {self.folder}, so {tool} is not part of this case; it has: {has}")

    def declaration(self, tool: str) -> ToolDeclaration:
        """Return what the case declares of the tool, the default where it declares nothing.

        Raises:
            UsageProblem: the tool is unknown, or the load needs an `arrival` and the case has none.
        """
        _file_of(tool)
        if tool in self.expected.tools:
            return self.expected.tools[tool]
        if problem := self.expected.arrival_problem(tool):
            raise UsageProblem(f"{self.folder / EXPECTED_FILE}: tools.{tool}.arrival: {problem}")
        return ToolDeclaration()


def read_case(folder: Path) -> Case:
    """Return the case in the folder.

    Raises:
        UsageProblem: no such folder, no `expected.yaml`, something wrong in it, or a file that does not
            belong there; what is wrong in the folder is listed together.
    """
    try:
        _check_folder(folder)
        problems = list(_odd_files(folder))
    except OSError as error:
        raise UsageProblem(f"{folder}: cannot be read: {error.strerror}") from error
    try:
        taking_part = {tool: TOOL_FILES[tool] for tool in _tools_in(folder)}
        expected = read_strict(folder / EXPECTED_FILE, Expected, taking_part)
    except UsageProblem as error:
        raise UsageProblem("\n".join([str(error), *problems])) from error
    if problems:
        raise UsageProblem("\n".join(problems))
    return Case(name=folder.resolve().name, folder=folder, expected=expected)


def _tools_in(folder: Path) -> list[str]:
    return [tool for tool, file in TOOL_FILES.items() if (folder / file).is_file()]


def _file_of(tool: str) -> str:
    try:
        return TOOL_FILES[known_tool(tool)]
    except ValueError as error:
        raise UsageProblem(f"{tool}: {error}") from error


def _check_folder(folder: Path) -> None:
    if folder.is_dir():
        if not os.path.lexists(folder / EXPECTED_FILE):
            near = nearest(EXPECTED_FILE, (entry.name for entry in folder.iterdir()))
            hint = f"{near} rename it to {EXPECTED_FILE}" if near else _cases_in(folder)
            raise UsageProblem(f"{folder}: no {EXPECTED_FILE} in it, so it is not a case{hint}")
    elif folder.exists():
        raise UsageProblem(f"{folder}: is not a folder; a case is the folder that holds {EXPECTED_FILE}")
    else:
        siblings = [path.parent.name for path in folder.parent.glob(f"*/{EXPECTED_FILE}")]
        near = nearest(folder.name, siblings)
        absent = "is a symbolic link that leads nowhere" if folder.is_symlink() else "no such case folder"
        raise UsageProblem(f"{folder}: {absent}{near or _cases_in(folder.parent)}")


def _cases_in(folder: Path) -> str:
    names = sorted(path.parent.name for path in folder.glob(f"*/{EXPECTED_FILE}"))
    return f"; the cases in {folder} are {', '.join(islice(names, 20))}" if names else ""


def _odd_files(folder: Path) -> Iterator[str]:
    """Yield a problem for everything that has no place in a case folder."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.suffix in _DATA_SUFFIXES:
            continue
        if entry.is_file() and os.access(entry, os.X_OK):  # a program that command.args may name
            continue
        if entry.name not in _OWN_FILES:
            may_hold = f"; it may hold {', '.join(_OWN_FILES)}, *.json, *.jsonl"
            yield f"{entry}: has no place in a case{nearest(entry.name, _OWN_FILES) or may_hold}"
        elif not entry.is_file() and entry.name != EXPECTED_FILE:
            yield f"{entry}: is not a file"
