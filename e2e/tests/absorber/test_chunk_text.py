"""Where chunks end with their space, is every reply still the same text of exactly the tokens that are claimed?

One absorber of each kind (paced, at once, at level light, precompiled) answers the same requests of the official openai
client; the bundled tokenizer counts what came, and the journal tells what was written.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import openai
import pytest
import pytest_asyncio

from loadproof.absorber.profile import PRECOMPILED_TOKENS, Profile
from loadproof.journal import COMPLETE, read_journal
from loadproof.words import WORDS, pieces

if TYPE_CHECKING:
    from loadproof.tokenizer import TokenCounter
    from tests.absorber.conftest import Absorber

MESSAGES = [{"role": "user", "content": "Hi."}]
LONG = len(WORDS) + 2  # the words come round again
KINDS: dict[str, tuple[Profile, str]] = {
    "paced": (Profile(ttft_s=0.001, itl_s=0.0001, chunk_text="trailing_space"), "full"),
    "at once": (Profile(chunk_text="trailing_space"), "full"),
    "at once, light": (Profile(chunk_text="trailing_space"), "light"),
    "precompiled": (Profile(precompiled=True, output_tokens=PRECOMPILED_TOKENS, chunk_text="trailing_space"), "full"),
}
ASKED: list[dict[str, Any]] = [
    {"max_tokens": 1},
    {"max_tokens": 7},
    {"max_tokens": 7, "n": 2},
    {"max_tokens": LONG},
    {"max_tokens": 7, "stream_options": {"include_usage": True}},
]


@dataclass
class Told:
    """What a client read of one reply: the chunks of each choice, and completion tokens where usage was there."""

    chunks: list[list[str]]
    usage: int | None
    row: dict[str, Any] = field(default_factory=dict)


@dataclass
class Kind:
    name: str
    streamed: list[Told] = field(default_factory=list)
    whole: list[Told] = field(default_factory=list)


async def told_by_stream(events: Any, choices: int) -> Told:
    told = Told([[] for _ in range(choices)], None)
    async for event in events:
        for choice in event.choices:
            said = choice.text if hasattr(choice, "text") else choice.delta.content
            told.chunks[choice.index] += [said] if said else []
        told.usage = event.usage.completion_tokens if event.usage else told.usage
    return told


def told_by_whole(reply: Any) -> Told:
    said = [choice.text if hasattr(choice, "text") else choice.message.content for choice in reply.choices]
    return Told([[text] for text in said], reply.usage.completion_tokens if reply.usage else None)


async def ask(client: openai.AsyncOpenAI, model: str, found: Kind) -> None:
    for asked in ASKED:
        choices = asked.get("n", 1)
        for create, given in (
            (client.completions.create, {"prompt": "x"}),
            (client.chat.completions.create, {"messages": MESSAGES}),
        ):
            events = await create(model=model, stream=True, **given, **asked)
            found.streamed.append(await told_by_stream(events, choices))
            kept = {name: value for name, value in asked.items() if name != "stream_options"}
            found.whole.append(told_by_whole(await create(model=model, **given, **kept)))


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def kind(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[..., AbstractAsyncContextManager[Absorber]],
) -> AsyncIterator[Kind]:
    profile, level = KINDS[request.param]
    found, folder = Kind(request.param), tmp_path_factory.mktemp("chunks")
    async with (
        start(profile, folder, level=level) as absorber,
        openai.AsyncOpenAI(base_url=f"{absorber.url}/v1", api_key="sk-1", max_retries=0) as client,
    ):
        await ask(client, absorber.model, found)
    rows = read_journal(folder / "journal").table.to_pylist()
    assert len(rows) == len(found.streamed) + len(found.whole)
    for told, row in zip([*found.streamed, *found.whole], [*rows[::2], *rows[1::2]], strict=True):
        told.row = row
    yield found


def lengths(kind: Kind) -> list[int]:
    """The tokens of each choice, an exchange each."""
    return [PRECOMPILED_TOKENS if kind.name == "precompiled" else asked["max_tokens"] for asked in ASKED for _ in "12"]


def test_a_stream_is_cut_behind_its_spaces(kind: Kind) -> None:
    for told, tokens in zip(kind.streamed, lengths(kind), strict=True):
        assert told.chunks == [pieces(tokens, trailing_space=True)] * len(told.chunks)
    spaced = sum(chunk.endswith(" ") for told in kind.streamed for chunks in told.chunks for chunk in chunks)
    assert spaced > 50


def test_every_reply_is_as_many_tokens_as_it_claims(kind: Kind, counter: TokenCounter) -> None:
    usages = 0
    for replies in (kind.streamed, kind.whole):
        for told, tokens in zip(replies, lengths(kind), strict=True):
            assert counter.bare(["".join(chunks) for chunks in told.chunks]) == [tokens] * len(told.chunks)
            assert told.row["output_tokens"] == tokens * len(told.chunks)
            usages += told.usage is not None
            assert told.usage in {None, tokens * len(told.chunks)}
    assert usages == (0 if "light" in kind.name or kind.name == "precompiled" else len(kind.whole) + 2)


def test_streamed_and_whole_are_the_same_text(kind: Kind) -> None:
    for streamed, whole in zip(kind.streamed, kind.whole, strict=True):
        assert ["".join(chunks) for chunks in streamed.chunks] == [text for (text,) in whole.chunks]


def test_the_journal_has_a_token_a_chunk_and_every_byte(kind: Kind) -> None:
    for told in kind.streamed:
        assert told.row["how_ended"] == COMPLETE
        chunks, made_before = [tokens for tokens in told.row["chunk_tokens"] if tokens], [PRECOMPILED_TOKENS]
        if kind.name != "precompiled" or chunks != made_before:
            assert chunks == [1] * sum(map(len, told.chunks))
    for told in kind.whole:
        assert told.row["chunk_tokens"] == [told.row["output_tokens"]]
        assert told.row["chunk_bytes"] == [told.row["bytes"]]
