"""Do the forged clients do what they say? What rests on them is worth no more than they are."""

from __future__ import annotations

import numpy as np
import pytest

from loadproof.arrival import Arrival
from loadproof.journal import SCHEMA
from loadproof.load.concurrency import in_flight
from loadproof.load.requests import measure_requests
from tests.unit import forge
from tests.unit.forge_client import Manner, calls_of, honest, recorded
from tests.unit.forge_loops import LATENCY_S, Calls, Latencies, capped, joined, pooled, slots, waves
from tests.unit.forge_times import NOISE, by_law, sent, within
from tests.unit.wrong_kind import queued

LAWS = ("constant", "poisson", "fixed-span", "fixed-span(4)", "gamma(0.5)", "gamma(4)")


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def always(latency_s: float) -> Latencies:
    return lambda n: np.full(n, latency_s)


def uneven(n: int) -> forge.Seconds:
    return rng(3).uniform(0.1, 0.5, n)


def peak(calls: Calls) -> int:
    return in_flight(measure_requests(recorded(calls))).peak


@pytest.mark.parametrize("text", LAWS)
def test_a_law_has_its_rate_and_its_variation(text: str) -> None:
    law = Arrival.parse(text)
    gaps = np.diff(by_law(law, 50_000, 40.0, rng()))
    assert gaps.mean() == pytest.approx(1 / 40, rel=0.03)
    variation = 0.0 if text == "constant" else law.shape**-0.5
    assert gaps.std() / gaps.mean() == pytest.approx(variation, abs=0.03)


@pytest.mark.parametrize("text", ["fixed-span", "fixed-span(4)"])
def test_a_fixed_span_ends_with_its_last_request(text: str) -> None:
    assert by_law(Arrival.parse(text), 600, 40.0, rng())[-1] == pytest.approx(15.0)


@pytest.mark.parametrize("text", LAWS)
def test_a_duration_holds_what_its_law_puts_into_it(text: str) -> None:
    law = Arrival.parse(text)
    counts = np.array([len(within(law, 10.0, 40.0, rng(seed))) for seed in range(200)])
    assert all(within(law, 10.0, 40.0, rng(seed))[-1] <= 10.0 for seed in range(20))
    known = text.startswith(("constant", "fixed-span"))
    assert set(counts.tolist()) == {400} if known else counts.std() == pytest.approx((400 / law.shape) ** 0.5, rel=0.2)
    assert counts.mean() == pytest.approx(400, rel=0.02)


@pytest.mark.parametrize("noise", NOISE)
def test_a_sender_is_late_and_never_early(noise: str) -> None:
    due = forge.constant(4000, 40)
    found = [sent(due, rng(seed), pauses_per_s=NOISE[noise]) for seed in range(8)]
    late = np.array([arrived - due for arrived in found])
    assert late.min() >= 0.1e-3
    assert all(np.all(np.diff(arrived) >= 0) for arrived in found)
    assert 0.05 < late[:, 0].max() <= 0.3031
    # A pause of 60 ms in the mean holds up what falls into it: so many arrivals are more than 10 ms late.
    share = float(np.mean(late[:, 40:] > 0.01))
    assert share == pytest.approx(NOISE[noise] * 0.05, rel=0.5)


def test_what_is_due_at_once_leaves_one_after_the_other() -> None:
    assert queued(np.array([1.0, 1.0, 1.0, 2.0]), send_s=0.25).tolist() == [1.0, 1.25, 1.5, 2.0]
    late = sent(np.zeros(1000), rng(), pauses_per_s=0, late_first_s=0)
    assert 0.05 < late[-1] < 0.21


@pytest.mark.parametrize("count", [1, 8, 64])
def test_slots_are_all_in_use_and_never_more(count: int) -> None:
    calls = slots(count, rng(), uneven, n=20 * count)
    assert (len(calls.starts_s), peak(calls)) == (20 * count, count)


def test_slots_of_a_duration_stop_with_it() -> None:
    calls = slots(8, rng(), always(0.25), duration_s=5.0, pauses_per_s=0)
    assert 4.7 < calls.starts_s[-1] <= 5.01
    assert len(calls.starts_s) == pytest.approx(8 * 5 / 0.2535, rel=0.1)


def test_slots_that_are_lost_or_away_are_not_used() -> None:
    lost = slots(8, rng(), always(0.25), n=400, lost=lambda k, _at: 4 if k > 200 else 0)
    assert peak(lost.rows(slice(300, None))) == 4
    away = slots(8, rng(), always(0.25), n=400, away_s=(3.0, 5.0), pauses_per_s=0)
    assert not np.any((away.starts_s > 3.01) & (away.starts_s < 5.0))


def test_waves_begin_when_everything_has_ended() -> None:
    calls = waves(8, 80, rng(), uneven)
    for first in range(8, 80, 8):
        assert calls.starts_s[first] > calls.ends_s[:first].max()


def test_a_share_of_waves_is_a_share_of_the_rounds() -> None:
    calls = waves(8, 800, rng(), uneven, share=0.25)
    begun = [bool(calls.starts_s[k] > calls.ends_s[:k].max()) for k in range(8, 800)]
    assert sum(begun) == 25


