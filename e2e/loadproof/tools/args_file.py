"""How is a file of arguments read: one argument per line, # comments, our values in braces?"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from loadproof.errors import UsageProblem
from loadproof.tools.base import Setting

PLACEHOLDERS = ("{base_url}", "{model}", "{tokenizer}", "{out}", "{seed}")


def read_args(path: Path) -> list[str]:
    """Return the arguments of a file. Raises UsageProblem when it is unreadable or holds none."""
    try:
        lines = [line.strip() for line in path.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise UsageProblem(f"{path}: cannot be read: {error}") from error
    arguments = [line for line in lines if line and not line.startswith("#")]
    if not arguments:
        raise UsageProblem(f"{path}: holds no argument; write one per line")
    return arguments


def filled(arguments: Iterable[str], setting: Setting) -> list[str]:
    """Return the arguments with each placeholder replaced by its value."""
    values = dict(
        zip(
            PLACEHOLDERS,
            (setting.base_url, setting.model, str(setting.tokenizer), str(setting.out), str(setting.seed)),
            strict=True,
        )
    )
    return [_replaced(argument, values) for argument in arguments]


def _replaced(argument: str, values: dict[str, str]) -> str:
    for placeholder, value in values.items():
        argument = argument.replace(placeholder, value)
    return argument
