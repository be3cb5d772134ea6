"""Does a real absorber answer as its readers read, and does its journal have a row for each request?

Inputs that the readers and the oracles agree on go through a socket, cut at random; every answer is read to its end.
Left out: inputs that ask for very long replies, which are right and take long.
"""

from __future__ import annotations

import json
import random
import socket
from itertools import pairwise
from typing import BinaryIO

from bench.fuzz_parts.compare import GENERATES, Disagreement, Outcome, Taken, compare_stream, takes
from bench.fuzz_parts.inputs import cuts_of
from loadproof.absorber.service import Announced

DEADLINE_S = 30.0  # for an answer; beyond it is a hang
LONG_TOKENS = 1000


def send(server: Announced, rng: random.Random) -> int | None:
    """Send one input and read the answers; return how many rows the journal must have of it, None: it was left out.

    Raises Disagreement.
    """
    data, outcome, _ = compare_stream(rng, ask_h11=False)
    if any(_is_long(body) for _, _, body, _ in outcome.taken):
        return None
    cuts = cuts_of(rng, len(data))
    with socket.create_connection((server.host, server.port), timeout=DEADLINE_S) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with client.makefile("rb") as answers:
            try:
                for start, stop in pairwise(cuts):
                    client.sendall(data[start:stop])
                _look(answers, outcome)
            except (OSError, ValueError) as error:
                raise Disagreement(f"{data!r}\n cut at {cuts}: {error!r}; readers: {outcome.says()}") from error
            except Disagreement as error:
                raise Disagreement(f"{data!r}\n cut at {cuts}: {error}; readers: {outcome.says()}") from error
    return len(outcome.taken) + bool(outcome.status) + outcome.waits


def _look(answers: BinaryIO, outcome: Outcome) -> None:
    for place, taken in enumerate(outcome.taken):
        status = _status(answers, head_only=taken[0] == b"HEAD")
        if status not in _allowed(taken):
            raise Disagreement(f"answer {place} is {status}, and must be one of {_allowed(taken)}")
    if outcome.status:
        status = _status(answers, head_only=False, refused=True)
        if status != outcome.status:
            raise Disagreement(f"bytes that are no request are answered with {status}")
    if (outcome.status or (outcome.taken and outcome.taken[-1][3])) and answers.read():
        raise Disagreement("more comes after the last answer")


def _allowed(taken: Taken) -> set[int]:
    method, path, body, _ = taken
    chat = GENERATES.get(path)
    if method == b"POST" and chat is not None:
        if not takes(body, chat=chat):
            return {400, 404}
        return {200, 400} if chat else {200}  # the chat template may refuse, which is not asked here
    return {200} if method in {b"GET", b"HEAD"} and path == b"/health" else {404, 405}


def _status(answers: BinaryIO, *, head_only: bool, refused: bool = False) -> int:
    """Read one answer to its end, any `100 Continue` before it too, and return its status."""
    while True:
        version, number, *_ = answers.readline().split(b" ", 2)
        headers = dict(line.rstrip(b"\r\n").lower().split(b": ", 1) for line in iter(answers.readline, b"\r\n"))
        if version != b"HTTP/1.1":
            raise ValueError(f"an answer begins with {version!r}")
        if number != b"100":
            break
    if b"transfer-encoding" in headers:
        while size := int(answers.readline(), 16):
            answers.read(size + 2)
        answers.readline()
    elif b"content-length" not in headers:
        answers.read()
    elif not head_only and not (refused and _is_empty(answers)):
        answers.read(int(headers[b"content-length"]))
    return int(number)


def _is_empty(answers: BinaryIO) -> bool:
    """Return whether the end is here: a refused HEAD request has no body, and is not always known as one."""
    return not answers.peek(1)  # type: ignore[attr-defined] # a buffered reader has it; its abstract type does not


def _is_long(body: bytes) -> bool:
    try:
        read = json.loads(body)
    except (ValueError, RecursionError):
        return False
    names = ("max_tokens", "max_completion_tokens", "min_tokens")
    return isinstance(read, dict) and any(
        isinstance(read.get(name), int) and read[name] > LONG_TOKENS for name in names
    )
