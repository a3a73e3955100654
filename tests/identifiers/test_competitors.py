"""What all four competitors promise."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from identifier_cases import COMPETITORS
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter

NAN = np.nan
PENALTIES = {
    "ridge": {"alpha": [1.0, 30.0]},
    "robust": {"commutation_penalty": [1.0, 10.0]},
    "graphical-lasso": {"alpha": [0.2, 0.5]},
    "smooth": {"beta": [0.1, 1.0], "threshold": [None, 0.5]},
}


@pytest.fixture
def ring_known(ring):
    """Half of the pairs, so that some of either kind are there to calibrate by."""
    return hide_edges(ring, fraction=0.5, random_state=0)


def test_attributes_keep_the_contract(competitor, ring_known, ring_experiments):
    assert competitor.fit(*ring_experiments, ring_known) is competitor
    adjacency, probabilities = competitor.adjacency_, competitor.edge_probabilities_
    for matrix in (adjacency, probabilities):
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(matrix[ring_known.mask], ring_known.values[ring_known.mask])
        assert ((matrix >= 0) & (matrix <= 1)).all()
    assert adjacency.dtype == np.int64
    assert set(np.unique(adjacency)) <= {0, 1}
    assert competitor.theta_.shape == (1,)
    assert isinstance(competitor.noise_std_, float)
    assert competitor.noise_std_ > 0
    assert competitor.known_edges_ is ring_known
    assert competitor.diagnostics_["calibrated"] is True
    np.testing.assert_allclose(competitor.edge_scores_, competitor.edge_scores_.T)
    assert competitor.predict(ring_experiments[0]).shape == ring_experiments[1].shape
    graphs, thetas, *_ = competitor.sample(3, random_state=0)
    np.testing.assert_array_equal(graphs, np.repeat(adjacency[None], 3, axis=0))
    assert thetas.shape == (3, 1)
    assert len(competitor.to_networkx().edges) == adjacency.sum() // 2


def test_plenty_of_data_leave_no_doubt(competitor, ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=1000, noise_std=0.3, random_state=0)
    for known in (ring_known, None):
        competitor.fit(X, Y, known)
        np.testing.assert_array_equal(competitor.adjacency_, ring)
        np.testing.assert_allclose(competitor.theta_, 0.5, atol=0.01)
        assert competitor.noise_std_ == pytest.approx(0.3, rel=0.05)
        assert competitor.score(X, Y) > 0.98


def test_everything_known_leaves_least_squares(competitor, ring):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    design = np.stack([X.ravel(), (X @ ring).ravel(), (X @ ring @ ring).ravel()], axis=1)
    competitor.set_params(filter="polynomial").fit(X, Y, ring)
    np.testing.assert_array_equal(competitor.adjacency_, ring)
    np.testing.assert_array_equal(competitor.edge_probabilities_, ring)
    np.testing.assert_allclose(competitor.theta_, np.linalg.lstsq(design, Y.ravel(), rcond=None)[0], rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_units_do_not_matter(competitor, unit, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    one = clone(competitor).fit(X, Y, known)
    other = competitor.fit(unit * X, unit * Y, known)
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)
    np.testing.assert_allclose(one.edge_probabilities_, other.edge_probabilities_, atol=1e-6)
    np.testing.assert_allclose(one.theta_, other.theta_, rtol=1e-6)
    assert other.noise_std_ == pytest.approx(unit * one.noise_std_)


def test_numbers_of_nodes_do_not_matter(competitor, club):
    """Nothing is known, as the folds of known pairs go by the order of the nodes."""
    network, _ = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=30, random_state=0)
    order = np.random.default_rng(0).permutation(34)
    one, other = clone(competitor).fit(X, Y), competitor.fit(X[:, order], Y[:, order])
    np.testing.assert_allclose(other.edge_scores_, one.edge_scores_[np.ix_(order, order)], atol=1e-3)
    np.testing.assert_array_equal(other.adjacency_, one.adjacency_[np.ix_(order, order)])


@pytest.mark.parametrize("name", ["graphical-lasso", "smooth"])
def test_two_of_them_ignore_the_inputs(name, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    identifier = clone(COMPETITORS[name])
    one = clone(identifier).fit(X, Y, known).edge_scores_
    np.testing.assert_array_equal(identifier.fit(X[::-1], Y, known).edge_scores_, one)


def test_the_same_data_give_the_same_fit(competitor, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    Y[2, 3] = NAN
    one, other = clone(competitor).fit(X, Y, known), competitor.fit(X, Y, known)
    for name in ("adjacency_", "edge_probabilities_", "theta_", "edge_scores_", "noise_std_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_unobserved_nodes_are_missing_outputs(competitor, ring_known, ring_experiments):
    X, Y = ring_experiments
    gaps = Y.copy()
    gaps[:, [1, 4]] = NAN
    listed = clone(competitor).set_params(observed_nodes=[0, 2, 3, 5]).fit(X, Y[:, [0, 2, 3, 5]], ring_known)
    full = competitor.fit(X, gaps, ring_known)
    np.testing.assert_allclose(listed.edge_probabilities_, full.edge_probabilities_, atol=1e-12)
    np.testing.assert_array_equal(listed.adjacency_, full.adjacency_)
    assert listed.predict(X).shape == (20, 4)


@pytest.mark.parametrize("name", ["graphical-lasso", "smooth"])
def test_outputs_say_nothing_of_unobserved_nodes(name, ring_known, ring_experiments):
    """What is left is the share of edges among the known pairs of other nodes, by Laplace's rule."""
    X, Y = ring_experiments
    gaps = Y.copy()
    gaps[:, 4] = NAN
    fitted = clone(COMPETITORS[name]).fit(X, gaps, ring_known)
    assert np.isnan(np.delete(fitted.edge_scores_[4], 4)).all()
    compared = np.delete(np.delete(ring_known.to_array(), 4, 0), 4, 1)[np.triu_indices(5, 1)]
    share = (np.nansum(compared) + 1) / (np.isfinite(compared).sum() + 2)
    unsaid = ~ring_known.mask[4]
    np.testing.assert_allclose(fitted.edge_probabilities_[4, unsaid], share)
    assert not fitted.adjacency_[4, unsaid].any()


