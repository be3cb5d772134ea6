"""loadproof judges LLM load generators; see README.md and `loadproof --help`."""

__version__ = "0.1.0"
