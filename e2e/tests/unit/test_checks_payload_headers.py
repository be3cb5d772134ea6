"""Does a header that one request lacks, or has with another value, fail?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loadproof.absorber import head
from loadproof.case import Case
from loadproof.verdict import Finding, Outcome
from loadproof.workload import CREDENTIALS, is_credential
from tests.unit.forge import ask, case, constant, journal, with_columns, with_extra

N = 60
FORGED = journal(constant(N, 20))
NAMES = "host,content-type,content-length"
PASS, FAIL = Outcome.PASS, Outcome.FAIL
VALUE = {"x-team": "alpha"}


def asked(headers: dict[str, str] | None = None, n: int = N, **declared: Any) -> Case:
    return case({"mode": "rate", "rate": 20}, workload={"num_requests": n, "headers": headers}, arrival="constant",
                **declared)  # fmt: skip


def named(names: Callable[[int], str], headers: dict[str, str] | None = None) -> Finding:
    forged = with_columns(FORGED, header_names=[names(k) for k in range(N)])
    return ask(asked(headers), forged)["payload.headers"]


def sent(values: Callable[[int], str | None], headers: dict[str, str]) -> Finding:
    """Return the finding of requests with the header X-Team; None leaves it out."""
    told = [values(k) for k in range(N)]
    pairs = [[] if value is None else [{"name": "X-Team", "value": value}] for value in told]
    names = [NAMES if value is None else f"{NAMES},x-team" for value in told]
    return ask(asked(headers), with_columns(FORGED, headers=pairs, header_names=names))["payload.headers"]


@pytest.mark.parametrize(
    "names",
    [
        lambda _: NAMES,
        lambda k: NAMES if k % 2 else "content-length,host,content-type",
        lambda k: NAMES + (",expect" if k % 2 else ""),
        lambda _: NAMES + ",authorization,x-request-id",
    ],
)
def test_the_same_names_in_any_order_pass(names: Callable[[int], str]) -> None:
    found = named(names)
    assert (found.outcome, found.expected, found.smallest_deviation) == (PASS, "alike, with content-type", "exact")


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (lambda _: "host,content-length", "content-type is missing in every request"),
        (lambda k: NAMES if k < 57 else "host,content-length", "content-type is missing in the last 3"),
        (lambda k: NAMES + (",x-a" if k == 30 else ""), "x-a in the 31st of 60 and in no other"),
        (lambda k: NAMES + (",x-a" if k % 3 == 2 else ""), "x-a in every 3rd request and in no other"),
        (lambda k: "" if k == 0 else NAMES, "content-type is missing in the first request"),
    ],
)
def test_a_header_in_some_requests_only_fails(names: Callable[[int], str], says: str) -> None:
    found = named(names)
    assert found.outcome is FAIL
    assert says in found.detail


def test_an_asked_header_with_its_value_passes() -> None:
    found = sent(lambda _: "alpha", VALUE)
    assert (found.outcome, found.expected, found.n) == (PASS, "content-type, 1 asked", N)
    assert sent(lambda _: "alpha", {"X-TEAM": "alpha"}).outcome is PASS


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (lambda k: "alpha" if k else "beta", "x-team is 'beta' in the first request"),
        (lambda k: "alpha" if k % 2 else "Alpha", "x-team is 'Alpha' in every 2nd request"),
        (lambda k: "alpha" if k else None, "x-team is missing in the first request"),
        (lambda _: None, "x-team is missing in every request"),
        (lambda k: f"a{k}", "57 other values"),
        (lambda _: "x" * 100, "x-team is 'xxxxx"),
    ],
)
def test_an_asked_header_with_another_value_fails(values: Callable[[int], str | None], says: str) -> None:
    found = sent(values, VALUE)
    assert found.outcome is FAIL
    assert says in found.detail
    assert len(found.detail) < 200


def test_values_of_headers_that_nobody_asks_for_are_not_judged() -> None:
    assert sent(lambda k: f"a{k}", {}).outcome is PASS


def test_of_a_credential_only_its_presence_is_asked() -> None:
    asking = {"Authorization": "present"}
    assert named(lambda _: f"{NAMES},authorization", asking).outcome is PASS
    missing = named(lambda k: NAMES + (",authorization" if k else ""), asking)
    assert (missing.outcome, missing.detail) == (FAIL, "authorization is missing in the first request")


def test_the_value_of_the_right_request_is_judged() -> None:
    """What is no generation request, and a leading extra, have other headers."""
    right = [{"name": "x-team", "value": "alpha"}]
    names = [f"{NAMES},x-team"] * (N - 1)
    forged = with_columns(FORGED, headers=[[], *[right] * (N - 1)], header_names=[NAMES, *names])
    scraped = with_extra(forged, at_s=0.01, method="GET", path="/metrics", headers=[], header_names="host")
    trimmed = asked(VALUE, N - 1, leading_extra_requests=1)
    assert ask(trimmed, scraped)["payload.headers"].outcome is PASS
    assert ask(asked(VALUE), scraped)["payload.headers"].outcome is FAIL


def test_what_a_case_may_not_ask_for_is_what_the_absorber_blanks() -> None:
    assert set(CREDENTIALS) == {word.decode() for word in head._LOWER_WORDS}
    for word in CREDENTIALS:
        name = f"x-{word.upper()}-y"
        assert is_credential(name)
        assert head._blanked(f"GET / HTTP/1.1\r\n{name}: value\r\n".encode()).endswith(b"<blanked>\r\n")
    assert not is_credential("x-team")
