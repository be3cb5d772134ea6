"""Does one prompt or one beginning too many fail, and is what a server's cache would find always shown?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from loadproof.case import Case
from loadproof.journal import Journal
from loadproof.verdict import Finding, Outcome
from tests.unit.forge import ask, case, changed, constant, digests, journal, with_columns

N = 60
FORGED = journal(constant(N, 20))


def asked(extras: int = 0, **workload: Any) -> Case:
    changes = {"num_requests": N - extras, "unique_prompts": False, **workload}
    return case({"mode": "rate", "rate": 20}, workload=changes, arrival="constant", leading_extra_requests=extras)


def of(numbers: list[int], **workload: Any) -> Finding:
    repeating = with_columns(FORGED, prompt_digest=digests(np.array(numbers, np.uint64)))
    return ask(asked(**workload), repeating)["payload.prompts"]


TEN = [1 + k % 10 for k in range(N)]


def test_as_many_prompts_as_asked_pass_in_any_order() -> None:
    for numbers in (TEN, sorted(TEN), [*[1] * 51, *range(2, 11)]):
        found = of(numbers, distinct_prompts=10)
        assert (found.outcome, found.expected, found.measured) == (Outcome.PASS, "10 different", "10 different")


@pytest.mark.parametrize(
    ("numbers", "different", "says"),
    [
        ([*TEN[:-1], 11], 11, "the commonest came 6 times of 60"),
        ([1 + k % 9 for k in range(N)], 9, "the commonest came 7 times of 60"),
        ([*range(1, N + 1)], N, "each came once"),
        ([1] * N, 1, "each came 60 times"),
    ],
)
def test_one_prompt_more_or_less_fails(numbers: list[int], different: int, says: str) -> None:
    found = of(numbers, distinct_prompts=10)
    assert (found.outcome, found.measured, found.detail) == (Outcome.FAIL, f"{different} different", says)


def test_a_body_without_a_prompt_is_not_one_prompt_more() -> None:
    found = ask(asked(distinct_prompts=N - 1), changed(FORGED, 30, prompt_digest=None))["payload.prompts"]
    assert (found.outcome, found.measured) == (Outcome.FAIL, f"{N - 1} different")
    assert found.detail.startswith("no prompt in the 31st of 60")


def test_nobody_asks_for_a_number_of_prompts_unless_the_case_does() -> None:
    assert "payload.prompts" not in ask(asked(), FORGED)


# --- beginnings


def beginning(prefixes: list[list[int]]) -> Journal:
    return with_columns(FORGED, prefix_digests=prefixes)


OWN = [[8 * k, 8 * k + 1, 8 * k + 2] for k in range(N)]
IN_TWO = beginning([[k % 2, 10 + k % 2, 100 + k] for k in range(N)])


@pytest.mark.parametrize(
    ("forged", "measured", "says"),
    [
        (beginning(OWN), "none repeated", ""),
        (beginning([[7, 8, 100 + k] for k in range(N)]), "59 repeated, up to 96 bytes",
         "every prompt begins with the same 96 bytes"),
        (beginning([[7, 8 + k, 100 + k] for k in range(N)]), "59 repeated, up to 64 bytes",
         "every prompt begins with the same 64 bytes"),
        (beginning([[7, 8 + k // 30, 100 + k] for k in range(N)]), "59 repeated, up to 96 bytes",
         "every prompt begins with the same 64 bytes"),
        (IN_TWO, "58 repeated, up to 96 bytes",
         "58 of 60 prompts begin with 64 bytes or more of an earlier one, in 2 groups"),
        (beginning([[7, 8], [7, 9], *OWN[2:]]), "1 repeated, up to 64 bytes",
         "1 of 60 prompts begin with 64 bytes or more of an earlier one, in 1 group"),
        (beginning([[]] * 30 + [[7]] * 30), "29 repeated, up to 64 bytes",
         "29 of 60 prompts begin with 64 bytes or more of an earlier one, in 1 group"),
    ],
)  # fmt: skip
def test_what_repeats_is_always_shown_and_counts_for_nothing(forged: Journal, measured: str, says: str) -> None:
    found = ask(asked(), forged)["payload.prefixes"]
    assert (found.outcome, found.counted) == (Outcome.PASS, False)
    assert (found.measured, found.detail, found.expected) == (measured, says, "not asked")


def test_whole_prompts_that_come_again_are_told_from_beginnings() -> None:
    twice = changed(changed(FORGED, 5, prefix_digests=[1, 2, 3]), 40, prefix_digests=[1, 2, 3])
    same = changed(twice, 40, prompt_digest=twice.table["prompt_digest"][5].as_py())
    assert ask(asked(), twice)["payload.prefixes"].detail.endswith("in 1 group")
    assert ask(asked(), same)["payload.prefixes"].detail.endswith("in 1 group; 1 are whole prompts again")


def test_what_only_a_leading_extra_has_is_not_said_of_all() -> None:
    """The first of the load shares 64 bytes with the extra, whose 96 a later one shares: not all have the same 96."""
    forged = beginning([[7, 8, 1], [7, 9, 2], *([7, 8 + k % 2, 100 + k] for k in range(N - 2))])
    assert ask(asked(extras=1), forged)["payload.prefixes"].detail == "every prompt begins with the same 64 bytes"


@pytest.mark.parametrize(("number", "outcome"), [(1, Outcome.FAIL), (2, Outcome.PASS), (3, Outcome.FAIL)])
def test_as_many_beginnings_as_asked(number: int, outcome: Outcome) -> None:
    found = ask(asked(distinct_prefixes=number), IN_TWO)["payload.prefixes"]
    assert (found.outcome, found.counted, found.measured) == (outcome, True, "2 different")
    assert (found.expected, found.smallest_deviation) == (f"{number} different", "exact")


def test_own_beginnings_are_asked_by_their_number() -> None:
    assert ask(asked(distinct_prefixes=N), beginning(OWN))["payload.prefixes"].outcome is Outcome.PASS
    one_again = beginning([*OWN[:-1], [OWN[0][0], 1, 2]])
    assert ask(asked(distinct_prefixes=N), one_again)["payload.prefixes"].outcome is Outcome.FAIL


def test_prompts_too_short_to_compare_are_unclear_and_never_an_excuse() -> None:
    short = beginning([[]] * 4 + [[7]] * 56)
    found = ask(asked(distinct_prefixes=1), short)["payload.prefixes"]
    assert (found.outcome, found.n) == (Outcome.UNCLEAR, N)
    assert found.detail.startswith("4 prompts are shorter than 64 bytes")
    assert "longer prompts" in found.detail
    many = beginning([[]] * 4 + [[k] for k in range(56)])
    assert ask(asked(distinct_prefixes=1), many)["payload.prefixes"].outcome is Outcome.FAIL
    without = changed(short, 0, prompt_digest=None)
    assert ask(asked(distinct_prefixes=1), without)["payload.prefixes"].outcome is Outcome.FAIL


@pytest.mark.parametrize("workload", [{}, {"distinct_prefixes": 1}])
def test_of_an_empty_journal_nothing_is_said(workload: dict[str, Any]) -> None:
    found = ask(asked(distinct_prompts=1, **workload), journal([]))
    assert found["payload.prefixes"].outcome is not Outcome.PASS
    assert found["payload.prompts"].outcome is Outcome.FAIL
