"""Does a field that changes the work, or that only some requests have, fail, and one that asks for nothing pass?"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from loadproof.case import Case
from loadproof.checks.work import CHANGES_WORK, OF_A_REQUEST, asks_nothing, changes_work, same
from loadproof.verdict import Finding, Outcome
from tests.unit.forge import ask, case, constant, journal, with_columns

N = 60
FORGED = journal(constant(N, 20))
USAGE = {"stream_options": {"include_usage": True}}
PASS, FAIL = Outcome.PASS, Outcome.FAIL


def asked(extra: dict[str, object] | None = None, **workload: object) -> Case:
    changes = {"num_requests": N, "extra_fields": extra, **workload}
    return case({"mode": "rate", "rate": 20}, workload=changes, arrival="constant")


def of(fields: Callable[[int], object], extra: dict[str, object] | None = None, **workload: object) -> Finding:
    sent = [json.dumps(fields(k), sort_keys=True) for k in range(N)]
    return ask(asked(extra, **workload), with_columns(FORGED, extra_fields=sent))["payload.fields"]


# --- where the case asks for none


@pytest.mark.parametrize(
    "fields",
    [
        {},
        USAGE,
        {"temperature": 0.7, "top_p": 1, "top_k": -1},
        {"n": 1, "best_of": 1.0, "echo": False, "stop": None, "stop_token_ids": [], "min_tokens": 0, "tools": []},
        {"logprobs": None, "top_logprobs": 0, "response_format": {"type": "text"}, "tool_choice": "auto"},
        {"guided_json": None, "presence_penalty": 0.0, "repetition_penalty": 1.0, "suffix": ""},
        {"a_field_that_nobody_knows": {"x": [1, 2]}},
    ],
)
def test_fields_that_all_requests_have_alike_and_that_ask_for_nothing_pass(fields: dict[str, object]) -> None:
    found = of(lambda _: fields)
    assert (found.outcome, found.smallest_deviation) == (PASS, "exact")
    assert all(f"{name} x {N}" in found.measured for name in list(fields)[:1])
    assert found.measured != "no other fields" or not fields


WORKING = [
    ("n", 2), ("best_of", 4), ("echo", True), ("min_tokens", 1), ("stop", ["."]), ("stop", "."), ("logprobs", 0),
    ("logprobs", True), ("top_logprobs", 5), ("prompt_logprobs", 0), ("response_format", {"type": "json_object"}),
    ("guided_regex", "a+"), ("structured_outputs", {"choice": ["a"]}), ("tools", [{"type": "function"}]),
    ("tool_choice", "required"), ("use_beam_search", True), ("suffix", "x"), ("truncate_prompt_tokens", 8),
    ("priority", 1), ("kv_transfer_params", {"do_remote_decode": True}), ("repetition_penalty", 1.1),
    ("length_penalty", 2), ("frequency_penalty", 0.5), ("logit_bias", {"5": 1}), ("cache_salt", "s"),
    ("add_special_tokens", False), ("bootstrap_host", "h"), ("some_xargs", {"a": 1}), ("n", True), ("min_tokens", "1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), WORKING, ids=[f"{name} {value}" for name, value in WORKING])
def test_a_field_that_changes_the_work_fails_in_one_request_and_in_all(name: str, value: object) -> None:
    everywhere = of(lambda _: USAGE | {name: value})
    assert everywhere.outcome is FAIL
    assert everywhere.detail == f"{name} is {json.dumps(value)} in every request, which changes the work"
    once = of(lambda k: USAGE | ({name: value} if k == 30 else {}))
    assert once.outcome is FAIL
    assert f"{name} is {json.dumps(value)} in the 31st of 60" in once.detail


@pytest.mark.parametrize(
    ("value", "api", "outcome"), [(True, "completions", PASS), (False, "chat", PASS), (True, "chat", FAIL)]
)
def test_what_is_neutral_goes_by_the_endpoint(value: bool, api: str, outcome: Outcome) -> None:
    """A prompt of completions has special tokens unless it is said, a chat's template has its own."""
    assert of(lambda _: {"add_special_tokens": value}, api=api).outcome is outcome


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            lambda k: {"temperature": 0.5} if k % 3 == 2 else {},
            "temperature (0.5) in every 3rd request and in no other",
        ),
        (lambda k: {"temperature": 0.5} if k < 5 else {}, "temperature (0.5) in the first 5 and in no other"),
        (lambda k: {} if k == 9 else {"seed": k}, "seed in 59 of 60, from the 1st to the 60th and in no other"),
        (lambda k: {"temperature": 0.7 if k % 3 == 2 else 1}, "temperature is 1 in most, 0.7 in every 3rd request"),
        (lambda k: {"temperature": k / N}, "temperature is 0 in the first request, 0.01666"),
        (lambda k: {"temperature": k % 2}, "temperature is 0 in every 2nd request, 1 in every 2nd request"),
        (lambda k: {"unknown": 0 if k < 57 else 1}, "unknown is 0 in most, 1 in the last 3"),
        (lambda k: {"n": None if k else 3}, "n is 3 in the first request, which changes the work"),
        (lambda k: {"x": 1} if k % 2 else {"y": 1}, "x (1) in every 2nd request and in no other; y (1) in every 2nd"),
    ],
)
def test_what_only_some_requests_have_fails_and_is_told(fields: Callable[[int], object], says: str) -> None:
    found = of(fields)
    assert found.outcome is FAIL
    assert says in found.detail


