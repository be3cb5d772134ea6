"""How do rows of numbers, packed one after another as they happened, become an Arrow message?

A row is the schema's whole numbers in order, without padding; what is not a number is kept beside them, as columns.
Left out: when, and to which file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

_CODES = {
    pa.uint64(): "Q", pa.int64(): "q", pa.uint32(): "I", pa.int32(): "i", pa.uint16(): "H", pa.int16(): "h",
    pa.uint8(): "B",
}  # fmt: skip
_METADATA_ROOM = 1024


def row_format(schema: pa.Schema) -> tuple[struct.Struct, np.dtype[np.void]]:
    """Return how the numbers of a row are packed, and how they are read; bytes are kept beside them."""
    codes = [(field.name, _CODES[field.type]) for field in schema if field.type in _CODES]
    packed = struct.Struct("<" + "".join(code for _, code in codes))
    return packed, np.dtype([(name, f"<{code}") for name, code in codes])


def columns_of(schema: pa.Schema, rows: bytearray, row: np.dtype[np.void]) -> dict[str, pa.Array]:
    """Take packed rows apart: the columns of numbers, which do not need `rows` any more."""
    table = np.frombuffer(rows, row)
    return {
        name: pa.Array.from_buffers(schema.field(name).type, len(table), [None, pa.py_buffer(table[name].copy())])
        for name in row.names or ()
    }


def message(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Buffer:
    """Return a record batch as a stream holds it."""
    return _batch(schema, columns).serialize()


def message_with(key: bytes, value: bytes, schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.Buffer:
    """Return a record batch with metadata of its own, of which key and value are short."""
    # Only a stream's writer takes metadata for a batch: its header is cut off again.
    header = schema.serialize().size
    batch = _batch(schema, columns)
    room = pa.allocate_buffer(header + pa.ipc.get_record_batch_size(batch) + _METADATA_ROOM)
    sink = pa.FixedSizeBufferWriter(room)
    writer = pa.ipc.new_stream(sink, schema)
    writer.write_batch(batch, custom_metadata={key: value})
    return room[header : sink.tell()]


def _batch(schema: pa.Schema, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
