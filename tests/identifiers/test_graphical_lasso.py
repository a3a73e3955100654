"""The graphical lasso, against closed forms and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import GraphicalLasso

from sklearn_graphid import GraphicalLassoIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.identifiers._graphical_lasso import output_correlation, partial_correlation

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
