"""Wrong requests at the right time: too many, too few, repeated, and such that say something else than asked.

Rows for wrong_kinds.py. The rows of an honest journal are changed.
"""

from __future__ import annotations

import numpy as np

from loadproof.case import Case
from loadproof.journal import Journal
from tests.unit import forge
from tests.unit.wrong_arrivals import CONSTANT
from tests.unit.wrong_kind import Kind, cells, edited, every, kind

PREFIXES = forge.lists(np.array([[1, 2, 3]], np.uint64), "prefix_digests").to_pylist()[0]
MORE = "one request more is also one that has no place in the schedule"


def _asking(n: int, **workload: object) -> Case:
    return forge.case({"mode": "rate", "rate": 40}, workload={"num_requests": n, **workload}, arrival="constant")


def distinct(n: int) -> Case:
    """All prompts different, from their first bytes on."""
    return _asking(n, distinct_prompts=n, distinct_prefixes=n)


def lengths(n: int) -> Case:
    """Most replies of 16 tokens, ten of 32."""
    return _asking(n, max_tokens={"counts": {"16": n - 10, "32": 10}})


def fields(n: int) -> Case:
    """A field more in each body."""
    return _asking(n, extra_fields={"temperature": 0.5})


def team(n: int) -> Case:
    """A header in each request."""
    return _asking(n, headers={"x-team": "blue"})


def _repeated(journal: Journal) -> Journal:
    n = journal.table.num_rows
    again = forge.digests(1 + np.arange(n, dtype=np.uint64) % np.uint64(n // 2))
    return forge.with_columns(journal, prompt_digest=again)


def _same_body(journal: Journal) -> Journal:
    first = journal.table.slice(20, 1).to_pylist()[0]
    names = ("digest", "prompt_digest", "prefix_digests")
    return forge.changed(journal, 30, **{name: first[name] for name in names})


def _sent_twice(journal: Journal) -> Journal:
    twice = journal.table.slice(20, 1).to_pylist()[0]
    names = ("digest", "prompt_digest", "prefix_digests")
    return forge.with_extra(journal, at_s=2.0, **{name: twice[name] for name in names})


def _last_3_never_sent(journal: Journal) -> Journal:
    return Journal(journal.table.slice(0, journal.table.num_rows - 3), journal.metadata)


KINDS: list[Kind] = [
    kind("a duplicate in the place of another", CONSTANT, 120, edited(_same_body), "count.unique"),
    kind("a request sent twice", CONSTANT, 120, edited(_sent_twice), "count.requests count.unique",
         also="arrivals.* rate.mean", because=MORE),
    kind("the last 3 never sent", CONSTANT, 120, edited(_last_3_never_sent), "count.requests"),
    kind("one in the middle never sent", CONSTANT, 120, edited(lambda j: forge.without(j, 25)), "count.requests",
         also="arrivals.* rate.mean", because="what is missing leaves a place in the schedule"),
    kind("an undeclared warm-up", CONSTANT, 100, edited(lambda j: forge.with_extra(j, at_s=-1.0)), "count.requests",
         also="arrivals.* rate.mean", because=MORE),
    kind("a request after the end", CONSTANT, 120, edited(lambda j: forge.with_extra(j, at_s=6.0)),
         "count.requests count.after_end", also="arrivals.* rate.mean", because=MORE, ended_s=5.0),
    kind("a stray request", CONSTANT, 120, edited(lambda j: forge.with_extra(j, at_s=0.5, path="/v1/embeddings")),
         "count.recognised"),
    kind("prompts repeated in other bodies", CONSTANT, 120, edited(_repeated), "count.unique"),
    kind("half the distinct prompts", distinct, 120, edited(_repeated), "count.unique payload.prompts"),
    kind("a prefix that all share", distinct, 120, every(1, prefix_digests=PREFIXES), "payload.prefixes"),
    kind("a prefix that two share", distinct, 120, edited(lambda j: forge.changed(
         j, 3, prefix_digests=j.table["prefix_digests"][4].as_py())), "payload.prefixes"),
    *(
        kind(f"{what} in {words} request", CONSTANT, 120, every(nth, **values), f"payload.{check}")
        for nth, words in ((1, "every"), (100, "one"))
        for what, check, values in (
            ("max_tokens one less", "max_tokens", {"max_tokens": forge.TOKENS - 1}),
            ("max_tokens one more", "max_tokens", {"max_tokens": forge.TOKENS + 1}),
            ("no max_tokens", "max_tokens", {"max_tokens": None}),
            ("no ignore_eos", "ignore_eos", {"ignore_eos": None}),
            ("no stream", "stream", {"stream": None}),
            ("stream false", "stream", {"stream": False}),
            ("another model", "model", {"model": "another"}),
            ("no model", "model", {"model": None}),
            ("chat", "path", {"path": "/v1/chat/completions"}),
            ("a prompt token too many", "prompt_tokens", {"bare_prompt_tokens": 128}),
            ("a prompt token too few", "prompt_tokens", {"bare_prompt_tokens": 126}),
            ("n: 2", "fields", {"extra_fields": '{"n":2}'}),
            ("echo", "fields", {"extra_fields": '{"echo":true}'}),
            ("no content-type", "headers", {"header_names": "host,content-length"}),
        )
    ),
    kind("a field in every third request", CONSTANT, 120, every(3, extra_fields='{"temperature":0.7}'),
         "payload.fields"),
    kind("an asked field missing everywhere", fields, 120, every(1, extra_fields="{}"), "payload.fields"),
    kind("an asked field of another value", fields, 120, every(1, extra_fields='{"temperature":0.7}'),
         "payload.fields"),
    kind("an asked header missing everywhere", team, 120,
         every(1, headers=[], header_names="host,content-type,content-length"), "payload.headers"),
    kind("an asked header of another value", team, 120, every(1, headers=[{"name": "x-team", "value": "red"}]),
         "payload.headers"),
    kind("an asked header missing once", team, 120,
         cells(60, headers=[], header_names="host,content-type,content-length"), "payload.headers"),
    kind("a long reply less than asked", lengths, 120, cells(5, max_tokens=forge.TOKENS), "payload.max_tokens"),
]  # fmt: skip
