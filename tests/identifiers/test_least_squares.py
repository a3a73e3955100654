"""Least squares in the strengths of edges, against true strengths and against scipy on equations written out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import ConstrainedLeastSquaresIdentifier, KnownEdges
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import PolynomialFilter, SteadyStateFilter
from sklearn_graphid.graphs import EdgeSpace
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
    found, true = identifier.strengths_[rows, columns], weights[rows, columns]
    factor = (found @ true) / (true @ true)
    np.testing.assert_allclose(found, factor * true, atol=1e-4 * factor)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)


@pytest.mark.parametrize("name", FILTERS)
def test_strengths_are_scipys(name):
    """With noise; all equations written out, edge by edge."""
    filter, coefficient = FILTERS[name]
    known = KnownEdges(np.zeros((10, 10), dtype=bool) | np.eye(10, dtype=bool), np.zeros((10, 10)))
    X, Y = make_data(name, weighted_graph(), noise_std=0.05, n_experiments=30)
    X, Y = X / np.sqrt((X**2).mean()), Y / np.sqrt((Y**2).mean())
    identifier = ConstrainedLeastSquaresIdentifier(filter).fit(X, Y, known)
    space = EdgeSpace.complete(10)
    single = [np.eye(10)[[i]] - np.eye(10)[[j]] for i, j in zip(*space.ends(), strict=True)]
    if coefficient is None:
        columns, targets = [Y @ v.T @ v for v in single], X
        if filter.leak:
            columns.append(Y)
        elif filter.ground is None:
            targets = X - X.mean(1, keepdims=True)
        kept = np.arange(10) != (-1 if filter.ground is None else filter.ground)
        columns, targets = [column[:, kept] for column in columns], targets[:, kept]
    else:
        pairs = [v.T @ v for v in single]
        if filter.shift == "adjacency":
            pairs = [np.diag(np.diag(pair)) - pair for pair in pairs]
        columns, targets = [np.sign(coefficient) * X @ pair for pair in pairs] + [X], Y
    matrix = np.stack([column.ravel() for column in columns], 1)
    low = np.zeros(matrix.shape[1])
    low[space.n_free :] = -np.inf
    expected = lsq_linear(matrix, targets.ravel(), (low, np.inf), tol=1e-14).x[: space.n_free]
    np.testing.assert_allclose(space.gather(identifier.strengths_), expected, atol=1e-5)


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
    with pytest.warns(ConvergenceWarning, match="no equation says anything of some pairs"):
        none = ConstrainedLeastSquaresIdentifier().fit(X, never, known)
    assert np.isnan(none.strengths_[3, ~known.mask[3]]).all()
    rest = known.mask[3] & (known.values[3] == 0) & (np.arange(10) != 3)
    unknown = ~known.mask & rest & rest[:, None]
    # Strengths are those of outputs of unit mean square.
    found, full = (
        fitted.strengths_[unknown] / np.sqrt(np.nanmean(outputs**2))
        for fitted, outputs in ((none, never), (some, sometimes))
    )
    assert unknown.any()
    np.testing.assert_allclose(found, full, rtol=1e-5)


@pytest.mark.parametrize("filter", ["heat", "arma", "polynomial", PolynomialFilter(1, shift="normalized-laplacian")])
def test_other_filters_are_refused_by_name(filter):
    X, Y = make_system(GRAPH, "heat", [0.5], 5, random_state=0)
    with pytest.raises(ValueError, match=r"got filter=.* expected SteadyStateFilter, or PolynomialFilter of order 1"):
        ConstrainedLeastSquaresIdentifier(filter).fit(X, Y)
