"""fields: do the bodies say nothing that makes a request other work than asked?

Null hypothesis: where the case gives `extra_fields`, each request has exactly those, with those values; fields that ask
for nothing (null, `n: 1`, `echo: false`, …) and `stream_options`, by which a tool counts, need not be named. Where the
case gives none, no request has a field that changes the work (`loadproof.checks.work`), all have fields of the same
names, and a field has one value in all of them or another one in each (a name, a seed). Statistic: how many requests
have which field. Exact, from n = 1 on, without a floor; no false alarms. 1 and 1.0 are the same number.
Cannot see: fields that this list does not know and that all requests have alike; they are shown. Left out: what has a
key of its own in a case (`payload`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from loadproof.checks.question import Question
from loadproof.checks.told_apart import Named, fields_of
from loadproof.checks.wording import said_instead, verdict_on, which
from loadproof.checks.work import OF_A_REQUEST, SAMPLING, asks_nothing, changes_work, same
from loadproof.load.labels import Bools, Labels
from loadproof.load.offered import spread
from loadproof.verdict import Finding

_MOST_TOLD = 4
_COUNTED_BY = "stream_options"


def findings(question: Question) -> Iterator[Finding]:
    """Yield the finding of the fields of bodies."""
    asked, labels = question.expected.workload, question.trimmed.requests.extra_fields
    if asked.extra_fields is None:
        yield _not_asked(labels, asked.api)
    else:
        yield _asked(labels, asked.extra_fields, asked.api)


def _asked(labels: Labels, asked: dict[str, Any], api: str) -> Finding:
    n, named = len(labels), fields_of(labels)
    wrong, told = np.zeros(n, np.bool_), []
    for said, where in _unlike(named, asked, api):
        wrong |= where
        told.append(said)
    odd = int(np.count_nonzero(wrong))
    names = ", ".join(sorted(asked)) or "no field"
    return verdict_on("payload.fields", "exactly the asked extra fields", _short(names, f"{len(asked)} fields"),
                      f"as asked x {n - odd}" + (f", not x {odd}" if odd else ""), right=not odd, n=n,
                      detail=_joined(told))  # fmt: skip


def _unlike(named: Named, asked: dict[str, Any], api: str) -> Iterator[tuple[str, Bools]]:
    """Yield what is not as asked, in words, and in which requests."""
    for name, value in asked.items():
        missing = ~named.where(name)
        if missing.any():
            yield f"{name} is missing in {which(missing)}", missing
        wanted = json.dumps(value, sort_keys=True).encode()
        if others := [raw for raw in named.values(name) if raw != wanted and not same(json.loads(raw), value)]:
            yield f"{name} is {_told(named, name, others)}", named.where(name, others)
    for name in sorted(named.names.keys() - asked.keys() - {_COUNTED_BY}):
        if said := [raw for raw in named.values(name) if not asks_nothing(name, raw, api)]:
            yield f"{name} is not asked, and is {_told(named, name, said)}", named.where(name, said)


def _not_asked(labels: Labels, api: str) -> Finding:
    n, named = len(labels), fields_of(labels, OF_A_REQUEST)
    counts = named.counts()
    told = [said for name in counts if (said := _odd(named, name, counts[name], api))]
    return verdict_on("payload.fields", "alike, and none changes the work", "alike, no other work",
                      spread(counts) if counts else "no other fields", right=not told, n=n,
                      detail=_joined(told))  # fmt: skip


def _odd(named: Named, name: str, count: int, api: str) -> str:
    """Say what is wrong with a field that no case has asked for; empty when nothing is."""
    values = () if name in OF_A_REQUEST else named.values(name)
    if working := [raw for raw in values if changes_work(name, raw, api)]:
        return f"{name} is {_told(named, name, working)}, which changes the work"
    if count < len(named.labels):
        value = f" ({_value(values[0])})" if len(values) == 1 else ""
        return f"{name}{value} in {which(named.where(name))} and in no other"
    differ = len(values) > 1 and not all(asks_nothing(name, raw, api) for raw in values[:2])
    if not differ or (name not in SAMPLING and len(values) > count / 2):
        return ""
    if 2 * np.count_nonzero(named.where(name, values[:1])) <= count:
        return f"{name} is {_told(named, name, values)}"
    return f"{name} is {_value(values[0])} in most, {_told(named, name, values[1:])}"


def _told(named: Named, name: str, values: Sequence[bytes]) -> str:
    return said_instead(values, lambda value: named.where(name, [value]), _value)


def _value(raw: bytes) -> str:
    text = raw.decode()
    return text if len(text) <= 40 else f"{text[:37]}..."


def _short(text: str, instead: str) -> str:
    return text if len(text) <= 27 else instead


def _joined(told: list[str]) -> str:
    return "; ".join(told[:_MOST_TOLD] + ([f"and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []))
