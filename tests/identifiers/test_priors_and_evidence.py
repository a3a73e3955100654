"""What identifiers make of a prior, and of evidence beside it."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from identifier_cases import BRIEF_LANGEVIN, SHORT, assert_same_state
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import cross_val_score

from sklearn_graphid import ErdosRenyiPrior, GraphPriorScore, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_grid_graphs, make_system
from sklearn_graphid.filters import PolynomialFilter


def test_prior_of_nothing_known_is_even(quick, ring_experiments):
    """A filter of order 0 does not see the graph, so the posterior is the prior: one half where nothing is known."""
    quick.set_params(filter=PolynomialFilter(0), n_chains=64).fit(*ring_experiments)
    # A chain's share varies by 0.3, so the standard error is 0.04; five of these, one false alarm in 100,000 runs.
    np.testing.assert_allclose(quick.edge_probabilities_[np.triu_indices(6, 1)], 0.5, atol=0.2)


def test_prior_of_none_is_the_density_of_the_known_pairs(quick, ring, ring_known, ring_experiments):
    rows, columns = np.nonzero(np.triu(ring_known.mask, 1))
    density = (ring[rows, columns].sum() + 1) / (len(rows) + 2)
    by_default = clone(quick).fit(*ring_experiments, ring_known)
    named = clone(quick).set_params(prior=ErdosRenyiPrior(density)).fit(*ring_experiments, ring_known)
    assert_same_state(by_default, named)


def test_prior_may_be_frozen_or_not(quick, ring_known, ring_experiments):
    bare = clone(quick).set_params(prior=ErdosRenyiPrior(0.2)).fit(*ring_experiments, ring_known)
    frozen = clone(quick).set_params(prior=FrozenEstimator(ErdosRenyiPrior(0.2))).fit(*ring_experiments, ring_known)
    assert_same_state(bare, frozen)


@pytest.fixture(scope="module")
def trained_prior():
    graphs = make_grid_graphs(6, min_nodes=6, max_nodes=9, min_side=2, max_side=4, random_state=0)
    return GraphPriorScore(max_epochs=1, random_state=0).fit(graphs)


def test_learned_prior_survives_cloning_when_frozen(quick, ring_known, ring_experiments, trained_prior):
    X, Y = ring_experiments
    quick.set_params(prior=FrozenEstimator(trained_prior), n_levels=3)
    scores = cross_val_score(quick, X, Y, cv=2, params={"known_mask": ring_known}, error_score="raise")
    assert np.isfinite(scores).all()


def test_network_of_a_size_that_the_prior_has_not_seen_warns(quick, trained_prior):
    ladder = nx.to_numpy_array(nx.ladder_graph(12))
    X, Y = make_system(ladder, "heat", [0.3], n_experiments=3, random_state=0)
    known = KnownEdges(np.ones((24, 24), dtype=bool) ^ (np.eye(24, k=3) + np.eye(24, k=-3)).astype(bool), ladder)
    with pytest.warns(UserWarning, match="has 24 nodes, and the prior was trained on"):
        quick.set_params(prior=trained_prior, n_levels=2).fit(X, Y, known)


@pytest.mark.parametrize("has_sweeps", [True, False])
def test_evidence_beside_the_prior_moves_the_probabilities(has_sweeps, ring_experiments):
    """Data that do not see the graph, an even prior, and strong evidence on two pairs: it decides."""
    evidence = np.full((6, 6), 0.5)
    evidence[0, 3] = evidence[3, 0] = 0.999
    evidence[1, 4] = evidence[4, 1] = 0.001
    settings = SHORT if has_sweeps else BRIEF_LANGEVIN
    fitted = LangevinSystemIdentifier(
        PolynomialFilter(0), ErdosRenyiPrior(0.5), edge_prior=evidence, random_state=0, **{**settings, "n_chains": 32}
    ).fit(*ring_experiments)
    assert fitted.edge_probabilities_[0, 3] > 0.9
    assert fitted.edge_probabilities_[1, 4] < 0.1


def test_even_evidence_says_nothing(quick, ring_known, ring_experiments):
    """Probabilities of one half have odds of one. The detour over odds costs a few digits of single precision."""
    plain = clone(quick).fit(*ring_experiments, ring_known)
    even = clone(quick).set_params(edge_prior=np.full((6, 6), 0.5)).fit(*ring_experiments, ring_known)
    np.testing.assert_allclose(even.edge_probabilities_, plain.edge_probabilities_, atol=1e-3)


def test_a_prior_may_be_frozen_twice(ring_known, ring_experiments):
    prior = ErdosRenyiPrior(0.4)
    settings = {"n_chains": 2, "n_levels": 2, "random_state": 0}
    once, twice = (
        LangevinSystemIdentifier("heat", frozen, **settings).fit(*ring_experiments, ring_known)
        for frozen in (FrozenEstimator(prior), FrozenEstimator(FrozenEstimator(prior)))
    )
    np.testing.assert_array_equal(once.edge_probabilities_, twice.edge_probabilities_)
