"""What do the level light and a precompiled profile answer, and what does their journal say once it is sealed?

One absorber of each kind gets the same exchanges, so that what must be alike is compared with level full.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from loadproof.absorber.profile import PRECOMPILED_TOKENS, Profile, profile_named
from loadproof.journal import COMPLETE, REFUSED, Metadata, read_journal
from loadproof.words import pieces

if TYPE_CHECKING:
    from tests.absorber.conftest import Absorber, Reply

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
KINDS: dict[str, tuple[Profile, str]] = {
    "full": (Profile(output_tokens=9), "full"),
    "one slot": (Profile(output_tokens=9, slots=1), "full"),  # held for no time, so nobody waits
    "light": (Profile(output_tokens=9), "light"),
    "precompiled": (profile_named("max-throughput"), "full"),
    "precompiled light": (profile_named("max-throughput"), "light"),
}


def exchanges(absorber: Absorber) -> list[tuple[str, dict[str, Any]]]:
    chat = {"model": absorber.model, "messages": [{"role": "user", "content": "x"}], "max_completion_tokens": 3}
    return [
        (COMPLETIONS, absorber.body()),
        (COMPLETIONS, absorber.body()),
        (COMPLETIONS, absorber.body(**USAGE)),
        (COMPLETIONS + "?x=1", absorber.body(temperature=0.5)),
        (COMPLETIONS, absorber.body()),
        (COMPLETIONS, absorber.body(prompt=["a", "b"], n=2)),
        (COMPLETIONS, absorber.body(prompt=[[1], [2, 3]], **USAGE)),
        (COMPLETIONS, absorber.body(min_tokens=2, max_tokens=500)),
        (CHAT, chat),
        (CHAT, chat | USAGE),
        (CHAT, {"model": absorber.model, "messages": chat["messages"], "max_tokens": 1, "stream": True}),
    ]


@dataclass
class Kind:
    """The replies and the rows of one absorber, an exchange each."""

    name: str
    sent: list[tuple[str, bytes]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    metadata: Metadata | None = None


type Start = Callable[..., AbstractAsyncContextManager[Absorber]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=KINDS)
async def kind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, start: Start
) -> AsyncIterator[Kind]:
    profile, level = KINDS[request.param]
    found, folder = Kind(request.param), tmp_path_factory.mktemp("level")
    async with start(profile, folder, level=level) as absorber:
        with absorber.raw() as raw:
            for path, body in exchanges(absorber):
                data = json.dumps(body).encode()
                raw.post(path, data, "Authorization: Bearer sk-1")
                found.sent.append((path, data))
                found.replies.append(raw.reply())
            raw.post(COMPLETIONS, b"{")
            assert raw.reply().status == 400
    journal = read_journal(folder / "journal")
    found.rows, found.metadata = journal.table.to_pylist(), journal.metadata
    yield found


def test_every_exchange_is_a_row_with_what_was_asked(kind: Kind) -> None:
    *rows, refused = kind.rows
    assert [(row["method"], row["path"], row["body"]) for row in rows] == [("POST", *sent) for sent in kind.sent]
    assert [row["digest"] for row in rows] == [hashlib.sha256(body).digest()[:16] for _, body in kind.sent]
    assert [row["occurrence"] for row in rows] == [0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    assert [row["max_tokens"] for row in rows] == [3, 3, 3, 3, 3, 3, 3, 500, 3, 3, 1]
    assert json.loads(rows[3]["extra_fields"]) == {"temperature": 0.5}
    assert {"name": "Authorization", "value": "<blanked>"} in rows[0]["headers"]
    assert [row["nth"] for row in kind.rows] == list(range(len(kind.rows)))
    assert (refused["status"], refused["how_ended"], refused["body"]) == (400, REFUSED, b"{")
    assert kind.metadata is not None
    assert kind.metadata.level == KINDS[kind.name][1]


def test_every_exchange_is_a_row_with_what_was_answered(kind: Kind) -> None:
    for row, reply in zip(kind.rows, kind.replies, strict=False):
        assert (row["status"], row["how_ended"], reply.status) == (200, COMPLETE, 200)
        assert row["bytes"] == len(reply.body)
        assert sum(row["chunk_tokens"]) == row["output_tokens"]
        assert row["arrival_ns"] <= row["read_ns"] <= row["received_ns"] <= row["done_ns"]
        assert row["planned_first_ns"] == row["planned_ns"][0] == row["arrival_ns"]
        assert row["finish_reason"] in {"stop", "length"}


def test_tokens_are_as_asked_or_as_precompiled(kind: Kind) -> None:
    asked = [3, 3, 3, 3, 3, 12, 6, 9, 3, 3, 1]
    choices = [1, 1, 1, 1, 1, 4, 2, 1, 1, 1, 1]
    precompiled = [PRECOMPILED_TOKENS * of_them for of_them in choices]
    expected = precompiled if kind.name.startswith("precompiled") else asked
    assert [told(reply) for reply in kind.replies] == expected
    assert [row["output_tokens"] for row in kind.rows[:-1]] == expected


def test_every_event_of_a_stream_is_a_chunk_unless_the_reply_was_made_before(kind: Kind) -> None:
    for (path, body), row, reply in zip(kind.sent, kind.rows, kind.replies, strict=False):
        events = [json.loads(line[6:]) for line in reply.body.decode().splitlines() if line.startswith("data: {")]
        if json.loads(body).get("stream") and not kind.name.startswith("precompiled"):
            assert len(row["chunk_tokens"]) == sum(bool(event["choices"]) for event in events)
            assert row["chunk_tokens"].count(0) == (1 if path == CHAT else 0)  # the role


def told(reply: Reply) -> int:
    """Return how many tokens the texts of a reply have, of all its choices."""
    texts: dict[int, str] = {}
    for line in reply.body.decode().splitlines():
        if line.startswith(("{", "data: {")):
            for choice in json.loads(line.removeprefix("data: "))["choices"]:
                said = choice.get("text")
                said = (choice.get("message") or choice["delta"])["content"] if said is None else said
                texts[choice["index"]] = texts.get(choice["index"], "") + said
    counts = {"".join(pieces(count)): count for count in range(1, PRECOMPILED_TOKENS + 1)}
    return sum(counts[text] for text in texts.values())


def test_only_level_full_says_usage(kind: Kind) -> None:
    full = kind.name in {"full", "one slot"}
    asked = [full] * (len(kind.replies) - 1) + [False]  # the last is a stream that does not ask
    assert [b'"usage"' in reply.body for reply in kind.replies] == asked
    assert [row["usage_prompt_tokens"] is not None for row in kind.rows[:-1]] == [full] * len(kind.replies)
