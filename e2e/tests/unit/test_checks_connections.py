"""Is a client that does not use its connections again told from one with several pools, and a cut reply seen?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from loadproof.checks.connections import NEW_SHARE, least_share, smallest_share
from loadproof.journal import CLIENT_CLOSED, COMPLETE, Journal
from loadproof.load.connections import connections
from loadproof.load.measured import measure
from loadproof.load.requests import NEVER
from loadproof.verdict import Finding, Outcome
from tests.unit import forge
from tests.unit.forge import EPOCH_NS, LATENCY_S, ask, case, changed, closed_case, closed_loop, journal, rate_case
from tests.unit.forge_loops import Calls, pooled

PASS, FAIL, UNCLEAR = Outcome.PASS, Outcome.FAIL, Outcome.UNCLEAR
REUSE, CUT = "connections.reuse", "connections.cut"


def sent(times: forge.Seconds) -> Calls:
    return Calls(times, np.full(len(times), LATENCY_S))


def by_clients(calls: Calls, clients: int, rng: np.random.Generator | None = None) -> forge.Ints:
    """The connections of several clients with a pool each, in turn or at random."""
    n = len(calls.starts_s)
    client = np.arange(n) % clients if rng is None else rng.integers(0, clients, n)
    conns = np.empty(n, np.int64)
    for k in range(clients):
        conns[client == k] = pooled(calls.rows(client == k)) + 100_000 * k
    return conns


def reuse(calls: Calls, conns: forge.Ints, **declared: object) -> Finding:
    n = len(conns)
    return ask(rate_case(n, 20, "constant", **declared), journal(calls.starts_s, conn=conns, kernel=True))[REUSE]


def random_arrivals(n: int, rate: float, seed: int, shape: float = 1.0) -> Calls:
    return sent(forge.gamma(n, rate, shape, np.random.default_rng(seed)))


@pytest.mark.parametrize(("n", "rate"), [(50, 5), (50, 20), (600, 20), (600, 100), (2000, 2)])
def test_one_pool_is_used_again(n: int, rate: float) -> None:
    calls = random_arrivals(n, rate, n)
    found = reuse(calls, pooled(calls))
    assert found.outcome is PASS
    assert found.measured.startswith(f"0 of the last {n // 2}, ")


@pytest.mark.parametrize("clients", [4, 16])
@pytest.mark.parametrize(("n", "rate", "shape"), [(50, 20, 1.0), (50, 100, 0.5), (100, 5, 1.0), (600, 100, 0.5)])
def test_several_clients_with_a_pool_each_are_no_fault(clients: int, n: int, rate: float, shape: float) -> None:
    for seed in range(3):
        calls = random_arrivals(n, rate, seed, shape)
        for conns in (by_clients(calls, clients), by_clients(calls, clients, np.random.default_rng(seed))):
            assert reuse(calls, conns).outcome is not FAIL


@pytest.mark.parametrize(("uses", "n", "outcome"), [(1, 50, FAIL), (2, 240, FAIL), (3, 2000, FAIL), (8, 600, PASS)])
@pytest.mark.parametrize("rate", [20, 100])
def test_a_connection_for_each_few_requests_fails(uses: int, n: int, outcome: Outcome, rate: float) -> None:
    calls = sent(forge.constant(n, rate)) if n > 50 else sent(forge.constant(n, 20))
    found = reuse(calls, pooled(calls, uses=uses))
    assert found.outcome is outcome
    assert (f"median {uses}, most {uses}" in found.detail) is (outcome is FAIL)
    assert reuse(calls, pooled(calls)).outcome is PASS


@pytest.mark.parametrize(("n", "outcome"), [(49, UNCLEAR), (50, FAIL)])
def test_fewer_than_fifty_tell_nothing(n: int, outcome: Outcome) -> None:
    calls = sent(forge.constant(n, 20))
    found = reuse(calls, np.arange(n))
    assert found.outcome is outcome
    if outcome is UNCLEAR:
        assert "50 that come 5 a second or faster" in found.detail
        assert found.smallest_deviation == ""


def test_requests_that_come_too_seldom_tell_nothing() -> None:
    calls = sent(forge.constant(100, 0.5))
    assert reuse(calls, np.arange(100)).outcome is UNCLEAR
    assert reuse(calls, pooled(calls)).outcome is UNCLEAR


def test_a_closed_loop_that_opens_a_connection_each_time_fails() -> None:
    loop = closed_loop(60, 8, turnaround_s=0.003)
    own = ask(closed_case(60, 8), journal(loop, conn=np.arange(60)))[REUSE]
    again = ask(closed_case(60, 8), journal(loop, conn=pooled(sent(loop))))[REUSE]
    assert (own.outcome, again.outcome) == (FAIL, PASS)
    assert own.measured == "30 of the last 30, 60 opened"
    assert "60 opened, at least 8 at once" in own.detail


def test_connections_that_the_tool_does_not_reuse_by_design_are_exact() -> None:
    calls = sent(forge.constant(60, 20))
    own = reuse(calls, np.arange(60), connections="per_request")
    assert (own.outcome, own.measured, own.smallest_deviation) == (PASS, "60 for 60 requests", "exact")
    shared = reuse(calls, np.append(np.arange(59), 3), connections="per_request")
    assert (shared.outcome, shared.measured) == (FAIL, "59 for 60 requests")
    assert "most 2" in shared.detail


def test_a_connection_is_no_longer_idle_once_the_client_or_the_server_has_closed_it() -> None:
    calls = sent(forge.constant(60, 20))
    plain = journal(calls.starts_s, conn=np.arange(60))
    refused = forge.with_columns(plain, how_ended=["fault_close"] * 60)
    cut = forge.with_columns(plain, how_ended=[CLIENT_CLOSED] * 60, finish_reason=[None] * 60)
    closed = forge.with_columns(plain, how_ended=[CLIENT_CLOSED] * 60)  # after the reply: it could have stayed open
    asked = rate_case(60, 20, "constant")
    assert [ask(asked, seen)[REUSE].outcome is FAIL for seen in (plain, refused, cut, closed)] == [
        True, False, False, True,
    ]  # fmt: skip


def test_a_connection_is_busy_until_the_last_write_and_not_until_the_finish_reason() -> None:
    calls = sent(forge.constant(60, 20))
    plain = journal(calls.starts_s, conn=np.arange(60))
    done = np.asarray(plain.table["done_ns"].to_numpy()) + 5_000_000_000
    assert ask(rate_case(60, 20, "constant"), forge.with_columns(plain, done_ns=done))[REUSE].outcome is not FAIL


@pytest.mark.parametrize(("idle_s", "idle"), [(0.049, 0), (0.051, 1), (3.999, 1), (4.001, 0)])
def test_idle_is_from_50_ms_to_4_s(idle_s: float, idle: int) -> None:
    measured = connections(measure(journal([0.0, LATENCY_S + idle_s], conn=np.array([1, 2]))).requests)
    assert (measured.idle.tolist(), measured.could_be_idle.tolist()) == ([0, idle], [0, idle])
    assert measured.new.all()


def test_what_is_measured_is_what_a_slow_second_way_measures() -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        times = np.sort(rng.uniform(0, 12, 60))
        conns = rng.integers(0, 25, 60)
        requests = measure(journal(times, conn=conns, ttft_s=rng.uniform(0.05, 0.4, 60), tokens=1)).requests
        measured = connections(requests)
        starts, done = requests.start_ns.tolist(), requests.done_ns.tolist()
        numbers = requests.conn.tolist()
        for i, start in enumerate(starts):
            idle = 0
            for j in range(60):
                later = [starts[k] for k in range(j + 1, 60) if numbers[k] == numbers[j]]
                until = min([*later[:1], done[j] + 4_000_000_000])
                idle += done[j] + 50_000_000 <= start < until
            assert measured.idle[i] == idle
            assert measured.new[i] == (numbers.index(numbers[i]) == i)
        assert measured.opened == len(set(numbers))
        spans = [(min(s for s, c in zip(starts, numbers, strict=True) if c == one),
                  max(d for d, c in zip(done, numbers, strict=True) if c == one)) for one in set(numbers)]  # fmt: skip
        assert measured.at_once == max(sum(a <= start < b for a, b in spans) for start in starts)


def test_far_apart_numbers_of_connections_are_told_apart() -> None:
    far = np.array([0, 1 << 16, 0, 1 << 17, 1 << 16, 0])  # the same by their last 16 bits
    measured = connections(measure(journal(forge.constant(6, 1), conn=far)).requests)
    assert (measured.opened, measured.most_requests, measured.median_requests) == (3, 3, 2.0)


def test_of_nothing_nothing_is_known() -> None:
    found = ask(rate_case(50, 20, "constant"), journal([]))
    assert (found[REUSE].outcome, found[CUT].outcome) == (UNCLEAR, UNCLEAR)


@pytest.mark.parametrize(("seen", "of"), [(1, 25), (12, 25), (25, 25), (60, 120), (400, 1000)])
def test_the_bound_is_the_exact_one(seen: int, of: int) -> None:
    exact = binomtest(seen, of).proportion_ci(1 - 1e-6, method="exact").low
    assert least_share(seen, of) == pytest.approx(exact, rel=1e-6)
    assert least_share(0, of) == 0


def test_the_bound_holds_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    for level in (1e-2, 1e-3):
        lows = np.array([least_share(k, 120, level) for k in range(121)])
        over = np.count_nonzero(lows[rng.binomial(120, NEW_SHARE, 200_000)] > NEW_SHARE)
        assert over <= 200_000 * level / 2 + 5 * np.sqrt(200_000 * level / 2)  # conservative: a bound for counts


@pytest.mark.parametrize("of", [25, 120, 1000])
def test_the_smallest_share_is_seen_nine_times_in_ten(of: int) -> None:
    smallest = smallest_share(np.full(of, 150))
    assert smallest is not None
    rng = np.random.default_rng(of)
    for share, least, most in ((smallest, 0.85, 1.0), (0.8 * smallest, 0.0, 0.75)):
        seen = np.mean([least_share(int(k), of) > NEW_SHARE for k in rng.binomial(of, share, 400)])
        assert least <= seen <= most


def cut_rows(forged: Journal, *rows: int) -> Journal:
    for row in rows:
        forged = changed(forged, row, how_ended=CLIENT_CLOSED, finish_reason=None)
    return forged


def test_one_cut_reply_fails_where_a_number_was_asked() -> None:
    whole = journal(forge.constant(60, 20))
    asked = rate_case(60, 20, "constant")
    assert ask(asked, whole)[CUT].outcome is PASS
    for row in (0, 30, 59):
        found = ask(asked, cut_rows(whole, row))[CUT]
        assert (found.outcome, found.measured, found.smallest_deviation) == (FAIL, "1 of 60", "exact")
    assert "the last 3" in ask(asked, cut_rows(whole, 57, 58, 59))[CUT].detail
    assert ask(asked, changed(whole, 5, how_ended=CLIENT_CLOSED))[CUT].outcome is PASS  # it had the reply


def abandoned(forged: Journal, *rows: int, at_s: float) -> Journal:
    for row in rows:
        arrival = forged.table["arrival_ns"][row].as_py()
        done = EPOCH_NS + int(at_s * 1e9)
        kept = [t for t in forged.table["planned_ns"][row].as_py() if arrival <= t <= done]
        forged = changed(forged, row, how_ended=CLIENT_CLOSED, finish_reason=None, done_ns=done, planned_ns=kept,
                         late_ns=[0] * len(kept), output_tokens=len(kept))  # fmt: skip
    return forged


def test_what_is_in_flight_at_the_end_of_its_time_may_be_abandoned() -> None:
    whole = journal(forge.constant(60, 20))  # the last at 2.95 s
    by_time = case({"mode": "rate", "rate": 20}, workload={"num_requests": None, "duration_s": 3}, arrival="constant")
    left = ask(by_time, abandoned(whole, 56, 57, 58, 59, at_s=3.0))[CUT]
    assert (left.outcome, left.measured) == (PASS, "0 of 60, 4 more abandoned at the end")
    early = ask(by_time, abandoned(abandoned(whole, 57, 58, 59, at_s=3.0), 10, at_s=0.6))[CUT]
    assert (early.outcome, early.measured) == (FAIL, "1 of 60, 3 more abandoned at the end")
    assert "the 11th of 60" in early.detail
    assert ask(rate_case(60, 20, "constant"), abandoned(whole, 59, at_s=3.0))[CUT].outcome is FAIL


def test_only_a_stage_with_a_duration_may_abandon() -> None:
    stages = [{"rate": 20, "num_requests": 40, "gap_s": 1}, {"rate": 20, "duration_s": 2}]
    asked = case({"mode": "stages", "stages": stages}, workload={"num_requests": 80}, arrival="constant")
    whole = journal(np.concatenate([forge.constant(40, 20), 3 + forge.constant(40, 20)]))
    assert ask(asked, whole)[CUT].outcome is PASS
    assert ask(asked, abandoned(whole, 79, at_s=5.0))[CUT].outcome is PASS
    assert ask(asked, abandoned(whole, 39, at_s=2.0))[CUT].outcome is FAIL


def test_what_never_ended_is_not_cut_and_its_connection_never_idle() -> None:
    hanging = changed(journal(forge.constant(60, 20), conn=np.arange(60)), 3, how_ended=None, done_ns=None,
                      finish_reason=None)  # fmt: skip
    measured = connections(measure(hanging).requests)
    assert measure(hanging).requests.done_ns[3] == NEVER
    assert measured.idle.max() == connections(measure(journal(forge.constant(60, 20), conn=np.arange(60))).requests
                                              ).idle.max() - 1  # fmt: skip
    assert ask(rate_case(60, 20, "constant"), hanging)[CUT].outcome is PASS
    assert COMPLETE in measure(hanging).requests.endings.values
