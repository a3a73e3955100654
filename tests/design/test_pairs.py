"""What pairs have in common against laws of pairs that are known."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_graphid.design import pair_information


def equal(n_chains):
    return np.full(n_chains, 1 / n_chains)


def test_a_pair_that_decides_others_tells_their_entropy_too():
    """Pairs 0, 1 and 2 are one coin, 3 is another one and 4 is certain."""
    rng = np.random.default_rng(0)
    coins = rng.integers(2, size=(40, 50, 2))
    graphs = np.stack([coins[..., 0], coins[..., 0], 1 - coins[..., 0], coins[..., 1], np.ones((40, 50))], axis=2)
    entropy, about_others = pair_information(graphs, equal(40))
    np.testing.assert_allclose(entropy, [np.log(2)] * 4 + [0], atol=0.01)
    np.testing.assert_allclose(about_others, [2 * np.log(2)] * 3 + [0, 0], atol=0.01)


@pytest.mark.parametrize("n_chains", [1, 16])
def test_independent_pairs_have_nothing_in_common(n_chains):
    """Without the correction, 60 pairs of 160 draws would seem to share 59 / 320 nats each."""
    rng = np.random.default_rng(0)
    graphs = rng.integers(2, size=(n_chains, 160 // n_chains, 60))
    about_others = pair_information(graphs, equal(n_chains)).about_others
    assert about_others.mean() < 0.25 * 59 / 320


def test_chains_that_never_move_do_not_look_informative():
    """Sixteen chains whose pairs are drawn once are sixteen draws, however often they are repeated."""
    rng = np.random.default_rng(0)
    stuck = np.repeat(rng.integers(2, size=(16, 1, 60)), 10, axis=1)
    uncorrected = 59 / (2 * 16)
    assert pair_information(stuck, equal(16)).about_others.mean() < 0.5 * uncorrected


def test_chains_count_by_their_weight():
    graphs = np.zeros((2, 10, 1))
    graphs[1] = 1
    entropy = pair_information(graphs, np.array([0.9, 0.1])).entropy
    assert entropy[0] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))


def test_there_may_be_no_pairs():
    entropy, about_others = pair_information(np.zeros((4, 10, 0)), equal(4))
    assert entropy.shape == about_others.shape == (0,)
