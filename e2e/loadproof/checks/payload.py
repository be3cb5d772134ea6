"""payload: is every request what was asked?

Null hypothesis: path, model, stream, ignore_eos, max_tokens and the number of bare prompt tokens of every
request equal the case's, under the shared tokenizer and the tool's declared BOS convention. All exact, from
n = 1 on; no false alarms. A missing `stream` or `ignore_eos` is false, as the API reads it. Where the server did not
count (level `light`) prompt tokens are unclear. Cannot see: what a body says in fields of other names. Left out:
headers, extra fields, repetition of prompts (count).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from loadproof.checks.question import Question, exact
from loadproof.load.offered import spread
from loadproof.load.requests import PATHS
from loadproof.verdict import Finding, Outcome

UNCOUNTED = "the server counted no prompts; serve at level full and with a profile that is not precompiled"


def findings(question: Question) -> Iterator[Finding]:
    """Yield the payload findings."""
    asked, declared = question.expected.workload, question.declared
    load = question.trimmed()
    requests = load.requests
    bos = declared.prompt_extra.bos
    bare = asked.prompt_tokens - bos
    tokens = [None if count < 0 else count for count in requests.bare_prompt_tokens.tolist()]
    limits = [None if limit < 0 else limit for limit in requests.max_tokens.tolist()]
    yield _all("path", "the asked endpoint", PATHS[asked.api], requests.paths)
    yield _all("model", "the served model", load.model, requests.models)
    yield _all("stream", "streamed as asked", asked.stream, map(bool, requests.streams))
    yield _all("ignore_eos", "ignore_eos as asked", asked.ignore_eos, map(bool, requests.ignore_eos))
    yield _all("max_tokens", "the asked output length", asked.max_tokens, limits)
    found = _all("prompt_tokens", f"bare text: prompt_tokens - {bos} BOS", bare, tokens)
    yield found if load.counted else replace(found, outcome=Outcome.UNCLEAR, detail=UNCOUNTED)


def _all(name: str, requirement: str, expected: object, values: Iterable[object]) -> Finding:
    seen = list(values)
    return exact(f"payload.{name}", requirement, spread([expected] * len(seen)), spread(seen), n=len(seen))
