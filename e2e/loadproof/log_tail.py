"""What were the last words of a program, fit to be quoted to a person?

Only the end of a log is read, however long it is. Colours and other control codes are left out, and long lines are cut.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

TAIL_LINES = 20
_TAIL_BYTES = 64 * 1024
_LONGEST_LINE = 500
_TERMINAL_CODES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|[^\t -~\u00a0-\U0010ffff]")


def tail(*logs: Path, lines: int = TAIL_LINES) -> str:
    """Return the last `lines` lines of the given logs (those that exist), each log under its name."""
    parts = []
    for log in logs:
        with suppress(FileNotFoundError), log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace").splitlines()[-lines:]
            if text:
                parts.append("\n".join([f"--- last lines of {log}", *(f"  {_plain(line)}" for line in text)]))
    return "\n".join(parts)


def _plain(line: str) -> str:
    line = _TERMINAL_CODES.sub("", line)
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]} ..."
