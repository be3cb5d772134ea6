"""How far are our stamps from the capture's?

Pure: what the capture saw (`Seen`, by request name, in nanoseconds of CLOCK_MONOTONIC) against a journal, or against
the metronome's rows and claims. An error is ours minus the capture's. Compared are

- `arrival` with the packet that the absorber's first read of the request took last: the last segment of the
  request that had passed when that read returned, among those with a byte in what one read takes (one that passes
  while the read is still copying counts as taken, so large bodies may seem early by the length of a copy);
- each chunk's `actual` with the packet that carried the chunk's last byte; `actual` is taken before the send, so it
  is a little early;
- the metronome's send with the packet of the request's last byte, and each quantity that it claims (TTFT and latency
  from the plan where there was one) with the same from the capture, request by request; claims.json must be made of
  just these.

`shift_ns` makes our stamps wrong on purpose, as a run that must fail. Every request must be in both, and answered.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.calibration.exchanges import Reply, Seen
from bench.calibration.reassembly import Ints
from loadproof.absorber.sockets import READ_BYTES
from loadproof.errors import BrokenRun
from loadproof.journal import COMPLETE, Journal
from loadproof.metronome.claims import Row
from loadproof.reported import Distribution, Reported

BAR_NS = 50_000
_ROUNDING_NS = 5.0  # of seconds as a decimal number, and of a TPOT that is no whole number


@dataclass(frozen=True)
class Agreement:
    """One row of the table: `errors_ns` of `stamp` under `scenario`."""

    scenario: str
    stamp: str
    errors_ns: Ints

    @property
    def holds(self) -> bool:
        """Whether there is anything to go by, and the median error is within the bar."""
        return len(self.errors_ns) > 0 and self.median_ns <= BAR_NS

    @property
    def median_ns(self) -> float:
        """The median of the errors' sizes."""
        return float(np.median(np.abs(self.errors_ns)))

    def cells(self) -> list[str]:
        """Return the row as text, in microseconds."""
        sizes = np.abs(self.errors_ns) / 1e3
        p50, p99, most = np.quantile(sizes, (0.5, 0.99, 1.0))
        signed = float(np.median(self.errors_ns)) / 1e3
        return [self.scenario, self.stamp, str(len(sizes)), f"{p50:.1f}", f"{p99:.1f}", f"{most:.1f}", f"{signed:+.1f}",
                "yes" if self.holds else "NO"]  # fmt: skip


def of_absorber(
    scenario: str, names: Sequence[str], seen: Mapping[str, Seen], journal: Journal, shift_ns: int = 0
) -> list[Agreement]:
    """Return the agreement of arrivals and of chunks. Raises BrokenRun where journal and capture are not of one run."""
    rows = _rows_by_name(journal)
    arrival, read = journal.int_column("arrival_ns"), journal.int_column("read_ns")
    planned, offsets = journal.list_column("planned_ns")
    late, _ = journal.list_column("late_ns")
    sizes, _ = journal.list_column("chunk_bytes")
    how = journal.table.column("how_ended").to_pylist()
    arrivals, chunks = [], []
    for name in names:
        row, one = rows.get(name), seen.get(name)
        if row is None or one is None or one.reply is None or how[row] != COMPLETE:
            raise BrokenRun(f"{name}: is not in both journal and capture, answered whole")
        arrivals.append(arrival[row] + shift_ns - _taken_last(one, int(read[row])))
        mine = slice(offsets[row], offsets[row + 1])
        actual = planned[mine] + late[mine] + shift_ns
        chunks.append(actual - _passed(name, one.reply, sizes[mine]))
    return [Agreement(scenario, "arrival", np.array(arrivals)), Agreement(scenario, "chunk", np.concatenate(chunks))]


def _rows_by_name(journal: Journal) -> dict[str, int]:
    names = {}
    for row, headers in enumerate(journal.table.column("headers").to_pylist()):
        found = [header["value"] for header in headers if header["name"].lower() == "x-request-id"]
        if found:
            names[found[0]] = row
    return names


def _taken_last(one: Seen, read_ns: int) -> int:
    """Return the time of the segment that the first read took last."""
    takeable = one.times_ns[(one.times_ns <= read_ns) & (one.starts < READ_BYTES)]
    return int(takeable[-1]) if len(takeable) else int(one.times_ns[0])


