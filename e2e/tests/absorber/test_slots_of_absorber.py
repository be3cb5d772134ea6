"""Is the schedule of an absorber with two slots, to the nanosecond, the one that a pencil gives for its arrivals?

Nothing here depends on how fast the machine is: replies that would take for hours hold the slots until all others wait
(`/metrics` says when), and then their clients leave. When they left, and when everybody came, the journal says; what
is due when follows from that. One story is told to an absorber with constants and to one that draws.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from loadproof.absorber.plan import Plan, plan_reply
from loadproof.absorber.profile import Profile
from loadproof.journal import CLIENT_CLOSED, COMPLETE, REFUSED, read_journal
from tests.absorber.conftest import DEADLINE_S, Absorber, Raw

if TYPE_CHECKING:
    from tests.absorber.conftest import Reply

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
TTFT_NS, ITL_NS = 50_000_000, 10_000_000
DRAWS = {
    "ttft_s": {"law": "gamma", "mean": 0.05, "shape": 2}, "itl_s": {"law": "lognormal", "median": 0.01, "sigma": 0.5},
    "output_tokens": {"law": "gamma", "mean": 6, "shape": 3}, "seed": 5, "slots": 2,
}  # fmt: skip
PROFILES = {
    "constants": Profile(ttft_s=TTFT_NS / 1e9, itl_s=ITL_NS / 1e9, slots=2),
    "draws": Profile.model_validate(DRAWS),
}
HOURS = {"max_tokens": 200_000, "ignore_eos": True, "stream": True}

type Row = dict[str, Any]


@dataclass
class Story:
    name: str
    profile: Profile
    rows: dict[str, Row] = field(default_factory=dict)
    replies: dict[str, Reply] = field(default_factory=dict)

    def plans(self, tag: str) -> list[Plan]:
        """What the row's request is answered with, by the pure function that its own tests hold."""
        row, asked = self.rows[tag], QUEUED[tag]
        return [
            plan_reply(self.profile, max_tokens=row["max_tokens"], min_tokens=0, ignore_eos=False,
                       digest=row["digest"], occurrence=row["occurrence"], choice=choice)
            for choice in range(asked.get("n", 1))
        ]  # fmt: skip

    def lasts(self, tag: str) -> int:
        return max(plan.due_ns(plan.tokens - 1) for plan in self.plans(tag))

    def begins(self, tags: list[str], free: list[int]) -> dict[str, int]:
        """Serve these, in this order, with slots that are free since then."""
        found = {}
        for tag in tags:
            since = min(free)
            found[tag] = max(self.rows[tag]["arrival_ns"], since)
            free[free.index(since)] = found[tag] + self.lasts(tag)
        return found


# In the order in which they come; the first lot is served by one slot, the second by two.
QUEUED: dict[str, dict[str, Any]] = {
    "stream": {"stream": True, "max_tokens": 5},
    "whole": {"max_tokens": 4},
    "several": {"n": 3, "max_tokens": 6, "stream": True},
    "gone": {"max_tokens": 9},
    "chat": {"stream": True, "max_tokens": 3},
    "several whole": {"n": 3, "max_tokens": 6},
    "one": {"stream": True, "max_tokens": 1},
    "b0": {"stream": True, "max_tokens": 8},
    "b1": {"max_tokens": 2},
    "b2": {"stream": True, "max_tokens": 2},
    "b3": {"stream": True, "max_tokens": 2},
    "b4": {"n": 2, "max_tokens": 7},
    "b5": {"max_tokens": 1},
}
FIRST = [tag for tag in QUEUED if tag != "gone" and not tag.startswith("b")]
SECOND = [tag for tag in QUEUED if tag.startswith("b")]


@dataclass
class Teller:
    """Tells the story to an absorber."""

    absorber: Absorber
    client: httpx.Client
    stack: ExitStack
    story: Story
    open: dict[str, Raw] = field(default_factory=dict)

    def until(self, running: int, waiting: int) -> None:
        """Wait until so many are served and so many wait."""
        deadline = time.monotonic() + DEADLINE_S
        while (found := gauges(self.client)) != (running, waiting):
            assert time.monotonic() < deadline, f"(running, waiting) are {found}, not {(running, waiting)}"

    def ask(self, tag: str, **fields: Any) -> None:
        raw = self.open[tag] = self.stack.enter_context(self.absorber.raw())
        body = self.absorber.body(user=tag, **fields)
        if tag == "chat":
            body = {"model": self.absorber.model, "messages": [{"role": "user", "content": "x"}], **fields}
        raw.post(CHAT if tag == "chat" else COMPLETIONS, body, f"X-Tag: {tag}")

    def queue_up(self, tags: list[str], before: int) -> None:
        for waiting, tag in enumerate(tags, before + 1):
            self.ask(tag, **QUEUED[tag])
            self.until(2, waiting)

    def leave(self, *tags: str) -> None:
        for tag in tags:
            self.open.pop(tag).close()

    def hear(self, tags: list[str]) -> None:
        self.story.replies |= {tag: self.open[tag].reply() for tag in tags}

    def tell(self) -> None:
        for running, tag in enumerate(("hours a", "hours b"), 1):
            self.ask(tag, **HOURS)
            self.until(running, 0)
        self.queue_up([tag for tag in QUEUED if tag not in SECOND], 0)
        self.ask("refused", max_tokens=0)  # it is answered although all slots are held and others wait
        self.hear(["refused"])
        assert self.client.get("/health").status_code == 200
        assert self.client.post("/tokenize", json={"prompt": "x"}).status_code == 200
        self.leave("gone")
        self.until(2, len(FIRST))
        self.leave("hours a")
        self.hear(FIRST)
        self.until(1, 0)
        self.ask("hours c", **HOURS)
        self.queue_up(SECOND, 0)
        self.leave("hours c", "hours b")
        self.hear(SECOND)
        self.until(0, 0)
        for running, tag in enumerate(("open a", "open b"), 1):
            self.ask(tag, **HOURS)
            self.until(running, 0)
        self.ask("left waiting")
        self.until(2, 1)


