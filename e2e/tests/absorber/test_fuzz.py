"""Do the readers hold against the fuzz bench's inputs, and would the bench see it if they did not?

20,000 of the inputs of `bench/fuzz.py` in this process and some hundreds through the port, all by seed; then readers
with a defect each, which the same inputs must find.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

from bench.fuzz import Fuzz, compare_one
from bench.fuzz_parts import compare
from bench.fuzz_parts.compare import Disagreement
from bench.fuzz_parts.inputs import body_of, rng_of, stream_of
from bench.fuzz_parts.strict_http import Fate, read
from bench.fuzz_parts.strict_json import judge
from loadproof.absorber import head, http, openai
from loadproof.absorber.http import RequestReader

SEED, INPUTS = 2, 20_000


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_found(part: int) -> None:
    fuzz = Fuzz(SEED, part * INPUTS // 4, (part + 1) * INPUTS // 4, share=0)
    fuzz.in_process()
    assert fuzz.found == []


@pytest.mark.asyncio
async def test_nothing_is_found_through_the_port() -> None:
    fuzz = Fuzz(SEED, 0, 4000, share=10)
    sent = await fuzz.through_the_port()
    assert fuzz.found == []
    assert 300 < sent <= 400


def test_the_inputs_reach_every_fate() -> None:
    streams = [read(stream_of(rng_of(SEED, index))) for index in range(1500)]
    assert {fated.fate for found in streams for fated in found} == set(Fate)
    assert sum(bool(fated.body) for found in streams for fated in found) > 100
    assert max(map(len, streams)) >= 3
    bodies = [body_of(rng_of(SEED, index)) for index in range(1500)]
    assert {judge(body, chat=False, model="m") for body in bodies} == {Fate.TAKEN, Fate.REFUSED, Fate.EITHER}


def lenient_json(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read bytes that are no text, as long as no known field holds them."""
    real = openai.decoded

    def decoded(decoder: Any, body: bytes) -> Any:
        return real(decoder, body.decode("utf-8", "replace").encode())

    monkeypatch.setattr(openai, "decoded", decoded)


def any_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_HOST", re.compile(rb".*"))


def any_number_of_codings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head, "_body_length", lambda found, *, http_1_0: 0)


def line_ends_before(monkeypatch: pytest.MonkeyPatch) -> None:
    real = head.read_head
    monkeypatch.setattr(http, "read_head", lambda data: real(data.lstrip(b"\r\n")))


def forgets_a_byte_between_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    real = RequestReader._hold

    def hold(self: RequestReader, data: bytes) -> None:
        real(self, data)
        self._held = data[:-1]

    monkeypatch.setattr(RequestReader, "_hold", hold)


def no_limit_of_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai, "_BOUNDS", ())


def never_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    real = compare._taken
    monkeypatch.setattr(compare, "_taken", lambda request: (*real(request)[:3], False))


DEFECTS = [lenient_json, any_host, any_number_of_codings, line_ends_before, forgets_a_byte_between_reads,
           no_limit_of_tokens, never_closes]  # fmt: skip


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_would_be_found(defect: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    head.read_head.cache_clear()
    defect(monkeypatch)
    try:
        with pytest.raises(Disagreement):
            compare_all()
    finally:
        head.read_head.cache_clear()


def compare_all() -> None:
    for index in range(INPUTS):
        compare_one(SEED, index)


def test_every_input_is_a_matter_of_seed_and_number_alone() -> None:
    assert [stream_of(rng_of(1, k)) for k in range(50)] == [stream_of(rng_of(1, k)) for k in range(50)]
    assert stream_of(rng_of(1, 0)) != stream_of(rng_of(2, 0))
    assert isinstance(rng_of(1, 0), random.Random)
