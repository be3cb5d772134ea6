"""`loadproof serve`: the absorber in the foreground, for a person with another terminal."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import uvloop

from loadproof.absorber.service import Announced, serve
from loadproof.errors import Exit

if TYPE_CHECKING:
    from rich.console import Console

    from loadproof.absorber.recording import Options


def serve_here(options: Options, console: Console) -> int:
    """Serve until Ctrl-C or SIGTERM; say where, and at the end where the journal is."""
    journal = options.journal

    def announce(announced: Announced) -> None:
        console.print(
            f"listening on {announced.url} (model {announced.model}); Ctrl-C ends it", markup=False, soft_wrap=True
        )
        console.print(f"journal: {journal}, written at the end", markup=False, soft_wrap=True)

    path = uvloop.run(serve(options, announce))
    console.print(f"wrote {path}", markup=False, soft_wrap=True)
    console.print(
        f"judge it: loadproof judge --case CASE --journal {shlex.quote(str(journal))}", markup=False, soft_wrap=True
    )
    return Exit.CLEAN
