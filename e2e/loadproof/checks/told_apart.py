"""Which named things does each request have, where a million requests have a few different sets of them?

`Labels` hold a set in one text each; here every different text is read once, and what has each name and value is
found by columns. Left out: what is right.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from loadproof.load.labels import Bools, Codes, Labels

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Valued:
    """The values of one name, a text each, the commonest first; `kinds` has for each of `codes` the place of its value.

    `codes` are those of the labels that have the name.
    """

    values: tuple[bytes, ...]
    codes: Codes
    kinds: Codes


@dataclass(frozen=True)
class Named:
    """What the labels name, in the order of the alphabet."""

    labels: Labels
    names: dict[str, Valued]

    def values(self, name: str) -> tuple[bytes, ...]:
        """Return the values of a name, the commonest first; none where nothing has the name."""
        return self.names[name].values if name in self.names else ()

    def where(self, name: str, values: Iterable[bytes] | None = None) -> Bools:
        """Return which requests have the name, or the name with one of the values."""
        found = np.zeros(len(self.labels.values), np.bool_)
        if name in self.names:
            of = self.names[name]
            places = {value: place for place, value in enumerate(of.values)}
            wanted = None if values is None else [places[value] for value in values]
            found[of.codes if wanted is None else of.codes[np.isin(of.kinds, wanted)]] = True
        has: Bools = found[self.labels.codes]
        return has

    def counts(self) -> Counter[str]:
        """Return how many requests have each name."""
        return Counter({name: int(np.count_nonzero(self.where(name))) for name in self.names})


def names_of(labels: Labels, split: Callable[[str], Iterable[str]]) -> Named:
    """Return what each label names."""
    return _named(labels, lambda text: dict.fromkeys(split(text), b""), frozenset())


def fields_of(labels: Labels, without_value: frozenset[str] = frozenset()) -> Named:
    """Return the fields of JSON objects, each with its value's JSON, 1.0 as 1; of some names no value is told."""
    return _named(labels, _json_fields, without_value)


def _named(
    labels: Labels, read: Callable[[str], Mapping[str, bytes | msgspec.Raw]], without_value: frozenset[str]
) -> Named:
    codes: dict[str, list[int]] = defaultdict(list)
    kinds: dict[str, list[int]] = defaultdict(list)
    values: dict[str, dict[bytes, int]] = defaultdict(dict)
    sizes = np.bincount(labels.codes, minlength=len(labels.values))
    for code in np.flatnonzero(sizes).tolist():
        for name, value in read(labels.values[code] or "").items():
            known = values[name]
            codes[name].append(code)
            text = b"" if name in without_value else bytes(value).removesuffix(b".0")
            kinds[name].append(known.setdefault(text, len(known)))
    return Named(labels, {name: _valued(values[name], codes[name], kinds[name], sizes) for name in sorted(codes)})


def _valued(values: dict[bytes, int], codes: list[int], kinds: list[int], sizes: Codes) -> Valued:
    of, kind = np.array(codes, np.int64), np.array(kinds, np.int64)
    order = np.argsort(-np.bincount(kind, weights=sizes[of]), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    texts = list(values)
    return Valued(tuple(texts[k] for k in order.tolist()), of, place[kind])


def _json_fields(text: str) -> Mapping[str, bytes | msgspec.Raw]:
    try:
        return _FIELDS.decode(text or "{}")
    except ValueError:  # what most readers take and the fast one does not: Infinity, half of a surrogate pair
        return {name: json.dumps(value, sort_keys=True).encode() for name, value in json.loads(text).items()}
