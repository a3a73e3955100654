"""Least squares in the strengths of edges, against true strengths and against scipy on equations written out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import lsq_linear, nnls
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import ConstrainedLeastSquaresIdentifier, KnownEdges
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import PolynomialFilter, SteadyStateFilter
from sklearn_graphid.graphs import EdgeSpace
from sklearn_graphid.identifiers._least_squares import _non_negative
from sklearn_graphid.metrics import edge_f1_score

GRAPH = nx.to_numpy_array(nx.connected_watts_strogatz_graph(10, 4, 0.3, seed=0))
FILTERS = {
    "steady-state": (SteadyStateFilter(), None),
    "ground": (SteadyStateFilter(ground=3), None),
    "leak": (SteadyStateFilter(leak=0.5), None),
    "adjacency": (PolynomialFilter(1), 0.7),
    "adjacency, below zero": (PolynomialFilter(1), -0.7),
    "laplacian": (PolynomialFilter(1, shift="laplacian"), -0.2),
}


def weighted_graph(seed=0):
    strengths = np.triu(np.random.default_rng(seed).lognormal(0, 0.5, GRAPH.shape) * GRAPH, 1)
    return strengths + strengths.T


def operator_of(name, weights):
    """What inputs are multiplied by, in numpy."""
    filter, coefficient = FILTERS[name]
    laplacian = np.diag(weights.sum(0)) - weights
    if coefficient is not None:
        return 0.3 * np.eye(10) + coefficient * (weights if filter.shift == "adjacency" else laplacian)
    kept = np.arange(10) != (-1 if filter.ground is None else filter.ground)
    operator = np.zeros((10, 10))
    operator[np.ix_(kept, kept)] = np.linalg.pinv((laplacian + filter.leak * np.eye(10))[np.ix_(kept, kept)])
    return operator


def make_data(name, weights, noise_std, n_experiments=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_experiments, 10))
    return X, X @ operator_of(name, weights) + noise_std * rng.normal(size=X.shape)


@pytest.mark.parametrize("edge_weights", ["positive", "signed"])
@pytest.mark.parametrize("name", FILTERS)
def test_strengths_are_found_where_there_is_no_noise(name, edge_weights):
    """But for one factor that they share, as neither the scale nor theta_1 is known."""
    weights, known = weighted_graph(), hide_edges(GRAPH, 0.4, random_state=0)
    X, Y = make_data(name, weights, noise_std=0.0)
    identifier = ConstrainedLeastSquaresIdentifier(FILTERS[name][0], edge_weights=edge_weights).fit(X, Y, known)
    rows, columns = known.unknown_pairs()
    found, true = identifier.edge_scores_[rows, columns], weights[rows, columns]
    factor = (found @ true) / (true @ true)
    np.testing.assert_allclose(found, factor * true, atol=1e-4 * factor)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)


def equations_of(name, X, Y):
    """All equations written out, edge by edge: columns (experiments, nodes), and what they add up to."""
    filter, coefficient = FILTERS[name]
    single = [np.eye(10)[[i]] - np.eye(10)[[j]] for i, j in zip(*EdgeSpace.complete(10).ends(), strict=True)]
    if coefficient is None:
        is_free = np.arange(10) != filter.ground
        Y = Y * is_free  # the potential of the ground is known
        columns, targets = [Y @ v.T @ v for v in single], X
        if filter.leak:
            columns.append(Y)
        elif filter.ground is None:
            targets = X - X.mean(1, keepdims=True)
        return [column[:, is_free] for column in columns], targets[:, is_free]
    pairs = [v.T @ v for v in single]
    if filter.shift == "adjacency":
        pairs = [np.diag(np.diag(pair)) - pair for pair in pairs]
    return [np.sign(coefficient) * X @ pair for pair in pairs] + [X], Y


def scipys_strengths(columns, targets):
    """Of 45 pairs; what comes after them is free."""
    matrix = np.stack([column.ravel() for column in columns], 1)
    low = np.where(np.arange(len(columns)) < 45, 0.0, -np.inf)
    return lsq_linear(matrix, targets.ravel(), (low, np.inf), tol=1e-14).x[:45]


def noisy_data(name):
    X, Y = make_data(name, weighted_graph(), noise_std=0.05, n_experiments=30)
    return X / np.sqrt((X**2).mean()), Y / np.sqrt((Y**2).mean())


NOTHING = KnownEdges(np.eye(10, dtype=bool), np.zeros((10, 10)))


@pytest.mark.parametrize("name", FILTERS)
def test_strengths_are_scipys(name):
    X, Y = noisy_data(name)
    identifier = ConstrainedLeastSquaresIdentifier(FILTERS[name][0], n_reweightings=0).fit(X, Y, NOTHING)
    expected = scipys_strengths(*equations_of(name, X, Y))
    np.testing.assert_allclose(EdgeSpace.complete(10).gather(identifier.edge_scores_), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["steady-state", "ground"])
def test_reweighted_strengths_are_scipys(name):
    """The same equations times the inverse of the Laplacian that was found before, twice."""
    X, Y = noisy_data(name)
    identifier = ConstrainedLeastSquaresIdentifier(FILTERS[name][0], n_reweightings=2).fit(X, Y, NOTHING)
    columns, targets = equations_of(name, X, Y)
    expected = scipys_strengths(columns, targets)
    for _ in range(2):
        weights = EdgeSpace.complete(10).filled(expected, np.zeros((10, 10)))
        is_free = np.arange(10) != FILTERS[name][0].ground
        inverse = np.linalg.pinv((np.diag(weights.sum(1)) - weights)[np.ix_(is_free, is_free)])
        expected = scipys_strengths([column @ inverse for column in columns], targets @ inverse)
    np.testing.assert_allclose(EdgeSpace.complete(10).gather(identifier.edge_scores_), expected, atol=1e-5)


def test_reweighting_brings_strengths_closer_to_the_truth():
    """Strengths from .04 to 25, so that some equations have a thousand times the error of others."""
    errors = []
    for n_reweightings in (0, 3):
        weights = weighted_graph() ** 3
        X, Y = make_data(
            "ground", weights, noise_std=0.01 * make_data("ground", weights, 0.0)[1].std(), n_experiments=50
        )
        identifier = ConstrainedLeastSquaresIdentifier(SteadyStateFilter(ground=3), n_reweightings=n_reweightings)
        found = identifier.fit(X, Y, hide_edges(GRAPH, 0.3, random_state=0)).weights_
        errors.append(np.median(np.abs(found - weights)[GRAPH == 1] / weights[GRAPH == 1]))
    assert errors[1] < 0.7 * errors[0]


@pytest.mark.parametrize("edge_weights", ["positive", "signed"])
@pytest.mark.parametrize("name", FILTERS)
def test_weights_have_the_units_of_the_data(name, edge_weights):
    weights, known = weighted_graph(), hide_edges(GRAPH, 0.4, random_state=0)
    X, Y = make_data(name, weights, noise_std=0.0)
    identifier = ConstrainedLeastSquaresIdentifier(FILTERS[name][0], edge_weights=edge_weights)
    factor = 1.0 if FILTERS[name][1] is None else FILTERS[name][1]
    found = identifier.fit(1000 * X, 2 * Y, known).weights_
    expected = factor * weights * (500 if FILTERS[name][1] is None else 1 / 500)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(20))
def test_non_negative_solutions_are_those_of_lawson_and_hanson(seed):
    """Problems of many sizes, from well to badly conditioned, with few and with many strengths above zero."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    factor = rng.normal(size=(n + 2, n)) * 10.0 ** rng.uniform(-3, 3, n) + rng.normal() * (seed % 2)
    slope = factor.T @ (rng.normal(size=n + 2) + seed % 3)
    gram = factor.T @ factor
    solution, minimum = _non_negative(gram, slope)
    expected, _ = nnls(np.linalg.cholesky(gram).T, np.linalg.solve(np.linalg.cholesky(gram), slope), maxiter=3000)
    assert (solution >= 0).all()
    assert minimum == pytest.approx(expected @ gram @ expected / 2 - slope @ expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_fewer_equations_than_strengths_end_too(seed):
    """Where exchanges of many strengths at once go round in circles, they are given up, and not tried for minutes."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(60, 200)) * np.logspace(0, 3, 200)
    targets = matrix @ np.maximum(rng.normal(size=200), 0) + rng.normal(size=60)
    gram = matrix.T @ matrix + 1e-6 * np.eye(200)
    solution, minimum = _non_negative(gram, matrix.T @ targets)
    assert (solution >= 0).all()
    # All that one could do: the derivative is zero at strengths above zero, and not below zero at the others.
    gradient = (gram @ solution - matrix.T @ targets) / np.sqrt(gram.diagonal())
    scale = np.abs(matrix.T @ targets / np.sqrt(gram.diagonal())).max()
    assert np.abs(gradient[solution > 0]).max() < 1e-6 * scale
    assert gradient.min() > -1e-6 * scale
    assert minimum == pytest.approx(solution @ gram @ solution / 2 - (matrix.T @ targets) @ solution)


def test_missing_outputs_leave_a_polynomial_its_other_equations():
    X, Y = make_data("adjacency", weighted_graph(), noise_std=0.0, n_experiments=25)
    Y[::3, 2] = np.nan
    known = hide_edges(GRAPH, 0.4, random_state=0)
    identifier = ConstrainedLeastSquaresIdentifier(PolynomialFilter(1)).fit(X, Y, known)
    assert edge_f1_score(GRAPH, identifier.adjacency_, known) == 1.0


def test_a_steady_state_uses_the_equations_that_are_complete():
    """Node 3 is never measured: it says nothing, and of the others those that cannot be its neighbours do."""
    X, Y = make_data("steady-state", weighted_graph(), noise_std=0.0, n_experiments=25)
    known = hide_edges(GRAPH, 0.4, random_state=0)
    sometimes, never = Y.copy(), Y.copy()
    sometimes[::2, 3] = never[:, 3] = np.nan
    some = ConstrainedLeastSquaresIdentifier().fit(X, sometimes, known)
    assert edge_f1_score(GRAPH, some.adjacency_, known) == 1.0
    with pytest.warns(ConvergenceWarning, match="no equation contains some of the pairs"):
        none = ConstrainedLeastSquaresIdentifier().fit(X, never, known)
    assert np.isnan(none.edge_scores_[3, ~known.mask[3]]).all()
    rest = known.mask[3] & (known.values[3] == 0) & (np.arange(10) != 3)
    unknown = ~known.mask & rest & rest[:, None]
    # Strengths are those of outputs of unit mean square.
    found, full = (
        fitted.edge_scores_[unknown] / np.sqrt(np.nanmean(outputs**2))
        for fitted, outputs in ((none, never), (some, sometimes))
    )
    assert unknown.any()
    np.testing.assert_allclose(found, full, rtol=1e-5)


@pytest.mark.parametrize("filter", ["heat", "arma", "polynomial", PolynomialFilter(1, shift="normalized-laplacian")])
def test_other_filters_are_refused_by_name(filter):
    X, Y = make_system(GRAPH, "heat", [0.5], 5, random_state=0)
    with pytest.raises(ValueError, match=r"got filter=.* expected SteadyStateFilter, or PolynomialFilter of order 1"):
        ConstrainedLeastSquaresIdentifier(filter).fit(X, Y)
