"""Random valid problems, and what must hold for every one of them, whatever the answer is.

A seed makes a system (graph with or without directions and strengths, filter, inputs, outputs with noise and gaps, a
known part), the form in which its parts are passed (arrays, lists, pandas and polars frames in any order of columns,
masks, graphs), and an identifier with settings for a short run. Combinations that are refused are not drawn. All public
methods of the fitted identifier are called.

`SKLEARN_GRAPHID_FUZZ` chooses other seeds than the default ones, by their number or by a range:

    SKLEARN_GRAPHID_FUZZ=2000 pytest tests/test_fuzz.py
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
from random_questions import SAMPLING, Beliefs, draw_identifier, in_order, noise_at_nodes, present
from random_systems import RandomSystem, conductance_matrix, filter_matrix, polynomial_matrix
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from sklearn_graphid import KnownEdges, identifiers
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, SteadyStateFilter

# A problem takes about half a second: 10 s for those of every run, 15 s more for those of `make test`.
N_QUICK, N_ALL = 20, 50


class Problem:
    """A system, the identifier that is asked, and the form of the question."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = np.random.default_rng([20, seed])
        self.system = RandomSystem.draw(self.rng)
        self.identifier = draw_identifier(self.rng, self.system)
        self.beliefs = Beliefs.draw(self.rng, self.system.n_nodes, self.system.directed)
        self.has_noise_at_nodes = isinstance(self.identifier, SAMPLING) and self.rng.random() < 0.1
        self.writes_report = self.rng.random() < 0.1  # figures take as long as all else of a few problems
        self.arguments = self.form(x_named=bool(self.rng.integers(2)))
        self.form_with_names = self.form(x_named=True)

    def form(self, x_named):
        arguments = present(self.rng, self.system, x_named)
        if type(self.identifier) is identifiers.LangevinSystemIdentifier:  # the one without a prior refuses them
            arguments.parameters |= self.beliefs.parameters(self.rng, self.system, arguments)
        if self.has_noise_at_nodes:
            arguments.parameters |= {"noise_std": noise_at_nodes(self.rng, self.system, arguments)}
        return arguments

    def fitted(self, arguments):
        identifier = clone(self.identifier).set_params(**arguments.parameters)
        return identifier.fit(arguments.X, arguments.Y, **arguments.known)

    def __str__(self):
        system = self.system
        kind = "directed" if system.directed else "undirected"
        n_told = 0 if system.given_weights is None else np.isfinite(system.given_weights).sum()
        return (
            f"{self.identifier} with {self.beliefs}\n{len(system.X)} experiments on {system.n_nodes} nodes, {kind}, "
            f"{np.isfinite(system.Y).sum()} outputs, entries: {int(system.adjacency.sum())} of edges, "
            f"{(system.is_known.sum() - system.n_nodes)} known, {n_told} strengths told; inputs up to "
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
        if not system.directed:
            np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(np.diagonal(matrix), 0)
        np.testing.assert_array_equal(matrix[known], in_order(system.adjacency, order)[known])
    assert np.isfinite(identifier.theta_).all()
    assert identifier.theta_.shape == (identifier.filter_.n_parameters(),)
    for place, value in system.filter.fixed_values().items():
        assert identifier.theta_[place] == pytest.approx(value)
    assert np.isfinite(identifier.noise_std_)
    assert identifier.noise_std_ >= 0


def matrix_of(identifier):
    """The matrix of the graph that was found: its strengths, where edges have some."""
    return np.asarray(getattr(identifier, "weights_", identifier.adjacency_), dtype=float)


def magnified_rounding(identifier):
    """By how much two ways to solve the equations of a filter may differ, relative to its largest entry."""
    filter, matrix = identifier.filter_, matrix_of(identifier)
    if isinstance(filter, ARMAFilter):
        denominator = polynomial_matrix(matrix, [1.0, *identifier.theta_[filter.ma_order + 1 :]])
        return max(1e-6, 1e-14 * np.linalg.cond(denominator))
    if isinstance(filter, HeatDiffusionFilter):  # small eigenvalues carry the rounding of the largest
        return 1e-6 + 1e-14 * identifier.theta_[0] * np.abs(matrix).sum(1).max()
    if isinstance(filter, SteadyStateFilter) and filter.leak == 0:
        # The smallest leak that makes any graph solvable, 1e-6, counts where the graph itself holds little more.
        conductance, _ = conductance_matrix(filter, matrix)
        smallest = np.sort(np.linalg.svd(conductance, compute_uv=False))[1 if filter.ground is None else 0 :]
        return 1e-6 + 1e-5 / max(smallest.min(initial=1.0), 1e-300)
    return 1e-6


def check_predictions(system, arguments, identifier):
    """The outputs of the graph and theta that were found, in the form of Y."""
    predicted = identifier.predict(arguments.X)
    assert predicted.shape == np.shape(arguments.Y)
    assert np.isfinite(predicted).all()
    tolerance = magnified_rounding(identifier)
    if tolerance > 0.1:  # the potentials of a graph that falls apart are not defined
        return
    matrix = filter_matrix(identifier.filter_, matrix_of(identifier), identifier.theta_)
    places = [list(arguments.x_nodes).index(node) for node in arguments.y_nodes]
    offsets = np.broadcast_to(identifier.intercept_, system.n_nodes)
    expected = (system.X[:, arguments.x_nodes] @ matrix.T + offsets)[:, places].reshape(predicted.shape)
    largest = max(np.abs(system.X).max() * np.abs(matrix).max(), np.abs(offsets).max())
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
        if not system.directed:
            np.testing.assert_array_equal(graph, graph.T)
        np.testing.assert_array_equal(graph[known], in_order(system.adjacency, order)[known])
    if hasattr(identifier, "weights_"):
        check_strengths(system, order, identifier, weights[0], graphs)
    network = identifier.to_networkx()
    matrix = nx.to_numpy_array(network, weight=None)
    np.testing.assert_array_equal(matrix.T if system.directed else matrix, identifier.adjacency_)
    off_diagonal = ~np.eye(system.n_nodes, dtype=bool)
    counted = off_diagonal if system.directed else np.triu(off_diagonal)
    for include_known in (False, True):
        table = identifier.to_pandas_edgelist(include_known)
        assert len(table) == (counted if include_known else counted & ~known).sum()
        assert table["probability"].between(0, 1).all()
        assert table["probability"].is_monotonic_decreasing


def check_strengths(system, order, identifier, drawn, graphs):
    """Every edge has a strength, that which was told if one was, and no other pair has."""
    assert np.isfinite(identifier.weights_).all()
    np.testing.assert_array_equal(identifier.weights_ != 0, identifier.adjacency_ == 1)
    np.testing.assert_array_equal(drawn != 0, graphs == 1)
    if identifier.edge_weights == "positive" and isinstance(identifier, SAMPLING):  # others let theta have one sign
        assert (identifier.weights_ >= 0).all()
        assert (drawn >= 0).all()
    if system.given_weights is not None:
        told = in_order(system.given_weights, order)
        is_told = np.isfinite(told)
        for matrix in (identifier.weights_, *drawn):
            np.testing.assert_allclose(matrix[is_told], told[is_told], rtol=1e-12)


def check_measurements(system, arguments, identifier):
    """An offset for every node, and for every number that was measured a probability that it is an outlier."""
    assert np.isfinite(identifier.intercept_).all()
    if not identifier.fit_intercept:
        np.testing.assert_array_equal(identifier.intercept_, 0)
    if identifier.noise_distribution != "gaussian":
        probabilities = identifier.outlier_probabilities_
        np.testing.assert_array_equal(np.isnan(probabilities), np.isnan(system.Y[:, arguments.x_nodes]))
        assert ((probabilities >= 0) & (probabilities <= 1) | np.isnan(probabilities)).all()
        assert len(identifier.suspect_outputs()) == (probabilities > 0.5).sum()


def check_posterior(system, arguments, identifier):
    """Intervals, and what to measure next."""
    if not isinstance(identifier, SAMPLING):
        assert not hasattr(identifier, "suggest_inputs")
        return
    check_draws_in_arviz(identifier)
    check_measurements(system, arguments, identifier)
    if len(identifier.theta_samples_) < 2:
        for method in ("theta_interval", "noise_std_interval", "density_interval", "suggest_inputs"):
            with pytest.raises(ValueError, match="draw"):
                getattr(identifier, method)()
        return
    for interval in (identifier.theta_interval(0.5), identifier.noise_std_interval()):
        assert (interval[..., 0] <= interval[..., 1]).all()
    low, high = identifier.density_interval()
    assert 0 <= low <= high <= 1 or not identifier.known_edges_.n_unknown
    if hasattr(identifier, "weights_"):
        low, high = np.moveaxis(identifier.weight_interval(), -1, 0)
        np.testing.assert_array_equal(low[identifier.adjacency_ == 0], 0)
        assert ((low <= high) | (np.isnan(low) & (identifier.adjacency_ == 1))).all()
    check_next_experiment(system, identifier)


def check_draws_in_arviz(identifier):
    """The noise level, theta and graph of a draw stay together, so that its log-likelihood follows from them."""
    data = identifier.to_arviz()
    posterior = data.posterior
    assert posterior["theta"].shape[:2] == posterior["noise_std"].shape == data.sample_stats["log_prior"].shape
    draws = identifier._draws
    np.testing.assert_array_equal(posterior["theta"], draws.theta)
    np.testing.assert_array_equal(posterior["edges"], draws.graphs)
    if np.ptp(identifier.noise_std_samples_) > 0:
        np.testing.assert_array_equal(posterior["noise_std"], draws.noise_std)


def check_next_experiment(system, identifier):
    """Suggestions keep within their box, and tell no less than others."""
    size = float(np.abs(system.X).max()) or 1.0
    box = {"low": -size, "high": size, "random_state": 0}
    suggested = np.asarray(identifier.suggest_inputs(2, **box))
    assert suggested.shape == (2, system.n_nodes)
    assert (np.abs(suggested) <= size * (1 + 1e-12)).all()
    single = np.asarray(identifier.suggest_inputs(max_nonzero=1, **box))
    assert np.count_nonzero(single) <= 1
    chosen = np.asarray(identifier.suggest_inputs(candidates=system.X))
    assert (chosen == system.X).all(1).any()
    nothing = np.zeros((1, system.n_nodes))
    gains = identifier.information_gain(np.concatenate([nothing, single, system.X]))
    assert np.isfinite(gains).all()
    assert (gains >= 0).all()
    assert gains[0] == 0
    n_unknown = identifier.known_edges_.n_unknown
    pairs = identifier.suggest_pairs(5)
    assert len(pairs) == min(5, n_unknown)
    assert np.isfinite(pairs["information"]).all()


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


def check(problem, folder):
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
        check_posterior(system, arguments, identifier)
        if problem.writes_report:
            assert "</html>" in identifier.report(folder / "report.html").read_text()
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
def test_random_problem(seed, tmp_path):
    problem = Problem(seed)
    try:
        check(problem, tmp_path)
    except Exception as error:
        line = f"SKLEARN_GRAPHID_FUZZ={seed}:{seed + 1} pytest -n 0 tests/test_fuzz.py"
        error.add_note(f"seed {seed}, again with: {line}\n{problem}")
        raise
