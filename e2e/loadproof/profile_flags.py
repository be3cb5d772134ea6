"""Which profile do a file and flags on the command line make together? A flag wins over the file."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from loadproof.absorber.profile import Profile
from loadproof.errors import UsageProblem
from loadproof.plain_words import dotted, problems_of
from loadproof.strict_yaml import read_strict


def read_profile(file: Path | None, ttft_s: float | None, itl_s: float | None, tokens: int | None) -> Profile:
    """Return the profile; None leaves the file's value, or the default. Raises UsageProblem naming file or flag."""
    base = read_strict(file, Profile) if file else Profile()
    flags = {"ttft_s": ttft_s, "itl_s": itl_s, "output_tokens": tokens}
    try:
        return Profile.model_validate({**base.model_dump(), **{k: v for k, v in flags.items() if v is not None}})
    except ValidationError as error:
        told = (f"--{dotted(where).replace('_', '-')}: {what}" for where, what in problems_of(error, Profile))
        raise UsageProblem("\n".join(told)) from error
