"""What does a case folder ask for, and which tools take part?

A case is a folder: `expected.yaml` (`loadproof.expected`, read strictly) and a verbatim configuration file for
each tool that takes part. Every mistake is a `UsageProblem` before anything starts; what is legal but too
small to carry an answer is a warning. Left out: what the tool files say, that is for the tools.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from loadproof.arrival import SMALLEST_N, SMALLEST_SPAN_S, Arrival, Law
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
    "warnings",
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
        slots, load = self.expected.absorber.slots, self.expected.load
        rounds = load.concurrency / slots if slots and isinstance(load, ConcurrencyLoad) else 1
        return self.service_s * max(1, rounds)

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


def warnings(case: Case) -> list[str]:
    """Return why this case may be unable to answer, a sentence each; empty when nothing is too small.

    The sizes are those from which a check gives an answer at all; below them its finding is unclear.
    """
    load = case.expected.load
    if isinstance(load, ConcurrencyLoad):
        sizes = _closed_loop_sizes(case, load.concurrency)
    else:
        sizes = _open_loop_sizes(case, load.rate) if isinstance(load, RateLoad) else iter(())
    return [f"{case.name}: {told}" for told in sizes]


def _closed_loop_sizes(case: Case, concurrency: int) -> Iterator[str]:
    """The case rule: the first burst fills every slot before the first reply ends, and the plateau is long."""
    latency, first, fill = case.latency_s, case.service_s, 4 * concurrency * 0.2e-3
    span = case.span_s or (case.n or 0) * latency / concurrency
    n = case.n or (span * concurrency / latency if latency else math.inf)
    if n < 8 * concurrency:
        yield f"about {n:.0f} requests are too few for concurrency {concurrency}; ask for at least {8 * concurrency}"
    if span < 4:
        yield f"the load lasts {span:.3g} s; ask for more requests or a slower server, so that it lasts at least 4 s"
    if first < fill:
        yield f"a reply takes {first:.3g} s, too short to fill concurrency {concurrency} first; make it {fill:.3g} s"
    yield from _deadline(case, span)


def _open_loop_sizes(case: Case, rate: float) -> Iterator[str]:
    span = case.span_s or 0.0
    n = span * rate
    laws = {declared.arrival.law for declared in case.expected.tools.values() if declared.arrival}
    if n < SMALLEST_N:
        yield f"{n:.0f} requests cannot show a rate; ask for at least {SMALLEST_N}"
    for law, shortest in SMALLEST_SPAN_S.items():
        if law in laws and span < shortest:
            yield f"the load lasts {span:.3g} s; the rate of {law} arrivals needs at least {shortest:g} s"
    if laws - {Law.CONSTANT} and (n < 200 or span < 10):
        yield f"{n:.0f} requests in {span:.3g} s; judging random arrivals needs at least 200 in at least 10 s"
    slots = case.expected.absorber.slots
    yield from _deadline(case, max(span, n * case.service_s / slots if slots else 0))


def _deadline(case: Case, span: float) -> Iterator[str]:
    if span >= (deadline := case.expected.deadline_s):
        yield f"the load lasts {span:.3g} s and deadline_s is {deadline:g}; make the deadline longer"
    elif case.latency_s >= deadline:
        yield f"a reply takes {case.latency_s:.3g} s and deadline_s is {deadline:g}; the absorber's times are seconds"
