"""Are the formulas of the renewal process right: against the Poisson process, other formulas and drawn events?"""

from __future__ import annotations

import math

import numpy as np
import pytest

from loadproof.checks.stats_renewal import EXACT_UP_TO, count_variance, density_after, spectrum, window_share

SHAPES = [0.25, 0.5, 4.0, 16.0]


def drawn(shape: float, stretches: int, length: float, seed: int) -> list[np.ndarray]:
    """Independent stretches of a stationary process of mean gap 1: what comes after 50 mean gaps."""
    rng = np.random.default_rng(seed)
    gaps = rng.gamma(shape, 1 / shape, (stretches, int(50 + length + 12 * math.sqrt((50 + length) / shape) + 20)))
    times = gaps.cumsum(axis=1) - 50
    return [row[(row >= 0) & (row < length)] for row in times]


@pytest.mark.parametrize("mean", [0.1, 1.0, 20.0, 999.0, 1001.0])
def test_a_poisson_process_has_its_own_mean_as_variance(mean: float) -> None:
    assert count_variance(mean, 1.0) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_variance_goes_over_into_its_limit(shape: float) -> None:
    below, above = count_variance(EXACT_UP_TO - 1, shape), count_variance(EXACT_UP_TO + 1, shape)
    assert above - below == pytest.approx(2 / shape, rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mean", [1.0, 7.3])
def test_the_variance_of_drawn_counts(shape: float, mean: float) -> None:
    counts = np.array([len(one) for one in drawn(shape, 20_000, mean, 3)])
    assert counts.mean() == pytest.approx(mean, rel=0.02)
    assert counts.var() == pytest.approx(count_variance(mean, shape), rel=0.06)


def test_the_share_of_windows_of_a_poisson_process() -> None:
    assert window_share(0.3, 1.0) == pytest.approx(1 - math.exp(-0.3))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_share_of_drawn_windows(shape: float) -> None:
    hit = np.mean([len(one) > 0 for one in drawn(shape, 20_000, 0.4, 4)])
    assert hit == pytest.approx(window_share(0.4, shape), abs=0.015)


@pytest.mark.parametrize("after", [0.1, 1.0, 30.0, 2000.0])
def test_a_poisson_process_has_no_memory(after: float) -> None:
    assert density_after(after, 1.0) == pytest.approx(1.0)


def test_regular_gaps_come_again_after_a_gap() -> None:
    assert density_after(1.0, 16.0) > 1.5
    assert density_after(10.5, 16.0) == pytest.approx(1.0, abs=0.1)
    assert density_after(0.5, 16.0) < 0.5


def test_the_spectrum_of_a_poisson_process_is_flat() -> None:
    assert spectrum(np.array([0.001, 0.3, 1.0, 50.0]), 1.0) == pytest.approx(np.ones(4))


@pytest.mark.parametrize("shape", SHAPES)
def test_slow_cycles_show_one_over_the_shape(shape: float) -> None:
    assert spectrum(np.array([1e-4]), shape)[0] == pytest.approx(1 / shape, rel=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("cycles", [0.25, 1.0, 3.0])
def test_the_spectrum_of_drawn_events(shape: float, cycles: float) -> None:
    phases = [np.exp(2j * np.pi * cycles * one).sum() for one in drawn(shape, 3000, 100.0, 5)]
    # n R^2 with n = 100; its mean over 3,000 exponential draws has an error of 1.8 %
    assert np.mean(np.abs(phases) ** 2) / 100 == pytest.approx(spectrum(np.array([cycles]), shape)[0], rel=0.1)
