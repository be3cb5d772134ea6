"""What is the value of each request, where a million requests have a few different ones?

A column of codes and what each code stands for, as Arrow's dictionaries are. Left out: numbers, which are arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

type Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]
type Codes = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Labels:
    """`codes` int64[n] point into `values`, which are all different; None stands for a value that is not there."""

    codes: Codes
    values: tuple[Any, ...]

    @classmethod
    def of(cls, column: pa.ChunkedArray) -> Labels:
        """Return the labels of an Arrow column, which may be a dictionary already."""
        plain = not pa.types.is_dictionary(column.type)
        encoded = column.combine_chunks().dictionary_encode() if plain else column.combine_chunks()
        values = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        return cls(np.asarray(codes, dtype=np.int64), (*values, None) if encoded.null_count else tuple(values))

    def __len__(self) -> int:
        """Return n."""
        return len(self.codes)

    def __getitem__(self, rows: slice | Bools | Codes) -> Labels:
        """Return some rows."""
        return Labels(self.codes[rows], self.values)

    def counts(self) -> Counter[Any]:
        """Return how many requests have each value."""
        found = np.bincount(self.codes, minlength=len(self.values)).tolist()
        return Counter({value: count for value, count in zip(self.values, found, strict=True) if count})

    def equal(self, value: object) -> Bools:
        """Return which requests have `value`."""
        return self.among([value])

    def among(self, wanted: list[Any]) -> Bools:
        """Return which requests have one of the values."""
        return np.array([value in wanted for value in self.values], np.bool_)[self.codes]

    def told_as(self, told: Callable[[Any], Any]) -> Labels:
        """Return the labels with each value replaced by `told(value)`."""
        replaced = [told(value) for value in self.values]
        places = {value: place for place, value in enumerate(dict.fromkeys(replaced))}
        return Labels(np.array([places[value] for value in replaced], np.int64)[self.codes], tuple(places))


def counts_of(numbers: Codes, *, missing: int = -1) -> Counter[int | None]:
    """Return how many requests have each number, None for `missing`."""
    values, counts = np.unique(numbers, return_counts=True)
    pairs = zip(values.tolist(), counts.tolist(), strict=True)
    return Counter({None if value == missing else value: count for value, count in pairs})
