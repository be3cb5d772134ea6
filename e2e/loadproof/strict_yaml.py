"""Does a YAML text hold exactly what a model allows, and if not, what is wrong on which line?

YAML 1.2 is composed to nodes by ruamel.yaml, the nodes become plain values while the line of every key is
kept, and pydantic validates them as strict JSON (so that lists may fill tuples). Every problem comes in one
`UsageProblem`, a line each: `FILE:LINE: key.path: what is wrong`. The wording is in `loadproof.plain_words`.

Left out on purpose: anchors, aliases, merge keys and tags (a case is read by people: each value stands where
it counts), several documents, dates (they stay text).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from loadproof.errors import UsageProblem
from loadproof.plain_words import Problem, Where, dotted, problems_of, required_keys, shown

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_BYTES = 1024 * 1024
_DEEPEST = 32
_MOST_TOLD = 100
_TAG = "tag:yaml.org,2002:"


def read_strict[M: BaseModel](path: Path, model: type[M]) -> M:
    """Return the `model` that the YAML file holds.

    Raises:
        UsageProblem: the file cannot be read, is larger than `LIMIT_BYTES`, is not UTF-8, or
            `read_strict_text` says what is wrong in it.
    """
    if not path.is_file():
        raise UsageProblem(f"{path}: {'is not a file' if path.exists() else 'no such file'}")
    try:
        with path.open("rb") as file:
            raw = file.read(LIMIT_BYTES + 1)
    except OSError as error:
        raise UsageProblem(f"{path}: cannot be read: {error.strerror}") from error
    if len(raw) > LIMIT_BYTES:
        raise UsageProblem(f"{path}: is larger than {LIMIT_BYTES} bytes; no file of this kind is that long")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageProblem(f"{path}:{line}: is not UTF-8 text; save it as UTF-8") from error
    return read_strict_text(text, str(path), model)


def read_strict_text[M: BaseModel](text: str, name: str, model: type[M]) -> M:
    """Return the `model` that the YAML text holds; `name` stands for the file in messages.

    Raises:
        UsageProblem: not YAML, or not what the model allows; all problems are listed, in line order.
    """
    root = _compose(text, name)
    if root is None:
        raise UsageProblem(f"{name}: is empty; it needs the keys {required_keys(model)}")
    document = _Document()
    data = document.value(root, (), root.start_mark.line + 1)
    if not isinstance(data, dict) and not document.problems:
        document.reject((), f"expected a mapping with the keys {required_keys(model)}, got {shown(data)}")
    found = document.validated(data, model) if isinstance(data, dict) else None
    if found is not None and not document.problems:
        return found
    raise UsageProblem(document.report(name))


def _compose(text: str, name: str) -> Node | None:
    """Return the root node of the only document in `text`, None when there is nothing in it."""
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise UsageProblem(f"{name}:{line}: not YAML: a character that may not stand here: {error.reason}") from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}" if mark else name
        told = ", ".join(part for part in (error.context, error.problem) if part)
        raise UsageProblem(f"{where}: not YAML: {told}") from error
    except RecursionError as error:
        raise UsageProblem(f"{name}: is nested too deeply; at most {_DEEPEST} levels are read") from error
    except (YAMLError, ValueError, LookupError) as error:
        # ruamel's scanner lets some of Python's own errors through, on a number too large for a character, say
        raise UsageProblem(f"{name}: not YAML: {error}") from error
    return root


@dataclass
class _Document:
    """Plain values out of nodes, the line of every key on the way, and what cannot be read.

    `unread` are the places whose value is unknown: what the model says about them is not worth telling.
    """

    lines: dict[Where, int] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    unread: set[Where] = field(default_factory=set)

    def reject(self, where: Where, what: str, line: int | None = None) -> None:
        self.problems.append((self.line_of(where) if line is None else line, Problem(where, what)))

    def value(self, node: Node, where: Where, line: int) -> object:
        """Return the node as dict, list, text, number, bool or None; what cannot be read is None."""
        self.lines[where] = line
        if node.anchor is not None:
            what = f"the anchor or alias {node.anchor!r} is not read here; write the value itself"
        elif len(where) > _DEEPEST:
            what = f"is nested too deeply; at most {_DEEPEST} levels are read"
        elif isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return self._mapping(node, where)
        elif isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [self.value(item, (*where, i), item.start_mark.line + 1) for i, item in enumerate(node.value)]
        else:
            try:
                return _scalar(node)
            except ValueError as error:
                what = str(error)
        self.reject(where, what)
        self.unread.add(where)
        return None

    def _mapping(self, node: MappingNode, where: Where) -> dict[str, object]:
        found: dict[str, object] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            key = _key(key_node)
            if key is None:
                self.reject(where, f"a key must be plain text, got {_source(key_node)}; put quotes around it", line)
            elif key in found:
                first = self.lines[*where, key]
                self.reject((*where, key), f"is given twice, first on line {first}; keep one of them", line)
            else:
                found[key] = self.value(value_node, (*where, key), line)
        return found

    def validated[M: BaseModel](self, data: object, model: type[M]) -> M | None:
        """Return the model of `data`, or None and the problems that pydantic found, in our words."""
        try:
            return model.model_validate_json(json.dumps(data))
        except ValidationError as error:
            for problem in problems_of(error, model):
                if not any(problem.where[: len(place)] == place for place in self.unread):
                    self.reject(*problem)
        return None

    def line_of(self, where: Where) -> int:
        """Return the line of the key; of a key that is not there, the line of the mapping that lacks it."""
        while where and where not in self.lines:
            where = where[:-1]
        return self.lines.get(where, 1)

    def report(self, name: str) -> str:
        """Return every problem on a line of its own, in line order; a file of nothing else is cut short."""
        ordered = sorted(self.problems, key=lambda located: located[0])
        told = (f"{name}:{line}: {dotted(p.where) + ': ' if p.where else ''}{p.what}" for line, p in ordered)
        lines = list(dict.fromkeys(told))
        cut = [f"{name}: and {len(lines) - _MOST_TOLD} more problems"] if len(lines) > _MOST_TOLD else []
        return "\n".join(lines[:_MOST_TOLD] + cut)


def _key(node: Node) -> str | None:
    if not isinstance(node, ScalarNode) or node.tag != _TAG + "str" or node.anchor is not None:
        return None
    return str(node.value) if node.value.isprintable() and node.value else None


def _source(node: Node) -> str:
    return repr(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"


def _scalar(node: Node) -> object:
    """Return the value of a scalar node by YAML 1.2's core schema.

    Raises:
        ValueError: the tag is not one that is read, or the text is not what its tag says.
    """
    read = _SCALARS.get(str(node.tag).removeprefix(_TAG)) if isinstance(node, ScalarNode) else None
    if read is None:
        raise ValueError(f"the tag {str(node.tag).replace(_TAG, '!!')} is not read here; leave it out")
    try:
        return read(node.value)
    except (ValueError, KeyError) as error:
        raise ValueError(f"cannot be read: {node.value[:40]!r}") from error


def _text(value: str) -> str:
    value.encode()  # an escaped half of a surrogate pair is a ValueError here, not in somebody's terminal
    return value


def _whole(value: str) -> int:
    # 010 is ten in YAML 1.2 and an error in Python's base 0
    return int(value, 0 if value.lstrip("+-")[:2] in {"0x", "0o"} else 10)


def _number(value: str) -> float:
    return float(
        value.replace(".inf", "inf").replace(".Inf", "inf").replace(".INF", "inf").lower().replace(".nan", "nan")
    )


_SCALARS: dict[str, Callable[[str], object]] = {
    "str": _text,
    "timestamp": _text,
    "int": _whole,
    "float": _number,
    "bool": lambda value: {"true": True, "false": False}[value.lower()],
    "null": lambda _: None,
}
