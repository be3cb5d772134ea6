"""Are stages, durations, caps and the wrong ways of filling slots driven as they are asked?

Against a fake server; what is compared are the sender's own absolute times and the server's counts, never how long
something took.
"""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from pathlib import Path

import pytest

from loadproof.errors import Exit, UsageProblem
from loadproof.metronome import plan as planning
from loadproof.metronome.__main__ import main
from loadproof.metronome.asked import Asked
from loadproof.metronome.drive import drive
from loadproof.metronome.exchange import Exchange
from loadproof.metronome.stage import Slots, Stage
from tests.unit.replying import DEADLINE_S, STREAM, TOKENS, Reply, Server, saying, serving

MS = 1_000_000


def asking(*stages: Stage, prompt_tokens: int = 9) -> Asked:
    return Asked(
        model="m", stages=stages, prompt_tokens=prompt_tokens, max_tokens=TOKENS, seed=5, timeout_s=DEADLINE_S
    )  # fmt: skip


async def offered(asked: Asked, url: str) -> list[Exchange]:
    async with asyncio.timeout(DEADLINE_S):
        exchanges = await drive(planning.plan(asked, url))
    assert [exchange.answer.error for exchange in exchanges] == [""] * len(exchanges)
    return exchanges


def in_flight_at(exchange: Exchange, exchanges: list[Exchange]) -> int:
    """How many are in flight just after this one was sent, by the sender's own times."""
    return sum(other.sent_ns <= exchange.sent_ns < other.done_ns for other in exchanges)


# --- stages ---------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_rate_stage_begins_by_the_schedule_and_waits_for_no_answer() -> None:
    """Nobody is answered before both stages were sent."""
    stages = (Stage(rate_per_s=100.0, num_requests=5, gap_s=0.02), Stage(rate_per_s=200.0, duration_s=0.05))

    async def when_all_are_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.until(lambda: server.peak == 15)
        writer.write(STREAM)

    server: Server
    async with serving(when_all_are_here) as (server, url):
        exchanges = await offered(asking(*stages), url)
    planned_ms = [0, 10, 20, 30, 40, *(50 + 20 + 5 * k for k in range(10))]
    start_ns = exchanges[0].intended_ns
    assert [e.intended_ns - start_ns for e in exchanges] == [ms * MS for ms in planned_ms]
    assert all(e.sent_ns >= e.intended_ns for e in exchanges)


@pytest.mark.asyncio
async def test_a_concurrency_stage_ends_with_its_last_answer_and_the_gap_counts_from_there() -> None:
    stages = (Stage(concurrency=3, num_requests=9, gap_s=0.03), Stage(concurrency=2, num_requests=4, gap_s=0.01),
              Stage(rate_per_s=500.0, num_requests=3))  # fmt: skip
    async with serving(saying(STREAM)) as (_, url):
        exchanges = await offered(asking(*stages), url)
    first, second, third = exchanges[:9], exchanges[9:13], exchanges[13:]
    assert len(third) == 3
    assert min(e.sent_ns for e in second) >= max(e.done_ns for e in first) + 30 * MS
    assert third[0].intended_ns >= max(e.done_ns for e in second) + 10 * MS
    assert [e.intended_ns - third[0].intended_ns for e in third] == [0, 2 * MS, 4 * MS]


@pytest.mark.asyncio
@pytest.mark.parametrize("later", [Stage(concurrency=2, num_requests=6), Stage(rate_per_s=900.0, num_requests=6)])
async def test_what_a_rate_left_in_flight_is_waited_for_at_the_end(later: Stage) -> None:
    """The first stage's only request is answered after all others."""

    async def the_first_last(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.bodies) == 1:
            await server.until(lambda: len(server.bodies) == 7 and server.in_flight == 1)
        writer.write(STREAM)

    server: Server
    async with serving(the_first_last) as (server, url):
        exchanges = await offered(asking(Stage(rate_per_s=50.0, num_requests=1), later), url)
    assert exchanges[0].done_ns == max(e.done_ns for e in exchanges)


