"""How does one say in plain English what a pydantic model does not accept?

Each error of a `ValidationError` becomes a place in the file (`loadproof.model_places`) and a sentence, with the
nearest key or value that would do. Left out: lines and files (`loadproof.strict_yaml`), and other languages.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args, get_origin

from loadproof.model_places import Spot, Where, spot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

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
_MAPPINGS = {"model_type", "dict_type"}
_BOOLS = {**dict.fromkeys(("true", "yes", "on", "y"), "true"), **dict.fromkeys(("false", "no", "off", "n"), "false")}
_BOUNDS = {
    "greater_than": "must be greater than {}",
    "greater_than_equal": "must be at least {}",
    "less_than": "must be less than {}",
    "less_than_equal": "must be at most {}",
}


MISSING = "this required key is missing"


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
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part)}" for part in where)
    return text.removeprefix(".")


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "..."


def nearest(word: str, options: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest option, or nothing when none is near."""
    near = _nearest(word, options)
    return f"; did you mean {near!r}?" if near else ""


def _nearest(word: str, options: Iterable[str]) -> str | None:
    """Return the option that looks most like the word, else one that begins with the other, else None."""
    folded = {option.lower().replace("_", "-"): str(option) for option in options}
    plain = word.lower().replace("_", "-")
    near = difflib.get_close_matches(plain, folded, n=1)
    begins = (option for option in folded if len(plain) > 2 and (option.startswith(plain) or plain.startswith(option)))
    return folded[near[0]] if near else folded.get(next(begins, ""))


def shown(value: object) -> str:
    """Return what a person would call the value: `the text '40/s'`, `nothing`, `a list`, `1.5`."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {_cut(value)!r}"
        case dict():
            return "a mapping"
        case list():
            return "a list"
    return str(value)


def keys_of(model: type[BaseModel]) -> str:
    """Return `the keys a, b` that the model cannot do without, or of all where it can do without any."""
    required = [name for name, info in model.model_fields.items() if info.is_required()]
    return f"the keys {', '.join(required)}" if required else f"one of the keys {', '.join(model.model_fields)}"


def problems_of(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield every problem in the error, each with its place in the file.

    A key that is missing because it is misspelt is told once, as misspelt.
    """
    all_details = [(details, spot_of(model, details["loc"])) for details in error.errors(include_url=False)]
    told = [problem for details, spot in all_details for problem in _problems(details, spot)]
    meant = {_meant(spot) for details, spot in all_details if details["type"] == "extra_forbidden"}
    yield from (problem for problem in told if problem.what != MISSING or problem.where not in meant)


def _problems(details: ErrorDetails, spot: Spot) -> Iterator[Problem]:
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, LocatedProblems):
        yield from (Problem(spot.where + problem.where, problem.what) for problem in cause.problems)
    elif details["type"].startswith("union_tag_"):
        yield _wrong_tag(details, spot)
    else:
        yield Problem(spot.where, _said(details, spot))


def _meant(spot: Spot) -> Where:
    return (*spot.where[:-1], _nearest(str(spot.where[-1]), spot.keys) or "")


def _wrong_tag(details: ErrorDetails, spot: Spot) -> Problem:
    """Say what is wrong with the key that chooses a union's branch, which may only be misspelt."""
    key, given = details["ctx"]["discriminator"].strip("'"), details["input"]
    misspelt = next((name for name in given if isinstance(name, str) and _nearest(name, [key])), None)
    if details["type"] == "union_tag_not_found" and misspelt is not None:
        return Problem((*spot.where, misspelt), f"unknown key{nearest(misspelt, [key])}")
    return Problem((*spot.where, key), _said(details, spot))


def _said(details: ErrorDetails, spot: Spot) -> str:
    """Return the sentence for one error."""
    kind, got, context = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "missing" | "union_tag_not_found":
            said = MISSING
        case "extra_forbidden":
            said = _unknown_key(str(spot.where[-1]), spot)
        case "union_tag_invalid":
            said = _not_one_of(got[context["discriminator"].strip("'")], context["expected_tags"])
        case "literal_error" | "enum":
            said = _not_one_of(got, context["expected"])
        case "too_short" | "string_too_short":
            said = "must not be empty"
        case _ if kind in _WANTED:
            wanted = _WANTED[kind] + (f" of {', '.join(spot.inside)}" if kind in _MAPPINGS and spot.inside else "")
            said = f"expected {wanted}, got {shown(got)}{_meant_value(kind, got)}"
        case _ if kind in _BOUNDS:
            said = _out_of_bounds(_BOUNDS[kind], next(iter(context.values())), got, spot)
        case _:
            said = details["msg"].removeprefix("Value error, ")
    return said


def _meant_value(kind: str, got: object) -> str:
    """Return `; did you mean 40?` for `40/s`, `"40"` and 40.0, `; did you mean true?` for `yes`, or nothing."""
    meant = None
    if kind == "bool_type":
        meant = _BOOLS.get(str(got).lower())
    elif kind in {"int_type", "float_type"} and isinstance(got, str):
        number = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:/s)?\s*", got)
        meant = number[1] if number else None
    elif kind in {"int_type", "int_from_float"} and isinstance(got, float) and got.is_integer():
        meant = str(int(got))
    return f"; did you mean {meant}?" if meant else ""


def _out_of_bounds(words: str, bound: float, got: object, spot: Spot) -> str:
    whole = int(bound) == bound
    said = f"{words.format(int(bound) if whole else bound)}, got {shown(got)}"
    if str(spot.where[-1]).endswith("_s") and isinstance(got, int | float) and got > bound:
        said += f"; it counts seconds: {shown(got)} ms would be {got / 1000:g}"
    return said


def _unknown_key(key: str, spot: Spot) -> str:
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
