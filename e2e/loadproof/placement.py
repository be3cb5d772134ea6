"""Where do the tool and the absorber run: on which cores, and isolated from other processes or not?

Read from the words of the command line and checked against what this machine lets us use, before anything is started.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

import msgspec

from loadproof.errors import UsageProblem

WHO = ("tool", "absorber")
_CORES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """`cpus` has the core numbers of "tool" and of "absorber", nothing where they are not pinned.

    `isolate` is "pid" where each has a PID namespace of its own, else empty.
    """

    cpus: dict[str, list[int]] = {}
    isolate: str = ""

    @property
    def of_tool(self) -> list[int]:
        """The tool's cores; none: all."""
        return self.cpus.get("tool", [])

    @property
    def of_absorber(self) -> list[int]:
        """The absorber's cores; none: all."""
        return self.cpus.get("absorber", [])


UNPLACED = Placement()


def read_cpus(words: Sequence[str]) -> dict[str, list[int]]:
    """Return the cores for each of `tool=0-2,4` and `absorber=3`, in whatever order.

    Raises UsageProblem for anything else, and for cores that we may not use.
    """
    given = [word.partition("=") for word in words]
    if sorted(name for name, _, _ in given) != sorted(WHO):
        raise UsageProblem(f"--cpus {' '.join(words)}: give cores to both, as in --cpus tool=1 absorber=0 (lists and "
                           f"ranges are allowed: tool=0-2,4); usable: {_listed(_usable())}")  # fmt: skip
    return {name: _cores(name, text) for name, _, text in given}


def _cores(name: str, text: str) -> list[int]:
    found, usable = set[int](), _usable()
    for part in text.split(","):
        match = _CORES.fullmatch(part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise UsageProblem(f"--cpus {name}={text}: {part!r} is neither a core's number nor a range of them, as in "
                               f"0-2,4; usable: {_listed(usable)}")  # fmt: skip
        if last not in usable or not found.isdisjoint(range(first, last + 1)) or set(range(first, last + 1)) - usable:
            raise UsageProblem(f"--cpus {name}={text}: {part} cannot be used, or is named twice; usable: "
                               f"{_listed(usable)}")  # fmt: skip
        found |= set(range(first, last + 1))
    return sorted(found)


def _usable() -> set[int]:
    return os.sched_getaffinity(0)


def _listed(cores: set[int]) -> str:
    return ", ".join(map(str, sorted(cores)))