@pytest.mark.asyncio
async def test_a_concurrency_for_a_duration_sends_nothing_after_it_and_finishes_what_is_in_flight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    duration_s, slots = 0.3, 2
    monkeypatch.setattr(planning, "_ROUNDS_AHEAD", 1)
    async with serving(saying(STREAM)) as (server, url):
        exchanges = await offered(asking(Stage(concurrency=slots, duration_s=duration_s)), url)
    begin_ns = exchanges[0].sent_ns  # a little after the stage's start
    assert exchanges[-1].sent_ns - begin_ns < 2 * duration_s * 1e9  # a busy machine may interrupt between look and send
    assert exchanges[-1].done_ns - begin_ns > 0.5 * duration_s * 1e9
    assert len({body["prompt"] for body in server.bodies}) == len(exchanges) > slots  # more than are built ahead


def test_a_duration_that_outlasts_the_different_prompts_is_told() -> None:
    async def run() -> None:
        async with serving(saying(STREAM)) as (_, url):
            asked = asking(Stage(concurrency=2, duration_s=DEADLINE_S), prompt_tokens=2)
            with pytest.raises(UsageProblem, match="different prompts of 1 tokens"):
                await drive(planning.plan(asked, url))

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))


# --- a cap ----------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_cap_is_reached_and_never_exceeded_and_the_plan_stays() -> None:
    """Twelve requests are due at once, four may be in flight."""

    async def when_four_are_here(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.until(lambda: server.peak >= 4)
        writer.write(STREAM)

    server: Server
    capped = Stage(rate_per_s=10_000.0, num_requests=12, cap=4)
    async with serving(when_four_are_here) as (server, url):
        exchanges = await offered(asking(capped, Stage(rate_per_s=10_000.0, num_requests=1)), url)
    assert server.peak <= 5  # the second stage has no cap
    assert max(in_flight_at(e, exchanges[:12]) for e in exchanges[:12]) == 4
    in_order = sorted(exchanges, key=lambda e: e.index)
    start_ns = min(e.intended_ns for e in in_order)
    assert sorted(e.intended_ns - start_ns for e in in_order) == [k * 100_000 for k in range(13)]
    assert sum(e.sent_ns > min(o.done_ns for o in in_order) for e in in_order) >= 7


# --- slots ----------------------------------------------------------------------------------------------------------


async def with_slots(slots: Slots, *, count: int = 12, reply: Reply | None = None) -> list[Exchange]:
    async with serving(reply or saying(STREAM)) as (_, url):
        exchanges = await offered(asking(Stage(concurrency=3, num_requests=count, slots=slots)), url)
    assert len(exchanges) == count
    return exchanges


def gaps_after_an_end_ns(exchanges: list[Exchange]) -> list[int]:
    """For each send after the first three, how long ago the end was that it follows at the latest."""
    ends = sorted(e.done_ns for e in exchanges)
    return [e.sent_ns - ends[k] for k, e in enumerate(exchanges[3:])]


@pytest.mark.asyncio
async def test_a_slow_refill_leaves_a_slot_empty_for_60_ms() -> None:
    slow = gaps_after_an_end_ns(await with_slots(Slots(turnaround_s=0.06)))
    honest = gaps_after_an_end_ns(await with_slots(Slots()))
    assert min(slow) > 55 * MS  # the loop's timers are rounded to 1 ms
    assert min(honest) < 55 * MS


def waves_of_three(exchanges: list[Exchange]) -> bool:
    waves = list(itertools.batched(exchanges, 3, strict=False))
    return all(max(e.done_ns for e in a) <= min(e.sent_ns for e in b) for a, b in itertools.pairwise(waves))


@pytest.mark.asyncio
async def test_waves_begin_when_the_last_of_the_wave_before_has_ended() -> None:
    """Every third request is answered when it is alone; without waves, when another one has come after it."""

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine = len(server.bodies)
        if mine % 3 == 0:
            await server.until(lambda: server.in_flight == 1 if waves else len(server.bodies) > mine)
        writer.write(STREAM)

    server: Server
    for slots, waves in ((Slots(waves=True), True), (Slots(), False)):
        async with serving(late) as (server, url):
            exchanges = await offered(asking(Stage(concurrency=3, num_requests=11, slots=slots)), url)
        assert len(exchanges) == 11
        assert waves_of_three(exchanges) is waves


@pytest.mark.asyncio
async def test_a_ramp_fills_the_slots_one_after_the_other() -> None:
    """Nobody is answered before all three slots were filled."""

    def all_here() -> Reply:
        async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await server.until(lambda: server.peak == 3)
            writer.write(STREAM)

        return wait

    filled_ns = []
    for ramp_s in (0.3, 0.0):
        server: Server
        async with serving(all_here()) as (server, url):
            slots = Slots(ramp_s=ramp_s)
            exchanges = await offered(asking(Stage(concurrency=3, num_requests=6, slots=slots)), url)
        filled_ns.append(exchanges[2].sent_ns - exchanges[0].sent_ns)
    assert filled_ns[0] > 290 * MS > filled_ns[1]  # the loop's timers are rounded to 1 ms


@pytest.mark.asyncio
async def test_a_lost_slot_is_missing_from_the_middle_on() -> None:
    """Nobody is answered before as many are in flight as there should be slots."""

    async def when_full(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.until(
            lambda: server.in_flight >= (2 if lost and len(server.bodies) >= 20 else 3) or len(server.bodies) > 37
        )
        writer.write(STREAM)

    server: Server
    peaks = []
    for lost in (1, 0):
        async with serving(when_full) as (server, url):
            asked = asking(Stage(concurrency=3, num_requests=40, slots=Slots(lost=lost)))
            exchanges = await offered(asked, url)
        assert len(exchanges) == 40
        peaks.append([max(in_flight_at(e, exchanges) for e in half) for half in (exchanges[:20], exchanges[24:])])
    assert peaks[0] == [3, 2]
    assert peaks[1] == [3, 3]


@pytest.mark.asyncio
@pytest.mark.parametrize(("reuse", "opened"), [(False, 12), (True, 3)])
async def test_without_reuse_each_request_has_its_own_connection(reuse: bool, opened: int) -> None:
    asked = dataclasses.replace(asking(Stage(concurrency=3, num_requests=12)), reuse=reuse)
    async with serving(saying(STREAM)) as (server, url):
        await offered(asked, url)
    assert server.opened == opened


# --- as a program ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--stage=rate=5,duration_s=1", "--rate=5"], "--stage says it all: leave out --rate"),
        (["--stage=rate=5,duration_s=1", "--num-requests=5"], "--stage says it all"),
        (["--stage=rate=5"], "give either num_requests or duration_s"),
        (["--rate=5"], "give either --num-requests or --duration-s"),
        (["--rate=5", "--num-requests=5", "--duration-s=5"], "give either --num-requests or --duration-s"),
        (["--concurrency=5", "--num-requests=5", "--cap=5"], "--cap needs --rate"),
        (["--rate=5", "--duration-s=0"], "must be above 0 and finite, not 0"),
        (["--rate=5", "--num-requests=5", "--arrival=gamma"], "gamma needs the shape of its gaps"),
        (["--rate=5", "--num-requests=5", "--arrival=gama(2)"], "did you mean 'gamma'?"),
        (["--stage=concurrency=5,num_requests=5", "--arrival=poisson"], "--arrival needs --rate, or a --stage with"),
        (["--rate=0.001", "--duration-s=0.001", "--arrival=poisson"], "the schedule holds no request"),
        (["--stage=rate=5,num_requests=5", "--wrong=no-gap"], "--wrong no-gap needs a stage with a gap_s"),
    ],
)
def test_bad_orders_are_exit_64_and_nothing_is_left(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    ours = ["--base-url=http://127.0.0.1:1", "--model=m", f"--out={out}", "--prompt-tokens=9", "--max-tokens=4"]
    assert main([*ours, *arguments]) == Exit.USAGE
    assert message in capsys.readouterr().err
    assert not out.exists()
