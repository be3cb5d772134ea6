"""How does a person, a case or a test start the reference sender, and what does it leave behind?

`python -m loadproof.metronome` reads the arguments, sends, and writes requests.jsonl and then claims.json into
`--out` (claims.json complete and last, so whoever sees it sees all). Exit codes: 0 all answered, 1 some request failed
or was abandoned, 3 no server, 64 bad arguments.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import uvloop

from loadproof.arrival import FORMS, Arrival, Law
from loadproof.errors import Exit, LoadproofError, UsageProblem
from loadproof.metronome.asked import PATHS, Asked
from loadproof.metronome.claims import claims_of, row
from loadproof.metronome.drive import drive
from loadproof.metronome.exchange import Exchange
from loadproof.metronome.plan import plan
from loadproof.metronome.stage import Stage
from loadproof.metronome.wrong import WRONG_KINDS, go_wrong
from loadproof.reported import CLAIMS_FILE, Reported


class _Parser(argparse.ArgumentParser):
    """argparse ends with 2, which means `unclear` here."""

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing and exiting."""
        raise UsageProblem(f"{message}; `--help` lists the arguments")


def main(argv: list[str] | None = None) -> int:
    """Run the reference sender with `argv` (default: the process's) and return its exit code."""
    try:
        return _run(_parser().parse_args(argv))
    except LoadproofError as problem:
        sys.stderr.write(f"metronome: {problem}\n")
        return problem.exit_code


def _run(args: argparse.Namespace) -> int:
    out = Path(args.out)
    asked = _asked(args)
    to_do = plan(asked, args.base_url)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / CLAIMS_FILE).unlink(missing_ok=True)  # those of an earlier run are not this one's
    except OSError as problem:
        raise UsageProblem(
            f"--out {out} cannot be used as a folder ({problem.strerror}): name another one"
        ) from problem
    _allow_open_files()
    exchanges = uvloop.run(drive(to_do))
    claims = _write(out, exchanges)
    sys.stdout.write(
        f"metronome: {claims.completed} completed, {claims.failed} failed, {claims.abandoned} abandoned"
        f" in {claims.duration_s or 0:.2f} s{_commonest_error(exchanges)}; see {out / CLAIMS_FILE}\n"
    )
    return Exit.FAIL if claims.failed or claims.abandoned else Exit.CLEAN


def _asked(args: argparse.Namespace) -> Asked:
    honest = Asked(
        model=args.model,
        stages=_stages(args),
        prompt_tokens=args.prompt_tokens,
        max_tokens=args.max_tokens,
        arrival=args.arrival or Arrival(Law.CONSTANT),
        api=args.api,
        stream=args.stream,
        ignore_eos=args.ignore_eos,
        bos=args.bos,
        seed=args.seed,
        timeout_s=args.timeout_s,
    )
    if args.arrival and all(stage.rate_per_s is None for stage in honest.stages):
        raise UsageProblem("--arrival needs --rate, or a --stage with a rate")
    return go_wrong(honest, args.wrong)


def _stages(args: argparse.Namespace) -> tuple[Stage, ...]:
    plain = {"rate_per_s": args.rate, "concurrency": args.concurrency, "num_requests": args.num_requests,
             "duration_s": args.duration_s, "cap": args.cap}  # fmt: skip
    if not args.stage:
        return (Stage(**plain),)
    if any(value is not None for value in plain.values()):
        raise UsageProblem("--stage says it all: leave out --rate, --concurrency, --num-requests, --duration-s, --cap")
    return tuple(map(Stage.parse, args.stage))


def _allow_open_files() -> None:
    """One connection per request in flight: a soft limit of 1024 would cut that short."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _write(out: Path, exchanges: Sequence[Exchange]) -> Reported:
    claims = claims_of(exchanges)
    _replace(out / "requests.jsonl", b"".join(msgspec.json.encode(row(exchange)) + b"\n" for exchange in exchanges))
    _replace(out / CLAIMS_FILE, msgspec.json.format(msgspec.json.encode(claims), indent=2) + b"\n")
    return claims


def _commonest_error(exchanges: Sequence[Exchange]) -> str:
    errors = Counter(each.answer.error for each in exchanges if each.answer.error)
    return "".join(f" ({count} x {error})" for error, count in errors.most_common(1))


def _replace(path: Path, content: bytes) -> None:
    """Write whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(content)
    part.replace(path)


def _whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {text}")
        return value

    read.__name__ = "whole number"  # argparse's word for it in its message
    return read


def _positive(text: str) -> float:
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"must be above 0 and finite, not {text}")
    return value


def _arrival(text: str) -> Arrival:
    try:
        return Arrival.parse(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="metronome", description=__doc__, allow_abbrev=False)
    switch = argparse.BooleanOptionalAction
    parser.add_argument("--base-url", required=True, help="like http://127.0.0.1:8000")
    parser.add_argument("--model", required=True)
    parser.add_argument("--out", required=True, help="folder for claims.json and requests.jsonl")
    parser.add_argument("--rate", type=_positive, help="open loop: requests a second")
    parser.add_argument("--arrival", type=_arrival, help=f"with a rate: {FORMS}; default constant")
    parser.add_argument("--cap", type=_whole(1), help="with --rate: at most so many in flight, what is due waits")
    parser.add_argument("--concurrency", type=_whole(1), help="closed loop: requests in flight")
    parser.add_argument("--num-requests", type=_whole(1))
    parser.add_argument(
        "--duration-s",
        type=_positive,
        help="instead: as many as the schedule holds, or, at a concurrency, nothing new after it",
    )
    parser.add_argument(
        "--stage",
        action="append",
        default=[],
        metavar="KEY=VALUE,...",
        help="instead of all these, once a stage, in order: rate=20,duration_s=5,gap_s=1 or"
        " concurrency=4,num_requests=60; gap_s without a send after its end. A rate ends by its"
        " schedule, whatever is in flight; a concurrency with its last answer",
    )
    parser.add_argument("--prompt-tokens", type=_whole(1), required=True, help="with the BOS of --bos")
    parser.add_argument("--bos", type=int, choices=(0, 1), default=1, help="BOS tokens that the server adds; default 1")
    parser.add_argument("--max-tokens", type=_whole(1), required=True)
    parser.add_argument("--api", choices=sorted(PATHS), default="completions")
    parser.add_argument("--stream", action=switch, default=True)
    parser.add_argument("--ignore-eos", action=switch, default=True)
    parser.add_argument("--seed", type=_whole(0), default=0)
    parser.add_argument("--timeout-s", type=_positive, default=60.0, help="of each request")
    kinds = ", ".join(kind.replace("%", "%%") for kind in WRONG_KINDS)
    parser.add_argument("--wrong", action="append", default=[], choices=sorted(WRONG_KINDS), metavar="KIND", help=kinds)
    return parser


if __name__ == "__main__":
    sys.exit(main())
