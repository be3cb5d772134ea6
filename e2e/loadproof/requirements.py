"""What must not be missing? LOADPROOF_REQUIRE: comma-separated names; an unknown one is a usage error."""

from __future__ import annotations

import os

from loadproof.errors import UsageProblem
from loadproof.tools.names import TOOL_FILES

VARIABLE = "LOADPROOF_REQUIRE"
CLEAR, CAPTURE, SIMULATOR = "clear", "capture", "llm-d-inference-sim"
KNOWN = (*TOOL_FILES, SIMULATOR, CLEAR, CAPTURE)


def required() -> frozenset[str]:
    """Return the names in LOADPROOF_REQUIRE. Raises UsageProblem for an unknown one."""
    names = frozenset(name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip())
    for name in sorted(names - set(KNOWN)):
        from loadproof.plain_words import nearest  # noqa: PLC0415 -- every pytest session asks, few need pydantic

        known = nearest(name, KNOWN) or "; known are " + ", ".join(KNOWN)
        raise UsageProblem(f"{VARIABLE}: {name!r} is unknown{known}")
    return names
