"""What may a case say of the requests themselves?

How many, how long, which prompts, fields and headers. Left out: when they are sent (`loadproof.expected`), and whether
they were what is asked here (the checks).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from loadproof.lengths import Counted, Lengths, average
from loadproof.plain_words import LocatedProblems, Problem
from loadproof.strict_model import Count, Duration, Strict

OWN_KEYS = {
    "prompt": "prompt_tokens and distinct_prompts tell of it",
    "messages": "prompt_tokens and distinct_prompts tell of them",
    "model": "it is always the served one",
    "stream": "it has a key of its own",
    "ignore_eos": "it has a key of its own",
    "max_tokens": "it has a key of its own",
    "max_completion_tokens": "max_tokens tells of it",
}
"""The fields of a body that are no extra fields, and why."""

CREDENTIALS = ("auth", "key", "token", "secret", "cookie", "password", "credential", "bearer")
"""A header with one of these in its name is blanked before it is kept."""

PRESENT = "present"
"""What a case asks of a header whose value is not kept."""

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


def is_credential(header: str) -> bool:
    """Is the value of this header never kept?"""
    return any(word in header.lower() for word in CREDENTIALS)


class Workload(Strict):
    """What the requests are and how many; `prompt_tokens` count BOS where a tool sends one (`prompt_extra`).

    `unique_prompts` asserts that no prompt is sent twice, `distinct_prompts` how many different ones there are, and
    `distinct_prefixes` how many different first 64 bytes of them. `extra_fields` are all fields of a body beside those
    that have a key here, with their values (not said: none that changes the work); `headers` are headers that every
    request must have, by name in lower case, with their values.
    """

    num_requests: Count | None = None
    duration_s: Duration | None = None
    prompt_tokens: Lengths
    max_tokens: Lengths
    stream: bool
    ignore_eos: bool
    api: Literal["completions", "chat"] = "completions"
    unique_prompts: bool = False
    distinct_prompts: Count | None = None
    distinct_prefixes: Count | None = None
    extra_fields: dict[str, Any] | None = None
    headers: dict[str, str] = Field(default_factory=dict)

    @property
    def usual_max_tokens(self) -> int:
        """The mean length of an answer, in whole tokens."""
        return max(1, round(average(self.max_tokens)))

    @model_validator(mode="before")
    @classmethod
    def _lower_case_headers(cls, given: object) -> object:
        if not isinstance(given, dict) or not isinstance(headers := given.get("headers"), dict):
            return given
        lower = {name.lower() if isinstance(name, str) else name: value for name, value in headers.items()}
        if len(lower) < len(headers):
            twice = next(
                name for name in headers if sum(str(name).lower() == str(other).lower() for other in headers) > 1
            )
            raise LocatedProblems([Problem(("headers", twice), "is given twice, in upper and in lower case")])
        return {**given, "headers": lower}

    @model_validator(mode="after")
    def _fits(self) -> Self:
        self.exactly_one("num_requests", "duration_s")
        if found := [*self._lengths(), *self._prompts(), *self._fields(), *self._header_problems()]:
            raise LocatedProblems(found)
        return self

    def _lengths(self) -> Iterator[Problem]:
        for name in ("prompt_tokens", "max_tokens"):
            lengths = getattr(self, name)
            if not isinstance(lengths, Counted):
                continue
            if self.num_requests is None:
                yield Problem((name, "counts"), "needs num_requests; with duration_s give bounds, {min, max}")
            elif lengths.requests != self.num_requests:
                yield Problem((name, "counts"), f"makes {lengths.requests} requests together, got {self.num_requests}")

    def _prompts(self) -> Iterator[Problem]:
        n, prompts, prefixes = self.num_requests, self.distinct_prompts, self.distinct_prefixes
        if prompts is not None and n is not None and prompts > n:
            yield Problem(("distinct_prompts",), f"must be at most num_requests, {n}, got {prompts}")
        if self.unique_prompts and prompts is not None and prompts != n:
            whole = "num_requests" if n is None else f"num_requests, {n}"
            yield Problem(
                ("distinct_prompts",), f"with unique_prompts every prompt differs: leave it out, or make it {whole}"
            )
        most = n if prompts is None else prompts
        if prefixes is not None and most is not None and prefixes > most:
            of = "num_requests" if prompts is None else "distinct_prompts"
            yield Problem(("distinct_prefixes",), f"must be at most {of}, {most}, got {prefixes}")

    def _fields(self) -> Iterator[Problem]:
        for name, value in (self.extra_fields or {}).items():
            if name in OWN_KEYS:
                yield Problem(("extra_fields", name), f"is no extra field: {OWN_KEYS[name]}; leave it out here")
            elif not _finite(value):
                yield Problem(("extra_fields", name), "JSON has no such number; give a finite one")

    def _header_problems(self) -> Iterator[Problem]:
        for name, value in self.headers.items():
            if problem := _header_problem(name, value):
                yield Problem(("headers", name), problem)


def _finite(value: object) -> bool:
    match value:
        case dict():
            return all(_finite(each) for each in value.values())
        case list():
            return all(_finite(each) for each in value)
        case float():
            return math.isfinite(value)
    return True


def _header_problem(name: str, value: str) -> str:
    if not _HEADER_NAME.fullmatch(name):
        return "is no name of a header; it may have letters, digits and -"
    if is_credential(name) and value != PRESENT:
        return f"its value is never kept, so only whether it is there can be asked: write {PRESENT}"
    if re.match(r"bearer\b", value, re.IGNORECASE):
        return "holds a credential, which is never kept; leave this header out"
    if value != value.strip() or not value.isascii() or not value.isprintable():
        return "a value must be printable ASCII without spaces around it"
    return ""
