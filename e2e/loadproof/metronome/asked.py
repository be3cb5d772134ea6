"""What was the reference sender asked for, and which bytes does each request consist of?

`Asked` is the whole order, frozen; `bodies` turns it into JSON before anything is sent, so that building
a body never delays a send. Prompts are drawn per request from (seed, index): request k is the same
whatever the count. No sockets, no times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from loadproof import __version__
from loadproof.arrival import Law
from loadproof.errors import UsageProblem

DrawText = Callable[[int, random.Random], str]
PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_DRAWS_PER_PROMPT = 100


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One order. Either `rate_per_s` (open loop) or `concurrency` (closed loop) is given.

    `prompt_tokens` counts the `bos` tokens that the server's tokenizer adds. `order` says which prompt
    each send carries: 0, 1, 2, ... where it is None, and a wrong kind may repeat or leave out one.
    """

    model: str
    num_requests: int
    prompt_tokens: int
    max_tokens: int
    rate_per_s: float | None = None
    arrival: Law = Law.CONSTANT
    concurrency: int | None = None
    api: str = "completions"
    stream: bool = True
    ignore_eos: bool = True
    bos: int = 1
    seed: int = 0
    timeout_s: float = 60.0
    warm_up: bool = False
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be sent."""
        if (self.rate_per_s is None) == (self.concurrency is None):
            raise UsageProblem("give either --rate (with --arrival) or --concurrency, and not both")
        if self.prompt_tokens <= self.bos:
            raise UsageProblem(
                f"--prompt-tokens {self.prompt_tokens} leaves no text beside the {self.bos} BOS: ask for more"
            )

    @property
    def sends(self) -> tuple[int, ...]:
        """The prompt that each send carries, in the order of sending."""
        return tuple(range(self.num_requests)) if self.order is None else self.order


def bodies(asked: Asked, draw: DrawText) -> list[bytes]:
    """Return the JSON bodies in the order of sending; with `warm_up` one more at the end.

    `draw(tokens, rng)` returns a text of exactly that many bare tokens. No two prompts are equal.
    Raises `UsageProblem` where so few tokens have not so many different texts.
    """
    bare = asked.prompt_tokens - asked.bos
    seen: set[str] = set()
    prompts = [_unlike(seen, asked, index, bare, draw) for index in range(asked.num_requests + asked.warm_up)]
    order = (*asked.sends, asked.num_requests) if asked.warm_up else asked.sends
    return [_body(asked, prompts[index]) for index in order]


def _unlike(seen: set[str], asked: Asked, index: int, bare: int, draw: DrawText) -> str:
    rng = random.Random(f"{asked.seed}:{index}")  # noqa: S311  # a seeded draw, nothing secret
    for _ in range(_DRAWS_PER_PROMPT):
        text = draw(bare, rng)
        if text not in seen:
            seen.add(text)
            return text
    raise UsageProblem(
        f"could not draw {asked.num_requests} different prompts of {bare} tokens: ask for longer prompts or fewer"
    )


def _body(asked: Asked, text: str) -> bytes:
    body: dict[str, object] = {"model": asked.model}
    if asked.api == "chat":
        body |= {"messages": [{"role": "user", "content": text}], "max_completion_tokens": asked.max_tokens}
    else:
        body |= {"prompt": text, "max_tokens": asked.max_tokens}
    body["stream"] = asked.stream
    if asked.stream:
        body["stream_options"] = {"include_usage": True}
    if asked.ignore_eos:
        body["ignore_eos"] = True
    return msgspec.json.encode(body)


def request_bytes(asked: Asked, *, authority: str, prefix: str, name: str, body: bytes) -> bytes:
    """Return one whole HTTP/1.1 request; `name` is its X-Request-ID, by which a journal's rows can be joined."""
    head = (
        f"POST {prefix}{PATHS[asked.api]} HTTP/1.1\r\nHost: {authority}\r\n"
        f"User-Agent: loadproof-metronome/{__version__}\r\nAccept: */*\r\nX-Request-ID: {name}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode("ascii") + body
