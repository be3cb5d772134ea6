"""Which live streams would a long run leave?

Poisson arrivals, a streamed reply each, times of writing as an absorber shows them; the chunks of all open replies in
the order of time, as they are written. Bodies have one size; their prompts begin with words of their own. The real
writer writes. Everything is drawn from the seed; a block of requests at a time, so that the size is bounded by the
disk. Left out: the prompts' number of tokens, which is told and not counted.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from loadproof.record import COMPLETE, HOW, REASONS, Metadata
from loadproof.streams import JournalWriter
from loadproof.words import WORDS

MODEL = "bench-model"
RATE, TTFT_NS, ITL_NS, DONE_NS = 1000.0, 100_000_000, 10_000_000, 50_000
EPOCH_NS = 5_000_000_000_000  # a monotonic clock is never at 0
BARE_TOKENS = 99
CLOCK_NS = 1_700_000_000_000_000_000
BLOCK = 8192
CONNECTIONS = 512
HEAD = (
    "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate, br\r\n"
    "User-Agent: bench/1.0\r\nAuthorization: \r\nContent-Length: {size}\r\nContent-Type: application/json\r\n\r\n"
)

type Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Plan:
    """How many requests, how many chunks a reply, how many bytes a body."""

    requests: int
    chunks: int = 16
    body_bytes: int = 800
    seed: int = 1


class _Bodies:
    """Bodies of one size: a passage of a long text of random words, behind its number in words."""

    def __init__(self, plan: Plan, rng: np.random.Generator) -> None:
        fields = {"model": MODEL, "prompt": "@", "max_tokens": plan.chunks, "temperature": 0.0, "stream": True,
                  "ignore_eos": True, "stream_options": {"include_usage": True}}  # fmt: skip
        self._begin, self._end = json.dumps(fields).encode().split(b"@")
        self._room = plan.body_bytes - len(self._begin) - len(self._end)
        words = [WORDS[place] for place in rng.integers(0, len(WORDS), 2_000_000)]
        self._text = " ".join(words).encode()
        self._rng = rng
        self.head = HEAD.format(size=plan.body_bytes).encode()

    def make(self, first: int, count: int) -> list[bytes]:
        begins = self._rng.integers(0, len(self._text) - self._room, count).tolist()
        numbers = [b"%s %s " % (_word(k), _word(k // len(WORDS))) for k in range(first, first + count)]
        return [
            b"%b%b%b%b" % (self._begin, number, self._text[at : at + self._room - len(number)], self._end)
            for number, at in zip(numbers, begins, strict=True)
        ]


def _word(number: int) -> bytes:
    return WORDS[number % len(WORDS)].encode()


def make_streams(folder: Path, plan: Plan) -> None:
    """Write the live streams of a whole run into `folder`."""
    rng = np.random.default_rng(plan.seed)
    bodies = _Bodies(plan, rng)
    metadata = Metadata(host="bench", boot_id="", model=MODEL, profile={}, clock_offset_ns=(CLOCK_NS, CLOCK_NS))
    writer = JournalWriter(folder, metadata)
    arrivals = EPOCH_NS + np.cumsum(rng.exponential(1e9 / RATE, plan.requests)).astype(np.int64)
    waiting = _Waiting(np.empty((4, 0), np.int64), np.empty((2, 0), np.int64))
    for first in range(0, plan.requests, BLOCK):
        block = arrivals[first : first + BLOCK]
        _note_requests(writer, first, block, bodies, rng)
        waiting = waiting.and_those_of(first, block, plan, rng)
        rest = arrivals[first + BLOCK : first + BLOCK + 1]
        waiting = waiting.noted_until(writer, int(rest[0]) if len(rest) else None, plan.chunks)
    writer.flush(CLOCK_NS)
    writer.close()


def _note_requests(
    writer: JournalWriter, first: int, arrivals: Ints, bodies: _Bodies, rng: np.random.Generator
) -> None:
    lags = rng.lognormal(np.log(60e3), 0.5, len(arrivals)).astype(np.int64)
    made = zip(arrivals.tolist(), (arrivals + lags).tolist(), bodies.make(first, len(arrivals)), strict=True)
    for k, (arrival, read, body) in enumerate(made, first):
        digest = hashlib.sha256(body).digest()[:16]
        writer.request(k, k % CONNECTIONS, k // CONNECTIONS, arrival, 1, read, read, bodies.head + body, digest, 0,
                       arrival + TTFT_NS)  # fmt: skip
        if writer.full:
            writer.flush(CLOCK_NS)


@dataclass(frozen=True)
class _Waiting:
    """What is still to happen: `chunks` [req, planned, actual, bytes] and `ends` [req, done], a column each."""

    chunks: np.ndarray[tuple[int, int], np.dtype[np.int64]]
    ends: np.ndarray[tuple[int, int], np.dtype[np.int64]]

    def and_those_of(self, first: int, arrivals: Ints, plan: Plan, rng: np.random.Generator) -> _Waiting:
        """Return what waits with the replies to a block of requests."""
        shape = len(arrivals), plan.chunks
        planned = arrivals[:, None] + TTFT_NS + ITL_NS * np.arange(plan.chunks)
        actual = planned + np.maximum(5e3, rng.lognormal(np.log(30e3), 0.6, shape)).astype(np.int64)
        number = np.arange(first, first + len(arrivals))
        columns = (np.broadcast_to(number[:, None], shape), planned, actual, rng.integers(260, 270, shape))
        chunks = np.array([column.reshape(-1) for column in columns])
        ends = np.array([number, actual[:, -1] + DONE_NS])
        return _Waiting(np.concatenate([self.chunks, chunks], axis=1), np.concatenate([self.ends, ends], axis=1))

    def noted_until(self, writer: JournalWriter, until: int | None, tokens: int) -> _Waiting:
        """Note what happens before `until` (None: all) in the order of time, and return the rest."""
        actual, done = self.chunks[2], self.ends[1]
        now, over = (actual < until, done < until) if until is not None else (actual >= 0, done >= 0)
        for req, planned, stamp, size in self.chunks[:, now][:, np.argsort(actual[now], kind="stable")].T.tolist():
            writer.chunk(req, planned, stamp, 1, size, 0)
            if writer.full:
                writer.flush(CLOCK_NS)
        for req, stamp in self.ends[:, over].T.tolist():
            writer.end(req, stamp, 200, tokens, tokens * 265, 0, 0, BARE_TOKENS, BARE_TOKENS + 1, 0,
                       REASONS.index("length"), HOW.index(COMPLETE))  # fmt: skip
            if writer.full:
                writer.flush(CLOCK_NS)
        return _Waiting(self.chunks[:, ~now], self.ends[:, ~over])
