"""How is a file of arguments read: one argument per line, # comments, our values in braces?

Left out: what the arguments mean, that is for the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.plain_words import nearest
from loadproof.tools.base import Setting
from loadproof.yaml_text import read_text

PLACEHOLDERS = ("base_url", "model", "tokenizer", "out", "seed")
_ONE_OF = "(?:" + "|".join(PLACEHOLDERS) + ")"
_PLACEHOLDER = re.compile(rf"\{{({_ONE_OF})\}}")
_IN_BRACES = re.compile(r"\{(\w+)\}")
_DRESSED = re.compile(rf"\$\{{{_ONE_OF}\}}|\{{\{{{_ONE_OF}\}}\}}")
_UNCLOSED = re.compile(rf"\{{({_ONE_OF})(?=$|[\s/\"'])")


def read_args(path: Path) -> list[str]:
    """Return the arguments of a file. Raises UsageProblem when it is unreadable, holds none, or one is misspelt."""
    numbered = [(number, line.strip()) for number, line in enumerate(read_text(path).split("\n"), start=1)]
    arguments = [(number, line) for number, line in numbered if line and not line.startswith("#")]
    if not arguments:
        raise UsageProblem(f"{path}: holds no argument; write one per line")
    if problems := [f"{path}:{number}: {what}" for number, line in arguments for what in _problems(line)]:
        raise UsageProblem("\n".join(problems))
    return [line for _, line in arguments]


def _problems(argument: str) -> Iterator[str]:
    if "\0" in argument:
        yield "holds a NUL, which no argument can; take it out"
    for word in _IN_BRACES.findall(argument):
        if word not in PLACEHOLDERS and (near := nearest(word, PLACEHOLDERS)):
            yield f"nothing replaces {{{word}}}{near}"
    for dressed in _DRESSED.findall(argument):
        yield f"{dressed} would keep its sign or outer braces; did you mean '{{{dressed.strip('${}')}}}'?"
    for word in _UNCLOSED.findall(argument):
        yield f"the brace before {word} is not closed; did you mean '{{{word}}}'?"


def filled(arguments: Iterable[str], setting: Setting) -> list[str]:
    """Return the arguments with each {base_url} {model} {tokenizer} {out} {seed} replaced by its value."""
    return [_PLACEHOLDER.sub(lambda found: str(getattr(setting, found[1])), argument) for argument in arguments]
