"""headers: do all requests have the same headers, a content type among them, and those that the case asks for?

Null hypothesis: every request has `content-type` and the same names as the others (but `expect`, which goes by a body's
size), in whatever order, and each of the case's `headers` with its value; of a credential, whose value is never kept,
only that it is there. Statistic: how many requests have which name and value. Exact, from n = 1 on, without a floor; no
false alarms. Cannot see: values that no case asks for, a header that is there twice (the first counts), the order.
Left out: what a connection does with them (`connections`).
"""

from __future__ import annotations

from collections.abc import Iterator

from loadproof.checks.question import Question
from loadproof.checks.told_apart import Named, names_of
from loadproof.checks.wording import said_instead, verdict_on, which
from loadproof.load.labels import Labels
from loadproof.verdict import Finding
from loadproof.workload import is_credential

_BY_SIZE = "expect"
_ALWAYS = "content-type"
_MOST_TOLD = 4


def findings(question: Question) -> Iterator[Finding]:
    """Yield the finding of headers."""
    asked, load = question.expected.workload.headers, question.trimmed
    named = names_of(load.requests.header_names, lambda text: text.split(","))
    told = [*_unlike(named, {_ALWAYS, *asked}), *_other_values(load.header_values, asked)]
    names, n = len(named.names), load.requests.n
    more = [f"and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else []
    yield verdict_on("payload.headers", "the same headers in every request",
                     f"{_ALWAYS}, {len(asked)} asked" if asked else f"alike, with {_ALWAYS}",
                     f"{names} names, {'as asked' if not told else f'{len(told)} of them wrong'}", right=not told,
                     n=n, detail="; ".join(told[:_MOST_TOLD] + more))  # fmt: skip


def _unlike(named: Named, needed: set[str]) -> Iterator[str]:
    """Say which names are not in every request."""
    for name in sorted((named.names.keys() | needed) - {_BY_SIZE}):
        has = named.where(name)
        if name in needed and not has.all():
            yield f"{name} is missing in {which(~has)}"
        elif not has.all():
            yield f"{name} in {which(has)} and in no other"


def _other_values(values: dict[str, Labels], asked: dict[str, str]) -> Iterator[str]:
    """Say which of the asked headers that are there have another value."""
    for name, value in asked.items():
        if is_credential(name):
            continue
        seen = values[name]
        others = [other for other, _ in seen.counts().most_common() if other not in {None, value}]
        if others:
            yield f"{name} is {said_instead(others, seen.equal, _shown)}"


def _shown(value: str) -> str:
    return f"'{value if len(value) <= 40 else f'{value[:37]}...'}'"
