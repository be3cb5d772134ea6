"""Which value has a header in each request?

By name, whatever the case of its letters; of several of one name the first counts. A group of rows at a time, in
columns. Left out: which headers are asked for, and with what values.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.load.labels import Labels


def header_values(headers: pa.ChunkedArray, names: Iterable[str]) -> dict[str, Labels]:
    """Return the values of each named header, None where a request has none; `headers` is the journal's column."""
    wanted = list(names)
    groups = [_values(group, wanted) for group in headers.chunks]
    return {
        name: Labels.of(pa.chunked_array([group[k] for group in groups], pa.string())) for k, name in enumerate(wanted)
    }


def _values(headers: pa.ListArray, names: list[str]) -> list[pa.Array]:
    owners = np.asarray(pc.list_parent_indices(headers).to_numpy(zero_copy_only=False), dtype=np.int64)
    pairs = headers.flatten()
    lower, texts = pc.utf8_lower(pairs.field("name")), pairs.field("value")
    return [_first(lower, texts, owners, name.lower(), len(headers)) for name in names]


def _first(names: pa.Array, texts: pa.Array, owners: np.ndarray, name: str, rows: int) -> pa.Array:
    found = np.flatnonzero(pc.equal(names, name).to_numpy(zero_copy_only=False))
    _, first = np.unique(owners[found], return_index=True)
    places, known = np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
    places[owners[found[first]]], known[owners[found[first]]] = found[first], True
    return texts.take(pa.array(places, mask=~known))
