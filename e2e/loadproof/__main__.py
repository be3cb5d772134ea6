"""`loadproof` and `python -m loadproof`: the command line, quiet when interrupted while it is still loading."""

from __future__ import annotations

import sys


def main() -> int:
    """Load and run the command line; return its exit code."""
    try:
        from loadproof.cli import main as command_line  # noqa: PLC0415 -- loading takes a second, and may be interrupted
    except KeyboardInterrupt:
        sys.stderr.write("loadproof: interrupted\n")
        return 130
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
