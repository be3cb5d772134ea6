"""Which failures may a case accept of a tool, and of which findings is that said?

An allowance names a check, or of a load in stages one stage of it (`rate.mean[2]`); without a stage it is for all of
them. Left out: what becomes of an allowed failure (`loadproof.checks.every`).
"""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from loadproof.plain_words import nearest
from loadproof.strict_model import Sentence, Strict

BY_STAGE = {
    "rate": ("mean", "gap", "cap"),
    "arrivals": ("even", "halves", "silence", "burst", "gaps", "counts", "order", "trend", "lull", "lattice"),
    "concurrency": ("slots", "refill", "ramp", "waves", "held"),
}
"""The checks that look at each stage by itself."""

OF_ALL = {
    "payload": (
        "path", "model", "stream", "ignore_eos", "max_tokens", "prompt_tokens", "prompts", "prefixes", "fields",
        "headers",
    ),
    "connections": ("reuse", "cut"),
    "reports": ("output_tokens",),
}  # fmt: skip

MAY_BE_ALLOWED = tuple(f"{room}.{name}" for room, names in {**OF_ALL, **BY_STAGE}.items() for name in names)
"""The checks that a case may allow a tool to fail; of a report its tokens, which a tool may count in its own way."""

_STAGE = re.compile(r"\[([1-9][0-9]{0,8})\]\Z")


def split_stage(check: str) -> tuple[str, int | None]:
    """Return the check without its stage, and the stage, from 1: `rate.mean[2]` is ("rate.mean", 2)."""
    found = _STAGE.search(check)
    return (check, None) if found is None else (check[: found.start()], int(found[1]))


def problem_of(check: str) -> str:
    """Return what is wrong with the name of a check that is to be allowed; empty when nothing is."""
    name, stage = split_stage(check)
    if name.strip().lower().startswith("count"):
        return "a wrong count is never allowed; leave this allowance out"
    if name not in MAY_BE_ALLOWED:
        return f"no check {check!r}{nearest(name, MAY_BE_ALLOWED) or '; known are ' + ', '.join(MAY_BE_ALLOWED)}"
    if stage is not None and name.partition(".")[0] not in BY_STAGE:
        return f"{name} is of the load as a whole and not of a stage; did you mean {name!r}?"
    return ""


def _may_be_allowed(check: str) -> str:
    if problem := problem_of(check):
        raise ValueError(problem)
    return check


class Allowance(Strict):
    """A check that this tool is known to fail, and why that is accepted; it is printed and never for the count."""

    check: Annotated[str, Field(min_length=1), AfterValidator(_may_be_allowed)]
    because: Sentence

    def covers(self, check: str) -> bool:
        """Is this for the finding of that name?"""
        name, stage = split_stage(self.check)
        return check == self.check if stage is not None else split_stage(check)[0] == name
