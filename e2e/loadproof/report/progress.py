"""How is long work shown while it runs?

On a terminal one line that is rewritten, elsewhere a plain line every few seconds; nothing is printed over it,
because all other output goes through the same console or comes after.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Self

from rich.text import Text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from loadproof.bench import Progress

PLAIN_INTERVAL_S = 5.0


class ProgressLine:
    """Shows `Progress` values; use it as a context manager around the work."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self._last_plain = 0.0

    def __enter__(self) -> Self:
        """Begin; on a terminal the line appears with the first progress."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the line."""
        if self._status is not None:
            self._status.stop()

    def __call__(self, progress: Progress) -> None:
        """Show how far a run is."""
        total = "" if progress.expected is None else f" / {progress.expected}"
        waits = "" if progress.seen else ", waiting for the first"
        if progress.expected is not None and progress.seen >= progress.expected:
            waits = ", waiting for the tool to end"
        text = f"{progress.case} x {progress.tool}: {progress.seen}{total} requests, {progress.elapsed_s:.0f} s{waits}"
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(Text(text))
        elif time.monotonic() - self._last_plain >= PLAIN_INTERVAL_S:
            self._last_plain = time.monotonic()
            self._console.print(text, markup=False, soft_wrap=True)
