"""What becomes of bytes and bodies that are odd or wrong: on the wire, in the journal, and for whoever comes next?

Every entry of the tables (`odd_requests`, `odd_bodies`) goes through a plain socket to a real absorber: one for all at
level full, and one of its own for the level light and for a precompiled profile. After each a good request on a
fresh connection marks the place; the journal's rows of the connection before it are those of the entry. All are sent
first, then each is looked at.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from loadproof.absorber.profile import Profile, profile_named
from loadproof.journal import COMPLETE, REFUSED, Journal, read_journal
from tests.absorber.odd_bodies import FIELDS, MESSAGES, NO_JSON, ODD_MESSAGES, PRECOMPILED_TAKES, chat, completion
from tests.absorber.odd_requests import ALL, CHAT, COMPLETIONS, GET, INNER_PATH, Odd

if TYPE_CHECKING:
    from tests.absorber.conftest import Absorber, Reply

SEED = 20
CUTS = ("whole", "bytes", "pieces")
PATHS = (COMPLETIONS, CHAT, "/tokenize", "/detokenize")
LEVELS = ("full", "light", "precompiled")


@dataclass
class Seen:
    """What came back for one entry, and whether the connection ended or went on."""

    replies: list[Reply] = field(default_factory=list)
    rest: bytes | None = None
    went_on: int | None = None


@dataclass
class Told:
    """Everything that was sent to one absorber: what was seen, by tag, and the rows of each connection, by tag."""

    level: str
    seen: dict[str, Seen] = field(default_factory=dict)
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)


def pieces(data: bytes, cut: str) -> Iterable[bytes]:
    if cut == "whole":
        return [data]
    if cut == "bytes":
        return (data[i : i + 1] for i in range(len(data)))
    rng = random.Random(SEED)
    places = sorted({0, len(data), *(rng.randrange(len(data)) for _ in range(3))})
    return (data[a:b] for a, b in pairwise(places))


def talk(absorber: Absorber, data: Iterable[bytes], answers: int, *, goes_on: bool) -> Seen:
    seen = Seen()
    with absorber.raw() as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(OSError):  # the server may have closed before all was sent; its answer is there
            for piece in data:
                raw.send(piece)
        seen.replies = [raw.reply() for _ in range(answers)]
        if goes_on:
            raw.send(GET)
            seen.went_on = raw.reply().status
        else:
            seen.rest = raw.rest()
    return seen


def mark(absorber: Absorber, tag: str) -> None:
    with absorber.raw() as raw:
        raw.post(COMPLETIONS, absorber.body(max_tokens=1), f"X-Mark: {tag}")
        assert raw.reply().status == 200, f"the next good request after {tag}"


def post(path: str, body: bytes) -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


def tell_requests(absorber: Absorber, told: Told) -> None:
    for odd in ALL:
        for cut in CUTS if odd.any_cut else CUTS[:1]:
            tag = f"{odd.name}, {cut}"
            told.seen[tag] = talk(absorber, pieces(odd.data, cut), len(odd.statuses), goes_on=odd.goes_on)
            mark(absorber, tag)


def tell_bodies(absorber: Absorber, told: Told) -> None:
    bodies = [(f"fields {index}", COMPLETIONS, completion(fields)) for index, (fields, _) in enumerate(FIELDS)]
    bodies += [(f"messages {index}", CHAT, chat(messages)) for index, messages in enumerate(MESSAGES)]
    bodies += [(f"odd messages {index} {stream}", CHAT, chat(messages, stream=stream))
               for index, messages in enumerate(ODD_MESSAGES) for stream in (False, True)]  # fmt: skip
    bodies += [(f"no JSON {path} {index}", path, body)
               for index, body in enumerate(NO_JSON) for path in PATHS]  # fmt: skip
    bodies += [("other model", COMPLETIONS, completion({"model": "other"}))]
    for tag, path, body in bodies:
        told.seen[tag] = talk(absorber, [post(path, body)], 1, goes_on=True)
        mark(absorber, tag)


def look(told: Told, journal: Journal) -> None:
    rows = [row | {"headers": {pair["name"]: pair["value"] for pair in row["headers"]}}
            for row in journal.table.to_pylist()]  # fmt: skip
    told.paths = [row["path"] for row in rows]
    marks = {row["headers"]["X-Mark"]: row["conn"] for row in rows if "X-Mark" in row["headers"]}
    told.rows = {tag: [row for row in rows if row["conn"] == conn - 1] for tag, conn in marks.items()}


def journal_with(folder: Path, last: str) -> Journal:
    """Return the journal of a running absorber once it holds how the last request ended."""
    deadline = time.monotonic() + 30
    while True:
        journal = read_journal(folder)
        ended = zip(journal.table["headers"].to_pylist(), journal.table["how_ended"].to_pylist(), strict=True)
        if any(how and {"name": "X-Mark", "value": last} in headers for headers, how in ended):
            return journal
        assert time.monotonic() < deadline, f"no end of {last} in the journal after 30 s"


type Start = Callable[..., AbstractAsyncContextManager[Absorber]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LEVELS)
async def told(
    request: pytest.FixtureRequest, absorber: Absorber, tmp_path_factory: pytest.TempPathFactory, start: Start
) -> AsyncIterator[Told]:
    found = Told(request.param)
    if request.param == "full":
        tell_requests(absorber, found)
        tell_bodies(absorber, found)
        look(found, journal_with(absorber.journal, "other model"))
    else:
        folder = tmp_path_factory.mktemp("strictness")
        profile = profile_named("max-throughput") if request.param == "precompiled" else Profile(output_tokens=9)
        level = "full" if request.param == "precompiled" else "light"
        async with start(profile, folder, level=level) as own:
            tell_requests(own, found)
            tell_bodies(own, found)
        look(found, read_journal(folder / "journal"))
    yield found


@pytest.mark.parametrize("odd", ALL, ids=lambda odd: odd.name)
def test_odd_bytes(told: Told, odd: Odd) -> None:
    for cut in CUTS if odd.any_cut else CUTS[:1]:
        tag = f"{odd.name}, {cut}"
        seen = told.seen[tag]
        assert tuple(reply.status for reply in seen.replies) == odd.statuses, tag
        assert (seen.rest, seen.went_on) == ((None, 200) if odd.goes_on else (b"", None)), tag
        last = seen.replies[-1]
        assert odd.goes_on or last.headers["connection"] == "close", tag
        for reply in seen.replies:
            if reply.status >= 400:
                assert_error(reply)
        rows = told.rows[tag]
        expected = [*odd.rows, ("GET", "/health", 200, COMPLETE, True)] if odd.goes_on else list(odd.rows)
        assert [rows_of(row)[2:] for row in rows] == [row[2:] for row in expected], tag
        if cut == "whole":
            assert [rows_of(row)[:2] for row in rows] == [row[:2] for row in expected], tag
        assert [row["nth"] for row in rows] == list(range(len(rows)))


def rows_of(row: dict[str, Any]) -> tuple[str, str, int | None, str | None, bool]:
    return row["method"], row["path"], row["status"], row["how_ended"], bool(row["received_ns"])


def assert_error(reply: Reply) -> None:
    assert reply.headers["content-type"] == "application/json"
    assert reply.error.keys() == {"message", "type", "param", "code"}
    assert reply.error["code"] == reply.status
    assert reply.error["message"]
    assert isinstance(reply.error["type"], str)


def test_nothing_after_refused_bytes_was_taken_for_a_request(told: Told) -> None:
    assert INNER_PATH not in told.paths
    assert "/health" in told.paths  # the search does find what was sent


def refused_body(told: Told, tag: str, status: int = 400) -> Reply:
    """Look at a refusal that leaves the connection as it was; return the reply."""
    seen = told.seen[tag]
    (reply,) = seen.replies
    assert (reply.status, seen.went_on) == (status, 200)
    assert_error(reply)
    row, after = told.rows[tag]
    assert (row["status"], row["how_ended"], row["output_tokens"]) == (status, REFUSED, 0)
    assert row["bytes"] == len(reply.body)
    assert row["received_ns"] >= row["read_ns"] >= row["arrival_ns"] > 0
    assert (row["planned_ns"], row["finish_reason"]) == ([], None)
    assert row["digest"] != bytes(16)
    assert after["path"] == "/health"
    return reply


@pytest.mark.parametrize("index", range(len(FIELDS)), ids=lambda index: str(FIELDS[index])[:60])
def test_a_wrong_field_is_named(told: Told, index: int) -> None:
    fields, param = FIELDS[index]
    if told.level == "precompiled" and fields is PRECOMPILED_TAKES:
        assert told.seen[f"fields {index}"].replies[0].status == 200
        return
    assert refused_body(told, f"fields {index}").error["param"] == param


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_what_are_no_messages_is_said(told: Told, index: int) -> None:
    reply = refused_body(told, f"messages {index}")
    assert str(reply.error["param"]).startswith("messages")


@pytest.mark.parametrize("index", range(len(NO_JSON)))
@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_json_object_is_refused(told: Told, path: str, index: int) -> None:
    refused_body(told, f"no JSON {path} {index}")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("index", range(len(ODD_MESSAGES)))
def test_messages_that_the_template_refuses_are_refused_where_prompts_are_counted(
    told: Told, index: int, *, stream: bool
) -> None:
    tag = f"odd messages {index} {stream}"
    if told.level == "full":
        assert refused_body(told, tag).error["param"] == "messages"
    else:
        assert [(reply.status, told.seen[tag].went_on) for reply in told.seen[tag].replies] == [(200, 200)]


def test_an_unknown_model_is_not_found(told: Told) -> None:
    assert refused_body(told, "other model", 404).error["param"] == "model"


def rows_with(folder: Path, wanted: bytes, *, ended: bool) -> list[dict[str, Any]]:
    """Return the rows whose bytes hold `wanted`, once there is one, ended or not, in a running absorber's journal."""
    deadline = time.monotonic() + 30
    while True:
        rows = read_journal(folder).table.to_pylist()
        found = [row for row in rows if wanted in row["path"].encode() + row["body"]]
        found = [row for row in found if (row["how_ended"] is not None) == ended]
        if found:
            return found
        assert time.monotonic() < deadline, "no such row after 30 s"


