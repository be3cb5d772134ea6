"""Are draws a matter of seed and body alone, whatever comes first and whatever comes at once?

The same bodies, some of them several times, go to two absorbers with the same laws and seed: once one after the other,
once in another order and many at a time. The plans in the two journals must be equal, request for request. A third
with another seed must differ, or nothing was drawn.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio

from loadproof.absorber.profile import Profile
from loadproof.journal import COMPLETE, read_journal

if TYPE_CHECKING:
    from tests.absorber.conftest import Absorber

SEED = 11
DISTINCT, REPEATED = 30, 10
LAWS: dict[str, Any] = {
    "ttft_s": {"law": "lognormal", "median": 0.01, "sigma": 0.5},
    "itl_s": {"law": "gamma", "mean": 0.001, "shape": 2.0},
    "output_tokens": {"law": "normal", "mean": 8.0, "std": 3.0},
}
type Plans = dict[tuple[bytes, int], tuple[Any, ...]]
type Start = Callable[..., AbstractAsyncContextManager[Absorber]]


def bodies(absorber: Absorber) -> list[tuple[str, dict[str, Any]]]:
    """The requests: most once, one three times; streamed or not, one choice or two, both APIs."""
    chat = {"model": absorber.model, "messages": [{"role": "user", "content": "x"}], "max_tokens": 20}
    made: list[tuple[str, dict[str, Any]]] = [
        ("/v1/completions", absorber.body(prompt=f"p {k}", max_tokens=20, stream=bool(k % 2), n=1 + k % 3 // 2))
        for k in range(DISTINCT)
    ]
    made += [("/v1/chat/completions", chat | {"stream": bool(k % 2), "n": 1 + k}) for k in range(4)]
    return made + [made[1]] * REPEATED


async def offer(absorber: Absorber, *, at_once: int, shuffled: bool) -> None:
    requests = bodies(absorber)
    if shuffled:
        random.Random(SEED).shuffle(requests)
    limit = asyncio.Semaphore(at_once)

    async def one(client: httpx.AsyncClient, path: str, body: dict[str, Any]) -> None:
        async with limit:
            assert (await client.post(path, json=body)).status_code == 200

    async with httpx.AsyncClient(base_url=absorber.url, timeout=60) as client:
        await asyncio.gather(*(one(client, path, body) for path, body in requests))


def plans(folder: Path) -> Plans:
    """Return what was planned, by digest and occurrence, as offsets from the arrival."""
    found: Plans = {}
    for row in read_journal(folder).table.to_pylist():
        assert row["how_ended"] == COMPLETE
        assert min(row["late_ns"]) >= 0  # nothing is written before its plan, of no choice
        offsets = tuple(planned - row["arrival_ns"] for planned in row["planned_ns"])
        key = (row["digest"], row["occurrence"])
        assert key not in found
        # Chunks that are late together leave together, those of one choice after those of another.
        chunks = sorted(zip(row["chunk_choice"], offsets, row["chunk_tokens"], strict=True))
        found[key] = (tuple(chunks), row["finish_reason"])
    return found


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def three(tmp_path_factory: pytest.TempPathFactory, start: Start) -> list[Plans]:
    found = []
    for seed, at_once, shuffled, level in ((3, 1, False, "full"), (3, 24, True, "light"), (4, 24, True, "full")):
        folder = tmp_path_factory.mktemp("draws")
        async with start(Profile.model_validate(LAWS | {"seed": seed}), folder, level=level) as absorber:
            await offer(absorber, at_once=at_once, shuffled=shuffled)
        found.append(plans(folder / "journal"))
    return found


def test_the_same_seed_and_bodies_draw_the_same_in_any_order_and_concurrency(three: list[Plans]) -> None:
    assert len(three[0]) == DISTINCT + 4 + REPEATED
    assert three[0] == three[1]


def test_equal_bodies_draw_anew_each_time(three: list[Plans]) -> None:
    most = max({digest for digest, _ in three[0]}, key=lambda digest: sum(d == digest for d, _ in three[0]))
    again = [plan[0] for (digest, _), plan in three[0].items() if digest == most]
    assert len(again) == REPEATED + 1
    assert len(set(again)) == len(again)


def test_another_seed_draws_otherwise(three: list[Plans]) -> None:
    assert three[0].keys() == three[2].keys()
    same = [key for key in three[0] if three[0][key][0] == three[2][key][0]]
    assert same == []
