"""Partial correlations and smooth signals, against closed forms, the conditions of an optimum and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import pdist, squareform
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import nan_euclidean_distances
from symmetric_matrices import symmetric

from sklearn_graphid import GraphicalLassoIdentifier, SmoothSignalIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.identifiers import _outputs_alone
from sklearn_graphid.identifiers._outputs_alone import (
    learn_smooth_graph,
    output_correlation,
    partial_correlation,
    squared_distances,
)

NAN = np.nan


def test_correlation_of_outputs():
    Y = np.random.default_rng(0).normal(size=(9, 5)) + 3
    np.testing.assert_allclose(output_correlation(Y, False), np.corrcoef(Y.T), atol=1e-12)
    norms = np.sqrt((Y**2).sum(0))
    np.testing.assert_allclose(output_correlation(Y, True), Y.T @ Y / np.outer(norms, norms), atol=1e-12)


def test_correlation_with_gaps_is_one():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(6, 8))
    Y[rng.random(Y.shape) < 0.4] = NAN
    Y[:, 3], Y[:, 5] = NAN, 7.0
    correlation = output_correlation(Y, False)
    heard = np.isfinite(np.diagonal(correlation))
    np.testing.assert_array_equal(np.flatnonzero(~heard), [3, 5])
    block = correlation[np.ix_(heard, heard)]
    np.testing.assert_allclose(np.diagonal(block), 1.0)
    assert np.linalg.eigvalsh(block).min() > -1e-12
    assert np.isnan(correlation[3]).all()


def test_partial_correlation_of_two_nodes_is_the_soft_threshold():
    """For two nodes the lasso moves the correlation to zero by alpha; then it is the partial one as well."""
    for correlation, expected in ((0.8, 0.5), (-0.8, -0.5), (0.2, 0.0)):
        found = partial_correlation(np.array([[1, correlation], [correlation, 1]]), 0.3, 100)[0]
        assert found[0, 1] == pytest.approx(expected, abs=1e-6)


def test_partial_correlation_without_penalty_is_the_inverse():
    correlation = np.corrcoef(np.random.default_rng(0).normal(size=(6, 200)))
    inverse = np.linalg.inv(correlation)
    scale = np.sqrt(np.diagonal(inverse))
    expected = np.eye(6) - inverse / np.outer(scale, scale)
    np.testing.assert_allclose(partial_correlation(correlation, 1e-7, 100)[0], expected, atol=1e-5)


@pytest.mark.draws_globally  # scikit-learn's estimator does
def test_strengths_agree_with_scikit_learns_estimator(club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=100, random_state=0)
    standard = (Y - Y.mean(0)) / Y.std(0)
    precision = GraphicalLasso(alpha=0.2, enet_tol=1e-6, assume_centered=True).fit(standard).precision_
    fitted = GraphicalLassoIdentifier("heat", alpha=0.2).fit(X, Y, known)
    scale = np.sqrt(np.diagonal(precision))
    expected = np.abs(precision / np.outer(scale, scale)) - np.eye(34)
    np.testing.assert_allclose(fitted.edge_scores_, expected, atol=1e-4)


@pytest.mark.filterwarnings("error")
def test_lasso_that_breaks_down_names_the_way_out(club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=5, random_state=0)
    with pytest.raises(FloatingPointError, match="failed at alpha=1e-06; use a larger alpha"):
        GraphicalLassoIdentifier("heat", alpha=1e-6).fit(X, Y, known)


def test_default_penalty_follows_the_size_of_chance_correlations(ring_experiments):
    X, Y = ring_experiments
    for n_experiments, expected in ((20, 0.7 * np.sqrt(np.log(6) / 20)), (1, 0.9)):
        fitted = GraphicalLassoIdentifier("heat").fit(X[:n_experiments], Y[:n_experiments])
        assert fitted.diagnostics_["alpha"] == pytest.approx(expected)


@pytest.fixture
def smooth_problem():
    outputs = np.random.default_rng(0).normal(size=(4, 12))
    return squared_distances(outputs), symmetric(0, 12) > 0.4


@pytest.mark.parametrize("gaps", [False, True])
def test_distances_agree_with_scikit_learn(gaps):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(7, 5))
    np.testing.assert_allclose(squared_distances(Y), squareform(pdist(Y.T, "sqeuclidean")) / 7)
    Y[rng.random(Y.shape) < 0.4] = NAN
    Y[:4, 0], Y[4:, 1] = NAN, NAN  # two nodes that were never measured together
    expected = nan_euclidean_distances(Y.T) ** 2 / 7
    np.testing.assert_allclose(squared_distances(Y), np.where(np.eye(5), 0.0, expected), atol=1e-12)


@pytest.mark.parametrize("beta", [1e-5, 0.01, 0.3, 10.0, 1e6])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_smooth_graph_meets_the_conditions_of_an_optimum(alpha, beta, smooth_problem):
    """The derivative of the objective is zero at positive weights, and not negative at zero weights."""
    distances, free = smooth_problem
    W, _, converged = learn_smooth_graph(distances, alpha, beta, free)
    assert converged
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_array_equal(W[~free], 0.0)
    inverse_degrees = 1 / W.sum(0)
    pulls = alpha * np.add.outer(inverse_degrees, inverse_degrees)
    derivative = 2 * distances - pulls + 2 * beta * W
    size = pulls.max()
    assert np.abs(derivative[free & (W > 0)]).max() < 1e-6 * size
    assert derivative[free & (W == 0)].min(initial=0.0) > -1e-6 * size


@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_smooth_graph_agrees_with_a_general_solver(beta):
    distances = squared_distances(np.random.default_rng(1).normal(size=(3, 5)))
    rows, columns = np.triu_indices(5, 1)

    def network(pairs):
        graph = np.zeros((5, 5))
        graph[rows, columns] = graph[columns, rows] = pairs
        return graph

    def objective(pairs):
        W = network(pairs)
        return (W * distances).sum() - 2.0 * np.log(W.sum(1)).sum() + beta / 2 * (W**2).sum()

    general = minimize(
        objective, np.ones(10), bounds=[(1e-12, None)] * 10, options={"ftol": 1e-15, "gtol": 1e-9, "maxfun": 100_000}
    )
    found = learn_smooth_graph(distances, 2.0, beta, ~np.eye(5, dtype=bool))[0]
    assert objective(found[rows, columns]) <= general.fun + 1e-9
    np.testing.assert_allclose(found, network(general.x), atol=2e-4)


def test_equal_distances_have_a_closed_form():
    """2 z - 2 alpha / ((n - 1) w) + 2 beta w = 0."""
    n_nodes, z, alpha, beta = 7, 0.6, 1.5, 0.2
    free = ~np.eye(n_nodes, dtype=bool)
    expected = (-z + np.sqrt(z**2 + 4 * beta * alpha / (n_nodes - 1))) / (2 * beta)
    found = learn_smooth_graph(np.full((7, 7), z), alpha, beta, free)[0]
    np.testing.assert_allclose(found[free], expected, rtol=1e-8)


@pytest.mark.parametrize("factor", [0.1, 3.0])
def test_scaling_of_proposition_two(factor, smooth_problem):
    distances, free = smooth_problem
    one = learn_smooth_graph(distances, 1.3, 0.4, free)[0]
    np.testing.assert_allclose(factor * learn_smooth_graph(distances, 1.3 / factor, 0.4 * factor, free)[0], one)
    np.testing.assert_allclose(1.3 * learn_smooth_graph(distances, 1.0, 1.3 * 0.4, free)[0], one)


def test_isolated_node_stays_so(ring_experiments):
    known = np.full((6, 6), NAN)
    known[2] = known[:, 2] = 0
    fitted = SmoothSignalIdentifier("heat").fit(*ring_experiments, known)
    assert fitted.adjacency_[2].sum() == 0
    assert fitted.adjacency_.sum() > 0


def test_newton_steps_that_do_not_suffice_are_told(ring_experiments, monkeypatch):
    monkeypatch.setattr(_outputs_alone, "_MAX_NEWTON_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="weights of the smooth graph did not converge; use a larger beta"):
        SmoothSignalIdentifier("heat").fit(*ring_experiments)


def test_vanishing_beta_is_refused(ring_experiments):
    with pytest.raises(ValueError, match=r"alpha=0.001 times beta=0.0001 is below 1e-06.*expected a larger beta"):
        SmoothSignalIdentifier("heat", alpha=1e-3, beta=1e-4).fit(*ring_experiments)
