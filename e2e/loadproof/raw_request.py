"""What did a client ask, by the bytes that it sent?

Head and body of one request, as the live streams keep them, become columns: method, path, headers and the fields of
the JSON body. What is no HTTP at all has no method, no path and no headers, and stays as the body. Read leniently:
what was refused for its form is to be seen too. Left out: what a server should answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, cast

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from loadproof.prompts import prompt_bytes, prompt_columns
from loadproof.record import SCHEMA

CHAT_PATH = "/v1/chat/completions"
END_OF_HEAD = b"\r\n\r\n"
_REQUEST_LINE = re.compile(
    r"([!#$%&'*+.^_`|~\w-]+) (?:https?://[^\s/?#]+(?=/))?([^ ]*) HTTP/[\d.]+", re.IGNORECASE | re.ASCII
)  # fmt: skip
_JSON = json.JSONEncoder(sort_keys=True)
_BODY_COLUMNS = ("model", "stream", "ignore_eos", "max_tokens", "extra_fields", "prompt")


class Head(NamedTuple):
    """Method and target of a request, and its headers as (name, value), in their order."""

    method: str
    path: str
    headers: list[tuple[str, str]]


NO_HEAD = Head("", "", [])


def read_head(head: bytes) -> Head | None:
    """Return what a head says, given without its empty line; None for one that has no request line."""
    first, *lines = head.decode("latin-1").split("\r\n")
    asked = _asked(first)
    return None if asked is None else Head(*asked, [pair for pair in map(_header, lines) if pair is not None])


# A client's lines are mostly the same, and a journal may have ten million of them.
@lru_cache(maxsize=8192)
def _asked(line: str) -> tuple[str, str] | None:
    found = _REQUEST_LINE.fullmatch(line)
    return None if found is None else (found[1], found[2])


@lru_cache(maxsize=8192)
def _header(line: str) -> tuple[str, str] | None:
    name, colon, value = line.partition(":")
    return (name, value.strip(" \t")) if colon else None


def asked_columns(raws: Sequence[bytes]) -> dict[str, pa.Array]:
    """Return the columns of the sealed journal that follow from what came, a row each."""
    split = [raw.partition(END_OF_HEAD) for raw in raws]
    places: dict[bytes, int] = {}  # the heads of most clients differ by their Content-Length alone
    rows = [places.setdefault(head, len(places)) for head, _, _ in split]
    read = [read_head(head) for head in places]
    heads, kinds = [head or NO_HEAD for head in read], np.array(rows, np.int64)
    bodies = [raw if read[row] is None else parts[2] for raw, parts, row in zip(raws, split, rows, strict=True)]
    asked = (_body_row(heads[row].path, body) for row, body in zip(rows, bodies, strict=True))
    values = dict(zip(_BODY_COLUMNS, list(zip(*asked, strict=True)) or [()] * len(_BODY_COLUMNS), strict=True))
    prompts = cast("list[bytes | None]", values.pop("prompt"))
    columns = {name: pa.array(column, SCHEMA.field(name).type) for name, column in values.items()}
    columns["body"] = pa.array(bodies, SCHEMA.field("body").type)
    return columns | _head_columns(heads, pa.array(kinds)) | prompt_columns(prompts)


def _head_columns(heads: Sequence[Head], rows: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of heads; `rows` says which of them each row has."""
    starts = np.zeros(len(heads) + 1, np.int32)
    np.cumsum([len(head.headers) for head in heads], out=starts[1:])
    pairs = list(chain.from_iterable(head.headers for head in heads))
    names, texts = (pa.array(column, pa.string()) for column in (list(zip(*pairs, strict=True)) or ((), ())))
    lower = pa.ListArray.from_arrays(pa.array(starts), pc.utf8_lower(names))
    columns = {
        "method": pa.array([head.method for head in heads], pa.string()),
        "path": pa.array([head.path for head in heads], pa.string()),
        "header_names": pc.binary_join(lower, ","),
        "headers": pa.ListArray.from_arrays(
            pa.array(starts), pa.StructArray.from_arrays([names, texts], ["name", "value"])
        ),
    }
    return {name: column.take(rows) for name, column in columns.items()}


def _body_row(path: str, body: bytes) -> tuple[str | None, bool | None, bool | None, int | None, str, bytes | None]:
    fields = body_fields(body)
    prompt = prompt_bytes(fields)
    limit = fields.pop("max_tokens", None)
    if path.partition("?")[0] == CHAT_PATH:
        newer = fields.pop("max_completion_tokens", None)
        limit = newer if newer is not None else limit
    model, stream, ignore_eos = fields.pop("model", None), fields.pop("stream", None), fields.pop("ignore_eos", None)
    fields.pop("prompt", None)
    fields.pop("messages", None)
    return (
        _writable(model) if isinstance(model, str) else None,
        stream if isinstance(stream, bool) else None,
        ignore_eos if isinstance(ignore_eos, bool) else None,
        limit if type(limit) is int and -(2**63) <= limit < 2**63 else None,
        _json(fields) if fields else "{}",
        prompt,
    )


def _json(fields: dict[str, object]) -> str:
    """Return fields as sorted JSON: what is left of a body is mostly the same as in the one before."""
    try:
        key = msgspec.json.encode(fields)
    except (ValueError, TypeError, OverflowError, RecursionError):
        return _JSON.encode(fields)
    return _JSON.encode(fields) if b"null" in key else _json_of(key)  # it spells an infinite number null


@lru_cache(maxsize=1024)
def _json_of(key: bytes) -> str:
    return _JSON.encode(json.loads(key))


def body_fields(body: bytes) -> dict[str, object]:
    """Return the fields of a JSON object, or nothing for a body that is none."""
    try:
        fields = msgspec.json.decode(body)
    except (ValueError, RecursionError):
        try:  # the fast reader is strict where others are not: 1e999 is a number to most
            fields = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    return fields if isinstance(fields, dict) else {}


def _writable(text: str) -> str:
    """Return `text` as UTF-8 can hold it: a lone surrogate, which JSON can spell, becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
