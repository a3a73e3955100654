"""Weights of chains that do not travel between modes, against posteriors whose modes are known exactly."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sklearn_graphid.identifiers._chains import ChainDraws
from sklearn_graphid.samplers import modes_of, weights_of_chains

N_PAIRS, N_DRAWS = 8, 10
GRAPHS = np.array(list(itertools.product((0, 1), repeat=N_PAIRS)))


def two_modes(share):
    """Probabilities of all graphs: six pairs that are there in one mode and not in the other, and two that vary."""
    certain, varying = np.full(6, 0.999), np.array([0.1, 0.3])
    modes = np.concatenate([certain, varying]), np.concatenate([1 - certain, varying])
    first, second = (np.where(GRAPHS, mode, 1 - mode).prod(1) for mode in modes)
    return share * first + (1 - share) * second


def gibbs(law, start, rng):
    """Log-probability of the graph after each sweep of single flips, and the mean probability of every edge."""
    graph, numbers = np.array(start), 1 << np.arange(N_PAIRS)[::-1]
    log_law, edges = np.zeros(N_DRAWS), np.zeros(N_PAIRS)
    for draw in range(N_DRAWS):
        for pair in range(N_PAIRS):
            others = graph @ numbers - graph[pair] * numbers[pair]
            without, with_edge = law[others], law[others + numbers[pair]]
            probability = with_edge / (with_edge + without)
            graph[pair] = rng.random() < probability
            edges[pair] += probability / N_DRAWS
        log_law[draw] = np.log(law[graph @ numbers])
    return log_law, edges


@pytest.mark.parametrize("n_in_first", [4, 8, 12])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 0.99])
def test_modes_weighed_by_evidence_are_nearer_to_the_exact_marginals_than_equal_chains(share, n_in_first):
    law, rng = two_modes(share), np.random.default_rng(0)
    starts = [[1] * 6 + [0, 0]] * n_in_first + [[0] * 8] * (16 - n_in_first)
    log_law, edges = (np.array(part) for part in zip(*(gibbs(law, start, rng) for start in starts), strict=True))
    weights = weights_of_chains(log_law, edges)
    assert weights.sum() == pytest.approx(1)
    assert len(np.unique(modes_of(edges, N_DRAWS))) == 2
    exact = law @ GRAPHS
    weighed, equal = np.abs(weights @ edges - exact), np.abs(edges.mean(0) - exact)
    if n_in_first == round(16 * share):
        assert weighed.mean() < 0.1  # by luck, as many chains as there should be
    else:
        assert weighed.mean() < equal.mean()


def test_difference_in_evidence_that_may_be_noise_leaves_chains_equal():
    """Two modes of eight chains, one nat apart, while a chain's own draws are twenty apart."""
    edges = np.repeat([[0.0, 1.0], [1.0, 0.0]], 8, axis=0)
    rng = np.random.default_rng(0)
    log_law = rng.normal(0, 20, (16, 10))
    log_law -= log_law.mean(1, keepdims=True)
    log_law[:8] += 1
    np.testing.assert_allclose(weights_of_chains(log_law, edges), 1 / 16)


def test_chains_of_one_mode_count_alike():
    """Whatever their log-posteriors are: a chain in between connects those that contradict one another."""
    edges = np.array([[0.999, 0.0], [0.5, 0.0], [0.001, 0.0]])
    assert len(np.unique(modes_of(edges[[0, 2]], N_DRAWS))) == 2
    assert len(np.unique(modes_of(edges, N_DRAWS))) == 1
    log_law = np.random.default_rng(0).normal(size=(3, N_DRAWS)) + np.array([[0.0], [-5.0], [5.0]])
    np.testing.assert_array_equal(weights_of_chains(log_law, edges), np.full(3, 1 / 3))


def test_chains_of_a_few_draws_are_not_told_apart():
    edges = np.array([[1.0], [0.0]])
    np.testing.assert_array_equal(weights_of_chains(np.array([[0.0], [-100.0]]), edges), [0.5, 0.5])


def test_pooled_draws_have_the_weighted_law():
    """Shares of the copies are the weights, to within one copy; of equal chains each draw is there once."""
    values = np.arange(40.0).reshape(4, 10)
    blank = dict.fromkeys(ChainDraws._fields)
    weight = np.array([0.0, 0.125, 0.25, 0.625])
    pooled = ChainDraws(**{**blank, "weight": weight}).pooled(values)
    shares = [np.isin(pooled, chain).mean() for chain in values]
    np.testing.assert_allclose(shares, weight, atol=1 / 40)
    equal = ChainDraws(**{**blank, "weight": np.full(4, 0.25)}).pooled(values)
    np.testing.assert_array_equal(equal, values.ravel())


def test_weighted_means_stay_between_what_they_are_means_of():
    """Weights add up to one but for rounding; metrics refuse a probability above one."""
    weight = np.full(10, 0.1) * (1 + 4e-16)
    blank = dict.fromkeys(ChainDraws._fields)
    assert weight.sum() > 1
    assert ChainDraws(**{**blank, "weight": weight}).mean_of_chains(np.ones((10, 3))).max() == 1
