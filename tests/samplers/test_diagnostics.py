"""Diagnostics on sequences whose autocorrelation is known.

Seeded; every tolerance exceeds the largest deviation that was seen over 200 other seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import lfilter

from sklearn_graphid.samplers import (
    bulk_sample_size,
    chain_standard_error,
    expected_changes,
    rank_r_hat,
    stuck_chains,
)


def autoregressive(n_chains, n_draws, correlation, seed=0):
    """AR(1) with unit variance, from its stationary law: the sum of all autocorrelations is (1 + r) / (1 - r)."""
    noise = np.random.default_rng(seed).normal(size=(n_chains, n_draws))
    noise[:, 1:] *= np.sqrt(1 - correlation**2)
    return lfilter([1.0], [1.0, -correlation], noise, axis=1)


@pytest.mark.parametrize("shape", [(4, 1000), (1, 5000), (200, 50)])
def test_white_noise_is_worth_its_length(shape):
    draws = np.random.default_rng(0).normal(size=shape)
    assert rank_r_hat(draws) == pytest.approx(1, abs=0.02)
    assert bulk_sample_size(draws) == pytest.approx(draws.size, rel=0.3)


@pytest.mark.parametrize("correlation", [0.3, 0.6, 0.9])
def test_autoregression_is_worth_its_autocorrelation_time_less(correlation):
    draws = autoregressive(20, 5000, correlation)
    expected = draws.size * (1 - correlation) / (1 + correlation)
    assert bulk_sample_size(draws) == pytest.approx(expected, rel=0.2)


def test_bulk_sample_size_predicts_the_spread_of_means():
    """What it is for: the variance of a mean is the variance of a draw over the effective sample size."""
    draws = autoregressive(500, 2000, 0.8)
    sizes = [bulk_sample_size(chain[None]) for chain in draws]
    # 500 means: their variance is known to 6 percent, three standard errors and the bias of the estimate make 25.
    assert draws.mean(axis=1).var() == pytest.approx(1 / np.mean(sizes), rel=0.25)


def test_antithetic_draws_are_worth_more_than_their_number_within_a_bound():
    draws = autoregressive(4, 1000, -0.9)
    size = bulk_sample_size(draws)
    assert draws.size < size <= draws.size * np.log10(draws.size) * (1 + 1e-12)


def test_scale_and_shift_do_not_matter():
    draws = autoregressive(4, 300, 0.5)
    moved = 1e-3 * draws + 7
    assert rank_r_hat(moved) == pytest.approx(rank_r_hat(draws), rel=1e-9)
    assert bulk_sample_size(moved) == pytest.approx(bulk_sample_size(draws), rel=1e-6)


def test_chains_at_different_places_are_told():
    draws = np.random.default_rng(0).normal(size=(4, 500)) + 3 * np.arange(4)[:, None]
    assert rank_r_hat(draws) > 2
    assert bulk_sample_size(draws) < 20


def test_odd_lengths_drop_the_middle_draw():
    draws = np.random.default_rng(0).normal(size=(3, 101))
    wild = draws.copy()
    wild[:, 50] = 1e9
    assert rank_r_hat(wild) == rank_r_hat(draws)


@pytest.mark.parametrize("n_draws", [4, 10, 13])
def test_stuck_chains_are_told(n_draws):
    """Chains that never move, each at its own place: as bad as can be."""
    draws = np.tile([[0.0], [1.0], [5.0]], n_draws)
    assert rank_r_hat(draws) == np.inf
    assert bulk_sample_size(draws) == 3  # one draw from each


@pytest.mark.parametrize("value", [0.0, 1.0, -3.5])
@pytest.mark.parametrize("n_draws", [4, 7, 10])
def test_constants_agree(value, n_draws):
    draws = np.full((3, n_draws), value)
    assert rank_r_hat(draws) == 1
    # An odd draw in the middle belongs to neither half.
    assert bulk_sample_size(draws) == n_draws // 2 * 2 * 3


@pytest.mark.parametrize("n_draws", [4, 10])
def test_constants_agree_whatever_their_binary_digits(n_draws):
    draws = np.full((3, n_draws), 0.1)
    assert rank_r_hat(draws) == pytest.approx(1)
    assert bulk_sample_size(draws) == pytest.approx(n_draws // 2 * 2 * 3)


def test_too_short_is_not_a_number():
    for statistic in (rank_r_hat, bulk_sample_size):
        assert np.isnan(statistic(np.zeros((4, 3))))
    assert np.isfinite(rank_r_hat(np.random.default_rng(0).normal(size=(4, 4))))


def test_one_chain_is_enough():
    draws = autoregressive(1, 4000, 0.5)
    assert rank_r_hat(draws) == pytest.approx(1, abs=0.02)
    assert bulk_sample_size(draws) == pytest.approx(4000 / 3, rel=0.4)


# Ranks


def test_ranks_forgive_heavy_tails_and_monotone_changes():
    draws = autoregressive(4, 400, 0.5)
    assert rank_r_hat(np.exp(20 * draws)) == pytest.approx(rank_r_hat(draws), abs=0.05)
    assert bulk_sample_size(np.exp(20 * draws)) == bulk_sample_size(draws)


def test_ranks_tell_chains_of_other_scales():
    """Four chains around one mean, one of them ten times as wide: only the distances from the median know."""
    draws = np.random.default_rng(0).normal(size=(4, 500)) * np.array([[1.0], [1.0], [1.0], [10.0]])
    assert rank_r_hat(draws) > 1.1


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("shape", [(2, 50), (4, 10), (4, 21), (16, 20), (3, 1000)])
def test_arviz_agrees(correlation, shape):
    arviz = pytest.importorskip("arviz")
    draws = autoregressive(*shape, correlation) + 0.3 * np.arange(shape[0])[:, None]
    assert rank_r_hat(draws) == pytest.approx(arviz.rhat(draws, method="rank"), rel=1e-9)
    assert bulk_sample_size(draws) == pytest.approx(arviz.ess(draws, method="bulk"), rel=1e-9)


# What another run would find


def test_standard_error_is_the_spread_of_averages_of_other_chains():
    """Chains that hardly move, 2,000 runs of 8: the error that each run reports is the spread between the runs."""
    runs = np.random.default_rng(0).beta(0.3, 0.6, size=(2000, 8))
    reported = [chain_standard_error(run) for run in runs]
    # Both sides are known to 2 percent.
    assert np.sqrt(np.mean(np.square(reported))) == pytest.approx(runs.mean(1).std(), rel=0.08)


def test_one_chain_has_no_standard_error():
    assert np.isnan(chain_standard_error(np.ones((1, 3)))).all()
    assert np.isnan(expected_changes(np.full(3, 0.5), np.full(3, np.nan)))


def test_expected_changes_are_those_between_two_runs():
    """200 pairs of any probability, each run off by its error: as many change sides as were expected."""
    rng = np.random.default_rng(0)
    truth, error = rng.random(200), rng.uniform(0, 0.2, 200)
    one, other = (truth + error * rng.normal(size=(500, 200)) for _ in range(2))
    seen = ((one > 0.5) != (other > 0.5)).sum(1).mean()
    expected = np.mean([expected_changes(run, error) for run in one])
    # Around 15 changes a run, 500 runs: two standard errors are 2 percent. The rest is that a run which happens to lie
    # far from one half underestimates its chance to change, and the other way round.
    assert expected == pytest.approx(seen, rel=0.1)


def test_certain_pairs_do_not_change():
    assert expected_changes(np.array([0.0, 0.5, 1.0]), np.zeros(3)) == 0
    assert expected_changes(np.array([0.5, 0.5]), np.array([0.1, 1e-9])) == 1  # even odds, as even as can be
    assert expected_changes(np.array([]), np.array([])) == 0


# Modes


def test_chains_far_below_the_best_are_stuck():
    draws = np.random.default_rng(0).normal(size=(5, 20))
    assert not stuck_chains(draws).any()
    np.testing.assert_array_equal(stuck_chains(draws - np.array([[0.0], [5], [50], [0], [1e6]])), [0, 0, 1, 0, 1])


def test_wandering_chains_are_given_room():
    draws = 20 * np.random.default_rng(0).normal(size=(2, 200)) - np.array([[0.0], [50.0]])
    assert not stuck_chains(draws).any()


def test_single_draws_tell_of_no_mode():
    assert not stuck_chains(np.array([[0.0], [-1e9]])).any()
