"""What is known of one request, from its first byte to its row in the journal?

Plain slots, because it is made on the hot path; `Server` writes its rows. Times are nanoseconds of CLOCK_MONOTONIC.
Left out: what is being written to it (`reply`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from loadproof.absorber.head import Head, Refused


class Request:
    """One request.

    `head` is None for bytes that were no request; `unparsed` holds those, credentials blanked, and `refusal` says why
    not. `body` is decoded. `counted` is (bare, usage) tokens of the prompt, once known. `tokens` and `size` are what
    has been written: tokens, and bytes of the body without the framing of chunks.
    """

    __slots__ = (
        "arrival", "being_counted", "blocked_ns", "body", "close_after", "conn", "counted", "digest", "done",
        "generates", "head", "how", "kernel", "noted", "nth", "occurrence", "outq_bytes", "planned_first", "read",
        "reason", "received", "refusal", "req", "size", "status", "tokens", "unparsed",
    )  # fmt: skip

    def __init__(self, req: int, conn: int, nth: int, arrival: int, kernel: int, read: int) -> None:  # noqa: PLR0917 -- by position is fastest
        self.req, self.conn, self.nth = req, conn, nth
        self.arrival, self.kernel, self.read = arrival, kernel, read
        self.received = self.planned_first = self.occurrence = 0
        self.body = self.digest = self.unparsed = b""
        self.head: Head | None = None
        self.refusal: Refused | None = None
        self.counted: tuple[int, int] | None = None
        self.being_counted = self.close_after = self.generates = self.noted = False
        self.status = self.tokens = self.size = self.reason = self.done = 0
        self.blocked_ns = self.outq_bytes = 0
        self.how: str | None = None
