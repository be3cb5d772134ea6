"""Does one wrong request of n fail the payload finding that it is about, and no other?"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from loadproof.case import Case
from loadproof.verdict import Outcome
from tests.unit.forge import MODEL, ask, case, changed, constant, journal, with_columns

N = 60
FIELDS = ("path", "model", "stream", "ignore_eos", "max_tokens", "prompt_tokens")
FORGED = journal(constant(N, 20))


def asked(workload: dict[str, object] | None = None, **declared: Any) -> Case:
    changes: dict[str, object] = {"num_requests": N} | (workload or {})
    return case({"mode": "rate", "rate": 20}, workload=changes, arrival="constant", **declared)


def failed(of: Case, cells: dict[str, object], row: int = 30) -> set[str]:
    found = ask(of, changed(FORGED, row, **cells))
    return {field for field in FIELDS if found[f"payload.{field}"].outcome is Outcome.FAIL}


def test_requests_as_asked_pass_every_finding() -> None:
    found = ask(asked(), FORGED)
    assert {found[f"payload.{field}"].outcome for field in FIELDS} == {Outcome.PASS}
    assert found["payload.prompt_tokens"].measured == "127 x 60"


@pytest.mark.parametrize("row", [0, 30, N - 1])
@pytest.mark.parametrize(
    ("field", "cells", "measured"),
    [
        ("path", {"path": "/v1/chat/completions"}, "/v1/completions x 59, /v1/chat/completions x 1"),
        ("model", {"model": "another"}, f"{MODEL} x 59, another x 1"),
        ("model", {"model": None}, f"{MODEL} x 59, none x 1"),
        ("stream", {"stream": False}, "true x 59, false x 1"),
        ("stream", {"stream": None}, "true x 59, false x 1"),
        ("ignore_eos", {"ignore_eos": False}, "true x 59, false x 1"),
        ("ignore_eos", {"ignore_eos": None}, "true x 59, false x 1"),
        ("max_tokens", {"max_tokens": 15}, "16 x 59, 15 x 1"),
        ("max_tokens", {"max_tokens": 17}, "16 x 59, 17 x 1"),
        ("max_tokens", {"max_tokens": None}, "16 x 59, none x 1"),
        ("prompt_tokens", {"bare_prompt_tokens": 126}, "127 x 59, 126 x 1"),
        ("prompt_tokens", {"bare_prompt_tokens": 128}, "127 x 59, 128 x 1"),
        ("prompt_tokens", {"bare_prompt_tokens": None}, "127 x 59, none x 1"),
    ],
)
def test_one_wrong_request_fails_its_own_finding_alone(
    field: str, cells: dict[str, object], measured: str, row: int
) -> None:
    assert failed(asked(), cells, row) == {field}
    found = ask(asked(), changed(FORGED, row, **cells))[f"payload.{field}"]
    # the order of equal counts is that of arrival
    assert (sorted(found.measured.split(", ")), found.n) == (sorted(measured.split(", ")), N)


def test_an_unreadable_body_fails_everything_that_a_body_says() -> None:
    nothing = dict.fromkeys(("model", "stream", "ignore_eos", "max_tokens", "bare_prompt_tokens"))
    assert failed(asked(), dict(nothing)) == set(FIELDS) - {"path"}


def test_false_is_what_a_missing_flag_means() -> None:
    off = asked({"stream": False, "ignore_eos": False})
    plain = FORGED
    for row in range(N):
        plain = changed(plain, row, stream=None if row % 2 else False, ignore_eos=None if row % 3 else False)
    found = ask(off, plain)
    assert {found["payload.stream"].outcome, found["payload.ignore_eos"].outcome} == {Outcome.PASS}
    assert ask(off, changed(plain, 7, stream=True))["payload.stream"].outcome is Outcome.FAIL
    assert ask(off, changed(plain, 7, ignore_eos=True))["payload.ignore_eos"].outcome is Outcome.FAIL


@pytest.mark.parametrize(("bos", "right"), [(0, 128), (1, 127), (2, 126)])
def test_prompt_tokens_follow_the_declared_convention(bos: int, right: int) -> None:
    declared = {"bos": bos, "template_tokens": 9}  # the template's tokens are only in `usage`
    of = asked({"prompt_tokens": 128}, prompt_extra=declared)
    found = ask(of, FORGED)["payload.prompt_tokens"]
    assert found.outcome is (Outcome.PASS if right == 127 else Outcome.FAIL)
    assert found.expected == f"{right} x {N}"
    assert found.requirement == f"bare text: prompt_tokens - {bos} BOS"


def test_chat_is_asked_at_its_own_path() -> None:
    found = ask(asked({"api": "chat"}), FORGED)["payload.path"]
    assert (found.outcome, found.expected) == (Outcome.FAIL, "/v1/chat/completions x 60")


def test_a_leading_extra_is_not_judged() -> None:
    odd: dict[str, object] = {"max_tokens": 1}
    assert failed(asked({"num_requests": N - 1}, leading_extra_requests=1), odd, row=0) == set()
    assert failed(asked({"num_requests": N - 1}, leading_extra_requests=1), odd, row=1) == {"max_tokens"}


def test_of_an_empty_journal_nothing_is_said() -> None:
    found = ask(asked(), journal([]))
    assert {found[f"payload.{field}"].outcome for field in FIELDS} == {Outcome.UNCLEAR}
    assert all("no request arrived" in found[f"payload.{field}"].detail for field in FIELDS)


@pytest.mark.parametrize("told", [{"level": "light"}, {"profile": {"precompiled": True}}], ids=["light", "precompiled"])
def test_prompts_that_nobody_counted_are_unclear_and_the_rest_is_judged(told: dict[str, object]) -> None:
    uncounted = changed(FORGED, 30, max_tokens=17, bare_prompt_tokens=None)
    found = ask(asked(), replace(uncounted, metadata=replace(uncounted.metadata, **told)))
    assert found["payload.prompt_tokens"].outcome is Outcome.UNCLEAR
    assert "level full" in found["payload.prompt_tokens"].detail
    assert found["payload.max_tokens"].outcome is Outcome.FAIL


@pytest.mark.parametrize(
    ("field", "cells", "says"),
    [
        ("path", {"path": "/v1/chat/completions"}, "/v1/chat/completions in the 31st of 60"),
        ("model", {"model": "another"}, "another in the 31st of 60"),
        ("model", {"model": None}, "missing in the 31st of 60"),
        ("stream", {"stream": False}, "false in the 31st of 60"),
        ("ignore_eos", {"ignore_eos": None}, "missing in the 31st of 60"),
        ("max_tokens", {"max_tokens": 15}, "1 token too few in the 31st of 60"),
        ("max_tokens", {"max_tokens": None}, "missing in the 31st of 60"),
        ("prompt_tokens", {"bare_prompt_tokens": 129}, "2 tokens too many in the 31st of 60"),
    ],
)
def test_which_request_is_wrong_and_how_is_said(field: str, cells: dict[str, object], says: str) -> None:
    assert ask(asked(), changed(FORGED, 30, **cells))[f"payload.{field}"].detail == says
    assert ask(asked(), FORGED)[f"payload.{field}"].detail == ""


def test_more_other_values_than_are_told_are_counted() -> None:
    many = with_columns(FORGED, model=[f"model-{k}" for k in range(N)])
    assert ask(asked(), many)["payload.model"].detail.endswith("model-2 in the 3rd of 60, 57 other values")


def test_a_long_name_is_cut_where_it_does_not_fit_its_column() -> None:
    model = "an-organisation/a-model-with-a-long-name"
    long = with_columns(FORGED, model=[model] * N)
    found = ask(asked(), replace(long, metadata=replace(long.metadata, model=model)))["payload.model"]
    assert (found.outcome, len(found.expected)) == (Outcome.PASS, 27)
    assert found.expected.endswith("...")
