"""Which flags does this llm-d-inference-sim know, and how does it take times?

Method: its own `--help`, which lists every flag with the type of its value. It has no `--version`. Up to v0.8 a time
is an integer, in milliseconds; from v0.9.0 it is a Go duration (`100ms`), and a bare number is rejected. Both cut a
time to whole milliseconds: v0.9.1 takes `900us` and waits 0 (tried). So a time that is not a whole number of
milliseconds is refused here, in either dialect. Left out: whether the values of other flags are good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec

from loadproof.errors import UsageProblem
from loadproof.process import clean_environment, run_to_end, tail
from loadproof.simulators.problems import HOW_TO_GET, NAME, SimCannotExpress, SimMissing, SimNotReady, SimRejectedFlag

HELP_NAME = f"{NAME}-help"
TOKENIZERS_FLAG = "--tokenizers-cache-dir"
_NO_TOKENIZER = "versions from 0.7 on have no tokenizer of their own: leave tokenizer_dir out, or use v0.6.1"
_TIME_FLAG = "--time-to-first-token"
_FLOAT_NOISE_ULPS = 8  # of a few additions and multiplications; a millisecond is far above it up to a day

# pflag prints "  -v, --v Level   text", "  --x   text" for a switch, "  --x strings[=y]  text" for an optional value.
_FLAG = re.compile(
    r"^ +(?:-\w, )?(?P<flag>--[\w.-]+)(?: (?P<type>[^\s\[]+))?(?P<optional>\[=[^\]]*\])?(?: {2}|$)", re.MULTILINE
)


class Dialect(StrEnum):
    """How it takes times; `str` of it is for people."""

    INTEGERS = "integer milliseconds"
    DURATIONS = "Go durations"


_BY_TYPE = {"int": Dialect.INTEGERS, "duration": Dialect.DURATIONS}
_UNIT = {Dialect.INTEGERS: "", Dialect.DURATIONS: "ms"}


class Speech(msgspec.Struct, frozen=True):
    """What one executable understands: its dialect, and its long flags, each with whether the next word is its value.

    `flags` maps "--name" to True where a value follows as a word of its own.
    """

    dialect: Dialect
    flags: dict[str, bool]

    def time(self, option: str, seconds: float) -> str:
        """Return `seconds` (finite, not negative) as a flag's value.

        Raises SimCannotExpress, with `option` in it, for what is not a whole number of milliseconds.
        """
        return f"{whole_milliseconds(option, seconds, self.dialect)}{_UNIT[self.dialect]}"

    def require(self, words: Sequence[str]) -> None:
        """Raise SimRejectedFlag for the first long flag among `words`, an argument list, that `--help` lacks."""
        for flag in self._long_flags(words):
            if flag not in self.flags:
                hint = _NO_TOKENIZER if flag == TOKENIZERS_FLAG else f"`{NAME} --help` lists what it knows"
                raise SimRejectedFlag(f"{NAME}: this version does not know {flag}; {hint}")

    def _long_flags(self, words: Sequence[str]) -> Iterator[str]:
        rest = iter(words)
        for word in rest:
            if word == "--":  # what follows is not read as flags
                return
            flag, has_value, _ = word.partition("=")
            if flag.startswith("--"):
                yield flag
                if not has_value and self.flags.get(flag):
                    next(rest, None)


def whole_milliseconds(option: str, seconds: float, dialect: Dialect) -> int:
    """Return `seconds` in milliseconds, exactly but for the noise of binary fractions (0.1 + 0.2 is 300).

    Raises SimCannotExpress for anything else: it would be cut, 0.9 ms to nothing.
    """
    whole = round(seconds * 1000)
    noise = _FLOAT_NOISE_ULPS * math.ulp(seconds)
    if abs(seconds - whole / 1000) <= noise and bool(whole) == bool(seconds):
        return whole
    possible = [milliseconds for milliseconds in (int(seconds * 1000), int(seconds * 1000) + 1) if milliseconds]
    raise SimCannotExpress(
        option,
        f"{option}: {seconds!r} s is not a whole number of milliseconds, and {NAME} (this one takes {dialect}) cuts "
        f"times to those; possible is {' or '.join(f'{each / 1000!r} s ({each} ms)' for each in possible)}",
    )


async def speech_of(executable: str, log_dir: Path, deadline_s: float) -> Speech:
    """Ask the executable for its `--help` and return what it understands; takes some 30 ms.

    Its output goes to files in `log_dir`, which stay only where something was wrong with it.
    Raises SimMissing when it cannot be run, or is something else than llm-d-inference-sim; SimNotReady when it has
    not ended after `deadline_s` seconds.
    """
    logs = [log_dir / f"{HELP_NAME}.{which}" for which in ("stdout", "stderr")]
    try:
        ended = await run_to_end(
            [executable, "--help"], log_dir=log_dir, name=HELP_NAME, env=clean_environment({}), deadline_s=deadline_s
        )
    except UsageProblem as problem:
        raise SimMissing(f"{problem}\n{HOW_TO_GET}") from problem
    if ended.stopped_because:
        raise SimNotReady(f"{executable} --help {ended.says()}\n{tail(*logs)}")
    speech = read_help("\n".join(log.read_text(errors="replace") for log in logs))
    if speech is None:
        raise SimMissing(f"{executable} --help {ended.says()}, and it does not say how it takes {_TIME_FLAG}: it "
                         f"cannot run here or it is no {NAME} that we know; {HOW_TO_GET}\n{tail(*logs)}")  # fmt: skip
    for log in logs:
        log.unlink()
    return speech


def read_help(text: str) -> Speech | None:
    """Return what the output of `--help` says, None if it is in neither dialect."""
    found = list(_FLAG.finditer(text))
    types = {match["flag"]: match["type"] or "" for match in found}
    dialect = _BY_TYPE.get(types.get(_TIME_FLAG, ""))
    flags = {match["flag"]: bool(match["type"]) and not match["optional"] for match in found}
    return None if dialect is None else Speech(dialect, flags)
