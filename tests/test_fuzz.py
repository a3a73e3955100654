"""Random valid problems, and what must hold for every one of them, whatever the answer is.

A seed makes a system (graph, filter, inputs, outputs with noise and gaps, a known part), the form in which its parts
are passed (arrays, lists, pandas and polars frames in any order of columns, masks, graphs), and an identifier with
settings for a short run. `SKLEARN_GRAPHID_FUZZ` chooses other seeds than the default ones, by their number or by a
range; `--dist=load` spreads them over the two processes:

    SKLEARN_GRAPHID_FUZZ=2000 pytest --dist=load tests/test_fuzz.py
    SKLEARN_GRAPHID_FUZZ=1234:1235 pytest -n 0 tests/test_fuzz.py

The second form runs one seed, as a failing problem says.
"""

from __future__ import annotations

import os
import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from random_questions import Beliefs, draw_identifier, in_order, present
from random_systems import RandomSystem, filter_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from sklearn_graphid import KnownEdges, identifiers
from sklearn_graphid.filters import ARMAFilter, PolynomialFilter

# A problem takes about a quarter of a second: 13 s for those of every run, 40 s more for those of `make test`.
N_QUICK, N_ALL = 50, 200


class Problem:
    """A system, the identifier that is asked, and the form of the question."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = np.random.default_rng([20, seed])
        self.system = RandomSystem.draw(self.rng)
        self.identifier = draw_identifier(self.rng, self.system)
        self.beliefs = Beliefs.draw(self.rng, self.system.n_nodes)
        self.arguments = self.form(x_named=bool(self.rng.integers(2)))
        self.form_with_names = self.form(x_named=True)

    def form(self, x_named):
        arguments = present(self.rng, self.system, x_named)
        if type(self.identifier) is identifiers.LangevinSystemIdentifier:  # the one without a prior refuses them
            arguments.parameters |= self.beliefs.parameters(self.rng, self.system, arguments)
        return arguments

    def fitted(self, arguments):
        identifier = clone(self.identifier).set_params(**arguments.parameters)
        return identifier.fit(arguments.X, arguments.Y, **arguments.known)

    def __str__(self):
        system = self.system
        n_pairs = system.n_nodes * (system.n_nodes - 1) // 2
        return (
            f"{self.identifier} with {self.beliefs}\n{len(system.X)} experiments on {system.n_nodes} nodes, "
            f"{np.isfinite(system.Y).sum()} outputs, {int(system.adjacency.sum()) // 2} edges, "
            f"{int(np.triu(system.is_known, 1).sum())} of {n_pairs} pairs known, inputs up to "
            f"{np.abs(system.X).max():.2g}, outputs up to {np.nanmax(np.abs(system.Y)):.2g}, noise "
            f"{system.noise_std:.2g}\n{self.arguments.description}\nwith names: {self.form_with_names.description}"
        )


def check_graph(system, arguments, identifier):
    """A simple graph that holds what is known, node by node."""
    order = arguments.x_nodes
    if hasattr(arguments.X, "columns"):
        assert [str(name) for name in identifier.node_names_] == [str(system.names[node]) for node in order]
    adjacency, probabilities = identifier.adjacency_, identifier.edge_probabilities_
    known = in_order(system.is_known, order)
    assert set(np.unique(adjacency)) <= {0, 1}
    assert ((probabilities >= 0) & (probabilities <= 1)).all()
    for matrix in (adjacency, probabilities):
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(np.diagonal(matrix), 0)
        np.testing.assert_array_equal(matrix[known], in_order(system.adjacency, order)[known])
    assert np.isfinite(identifier.theta_).all()
    assert identifier.theta_.shape == (identifier.filter_.n_parameters(),)
    assert np.isfinite(identifier.noise_std_)
    assert identifier.noise_std_ >= 0


def matrix_of(identifier):
    """The matrix of the graph that was found: its strengths, where edges have some."""
    return np.asarray(getattr(identifier, "weights_", identifier.adjacency_), dtype=float)


def denominator(identifier):
    """The matrix that an ARMA filter divides by; the identity for the others."""
    is_rational = isinstance(identifier.filter_, ARMAFilter)
    coefficients = identifier.theta_[identifier.filter_.ma_order + 1 :] if is_rational else []
    return filter_matrix(PolynomialFilter(), matrix_of(identifier), [1.0, *coefficients])


def check_predictions(system, arguments, identifier):
    """The outputs of the graph and theta that were found, in the form of Y."""
    predicted = identifier.predict(arguments.X)
    assert predicted.shape == np.shape(arguments.Y)
    assert np.isfinite(predicted).all()
    matrix = filter_matrix(identifier.filter_, matrix_of(identifier), identifier.theta_)
    places = [list(arguments.x_nodes).index(node) for node in arguments.y_nodes]
    expected = (system.X[:, arguments.x_nodes] @ matrix.T)[:, places].reshape(predicted.shape)
    largest = np.abs(system.X).max() * np.abs(matrix).max()
    # Two ways to solve the equations of an ARMA filter differ by what rounding is magnified by.
    tolerance = max(1e-6, 1e-14 * np.linalg.cond(denominator(identifier)))
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=tolerance * largest)


def check_score(arguments, identifier):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        score = identifier.score(arguments.X, arguments.Y)
    is_undefined = any(issubclass(warning.category, UndefinedMetricWarning) for warning in caught)
    assert np.isnan(score) if is_undefined else np.isfinite(score) and score <= 1
    check_warnings(caught)


def check_exports(system, arguments, identifier):
    """Draws, graph and table say the same as the attributes."""
    order, known = arguments.x_nodes, in_order(system.is_known, arguments.x_nodes)
    graphs, thetas, *weights = identifier.sample(7, random_state=0)
    assert graphs.shape == (7, system.n_nodes, system.n_nodes)
    assert np.isin(graphs, (0, 1)).all()
    assert np.isfinite(thetas).all()
    for graph in graphs:
        np.testing.assert_array_equal(graph, graph.T)
        np.testing.assert_array_equal(graph[known], in_order(system.adjacency, order)[known])
    if hasattr(identifier, "weights_"):
        np.testing.assert_array_equal(weights[0] != 0, graphs == 1)
        np.testing.assert_array_equal(identifier.weights_ != 0, identifier.adjacency_ == 1)
    network = identifier.to_networkx()
    np.testing.assert_array_equal(nx.to_numpy_array(network, weight=None), identifier.adjacency_)
    for include_known in (False, True):
        table = identifier.to_pandas_edgelist(include_known)
        assert len(table) == np.triu(np.ones_like(known) if include_known else ~known, 1).sum()
        assert table["probability"].between(0, 1).all()
        assert table["probability"].is_monotonic_decreasing


def results(arguments, identifier):
    """All numbers of a fitted identifier that must be the same in a copy, to the last bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        score = identifier.score(arguments.X, arguments.Y)
    attributes = [identifier.adjacency_, identifier.edge_probabilities_, identifier.theta_, identifier.noise_std_]
    arrays = [*attributes, identifier.predict(arguments.X), score, *identifier.sample(3, random_state=1)]
    return [np.asarray(array).tobytes() for array in arrays]


