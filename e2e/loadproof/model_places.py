"""Which place in a file does the location of a pydantic error mean, and which keys may stand there?

The model is walked along the location, which tells the name of a union's branch (not in the file) from a key.
Left out: what is said of the place (`loadproof.plain_words`), and its line (`loadproof.strict_yaml`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

type Where = tuple[str | int, ...]
"""The path of keys and list positions, empty for the whole."""


@dataclass(frozen=True)
class Spot:
    """A place in the file.

    `keys` may stand beside it in its mapping, `inside` below it; `rivals` are the other branches of its union.
    """

    where: Where
    keys: tuple[str, ...] = ()
    rivals: tuple[type[BaseModel], ...] = ()
    inside: tuple[str, ...] = ()


def spot_of(model: type[BaseModel], loc: Where) -> Spot:
    """Return the place: walk the model along pydantic's location, leaving out what names a union's branch."""
    spot, kind, rivals = Spot(()), _members(model), ()
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
        spot = Spot((*spot.where, part), keys, rivals)
        kind, rivals = _below(member, part), ()
    inside = dict.fromkeys(name for member in kind if _is_model(member) for name in member.model_fields)
    return replace(spot, inside=tuple(inside))


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
