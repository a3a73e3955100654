"""What known non-edges tell of a model that is wrong, against regressions in numpy, and of noise alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import approx_fprime

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.samplers import Problem, misfit_of

GRAPH = nx.to_numpy_array(nx.connected_watts_strogatz_graph(12, 4, 0.3, seed=0))
KNOWN = hide_edges(GRAPH, 0.3, random_state=0)
THETA = {"steady-state": [1.0], "order-one": [0.4, 0.3], "heat": [0.4]}
FILTERS = {"steady-state": SteadyStateFilter(), "order-one": PolynomialFilter(1), "heat": HeatDiffusionFilter()}


def strengths(seed=0):
    sizes = np.triu(np.random.default_rng(seed).lognormal(0, 0.5, GRAPH.shape), 1)
    return GRAPH * (sizes + sizes.T)


def apply(name, weights, theta, X):
    parts = (torch.tensor(np.asarray(part)) for part in (weights[None], np.asarray(theta)[None], X))
    return FILTERS[name].apply(*parts)[0].numpy()


def measure(name, X, Y, weights, missing=False):
    if missing:
        Y = np.where(np.random.default_rng(9).random(Y.shape) < 0.2, np.nan, Y)
    parts = X, Y, KNOWN, FILTERS[name], torch.device("cpu"), torch.float64
    problem = Problem.from_numpy(*parts, has_strengths=True)
    found = misfit_of(problem, problem.gather(torch.tensor(weights)), torch.tensor(THETA[name]).double())
    return found, Y


def expected_factor(name, X, Y, weights):
    """Each non-edge's share of what a regression on the edges and theta leaves, by numpy's least squares."""
    pairs = np.argwhere(np.triu(GRAPH, 1))
    absent = [(i, j) for i, j in np.argwhere(np.triu(KNOWN.mask == 1, 1)) if not GRAPH[i, j]]
    is_measured = ~np.isnan(Y.ravel())

    def outputs(point):
        changed, n_pairs = np.array(weights), len(pairs) + len(absent)
        for (i, j), value in zip([*pairs, *absent], point[:n_pairs], strict=True):
            changed[i, j] = changed[j, i] = value
        return apply(name, changed, point[n_pairs:], X).ravel()[is_measured]

    point = np.array([weights[i, j] for i, j in [*pairs, *absent]] + THETA[name])
    jacobian = approx_fprime(point, outputs, 1e-7)
    is_absent = np.zeros(len(point), dtype=bool)
    is_absent[len(pairs) : len(pairs) + len(absent)] = True
    design, others = jacobian[:, ~is_absent], jacobian[:, is_absent]
    together = np.column_stack([Y.ravel()[is_measured] - outputs(point), others])
    left = together - design @ np.linalg.lstsq(design, together, rcond=1e-5)[0]
    residuals, others = left[:, 0], left[:, 1:]
    squares = (others.T @ residuals) ** 2 / (others**2).sum(0)
    variance = (residuals**2).sum() / (len(residuals) - np.linalg.matrix_rank(design, rtol=1e-5))
    return variance, squares.mean() / variance


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_misfit_is_that_of_a_regression(name, missing):
    rng, weights = np.random.default_rng(2), strengths()
    X = rng.normal(size=(25, len(GRAPH)))
    is_absent = (KNOWN.mask == 1) & (GRAPH == 0) & ~np.eye(len(GRAPH), dtype=bool)
    # The process has weak links where the model has none.
    Y = apply(name, weights + 0.2 * is_absent, THETA[name], X) + 0.01 * rng.normal(size=X.shape)
    found, Y = measure(name, X, Y, weights, missing)
    variance, factor = expected_factor(name, X, Y, weights)
    assert found.variance == pytest.approx(variance, rel=0.01)
    assert found.factor == pytest.approx(factor, rel=0.01)
    assert factor > 1.5


@pytest.mark.parametrize("name", FILTERS)
def test_noise_is_no_misfit(name):
    """Four standard errors of independent squares; those of neighbours are not, and still none of sixty is above."""
    weights, variances = strengths(), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20, len(GRAPH)))
        Y = apply(name, weights, THETA[name], X) + 0.1 * rng.normal(size=X.shape)
        found, _ = measure(name, X, Y, weights)
        assert found.factor == 1
        variances.append(found.variance)
    # Twenty times more than 200 residuals: a standard error of 0.022, of which this is four and a half.
    assert np.mean(variances) == pytest.approx(0.01, rel=0.1)


def test_nothing_known_to_be_absent_tells_nothing():
    weights, X = strengths(), np.random.default_rng(0).normal(size=(9, len(GRAPH)))
    Y = apply("order-one", weights, THETA["order-one"], X) ** 3
    known = hide_edges(GRAPH, 1.0, random_state=0)
    problem = Problem.from_numpy(X, Y, known, PolynomialFilter(1), torch.device("cpu"), torch.float64, True)
    found = misfit_of(problem, problem.gather(torch.tensor(weights)), torch.tensor(THETA["order-one"]).double())
    assert found.factor == 1


def test_evidence_is_discounted_where_the_model_is_wrong():
    """All nodes are weakly coupled, some more and some less; to a model without that, it looks like weak edges."""
    rng, weights = np.random.default_rng(3), strengths()
    background = np.triu(rng.uniform(0, 0.06, GRAPH.shape), 1)
    X = rng.normal(size=(60, len(GRAPH)))
    Y = apply("order-one", weights + background + background.T, THETA["order-one"], X)
    Y += 0.02 * rng.normal(size=Y.shape)
    identifier = LangevinSystemIdentifier(PolynomialFilter(1), edge_weights="positive", n_chains=8, random_state=0)
    with pytest.warns(UserWarning, match="known not to be edges"):
        identifier.fit(X, Y, KNOWN)
    assert identifier.diagnostics_["misfit"] > 2
    # The noise is what the residuals say, and no more.
    assert identifier.noise_std_ == pytest.approx(identifier.diagnostics_["residual_std"], rel=0.1)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    # Its variance has a scaled inverse chi-square law: so many measurements, less the strengths and two parameters, of
    # which one is the unit of the strengths. 80 draws that are quantiles miss the law's own by less than 1 %.
    n_free = Y.size - int(GRAPH.sum()) // 2 - 1
    ends = identifier.noise_std_ * np.sqrt(n_free / stats.chi2.ppf([0.95, 0.05], n_free))
    np.testing.assert_allclose(identifier.noise_std_interval(0.9), ends, rtol=0.01)

    # A noise level that is given is believed.
    identifier.set_params(noise_std=0.02)
    is_false, before = (GRAPH == 0) & (KNOWN.mask == 0), identifier.edge_probabilities_
    identifier.fit(X, Y, KNOWN)
    assert identifier.diagnostics_["misfit"] == 1
    np.testing.assert_array_equal(identifier.noise_std_interval(0.9), 0.02)
    assert identifier.edge_probabilities_[is_false].sum() > before[is_false].sum() + 1
