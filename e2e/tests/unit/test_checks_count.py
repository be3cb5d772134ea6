"""Does the count fail at one request more or less, one body twice, one stray, one after the end, and only there?"""

from __future__ import annotations

from typing import Any

import pytest

from loadproof.case import Case
from loadproof.journal import REFUSED, Journal
from loadproof.verdict import Outcome
from tests.unit.forge import ask, case, changed, closed_case, closed_loop, constant, journal, with_extra, without

N = 100
LAST_S = (N - 1) / 20
EXACT = ("count.requests", "count.unique", "count.recognised", "count.after_end")


def asked(**declared: Any) -> Case:
    return case({"mode": "rate", "rate": 20}, workload={"num_requests": N}, arrival="constant", **declared)


def forged(n: int = N) -> Journal:
    return journal(constant(n, 20))


def outcomes(of: Case, seen: Journal, *, ended_s: float = 60.0) -> dict[str, Outcome]:
    found = ask(of, seen, tool_ended_s=ended_s)
    return {name: found[name].outcome for name in EXACT}


ALL_PASS = dict.fromkeys(EXACT, Outcome.PASS)


def test_exactly_what_was_asked_passes() -> None:
    assert outcomes(asked(), forged()) == ALL_PASS


def test_one_request_less_fails_the_number_alone() -> None:
    found = ask(asked(), without(forged(), 50))
    assert (found["count.requests"].expected, found["count.requests"].measured) == ("100", "99")
    assert outcomes(asked(), without(forged(), 50)) == ALL_PASS | {"count.requests": Outcome.FAIL}


def test_one_request_more_fails_the_number_alone() -> None:
    assert outcomes(asked(), with_extra(forged(), at_s=2.51)) == ALL_PASS | {"count.requests": Outcome.FAIL}


def test_a_refused_request_counts_as_sent() -> None:
    refused = with_extra(forged(), at_s=2.51, status=400, how_ended=REFUSED, planned_ns=[], late_ns=[])
    assert outcomes(asked(), refused)["count.requests"] is Outcome.FAIL


def test_one_body_twice_with_n_unchanged_fails_uniqueness_alone() -> None:
    first = forged().table["digest"][41].as_py()
    twice = changed(forged(), 42, digest=first, occurrence=1)
    assert outcomes(asked(), twice) == ALL_PASS | {"count.unique": Outcome.FAIL}
    assert ask(asked(), twice)["count.unique"].measured == "1 repeated"


def test_repeated_bodies_are_not_asked_about_where_the_case_does_not() -> None:
    twice = changed(forged(), 42, digest=forged().table["digest"][41].as_py())
    free = case({"mode": "rate", "rate": 20}, workload={"num_requests": N, "unique_prompts": False}, arrival="constant")
    assert "count.unique" not in ask(free, twice)
    assert "count.unique" in ask(asked(), twice)


def test_bodies_that_never_came_are_not_the_same_body() -> None:
    cut = changed(changed(forged(), 42, digest=b"\0" * 16), 43, digest=b"\0" * 16)
    assert outcomes(asked(), cut)["count.unique"] is Outcome.PASS


@pytest.mark.parametrize(
    ("method", "path", "told"),
    [
        ("POST", "/v1/embeddings", "1 x POST /v1/embeddings"),
        ("GET", "/v1/completions", "1 x GET /v1/completions"),
        ("POST", "/health", "1 x POST /health"),
        ("POST", "/v1/completionsx", "1 x POST /v1/completionsx"),
        ("", "", "1 x not HTTP"),
    ],
)
def test_one_unrecognised_request_fails_recognition_alone(method: str, path: str, told: str) -> None:
    stray = with_extra(forged(), at_s=2.51, method=method, path=path)
    assert outcomes(asked(), stray) == ALL_PASS | {"count.recognised": Outcome.FAIL}
    finding = ask(asked(), stray)["count.recognised"]
    assert (finding.measured, finding.detail, finding.n) == ("1 others", told, N + 1)


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/health"), ("HEAD", "/metrics"), ("POST", "/tokenize"), ("GET", "/v1/models?x=1"), ("GET", "/version")],
)
def test_known_side_traffic_is_neither_a_request_nor_a_stray(method: str, path: str) -> None:
    beside = with_extra(forged(), at_s=2.51, method=method, path=path)
    assert outcomes(asked(), beside) == ALL_PASS
    assert ask(asked(), beside)["count.recognised"].n == N + 1


def test_a_query_does_not_hide_a_generation() -> None:
    more = with_extra(forged(), at_s=2.51, path="/v1/completions?again=1")
    assert outcomes(asked(), more) == ALL_PASS | {"count.requests": Outcome.FAIL}


