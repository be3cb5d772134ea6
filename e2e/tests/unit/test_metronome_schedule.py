"""Is the reference sender's schedule exactly the law that was asked, and the same for the same seed?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from loadproof.arrival import Law
from loadproof.errors import UsageProblem
from loadproof.metronome.asked import Asked
from loadproof.metronome.schedule import KNOWN_LAWS, offsets_s
from loadproof.metronome.wrong import WRONG_KINDS, go_wrong

RATE = 40.0
RANDOM_ARRIVALS = [Law.FIXED_SPAN, Law.POISSON]


def asked_rate(**changes: object) -> Asked:
    order: dict[str, object] = {
        "model": "m", "num_requests": 20, "prompt_tokens": 9, "max_tokens": 4, "rate_per_s": RATE,
    }  # fmt: skip
    return Asked(**(order | changes))  # type: ignore[arg-type]  # keywords of the caller's choice


def test_constant_is_k_over_rate_from_zero() -> None:
    assert offsets_s(Law.CONSTANT, count=5, rate_per_s=4.0, seed=1).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("seed", range(50))
def test_fixed_span_ends_exactly_at_the_span(seed: int) -> None:
    offsets = offsets_s(Law.FIXED_SPAN, count=601, rate_per_s=RATE, seed=seed)
    assert offsets[-1] == 601 / RATE
    assert offsets[0] > 0


@pytest.mark.parametrize("arrival", list(KNOWN_LAWS))
def test_offsets_ascend_and_are_as_many_as_asked(arrival: Law) -> None:
    offsets = offsets_s(arrival, count=1000, rate_per_s=RATE, seed=3)
    assert offsets.shape == (1000,)
    assert (np.diff(offsets) > 0).all()


@pytest.mark.parametrize("arrival", RANDOM_ARRIVALS)
def test_the_seed_alone_decides(arrival: Law) -> None:
    first, again, other = (offsets_s(arrival, count=50, rate_per_s=RATE, seed=seed) for seed in (7, 7, 8))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("arrival", RANDOM_ARRIVALS)
def test_gaps_are_exponential_and_a_wrong_rate_is_not(arrival: Law) -> None:
    gaps = np.diff(offsets_s(arrival, count=20_000, rate_per_s=RATE, seed=11))
    assert stats.kstest(gaps, stats.expon(scale=1 / RATE).cdf).pvalue > 1e-3
    assert stats.kstest(gaps, stats.expon(scale=1 / (0.9 * RATE)).cdf).pvalue < 1e-6


def test_first_of_a_fixed_span_follows_its_beta_law() -> None:
    count = 20
    firsts = [offsets_s(Law.FIXED_SPAN, count=count, rate_per_s=RATE, seed=s)[0] for s in range(3000)]
    shares = np.array(firsts) / (count / RATE)
    assert stats.kstest(shares, stats.beta(1, count - 1).cdf).pvalue > 1e-3
    assert stats.kstest(shares, stats.beta(2, count - 1).cdf).pvalue < 1e-6


def test_last_of_poisson_follows_its_gamma_law_and_is_not_pinned() -> None:
    count = 20
    lasts = [offsets_s(Law.POISSON, count=count, rate_per_s=RATE, seed=s)[-1] for s in range(3000)]
    assert stats.kstest(lasts, stats.gamma(count, scale=1 / RATE).cdf).pvalue > 1e-3
    assert np.std(lasts) > 0.1 * np.mean(lasts)


def test_ten_percent_slower_stretches_the_same_schedule() -> None:
    honest = asked_rate()
    slow = go_wrong(honest, ["rate-10%"])
    assert slow.rate_per_s == pytest.approx(0.9 * RATE)
    assert slow.sends == honest.sends


def test_duplicate_keeps_the_total_and_loses_its_neighbour() -> None:
    order = go_wrong(asked_rate(), ["duplicate"]).sends
    assert len(order) == 20
    assert [order.count(k) for k in (9, 10)] == [2, 0]


def test_kinds_add_up() -> None:
    both = go_wrong(asked_rate(), ["drop-last", "max-tokens-1"])
    assert (both.sends, both.max_tokens) == (tuple(range(19)), 3)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("concurrency+1", {}),
        ("concurrency-1", {}),
        ("concurrency-1", {"rate_per_s": None, "concurrency": 1}),
        ("rate-10%", {"rate_per_s": None, "concurrency": 2}),
        ("duplicate", {"num_requests": 1}),
        ("drop-last", {"num_requests": 1}),
        ("max-tokens-1", {"max_tokens": 1}),
        ("no-ignore-eos", {"ignore_eos": False}),
    ],
)
def test_a_kind_that_does_not_fit_is_refused(kind: str, changes: dict[str, object]) -> None:
    with pytest.raises(UsageProblem, match="--wrong") as caught:
        go_wrong(asked_rate(**changes), [kind])
    assert WRONG_KINDS[kind].needs in str(caught.value)