@pytest.mark.parametrize(
    ("start_of_it", "rest"),
    [
        (b"GET /version?half-a-head HTTP/1.1\r\nHo", b"st: x\r\n\r\n"),
        (b"POST /nowhere?half-a-body HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab", b"cd"),
        (
            b"POST /nowhere?half-in-chunks HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nab",
            b"cd\r\n0\r\n\r\n",
        ),
    ],
)
def test_a_request_that_the_journal_saw_half_is_there_whole_in_the_end(
    absorber: Absorber, start_of_it: bytes, rest: bytes
) -> None:
    target = start_of_it.split(b" ")[1]
    with absorber.raw() as raw:
        raw.send(start_of_it)
        (half,) = rows_with(absorber.journal, target, ended=False)
        assert (half["received_ns"], half["status"]) == (0, None)
        raw.send(rest)
        assert raw.reply().status in {200, 404}
    rows_with(absorber.journal, target, ended=True)
    (row,) = rows_with(absorber.journal, target, ended=True)  # again: an end may be read that is younger than the rows
    assert (row["path"].encode(), row["req"]) == (target, half["req"])
    assert row["received_ns"] > row["read_ns"] == half["read_ns"]
    assert row["body"] == (b"" if target.startswith(b"/version") else b"abcd")
    assert row["digest"] != bytes(16)
