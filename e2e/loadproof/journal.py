"""What did the absorber receive and send, and how is that kept on disk?

One `Record` per request, filled while it runs; at the end `write_journal` turns them into
`journal.parquet`: a row per request with head and body parsed, chunk times as lists. Times are integer
nanoseconds of CLOCK_MONOTONIC. A request that never ended keeps its row, with `how_ended` null. pandas,
polars and DuckDB read the file without us. Left out: live streams while it runs and sealing after a kill.
"""

from __future__ import annotations

import json
import socket
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadproof.errors import BrokenRun, UsageProblem

SCHEMA_VERSION = 1
FILE_NAME = "journal.parquet"

COMPLETE = "complete"  # the kernel took the last byte of the reply
REFUSED = "refused"  # answered with an error by the server's own rules
CLIENT_CLOSED = "client_closed"  # the client closed or reset before the reply was whole

SCHEMA = pa.schema(
    [
        ("req", pa.uint64()),  # in the order of arrival
        ("conn", pa.uint32()),
        ("nth", pa.uint32()),  # 0 for the first request of its connection
        ("arrival_ns", pa.int64()),
        ("arrival_kernel", pa.bool_()),  # false: no kernel stamp, arrival is the time of our read
        ("read_ns", pa.int64()),
        ("received_ns", pa.int64()),  # the body was whole
        ("method", pa.string()),
        ("path", pa.string()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),  # credentials blanked
        ("body", pa.large_binary()),
        ("digest", pa.binary(16)),  # of the body
        ("occurrence", pa.uint32()),  # 0 for the first body of this digest
        ("model", pa.string()),
        ("stream", pa.bool_()),
        ("ignore_eos", pa.bool_()),
        ("max_tokens", pa.int64()),  # max_completion_tokens counts, and wins, in chat
        ("extra_fields", pa.string()),  # JSON object of all body fields that have no column of their own
        ("bare_prompt_tokens", pa.int32()),  # the text alone, no BOS and no template
        ("usage_prompt_tokens", pa.int32()),  # as `usage` says it
        ("planned_first_ns", pa.int64()),
        ("planned_ns", pa.list_(pa.int64())),  # a chunk each
        ("late_ns", pa.list_(pa.int32())),  # actual - planned, a chunk each; null: never written
        ("chunk_tokens", pa.list_(pa.uint16())),
        ("chunk_bytes", pa.list_(pa.uint32())),
        ("done_ns", pa.int64()),  # just before the last write, or at the client's close
        ("status", pa.int16()),
        ("output_tokens", pa.uint32()),  # written
        ("bytes", pa.uint64()),
        ("blocked_ns", pa.int64()),  # the client did not read, so a write had to wait
        ("finish_reason", pa.string()),
        ("how_ended", pa.string()),
    ]
)


class Record:
    """One request as the server saw it; plain slots, because it is made on the hot path.

    `planned` and `actual` are nanoseconds per chunk of a stream (one entry for a reply that is not
    streamed); `actual` is 0 until the chunk's last byte was taken by the kernel.
    """

    __slots__ = (
        "actual", "arrival", "bare_tokens", "blocked_ns", "body", "bytes", "chunk_bytes", "chunk_tokens", "conn",
        "digest", "done", "finish_reason", "head", "how", "method", "nth", "occurrence", "output_tokens", "planned",
        "planned_first", "read", "received", "req", "status", "target", "usage_tokens",
    )  # fmt: skip

    def __init__(self, req: int, conn: int, nth: int, arrival: int, read: int) -> None:
        self.req, self.conn, self.nth, self.arrival, self.read = req, conn, nth, arrival, read
        self.received = 0
        self.method = self.target = self.body = self.digest = b""
        self.head: list[tuple[bytes, bytes]] = []
        self.occurrence = 0
        self.planned_first: int | None = None
        self.planned, self.actual = array("q"), array("q")
        self.chunk_tokens, self.chunk_bytes = array("H"), array("I")
        self.done: int | None = None
        self.status: int | None = None
        self.output_tokens = self.bytes = self.blocked_ns = 0
        self.bare_tokens: int | None = None
        self.usage_tokens: int | None = None
        self.finish_reason: str | None = None
        self.how: str | None = None


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a journal; `clock_offset_ns` is CLOCK_REALTIME - CLOCK_MONOTONIC at start and at the end."""

    schema_version: int = SCHEMA_VERSION
    worker: int = 0
    host: str
    boot_id: str
    model: str
    clock_offset_ns: tuple[int, int]
    profile: dict[str, object]


def host_identity() -> tuple[str, str]:
    """Return host name and boot id (empty where the kernel has none)."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return socket.gethostname(), boot_id.read_text().strip() if boot_id.exists() else ""