def _passed(name: str, reply: Reply, sizes: Ints) -> Ints:
    """Return when the last byte of each chunk passed; the chunks' sizes must fit the bytes of the reply."""
    ends = np.cumsum(sizes)
    if any(reply.body[end - 2 : end] != b"\n\n" for end in ends):
        raise BrokenRun(f"{name}: the journal's chunks do not end where the events on the wire end")
    return np.array([reply.time_ns(int(end) - 1) for end in ends], np.int64)


@dataclass(frozen=True)
class Told:
    """What one run of the metronome left, and the names of its requests, in the order of its rows."""

    scenario: str
    names: Sequence[str]
    rows: Sequence[Row]
    claims: Reported


@dataclass(frozen=True)
class Quantities:
    """What a client can say, in ns: an entry per request, and per gap between texts for `itl`."""

    send: Ints
    ttft: Ints
    itl: Ints
    tpot: Ints
    latency: Ints


def of_metronome(told: Told, seen: Mapping[str, Seen], shift_ns: int = 0) -> list[Agreement]:
    """Return the agreement of the send and of each claimed quantity.

    With `shift_ns` each stamp is later by that much more than the one before it, so that gaps are wrong too. Raises
    BrokenRun where rows and capture are not of one run, and where claims.json is not what the rows make, because
    then their agreement would say nothing of it.
    """
    _must_make_the_claims(told, _quantities(_shifted(row, 0) for row in told.rows))
    claimed = _quantities(_shifted(row, shift_ns) for row in told.rows)
    true = _captured(told, seen)
    return [
        Agreement(told.scenario, name, getattr(claimed, key) - getattr(true, key))
        for key, name in (("send", "send"), ("ttft", "TTFT"), ("itl", "ITL"), ("tpot", "TPOT"), ("latency", "latency"))
    ]


def _must_make_the_claims(told: Told, ours: Quantities) -> None:
    for key in ("ttft", "itl", "tpot", "latency"):
        claim = getattr(told.claims, f"{key}_s") or Distribution()
        claimed = np.array([value or 0.0 for value in (claim.mean, claim.p50, claim.p90, claim.p99)]) * 1e9
        if not np.allclose(claimed, _spread(getattr(ours, key)), rtol=0, atol=_ROUNDING_NS):
            raise BrokenRun(f"{told.scenario}: the claimed {key}_s is not made of the stamps in requests.jsonl")


def _spread(values: Ints) -> list[float]:
    return [float(values.mean()), *np.quantile(values, (0.5, 0.9, 0.99)).tolist()]


def _shifted(row: Row, shift_ns: int) -> tuple[int, int, list[int]]:
    sent = (row.sent_ns or 0) + shift_ns
    planned = row.intended_ns if row.intended_ns != row.sent_ns else None
    return sent, planned or sent, [text + (k + 2) * shift_ns for k, text in enumerate(row.text_ns)]


def _captured(told: Told, seen: Mapping[str, Seen]) -> Quantities:
    facts = []
    for name, row in zip(told.names, told.rows, strict=True):
        one = seen.get(name)
        if one is None or one.reply is None or row.error or len(one.reply.text_times_ns()) != len(row.text_ns):
            raise BrokenRun(f"{name}: the metronome's row and the capture are not of the same answer ({row.error})")
        planned = row.intended_ns if row.intended_ns != row.sent_ns else None
        facts.append((one.sent_ns, planned or one.sent_ns, one.reply.text_times_ns()))
    return _quantities(facts)


def _quantities(facts: Iterable[tuple[int, int, list[int]]]) -> Quantities:
    """`facts`: send, origin of TTFT and latency, and the times of the texts, in ns, of each request."""
    columns: tuple[list[float], ...] = ([], [], [], [], [])
    send, ttft, itl, tpot, latency = columns
    for sent, origin, texts in facts:
        send.append(sent)
        ttft.append(texts[0] - origin)
        itl.extend(after - before for before, after in itertools.pairwise(texts))
        tpot.append((texts[-1] - texts[0]) / (len(texts) - 1))
        latency.append(texts[-1] - origin)
    return Quantities(*(np.array(values, np.int64) for values in columns))
