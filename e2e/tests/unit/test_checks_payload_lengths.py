"""Where a case asks for lengths of each request, does one token more or less in one request fail?"""

from __future__ import annotations

import pytest

from loadproof.case import Case
from loadproof.verdict import Finding, Outcome
from tests.unit.forge import ask, case, constant, journal, with_columns

N = 60
FORGED = journal(constant(N, 20))
HALVES = {"counts": {"16": 30, "64": 30}}
BOUNDS = {"min": 10, "max": 20}
IN_THE_TEXT = "is BOS sent in the text, or not in what the tool counts"


def asked(**workload: object) -> Case:
    return case({"mode": "rate", "rate": 20}, workload={"num_requests": N, **workload}, arrival="constant")


def of_answers(lengths: object, sent: list[int | None]) -> Finding:
    return ask(asked(max_tokens=lengths), with_columns(FORGED, max_tokens=sent))["payload.max_tokens"]


def of_prompts(lengths: object, sent: list[int | None]) -> Finding:
    return ask(asked(prompt_tokens=lengths), with_columns(FORGED, bare_prompt_tokens=sent))["payload.prompt_tokens"]


def test_counted_lengths_come_in_any_order() -> None:
    for sent in ([16, 64] * 30, [64] * 30 + [16] * 30):
        found = of_answers(HALVES, list(sent))
        assert (found.outcome, found.expected, found.smallest_deviation) == (Outcome.PASS, "16 x 30, 64 x 30", "exact")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (
            [16] * 30 + [64] * 29 + [63],
            "64 came 29 times, asked 30 times; 63 came once (in the last request), asked never",
        ),
        ([16] * 29 + [64] * 31, "64 came 31 times, asked 30 times; 16 came 29 times, asked 30 times"),
        ([16] * 60, "16 came 60 times, asked 30 times; 64 came never, asked 30 times"),
        ([None] + [16] * 29 + [64] * 30, "no length came once (in the first request), asked never"),
    ],
)
def test_one_length_that_is_another_fails(sent: list[int | None], says: str) -> None:
    found = of_answers(HALVES, sent)
    assert found.outcome is Outcome.FAIL
    assert all(part in found.detail for part in says.split("; "))


def test_many_counted_lengths_are_told_by_their_number() -> None:
    many = {f"{length}": 10 for length in range(101, 107)}
    sent: list[int | None] = [length for length in range(101, 107) for _ in range(10)]
    assert (of_answers({"counts": many}, sent).outcome, of_answers({"counts": many}, sent).expected) == (
        Outcome.PASS,
        "6 lengths",
    )
    wrong = of_answers({"counts": many}, [*sent[:-5], *[99] * 5])
    assert (wrong.outcome, wrong.detail.count("asked")) == (Outcome.FAIL, 2)
    worse = of_answers({"counts": many}, [length and length + 50 for length in sent])
    assert worse.detail.endswith("and 9 other lengths")


@pytest.mark.parametrize("sent", [[10] * N, [20] * N, [*range(10, 20)] * 6])
def test_lengths_within_bounds_pass(sent: list[int | None]) -> None:
    assert of_answers(BOUNDS, sent).outcome is Outcome.PASS


@pytest.mark.parametrize("wrong", [9, 21, None])
@pytest.mark.parametrize("row", [0, 30, N - 1])
def test_one_length_beyond_a_bound_fails(wrong: int | None, row: int) -> None:
    sent: list[int | None] = [10] * (N - 1)
    sent.insert(row, wrong)
    found = of_answers(BOUNDS, sent)
    assert (found.outcome, found.expected) == (Outcome.FAIL, "10 to 20")
    assert found.detail.startswith("outside in the ")
    assert found.measured == {9: "9 to 10", 21: "10 to 21", None: "10 to 10, none x 1"}[wrong]


@pytest.mark.parametrize("bos", [0, 1, 2])
def test_bounds_and_counts_of_prompts_are_without_bos(bos: int) -> None:
    for lengths in ({"min": 5, "max": 6}, {"counts": {"5": 30, "6": 30}}):
        of = case({"mode": "rate", "rate": 20}, workload={"num_requests": N, "prompt_tokens": lengths},
                  arrival="constant", prompt_extra={"bos": bos})  # fmt: skip
        for off in (-1, 0, 1):
            sent = [5 - bos + off, 6 - bos + off] * 30
            found = ask(of, with_columns(FORGED, bare_prompt_tokens=sent))["payload.prompt_tokens"]
            assert found.outcome is (Outcome.FAIL if off else Outcome.PASS)


def test_a_length_that_nobody_knows_is_never_within_bounds() -> None:
    of = case({"mode": "rate", "rate": 20}, workload={"num_requests": N, "prompt_tokens": {"min": 1, "max": 9}},
              arrival="constant", prompt_extra={"bos": 2})  # fmt: skip
    found = ask(of, with_columns(FORGED, bare_prompt_tokens=[*[3] * (N - 1), None]))["payload.prompt_tokens"]
    assert (found.outcome, found.expected) == (Outcome.FAIL, "-1 to 7")


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ([128] * N, f"1 token too many in every request: {IN_THE_TEXT} (prompt_extra.bos)?"),
        ([126] * N, "1 token too few in every request: is BOS counted twice (prompt_extra.bos)?"),
        ([126] * (N - 1) + [127], f"1 token too few in the first {N - 1}"),
        ([127] * (N - 3) + [130] * 3, "3 tokens too many in the last 3"),
        ([127, 127, 128] * 20, "1 token too many in every 3rd request"),
        ([None, *[127] * (N - 1)], "missing in the first request"),
    ],
)
def test_what_is_wrong_with_the_prompts_is_said(sent: list[int | None], says: str) -> None:
    found = of_prompts(128, sent)
    assert (found.outcome, found.detail) == (Outcome.FAIL, says)
    assert of_prompts(128, [127] * N).detail == ""
