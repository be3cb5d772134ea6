"""In which known ways can the reference sender be wrong, and to what do they fit?

A literal table: each kind changes exactly one thing of what was asked, and says to which orders it can
be applied. Which check has to notice is the tests' business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from loadproof.errors import UsageProblem
from loadproof.metronome.asked import Asked


@dataclass(frozen=True)
class Wrong:
    """One way of being wrong: what it needs (in words and as a test) and what it changes."""

    needs: str
    fits: Callable[[Asked], bool]
    change: Callable[[Asked], Asked]


def _more_slots(step: int) -> Callable[[Asked], Asked]:
    return lambda asked: replace(asked, concurrency=(asked.concurrency or 0) + step)


def _slower(asked: Asked) -> Asked:
    return replace(asked, rate_per_s=(asked.rate_per_s or 0.0) * 0.9)


def _duplicate(asked: Asked) -> Asked:
    """Send the request before the middle a second time in the place of the middle one."""
    sends, middle = asked.sends, len(asked.sends) // 2
    return replace(asked, order=(*sends[:middle], sends[middle - 1], *sends[middle + 1 :]))


WRONG_KINDS = {
    "concurrency+1": Wrong("--concurrency", lambda a: a.concurrency is not None, _more_slots(+1)),
    "concurrency-1": Wrong("--concurrency of at least 2", lambda a: (a.concurrency or 0) >= 2, _more_slots(-1)),
    "rate-10%": Wrong("--rate", lambda a: a.rate_per_s is not None, _slower),
    "duplicate": Wrong("at least 2 requests", lambda a: len(a.sends) >= 2, _duplicate),
    "drop-last": Wrong("at least 2 requests", lambda a: len(a.sends) >= 2, lambda a: replace(a, order=a.sends[:-1])),
    "max-tokens-1": Wrong(
        "--max-tokens of at least 2", lambda a: a.max_tokens >= 2, lambda a: replace(a, max_tokens=a.max_tokens - 1)
    ),
    "no-ignore-eos": Wrong("--ignore-eos", lambda a: a.ignore_eos, lambda a: replace(a, ignore_eos=False)),
    "warm-up": Wrong("nothing", lambda _: True, lambda a: replace(a, warm_up=True)),
    "prompt+1": Wrong("nothing", lambda _: True, lambda a: replace(a, prompt_tokens=a.prompt_tokens + 1)),
}


def go_wrong(asked: Asked, kinds: Iterable[str]) -> Asked:
    """Return what is really done when `asked` is asked, wrong in each of `kinds` (keys of `WRONG_KINDS`).

    Raises `UsageProblem` for a kind that does not fit what was asked.
    """
    for kind in kinds:
        wrong = WRONG_KINDS[kind]
        if not wrong.fits(asked):
            raise UsageProblem(f"--wrong {kind} needs {wrong.needs}: leave it out or change what is asked")
        asked = wrong.change(asked)
    return asked