def test_an_arrival_after_the_end_of_the_tool_fails_and_one_at_the_end_does_not() -> None:
    assert outcomes(asked(), forged(), ended_s=LAST_S) == ALL_PASS
    late = outcomes(asked(), forged(), ended_s=LAST_S - 1e-9)
    assert late == ALL_PASS | {"count.after_end": Outcome.FAIL}


def test_a_read_that_we_made_late_is_not_a_request_after_the_end() -> None:
    def judged(late_s: float, *, kernel: bool) -> Outcome:
        late = journal(constant(N, 20), late_s=late_s, kernel=kernel)
        return outcomes(asked(), late, ended_s=LAST_S - 0.004)["count.after_end"]

    assert judged(0.0041, kernel=False) is Outcome.PASS
    assert judged(0.0039, kernel=False) is Outcome.FAIL
    assert judged(0.0041, kernel=True) is Outcome.FAIL


@pytest.mark.parametrize(("lag_s", "outcome"), [(0.0041, Outcome.PASS), (0.0039, Outcome.FAIL)])
def test_a_read_that_other_reads_show_to_be_late_is_not_a_request_after_the_end(lag_s: float, outcome: Outcome) -> None:
    """Nothing was due, so no write was late; the lag of the stamped requests is what is known of reads."""
    stamped = changed(journal(constant(N, 20), kernel=True), N - 1, arrival_kernel=False)
    arrival = stamped.table["arrival_ns"][7].as_py()
    lagging = changed(stamped, 7, read_ns=arrival + round(lag_s * 1e9))
    assert outcomes(asked(), lagging, ended_s=LAST_S - 0.004)["count.after_end"] is outcome


def test_a_stamped_request_after_the_end_is_late_whatever_the_other_stamps_are() -> None:
    """Half of the stamps fell back; each request is judged by its own."""
    late = journal(constant(N, 20), late_s=0.0041)
    for row in range(N // 2):
        late = changed(late, row, arrival_kernel=True)
    assert outcomes(asked(), late, ended_s=LAST_S - 0.004)["count.after_end"] is Outcome.PASS
    stamped = changed(late, N - 1, arrival_kernel=True)
    assert outcomes(asked(), stamped, ended_s=LAST_S - 0.004)["count.after_end"] is Outcome.FAIL


def test_the_stamps_of_leading_extras_are_trimmed_with_them() -> None:
    late = changed(journal(constant(N + 1, 20), late_s=0.0041), 0, arrival_kernel=True)
    found = ask(asked(leading_extra_requests=1), late, tool_ended_s=N / 20 - 0.004)
    assert (found["count.after_end"].outcome, found["count.after_end"].n) == (Outcome.PASS, N)


def test_without_a_known_end_nothing_is_said_of_it() -> None:
    assert "count.after_end" not in ask(asked(), forged())


def test_declared_leading_extras_are_trimmed_and_printed_and_do_not_count() -> None:
    found = ask(asked(leading_extra_requests=1), forged(N + 1))
    assert found["count.requests"].outcome is Outcome.PASS
    shown = found["count.leading_extras"]
    assert (shown.measured, shown.counted) == ("1 declared, trimmed", False)
    assert "count.leading_extras" not in ask(asked(), forged())


@pytest.mark.parametrize(("extras", "arrived"), [(0, N + 1), (1, N), (1, N + 2), (2, N + 1), (N + 9, N)])
def test_other_extras_than_declared_fail(extras: int, arrived: int) -> None:
    found = ask(asked(leading_extra_requests=extras), forged(arrived))
    assert found["count.requests"].outcome is Outcome.FAIL
    assert int(found["count.requests"].measured) == max(0, arrived - extras)


def test_a_body_of_an_extra_may_come_again() -> None:
    warm = changed(forged(N + 1), 0, digest=forged(N + 1).table["digest"][1].as_py())
    assert outcomes(asked(leading_extra_requests=1), warm) == ALL_PASS


def test_an_empty_journal_passes_nothing() -> None:
    empty = outcomes(asked(), journal([]))
    assert empty == dict.fromkeys(EXACT, Outcome.UNCLEAR) | {"count.requests": Outcome.FAIL}


def test_the_count_of_a_closed_loop_is_judged_too() -> None:
    loop = journal(closed_loop(80, 4))
    assert ask(closed_case(80, 4), loop)["count.requests"].outcome is Outcome.PASS
    assert ask(closed_case(81, 4), loop)["count.requests"].outcome is Outcome.FAIL
