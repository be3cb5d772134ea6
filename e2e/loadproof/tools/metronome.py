"""metronome: our own reference sender, run as a tool like the others."""

from __future__ import annotations

import sys
from pathlib import Path

from loadproof import __version__
from loadproof.reported import CLAIMS_FILE, Reported, read_claims
from loadproof.tools.args_file import filled, read_args
from loadproof.tools.base import Command, Setting


class Metronome:
    """The adapter."""

    name = "metronome"

    def executable(self, config: Path) -> Path | None:
        """Return our own interpreter: it is always there."""
        del config
        return Path(sys.executable)

    def how_to_get(self) -> str:
        """Return the one line that says how to get it."""
        return "it is part of loadproof"

    def version(self) -> str:
        """Return our own version."""
        return __version__

    def check(self, config: Path) -> None:
        """Raise UsageProblem for a file without an argument; wrong ones are told by the sender itself."""
        read_args(config)

    def command(self, config: Path, executable: Path, setting: Setting) -> Command:
        """Return the command: the file's arguments, then where, what and with which seed."""
        ours = ["--base-url", setting.base_url, "--model", setting.model, "--out", str(setting.out)]
        arguments = filled(read_args(config), setting)
        # A seed in the file wins: it is the person's own.
        seed = [] if "--seed" in arguments else ["--seed", str(setting.seed)]
        return Command(
            argv=[str(executable), "-P", "-m", "loadproof.metronome", *arguments, *ours, *seed], cwd=setting.out
        )

    def claims(self, out: Path) -> Reported | None:
        """Read claims.json."""
        path = out / CLAIMS_FILE
        return read_claims(path) if path.is_file() else None
