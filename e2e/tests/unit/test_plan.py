"""Does a plan say how many tokens, when, and who ended it?"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from loadproof.absorber.draws import Stream, key_of, uniforms
from loadproof.absorber.plan import DEFAULT_MAX_TOKENS, GAPS_AT_ONCE, plan_reply
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


def test_a_constant_plan_is_made_once_and_no_digest_matters() -> None:
    profile = Profile(ttft_s=0.05, itl_s=0.01, output_tokens=8)
    asked: dict[str, Any] = {"max_tokens": 16, "min_tokens": 0, "ignore_eos": False}
    plan = plan_reply(profile, **asked)
    assert plan_reply(profile, **asked, digest=b"x" * 16, occurrence=3, choice=1) is plan
    assert plan_reply(profile, **{**asked, "ignore_eos": True}) != plan
    assert plan_reply(profile, **{**asked, "max_tokens": 7}) != plan
    assert plan_reply(profile, **{**asked, "min_tokens": 9}) != plan
    assert plan_reply(Profile(ttft_s=0.05, itl_s=0.01, output_tokens=9), **asked) != plan


@pytest.mark.parametrize("key", ["ttft_s", "itl_s", "output_tokens"])
def test_a_profile_that_draws_wants_a_digest(key: str) -> None:
    profile = Profile.model_validate({key: {"law": "gamma", "mean": 2, "shape": 1}})
    assert profile.draws
    with pytest.raises(ValueError, match="needs the digest"):
        plan_reply(profile, max_tokens=4, min_tokens=0, ignore_eos=False)


@pytest.mark.parametrize("constants", [{}, {"ttft_s": 0.1, "itl_s": 1, "output_tokens": 3}, {"precompiled": True}])
def test_constants_draw_nothing(constants: dict[str, object]) -> None:
    assert not Profile.model_validate(constants).draws


@pytest.mark.parametrize(("max_tokens", "min_tokens", "ignore_eos"), [(None, 0, False), (5, 0, True), (99, 50, True)])
def test_a_precompiled_reply_is_the_same_whatever_is_asked(
    max_tokens: int | None, min_tokens: int, *, ignore_eos: bool
) -> None:
    profile = Profile(precompiled=True, output_tokens=20)
    plan = plan_reply(profile, max_tokens=max_tokens, min_tokens=min_tokens, ignore_eos=ignore_eos)
    assert (plan.tokens, plan.finish_reason, plan.first_ns, plan.due_ns(19)) == (20, "stop", 0, 0)


TOKENS = st.integers(1, 1_000_000)
MEANS = st.floats(1e-9, 3600)
TIMES = st.one_of(
    st.fixed_dictionaries({"law": st.just("normal"), "mean": MEANS, "std": st.floats(0, 1e6, exclude_min=True)}),
    st.fixed_dictionaries({"law": st.just("lognormal"), "median": MEANS, "sigma": st.floats(0, 5, exclude_min=True)}),
    st.fixed_dictionaries({"law": st.just("gamma"), "mean": MEANS, "shape": st.floats(0.01, 1e6)}),
    st.fixed_dictionaries({"law": st.just("empirical"), "values": st.lists(st.floats(0, 3600), min_size=1)}),
)
LENGTHS = st.one_of(
    st.fixed_dictionaries({"law": st.just("normal"), "mean": TOKENS, "std": st.floats(0, 1e6, exclude_min=True)}),
    st.fixed_dictionaries({"law": st.just("lognormal"), "median": TOKENS, "sigma": st.floats(0, 5, exclude_min=True)}),
    st.fixed_dictionaries({"law": st.just("gamma"), "mean": TOKENS, "shape": st.floats(0.01, 1e6)}),
    st.fixed_dictionaries({"law": st.just("empirical"), "values": st.lists(TOKENS, min_size=1)}),
)


@SEEDED
@given(ttft=TIMES, itl=TIMES, digest=st.binary(min_size=16, max_size=16), occurrence=st.integers(0, 2**32 - 1),
       choice=st.integers(0, 127))  # fmt: skip
def test_drawn_times_only_go_up_within_bounds(
    ttft: dict[str, object], itl: dict[str, object], digest: bytes, occurrence: int, choice: int
) -> None:
    profile = Profile.model_validate({"ttft_s": ttft, "itl_s": itl})
    plan = plan_reply(profile, max_tokens=50, min_tokens=0, ignore_eos=True, digest=digest, occurrence=occurrence,
                      choice=choice)  # fmt: skip
    due = [plan.due_ns(i) for i in range(50)]
    assert all(type(ns) is int for ns in due)
    assert due[0] == plan.first_ns
    steps = [b - a for a, b in itertools.pairwise([0, *due])]
    assert min(steps) >= 0
    assert max(steps) <= 3600 * 10**9


@SEEDED
@given(
    law=LENGTHS, max_tokens=st.none() | TOKENS, low=st.integers(0, 1_000_000), ignore_eos=st.booleans(),
    digest=st.binary(min_size=16, max_size=16),
)  # fmt: skip
def test_no_drawn_length_breaks_a_limit(
    law: dict[str, object], max_tokens: int | None, low: int, *, ignore_eos: bool, digest: bytes
) -> None:
    min_tokens = min(low, max_tokens) if max_tokens else low
    profile = Profile.model_validate({"output_tokens": law})
    asked: dict[str, Any] = {"max_tokens": max_tokens, "min_tokens": min_tokens, "ignore_eos": ignore_eos}
    plan = plan_reply(profile, **asked, digest=digest)
    own = plan_reply(profile, max_tokens=None, min_tokens=0, ignore_eos=False, digest=digest)
    assert own.finish_reason == "stop"
    assert 1 <= own.tokens <= 1_000_000
    assert plan == plan_reply(Profile(output_tokens=own.tokens), **asked)


@pytest.mark.parametrize("tokens", [1, 2, GAPS_AT_ONCE, GAPS_AT_ONCE + 1, GAPS_AT_ONCE + 2, 3 * GAPS_AT_ONCE])
def test_due_times_are_the_sums_of_the_drawn_gaps(tokens: int) -> None:
    profile = Profile.model_validate({"ttft_s": 0.25, "itl_s": {"law": "gamma", "mean": 0.01, "shape": 3}, "seed": 4})
    digest = bytes(range(16))
    plan = plan_reply(profile, max_tokens=tokens, min_tokens=0, ignore_eos=True, digest=digest)
    key = key_of(4, digest, 0, 0)
    blocks = [uniforms(key, Stream.GAPS, GAPS_AT_ONCE, block) for block in range(3)]
    gaps = np.concatenate([stats.gamma.ppf(block, 3, scale=0.01 / 3) for block in blocks])[: tokens - 1]
    sums = 250_000_000 + np.cumsum([0, *np.rint(gaps * 1e9).astype(int)])
    got = [plan.due_ns(i) for i in range(tokens)]
    assert np.abs(sums - got).max() <= 5  # another way to the same quantile may round the other way, rarely
    with pytest.raises(IndexError, match=f"this reply has {tokens} tokens"):
        plan.due_ns(tokens)
    backwards = plan_reply(profile, max_tokens=tokens, min_tokens=0, ignore_eos=True, digest=digest)
    assert [backwards.due_ns(i) for i in reversed(range(tokens))] == got[::-1]


def test_a_very_long_reply_is_drawn_as_it_goes_on() -> None:
    profile = Profile.model_validate({"itl_s": {"law": "gamma", "mean": 0.01, "shape": 3}})
    plan = plan_reply(profile, max_tokens=1_000_000, min_tokens=0, ignore_eos=True, digest=b"d" * 16)
    assert plan.drawn is not None
    plan.due_ns(GAPS_AT_ONCE)
    assert len(plan.drawn._offsets) == GAPS_AT_ONCE + 1
    plan.due_ns(GAPS_AT_ONCE + 1)
    assert len(plan.drawn._offsets) == 2 * GAPS_AT_ONCE + 1
