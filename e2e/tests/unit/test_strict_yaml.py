"""Does strict reading say what is wrong, on which line, and what was probably meant?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from loadproof.errors import UsageProblem
from loadproof.strict_yaml import read_strict, read_strict_text

if TYPE_CHECKING:
    from pathlib import Path


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class Circle(_Strict):
    kind: Literal["circle"]
    radius: Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]


class Square(_Strict):
    kind: Literal["square"]
    side: Annotated[int, Field(ge=1)]


class Drawing(_Strict):
    title: Annotated[str, Field(min_length=1)]
    shape: Annotated[Circle | Square, Field(discriminator="kind")] | None = None
    more: tuple[Annotated[Circle | Square, Field(discriminator="kind")], ...] = ()
    named: dict[str, Square] = {}
    width: float | Square = 1.0
    visible: bool = True


def problems(text: str) -> list[str]:
    with pytest.raises(UsageProblem) as raised:
        read_strict_text(text, "d.yaml", Drawing)
    return str(raised.value).splitlines()


def test_a_right_text_becomes_the_model_with_yaml_1_2_values() -> None:
    text = (
        "title: 2026-01-01\n"
        "shape: {kind: circle, radius: 0x10}\n"
        "more:\n  - {kind: square, side: 010}\n  - {kind: square, side: 0o10}\n"
        "named: {on: {kind: square, side: +7}}\nwidth: 1.5e1\nvisible: False\n"
    )
    assert read_strict_text(text, "d.yaml", Drawing) == Drawing(
        title="2026-01-01",
        shape=Circle(kind="circle", radius=16.0),
        more=(Square(kind="square", side=10), Square(kind="square", side=8)),
        named={"on": Square(kind="square", side=7)},
        width=15.0,
        visible=False,
    )


ONE_PROBLEM = {
    "unknown key": ("title: x\n\ntitel: y", "d.yaml:3: titel: unknown key; did you mean 'title'?"),
    "unknown key, none near": (
        "title: x\nzzz: 1",
        "d.yaml:2: zzz: unknown key; the keys here are title, shape, more, named, width, visible",
    ),
    "unknown key below": (
        "title: x\nnamed:\n  a:\n    kind: square\n    side: 1\n    sides: 2",
        "d.yaml:6: named.a.sides: unknown key; did you mean 'side'?",
    ),
    "key of the other branch": (
        "title: x\nshape:\n  kind: circle\n  radius: 1\n  side: 2",
        "d.yaml:5: shape.side: this key belongs to kind: square; the keys here are kind, radius",
    ),
    "unknown key in a branch": (
        "title: x\nshape: {kind: circle, radius: 1,\n  raduis: 2}",
        "d.yaml:3: shape.raduis: unknown key; did you mean 'radius'?",
    ),
    "missing key": ("shape:\n  kind: square\n  side: 1", "d.yaml:1: title: this required key is missing"),
    "missing key below": (
        "title: x\nshape:\n  kind: square",
        "d.yaml:2: shape.side: this required key is missing",
    ),
    "missing key in a list": (
        "title: x\nmore:\n  - kind: square\n    side: 1\n  - kind: square",
        "d.yaml:5: more[1].side: this required key is missing",
    ),
    "missing discriminator": ("title: x\nshape: {side: 1}", "d.yaml:2: shape.kind: this required key is missing"),
    "wrong discriminator": (
        "title: x\nshape:\n  side: 1\n  kind: squair",
        "d.yaml:4: shape.kind: expected one of circle, square, got the text 'squair'; did you mean 'square'?",
    ),
    "discriminator of a wrong type": (
        "title: x\nshape: {kind: 5}",
        "d.yaml:2: shape.kind: expected one of circle, square, got 5",
    ),
    "text for a number": (
        "title: x\nshape: {kind: circle, radius: 40/s}",
        "d.yaml:2: shape.radius: expected a number, got the text '40/s'; did you mean 40?",
    ),
    "bool for a number": (
        "title: x\nshape: {kind: circle, radius: true}",
        "d.yaml:2: shape.radius: expected a number, got true",
    ),
    "fraction for a whole number": (
        "title: x\nnamed: {a: {kind: square, side: 1.5}}",
        "d.yaml:2: named.a.side: expected a whole number, got 1.5",
    ),
    "too small": (
        "title: x\nshape: {kind: circle, radius: 0}",
        "d.yaml:2: shape.radius: must be greater than 0, got 0",
    ),
    "too large": (
        "title: x\nshape: {kind: circle, radius: 101}",
        "d.yaml:2: shape.radius: must be at most 100, got 101",
    ),
    "infinite": (
        "title: x\nshape: {kind: circle, radius: .inf}",
        "d.yaml:2: shape.radius: expected a finite number, got inf",
    ),
    "number for text": ("title: 5", "d.yaml:1: title: expected text, got 5"),
    "nothing for text": ("title:", "d.yaml:1: title: expected text, got nothing"),
    "empty text": ("title: ''", "d.yaml:1: title: must not be empty"),
    "yes for true": (
        "title: x\nvisible: yes",
        "d.yaml:2: visible: expected true or false, got the text 'yes'; did you mean true?",
    ),
    "text for a list": ("title: x\nmore: y", "d.yaml:2: more: expected a list, got the text 'y'"),
    "text for a mapping": ("title: x\nnamed: [1]", "d.yaml:2: named: expected a mapping, got a list"),
    "duplicate key": (
        "title: x\nwidth: 1\ntitle: y",
        "d.yaml:3: title: is given twice, first on line 1; keep one of them",
    ),
    "duplicate key below": (
        "title: x\nshape:\n  kind: square\n  side: 1\n  side: 1",
        "d.yaml:5: shape.side: is given twice, first on line 4; keep one of them",
    ),
    "key that is no text": (
        "title: x\nnamed:\n  1: {kind: square, side: 1}",
        "d.yaml:3: named: a key must be plain text, got '1'; put quotes around it",
    ),
    "merge key": (
        "title: x\nshape:\n  <<: {kind: square}\n  kind: square\n  side: 1",
        "d.yaml:3: shape: a key must be plain text, got '<<'; put quotes around it",
    ),
    "tag": ("title: !secret x", "d.yaml:1: title: the tag !secret is not read here; leave it out"),
    "value that is not what its tag says": (
        "title: x\nwidth: !!int y",
        "d.yaml:2: width: cannot be read as a whole number: 'y'",
    ),
    "lone surrogate": ('title: "\\ud800"', "d.yaml:1: title: cannot be read as text: '\\ud800'"),
    "list at the top": ("- title: x", "d.yaml:1: expected a mapping with the keys title, got a list"),
    "text at the top": ("\ntitle", "d.yaml:2: expected a mapping with the keys title, got the text 'title'"),
    "nothing but a comment": ("# title: x\n", "d.yaml: is empty; it needs the keys title"),
    "two documents": (
        "title: x\n---\ntitle: y",
        "d.yaml:2: a second document begins here; a file holds one",
    ),
    "nested one level too deep": (
        "title: " + "[" * 31 + "\n" + "[",
        "d.yaml:2: is nested too deeply; at most 32 levels are read",
    ),
    "missing key of a misspelt one": ("titel: x", "d.yaml:1: titel: unknown key; did you mean 'title'?"),
    "misspelt discriminator": (
        "title: x\nshape:\n  knd: circle\n  radius: 1",
        "d.yaml:3: shape.knd: unknown key; did you mean 'kind'?",
    ),
    "whole number with a point": (
        "title: x\nnamed: {a: {kind: square, side: 2.0}}",
        "d.yaml:2: named.a.side: expected a whole number, got 2.0; did you mean 2?",
    ),
    "quoted number": (
        "title: x\nshape: {kind: circle, radius: '40'}",
        "d.yaml:2: shape.radius: expected a number, got the text '40'; did you mean 40?",
    ),
    "time of day": (
        "title: x\nshape: {kind: circle, radius: 12:30}",
        "d.yaml:2: shape.radius: expected a number, got the text '12:30'",
    ),
    "off for false": (
        "title: x\nvisible: Off",
        "d.yaml:2: visible: expected true or false, got the text 'Off'; did you mean false?",
    ),
    "quoted true": (
        "title: x\nvisible: 'true'",
        "d.yaml:2: visible: expected true or false, got the text 'true'; did you mean true?",
    ),
    "text for a model": (
        "title: x\nnamed: {a: b}",
        "d.yaml:2: named.a: expected a mapping of kind, side, got the text 'b'",
    ),
    "beyond floating point": (
        "title: x\nshape: {kind: circle, radius: 1e400}",
        "d.yaml:2: shape.radius: cannot be read as a number: '1e400'",
    ),
    "the beginning of a key": ("title: x\nvis: true", "d.yaml:2: vis: unknown key; did you mean 'visible'?"),
    "more than the whole of a key": (
        "title: x\nnamed: {a: {kind: square, side: 1, side_length_of_it: 2}}",
        "d.yaml:2: named.a.side_length_of_it: unknown key; did you mean 'side'?",
    ),
    "key with a character that is not seen": (
        "title: x\nwid\u200bth: 1",
        r"d.yaml:2: the key 'wid\u200bth' holds a character that is not to be seen; type it anew",
    ),
    "only the odd key is told of what it may hide": (
        "ti\u200btle: x\nwidth: 1",
        r"d.yaml:1: the key 'ti\u200btle' holds a character that is not to be seen; type it anew",
    ),
}


@pytest.mark.parametrize(("text", "told"), ONE_PROBLEM.values(), ids=ONE_PROBLEM)
def test_one_problem_is_told_with_its_line_and_place(text: str, told: str) -> None:
    assert problems(text) == [told]


def test_every_problem_is_told_once_in_line_order() -> None:
    text = "visible: 1\nshape:\n  kind: square\n  side: 0\n  sid: 1\n  side: 2\nwidht: 2\n"
    assert problems(text) == [
        "d.yaml:1: title: this required key is missing",
        "d.yaml:1: visible: expected true or false, got 1",
        "d.yaml:4: shape.side: must be at least 1, got 0",
        "d.yaml:5: shape.sid: unknown key; did you mean 'side'?",
        "d.yaml:6: shape.side: is given twice, first on line 4; keep one of them",
        "d.yaml:7: widht: unknown key; did you mean 'width'?",
    ]


def test_what_could_not_be_read_is_told_without_what_follows_from_it() -> None:
    assert problems("title: x\nmore:\n  - &a {kind: square, side: 0}\nshape: {kind: square, side: !x 1}") == [
        "d.yaml:3: more[0]: the anchor or alias 'a' is not read here; write the value itself",
        "d.yaml:4: shape.side: the tag !x is not read here; leave it out",
    ]


def test_a_file_of_nothing_but_problems_is_cut_short() -> None:
    found = problems("title: x\n" * 201)
    assert found[99:] == [
        "d.yaml:101: title: is given twice, first on line 1; keep one of them",
        "d.yaml: and 100 more problems",
    ]


def test_a_plain_union_is_told_without_the_names_of_its_branches() -> None:
    assert problems("title: x\nwidth: {kind: square, sid: 1, side: 1}") == [
        "d.yaml:2: width: expected a number, got a mapping",
        "d.yaml:2: width.sid: unknown key; did you mean 'side'?",
    ]


def test_anchor_and_alias_are_refused_where_they_stand_and_hide_no_other_problem() -> None:
    text = "title: &t x\nnamed:\n  a: &a {kind: square, side: 1, loop: *a}\n  b: *a\nwidth: w"
    assert problems(text) == [
        "d.yaml:1: title: the anchor or alias 't' is not read here; write the value itself",
        "d.yaml:3: named.a: the anchor or alias 'a' is not read here; write the value itself",
        "d.yaml:4: named.b: the anchor or alias 'a' is not read here; write the value itself",
        "d.yaml:5: width: expected a number, got the text 'w'",
        "d.yaml:5: width: expected a mapping of kind, side, got the text 'w'",
    ]


def test_doubling_aliases_are_refused_without_being_followed() -> None:
    lines = ["title: x", "named:", "  a0: &a0 [1]", *(f"  a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 60))]
    found = problems("\n".join(lines))
    assert len(found) == 60
    assert found[-1] == "d.yaml:62: named.a59: the anchor or alias 'a59' is not read here; write the value itself"


def test_a_file_is_named_as_it_was_given(tmp_path: Path) -> None:
    file = tmp_path / "d.yaml"
    file.write_bytes(b"\xef\xbb\xbftitle: \xc3\xa9\r\nwdth: 1\r\n")
    with pytest.raises(UsageProblem) as raised:
        read_strict(file, Drawing)
    assert str(raised.value) == f"{file}:2: wdth: unknown key; did you mean 'width'?"
    file.write_bytes(b"\xef\xbb\xbftitle: \xc3\xa9\r\n")
    assert read_strict(file, Drawing).title == "\u00e9"
