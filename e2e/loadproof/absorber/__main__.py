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
from loadproof.absorber.recording import DEFAULT_MODEL, Options
from loadproof.absorber.service import Announced, serve, serve_as_worker
from loadproof.errors import Exit, LoadproofError, UsageProblem


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadproof.absorber")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--model", default=DEFAULT_MODEL)
    parser.add_argument("--profile-json", default="{}", help="a profile as JSON")
    parser.add_argument("--journal", type=Path, required=True, help="the folder for the journal")
    parser.add_argument("--level", choices=["full", "light"], default="full", help="how much is known at once")
    parser.add_argument("--workers", type=int, default=1, metavar="N")
    parser.add_argument("--no-recording", action="store_true", help="keep nothing: to measure what recording costs")
    parser.add_argument("--worker", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--inbox", type=int, default=None, help=argparse.SUPPRESS)
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
                          port=given.port, model=given.model,
                          level=given.level, workers=given.workers,
                          recording=not given.no_recording, lifeline=given.lifeline)  # fmt: skip
        if given.inbox is None:
            uvloop.run(serve(options, _announce))
        else:
            uvloop.run(serve_as_worker(options, given.worker, given.inbox))
    except LoadproofError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return Exit.CLEAN


if __name__ == "__main__":
    sys.exit(main())