def check_warnings(caught):
    """Only ours, which name the caller's line, are short, and are of a kind that users filter by."""
    for warning in caught:
        assert warning.category in (ConvergenceWarning, UserWarning, UndefinedMetricWarning), warning
        assert warning.filename == __file__, warning
        assert len(str(warning.message)) < 200, warning


def contents(argument):
    """What an argument holds, to compare before and after."""
    if isinstance(argument, nx.Graph):
        return list(argument.nodes), list(argument.edges)
    if isinstance(argument, KnownEdges):
        return argument.mask.tobytes(), argument.values.tobytes(), argument.names
    if isinstance(argument, pd.DataFrame | pd.Series):  # their pickles change with what they have cached
        return repr(argument.to_dict()), repr(argument.dtypes)
    return pickle.dumps(argument)


def check(problem):
    """Fit twice: with the same arguments, or with the same problem in another form, with names, for odd seeds."""
    system, arguments = problem.system, problem.arguments
    given = [arguments.X, arguments.Y, *arguments.known.values(), *arguments.parameters.values()]
    before = [contents(argument) for argument in given]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier = problem.fitted(arguments)
        other_form = problem.form_with_names if problem.seed % 2 else arguments
        other = problem.fitted(other_form)
        check_predictions(system, arguments, identifier)
        check_exports(system, arguments, identifier)
    check_warnings(caught)
    check_graph(system, arguments, identifier)
    check_graph(system, other_form, other)
    check_predictions(system, other_form, other)
    check_score(arguments, identifier)
    expected = results(arguments, identifier)
    if other_form is arguments:
        assert results(arguments, other) == expected
    assert results(arguments, pickle.loads(pickle.dumps(identifier))) == expected
    assert [contents(argument) for argument in given] == before


def chosen_seeds():
    chosen = os.environ.get("SKLEARN_GRAPHID_FUZZ")
    if chosen is None:
        longer = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(N_QUICK, N_ALL)]
        return [*range(N_QUICK), *longer]
    first, _, last = chosen.rpartition(":")
    return range(int(first or 0), int(last))


@pytest.mark.parametrize("seed", chosen_seeds())
def test_random_problem(seed):
    problem = Problem(seed)
    try:
        check(problem)
    except Exception as error:
        line = f"SKLEARN_GRAPHID_FUZZ={seed}:{seed + 1} pytest -n 0 tests/test_fuzz.py"
        error.add_note(f"seed {seed}, again with: {line}\n{problem}")
        raise
