"""`python -m loadproof`: the same as the `loadproof` program."""

from __future__ import annotations

import sys

from loadproof.cli import main

if __name__ == "__main__":
    sys.exit(main())
