"""What known non-edges tell of a model that is wrong, against regressions in numpy, and of noise alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import approx_fprime

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.samplers import Problem, misfit_of, strengths_test

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
    with pytest.warns(UserWarning, match="known not to be edges") as caught:
        identifier.fit(X, Y, KNOWN)
    assert len(str(caught[0].message)) < 160
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


# Edges that were taken to be alike


def run_strengths_test(name, X, Y):
    parts = X, Y, KNOWN, FILTERS[name], torch.device("cpu"), torch.float64
    problem = Problem.from_numpy(*parts, has_strengths=True)
    return strengths_test(problem, problem.gather(torch.tensor(GRAPH)), torch.tensor(THETA[name]).double())


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", FILTERS)
def test_strengths_are_tested_by_a_regression(name, missing):
    """An F test with derivatives by finite differences and least squares by numpy."""
    rng, pairs = np.random.default_rng(2), np.argwhere(np.triu(GRAPH, 1))
    X = rng.normal(size=(25, len(GRAPH)))
    Y = apply(name, strengths() ** 0.2, THETA[name], X) + 0.1 * rng.normal(size=X.shape)
    Y[rng.random(Y.shape) < 0.2 * missing] = np.nan
    is_measured = ~np.isnan(Y.ravel())

    def outputs(point):
        changed = np.zeros(GRAPH.shape)
        changed[tuple(pairs.T)] = point[: len(pairs)]
        return apply(name, changed + changed.T, point[len(pairs) :], X).ravel()[is_measured]

    point = np.array([1.0] * len(pairs) + THETA[name])
    jacobian, residuals = approx_fprime(point, outputs, 1e-7), Y.ravel()[is_measured] - outputs(point)
    left, ranks = [], []
    for design in (jacobian[:, len(pairs) :], jacobian):
        left.append(((residuals - design @ np.linalg.lstsq(design, residuals, rcond=1e-5)[0]) ** 2).sum())
        ranks.append(np.linalg.matrix_rank(design, rtol=1e-5))
    n_free, n_more = len(residuals) - ranks[1], ranks[1] - ranks[0]
    variance = left[1] / n_free
    found = run_strengths_test(name, X, Y)
    assert found.p_value == pytest.approx(stats.f.sf((left[0] - left[1]) / n_more / variance, n_more, n_free), rel=0.01)
    assert found.gain == pytest.approx(1 - variance / (left[0] / (len(residuals) - ranks[0])), rel=0.01)
    assert 0 < found.p_value < 0.5


def test_edges_that_are_alike_have_uniform_p_values():
    """200 draws: a Kolmogorov-Smirnov distance above .138 has probability .001."""
    rng, p_values = np.random.default_rng(0), []
    for _ in range(200):
        X = rng.normal(size=(12, len(GRAPH)))
        Y = apply("order-one", GRAPH, THETA["order-one"], X) + rng.normal(size=X.shape)
        p_values.append(run_strengths_test("order-one", X, Y).p_value)
    assert stats.kstest(p_values, "uniform").statistic < 0.138


@pytest.mark.parametrize("n_experiments", [1, 2])
def test_few_measurements_test_few_strengths(n_experiments):
    X = np.random.default_rng(0).normal(size=(n_experiments, len(GRAPH)))
    found = run_strengths_test("heat", X, apply("heat", strengths(), THETA["heat"], X))
    assert 0 <= found.p_value <= 1


def test_a_graph_without_edges_has_no_strengths_to_test():
    X = np.random.default_rng(0).normal(size=(9, len(GRAPH)))
    known = KnownEdges.from_array(np.zeros(GRAPH.shape))
    problem = Problem.from_numpy(X, X, known, FILTERS["heat"], torch.device("cpu"), torch.float64, True)
    assert strengths_test(problem, torch.zeros(problem.space.n_free).double(), torch.tensor([0.4]).double()) == (1, 0)
