"""prompts: are there as many different prompts as asked, and how much of them would a server's cache have seen before?

Null hypothesis: the prompts of all requests are exactly `distinct_prompts` different texts, and their first 64 bytes,
some 16 tokens, exactly `distinct_prefixes` different ones. Statistic: the number of different digests (of beginnings
one of 64 bits: two that differ are taken for one with 2^-60). Exact, from n = 1 on, without a floor; no false alarms.
How many prompts begin as an earlier one did is always shown, and counts only where the case asks for it.
Cannot see: how often each prompt comes, a beginning shorter than 64 bytes, where between two of the compared lengths
(each half as long again as the one before) two prompts part, and what a server still remembers. A prompt shorter than
64 bytes has no beginning: then the number of beginnings is unclear, unless those of the others are too many already.
Left out: bodies that come twice (count).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from loadproof.checks.question import Question
from loadproof.checks.wording import times, verdict_on, which
from loadproof.load.offered import repeated
from loadproof.load.requests import Ints, Requests
from loadproof.prompts import PREFIXES
from loadproof.verdict import Finding, Outcome

_SHORTEST = PREFIXES[0]


def findings(question: Question) -> Iterator[Finding]:
    """Yield the findings of prompts."""
    asked, requests = question.expected.workload, question.trimmed.requests
    if asked.distinct_prompts is not None:
        yield _different(asked.distinct_prompts, requests.prompts)
    shown = _repeated_beginnings(requests)
    yield shown if asked.distinct_prefixes is None else _beginnings(asked.distinct_prefixes, requests, shown)


def _counts(numbers: Ints) -> Ints:
    """Return how often each number comes that is no -1."""
    counts: Ints = np.bincount(numbers[numbers >= 0])
    return counts[counts > 0]


def _different(asked: int, prompts: Ints) -> Finding:
    n, missing = len(prompts), prompts < 0
    counts = _counts(prompts)
    said = [f"no prompt in {which(missing)}"] if missing.any() else []
    if counts.size:
        often = int(counts.max())
        said += [f"each came {times(often)}" if counts.min() == often else f"the commonest came {times(often)} of {n}"]
    return verdict_on("payload.prompts", "so many different prompts", f"{asked} different",
                      f"{len(counts)} different", right=len(counts) == asked and not missing.any(), n=n,
                      detail=", ".join(said))  # fmt: skip


def _repeated_beginnings(requests: Requests) -> Finding:
    """Return the row that is always shown; it counts for nothing."""
    again, n = int(np.count_nonzero(requests.shared_bytes)), requests.n
    longest = int(requests.shared_bytes.max(initial=0))
    measured = f"{again} repeated, up to {longest} bytes" if again else "none repeated"
    found = Finding(check="payload.prefixes", requirement="beginnings that repeat are shown", expected="not asked",
                    measured=measured, outcome=Outcome.PASS, n=n, counted=False,
                    smallest_deviation=f"{_SHORTEST} bytes in one",
                    detail=_in_words(requests, again))  # fmt: skip
    return found if n else replace(found, outcome=Outcome.UNCLEAR)


def _in_words(requests: Requests, again: int) -> str:
    """Say what a cache that keeps every prompt would find."""
    if not again:
        return ""
    whole = repeated(requests.prompts)
    sizes, short = _counts(requests.beginnings), (requests.beginnings < 0).any()
    rest = f"; {whole} are whole prompts again" if whole else ""
    if len(sizes) == 1 and not short:
        shared = requests.shared_bytes
        # A first one that shares with nobody is the first of all: what each later one shares, all of them share.
        same = int(shared[1:].min()) if shared[0] == 0 else _SHORTEST
        return f"every prompt begins with the same {same} bytes{rest}"
    groups = int(np.count_nonzero(sizes > 1))
    return (f"{again} of {requests.n} prompts begin with {_SHORTEST} bytes or more of an earlier one, "
            f"in {groups} group{'' if groups == 1 else 's'}{rest}")  # fmt: skip


def _beginnings(asked: int, requests: Requests, shown: Finding) -> Finding:
    """Return the finding where the case says how many beginnings there are."""
    short = requests.beginnings < 0
    different = len(_counts(requests.beginnings))
    found = verdict_on("payload.prefixes", f"so many beginnings of {_SHORTEST} bytes", f"{asked} different",
                       f"{different} different", right=different == asked and not short.any(), n=requests.n,
                       detail=shown.detail)  # fmt: skip
    if not short.any() or different > asked:
        return found
    none = int(np.count_nonzero(short & (requests.prompts < 0)))
    said = f"{np.count_nonzero(short)} prompts are shorter than {_SHORTEST} bytes, so their beginnings are not compared"
    return replace(found, outcome=Outcome.UNCLEAR if not none else Outcome.FAIL,
                   detail=f"no prompt in {none} requests" if none else f"{said}; ask for longer prompts")  # fmt: skip
