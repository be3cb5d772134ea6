"""Which bytes does each request consist of?

Prompts are drawn one after another from (seed, index): request k is the same whatever the count. No sockets, no times.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import msgspec

from loadproof import __version__
from loadproof.errors import UsageProblem
from loadproof.metronome.asked import PATHS, Asked, Body

DrawText = Callable[[int, random.Random], str]
_DRAWS_PER_PROMPT = 100
_BEFORE = -1  # the index of the request before the load


class Prompts:
    """Texts of exactly as many bare tokens as asked, no two of them equal, drawn when first asked for."""

    def __init__(self, asked: Asked, draw: DrawText) -> None:
        """`draw(tokens, rng)` returns a text of exactly that many bare tokens."""
        self._asked, self._draw = asked, draw
        self._seen: set[str] = set()
        self._texts: list[str] = []

    def __getitem__(self, index: int) -> str:
        """Return the text of this index, from 0. Raises as `fresh` does."""
        while len(self._texts) <= index:
            self._texts.append(self.fresh(len(self._texts)))
        return self._texts[index]

    def fresh(self, key: int) -> str:
        """Return another text. Raises `UsageProblem` where so few tokens have not so many different texts."""
        rng = random.Random(f"{self._asked.seed}:{key}")  # noqa: S311  # a seeded draw, nothing secret
        bare = self._asked.prompt_tokens - self._asked.bos
        for _ in range(_DRAWS_PER_PROMPT):
            text = self._draw(bare, rng)
            if text not in self._seen:
                self._seen.add(text)
                return text
        raise UsageProblem(
            f"could not draw more than {len(self._texts)} different prompts of {bare} tokens: "
            "ask for longer prompts or fewer"
        )


def requests_of(asked: Asked, draw: DrawText, *, authority: str, prefix: str) -> Iterator[bytes]:
    """Yield whole HTTP/1.1 requests without end, built when they are asked for; first the one before the load, if any.

    Raises `UsageProblem` where there are not so many different prompts.
    """
    prompts = Prompts(asked, draw)
    if asked.before:
        body = msgspec.json.encode(_body(asked, prompts.fresh(_BEFORE)))
        yield _request(asked, f"{prefix}{asked.before}", authority, "before", body)
    position = 0
    while True:
        index = position if asked.prompt_of is None else asked.prompt_of(position)
        body = _rewritten(asked, position, _body(asked, prompts[index]))
        yield _request(asked, f"{prefix}{PATHS[asked.api]}", authority, str(position), body)
        position += 1


def _rewritten(asked: Asked, position: int, body: Body) -> bytes:
    for rewrite in asked.rewrites:
        body = rewrite(position, body)
    return msgspec.json.encode(body)


def _body(asked: Asked, text: str) -> Body:
    body: Body = {"model": asked.model}
    if asked.api == "chat":
        body |= {"messages": [{"role": "user", "content": text}], "max_completion_tokens": asked.max_tokens}
    else:
        body |= {"prompt": text, "max_tokens": asked.max_tokens}
    body["stream"] = asked.stream
    if asked.stream:
        body["stream_options"] = {"include_usage": True}
    if asked.ignore_eos:
        body["ignore_eos"] = True
    return body


def _request(asked: Asked, target: str, authority: str, name: str, body: bytes) -> bytes:
    """Return the bytes; `name` makes the X-Request-ID, by which a journal's rows can be joined."""
    headers = {
        "Host": authority,
        "User-Agent": f"loadproof-metronome/{__version__}",
        "Accept": "*/*",
        "X-Request-ID": f"metronome-{asked.seed}-{name}",
        "Content-Type": "application/json",
        "Content-Length": f"{len(body)}",
    }
    lines = [f"{header}: {value}\r\n" for header, value in headers.items() if header not in asked.left_out]
    return f"POST {target} HTTP/1.1\r\n{''.join(lines)}\r\n".encode("ascii") + body
