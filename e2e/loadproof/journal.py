"""What did the absorber receive and send, and how is that kept on disk?

One `Record` per request, filled while it runs; at the end `write_journal` turns them into
`journal.parquet`: a row per request with head and body parsed, chunk times as lists. Times are integer
nanoseconds of CLOCK_MONOTONIC. A request that never ended keeps its row, with `how_ended` null. pandas,
polars and DuckDB read the file without us. Left out: live streams while it runs and sealing after a kill.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.record import CLIENT_CLOSED, COMPLETE, REFUSED, SCHEMA, Record

__all__ = [
    "CLIENT_CLOSED", "COMPLETE", "FILE_NAME", "REFUSED", "SCHEMA", "Journal", "Metadata", "Record", "body_fields",
    "host_identity", "read_journal", "write_journal",
]  # fmt: skip

SCHEMA_VERSION = 1
FILE_NAME = "journal.parquet"
METADATA_KEY = b"loadproof"
CHAT_PATH = b"/v1/chat/completions"


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a journal; `clock_offset_ns` is CLOCK_REALTIME - CLOCK_MONOTONIC at start and at the end.

    `scheduling` is how the system let the writer's loop run: "real-time" or "ordinary".
    """

    schema_version: int = SCHEMA_VERSION
    worker: int = 0
    host: str
    boot_id: str
    model: str
    clock_offset_ns: tuple[int, int]
    profile: dict[str, object]
    scheduling: str = "ordinary"


def host_identity() -> tuple[str, str]:
    """Return host name and boot id (empty where the kernel has none)."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return socket.gethostname(), boot_id.read_text().strip() if boot_id.exists() else ""


def write_journal(folder: Path, records: Sequence[Record], metadata: Metadata) -> Path:
    """Write `folder/journal.parquet` under a temporary name and rename it; return its path.

    Raises OSError if it cannot be written.
    """
    columns = _plain_columns(records) | _body_columns(records) | _chunk_columns(records)
    table = pa.table([columns[field.name].cast(field.type) for field in SCHEMA], schema=SCHEMA)
    table = table.replace_schema_metadata({METADATA_KEY: msgspec.json.encode(metadata)})
    path, temporary = folder / FILE_NAME, folder / f".{FILE_NAME}.part"
    pq.write_table(
        table,
        temporary,
        compression="zstd",
        use_dictionary=["method", "path", "model", "how_ended", "extra_fields"],
        column_encoding={
            "planned_ns.list.element": "DELTA_BINARY_PACKED",
            "late_ns.list.element": "BYTE_STREAM_SPLIT",
            "arrival_ns": "DELTA_BINARY_PACKED",
        },
    )
    temporary.rename(path)
    return path


def _plain_columns(records: Sequence[Record]) -> dict[str, pa.Array]:
    values: dict[str, list[object]] = {
        "req": [r.req for r in records], "conn": [r.conn for r in records], "nth": [r.nth for r in records],
        "arrival_ns": [r.arrival for r in records], "arrival_kernel": [False] * len(records),
        "read_ns": [r.read for r in records], "received_ns": [r.received for r in records],
        "method": [_text(r.method) for r in records], "path": [_text(r.target) for r in records],
        "body": [r.body for r in records], "digest": [r.digest or bytes(16) for r in records],
        "occurrence": [r.occurrence for r in records], "bare_prompt_tokens": [r.bare_tokens for r in records],
        "usage_prompt_tokens": [r.usage_tokens for r in records],
        "planned_first_ns": [r.planned_first for r in records], "done_ns": [r.done for r in records],
        "status": [r.status for r in records], "output_tokens": [r.output_tokens for r in records],
        "bytes": [r.bytes for r in records], "blocked_ns": [r.blocked_ns for r in records],
        "outq_bytes": [r.outq_bytes for r in records], "fault": [None] * len(records),
        "finish_reason": [r.finish_reason for r in records], "how_ended": [r.how for r in records],
    }  # fmt: skip
    columns = {name: pa.array(column, SCHEMA.field(name).type) for name, column in values.items()}
    pairs = [pair for r in records for pair in r.head]
    names, texts = ([_text(pair[i]) for pair in pairs] for i in (0, 1))
    struct = pa.StructArray.from_arrays([pa.array(names, pa.string()), pa.array(texts, pa.string())], ["name", "value"])
    return columns | {"headers": pa.ListArray.from_arrays(_offsets(len(r.head) for r in records), struct)}


def _body_columns(records: Sequence[Record]) -> dict[str, pa.Array]:
    rows = [_body_row(r) for r in records]
    return {
        name: pa.array([row[i] for row in rows], SCHEMA.field(name).type)
        for i, name in enumerate(("model", "stream", "ignore_eos", "max_tokens", "extra_fields"))
    }


def _body_row(record: Record) -> tuple[str | None, bool | None, bool | None, int | None, str | None]:
    fields = body_fields(record.body)
    limit = fields.pop("max_tokens", None)
    if record.target.partition(b"?")[0] == CHAT_PATH:
        newer = fields.pop("max_completion_tokens", None)
        limit = newer if newer is not None else limit
    model, stream, ignore_eos = (fields.pop(name, None) for name in ("model", "stream", "ignore_eos"))
    prompts = ("prompt", "messages")
    return (
        _writable(model) if isinstance(model, str) else None,
        stream if isinstance(stream, bool) else None,
        ignore_eos if isinstance(ignore_eos, bool) else None,
        limit if type(limit) is int and -(2**63) <= limit < 2**63 else None,
        json.dumps({k: v for k, v in fields.items() if k not in prompts}, sort_keys=True),
    )


def _chunk_columns(records: Sequence[Record]) -> dict[str, pa.Array]:
    offsets = _offsets(len(r.planned) for r in records)
    flat = {
        name: np.frombuffer(b"".join(getattr(r, name) for r in records), dtype)
        for name, dtype in (("planned", "q"), ("actual", "q"), ("chunk_tokens", "I"), ("chunk_bytes", "I"))
    }
    late = pa.array(flat["actual"] - flat["planned"], mask=flat["actual"] == 0)
    values = {"planned_ns": flat["planned"], "late_ns": late} | {k: flat[k] for k in ("chunk_tokens", "chunk_bytes")}
    return {name: pa.ListArray.from_arrays(offsets, pa.array(column)) for name, column in values.items()}


def _offsets(lengths: Iterable[int]) -> pa.Array:
    return pa.array(np.concatenate([[0], np.cumsum(np.fromiter(lengths, np.int64))]).astype(np.int32))


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _writable(text: str) -> str:
    """Return `text` as UTF-8 can hold it: a lone surrogate, which JSON can spell, becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


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