@pytest.mark.parametrize(
    "fields",
    [
        *(lambda k, name=name: {name: k % 7} for name in sorted(OF_A_REQUEST)),
        lambda k: {"id": f"request-{k}"},
        lambda k: {"temperature": 1 if k % 2 else 1.0},
        lambda k: {"n": 1 if k % 2 else None},
    ],
)
def test_a_name_of_each_request_and_the_same_in_other_words_pass(fields: Callable[[int], object]) -> None:
    assert of(fields).outcome is PASS


def test_more_wrong_fields_than_are_told_are_counted() -> None:
    found = of(lambda k: {f"f{place}": 1 for place in range(6)} if k else {})
    assert found.detail.endswith("; and 2 more")
    assert of(lambda k: {"min_tokens": k + 1}).detail.endswith("57 other values, which changes the work")


# --- where the case asks for some


@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ({}, {}),
        ({}, USAGE | {"n": 1, "stop": None, "unknown": None}),
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"temperature": 0.7}, {"temperature": 0.7} | USAGE),
        ({"n": 2}, {"n": 2}),
        ({"x": {"b": [1, None], "a": True}}, {"x": {"a": True, "b": [1.0, None]}}),
        ({"stop": None}, {"stop": None}),
        (USAGE, USAGE),
    ],
)
def test_exactly_the_asked_fields_pass(extra: dict[str, object], fields: dict[str, object]) -> None:
    found = of(lambda _: fields, extra)
    assert (found.outcome, found.measured) == (PASS, f"as asked x {N}")


@pytest.mark.parametrize(
    ("extra", "wrong", "says"),
    [
        ({"temperature": 0}, {"temperature": 0.7}, "temperature is 0.7 in"),
        ({"temperature": 0}, {}, "temperature is missing in"),
        ({"temperature": 0}, {"temperature": None}, "temperature is null in"),
        ({"temperature": 0}, {"temperature": 0, "top_p": 0.5}, "top_p is not asked, and is 0.5 in"),
        ({"temperature": 0}, {"temperature": 0, "seed": 5}, "seed is not asked, and is 5 in"),
        ({"x": 1}, {"x": True}, "x is true in"),
        ({"x": False}, {"x": 0}, "x is 0 in"),
        ({"x": [1, 2]}, {"x": [2, 1]}, "x is [2, 1] in"),
        ({"x": {"a": 1}}, {"x": {"a": 1, "b": None}}, 'x is {"a": 1, "b": null} in'),
        ({"n": 1}, {}, "n is missing in"),
        ({}, {"min_tokens": 1}, "min_tokens is not asked, and is 1 in"),
        (USAGE, {"stream_options": {"include_usage": False}}, 'stream_options is {"include_usage": false} in'),
    ],
)
@pytest.mark.parametrize("row", [0, N - 1])
def test_one_request_that_is_not_as_asked_fails(
    extra: dict[str, object], wrong: dict[str, object], says: str, row: int
) -> None:
    found = of(lambda k: wrong if k == row else extra, extra)
    assert (found.outcome, found.measured) == (FAIL, f"as asked x {N - 1}, not x 1")
    assert found.detail == f"{says} the {'last' if row else 'first'} request"


def test_names_that_do_not_fit_their_column_are_counted() -> None:
    names = {f"a_rather_long_name_{k}": 1 for k in range(3)}
    assert of(lambda _: names, dict(names)).expected == "3 fields"
    assert of(lambda _: {"b": 1, "a": 2}, {"b": 1, "a": 2}).expected == "a, b"


@pytest.mark.parametrize("text", ['{"x": Infinity}', '{"x": "\\ud800"}', '{"x": 1e999}'])
def test_what_the_fast_reader_refuses_is_read_all_the_same(text: str) -> None:
    forged = with_columns(FORGED, extra_fields=[text, *["{}"] * (N - 1)])
    assert ask(asked(), forged)["payload.fields"].detail.startswith("x (")
    assert ask(asked({}), forged)["payload.fields"].detail.startswith("x is not asked")


# --- the list itself


@pytest.mark.parametrize("name", CHANGES_WORK)
def test_every_field_of_the_list_has_a_neutral_value_and_one_that_is_work(name: str) -> None:
    assert asks_nothing(name, b"null", "chat")
    assert not changes_work(name, b"null", "chat")
    assert changes_work(name, b'"something"', "chat")
    assert not asks_nothing(name, b'"something"', "chat")


def test_a_field_that_is_not_in_the_list_is_no_work_and_yet_says_something() -> None:
    assert not changes_work("unknown", b"5", "chat")
    assert not asks_nothing("unknown", b"5", "chat")


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        (1, 1.0, True), (1, True, False), (0, False, False), (True, True, True), (None, None, True), (None, 0, False),
        ([1, [2]], [1.0, [2]], True), ([1], [1, 2], False), ({"a": 1}, {"a": 1.0}, True), ({"a": 1}, {"b": 1}, False),
        ([True], [1], False), ("1", 1, False), ({}, [], False),
    ],
)  # fmt: skip
def test_values_are_compared_as_json_means_them(one: object, other: object, equal: bool) -> None:
    assert same(one, other) is equal
    assert same(other, one) is equal
