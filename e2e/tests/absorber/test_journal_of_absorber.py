"""What does the sealed journal say of requests of every kind, sent to a paced absorber and ended in every way?

One absorber per module: `story` sends everything (each request tagged with a header), stops the server while
some requests are in flight, and reads the journal; each test looks at the rows of its tag.
"""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import socket
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from loadproof.absorber.profile import Profile
from loadproof.journal import CLIENT_CLOSED, COMPLETE, REFUSED, Journal, read_journal
from loadproof.live import read_live
from loadproof.words import pieces

if TYPE_CHECKING:
    from loadproof.tokenizer import TokenCounter
    from tests.absorber.conftest import Absorber, Reply

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TTFT_NS, ITL_NS = 50_000_000, 10_000_000
PROFILE = Profile(ttft_s=TTFT_NS / 1e9, itl_s=ITL_NS / 1e9)
SECRET = "sk-this-must-not-be-kept"  # noqa: S105 -- what the test looks for
MESSAGES = [{"role": "system", "content": "Be terse. 東京"}, {"role": "user", "content": "  Hi.  "}]
SLOW_TOKENS = 40_000

type Row = dict[str, Any]


@dataclass
class Story:
    """What was sent and seen, and the rows of the journal by tag."""

    folder: Path
    replies: dict[str, Reply] = field(default_factory=dict)
    metrics: str = ""
    rows: list[Row] = field(default_factory=list)
    journal: Journal | None = None

    def tagged(self, tag: str) -> list[Row]:
        found = [row for row in self.rows if {"name": "X-Tag", "value": tag} in row["headers"]]
        assert found, f"no row with the tag {tag}"
        return found

    def one(self, tag: str) -> Row:
        (row,) = self.tagged(tag)
        return row


def exchange(absorber: Absorber, story: Story, tag: str, path: str, body: bytes | dict[str, object]) -> None:
    with absorber.raw() as raw:
        raw.post(
            path,
            body,
            f"X-Tag: {tag}",
            f"Authorization: Bearer {SECRET}",
            f"Api-Key: {SECRET}",
            f"X-Auth-Token: {SECRET}",
        )
        story.replies[tag] = raw.reply()


def ordinary(absorber: Absorber, story: Story) -> None:
    stream = absorber.body(stream=True, max_tokens=5, ignore_eos=True, temperature=0.5, seed=7)
    exchange(absorber, story, "stream", COMPLETIONS, stream)
    exchange(absorber, story, "stream again", COMPLETIONS, stream)
    exchange(absorber, story, "whole", COMPLETIONS, absorber.body(max_tokens=4))
    chat = {"model": absorber.model, "messages": MESSAGES, "max_tokens": 9, "max_completion_tokens": 3, "stream": True,
            "stream_options": {"include_usage": True}}  # fmt: skip
    exchange(absorber, story, "chat", CHAT, chat)
    exchange(absorber, story, "ids", COMPLETIONS, absorber.body(prompt=[2, 50, 60], max_tokens=1))
    exchange(absorber, story, "ids without bos", COMPLETIONS, absorber.body(prompt=[50, 60], max_tokens=1))
    exchange(absorber, story, "no json", COMPLETIONS, b"{")
    exchange(absorber, story, "bad", COMPLETIONS, absorber.body(max_tokens=10**30))
    exchange(
        absorber, story, "infinite", COMPLETIONS, json.dumps(absorber.body(x=0)).replace(": 0", ": 1e999").encode()
    )
    exchange(absorber, story, "surrogate", COMPLETIONS, b'{"model": "\\ud800", "prompt": "\\udfff", "\\ud800": 1}')
    exchange(absorber, story, "model", COMPLETIONS, absorber.body(model="other"))
    exchange(absorber, story, "tokenize", "/tokenize", {"prompt": "x"})
    exchange(absorber, story, "nowhere", f"/nowhere?a=b&api_key={SECRET}&c=d", b"")


