"""Which profile do a file or a name, and flags on the command line, make together? A flag wins over the other."""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import ValidationError

from loadproof.absorber.profile import NAMED, Profile, profile_named
from loadproof.errors import UsageProblem
from loadproof.plain_words import dotted, problems_of
from loadproof.strict_yaml import read_strict


def read_profile(source: str | None, ttft_s: float | None, itl_s: float | None, tokens: int | None) -> Profile:
    """Return the profile of a file or a name; None leaves its value, or the default.

    Raises UsageProblem that names the file or the flag.
    """
    base = _profile_of(source) if source is not None else Profile()
    flags = {"ttft_s": ttft_s, "itl_s": itl_s, "output_tokens": tokens}
    try:
        return Profile.model_validate({**base.model_dump(), **{k: v for k, v in flags.items() if v is not None}})
    except ValidationError as error:
        told = (f"--{dotted(where).replace('_', '-')}: {what}" for where, what in problems_of(error, Profile))
        raise UsageProblem("\n".join(told)) from error


def _profile_of(source: str) -> Profile:
    """Return the profile that has this name, else the one in this file: a file can also be called ./NAME."""
    if source not in NAMED and os.path.lexists(source):
        return read_strict(Path(source), Profile)
    try:
        return profile_named(source)
    except ValueError as error:
        raise UsageProblem(f"--profile: {source}: no such file, and {error}") from error
