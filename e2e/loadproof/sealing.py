"""How do live streams become the one file that people read, whatever happens in between?

`seal` writes journal.parquet under a temporary name, renames it, and only then takes the streams away: interrupted
anywhere, it can be done again. The sealed file says whose rows it holds, so that no others are taken away. Streams
whose writer still runs are left alone. The encodings are those that measured
smallest: chunk times take most of a long run's journal. Left out: what the rows mean (merging.py).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from loadproof.errors import UsageProblem
from loadproof.live import live_files
from loadproof.merging import Merged
from loadproof.parts import Part, read_parts, stream_files
from loadproof.record import FILE_NAME, LIVE, METADATA_KEY, SCHEMA, WRITER_KEY, Metadata
from loadproof.streams import stream_name

FEW_VALUES = ["method", "path", "model", "how_ended", "finish_reason", "extra_fields", "header_names"]
_ALSO_FEW_VALUES = [
    "worker", "chunk_tokens.list.element", "chunk_bytes.list.element", "chunk_choice.list.element",
    "headers.list.element.name", "headers.list.element.value",
]  # fmt: skip
_RISING = ("arrival_ns", "read_ns", "received_ns", "planned_first_ns", "done_ns")
NO_JOURNAL = "there is no journal; name the folder that `loadproof serve --journal` wrote"


def seal(folder: Path) -> Path:
    """Make `folder/journal.parquet` of the live streams, unless it is there, and return its path.

    Raises UsageProblem where there is nothing to seal, its writer still runs or the journal that is there is of other
    streams, BrokenRun for streams of another version, OSError when the folder cannot be written; then the streams are
    as they were.
    """
    path = folder / FILE_NAME
    with _alone_in(folder):
        streams = stream_files(folder)
        if not streams and not path.exists():
            raise UsageProblem(f"{path}: {NO_JOURNAL}")
        for stream in streams:
            _require_ended(stream)
        parts = read_parts(folder, streams)
        if path.exists():
            _require_all_in(path, parts)
        else:
            _write(path, parts)
        for done_with in (*live_files(folder), *streams):  # a killed server leaves its counters
            done_with.unlink(missing_ok=True)
    return path


def table_of(parts: Sequence[Part]) -> pa.Table:
    """Return what sealing would write, in memory."""
    merged, metadata = _merged(parts)
    return pa.concat_tables(chain.from_iterable(m.groups() for m in merged)).replace_schema_metadata(_stored(metadata))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder against others who would seal it: they wait, and find it done."""
    try:
        held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UsageProblem(f"{folder / FILE_NAME}: {NO_JOURNAL}") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _require_ended(stream: Path) -> None:
    with stream.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageProblem(f"{stream}: is still being written; stop its server first") from error


def _require_all_in(path: Path, parts: Sequence[Part]) -> None:
    """Raise UsageProblem for streams that may have rows which are not in the sealed journal."""
    try:
        held = (pq.read_schema(path).metadata or {}).get(WRITER_KEY, b"").split()
    except (pa.ArrowException, OSError):  # damaged
        held = []
    others = [
        stream_name(kind, part.worker)
        for part in parts
        for kind, stream in zip(LIVE, part.streams, strict=True)
        if stream.metadata is not None and stream.writer not in held
    ]
    if others:
        raise UsageProblem(f"{path}: is not of the streams beside it ({', '.join(others)}); move them to a folder of "
                           "their own and judge that one too")  # fmt: skip


def _write(path: Path, parts: Sequence[Part]) -> None:
    merged, metadata = _merged(parts)
    groups = chain.from_iterable(m.groups() for m in merged)
    first = next(groups)
    temporary = path.with_name(f".{FILE_NAME}.part")
    writers = b" ".join(sorted({stream.writer for part in parts for stream in part.streams}))
    schema = SCHEMA.with_metadata(_stored(metadata) | {WRITER_KEY: writers})
    try:
        with pq.ParquetWriter(
            temporary, schema, compression="zstd", compression_level=3, use_dictionary=[*FEW_VALUES, *_ALSO_FEW_VALUES],
            column_encoding=_encodings(first),
        ) as writer:  # fmt: skip
            for group in chain([first], groups):
                writer.write_table(group.replace_schema_metadata(schema.metadata), row_group_size=len(group) or None)
        _on_disk(temporary)
        temporary.rename(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _on_disk(path: Path) -> None:
    """Wait until the disk has a file: what it was made of is removed next."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _encodings(first: pa.Table) -> dict[str, str]:
    """Return how the columns of times are written.

    A plan of equal gaps is nearly nothing as differences; one of random gaps is smaller byte by byte.
    """
    gaps = np.diff(first["planned_ns"].combine_chunks().flatten().to_numpy()[:100_000])
    equal = len(gaps) == 0 or np.mean(gaps == np.median(gaps)) > 0.5
    return dict.fromkeys(_RISING, "DELTA_BINARY_PACKED") | {
        "planned_ns.list.element": "DELTA_BINARY_PACKED" if equal else "BYTE_STREAM_SPLIT",
        "late_ns.list.element": "BYTE_STREAM_SPLIT",  # 64 bits cost no more than 32: the upper bytes are all alike
    }


def _merged(parts: Sequence[Part]) -> tuple[list[Merged], Metadata]:
    metadata = _metadata(parts)
    merged = [Merged(part, light=metadata.level == "light") for part in parts]
    return merged, msgspec.structs.replace(metadata, lost_requests=sum(m.lost for m in merged))


def _metadata(parts: Sequence[Part]) -> Metadata:
    """Return who wrote the parts: as the first of them says, with the clock of all."""
    streams = [stream for part in parts for stream in part.streams]
    found = [stream.metadata for stream in streams if stream.metadata is not None]
    if not found:  # killed within its first write
        return Metadata(host="", boot_id="", model="", clock_offset_ns=(0, 0), profile={}, closed=False)
    start = found[0].clock_offset_ns[0]
    clocks = [[stream.metadata.clock_offset_ns[0], *stream.clock] for stream in streams if stream.metadata is not None]
    jump = max(abs(later - earlier) for clock in clocks for earlier, later in pairwise([clock[0], *clock]))
    last = next((stream.clock[-1] for stream in streams if stream.clock), found[0].clock_offset_ns[1])
    whole = {part.worker for part in parts} == set(range(max(each.workers for each in found)))
    closed = whole and all(stream.closed for stream in streams)
    return msgspec.structs.replace(found[0], clock_offset_ns=(start, last), clock_jump_ns=jump, closed=closed)


def _stored(metadata: Metadata) -> dict[bytes, bytes]:
    return {METADATA_KEY: msgspec.json.encode(metadata)}
