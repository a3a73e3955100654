"""Trust in a prior, by what it says of known pairs that are hidden from it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from enumerated_prior import EnumeratedPrior, clustered
from scipy.special import log_expit, logit, softmax

from sklearn_graphid import KnownEdges, StochasticBlockPrior, load_prior
from sklearn_graphid.datasets import hide_edges, make_grid_graphs
from sklearn_graphid.priors._surprise import hidden_folds
from sklearn_graphid.priors._trust import known_density, trust_from_known

CPU = torch.device("cpu")
DEGREES = np.linspace(0, 1, 11)
BEFOREHAND = np.array([0.02] * 10 + [0.8])


def trust_in(prior, known):
    trust = trust_from_known(prior, known, CPU)
    np.testing.assert_array_equal(trust.values, DEGREES)
    return np.exp(trust.log_probability)


def test_nothing_known_leaves_trust_as_it_was_beforehand():
    prior = EnumeratedPrior(5, clustered)
    np.testing.assert_allclose(trust_in(prior, KnownEdges.nothing(5)), BEFOREHAND)
    assert trust_from_known(prior, KnownEdges.nothing(5), CPU).mean == pytest.approx(0.8 + 0.2 * 0.45)


@pytest.mark.parametrize("directed", [False, True])
def test_independent_pairs_are_judged_by_their_likelihood(directed):
    """Of independent pairs no fold says anything about another, and the product over pairs is the likelihood."""
    labels, rng = np.repeat([0, 1, 2], 3), np.random.default_rng(0)
    probabilities = np.array([[0.8, 0.1, 0.3], [0.1, 0.6, 0.05], [0.3, 0.05, 0.9]])
    if directed:
        probabilities[0, 2] = 0.7
    drawn = (rng.random((9, 9)) < 0.3).astype(float)
    drawn = drawn if directed else np.triu(drawn, 1) + np.triu(drawn, 1).T
    np.fill_diagonal(drawn, 0)
    known = hide_edges(drawn, 0.3, directed=directed, random_state=0)
    prior = StochasticBlockPrior(labels, probabilities, directed=directed)
    pairs = known.known_pairs()
    values, log_odds = pairs.gather(drawn), logit(pairs.gather(probabilities[labels][:, labels]))
    density = logit((values.sum() + 1) / (len(values) + 2))
    likelihood = log_expit((2 * values - 1) * (density + DEGREES[:, None] * (log_odds - density))).sum(1)
    np.testing.assert_allclose(trust_in(prior, known), softmax(np.log(BEFOREHAND) + likelihood), rtol=1e-3, atol=1e-7)


def test_pairs_that_hang_together_are_judged_by_what_other_folds_say():
    """Against the sum over all graphs on five nodes that agree with what is told."""
    prior = EnumeratedPrior(5, clustered)
    known = hide_edges(nx.to_numpy_array(nx.barbell_graph(3, 0).subgraph(range(5))), 0.3, random_state=0)
    graphs, log_weights = prior.table()
    density, log_likelihood = logit(known_density(known)), np.zeros(11)
    for fold in hidden_folds(5, directed=False).numpy() > 0:
        told = known.mask & ~fold & ~np.eye(5, dtype=bool)
        agrees = (graphs == known.values)[:, told].all(1)
        expected = np.tensordot(softmax(log_weights[agrees]), graphs[agrees], 1)
        for i, j in zip(*np.nonzero(np.triu(known.mask & fold, 1)), strict=True):
            log_odds = density + DEGREES * (logit(expected[i, j]) - density)
            log_likelihood += log_expit(log_odds if known.values[i, j] else -log_odds)
    found = trust_in(prior, known)
    np.testing.assert_allclose(found, softmax(np.log(BEFOREHAND) + log_likelihood), rtol=1e-3)
    assert np.abs(found - BEFOREHAND).max() > 0.05  # something was learned


def test_trust_is_high_for_graphs_of_the_prior_s_kind_and_low_for_others():
    """Over 40 unseen grids, of which three quarters are known, and as many random graphs as dense.

    Of 400 other grids none had a mean trust below one half (the lowest .63, the median .99), and of 100 random graphs
    none had one above .35. If one grid in 130 were below, the most that 400 without any leave likely, three or more of
    40 would be one false alarm in 250.
    """
    prior = load_prior("grids").estimator
    means = {"grids": [], "random": []}
    for seed, grid in enumerate(make_grid_graphs(40, random_state=20)):
        n_edges = int(grid.sum()) // 2
        other = nx.to_numpy_array(nx.gnm_random_graph(len(grid), n_edges, seed=seed))
        for name, graph in (("grids", grid), ("random", other)):
            known = hide_edges(graph, 0.25, random_state=seed)
            means[name].append(trust_from_known(prior, known, CPU).mean)
    assert np.sum(np.array(means["grids"]) < 0.5) < 3
    assert np.median(means["grids"]) > 0.9
    assert np.max(means["random"]) < 0.5
