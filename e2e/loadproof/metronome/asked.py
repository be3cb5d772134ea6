"""What was the reference sender asked for?

`Asked` is the whole order, frozen: what each request says, and the stages in which they are sent. Which bytes that
makes is in `requests`, which instants in `schedule`. The last fields are for the wrong kinds alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loadproof.arrival import Arrival, Law
from loadproof.errors import UsageProblem
from loadproof.metronome.stage import Stage

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}

type Body = dict[str, object]
type Rewrite = Callable[[int, Body], Body]


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One order. `prompt_tokens` counts the `bos` tokens that the server's tokenizer adds.

    For the wrong kinds: `before` is the path of one request more before the load; `prompt_of` says which prompt the
    k-th send carries (honest: the k-th); `rewrites` change the k-th body; `left_out` are headers that are not sent;
    `reuse`: a connection is used again.
    """

    model: str
    stages: tuple[Stage, ...]
    prompt_tokens: int
    max_tokens: int
    arrival: Arrival = Arrival(Law.CONSTANT)  # noqa: RUF009  # it is frozen
    api: str = "completions"
    stream: bool = True
    ignore_eos: bool = True
    bos: int = 1
    seed: int = 0
    timeout_s: float = 60.0
    before: str = ""
    prompt_of: Callable[[int], int] | None = None
    rewrites: tuple[Rewrite, ...] = ()
    left_out: frozenset[str] = frozenset()
    reuse: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        if self.prompt_tokens <= self.bos:
            raise UsageProblem(
                f"--prompt-tokens {self.prompt_tokens} leaves no text beside the {self.bos} BOS: ask for more"
            )

    @property
    def about(self) -> int:
        """How many requests are sent, give or take chance; a concurrency by duration counts as none."""
        return round(sum(stage.about or 0 for stage in self.stages))
