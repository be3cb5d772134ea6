"""What did the absorber receive and send, read back?

`read_journal` gives a row per request, from the sealed file or, where that is not there, from the live streams, as
they would be sealed. A request that never ended keeps its row, with `how_ended` null. Left out: writing (streams.py)
and sealing (sealing.py).
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadproof.errors import BrokenRun, UsageProblem
from loadproof.parts import read_parts
from loadproof.record import (
    CLIENT_CLOSED,
    COMPLETE,
    FILE_NAME,
    METADATA_KEY,
    REFUSED,
    SCHEMA,
    SCHEMA_VERSION,
    Metadata,
)
from loadproof.sealing import FEW_VALUES, NO_JOURNAL, table_of

__all__ = [
    "CLIENT_CLOSED", "COMPLETE", "FILE_NAME", "METADATA_KEY", "REFUSED", "SCHEMA", "SCHEMA_VERSION", "Journal",
    "Metadata", "host_identity", "read_journal",
]  # fmt: skip


def host_identity() -> tuple[str, str]:
    """Return host name and boot id (empty where the kernel has none)."""
    boot_id = Path("/proc/sys/kernel/random/boot_id")
    return socket.gethostname(), boot_id.read_text().strip() if boot_id.exists() else ""


class Journal(msgspec.Struct, frozen=True):
    """A journal read back: the Arrow table (of `SCHEMA`, by number of the request) and who wrote it.

    Where not all was asked for, it has only the asked columns.
    """

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


def read_journal(path: Path, columns: Collection[str] | None = None) -> Journal:
    """Read a `journal.parquet` or the folder that holds one, or live streams that were not sealed; writes nothing.

    With `columns` nothing but `req` is read beside them, and those of a sealed file that have few values come as Arrow
    dictionaries.

    Raises UsageProblem if there is none, BrokenRun if it cannot be read or is of another schema.
    """
    file = path / FILE_NAME if path.is_dir() else path
    wanted = [name for name in SCHEMA.names if columns is None or name in columns or name == "req"]
    try:
        if file.is_file():  # `read_table` would take a folder named a=b for a column
            with _system_memory():
                sealed = pq.ParquetFile(file, read_dictionary=[] if columns is None else FEW_VALUES)
                metadata = _checked(file, sealed.schema_arrow)
                table = _read(sealed, wanted)
        elif path.is_dir() and (parts := read_parts(path)):
            table = table_of(parts)
            metadata = _checked(file, table.schema)
            table = table.select(wanted)
        else:
            raise UsageProblem(f"{file}: {NO_JOURNAL}")
    except (pa.ArrowException, OSError) as error:
        raise BrokenRun(f"{file}: is damaged, or is no journal: {error}") from error
    return Journal(_by_number(table), metadata)


@contextmanager
def _system_memory() -> Iterator[None]:
    """Let Arrow take memory from the system: of what is read once its own pool keeps half as much again."""
    usual = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(usual)


def _read(sealed: pq.ParquetFile, columns: list[str]) -> pa.Table:
    """Return the columns, in pieces: all groups of rows at once would take twice the memory while they are decoded."""
    groups = [sealed.read_row_groups([group], columns) for group in range(sealed.num_row_groups)]
    return pa.concat_tables(groups) if groups else sealed.schema_arrow.empty_table().select(columns)


def _checked(file: Path, schema: pa.Schema) -> Metadata:
    """Return who wrote a journal of this schema. Raises BrokenRun for another one."""
    stored: Mapping[bytes, bytes] = schema.metadata or {}
    if METADATA_KEY not in stored:
        raise BrokenRun(f"{file}: is not a journal of loadproof; name the folder that holds one")
    try:
        version = msgspec.json.decode(stored[METADATA_KEY], type=_Version).schema_version
    except msgspec.MsgspecError as error:
        raise BrokenRun(f"{file}: is damaged, or is no journal: {error}") from error
    missing = [name for name in SCHEMA.names if name not in schema.names]
    if missing or version != SCHEMA_VERSION:
        raise BrokenRun(f"{file}: schema version {version}, missing columns {missing}; judge it with "
                        f"the loadproof that wrote it (this one reads version {SCHEMA_VERSION})")  # fmt: skip
    try:
        return msgspec.json.decode(stored[METADATA_KEY], type=Metadata)
    except msgspec.MsgspecError as error:
        raise BrokenRun(f"{file}: does not say who wrote it: {error}") from error


def _by_number(table: pa.Table) -> pa.Table:
    """Return the rows in the order of their numbers, in which they mostly are."""
    numbers = table["req"].to_numpy()
    return table if np.all(numbers[1:] > numbers[:-1]) else table.sort_by("req")


class _Version(msgspec.Struct, frozen=True):
    """What every version of the metadata has."""

    schema_version: int
