"""How does an order become what is sent, and when?

Everything that takes time is done here, before the first send: schedules are drawn and requests built, but for a
concurrency by duration, of whose requests nobody knows the number: beyond the first they are built when they are sent.
"""

from __future__ import annotations

import itertools
from urllib.parse import urlsplit

from loadproof.errors import UsageProblem
from loadproof.metronome.asked import Asked
from loadproof.metronome.closed_loop import ClosedLoop
from loadproof.metronome.drive import Drive
from loadproof.metronome.open_loop import OpenLoop
from loadproof.metronome.requests import requests_of
from loadproof.metronome.schedule import generator, stage_offsets_s
from loadproof.metronome.stage import Stage
from loadproof.words import random_text

_ROUNDS_AHEAD = 8  # of a concurrency by duration: as many requests are built for each slot before the start


def plan(asked: Asked, base_url: str) -> Drive:
    """Return what to do. Raises `UsageProblem` for what cannot be done."""
    host, port, authority, prefix = _target(base_url)
    stages = [(_stage(asked, k, stage), stage.gap_s) for k, stage in enumerate(asked.stages)]
    count = sum(_built_ahead(stage) for stage, _ in stages)
    if not count:
        raise UsageProblem("the schedule holds no request: ask for more, or for longer")
    requests = requests_of(asked, random_text, authority=authority, prefix=prefix)
    before = next(requests) if asked.before else None
    return Drive(
        host=host,
        port=port,
        before=before,
        requests=itertools.chain(list(itertools.islice(requests, count)), requests),
        stages=stages,
        streamed=asked.stream,
        timeout_s=asked.timeout_s,
        reuse=asked.reuse,
    )


def _stage(asked: Asked, number: int, stage: Stage) -> OpenLoop | ClosedLoop:
    if stage.concurrency is not None:
        return ClosedLoop(concurrency=stage.concurrency, count=stage.num_requests, duration_s=stage.duration_s,
                          slots=stage.slots)  # fmt: skip
    offsets = stage_offsets_s(stage, asked.arrival, generator(asked.seed, number))
    last = float(offsets[-1]) if len(offsets) else 0.0
    return OpenLoop(offsets_s=offsets, length_s=max(last, stage.asked_span_s), cap=stage.cap)


def _built_ahead(stage: OpenLoop | ClosedLoop) -> int:
    return (
        _ROUNDS_AHEAD * stage.concurrency if isinstance(stage, ClosedLoop) and stage.count is None else stage.count or 0
    )


def _target(base_url: str) -> tuple[str, int, str, str]:
    """Return host, port, authority and path prefix of `base_url`."""
    hint = f"--base-url {base_url!r}: give something like http://127.0.0.1:8000"
    try:
        parts = urlsplit(base_url)
        port = parts.port or 80
    except ValueError as problem:
        raise UsageProblem(f"{hint} ({problem})") from problem
    prefix = parts.path.rstrip("/")
    odd = parts.username or parts.query or parts.netloc.endswith(":") or not base_url.isascii()
    if parts.scheme != "http" or not parts.hostname or odd:
        raise UsageProblem(hint)
    if prefix.endswith("/v1"):
        raise UsageProblem(f"{hint}, without /v1: it is appended")
    return parts.hostname, port, parts.netloc, prefix
