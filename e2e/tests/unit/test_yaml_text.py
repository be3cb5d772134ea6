"""Is a file that is not YAML, or not even text, told by the mistake that was made, on the line where it was made?"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from loadproof.errors import UsageProblem
from loadproof.yaml_text import LIMIT_BYTES, compose, load, read_text

if TYPE_CHECKING:
    from pathlib import Path

SECOND = (
    "a second `key: value` where one value may stand; put quotes around a text that holds `: `, or mend the indentation"
)
NO_KEY = "this is not `key: value`; a colon and a space follow a key"
BRACKET = "the bracket that opens here is not closed, or something in it is misplaced"
MISTAKES = {
    "a tab before a key": ("a: 1\n\tb: 2\n", "2: a tab may not indent; use spaces"),
    "a quote open to the end": ("a: 1\nb: 'c\nd: 2\n\n", "2: the quote that opens here is never closed"),
    "a quote open to another document": ('a: "b\n---\nc: 1\n', "1: the quote that opens here is never closed"),
    "no colon": ("a: 1\nb 2\nc: 3\n", f"2: {NO_KEY}"),
    "no space": ("a:\n  b: 1\n  c:2\n  d: 3\n", f"3: {NO_KEY}"),
    "a bracket open to the end": ("a: 1\nb: [1,\n  2\nc: 3\n", f"2: {BRACKET}"),
    "a brace closed by a bracket": ("a: 1\nb: {c: 1]\nd: 3\n", f"2: {BRACKET}"),
    "a bracket open to the end, and no value": (
        "a: 1\nb: [1,\n  2,\n",
        "4: a value is missing here, or a bracket above is not closed",
    ),
    "a comma too many": ("a: [1,, 2]\n", "1: a value is missing here, or a bracket above is not closed"),
    "a colon in a text": ("a: 1\nb: see: that\n", f"2: {SECOND}"),
    "indented too far": ("a: 1\n  b: 2\n", f"2: {SECOND}"),
    "indented too little": ("a:\n    b: 2\n  c: 3\n", "3: the indentation fits no line above it"),
    "a list item among keys": ("a: 1\n- b\n", "2: the indentation fits no line above it"),
    "begins with @": ("a: @b\n", "1: a text may not begin with '@'; put quotes around it"),
    "an unknown alias": ("a: 1\nb: *c\n", "2: '*c' stands for nothing; put quotes around a text that begins with *"),
    "two documents": ("a: 1\n---\nb: 1\n", "2: a second document begins here; a file holds one"),
    "an unknown escape": ('a: 1\nb: "\\q"\n', r"2: in double quotes \q means nothing; use single quotes"),
    "an escape of no character": ('a: 1\nb: "\\U00110000"\n', r"2: no character has the number \U00110000"),
    "a control character": ("a: 1\nb: \x01\n", "2: the character U+0001 may not stand here; take it out"),
    "too deep": ("a: 1\nb: " + "[" * 5000, "2: is nested too deeply; at most 32 levels are read"),
    "not in the table": (
        "%YAML 3.0\n---\na: 1\n",
        "1: not YAML: found incompatible YAML document (version 1.* is required)",
    ),
}


def told(text: str) -> str:
    with pytest.raises(UsageProblem) as raised:
        compose(text, "f.yaml")
    return str(raised.value)


@pytest.mark.parametrize(("text", "says"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_told_where_it_was_made(text: str, says: str) -> None:
    assert told(text) == f"f.yaml:{says}"


def test_loading_tells_what_composing_does_not_see() -> None:
    for text, says in {
        "a: 1\nb: {c: 1,\n  c: 2}\n": "f.yaml:3: the key 'c' is given twice; keep one of them",
        "a: 1\nb: !secret c\n": "f.yaml:2: the tag !secret is not read here; leave it out",
    }.items():
        assert compose(text, "f.yaml") is not None
        with pytest.raises(UsageProblem) as raised:
            load(text, "f.yaml")
        assert str(raised.value) == says
    assert load("a: 1\n", "f.yaml") == {"a": 1}


def test_what_is_empty_has_no_node() -> None:
    assert compose("", "f.yaml") is None
    assert compose("# a\n\n", "f.yaml") is None


def refused(path: Path) -> str:
    with pytest.raises(UsageProblem) as raised:
        read_text(path)
    return str(raised.value)


def test_a_file_that_cannot_be_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"a\r\n# \xff")
    assert refused(file) == f"{file}:2: is not UTF-8 text; save it as UTF-8"
    file.write_bytes(b"#" * (LIMIT_BYTES + 1))
    assert refused(file) == f"{file}: is larger than {LIMIT_BYTES} bytes; no file of this kind is that long"
    file.write_bytes(b"#" * LIMIT_BYTES)
    assert len(read_text(file)) == LIMIT_BYTES


def test_text_keeps_its_line_ends_and_loses_its_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_bytes(b"\xef\xbb\xbfa\r\n\xc3\xa9\n")
    assert read_text(file) == "a\r\n\u00e9\n"


def test_what_is_no_readable_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    leads = "is a symbolic link that leads nowhere"
    for name, says in {"none": "no such file", "pipe": "is not a file", ".": "is not a file", "loop": leads}.items():
        assert refused(tmp_path / name) == f"{tmp_path / name}: {says}"


def test_a_file_that_may_not_be_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "f"
    file.write_text("a")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    # the user who runs the tests may be allowed to open everything, so the refusal is forged
    monkeypatch.setattr(type(file), "open", refuse)
    assert refused(file) == f"{file}: cannot be read: Permission denied"
