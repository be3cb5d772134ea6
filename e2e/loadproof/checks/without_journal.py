"""without_journal: which questions cannot be asked of a server that kept no journal?

One `unsupported` row for each module of checks that would have had something to say of this case, so that nobody
takes a run against such a server for a judged load; and one for a server that does not count as the model does. No
hypothesis, no statistic, no false alarm: nothing is tested.
The instrument has no row: it weighs findings that rest on our own stamps, and there is none of those here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from loadproof.expected import ConcurrencyLoad, StagesLoad
from loadproof.verdict import Finding, Outcome

if TYPE_CHECKING:
    from loadproof.expected import Expected, ToolDeclaration


def _always(_asked: Expected, _declared: ToolDeclaration) -> bool:
    return True


def _by_a_clock(asked: Expected, _declared: ToolDeclaration) -> bool:
    return asked.open_loop


def _by_a_clock_or_gaps(asked: Expected, declared: ToolDeclaration) -> bool:
    gaps = isinstance(asked.load, StagesLoad) and any(stage.gap_s for stage in asked.load.stages[:-1])
    return gaps or _by_a_clock(asked, declared)


def _by_slots(asked: Expected, _declared: ToolDeclaration) -> bool:
    if isinstance(asked.load, StagesLoad):
        return any(stage.concurrency for stage in asked.load.stages)
    return isinstance(asked.load, ConcurrencyLoad)


OPEN: dict[str, tuple[str, Callable[[Expected, ToolDeclaration], bool]]] = {
    "count": ("how many requests arrived", _always),
    "payload": ("what was in the requests", _always),
    "rate": ("the rate of arrivals", _by_a_clock_or_gaps),
    "arrivals": ("how the arrivals were spaced", _by_a_clock),
    "concurrency": ("how many were in flight", _by_slots),
    "connections": ("which connections were used", _always),
}
"""Of each module: what it would have said, and of which cases."""


def findings(asked: Expected, declared: ToolDeclaration, server: str) -> Iterator[Finding]:
    """Yield a row for each module that stays silent; the first says why, for all."""
    silent = {module: what for module, (what, applies) in OPEN.items() if applies(asked, declared)}
    detail = f"{server} keeps no journal, so nobody knows {', '.join(silent.values())}; run against the absorber"
    for module, what in silent.items():
        yield Finding(check=f"{module}.journal", requirement=what, expected="a journal", measured="none is kept",
                      outcome=Outcome.UNSUPPORTED, n=0, detail=detail)  # fmt: skip
        detail = ""


def counts_words(server: str) -> Finding:
    """Return the row of a server without the model's tokenizer."""
    return Finding(check="server.tokenizer", requirement="the server counts tokens as the model does",
                   expected="the model's tokenizer", measured="it counts words", outcome=Outcome.UNSUPPORTED, n=0,
                   detail=f"this version of {server} takes no tokenizer, so a tool that asks /tokenize gets counts "
                   "that are not the model's; v0.6.1 takes one")  # fmt: skip
