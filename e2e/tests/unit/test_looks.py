"""Does each kind of arrivals get its own words, and do honest senders get none but those of their law?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from loadproof.checks.looks import looks_like
from tests.unit import forge_times
from tests.unit.forge_times import Seconds

RATE, N = 20.0, 600
type Rng = np.random.Generator


def constant(_rng: Rng) -> Seconds:
    return forge_times.constant(N, RATE)


def poisson(rng: Rng) -> Seconds:
    return forge_times.poisson(N, RATE, rng)


def groups(size: int) -> Callable[[Rng], Seconds]:
    return lambda _rng: np.floor(np.arange(N) / size) * size / RATE


def twins(size: int) -> Callable[[Rng], Seconds]:
    """Several senders of one seed: each time comes so often."""
    return lambda rng: np.repeat(forge_times.poisson(N // size, RATE / size, rng), size)


def ticks(ms: int) -> Callable[[Rng], Seconds]:
    return lambda rng: np.ceil(poisson(rng) * 1000 / ms) * ms / 1000


def fitted_into_seconds(rng: Rng) -> Seconds:
    gaps = rng.exponential(1.0, (N // 20, 20))
    return (np.arange(N // 20)[:, None] + gaps.cumsum(axis=1) / gaps.sum(axis=1, keepdims=True)).reshape(-1)


def rushed(_rng: Rng) -> Seconds:
    return np.concatenate([np.linspace(0, 0.1, 60), 0.1 + forge_times.constant(N - 60, RATE)])


def paced(pace: Callable[[Seconds], np.ndarray]) -> Callable[[Rng], Seconds]:
    """Exponential gaps at a rate that depends on how many have come, as a share."""
    return lambda rng: np.asarray(np.cumsum(rng.exponential(1 / RATE, N) / pace(np.linspace(0, 1, N))), np.float64)


def two_rates(first: float, second: float) -> Seconds:
    return np.cumsum(1 / (RATE * np.where(np.arange(N) < N / 2, first, second)))


def silent(gap_s: float) -> Callable[[Rng], Seconds]:
    return lambda _rng: constant(_rng) + gap_s * (np.arange(N) >= 240)


def longer(by_s: float) -> Callable[[Rng], Seconds]:
    return lambda _rng: forge_times.constant(N, 1 / (1 / RATE + by_s))


def slower_each_time(by_s: float) -> Callable[[Rng], Seconds]:
    return lambda _rng: np.cumsum(1 / RATE + by_s * np.arange(N))


def even_in_drawn_seconds(rng: Rng) -> Seconds:
    return np.concatenate([k + np.arange(n) / max(1, n) for k, n in enumerate(rng.poisson(RATE, N // 20).tolist())])


def users(n: int, apart_s: float) -> Callable[[Rng], Seconds]:
    """Each of n users, who begin one after the other, sends every n / RATE seconds."""
    return lambda _rng: np.sort(np.add.outer(np.arange(n) * apart_s, np.arange(N // n) * n / RATE), axis=None)


def let_through(runs_s: float, period_s: float) -> Callable[[Rng], Seconds]:
    """What comes in the rest of each period waits for the next one."""

    def times(rng: Rng) -> Seconds:
        due = poisson(rng)
        return np.where(due % period_s < runs_s, due, np.ceil(due / period_s) * period_s)

    return times


def left_out(every: int) -> Callable[[Rng], Seconds]:
    return lambda _rng: forge_times.constant(N, RATE)[np.arange(N) % every != 0]


def polled(every_s: float) -> Callable[[Rng], Seconds]:
    """A client that looks at its schedule, then sleeps: each pause moves its ticks."""

    def times(rng: Rng) -> Seconds:
        slept = every_s + rng.uniform(1e-4, 3e-4, N) + (rng.random(N) < 0.3 * every_s) * rng.uniform(0.02, 0.1, N)
        looks = np.cumsum(slept)
        due = poisson(rng)
        due = due[due < looks[-1]]
        return np.asarray(looks[np.searchsorted(looks, due)])

    return times


def moving_average(rng: Rng) -> Seconds:
    noise = rng.normal(size=N + 3)
    return np.cumsum(np.exp(noise[:-3] + noise[1:-2] + noise[2:-1]) / RATE)


KINDS: list[tuple[Callable[[Rng], Seconds], str]] = [
    (groups(10), "arrivals come in groups of 10, one every 500.0 ms"),
    (groups(3), "arrivals come in groups of 3, one every 150.0 ms"),
    (twins(2), "arrivals come in groups of 2 (pairs)"),
    (twins(4), "arrivals come in groups of 4"),
    (ticks(10), "arrivals keep to ticks of 10 ms after each other: timers of 10 ms"),
    (ticks(100), "arrivals keep to ticks of 100 ms after each other: timers of 100 ms"),
    (ticks(130), "timers of 130 ms"),
    (lambda rng: np.ceil(poisson(rng) * 64) / 64, "timers of 15.6 ms"),
    (let_through(0.06, 0.1), " ms of every 100 ms"),
    (let_through(0.4, 1.0), " ms of every 1 s"),
    (users(50, 0.005), " ms of every 2.5 s"),
    (users(100, 0.005), " ms of every 5 s"),  # six times: too few to look for it but as a multiple
    (left_out(10), "arrivals keep to every 50 ms, the asked gap, but some are left out or late"),
    (even_in_drawn_seconds, "short gaps follow short ones"),
    (slower_each_time(1e-4), "slower and slower: 0.6"),
    (slower_each_time(1e-4), " ms at first, every 10"),
    (slower_each_time(5e-4), "0.46 times as fast in the second half, evenly spaced (every "),
    (lambda rng: two_rates(1.0, 2.0), "evenly spaced (every 50.0 ms at first, every 25.0 ms in the end)"),
    (fitted_into_seconds, "one of every 20 arrivals keeps to its place in the second, as where the last"),
    (rushed, "arrivals in the first 0.1 s: a burst at the start, evenly spaced"),
    (lambda rng: two_rates(1.0, 2.0), "twice as fast in the second half"),
    (lambda rng: two_rates(2.0, 1.0), "half as fast in the second half"),
    (paced(lambda share: np.where(share < 0.5, 0.7, 2.1)), " times as fast in the second half"),
    (paced(lambda share: 0.4 + 1.8 * share), "faster and faster: "),
    (paced(lambda share: 2.2 - 1.8 * share), "slower and slower: "),
    (silent(3.2), "nothing was sent for 3.25 s, from "),
    (lambda rng: poisson(rng) + 4.0 * (np.arange(N) >= 240) + 5.0 * (np.arange(N) >= 400), "(2 such silences)"),
    (lambda rng: poisson(rng) / 4, "4 times the asked rate: do 4 senders each send all of it?, gaps look exp"),
    (lambda rng: constant(rng) * 3, "1/3 of the asked rate: does one of 3 senders send?, evenly spaced (every 150"),
    (longer(0.001), "evenly spaced (every 51.0 ms), each gap 1.0 ms longer than asked, as from sleeps that begin"),
    (longer(-0.002), "evenly spaced (every 48.0 ms), each gap 2.0 ms shorter than asked"),
    (lambda _rng: np.cumsum(np.tile([0.4, 1.6], N // 2) / RATE), "long and short gaps alternate"),
    (lambda rng: np.cumsum(np.tile(rng.exponential(1 / RATE, 100), 6)), "the same gaps come again after every 100"),
    (moving_average, "short gaps follow short ones"),
    (lambda rng: forge_times.gamma(N, RATE, 4.0, rng), "gaps look like gamma of shape "),
    (lambda rng: forge_times.gamma(N, RATE, 0.5, rng), "gaps look like gamma of shape 0.5"),
]  # fmt: skip


def arrived(make: Callable[[Rng], Seconds], seed: int) -> Seconds:
    rng = np.random.default_rng(seed)
    times = forge_times.sent(make(rng), rng, pauses_per_s=0.05, late_first_s=0.02)
    return np.asarray(times - times[0])


@pytest.mark.parametrize(("make", "words"), KINDS, ids=[words for _, words in KINDS])
def test_each_kind_has_its_words(make: Callable[[Rng], Seconds], words: str) -> None:
    said = [looks_like(arrived(make, seed), RATE) for seed in range(5)]
    assert sum(words in one for one in said) >= 4, said


FALSE: list[tuple[Callable[[Rng], Seconds], tuple[str, ...]]] = [
    (slower_each_time(2e-5), ("gamma", "come again", "ticks")),
    (slower_each_time(5e-4), ("gamma", "come again", "ticks", "asked rate")),
    (even_in_drawn_seconds, ("gamma", "evenly", "ticks")),
    (users(50, 0.005), ("gamma", "ticks", "evenly")),
    (let_through(0.06, 0.1), ("gamma", "ticks")),
    (let_through(0.4, 1.0), ("gamma", "ticks")),
    (left_out(10), ("gamma", "timers", "evenly")),
    (polled(0.1), ("9 of 10", "evenly", "gamma")),
    (ticks(250), ("evenly", "gamma", "come again")),
    (moving_average, ("gamma", "ticks", "evenly", "come again")),
    (lambda rng: np.cumsum(np.tile(rng.exponential(1 / RATE, 20), 30)), ("ticks", "last arrival", "evenly", "gamma")),
]  # fmt: skip


@pytest.mark.parametrize(("make", "words"), FALSE, ids=[" ".join(words) + f" {at}" for at, (_, words) in
                                                        enumerate(FALSE)])  # fmt: skip
def test_nothing_false_is_said(make: Callable[[Rng], Seconds], words: tuple[str, ...]) -> None:
    said = [looks_like(arrived(make, seed), RATE) for seed in range(20)]
    assert [one for one in said if any(word in one for word in words)] == []


def test_all_at_once() -> None:
    assert looks_like(np.zeros(N), RATE) == "all 600 within 0 s"
    assert looks_like(np.linspace(0, 0.1, N), RATE) == "all 600 within 0.1 s"


def test_nothing_is_said_of_few() -> None:
    assert looks_like(forge_times.constant(19, RATE), RATE) == ""
    assert looks_like(forge_times.constant(20, RATE), RATE) == "evenly spaced (every 50.0 ms)"


HONEST: dict[str, tuple[Callable[[Rng], Seconds], set[str]]] = {
    "constant": (constant, {"evenly spaced (every 50.0 ms)"}),
    "poisson": (poisson, {"gaps look exponential"}),
    "fixed-span": (lambda rng: forge_times.fixed_span(N, RATE, rng), {"gaps look exponential"}),
    "gamma(0.25)": (lambda rng: forge_times.gamma(N, RATE, 0.25, rng),
                    {f"gaps look like gamma of shape {shape}" for shape in ("0.21", "0.25", "0.3", "0.35", "0.42")}),
    "gamma(16)": (lambda rng: forge_times.gamma(N, RATE, 16.0, rng),
                  {f"gaps look like gamma of shape {shape}" for shape in ("9.5", "11", "13", "16", "19", "23")}),
    "gamma(4)": (lambda rng: forge_times.gamma(N, RATE, 4.0, rng),
                 {f"gaps look like gamma of shape {shape}" for shape in ("2.4", "2.8", "3.4", "4", "4.8", "5.7")}),
}  # fmt: skip


@pytest.mark.parametrize("pauses_per_s", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("law", HONEST)
def test_an_honest_sender_looks_like_its_law(law: str, pauses_per_s: float) -> None:
    make, words = HONEST[law]
    for seed in range(30):
        rng = np.random.default_rng(seed)
        times = forge_times.sent(make(rng), rng, pauses_per_s=pauses_per_s)
        assert looks_like(times - times[0], RATE) in words | {""}, seed


def test_few_that_vary_much_are_no_multiple_of_the_rate() -> None:
    for seed in range(200):
        times = forge_times.gamma(60, RATE, 0.25, np.random.default_rng(seed))
        assert "asked rate" not in looks_like(times - times[0], RATE)


def test_gaps_come_again_after_all_of_them_not_after_some_that_resemble() -> None:
    for seed in range(60):
        rng = np.random.default_rng(seed)
        said = looks_like(np.cumsum(np.tile(rng.exponential(1 / RATE, 12), 50)), RATE)
        assert "come again" not in said or "come again after every 12 arrivals" in said


def test_held_back_equal_gaps_are_no_timer_of_the_gap() -> None:
    due = forge_times.constant(700, 70.0)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        times = forge_times.sent(np.where(due % 0.1 < 0.06, due, np.ceil(due / 0.1) * 0.1), rng)
        said = looks_like(times - times[0], 70.0)
        assert "ticks" not in said
        assert "after every 7 arrivals (" in said


@pytest.mark.parametrize("law", ["constant", "poisson"])
def test_honest_senders_are_not_left_without_words(law: str) -> None:
    make, words = HONEST[law]
    assert {looks_like(arrived(make, seed), RATE) for seed in range(10)} == words


def test_two_million_arrivals_get_words_too() -> None:
    times = forge_times.poisson(2_000_000, 5000.0, np.random.default_rng(1))
    assert looks_like(times - times[0], 5000.0) == "gaps look exponential"