class Journal(msgspec.Struct, frozen=True):
    """A journal read back: the Arrow table (schema `SCHEMA`, by arrival) and who wrote it."""

    table: pa.Table
    metadata: Metadata

    def int_column(self, name: str, missing: int = 0) -> np.ndarray:
        """Return a numeric column as int64[n], with nulls as `missing`."""
        column = self.table.column(name).fill_null(missing)
        return np.asarray(column.to_numpy(), dtype=np.int64)

    def list_column(self, name: str, missing: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Return a list column flat: values int64[m] and offsets int64[n + 1]; nulls as `missing`."""
        column = self.table.column(name).combine_chunks()
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return column.flatten().fill_null(missing).to_numpy(zero_copy_only=False).astype(np.int64), offsets


def read_journal(path: Path) -> Journal:
    """Read a `journal.parquet` or the folder that holds one.

    Raises UsageProblem if there is none, BrokenRun if it cannot be read or is of another schema.
    """
    file = path / FILE_NAME if path.is_dir() else path
    if not file.is_file():
        raise UsageProblem(f"{file}: there is no journal; name the folder that `loadproof serve --journal` wrote")
    try:
        table = pq.ParquetFile(file).read()  # `read_table` would take a folder named a=b for a column
        stored: Mapping[bytes, bytes] = table.schema.metadata or {}
        version = msgspec.json.decode(stored.get(METADATA_KEY, b"null"), type=_Version | None)
    except (pa.ArrowException, OSError, msgspec.MsgspecError) as error:
        raise BrokenRun(f"{file}: is damaged, or is no journal: {error}") from error
    if version is None:
        raise BrokenRun(f"{file}: is not a journal of loadproof; name the folder that holds one")
    missing = [field.name for field in SCHEMA if field.name not in table.schema.names]
    if missing or version.schema_version != SCHEMA_VERSION:
        raise BrokenRun(f"{file}: schema version {version.schema_version}, missing columns {missing}; judge it with "
                        f"the loadproof that wrote it (this one reads version {SCHEMA_VERSION})")  # fmt: skip
    try:
        metadata = msgspec.json.decode(stored[METADATA_KEY], type=Metadata)
    except msgspec.MsgspecError as error:
        raise BrokenRun(f"{file}: does not say who wrote it: {error}") from error
    return Journal(table.sort_by("req"), metadata)


class _Version(msgspec.Struct, frozen=True):
    """What every version of the metadata has."""

    schema_version: int