def write_journal(folder: Path, records: Sequence[Record], metadata: Metadata) -> Path:
    """Write `folder/journal.parquet` under a temporary name and rename it; return its path."""
    table = pa.Table.from_pylist([_row(r) for r in records], schema=SCHEMA)
    table = table.replace_schema_metadata({b"loadproof": msgspec.json.encode(metadata)})
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


def _row(record: Record) -> dict[str, object]:
    fields = body_fields(record.body)
    limit = fields.pop("max_completion_tokens", None)
    asked = fields.pop("max_tokens", None)
    prompt_fields = ("prompt", "messages")
    return {
        "req": record.req, "conn": record.conn, "nth": record.nth,
        "arrival_ns": record.arrival, "arrival_kernel": False, "read_ns": record.read, "received_ns": record.received,
        "method": record.method.decode("latin-1"), "path": record.target.decode("latin-1"),
        "headers": [{"name": n.decode("latin-1"), "value": v.decode("latin-1")} for n, v in record.head],
        "body": record.body, "digest": record.digest or b"\0" * 16, "occurrence": record.occurrence,
        "model": _typed(fields.pop("model", None), str),
        "stream": _typed(fields.pop("stream", None), bool),
        "ignore_eos": _typed(fields.pop("ignore_eos", None), bool),
        "max_tokens": _typed(limit if limit is not None else asked, int),
        "extra_fields": json.dumps({k: v for k, v in fields.items() if k not in prompt_fields}, sort_keys=True),
        "bare_prompt_tokens": record.bare_tokens, "usage_prompt_tokens": record.usage_tokens,
        "planned_first_ns": record.planned_first, "planned_ns": record.planned.tolist(),
        "late_ns": [_late(a, p) for p, a in zip(record.planned, record.actual, strict=True)],
        "chunk_tokens": record.chunk_tokens.tolist(), "chunk_bytes": record.chunk_bytes.tolist(),
        "done_ns": record.done, "status": record.status, "output_tokens": record.output_tokens,
        "bytes": record.bytes, "blocked_ns": record.blocked_ns, "finish_reason": record.finish_reason,
        "how_ended": record.how,
    }  # fmt: skip


def _late(actual: int, planned: int) -> int | None:
    return min(actual - planned, 2**31 - 1) if actual else None


def _typed[T](value: object, kind: type[T]) -> T | None:
    return value if type(value) is kind else None


def body_fields(body: bytes) -> dict[str, object]:
    """Return the fields of a JSON object, or nothing for a body that is none."""
    try:
        fields = msgspec.json.decode(body)
    except msgspec.DecodeError:
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
        table = pq.read_table(file)
        stored: Mapping[bytes, bytes] = table.schema.metadata or {}
        metadata = msgspec.json.decode(stored[b"loadproof"], type=Metadata)
    except (pa.ArrowException, OSError, KeyError, msgspec.MsgspecError) as error:
        raise BrokenRun(f"{file}: is not a journal of loadproof, or it is damaged: {error}") from error
    missing = [field.name for field in SCHEMA if field.name not in table.schema.names]
    if missing or metadata.schema_version != SCHEMA_VERSION:
        raise BrokenRun(f"{file}: schema version {metadata.schema_version}, missing columns {missing}; judge it with "
                        f"the loadproof that wrote it (this one reads version {SCHEMA_VERSION})")  # fmt: skip
    return Journal(table.sort_by("req"), metadata)
