"""The absorber as a process: prints one JSON line when it listens, exits 0 with its journal written.

The command line is the harness's and of whoever embeds it; a person uses `loadproof serve`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
import uvloop
from pydantic import ValidationError

from loadproof.absorber.profile import Profile
from loadproof.absorber.service import DEFAULT_MODEL, Announced, Options, serve
from loadproof.errors import Exit, LoadproofError, UsageProblem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadproof.absorber")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--profile-json", default="{}", help="a profile as JSON")
    parser.add_argument("--journal", type=Path, required=True, help="the folder for the journal")
    parser.add_argument("--lifeline", type=int, default=None, metavar="FD", help="end when this descriptor closes")
    return parser


def _profile(text: str) -> Profile:
    try:
        return Profile.model_validate_json(text)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'JSON'}: {e['msg']}" for e in error.errors())
        raise UsageProblem(f"--profile-json: {wrong}") from error


def _announce(announced: Announced) -> None:
    sys.stdout.write(msgspec.json.encode(announced).decode() + "\n")
    sys.stdout.flush()


def main() -> int:
    """Run it."""
    given = _parser().parse_args()
    try:
        options = Options(profile=_profile(given.profile_json), journal=given.journal, host=given.host,
                          port=given.port, model=given.model, lifeline=given.lifeline)  # fmt: skip
        uvloop.run(serve(options, _announce))
    except LoadproofError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return Exit.CLEAN


if __name__ == "__main__":
    sys.exit(main())
