"""What must we know of a tool to run it and to read what it says?

A tool adapter is one module with one frozen value that fits `Tool`. It is asked for a command and for the
claims; it never runs anything itself and never judges.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import msgspec

from loadproof.reported import Reported


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """Where and against what a tool is to run; `out` is an existing folder that is the tool's alone."""

    base_url: str
    model: str
    tokenizer: Path
    out: Path
    seed: int


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What to start; `env` is added to the controlled environment."""

    argv: list[str]
    env: dict[str, str] = {}
    cwd: Path | None = None


class Tool(Protocol):
    """One load generator."""

    @property
    def name(self) -> str:
        """The registry name."""

    def executable(self, config: Path) -> Path | None:
        """Return the program to run for this file, None when it is not installed.

        Raises UsageProblem for one that is named and cannot be run.
        """

    def how_to_get(self) -> str:
        """Return the one line that says how to get it."""

    def version(self) -> str:
        """Return the pinned version, or what is known of an own build."""

    def check(self, config: Path) -> None:
        """Raise UsageProblem for a configuration that cannot be used; asked before anything is started."""

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Return the command for a verbatim configuration file that `check` accepted; may write into `setting.out`."""

    def claims(self, out: Path) -> Reported | None:
        """Return what the tool reported into `out`, None when it left nothing. Raises BrokenRun when unreadable."""


OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
}
"""For tools that take a local tokenizer folder as it is and would otherwise ask a hub."""
