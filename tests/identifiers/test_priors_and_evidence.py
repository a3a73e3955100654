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


def known_of(edges, others):
    """What is known of six nodes: some edges and some pairs that are none."""
    partial = np.full((6, 6), np.nan)
    for value, pairs in ((1, edges), (0, others)):
        for i, j in pairs:
            partial[i, j] = partial[j, i] = value
    return KnownEdges.from_array(partial)


EDGES, OTHERS = [(0, 1), (1, 2), (2, 3)], [(0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (1, 5)]


@pytest.mark.parametrize(("edges", "others"), [([], []), (EDGES, []), ([], OTHERS), (EDGES, OTHERS)])
def test_density_without_data_has_its_prior_law(edges, others, ring_experiments):
    """A filter of order 0 does not see the graph, so the posterior of the density is its prior.

    Its mean is 1/4 = 0.5 / (0.5 + 1.5) where known pairs are of one kind or there are none; with both, it is the mean
    of that and of (0.5 + 3) / (2 + 9). Its standard deviation is at most 0.25, and draws of a chain are worth one at
    least: 4.5 standard errors of 100 chains, and a false alarm in 35,000 runs for four cases.
    """
    fitted = LangevinSystemIdentifier(PolynomialFilter(0), random_state=0, **{**SHORT, "n_chains": 100})
    fitted.fit(*ring_experiments, known_of(edges, others))
    expected = 0.5 * (0.25 + 3.5 / 11) if edges and others else 0.25
    assert fitted.density_ == pytest.approx(expected, abs=4.5 * 0.25 / 10)
    unknown = fitted.known_edges_.unknown_pairs()
    assert fitted.edge_probabilities_[unknown].mean() == pytest.approx(expected, abs=4.5 * 0.25 / 10)
    low, high = fitted.density_interval(0.9)
    assert 0 <= low < fitted.density_ < high <= 1


def test_a_density_that_is_given_stays(quick, ring_known, ring_experiments):
    fitted = quick.set_params(prior=ErdosRenyiPrior(0.3)).fit(*ring_experiments, ring_known)
    assert fitted.density_ == 0.3
    np.testing.assert_array_equal(fitted.density_interval(), [0.3, 0.3])


def test_prior_of_none_is_an_unknown_density(quick, ring_known, ring_experiments):
    by_default = clone(quick).fit(*ring_experiments, ring_known)
    named = clone(quick).set_params(prior=ErdosRenyiPrior()).fit(*ring_experiments, ring_known)
    assert_same_state(by_default, named)


@pytest.mark.parametrize("kind", ["edges", "non-edges"])
def test_known_pairs_of_one_kind_do_not_tell_the_density(kind):
    """Every second edge of a small world is known and nothing else, or the pairs that are far apart are ruled out."""
    truth = nx.to_numpy_array(nx.watts_strogatz_graph(14, 4, 0.1, seed=1))
    X, Y = make_system(truth, "heat", [0.5], n_experiments=20, random_state=0)
    rows, columns = np.nonzero(np.triu(truth) if kind == "edges" else np.triu(truth == 0, 1))
    mask = np.zeros_like(truth, dtype=bool)
    mask[rows[::2], columns[::2]] = mask[columns[::2], rows[::2]] = True
    known = KnownEdges(mask, truth)
    fitted = LangevinSystemIdentifier("heat", random_state=0, **SHORT).fit(X, Y, known)
    unknown = known.unknown_pairs()
    # With the density of the known pairs, nearly all pairs or nearly none would be edges.
    assert fitted.edge_probabilities_[unknown].sum() == pytest.approx(truth[unknown].sum(), rel=0.3)


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
