"""Which nodes does a YAML file hold, and if it is not YAML, which mistake is it and on which line?

The parser complains about its grammar, often where it gave up: an open quote at the end of the file. Here the
commonest complaints become the mistake that a person made and the line where it was made. What is not in the
table keeps the parser's words. Left out: what the nodes mean (`loadproof.strict_yaml`).
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.reader import ReaderError

from loadproof.errors import UsageProblem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from ruamel.yaml.nodes import Node

LIMIT_BYTES = 1024 * 1024
DEEPEST = 32
"""How many levels a document may have."""

_TOO_DEEP = f"is nested too deeply; at most {DEEPEST} levels are read"
_ESCAPE = re.compile(r"\\U(?!0010|000)[0-9a-fA-F]{8}")


class _Mistake(NamedTuple):
    """What a complaint of the parser means; `begun`: it is told where the thing begins, not where reading ended."""

    complaint: str
    words: str
    begun: bool = False


_MISTAKES = (
    _Mistake(r"quoted scalar, found unexpected", "the quote that opens here is never closed", begun=True),
    _Mistake(r"could not find expected ':'", "this is not `key: value`; a colon and a space follow a key", begun=True),
    _Mistake(r"a flow (mapping|sequence),", "the bracket that opens here is not closed, or something in it is "
             "misplaced", begun=True),
    _Mistake(r"a flow node,", "a value is missing here, or a bracket above is not closed"),
    _Mistake(r"mapping values are not allowed", "a second `key: value` where one value may stand; put quotes around a "
             "text that holds `: `, or mend the indentation"),
    _Mistake(r"'\\t' that cannot start|tab", "a tab may not indent; use spaces"),
    _Mistake(r"found character (.+) that cannot start", "a text may not begin with {0}; put quotes around it"),
    _Mistake(r"expected <block end>, but found", "the indentation fits no line above it"),
    _Mistake(r"undefined alias '?(.+?)'?$", "'*{0}' stands for nothing; put quotes around a text that begins with *"),
    _Mistake(r"found another document", "a second document begins here; a file holds one"),
    _Mistake(r"unknown escape character '(.+)'", "in double quotes \\{0} means nothing; use single quotes"),
    _Mistake(r'found duplicate key "(.+?)" with', "the key {0!r} is given twice; keep one of them"),
    _Mistake(r"could not determine a constructor for the tag '(.+)'", "the tag {0} is not read here; leave it out"),
    _Mistake(r"maximum depth of data structure", _TOO_DEEP),
)  # fmt: skip


def read_text(path: Path) -> str:
    """Return the text of a file, line ends as they are, without a byte order mark.

    Raises:
        UsageProblem: the file cannot be read, is larger than `LIMIT_BYTES`, or is not UTF-8.
    """
    if not path.is_file():
        absent = "is a symbolic link that leads nowhere" if path.is_symlink() else "no such file"
        raise UsageProblem(f"{path}: {'is not a file' if path.exists() else absent}")
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageProblem(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > LIMIT_BYTES:
        raise UsageProblem(f"{path}: is larger than {LIMIT_BYTES} bytes; no file of this kind is that long")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageProblem(f"{path}:{line}: is not UTF-8 text; save it as UTF-8") from error


def compose(text: str, name: str, *, typ: Literal["safe", "rt"] = "safe") -> Node | None:
    """Return the root node of the only document in `text`, None when there is nothing in it.

    `typ` is the kind of reader: `rt` knows where comments end. Raises UsageProblem with `name` and line.
    """
    with _told(text, name):
        root: Node | None = _reader(typ).compose(text)
    return root


def load(text: str, name: str) -> object:
    """Return the text's plain values. Raises UsageProblem with `name` and line, for a key given twice too."""
    with _told(text, name):
        return _reader("safe").load(text)


def _reader(typ: str) -> YAML:
    reader = YAML(typ=typ, pure=True)
    reader.max_depth = DEEPEST
    return reader


@contextmanager
def _told(text: str, name: str) -> Iterator[None]:
    """Turn what the parser raises into a UsageProblem."""
    try:
        yield
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        what = f"the character U+{error.character:04X} may not stand here; take it out"
        raise UsageProblem(f"{name}:{line}: {what}") from error
    except MarkedYAMLError as error:
        raise UsageProblem(f"{name}{_mistake(error)}") from error
    except RecursionError as error:
        raise UsageProblem(f"{name}: {_TOO_DEEP}") from error
    except (YAMLError, ValueError, LookupError) as error:
        # the scanner lets some of Python's own errors through, which know no line; the only one that is known
        if escape := _ESCAPE.search(text):
            line = text.count("\n", 0, escape.start()) + 1
            raise UsageProblem(f"{name}:{line}: no character has the number {escape[0]}") from error
        raise UsageProblem(f"{name}: not YAML: {error}") from error


def _mistake(error: MarkedYAMLError) -> str:
    """Return `:LINE: what is wrong`."""
    told = ", ".join(part for part in (error.context, error.problem) if part)
    mark, words = error.problem_mark or error.context_mark, f"not YAML: {told}"
    for mistake in _MISTAKES:
        if found := re.search(mistake.complaint, told):
            mark = error.context_mark or mark if mistake.begun else mark
            words = mistake.words.format(*found.groups())
            break
    return f":{mark.line + 1}: {words}" if mark else f": {words}"
