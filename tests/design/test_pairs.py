"""What pairs have in common against laws of pairs that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_graphid.design import entropy_of, pair_information


def equal(n_chains):
    return np.full(n_chains, 1 / n_chains)


def test_a_pair_that_decides_others_tells_their_entropy_too():
    """Pairs 0, 1 and 2 are one coin, 3 is another one and 4 is certain."""
    rng = np.random.default_rng(0)
    coins = rng.integers(2, size=(40, 50, 2))
    graphs = np.stack([coins[..., 0], coins[..., 0], 1 - coins[..., 0], coins[..., 1], np.ones((40, 50))], axis=2)
    about_others = pair_information(graphs, equal(40))
    np.testing.assert_allclose(about_others, [2 * np.log(2)] * 3 + [0, 0], atol=0.01)


@pytest.mark.parametrize("n_chains", [1, 16])
def test_independent_pairs_have_nothing_in_common(n_chains):
    """Without the correction, 60 pairs of 160 draws would seem to share 59 / 320 nats each."""
    rng = np.random.default_rng(0)
    graphs = rng.integers(2, size=(n_chains, 160 // n_chains, 60))
    about_others = pair_information(graphs, equal(n_chains))
    assert about_others.mean() < 0.25 * 59 / 320


def test_chains_that_never_move_do_not_look_informative():
    """Sixteen chains whose pairs are drawn once are sixteen draws, however often they are repeated."""
    rng = np.random.default_rng(0)
    stuck = np.repeat(rng.integers(2, size=(16, 1, 60)), 10, axis=1)
    uncorrected = 59 / (2 * 16)
    assert pair_information(stuck, equal(16)).mean() < 0.5 * uncorrected


@pytest.mark.parametrize(("weight", "expected"), [([1.0, 0.0], np.log(2)), ([0.0, 1.0], 0.0)])
def test_chains_count_by_their_weight(weight, expected):
    """In one chain two pairs are the same coin, in the other one they are two coins."""
    coins = np.random.default_rng(0).integers(2, size=(2, 4_000, 2))
    coins[0, :, 1] = coins[0, :, 0]
    np.testing.assert_allclose(pair_information(coins, np.array(weight)), expected, atol=0.01)


def test_entropy_is_that_of_a_coin():
    np.testing.assert_allclose(entropy_of(np.array([0.0, 0.5, 1.0])), [0, np.log(2), 0], atol=1e-12)
    assert entropy_of(np.array([0.1]))[0] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))


def test_there_may_be_no_pairs():
    assert pair_information(np.zeros((4, 10, 0)), equal(4)).shape == (0,)
