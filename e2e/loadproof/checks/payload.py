"""payload: is every request what was asked?

Null hypothesis: path, model, stream, ignore_eos, max_tokens and the number of bare prompt tokens of every
request equal the case's, under the shared tokenizer and the tool's declared BOS convention. All exact, from
n = 1 on; no false alarms. Left out: headers, extra fields, repetition of prompts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loadproof.checks.question import EVIDENCE, Question
from loadproof.load.offered import spread
from loadproof.load.requests import PATHS
from loadproof.verdict import Finding, Outcome


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
    yield _all("prompt_tokens", f"bare text: prompt_tokens - {bos} BOS", bare, tokens)


def _all(name: str, requirement: str, expected: object, values: object) -> Finding:
    seen: Sequence[object] = list(values)  # type: ignore[call-overload] # any iterable of the journal's values
    outcome = Outcome.PASS if all(value == expected for value in seen) else Outcome.FAIL
    if not seen:
        outcome = Outcome.UNCLEAR
    return Finding(check=f"payload.{name}", requirement=requirement, expected=spread([expected] * len(seen)),
                   measured=spread(seen), outcome=outcome, n=len(seen), smallest_deviation="exact",
                   evidence=EVIDENCE)  # fmt: skip