def test_gaps_cost_little(competitor, ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=1000, noise_std=0.3, random_state=0)
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = NAN
    competitor.fit(X, Y, ring_known)
    np.testing.assert_array_equal(competitor.adjacency_, ring)
    assert competitor.score(X, Y) > 0.98


@pytest.mark.parametrize("constant", ["X", "Y", "both"])
def test_signals_that_say_nothing(competitor, constant, ring_known, ring_experiments):
    X, Y = ring_experiments
    X, Y = (0 * X if constant != "Y" else X), (0 * Y if constant != "X" else Y)
    competitor.fit(X, Y, ring_known)
    assert np.isfinite(competitor.edge_probabilities_).all()
    assert np.isfinite(competitor.theta_).all()


def test_probabilities_are_calibrated_where_pairs_are_alike(competitor):
    """As many hidden edges as the probabilities add up to, over twelve networks.

    Given the probabilities, the number of edges has at most the variance of independent draws plus that of the
    calibration from as many known pairs, so twice it. Four standard errors alarm once in 16,000 runs.
    """
    expected = found = variance = 0.0
    for seed in range(12):
        network = nx.to_numpy_array(nx.gnp_random_graph(20, 0.2, seed=seed))
        known = hide_edges(network, 0.5, random_state=seed)
        X, Y = make_system(network, "heat", [0.4], n_experiments=10, random_state=seed)
        unknown = known.unknown_pairs()
        probabilities = competitor.fit(X, Y, known).edge_probabilities_[unknown]
        expected, found = expected + probabilities.sum(), found + network[unknown].sum()
        variance += 2 * (probabilities * (1 - probabilities)).sum()
    assert abs(expected - found) < 4 * np.sqrt(variance)


def test_threshold_is_one_of_probabilities(competitor, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=20, random_state=0)
    unknown = known.unknown_pairs()
    counts = []
    for threshold in (0.1, 0.5, 0.9):
        fitted = clone(competitor).set_params(threshold=threshold).fit(X, Y, known)
        np.testing.assert_array_equal(fitted.adjacency_[unknown], fitted.edge_probabilities_[unknown] > threshold)
        counts.append(fitted.adjacency_.sum())
    assert counts[0] >= counts[1] >= counts[2]


@pytest.mark.parametrize("name", COMPETITORS)
def test_grid_search_over_the_penalties(name, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=34, random_state=0)  # as many experiments as nodes
    search = GridSearchCV(COMPETITORS[name], PENALTIES[name], cv=3, error_score="raise").fit(X, Y, known_mask=known)
    assert set(search.best_params_) == set(PENALTIES[name])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(search.best_estimator_.adjacency_[known.mask], known.values[known.mask])


@pytest.mark.parametrize("filter", ["polynomial", "arma", HeatDiffusionFilter("normalized"), PolynomialFilter(0)])
def test_every_filter_runs(competitor, filter, ring_known, ring_experiments):
    fitted = competitor.set_params(filter=filter).fit(*ring_experiments, ring_known)
    assert len(fitted.theta_) == fitted.filter_.n_parameters()
    assert np.isfinite(fitted.predict(ring_experiments[0])).all()


def explode(adjacency, theta):
    return torch.full_like(adjacency, torch.inf)


def test_filter_that_blows_up_loses_nothing(competitor, ring_known, ring_experiments):
    competitor.fit(*ring_experiments, ring_known)
    before = competitor.predict(ring_experiments[0])
    with pytest.raises(FloatingPointError, match="least squares fit of theta became infinite or nan"):
        competitor.set_params(filter=CallableFilter(explode)).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(competitor.predict(ring_experiments[0]), before)


def test_guess_of_the_measured_nodes_points_to_the_caller(competitor, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="taken for the first 4 nodes") as caught:
        competitor.fit(X, Y[:, :4], ring_known)
    assert caught[0].filename == __file__
