"""Is the reference sender's schedule exactly the law that was asked, and the same for the same seed?"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from loadproof.arrival import Arrival
from loadproof.errors import UsageProblem
from loadproof.metronome.schedule import generator, offsets_s, stage_offsets_s
from loadproof.metronome.stage import Offsets, Stage

RATE = 40.0
SHAPES = {"fixed-span": 1.0, "fixed-span(2)": 2.0, "poisson": 1.0, "gamma(0.5)": 0.5, "gamma(4)": 4.0}


def offsets(arrival: str, *, count: int, rate: float = RATE, seed: int = 3, stage: int = 0) -> Offsets:
    return offsets_s(Arrival.parse(arrival), count=count, rate_per_s=rate, rng=generator(seed, stage))


def within(arrival: str, duration_s: float, *, rate: float = RATE, seed: int = 3) -> Offsets:
    return stage_offsets_s(
        Stage(rate_per_s=rate, duration_s=duration_s), Arrival.parse(arrival), generator(seed)
    )  # fmt: skip


def test_constant_is_k_over_rate_from_zero() -> None:
    assert offsets("constant", count=5, rate=4.0).tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("arrival", ["fixed-span", "fixed-span(0.3)"])
def test_fixed_span_ends_exactly_at_the_span(seed: int, arrival: str) -> None:
    times = offsets(arrival, count=601, seed=seed)
    assert times[-1] == 601 / RATE
    assert times[0] > 0


@pytest.mark.parametrize("arrival", ["constant", *SHAPES])
def test_offsets_ascend_and_are_as_many_as_asked(arrival: str) -> None:
    times = offsets(arrival, count=1000)
    assert times.shape == (1000,)
    assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("arrival", SHAPES)
def test_the_seed_and_the_stage_alone_decide(arrival: str) -> None:
    first, again = offsets(arrival, count=50, seed=7), offsets(arrival, count=50, seed=7)
    assert first.tolist() == again.tolist()
    assert first.tolist() != offsets(arrival, count=50, seed=8).tolist()
    assert first.tolist() != offsets(arrival, count=50, seed=7, stage=1).tolist()


@pytest.mark.parametrize("arrival", SHAPES)
def test_gaps_follow_their_gamma_law_and_neither_another_rate_nor_another_shape(arrival: str) -> None:
    gaps, shape = np.diff(offsets(arrival, count=20_000, seed=11)), SHAPES[arrival]
    assert stats.kstest(gaps, stats.gamma(shape, scale=1 / (shape * RATE)).cdf).pvalue > 1e-3
    assert stats.kstest(gaps, stats.gamma(shape, scale=1 / (0.9 * shape * RATE)).cdf).pvalue < 1e-6
    assert stats.kstest(gaps, stats.gamma(1.2 * shape, scale=1 / (1.2 * shape * RATE)).cdf).pvalue < 1e-6


@pytest.mark.parametrize("shape", [1.0, 0.5, 3.0])
def test_first_of_a_fixed_span_follows_its_beta_law(shape: float) -> None:
    count = 20
    firsts = [offsets(f"fixed-span({shape})", count=count, seed=s)[0] for s in range(3000)]
    shares = np.array(firsts) / (count / RATE)
    assert stats.kstest(shares, stats.beta(shape, shape * (count - 1)).cdf).pvalue > 1e-3
    assert stats.kstest(shares, stats.beta(2 * shape, shape * (count - 1)).cdf).pvalue < 1e-6


@pytest.mark.parametrize("shape", [1.0, 0.5, 4.0])
def test_last_follows_its_gamma_law_and_is_not_pinned(shape: float) -> None:
    count, arrival = 20, "poisson" if shape == 1 else f"gamma({shape})"
    lasts = [offsets(arrival, count=count, seed=s)[-1] for s in range(3000)]
    assert stats.kstest(lasts, stats.gamma(shape * count, scale=1 / (shape * RATE)).cdf).pvalue > 1e-3
    assert np.std(lasts) > 0.1 * np.mean(lasts)


# --- by duration ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "duration_s", "count"), [(40.0, 10.5, 420), (0.1, 30.0, 3), (3.0, 0.5, 2), (1.0, 0.5, 1), (2.5, 1.0, 3)]
)
def test_constant_for_a_duration_has_what_falls_before_its_end(rate: float, duration_s: float, count: int) -> None:
    times = within("constant", duration_s, rate=rate)
    assert times.tolist() == [k / rate for k in range(count)]
    assert times[-1] < duration_s <= count / rate * (1 + 1e-9)


@pytest.mark.parametrize(("duration_s", "count"), [(10.5, 420), (0.01, 1), (1.01, 40)])
def test_fixed_span_for_a_duration_ends_with_it(duration_s: float, count: int) -> None:
    times = within("fixed-span", duration_s)
    assert len(times) == count
    assert times[-1] == pytest.approx(duration_s, rel=1e-12)


@pytest.mark.parametrize("arrival", ["poisson", "gamma(0.5)", "gamma(4)"])
def test_random_gaps_for_a_duration_are_those_of_the_same_seed_up_to_its_end(arrival: str) -> None:
    times, endless = within(arrival, 10.0), offsets(arrival, count=len(within(arrival, 10.0)))
    assert times.tolist() == pytest.approx(endless.tolist())
    assert times[-1] < 10
    assert offsets(arrival, count=len(times) + 1)[-1] >= 10


def test_the_number_of_a_poisson_duration_is_poisson() -> None:
    counts = np.array([len(within("poisson", 0.5, seed=s)) for s in range(3000)])
    edges = np.arange(10, 32)
    expected = np.diff(stats.poisson(20).cdf(edges))
    seen = np.array([np.count_nonzero(counts == k) for k in edges[1:]])
    inside = stats.chisquare(seen, expected / expected.sum() * seen.sum())
    assert inside.pvalue > 1e-3
    assert abs(np.mean(counts) - 20) < 0.4


# --- stages ---------------------------------------------------------------------------------------------------------


def test_a_stage_is_read_from_one_argument() -> None:
    assert Stage.parse("rate=20,duration_s=5,gap_s=1") == Stage(rate_per_s=20.0, duration_s=5.0, gap_s=1.0)
    assert Stage.parse("concurrency=4, num_requests=60") == Stage(concurrency=4, num_requests=60)
    assert Stage.parse("rate=20,duration_s=5").about == 100
    assert Stage.parse("concurrency=4,duration_s=5").about is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no key ''; known are rate, concurrency"),
        ("rates=20,duration_s=5", "no key 'rates'; did you mean 'rate'?"),
        ("rate=20", "give either num_requests or duration_s"),
        ("rate=20,num_requests=5,duration_s=5", "give either num_requests or duration_s"),
        ("rate=20,concurrency=5,duration_s=5", "give either rate or concurrency"),
        ("rate=20,rate=21,duration_s=5", "a key stands there twice"),
        ("rate=nan,duration_s=5", "rate must be a number above 0, not 'nan'"),
        ("rate=0,duration_s=5", "rate must be a number above 0, not '0'"),
        ("rate=5,duration_s", "duration_s must be a number above 0, not ''"),
        ("concurrency=1.5,duration_s=5", "concurrency must be a whole number of at least 1, not '1.5'"),
        ("concurrency=0,duration_s=5", "concurrency must be a whole number of at least 1, not '0'"),
        ("rate=5,duration_s=5,gap_s=-1", "gap_s must be 0 or a number above 0, not '-1'"),
    ],
)
def test_what_is_no_stage_is_told(text: str, message: str) -> None:
    with pytest.raises(UsageProblem, match="--stage") as caught:
        Stage.parse(text)
    assert message in str(caught.value)