def gauges(client: httpx.Client) -> tuple[int, int]:
    values = {
        sample.name: sample.value
        for family in text_string_to_metric_families(client.get("/metrics").text)
        for sample in family.samples
    }
    return int(values["vllm:num_requests_running"]), int(values["vllm:num_requests_waiting"])


def told_to(absorber: Absorber, stack: ExitStack, story: Story) -> None:
    with httpx.Client(base_url=absorber.url) as client:
        Teller(absorber, client, stack, story).tell()


type Start = Callable[[Profile, Path], AbstractAsyncContextManager[Absorber]]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=PROFILES)
async def story(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, start: Start
) -> AsyncIterator[Story]:
    told, folder = Story(request.param, PROFILES[request.param]), tmp_path_factory.mktemp("slots")
    with ExitStack() as stack:  # what is open then is open when the server ends
        async with start(told.profile, folder) as absorber:
            await asyncio.to_thread(told_to, absorber, stack, told)
    for row in read_journal(folder / "journal").table.to_pylist():
        told.rows |= {header["value"]: row for header in row["headers"] if header["name"] == "X-Tag"}
    yield told


def assert_planned(story: Story, begins: dict[str, int]) -> None:
    for tag, begin in begins.items():
        row, plans = story.rows[tag], story.plans(tag)
        if QUEUED[tag].get("stream"):
            planned = sorted(begin + plan.due_ns(k) for plan in plans for k in range(plan.tokens))
            tokens = [at for at, tokens in zip(row["planned_ns"], row["chunk_tokens"], strict=True) if tokens]
            assert sorted(tokens) == planned, tag
        else:
            planned = [begin + story.lasts(tag)]
            assert row["planned_ns"] == planned, tag
        assert row["planned_first_ns"] == planned[0]
        assert min(row["late_ns"]) >= 0
        assert (row["how_ended"], row["status"]) == (COMPLETE, 200)


def test_one_slot_is_given_on_at_the_planned_end_to_who_came_next(story: Story) -> None:
    begins = story.begins(FIRST, [story.rows["hours a"]["done_ns"]])
    assert_planned(story, begins)
    assert list(begins.values()) == sorted(begins.values())
    assert all(begins[tag] > story.rows[tag]["arrival_ns"] for tag in FIRST)  # all had to wait


def test_two_slots_serve_each_who_came_next(story: Story) -> None:
    left = [story.rows[tag]["done_ns"] for tag in ("hours b", "hours c")]
    assert_planned(story, story.begins(SECOND, left))


def test_times_by_hand(story: Story) -> None:
    if story.name == "constants":
        left = story.rows["hours a"]["done_ns"]
        assert story.rows["stream"]["planned_ns"] == [left + TTFT_NS + k * ITL_NS for k in range(5)]
        assert story.rows["whole"]["planned_ns"] == [left + 2 * TTFT_NS + (4 + 3) * ITL_NS]
        assert story.rows["several"]["planned_first_ns"] == left + 3 * TTFT_NS + 7 * ITL_NS
        assert story.rows["chat"]["planned_first_ns"] == left + 4 * TTFT_NS + 12 * ITL_NS
    else:  # the slowest of several choices counts, and here they differ
        assert len({plan.due_ns(plan.tokens - 1) for plan in story.plans("several")}) == 3


def test_a_slot_that_is_free_is_taken_with_the_arrival(story: Story) -> None:
    for tag in ("hours a", "hours b", "open a", "open b"):
        row = story.rows[tag]
        plan = plan_reply(story.profile, max_tokens=200_000, min_tokens=0, ignore_eos=True, digest=row["digest"],
                          occurrence=row["occurrence"])  # fmt: skip
        assert row["planned_first_ns"] == row["arrival_ns"] + plan.first_ns
        assert row["how_ended"] == (CLIENT_CLOSED if tag.startswith("hours") else None)


def test_a_client_that_left_the_queue_was_never_planned(story: Story) -> None:
    row = story.rows["gone"]
    assert (row["how_ended"], row["planned_first_ns"], row["planned_ns"]) == (CLIENT_CLOSED, None, [])
    assert row["arrival_ns"] < row["done_ns"] < story.rows["hours a"]["done_ns"]


def test_who_waits_when_the_server_ends_is_known(story: Story) -> None:
    row = story.rows["left waiting"]
    assert (row["how_ended"], row["planned_first_ns"], row["planned_ns"]) == (None, None, [])
    assert row["body"]


def test_who_is_refused_holds_nobody_up(story: Story) -> None:
    row = story.rows["refused"]
    assert (row["how_ended"], row["status"], story.replies["refused"].status) == (REFUSED, 400, 400)
    assert row["done_ns"] < story.rows["hours a"]["done_ns"]


def test_replies_are_whole(story: Story) -> None:
    for tag in FIRST + SECOND:
        reply, row = story.replies[tag], story.rows[tag]
        assert (reply.status, len(reply.body)) == (200, row["bytes"])
        assert row["output_tokens"] == sum(plan.tokens for plan in story.plans(tag))
