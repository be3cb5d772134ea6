"""Which adapters are there? A literal table; a new tool is one module, one lock and one row here."""

from __future__ import annotations

from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.plain_words import nearest
from loadproof.reported import Reported
from loadproof.tools.base import Command, Setting, Tool
from loadproof.tools.command import AnyCommand
from loadproof.tools.inference_perf import InferencePerf
from loadproof.tools.metronome import Metronome
from loadproof.tools.names import TOOL_FILES

TOOLS: dict[str, Tool] = {
    "inference-perf": InferencePerf(),
    "command": AnyCommand(),
    "metronome": Metronome(),
}


class NotYet:
    """Stands for a tool of the registry that this version has no adapter for: never installed, never run."""

    def __init__(self, name: str) -> None:
        self.name = name

    def check(self, config: Path) -> None:
        """Accept any file: nobody here can read it."""

    def executable(self, config: Path) -> Path | None:
        """Return None: there is nothing to run."""
        del config
        return None

    def how_to_get(self) -> str:
        """Return what can be run instead."""
        return f"this version of loadproof cannot run it; it runs {', '.join(TOOLS)}"

    def version(self) -> str:
        """Return that there is none."""
        return "none"

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Nobody asks, because there is no executable."""
        raise NotImplementedError(self.how_to_get())

    def claims(self, out: Path) -> Reported | None:
        """Return None: it has never run."""
        del out
        return None


def tool_named(name: str) -> Tool:
    """Return the adapter. Raises UsageProblem for an unknown name."""
    if name in TOOLS:
        return TOOLS[name]
    if name in TOOL_FILES:
        return NotYet(name)
    raise UsageProblem(f"{name}: unknown tool{nearest(name, TOOLS) or '; known are ' + ', '.join(TOOLS)}")
