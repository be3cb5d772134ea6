"""What does one request leave in the journal, while it runs and when it is sealed, and who wrote it?

`REQUESTS`, `CHUNKS` and `ENDS` are the rows of the live streams, with numbers only where nothing is known yet
(`HOW`, `REASONS` and the sentinels beside each column say what they stand for); `SCHEMA` is the row that they
become when the journal is sealed. Times are integer nanoseconds of CLOCK_MONOTONIC. Left out: files.
"""

from __future__ import annotations

from typing import Literal

import msgspec
import pyarrow as pa

COMPLETE = "complete"  # the kernel took the last byte of the reply
REFUSED = "refused"  # answered with an error by the server's own rules
CLIENT_CLOSED = "client_closed"  # the client closed or reset before the reply was whole

# A code in the live streams is the place in its table.
HOW = (None, COMPLETE, REFUSED, CLIENT_CLOSED)  # 0: in flight when the server stopped
REASONS = (None, "stop", "length")

SCHEMA_VERSION = 3
FILE_NAME = "journal.parquet"
METADATA_KEY = b"loadproof"
CLOCK_KEY = b"clock_offset_ns"  # of each batch of requests
WRITER_KEY = b"loadproof.writer"  # in a stream: who alone wrote it; in a sealed journal: all whose rows are in it


class Metadata(msgspec.Struct, frozen=True, kw_only=True):
    """Who wrote a journal, and how far it can be trusted.

    `clock_offset_ns` is CLOCK_REALTIME - CLOCK_MONOTONIC at start and at the end, `clock_jump_ns` its largest change
    from one flush to the next. `scheduling` is how the system let the writer's loop run: "real-time" or "ordinary".
    `workers` is how many processes wrote it, each a part. `lost_requests` counts requests of which only chunks or an
    end are left; `closed` is false when a writer did not come to its end or its part is missing, so that rows may be
    missing.
    """

    schema_version: int = SCHEMA_VERSION
    worker: int = 0
    workers: int = 1
    host: str
    boot_id: str
    model: str
    clock_offset_ns: tuple[int, int]
    clock_jump_ns: int = 0
    profile: dict[str, object]
    scheduling: str = "ordinary"
    level: Literal["full", "light"] = "full"
    lost_requests: int = 0
    closed: bool = True

    @property
    def counts_prompts(self) -> bool:
        """Whether the tokens of prompts were counted: not at level `light`, not with a precompiled profile."""
        return self.level == "full" and not self.profile.get("precompiled", False)


REQUESTS = pa.schema(
    [
        ("req", pa.uint64()),
        ("conn", pa.uint32()),
        ("nth", pa.uint32()),
        ("arrival", pa.int64()),
        ("kernel", pa.uint8()),  # 1: arrival is the kernel's stamp
        ("read", pa.int64()),
        ("received", pa.int64()),  # 0: the body was never whole
        ("raw", pa.large_binary()),  # the head up to its empty line, then the body as it was meant
        ("digest", pa.binary(16)),  # zeros: none
        ("occurrence", pa.uint32()),
        ("planned_first", pa.int64()),  # 0: none
    ]
)
CHUNKS = pa.schema(
    [
        ("req", pa.uint64()),
        ("planned", pa.int64()),
        ("actual", pa.int64()),  # 0: never written
        ("tokens", pa.uint32()),
        ("bytes", pa.uint32()),
        ("choice", pa.uint16()),
    ]
)
ENDS = pa.schema(
    [
        ("req", pa.uint64()),
        ("done", pa.int64()),  # 0: none
        ("status", pa.int16()),  # 0: none
        ("tokens", pa.uint32()),
        ("bytes", pa.uint64()),
        ("blocked_ns", pa.int64()),
        ("outq_bytes", pa.uint32()),
        ("bare", pa.int32()),  # -1: not known
        ("usage", pa.int32()),  # -1: not known
        ("fault", pa.uint16()),  # 0: none
        ("reason", pa.uint8()),
        ("how", pa.uint8()),
    ]
)
LIVE = {"requests": REQUESTS, "chunks": CHUNKS, "ends": ENDS}  # in the order in which they are written

SCHEMA = pa.schema(
    [
        ("req", pa.uint64()),  # in the order of arrival; worker * 2**48 more where there are several
        ("worker", pa.uint16()),
        ("conn", pa.uint32()),
        ("nth", pa.uint32()),  # 0 for the first request of its connection
        ("arrival_ns", pa.int64()),
        ("arrival_kernel", pa.bool_()),  # false: no kernel stamp, arrival is the time of our read
        ("read_ns", pa.int64()),
        ("received_ns", pa.int64()),  # the body was whole; 0: it never was
        ("method", pa.string()),
        ("path", pa.string()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))),  # credentials blanked
        ("header_names", pa.string()),  # lower case, in their order, with commas between
        ("body", pa.large_binary()),
        ("digest", pa.binary(16)),  # of the body
        ("occurrence", pa.uint32()),  # 0 for the first body of this digest
        ("model", pa.string()),
        ("stream", pa.bool_()),
        ("ignore_eos", pa.bool_()),
        ("max_tokens", pa.int64()),  # max_completion_tokens counts, and wins, in chat
        ("extra_fields", pa.string()),  # JSON object of all body fields that have no column of their own
        ("prompt_digest", pa.binary(16)),  # of the prompt or the messages; null: there is none
        ("prefix_digests", pa.list_(pa.uint64())),  # of its first bytes, a length of `prompts.PREFIXES` each
        ("bare_prompt_tokens", pa.int32()),  # the text alone, no BOS and no template
        ("usage_prompt_tokens", pa.int32()),  # as `usage` says it
        ("planned_first_ns", pa.int64()),
        ("planned_ns", pa.list_(pa.int64())),  # a chunk each
        ("late_ns", pa.list_(pa.int64())),  # actual - planned, a chunk each; null: never written. 32 bits end at 2.1 s
        ("chunk_tokens", pa.list_(pa.uint32())),
        ("chunk_bytes", pa.list_(pa.uint32())),
        ("chunk_choice", pa.list_(pa.uint16())),  # which of `n` choices the chunk belongs to
        ("done_ns", pa.int64()),  # just before the last write, or at the client's close
        ("status", pa.int16()),
        ("output_tokens", pa.uint32()),  # written
        ("bytes", pa.uint64()),  # of the reply's body that were written, without the framing of chunks
        ("blocked_ns", pa.int64()),  # the client did not read, so a write had to wait
        ("outq_bytes", pa.uint32()),  # not taken by the client at the end: ours that wait, the kernel's unacknowledged
        ("fault", pa.uint16()),  # what was done to the request on purpose; null: nothing, there are no faults yet
        ("finish_reason", pa.string()),  # null: the last token was not written
        ("how_ended", pa.string()),
    ]
)
