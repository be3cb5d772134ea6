"""Does a plan say how many tokens, when, and who ended it?"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from loadproof.absorber.plan import DEFAULT_MAX_TOKENS, plan_reply
from loadproof.absorber.profile import Profile

SEEDED = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("talks", "max_tokens", "min_tokens", "ignore_eos", "tokens", "reason"),
    [
        (None, 16, 0, False, 16, "length"),
        (None, None, 0, False, DEFAULT_MAX_TOKENS, "length"),
        (None, None, 40, False, 40, "length"),
        (8, 16, 0, False, 8, "stop"),
        (8, 16, 0, True, 16, "length"),
        (8, 16, 12, False, 12, "stop"),
        (8, 16, 16, False, 16, "length"),
        (8, 8, 0, False, 8, "length"),
        (8, 9, 0, False, 8, "stop"),
        (8, 7, 0, False, 7, "length"),
        (8, None, 0, False, 8, "stop"),
        (8, None, 12, False, 12, "stop"),
        (8, None, 0, True, 8, "length"),
        (1, 1, 0, False, 1, "length"),
    ],
)
def test_length_and_reason(
    *, talks: int | None, max_tokens: int | None, min_tokens: int, ignore_eos: bool, tokens: int, reason: str
) -> None:
    plan = plan_reply(Profile(output_tokens=talks), max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=ignore_eos)
    assert (plan.tokens, plan.finish_reason) == (tokens, reason)


@SEEDED
@given(
    talks=st.none() | st.integers(1, 100),
    max_tokens=st.none() | st.integers(1, 100),
    low=st.integers(0, 100),
    ignore_eos=st.booleans(),
)
def test_no_plan_breaks_a_limit(talks: int | None, max_tokens: int | None, low: int, *, ignore_eos: bool) -> None:
    min_tokens = min(low, max_tokens) if max_tokens else low
    plan = plan_reply(Profile(output_tokens=talks), max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=ignore_eos)
    assert max(1, min_tokens) <= plan.tokens
    assert max_tokens is None or plan.tokens <= max_tokens
    if ignore_eos and max_tokens:
        assert (plan.tokens, plan.finish_reason) == (max_tokens, "length")


def test_deadlines_are_absolute_and_do_not_add_up_rounding() -> None:
    plan = plan_reply(Profile(ttft_s=0.05, itl_s=1 / 3), max_tokens=10, min_tokens=0, ignore_eos=False)
    assert plan.due_ns(0) == plan.first_ns == 50_000_000
    assert plan.due_ns(9) == 50_000_000 + 9 * 333_333_333


def test_latency_is_the_time_of_the_last_token() -> None:
    profile = Profile(ttft_s=0.05, itl_s=0.01)
    plan = plan_reply(profile, max_tokens=5, min_tokens=0, ignore_eos=False)
    assert plan.due_ns(4) == round(profile.latency_s(5) * 1e9) == 90_000_000
    assert profile.latency_s(1) == profile.ttft_s


@pytest.mark.parametrize(
    "wrong",
    [
        {"ttft_s": -0.1},
        {"ttft_s": float("nan")},
        {"itl_s": float("inf")},
        {"itl_s": 3601},
        {"itl_s": "0.1"},
        {"output_tokens": 0},
        {"output_tokens": 1.5},
        {"seed": -1},
        {"ttft": 0.1},
    ],
)
def test_a_profile_is_read_strictly(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Profile.model_validate(wrong)