def odd_framing(absorber: Absorber, story: Story) -> None:
    body = json.dumps(absorber.body(max_tokens=2)).encode()
    post = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\n"
    with absorber.raw() as raw:  # a chunked body, with a trailer
        parts = b"".join(b"%x;e=1\r\n%b\r\n" % (len(body[i : i + 9]), body[i : i + 9]) for i in range(0, len(body), 9))
        trailer = b"0\r\nX-Late: 1\r\nAuthorization: Bearer " + SECRET.encode() + b"\r\n\r\n"
        raw.send(post + b"X-Tag: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + trailer)
        story.replies["chunked"] = raw.reply()
    with absorber.raw() as raw:
        raw.send(post + b"X-Tag: expect\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        assert raw.head() == (100, {})
        raw.send(body)
        story.replies["expect"] = raw.reply()
    with absorber.raw() as raw:  # the question must not be answered in the middle of another reply
        raw.post(COMPLETIONS, absorber.body(stream=True), "X-Tag: before expect")
        raw.send(post + b"X-Tag: expect later\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        story.replies["before expect"] = raw.reply()
        assert raw.head() == (100, {})
        raw.send(body)
        story.replies["expect later"] = raw.reply()
    for version, tag in ((b"1.0", "old"), (b"1.1", "bytes")):
        streamed = json.dumps(absorber.body(stream=True)).encode()
        request = b"POST /v1/completions HTTP/" + version + b"\r\nHost: x\r\nX-Tag: " + tag.encode()
        request += b"\r\nContent-Length: %d\r\n\r\n" % len(streamed) + streamed
        with absorber.raw() as raw:
            raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for i in range(len(request)) if tag == "bytes" else ():
                raw.send(request[i : i + 1])
            if tag == "old":
                raw.send(request)
            story.replies[tag] = raw.reply()
            if tag == "old":
                assert raw.rest() == b""
    with absorber.raw() as raw:
        raw.send(b"GET /health HTTP/1.0\r\nX-Tag: old kept\r\nConnection: keep-alive\r\n\r\n" * 2)
        assert [raw.reply().headers["connection"] for _ in range(2)] == ["keep-alive"] * 2


def pipelines(absorber: Absorber, story: Story) -> None:
    with absorber.raw() as raw:
        for tokens in (5, 1, 3):
            raw.post(COMPLETIONS, absorber.body(max_tokens=tokens, stream=tokens != 1), "X-Tag: pipelined")
        raw.send(b"GET /version HTTP/1.1\r\nHost: x\r\nX-Tag: pipelined\r\n\r\n")
        raw.post(COMPLETIONS, b"[]", "X-Tag: pipelined")
        raw.send(b"GET /health HTTP/1.1\r\nHost: x\r\nX-Tag: pipelined\r\n\r\n" * 3000 + b"garbage\r\n\r\n")
        story.replies |= {f"pipelined {i}": raw.reply() for i in range(5)}
        assert {raw.reply().status for _ in range(3000)} == {200}
        story.replies["garbage"] = raw.reply()
        assert raw.rest() == b""


def leavers(absorber: Absorber) -> None:
    with absorber.raw() as raw:  # in mid-stream, politely
        raw.post(COMPLETIONS, absorber.body(stream=True, max_tokens=500), "X-Tag: left")
        raw.head()
        for _ in range(6):
            raw.line()
    with absorber.raw() as raw:  # with a reset, before anything came
        raw.post(COMPLETIONS, absorber.body(stream=True), "X-Tag: reset")
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    with absorber.raw() as raw:  # half closed: the server cannot know that somebody still listens
        raw.post(COMPLETIONS, absorber.body(), "X-Tag: half closed")
        raw.socket.shutdown(socket.SHUT_WR)
        assert raw.rest() == b""
    with absorber.raw() as raw:  # in the middle of the request
        raw.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Tag: cut\r\nContent-Length: 100\r\n\r\nabc")
    with absorber.raw() as raw:  # with others waiting behind
        raw.post(COMPLETIONS, absorber.body(), "X-Tag: queue left")
        raw.post(COMPLETIONS, absorber.body(), "X-Tag: queue left")


async def published(absorber: Absorber, open_requests: int) -> None:
    """Wait until the live counters say that so many generation requests are open."""
    async with asyncio.timeout(30):
        while (live := read_live(absorber.journal))[0] - live[1] != open_requests or not live[0]:  # noqa: ASYNC110 -- another process has no event for us
            await asyncio.sleep(0.02)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def story(
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[[Profile, Path], AbstractAsyncContextManager[Absorber]],
) -> AsyncIterator[Story]:
    told = Story(tmp_path_factory.mktemp("story"))
    with ExitStack() as open_at_the_end:
        await tell(told, start(PROFILE, told.folder), open_at_the_end)
    told.journal = read_journal(told.folder / "journal")
    told.rows = told.journal.table.to_pylist()
    yield told


async def tell(told: Story, started: AbstractAsyncContextManager[Absorber], open_at_the_end: ExitStack) -> None:
    async with started as absorber:
        await asyncio.to_thread(ordinary, absorber, told)
        await asyncio.to_thread(odd_framing, absorber, told)
        await asyncio.to_thread(pipelines, absorber, told)
        await asyncio.to_thread(leavers, absorber)
        async with httpx.AsyncClient(base_url=absorber.url) as client:
            told.metrics = (await client.get("/metrics")).text
        await published(absorber, 0)
        streaming, waiting, partial = (open_at_the_end.enter_context(absorber.raw()) for _ in range(3))
        streaming.post(COMPLETIONS, absorber.body(stream=True, max_tokens=10_000), "X-Tag: in flight")
        waiting.post(COMPLETIONS, absorber.body(max_tokens=10_000), "X-Tag: not begun")
        waiting.post(COMPLETIONS, absorber.body(max_tokens=10_000, seed=3), "X-Tag: behind")
        partial.send(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nX-Tag: unfinished\r\nContent-Length: 9\r\n\r\nab")
        assert (await asyncio.to_thread(streaming.head))[0] == 200
        await published(absorber, 2)


def written(row: Row) -> list[int]:
    """The actual write of each chunk that was written, in nanoseconds."""
    return [p + late for p, late in zip(row["planned_ns"], row["late_ns"], strict=True) if late is not None]


def test_a_stream_has_a_row_with_its_plan_and_what_became_of_it(story: Story, counter: TokenCounter) -> None:
    row = story.one("stream")
    first = row["arrival_ns"] + TTFT_NS
    assert row["planned_first_ns"] == first
    assert row["planned_ns"] == [first + k * ITL_NS for k in range(5)]
    assert row["chunk_tokens"] == [1] * 5
    assert (row["status"], row["how_ended"], row["finish_reason"]) == (200, COMPLETE, "length")
    assert (row["output_tokens"], row["blocked_ns"]) == (5, 0)
    assert row["bytes"] == len(story.replies["stream"].body)
    assert sum(row["chunk_bytes"]) + len(b"data: [DONE]\n\n") == row["bytes"]
    assert row["done_ns"] == written(row)[-1]
    assert (row["method"], row["path"], row["stream"], row["ignore_eos"]) == ("POST", COMPLETIONS, True, True)
    assert row["max_tokens"] == 5
    assert json.loads(row["extra_fields"]) == {"temperature": 0.5, "seed": 7}
    assert (row["bare_prompt_tokens"], row["usage_prompt_tokens"]) == (3, 4)
    assert row["digest"] == hashlib.sha256(row["body"]).digest()[:16]
    assert row["arrival_kernel"] is True


def test_a_reply_that_is_not_streamed_is_one_chunk_due_with_its_last_token(story: Story) -> None:
    row = story.one("whole")
    assert row["planned_ns"] == [row["arrival_ns"] + TTFT_NS + 3 * ITL_NS]
    assert row["planned_first_ns"] == row["planned_ns"][0]
    assert row["chunk_tokens"] == [4]
    assert row["chunk_bytes"] == [row["bytes"]] == [len(story.replies["whole"].body)]
    assert row["stream"] is None


def test_chat_begins_with_the_role_and_counts_the_template(story: Story, counter: TokenCounter) -> None:
    row = story.one("chat")
    first = row["arrival_ns"] + TTFT_NS
    assert row["planned_ns"] == [first, first, first + ITL_NS, first + 2 * ITL_NS]
    assert row["chunk_tokens"] == [0, 1, 1, 1]
    assert row["late_ns"][0] == row["late_ns"][1]  # due together, sent together
    assert row["max_tokens"] == 3
    assert row["usage_prompt_tokens"] == counter.chat(MESSAGES)
    assert row["bare_prompt_tokens"] == sum(counter.bare(["Be terse. 東京", "Hi."]))
    assert row["bytes"] == len(story.replies["chat"].body)
    assert json.loads(row["extra_fields"]) == {"stream_options": {"include_usage": True}}


def test_token_ids_are_counted_without_the_tokenizer(story: Story) -> None:
    with_bos, without = story.one("ids"), story.one("ids without bos")
    assert (with_bos["bare_prompt_tokens"], with_bos["usage_prompt_tokens"]) == (2, 3)
    assert (without["bare_prompt_tokens"], without["usage_prompt_tokens"]) == (2, 2)


def test_the_prompt_of_each_kind_of_request_has_a_digest(story: Story) -> None:
    wanted = {
        "stream": b"one two three",
        "whole": b"one two three",
        "ids": b"[2, 50, 60]",
        "surrogate": b"\xed\xbf\xbf",
        "chat": "system\nBe terse. 東京\nuser\n  Hi.  \n".encode(),
        "no json": None,
    }
    for tag, prompt in wanted.items():
        row = story.one(tag)
        assert row["prompt_digest"] == (None if prompt is None else hashlib.sha256(prompt).digest()[:16]), tag
        assert row["prefix_digests"] == [], tag  # none is 64 bytes long


def test_names_of_headers_are_listed_in_their_order(story: Story) -> None:
    row = story.one("stream")
    assert row["header_names"] == ",".join(header["name"].lower() for header in row["headers"])
    assert "x-tag,authorization,api-key,x-auth-token" in row["header_names"]


def test_equal_bodies_are_told_apart_by_occurrence(story: Story) -> None:
    first, second = story.one("stream"), story.one("stream again")
    assert first["digest"] == second["digest"]
    assert (first["occurrence"], second["occurrence"]) == (0, 1)


def test_nothing_is_written_before_its_plan_and_no_time_runs_backwards(story: Story) -> None:
    chunks = 0
    for row in story.rows:
        assert row["arrival_ns"] <= row["read_ns"]
        assert row["received_ns"] == 0 or row["read_ns"] <= row["received_ns"]
        assert row["planned_ns"] == sorted(row["planned_ns"])
        assert all(late is None or late >= 0 for late in row["late_ns"])
        actual = written(row)
        assert actual == sorted(actual)
        assert row["done_ns"] is None or all(row["arrival_ns"] <= t <= row["done_ns"] for t in actual)
        chunks += len(actual)
    assert chunks > 30


def test_rows_are_in_the_order_of_arrival_and_number_each_connections_requests(story: Story) -> None:
    assert [row["req"] for row in story.rows] == list(range(len(story.rows)))
    assert [row["arrival_ns"] for row in story.rows] == sorted(row["arrival_ns"] for row in story.rows)
    seen: dict[int, int] = {}
    for row in story.rows:
        assert row["nth"] == seen.get(row["conn"], 0)
        seen[row["conn"]] = row["nth"] + 1


@pytest.mark.parametrize(
    ("tag", "status"), [("no json", 400), ("bad", 400), ("surrogate", 400), ("model", 404), ("nowhere", 404)]
)
def test_a_refusal_is_a_row_too(story: Story, tag: str, status: int) -> None:
    row = story.one(tag)
    assert (row["status"], row["how_ended"]) == (status, REFUSED)
    assert story.replies[tag].status == status
    assert row["bytes"] == len(story.replies[tag].body)
    assert (row["planned_ns"], row["planned_first_ns"], row["finish_reason"], row["output_tokens"]) == (
        [],
        None,
        None,
        0,
    )
    assert row["done_ns"] >= row["arrival_ns"]


def test_what_no_column_can_hold_is_null_and_stays_in_the_body(story: Story) -> None:
    bad = story.one("bad")
    assert bad["max_tokens"] is None
    assert b"1000000000000000000000000000000" in bad["body"]
    assert story.one("surrogate")["model"] == "?"
    infinite = story.one("infinite")
    assert (infinite["how_ended"], infinite["max_tokens"]) == (COMPLETE, 3)
    assert story.one("nowhere")["path"] == "/nowhere?a=b&api_key=<blanked>&c=d"


def test_odd_framing_is_understood(story: Story) -> None:
    for tag in ("chunked", "expect", "expect later", "bytes", "old"):
        row = story.one(tag)
        assert (row["status"], row["how_ended"]) == (200, COMPLETE), tag
        assert story.replies[tag].status == 200
        assert row["bytes"] == len(story.replies[tag].body)
    assert "X-Late" not in {pair["name"] for pair in story.one("chunked")["headers"]}  # of a trailer nothing is kept
    assert story.one("bytes")["received_ns"] > story.one("bytes")["read_ns"]
    old = story.replies["old"]
    assert old.headers["connection"] == "close"
    assert "transfer-encoding" not in old.headers
    assert old.body.endswith(b"data: [DONE]\n\n")
    assert len(story.tagged("old kept")) == 2


def test_pipelined_requests_are_answered_one_after_the_other(story: Story) -> None:
    rows = story.tagged("pipelined")
    texts = [
        "".join(
            json.loads(line.removeprefix("data: "))["choices"][0]["text"]
            for line in story.replies[f"pipelined {i}"].body.decode().splitlines()
            if line.startswith(("data: {", "{"))
        )
        for i in range(3)
    ]
    assert texts == ["".join(pieces(n)) for n in (5, 1, 3)]
    assert [row["status"] for row in rows] == [200] * 4 + [400] + [200] * 3000
    done = [row["done_ns"] for row in rows]
    assert done == sorted(done)
    garbage = next(row for row in story.rows if row["conn"] == rows[0]["conn"] and row["nth"] == len(rows))
    assert (garbage["status"], garbage["how_ended"], garbage["method"]) == (400, REFUSED, "")
    assert story.replies["garbage"].status == 400


def test_a_client_that_leaves_ends_the_request_there(story: Story) -> None:
    left = story.one("left")
    assert (left["status"], left["how_ended"], left["finish_reason"]) == (200, CLIENT_CLOSED, None)
    assert 0 < left["output_tokens"] == len(written(left)) < 500
    assert left["done_ns"] >= written(left)[-1]
    for tag in ("reset", "half closed"):
        row = story.one(tag)
        assert (row["how_ended"], row["status"], row["output_tokens"]) == (CLIENT_CLOSED, None, 0), tag
        assert row["arrival_ns"] <= row["done_ns"]
    cut = story.one("cut")
    assert (cut["how_ended"], cut["received_ns"], cut["body"]) == (CLIENT_CLOSED, 0, b"abc")
    assert cut["digest"] == bytes(16)  # not of a whole body, so it repeats nobody's
    assert [row["how_ended"] for row in story.tagged("queue left")] == [CLIENT_CLOSED] * 2


@pytest.mark.parametrize("tag", ["in flight", "not begun", "behind", "unfinished"])
def test_what_was_open_when_the_server_ended_stays_open(story: Story, tag: str) -> None:
    row = story.one(tag)
    assert (row["how_ended"], row["done_ns"]) == (None, None)
    if tag == "in flight":
        assert (row["status"], row["bare_prompt_tokens"]) == (200, 3)


def test_credentials_are_kept_nowhere(story: Story) -> None:
    headers = story.one("stream")["headers"]
    blanked = {pair["name"] for pair in headers if pair["value"] == "<blanked>"}
    assert blanked == {"Authorization", "Api-Key", "X-Auth-Token"}
    files = [path for path in story.folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        assert SECRET.encode() not in path.read_bytes(), path
    assert all(SECRET not in str(row) for row in story.rows)  # the file is compressed: look inside, too


def test_nothing_but_the_journal_is_left_in_its_folder(story: Story) -> None:
    assert [path.name for path in (story.folder / "journal").iterdir()] == ["journal.parquet"]


def test_metrics_are_sums_over_the_journal(story: Story) -> None:
    values = {
        (sample.name, sample.labels.get("finished_reason"), sample.labels.get("le")): sample.value
        for family in text_string_to_metric_families(story.metrics)
        for sample in family.samples
    }
    whole = [row for row in story.rows if row["how_ended"] == COMPLETE and row["path"] in {COMPLETIONS, CHAT}]
    times = [
        [t for t, tokens in zip(written(row), row["chunk_tokens"], strict=True) if tokens] for row in whole
    ]  # fmt: skip
    gaps = [(b - a) / 1e9 for ts in times for a, b in pairwise(ts)]
    ttft = [(ts[0] - row["arrival_ns"]) / 1e9 for ts, row in zip(times, whole, strict=True)]
    latency = [(ts[-1] - row["arrival_ns"]) / 1e9 for ts, row in zip(times, whole, strict=True)]
    assert values["vllm:num_requests_running", None, None] == 0
    assert values["vllm:request_success_total", "length", None] == len(whole) > 10
    assert values["vllm:prompt_tokens_total", None, None] == sum(row["usage_prompt_tokens"] for row in whole)
    assert values["vllm:generation_tokens_total", None, None] == sum(row["output_tokens"] for row in whole)
    for name, seconds in (
        ("vllm:time_to_first_token_seconds", ttft),
        ("vllm:inter_token_latency_seconds", gaps),
        ("vllm:e2e_request_latency_seconds", latency),
    ):
        assert values[f"{name}_count", None, None] == len(seconds)
        assert values[f"{name}_sum", None, None] == pytest.approx(sum(seconds))
        buckets = {key[2]: value for key, value in values.items() if key[0] == f"{name}_bucket" and key[2]}
        assert len(buckets) > 10
        assert buckets == {le: sum(s <= float(le) for s in seconds) for le in buckets}


def test_the_metadata_says_who_wrote_it(story: Story) -> None:
    assert story.journal is not None
    metadata = story.journal.metadata
    assert metadata.profile == PROFILE.model_dump()
    assert metadata.model == story.one("whole")["model"]
    assert metadata.host == socket.gethostname()
    assert abs(metadata.clock_offset_ns[1] - metadata.clock_offset_ns[0]) < 10**10


def test_created_is_the_time_of_the_request(story: Story) -> None:
    assert story.journal is not None
    row = story.one("whole")
    created = json.loads(story.replies["whole"].body)["created"]
    assert created == (row["arrival_ns"] + story.journal.metadata.clock_offset_ns[0]) // 10**9


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def blocked(
    tmp_path_factory: pytest.TempPathFactory,
    start: Callable[[Profile, Path], AbstractAsyncContextManager[Absorber]],
) -> AsyncIterator[Story]:
    """A story of clients that do not read: one that does after all, one that leaves."""
    told = Story(tmp_path_factory.mktemp("blocked"))
    async with start(Profile(), told.folder) as absorber:
        await asyncio.to_thread(slow_readers, absorber, told)
    told.journal = read_journal(told.folder / "journal")
    told.rows = told.journal.table.to_pylist()
    yield told


def slow_readers(absorber: Absorber, story: Story) -> None:
    body = absorber.body(stream=True, max_tokens=SLOW_TOKENS)
    with absorber.raw() as slow, absorber.raw() as leaver, httpx.Client(base_url=absorber.url) as others:
        for raw, tag in ((slow, "slow"), (leaver, "leaver")):
            raw.post(COMPLETIONS, body, f"X-Tag: {tag}")
            until_blocked(raw.socket, others, absorber)
        leaver.close()
        story.replies["slow"] = slow.reply()
        slow.post(COMPLETIONS, absorber.body(max_tokens=1), "X-Tag: after slow")
        assert slow.reply().status == 200


def until_blocked(unread: socket.socket, others: httpx.Client, absorber: Absorber) -> None:
    """Return when no more bytes come although the server serves everybody else."""
    seen, unchanged = -1, 0
    while unchanged < 20:
        assert others.post(COMPLETIONS, json=absorber.body()).status_code == 200
        waiting = struct.unpack("i", fcntl.ioctl(unread, termios.FIONREAD, bytes(4)))[0]
        unchanged = unchanged + 1 if waiting == seen else 0
        seen = waiting


def test_a_slow_reader_gets_everything_in_the_end_and_the_wait_is_its_own(blocked: Story) -> None:
    row, reply = blocked.one("slow"), blocked.replies["slow"]
    events = [line for line in reply.body.decode().split("\n\n") if line]
    assert len(events) == SLOW_TOKENS + 1
    texts = [json.loads(event.removeprefix("data: "))["choices"][0]["text"] for event in events[:-1]]
    assert texts == pieces(SLOW_TOKENS)
    assert (row["how_ended"], row["output_tokens"], row["bytes"]) == (COMPLETE, SLOW_TOKENS, len(reply.body))
    assert 0 < row["blocked_ns"] <= row["done_ns"] - row["arrival_ns"]
    assert blocked.one("after slow")["blocked_ns"] == 0


def test_a_reader_that_leaves_unread_bytes_has_been_waited_for(blocked: Story) -> None:
    row = blocked.one("leaver")
    assert (row["how_ended"], row["finish_reason"]) == (CLIENT_CLOSED, None)
    assert 0 < row["output_tokens"] < SLOW_TOKENS
    assert None in row["late_ns"]
    assert 0 < row["blocked_ns"] <= row["done_ns"] - row["arrival_ns"]
