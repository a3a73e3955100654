"""Diagnostics on sequences whose autocorrelation is known.

Seeded; every tolerance exceeds the largest deviation that was seen over 200 other seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from sklearn_graphid.samplers import effective_sample_size, split_r_hat


def autoregressive(n_chains, n_draws, correlation, seed=0):
    """AR(1) with unit variance, from its stationary law: the sum of all autocorrelations is (1 + r) / (1 - r)."""
    noise = np.random.default_rng(seed).normal(size=(n_chains, n_draws))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)


@pytest.mark.parametrize("shape", [(4, 1000), (1, 5000), (200, 50)])
def test_white_noise_is_worth_its_length(shape):
    draws = np.random.default_rng(0).normal(size=shape)
    assert split_r_hat(draws) == pytest.approx(1, abs=0.02)
    assert effective_sample_size(draws) == pytest.approx(draws.size, rel=0.3)


@pytest.mark.parametrize("correlation", [0.3, 0.6, 0.9])
def test_autoregression_is_worth_its_autocorrelation_time_less(correlation):
    draws = autoregressive(20, 5000, correlation)
    expected = draws.size * (1 - correlation) / (1 + correlation)
    assert effective_sample_size(draws) == pytest.approx(expected, rel=0.2)


def test_effective_sample_size_predicts_the_spread_of_means():
    """What it is for: the variance of a mean is the variance of a draw over the effective sample size."""
    draws = autoregressive(500, 2000, 0.8)
    sizes = [effective_sample_size(chain[None]) for chain in draws]
    # 500 means: their variance is known to 6 percent, three standard errors and the bias of the estimate make 25.
    assert draws.mean(axis=1).var() == pytest.approx(1 / np.mean(sizes), rel=0.25)


def test_antithetic_draws_are_worth_more_than_their_number_within_a_bound():
    draws = autoregressive(4, 1000, -0.9)
    size = effective_sample_size(draws)
    assert draws.size < size <= draws.size * np.log10(draws.size) * (1 + 1e-12)


def test_scale_and_shift_do_not_matter():
    draws = autoregressive(4, 300, 0.5)
    moved = 1e-3 * draws + 7
    assert split_r_hat(moved) == pytest.approx(split_r_hat(draws), rel=1e-9)
    assert effective_sample_size(moved) == pytest.approx(effective_sample_size(draws), rel=1e-6)


def test_chains_at_different_places_are_told():
    draws = np.random.default_rng(0).normal(size=(4, 500)) + 3 * np.arange(4)[:, None]
    assert split_r_hat(draws) > 2
    assert effective_sample_size(draws) < 20


def test_r_hat_is_its_formula_for_shifted_chains():
    """Two chains of variance 1 whose means lie d apart: R-hat^2 tends to 1 + the variance of the four halves' means."""
    draws = np.random.default_rng(0).normal(size=(2, 20_000)) + np.array([[0.0], [2.0]])
    # The halves' means are 0, 0, 2, 2, whose variance is 4/3.
    assert split_r_hat(draws) == pytest.approx(np.sqrt(1 + 4 / 3), rel=0.02)


def test_drift_within_the_chains_is_told_by_the_split():
    draws = np.random.default_rng(0).normal(size=(4, 500)) + np.linspace(0, 3, 500)
    # Halves of variance 1 + 1.5^2 / 12 around 0.75 and 2.25.
    assert split_r_hat(draws) == pytest.approx(np.sqrt(1 + 0.75**2 * 8 / 7 / (1 + 1.5**2 / 12)), rel=0.05)


def test_odd_lengths_drop_the_middle_draw():
    draws = np.random.default_rng(0).normal(size=(3, 101))
    wild = draws.copy()
    wild[:, 50] = 1e9
    assert split_r_hat(wild) == split_r_hat(draws)


@pytest.mark.parametrize("n_draws", [4, 10, 13])
def test_stuck_chains_are_told(n_draws):
    """Chains that never move, each at its own place: as bad as can be."""
    draws = np.tile([[0.0], [1.0], [5.0]], n_draws)
    assert split_r_hat(draws) == np.inf
    assert effective_sample_size(draws) < 3


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
@pytest.mark.parametrize("n_draws", [4, 7, 10])
def test_constants_agree(value, n_draws):
    draws = np.full((3, n_draws), value)
    assert split_r_hat(draws) == 1
    assert effective_sample_size(draws) == draws.size


@pytest.mark.parametrize("n_draws", [4, 10])
def test_constants_agree_whatever_their_binary_digits(n_draws):
    draws = np.full((3, n_draws), 0.1)
    assert split_r_hat(draws) == pytest.approx(1)
    assert effective_sample_size(draws) == pytest.approx(draws.size)


def test_too_short_is_not_a_number():
    assert np.isnan(split_r_hat(np.zeros((4, 3))))
    assert np.isnan(effective_sample_size(np.zeros((4, 3))))
    assert np.isfinite(split_r_hat(np.random.default_rng(0).normal(size=(4, 4))))


def test_one_chain_is_enough():
    draws = autoregressive(1, 4000, 0.5)
    assert split_r_hat(draws) == pytest.approx(1, abs=0.02)
    assert effective_sample_size(draws) == pytest.approx(4000 / 3, rel=0.4)
