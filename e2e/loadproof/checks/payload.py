"""payload: is every request what was asked?

Null hypothesis: path, model, stream, ignore_eos, max_tokens and the number of bare prompt tokens of every
request equal the case's, under the shared tokenizer and the tool's declared BOS convention; where the case gives
bounds of a length every one lies within them, where it gives counts exactly so many requests have each length.
Statistic: how many requests say what. All exact, from n = 1 on, without a floor; no false alarms. A missing `stream` or
`ignore_eos` is false, as the API reads it. Where the server did not count (level `light`) prompt tokens are unclear.
Cannot see: in which order lengths come, which prompt goes with which max_tokens, a law within bounds. Left out: which
prompts they are (`prompts`), other fields (`fields`) and headers (`headers`), which follow here, and repetition
(count).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from msgspec.structs import replace

from loadproof.checks import fields, headers, prompts
from loadproof.checks.question import Question
from loadproof.checks.wording import said_instead, times, verdict_on, which, wrong_labels
from loadproof.lengths import Between, Counted, counts_for
from loadproof.load.labels import Labels, counts_of
from loadproof.load.offered import spread
from loadproof.load.requests import PATHS, Ints
from loadproof.verdict import Finding, Outcome

WIDTH = 27
"""As many characters has the column of what is expected."""

UNCOUNTED = "the server counted no prompts; serve at level full and with a profile that is not precompiled"


def findings(question: Question) -> Iterator[Finding]:
    """Yield the payload findings."""
    asked, load = question.expected.workload, question.trimmed
    requests, bos = load.requests, question.declared.prompt_extra.bos
    yield _all("path", "the asked endpoint", PATHS[asked.api], requests.paths)
    yield _all("model", "the served model", load.model, requests.models)
    yield _flag("stream", "streamed as asked", requests.streams, asked=asked.stream)
    yield _flag("ignore_eos", "ignore_eos as asked", requests.ignore_eos, asked=asked.ignore_eos)
    yield _lengths("max_tokens", "the asked output length", asked.max_tokens, requests.max_tokens)
    found = _lengths("prompt_tokens", f"bare text: prompt_tokens - {bos} BOS", asked.prompt_tokens,
                     requests.bare_prompt_tokens, less=bos)  # fmt: skip
    yield found if load.counted else replace(found, outcome=Outcome.UNCLEAR, detail=UNCOUNTED)
    yield from prompts.findings(question)
    yield from fields.findings(question)
    yield from headers.findings(question)


def _all(name: str, requirement: str, expected: object, labels: Labels) -> Finding:
    n, seen = len(labels), labels.counts()
    return verdict_on(f"payload.{name}", requirement, _in_all(expected, n), spread(seen), n=n,
                      right=seen[expected] == n,
                      detail=wrong_labels(labels, lambda value: value == expected))  # fmt: skip


def _flag(name: str, requirement: str, labels: Labels, *, asked: bool) -> Finding:
    """Return the finding of a flag; who says nothing says false."""
    n, true = len(labels), labels.counts()[True]
    seen = Counter({True: true}) + Counter({False: n - true})
    return verdict_on(f"payload.{name}", requirement, _in_all(asked, n), spread(seen), n=n,
                      right=seen[asked] == n,
                      detail=wrong_labels(labels, lambda value: bool(value) == asked))  # fmt: skip


def _in_all(value: object, n: int) -> str:
    text = spread({value: n} if n else {})
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 3]}..."


def _lengths(name: str, requirement: str, asked: int | Between | Counted, seen: Ints, *, less: int = 0) -> Finding:
    """Return the finding of lengths in tokens, each `less` than the case says."""
    n, counts = len(seen), counts_of(seen)
    if isinstance(asked, Between):
        low, high = asked.min - less, asked.max - less
        outside = (seen < max(0, low)) | (seen > high)
        return verdict_on(f"payload.{name}", requirement, f"{low} to {high}", _range(counts), n=n,
                          right=not outside.any(), detail=f"outside in {which(outside)}")  # fmt: skip
    wanted = Counter({length - less: count for length, count in (counts_for(asked, n) or {}).items()})
    expected = spread(wanted)
    if isinstance(asked, Counted):
        said = _other_counts(wanted, counts, seen)
    else:
        said = _off(asked - less, counts, seen) + _about_bos(asked - less, less, counts)
    return verdict_on(f"payload.{name}", requirement, expected if len(expected) <= WIDTH else f"{len(wanted)} lengths",
                      spread(counts), right=counts == wanted, n=n, detail=said)  # fmt: skip


def _range(counts: Counter[int | None]) -> str:
    known, missing = [length for length in counts if length is not None], counts[None]
    said = [f"{min(known)} to {max(known)}"] if known else []
    return ", ".join(said + ([f"none x {missing}"] if missing else [])) or "nothing"


def _off(asked: int, counts: Counter[int | None], seen: Ints) -> str:
    """Say how far other lengths than the one asked are from it: "1 token too many in the last 3"."""

    def said(length: int | None) -> str:
        if length is None:
            return "missing"
        off = length - asked
        return f"{abs(off)} token{'' if abs(off) == 1 else 's'} too {'many' if off > 0 else 'few'}"

    others = [length for length, _ in counts.most_common() if length != asked]
    return said_instead(others, lambda length: seen == (-1 if length is None else length), said)


def _about_bos(asked: int, bos: int, counts: Counter[int | None]) -> str:
    """Say what a prompt that is off by the BOS in every request looks like; lengths without BOS have none."""
    if not bos or len(counts) != 1:
        return ""
    return {
        asked + bos: ": is BOS sent in the text, or not in what the tool counts (prompt_extra.bos)?",
        asked - bos: ": is BOS counted twice (prompt_extra.bos)?",
    }.get(next(iter(counts)) or 0, "")


def _other_counts(wanted: Counter[int], counts: Counter[int | None], seen: Ints) -> str:
    """Say which lengths came more or less often than asked."""
    lengths = [*counts, *(length for length in wanted if length not in counts)]
    told = [_counted(length, counts[length], wanted[length] if length is not None else 0, seen)
            for length in lengths if length is None or counts[length] != wanted[length]]  # fmt: skip
    return "; ".join(told[:3] + ([f"and {len(told) - 3} other lengths"] if len(told) > 3 else []))


def _counted(length: int | None, found: int, asked: int, seen: Ints) -> str:
    name = "no length" if length is None else f"{length}"
    where = "" if asked else f" (in {which(seen == (-1 if length is None else length))})"
    return f"{name} came {times(found)}{where}, asked {times(asked)}"
