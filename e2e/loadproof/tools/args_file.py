"""How is a file of arguments read: one argument per line, # comments, our values in braces?"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.plain_words import nearest
from loadproof.tools.base import Setting

PLACEHOLDERS = ("base_url", "model", "tokenizer", "out", "seed")
_PLACEHOLDER = re.compile(r"\{(" + "|".join(PLACEHOLDERS) + r")\}")
_IN_BRACES = re.compile(r"\{(\w+)\}")


def read_args(path: Path) -> list[str]:
    """Return the arguments of a file. Raises UsageProblem when it is unreadable or holds none."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path}: cannot be read: {error}") from error
    arguments = [line for line in lines if line and not line.startswith("#")]
    if not arguments:
        raise UsageProblem(f"{path}: holds no argument; write one per line")
    for word in _IN_BRACES.findall(" ".join(arguments)):
        if word not in PLACEHOLDERS and (near := nearest(word, PLACEHOLDERS)):
            raise UsageProblem(f"{path}: nothing replaces {{{word}}}{near}")
    return arguments


def filled(arguments: Iterable[str], setting: Setting) -> list[str]:
    """Return the arguments with each {base_url} {model} {tokenizer} {out} {seed} replaced by its value."""
    return [_PLACEHOLDER.sub(lambda found: str(getattr(setting, found[1])), argument) for argument in arguments]