@pytest.mark.parametrize("cap", [1, 4, 12])
def test_a_cap_is_kept(cap: int) -> None:
    calls = capped(forge.poisson(600, 40, rng()), cap, rng(), always(LATENCY_S))
    assert peak(calls) == cap
    assert len(calls.starts_s) == 600


def test_a_connection_has_one_request_at_a_time() -> None:
    calls = Calls(forge.poisson(600, 40, rng()), uneven(600))
    conns = pooled(calls)
    assert len(set(conns.tolist())) == peak(calls)
    for conn in set(conns.tolist()):
        mine = calls.rows(conns == conn)
        assert np.all(mine.starts_s[1:] > mine.ends_s[:-1])


def test_connections_that_are_closed_or_new() -> None:
    calls = Calls(forge.poisson(600, 40, rng()), uneven(600))
    assert len(set(pooled(calls, uses=1).tolist())) == 600
    counts = np.bincount(pooled(calls, uses=2))
    assert counts.max() == 2
    fresh = np.arange(600) % 3 == 0
    conns = pooled(calls, fresh=fresh)
    assert all(conn not in conns[:k] for k, conn in enumerate(conns.tolist()) if fresh[k])


@pytest.mark.parametrize("drains", [False, True])
def test_stages_follow_each_other(drains: bool) -> None:
    stages = [{"rate": 20, "duration_s": 5, "gap_s": 2}, {"rate": 40, "duration_s": 5}]
    asked = forge.case({"mode": "stages", "stages": stages}, workload={"num_requests": 300}, arrival="constant")
    calls = calls_of(asked, rng(), Manner(pauses_per_s=0, drains=drains))
    gap = np.diff(calls.starts_s)
    at = int(gap.argmax())
    assert at == 99
    assert gap[at] == pytest.approx(2.05 + (0.2 if drains else 0.0), abs=0.06)
    assert np.median(gap[:99]) == pytest.approx(0.05, abs=0.002)
    assert np.median(gap[100:]) == pytest.approx(0.025, abs=0.002)


def test_what_the_case_asks_is_what_an_honest_client_says() -> None:
    workload = {"extra_fields": {"temperature": 0.5}, "headers": {"x-team": "blue"}, "num_requests": 600,
                "max_tokens": {"counts": {"16": 590, "32": 10}}}  # fmt: skip
    table = honest(forge.case({"mode": "rate", "rate": 40}, workload=workload, arrival="constant"), rng()).table
    assert set(table["extra_fields"].to_pylist()) == {'{"temperature":0.5}'}
    assert sorted(table["max_tokens"].to_pylist()) == [16] * 590 + [32] * 10
    assert table["headers"][0].as_py() == [{"name": "x-team", "value": "blue"}]


def test_a_journal_is_whole_and_in_order() -> None:
    starts, ttft = np.array([2.0, 0.5, 1.0]), np.array([0.2, 0.3, 0.4])
    forged = forge.journal(starts, ttft_s=ttft, late_s=np.array([0.0, 0.01, 0.02]), conn=np.array([1, 0, 0]))
    forged.table.validate(full=True)
    assert forged.table.schema.equals(SCHEMA)
    rows = forged.table.to_pylist()
    assert [row["arrival_ns"] - forge.EPOCH_NS for row in rows] == [500_000_000, 1_000_000_000, 2_000_000_000]
    assert [row["planned_ns"][0] - row["arrival_ns"] for row in rows] == [300_000_000, 400_000_000, 200_000_000]
    assert [row["late_ns"][3] for row in rows] == [10_000_000, 20_000_000, 0]
    assert [(row["conn"], row["nth"]) for row in rows] == [(0, 0), (0, 1), (1, 0)]
    assert all(row["done_ns"] == row["planned_ns"][-1] + row["late_ns"][-1] for row in rows)
    assert len({row["digest"] for row in rows} | {row["prompt_digest"] for row in rows}) == 3
    assert forge.journal([]).table.schema.equals(SCHEMA)


def test_a_change_is_a_change_of_that_alone() -> None:
    forged = forge.journal(forge.constant(5, 10))
    rows = forged.table.to_pylist()
    assert forge.changed(forged, -1, max_tokens=3).table.to_pylist() == [*rows[:-1], rows[-1] | {"max_tokens": 3}]
    assert forge.without(forged, 1).table.to_pylist() == [rows[0], *rows[2:]]
    assert forge.with_columns(forged, max_tokens=[1, 2, 3, 4, 5]).table["max_tokens"].to_pylist() == [1, 2, 3, 4, 5]
    extra = forge.with_extra(forged, at_s=9.0, model="other").table.to_pylist()
    assert extra[:5] == rows
    assert (extra[5]["arrival_ns"] - forge.EPOCH_NS, extra[5]["model"]) == (9_000_000_000, "other")
    assert extra[5]["planned_ns"][0] - extra[5]["arrival_ns"] == 100_000_000


def test_calls_are_joined_by_their_start() -> None:
    both = joined(Calls(np.array([0.0, 2.0]), np.array([1.0, 2.0])), Calls(np.array([1.0]), np.array([3.0])))
    assert (both.starts_s.tolist(), both.latency_s.tolist()) == ([0.0, 1.0, 2.0], [1.0, 3.0, 2.0])
