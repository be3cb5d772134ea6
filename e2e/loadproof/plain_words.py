"""How does one say in plain English what a pydantic model does not accept?

Each error of a `ValidationError` becomes a place in the file and a sentence. The model is walked along the
error's location, which tells a union's branch name (not in the file) from a key, and which keys are valid at
that place. Left out: lines and files (`loadproof.strict_yaml`), and other languages.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

type Where = tuple[str | int, ...]

_WANTED = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
_BOUNDS = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
}


class Problem(NamedTuple):
    """What is wrong at which place; `where` is the path of keys and list positions, empty for the whole."""

    where: Where
    what: str


class LocatedProblems(ValueError):
    """Raised by a model's validator that compares several fields, so that each problem keeps its own place.

    `problems` are relative to the model that raises.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(f"{dotted(where)}: {what}" for where, what in self.problems))


def dotted(where: Where) -> str:
    """Return `load.stages[1].rate` for `("load", "stages", 1, "rate")`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in where)
    return text.removeprefix(".")


def nearest(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest option, or nothing when none is near."""
    folded = {option.lower().replace("_", "-"): str(option) for option in options}
    near = difflib.get_close_matches(word.lower().replace("_", "-"), folded, n=1)
    return f"; did you mean {folded[near[0]]!r}?" if near else ""


def shown(value: object) -> str:
    """Return what a person would call the value: `the text '40/s'`, `nothing`, `a list`, `1.5`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return str(value)


def required_keys(model: type[BaseModel]) -> str:
    """Return the names of the keys that the model cannot do without."""
    return ", ".join(name for name, info in model.model_fields.items() if info.is_required())


def problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield every problem in the error, each with its place in the file."""
    for details in error.errors(include_url=False):
        spot = _spot(model, details["loc"])
        cause = details.get("ctx", {}).get("error")
        if isinstance(cause, LocatedProblems):
            yield from (Problem(spot.where + problem.where, problem.what) for problem in cause.problems)
        elif details["type"].startswith("union_tag_"):
            key = details["ctx"]["discriminator"].strip("'")
            yield Problem((*spot.where, key), _said(details, spot))
        else:
            yield Problem(spot.where, _said(details, spot))


@dataclass(frozen=True)
class _Spot:
    """A place in the file: `keys` may stand in the mapping there; `rivals` are the union's other branches."""

    where: Where
    keys: tuple[str, ...] = ()
    rivals: tuple[type[BaseModel], ...] = ()


def _spot(model: type[BaseModel], loc: Where) -> _Spot:
    """Walk the model along pydantic's location, leaving out what names a union's branch."""
    spot, kind, rivals = _Spot(()), _members(model), ()
    for part in loc:
        if part == "[key]":
            continue
        if len(kind) > 1:
            chosen = [member for member in kind if _is_branch(member, part)]
            rivals = tuple(m for m in kind if m not in chosen and _is_model(m))
            kind = tuple(chosen)
            continue
        member: Any = kind[0] if kind else None
        keys = tuple(member.model_fields) if _is_model(member) else ()
        spot = _Spot((*spot.where, part), keys, rivals)
        kind, rivals = _below(member, part), ()
    return spot


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _is_branch(member: Any, label: str | int) -> bool:
    """Is `label` pydantic's name for this member of a union: a discriminator's value, or the type's name?"""
    tags = (get_args(info.annotation) for info in member.model_fields.values()) if _is_model(member) else ()
    return getattr(member, "__name__", None) == label or any(label in tag for tag in tags)


def _below(kind: Any, part: str | int) -> tuple[Any, ...]:
    """Return the types that may stand under the key or list position `part` of `kind`."""
    if _is_model(kind):
        info: FieldInfo | None = kind.model_fields.get(part)
        return _members(info.annotation) if info else ()
    if get_origin(kind) in {dict, list, tuple}:
        return _members(get_args(kind)[1 if get_origin(kind) is dict else 0])
    return ()


def _members(annotation: Any) -> tuple[Any, ...]:
    """Return the types of a union without None, or the one type."""
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return tuple(m for arg in get_args(annotation) if arg is not type(None) for m in _members(arg))
    return (annotation,)


def _said(details: ErrorDetails, spot: _Spot) -> str:
    """Return the sentence for one error."""
    kind, got, context = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "missing" | "union_tag_not_found":
            said = "this required key is missing"
        case "extra_forbidden":
            said = _unknown_key(str(spot.where[-1]), spot)
        case "union_tag_invalid":
            said = _not_one_of(got[context["discriminator"].strip("'")], context["expected_tags"])
        case "literal_error" | "enum":
            said = _not_one_of(got, context["expected"])
        case "too_short" | "string_too_short":
            said = "must not be empty"
        case _ if kind in _WANTED:
            said = f"expected {_WANTED[kind]}, got {shown(got)}"
        case _ if kind in _BOUNDS:
            said = f"{_BOUNDS[kind].format(**context)}, got {shown(got)}"
        case _:
            said = details["msg"].removeprefix("Value error, ")
    return said


def _unknown_key(key: str, spot: _Spot) -> str:
    for rival in spot.rivals:
        if key in rival.model_fields:
            return f"this key belongs to {_tag_of(rival)}; the keys here are {', '.join(spot.keys)}"
    near = nearest(key, spot.keys)
    return f"unknown key{near}" if near else f"unknown key; the keys here are {', '.join(spot.keys)}"


def _tag_of(model: type[BaseModel]) -> str:
    """Return `mode: rate` of the model whose field `mode` can only be `rate`."""
    for name, info in model.model_fields.items():
        if get_origin(info.annotation) is Literal:
            return f"{name}: {get_args(info.annotation)[0]}"
    return model.__name__


def _not_one_of(got: object, expected: str) -> str:
    options = re.findall(r"'([^']*)'", expected)
    return f"expected one of {', '.join(options)}, got {shown(got)}{nearest(str(got), options)}"
