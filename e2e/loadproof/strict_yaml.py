"""Does a YAML text hold exactly what a model allows, and if not, what is wrong on which line?

The nodes of a YAML 1.2 text (`loadproof.yaml_text`) become plain values while the line of every key is kept,
and pydantic validates them as strict JSON (so that lists may fill tuples). Every problem comes in one
`UsageProblem`, a line each: `FILE:LINE: key.path: what is wrong`. The wording is in `loadproof.plain_words`.

Left out on purpose: anchors, aliases, merge keys and tags (a case is read by people: each value stands where
it counts), several documents, dates (they stay text).
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import BaseModel, ValidationError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from loadproof.errors import UsageProblem
from loadproof.model_places import Where
from loadproof.plain_words import MISSING, Problem, dotted, keys_of, problems_of, shown
from loadproof.yaml_text import compose, read_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

_MOST_TOLD = 100
_TAG = "tag:yaml.org,2002:"


def read_strict[M: BaseModel](path: Path, model: type[M], context: Mapping[str, object] | None = None) -> M:
    """Return the `model` that the YAML file holds; its validators are given the `context`.

    Raises:
        UsageProblem: the file cannot be read as text, or `read_strict_text` says what is wrong in it.
    """
    return read_strict_text(read_text(path), str(path), model, context)


def read_strict_text[M: BaseModel](
    text: str, name: str, model: type[M], context: Mapping[str, object] | None = None
) -> M:
    """Return the `model` that the YAML text holds; `name` stands for the file in messages.

    Raises:
        UsageProblem: not YAML, or not what the model allows; all problems are listed, in line order.
    """
    root = compose(text, name)
    if root is None:
        raise UsageProblem(f"{name}: is empty; it needs {keys_of(model)}")
    document = _Document()
    data = document.value(root, (), root.start_mark.line + 1)
    if not isinstance(data, dict) and not document.problems:
        document.reject((), f"expected a mapping with {keys_of(model)}, got {shown(data)}")
    found = document.validated(data, model, context) if isinstance(data, dict) else None
    if found is not None and not document.problems:
        return found
    raise UsageProblem(document.report(name))


@dataclass
class _Document:
    """Plain values out of nodes, the line of every key on the way, and what cannot be read.

    `unread` are the places whose value is unknown: what the model says about them is not worth telling. `partial` are
    the mappings with a key that is unknown: they may well hold what the model misses there.
    """

    lines: dict[Where, int] = field(default_factory=dict)
    problems: list[tuple[int, Problem]] = field(default_factory=list)
    unread: set[Where] = field(default_factory=set)
    partial: set[Where] = field(default_factory=set)

    def reject(self, where: Where, what: str, line: int | None = None) -> None:
        self.problems.append((self.line_of(where) if line is None else line, Problem(where, what)))

    def value(self, node: Node, where: Where, line: int) -> object:
        """Return the node as dict, list, text, number, bool or None; what cannot be read is None."""
        self.lines[where] = line
        if node.anchor is not None:
            what = f"the anchor or alias {node.anchor!r} is not read here; write the value itself"
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
                self.reject(where, _odd_key(key_node), line)
                self.partial.add(where)
            elif key in found:
                first = self.lines[*where, key]
                self.reject((*where, key), f"is given twice, first on line {first}; keep one of them", line)
            else:
                found[key] = self.value(value_node, (*where, key), line)
        return found

    def validated[M: BaseModel](self, data: object, model: type[M], context: Mapping[str, object] | None) -> M | None:
        """Return the model of `data`, or None and the problems that pydantic found, in our words."""
        try:
            return model.model_validate_json(json.dumps(data), context=context)
        except ValidationError as error:
            for problem in problems_of(error, model):
                if not self._follows(problem):
                    self.reject(*problem)
        return None

    def _follows(self, problem: Problem) -> bool:
        """Does what the model says follow from something that could not be read?"""
        missing_from = problem.where[:-1] if problem.what.startswith(MISSING) else None
        return (
            problem.where in self.partial
            or missing_from in self.partial
            or any(_concerns(problem.where, place) for place in self.unread)
        )

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


def _concerns(where: Where, place: Where) -> bool:
    """Does what is said of `where` rest on what stands at `place`: is one of them within the other?"""
    shared = min(len(where), len(place))
    return where[:shared] == place[:shared]


def _key(node: Node) -> str | None:
    if not isinstance(node, ScalarNode) or node.tag != _TAG + "str" or node.anchor is not None:
        return None
    return str(node.value) if node.value.isprintable() and node.value else None


def _odd_key(node: Node) -> str:
    source = ascii(node.value) if isinstance(node, ScalarNode) else "a list or a mapping"
    if isinstance(node, ScalarNode) and not node.value.isprintable():
        return f"the key {source} holds a character that is not to be seen; type it anew"
    return f"a key must be plain text, got {source}; put quotes around it"


def _scalar(node: Node) -> object:
    """Return the value of a scalar node by YAML 1.2's core schema.

    Raises:
        ValueError: the tag is not one that is read, or the text is not what its tag says.
    """
    kind = str(node.tag).removeprefix(_TAG)
    read = _SCALARS.get(kind) if isinstance(node, ScalarNode) else None
    if read is None:
        raise ValueError(f"the tag {str(node.tag).replace(_TAG, '!!')} is not read here; leave it out")
    try:
        return read(node.value)
    except (ValueError, KeyError, OverflowError) as error:
        shown_part = node.value if len(node.value) <= 40 else node.value[:37] + "..."
        raise ValueError(f"cannot be read as {_KINDS.get(kind, kind)}: {shown_part!r}") from error


def _text(value: str) -> str:
    value.encode()  # an escaped half of a surrogate pair is a ValueError here, not in somebody's terminal
    return value


def _whole(value: str) -> int:
    # 010 is ten in YAML 1.2 and an error in Python's base 0
    return int(value, 0 if value.lstrip("+-")[:2] in {"0x", "0o"} else 10)


def _number(value: str) -> float:
    plain = value.lower().replace(".inf", "inf").replace(".nan", "nan")
    number = float(plain)
    if math.isinf(number) and "inf" not in plain:
        raise OverflowError(value)  # 1e400 is not infinite, it is only beyond what we can hold
    return number


_KINDS = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
_SCALARS: dict[str, Callable[[str], object]] = {
    "str": _text,
    "timestamp": _text,
    "int": _whole,
    "float": _number,
    "bool": lambda value: {"true": True, "false": False}[value.lower()],
    "null": lambda _: None,
}
