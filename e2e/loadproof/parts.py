"""Which rows are in the live streams of a folder, wherever they were cut?

A stream is read batch by batch until it ends or raises: a cut last batch is what a kill leaves, all before it counts.
A stream that is missing, or cut in its header, has no rows. The files are mapped, not copied. Left out: what the rows
mean together.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pyarrow as pa

from loadproof.errors import BrokenRun
from loadproof.record import CLOCK_KEY, LIVE, METADATA_KEY, SCHEMA_VERSION, WRITER_KEY, Metadata
from loadproof.stream_file import END_OF_STREAM
from loadproof.streams import stream_name

_NAME = re.compile(rf"({'|'.join(LIVE)})-(\d+)\.arrows")


@dataclass(frozen=True)
class Stream:
    """What is left of one live stream: `clock` is the offset in nanoseconds that came with each batch, where one did.

    `metadata` is None when the header is not whole; `writer` tells the stream from any other, `closed` says that the
    writer came to its end. `mapped` is the file, of which the table's buffers are parts.
    """

    table: pa.Table
    clock: list[int] = field(default_factory=list)
    metadata: Metadata | None = None
    writer: bytes = b""
    closed: bool = False
    mapped: mmap.mmap | None = None

    def forget(self) -> None:
        """Give back the memory of what was read of the file; whoever reads on reads it again."""
        if self.mapped is not None:
            self.mapped.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class Part:
    """One worker's three streams."""

    worker: int
    requests: Stream
    chunks: Stream
    ends: Stream

    @property
    def streams(self) -> tuple[Stream, Stream, Stream]:
        """The three."""
        return self.requests, self.chunks, self.ends


def stream_files(folder: Path) -> list[Path]:
    """Return the live streams of a folder, sorted."""
    return sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))


def read_parts(folder: Path, streams: Sequence[Path] | None = None) -> list[Part]:
    """Return what each worker left, by number; nothing where no stream is.

    With `streams`, only of the workers of whom they are.

    Raises BrokenRun for streams of another schema, OSError for files that cannot be read.
    """
    found = stream_files(folder) if streams is None else streams
    workers = sorted({int(path.stem.rpartition("-")[2]) for path in found})
    return [_part(folder, worker) for worker in workers]


def _part(folder: Path, worker: int) -> Part:
    # Against the order of writing: of a journal that is still being written, no end comes without its request.
    read = {kind: read_stream(folder / stream_name(kind, worker), LIVE[kind]) for kind in reversed(LIVE)}
    return Part(worker, **read)


def read_stream(path: Path, schema: pa.Schema) -> Stream:
    """Read one live stream as far as it goes.

    Raises BrokenRun for a stream of another schema, OSError for a file that cannot be read.
    """
    if not path.exists() or not path.stat().st_size:
        return Stream(schema.empty_table())
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        reader = pa.ipc.open_stream(pa.BufferReader(pa.py_buffer(mapped)))
    except pa.ArrowException:  # cut in its header
        return Stream(schema.empty_table())
    metadata = _metadata(path, reader.schema, schema)
    batches, clock, whole = [], [], False
    try:
        while True:
            batch, beside = reader.read_next_batch_with_custom_metadata()
            batches.append(batch)
            if beside and CLOCK_KEY in beside:
                clock.append(int(beside[CLOCK_KEY]))
    except StopIteration:  # ended, or cut between two batches
        whole = True
    except (pa.ArrowException, OSError):
        pass
    table = pa.Table.from_batches([batch.replace_schema_metadata() for batch in batches], schema)
    writer = reader.schema.metadata.get(WRITER_KEY, b"")
    return Stream(table, clock, metadata, writer, whole and mapped[-len(END_OF_STREAM) :] == END_OF_STREAM, mapped)


def _metadata(path: Path, found: pa.Schema, wanted: pa.Schema) -> Metadata:
    try:
        metadata = msgspec.json.decode((found.metadata or {}).get(METADATA_KEY, b""), type=Metadata)
    except msgspec.MsgspecError as error:
        raise BrokenRun(f"{path}: is not a live stream of loadproof, or of another version of it: {error}") from error
    if metadata.schema_version != SCHEMA_VERSION or not found.equals(wanted):
        raise BrokenRun(f"{path}: schema version {metadata.schema_version}; seal it with the loadproof that wrote it "
                        f"(this one reads version {SCHEMA_VERSION})")  # fmt: skip
    return metadata
