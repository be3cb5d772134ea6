"""How are a few values put into a person's YAML file so that every other byte stays as it is?

The file is only composed to learn where each value stands, and the new text is spliced in there; so comments,
order, quotes and indentation survive, which writing the document anew would not promise. Left out: values that
are anchors or aliases (a clear error), and files of several documents.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from loadproof.errors import UsageProblem
from loadproof.yaml_text import compose, load, read_text

type Keys = tuple[str, ...]


class _Splice(NamedTuple):
    """Replace text[start:end] by `new`."""

    start: int
    end: int
    new: str


def with_values(path: Path, values: Mapping[Keys, str]) -> str:
    """Return the file's text with the value at each path of keys replaced, or added where it is not there.

    Raises UsageProblem when the file is unreadable, is not a mapping, or has something else than a mapping where
    one is needed.
    """
    text = read_text(path)
    root = compose(text, str(path), typ="rt")
    if not isinstance(root, MappingNode) or not root.value:
        raise UsageProblem(f"{path}: must be a mapping of keys, as the tool's own documentation describes it")
    load(text, str(path))  # a key given twice is seen only here
    splices = [_splice(text, root, keys, value, path) for keys, value in values.items()]
    for splice in sorted(splices, reverse=True):
        text = text[: splice.start] + splice.new + text[splice.end :]
    _check(text, values, path)
    return text


def _splice(text: str, root: MappingNode, keys: Keys, value: str, path: Path) -> _Splice:
    mapping = root
    for depth, name in enumerate(keys):
        rest = keys[depth + 1 :]
        key, found = _entry(mapping, name, path)
        if key is None or found is None:
            return _added(text, mapping, name, _flow(rest, value))
        if isinstance(found, ScalarNode) and (not rest or _is_nothing(found)):
            return _replaced(text, key, found, _flow(rest, value))
        if not rest or not isinstance(found, MappingNode):
            wanted = f"a mapping that holds {rest[0]}" if rest else "one text"
            raise UsageProblem(f"{path}:{key.start_mark.line + 1}: {'.'.join(keys[: depth + 1])} must be {wanted}")
        mapping = found
    raise AssertionError(keys)  # the last key has no rest, so it returns or raises


def _entry(mapping: MappingNode, name: str, path: Path) -> tuple[Node | None, Node | None]:
    key, value = next(((k, v) for k, v in mapping.value if k.value == name), (None, None))
    if key is not None and value is not None and (value.anchor or value.start_mark.index < key.end_mark.index):
        raise UsageProblem(f"{path}:{key.start_mark.line + 1}: {name} is an anchor or an alias, and is overwritten: "
                           "write the value itself")  # fmt: skip
    return key, value


def _replaced(text: str, key: Node, old: Node, new: str) -> _Splice:
    start, end = old.start_mark.index, old.end_mark.index
    if start == end:  # nothing is written there, and its mark is at whatever comes next
        start = end = text.find(":", key.end_mark.index) + 1
        return _Splice(start, end, f" {new}")
    return _Splice(start, end, new + ("\n" if text[start:end].endswith("\n") else ""))


def _is_nothing(node: Node) -> bool:
    return isinstance(node, ScalarNode) and str(node.tag).endswith(":null")


def _flow(keys: Keys, value: str) -> str:
    """Return `"value"`, or `{key: {key: "value"}}`."""
    text = json.dumps(value, ensure_ascii=False)
    for key in reversed(keys):
        text = f"{{{key}: {text}}}"
    return text


def _added(text: str, mapping: MappingNode, key: str, value: str) -> _Splice:
    """Return the splice that puts `key: value` first into the mapping."""
    start = mapping.start_mark.index
    if mapping.flow_style:
        start = text.index("{", start) + 1
        return _Splice(start, start, f"{key}: {value}{', ' if mapping.value else ''}")
    start = mapping.value[0][0].start_mark.index
    return _Splice(start, start, f"{key}: {value}\n{' ' * mapping.value[0][0].start_mark.column}")


def _check(text: str, values: Mapping[Keys, str], path: Path) -> None:
    """Read the result back: whatever YAML can do beyond what is foreseen above must not go unnoticed."""
    for keys, value in values.items():
        try:
            read: Any = load(text, str(path))
            for key in keys:
                read = read[key]
        except (UsageProblem, LookupError, TypeError):
            read = None
        if read != value:
            raise UsageProblem(f"{path}: {'.'.join(keys)} cannot be overwritten; write it on a line of its own")
