"""Which adapters are there? A literal table; a new tool is one module, one lock and one row here."""

from __future__ import annotations

from loadproof.errors import UsageProblem
from loadproof.plain_words import nearest
from loadproof.tools.base import Tool
from loadproof.tools.command import AnyCommand
from loadproof.tools.inference_perf import InferencePerf
from loadproof.tools.metronome import Metronome
from loadproof.tools.names import TOOL_FILES

TOOLS: dict[str, Tool] = {
    "inference-perf": InferencePerf(),
    "command": AnyCommand(),
    "metronome": Metronome(),
}


def tool_named(name: str) -> Tool:
    """Return the adapter. Raises UsageProblem for an unknown name, or for a tool without an adapter yet."""
    if name in TOOLS:
        return TOOLS[name]
    if name in TOOL_FILES:
        raise UsageProblem(f"{name}: this version of loadproof cannot run it; it runs {', '.join(TOOLS)}")
    raise UsageProblem(f"{name}: unknown tool{nearest(name, TOOLS) or '; known are ' + ', '.join(TOOLS)}")
