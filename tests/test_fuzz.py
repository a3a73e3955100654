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
from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import linalg, sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, StochasticBlockPrior, identifiers, load_prior
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter

# A problem takes about a quarter of a second: 13 s for those of every run, 40 s more for those of `make test`.
N_QUICK, N_ALL = 50, 200
SHIPPED_PRIOR = load_prior("deezer-ego-nets")


def pick(rng, *choices):
    """One of the choices; `rng.choice` would turn them into an array."""
    return choices[rng.integers(len(choices))]


# The system -----------------------------------------------------------------------------------------------------------


def saturating(adjacency, theta):
    """A filter of the user's, for one matrix or a batch of them."""
    identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
    first, second = theta[..., 0, None, None], theta[..., 1, None, None]
    return identity + first * adjacency + second * torch.tanh(adjacency @ adjacency)


def filter_matrix(filter, adjacency, theta):
    """h(A) in numpy, written from the definitions."""
    if isinstance(filter, PolynomialFilter):
        return sum(c * np.linalg.matrix_power(adjacency, power) for power, c in enumerate(theta))
    if isinstance(filter, HeatDiffusionFilter):
        degrees = adjacency.sum(0)
        laplacian = np.diag(degrees) - adjacency
        if filter.laplacian == "normalized":
            laplacian = laplacian / np.sqrt(np.outer(degrees.clip(1), degrees.clip(1)))
        return linalg.expm(-theta[0] * laplacian)
    if isinstance(filter, ARMAFilter):
        numerator, denominator = theta[: filter.ma_order + 1], [1.0, *theta[filter.ma_order + 1 :]]
        parts = [filter_matrix(PolynomialFilter(), adjacency, part) for part in (denominator, numerator)]
        return np.linalg.solve(*parts)
    return np.eye(len(adjacency)) + theta[0] * adjacency + theta[1] * np.tanh(adjacency @ adjacency)


def draw_filter(rng, adjacency):
    """A filter, and parameters for which it does not amplify much."""
    degree = max(1.0, adjacency.sum(0).max())
    kind = pick(rng, "polynomial", "polynomial", "heat", "heat", "arma", "callable")
    if kind == "heat":
        return HeatDiffusionFilter(pick(rng, "combinatorial", "normalized")), rng.uniform(0.05, 2.0, 1)
    if kind == "callable":
        limits = pick(rng, None, ((-2.0, 2.0), (-2.0, 2.0)))
        filter = CallableFilter(saturating, ("first", "second"), limits, batched=bool(rng.integers(2)))
        return filter, rng.uniform(-1, 1, 2) / degree
    order = int(rng.integers(5))
    coefficients = rng.uniform(-1, 1, order + 1) / degree ** np.arange(order + 1)
    if kind == "polynomial":
        return PolynomialFilter(order), coefficients
    ar_order = int(rng.integers(1, 3))
    denominator = rng.uniform(-0.4, 0.4, ar_order) / degree ** np.arange(1, ar_order + 1)
    order = min(order, 2)
    return ARMAFilter(ar_order, order), np.concatenate([coefficients[: order + 1], denominator])


def draw_adjacency(rng, n_nodes):
    share = pick(rng, 0.0, 0.1, 0.3, 0.5, 1.0)  # few edges leave the graph disconnected
    upper = np.triu(rng.random((n_nodes, n_nodes)) < share, 1)
    return (upper | upper.T).astype(float)


def draw_inputs(rng, n_experiments, n_nodes):
    shape = n_experiments, n_nodes
    inputs = pick(
        rng,
        rng.standard_normal(shape),
        rng.uniform(-1, 1, shape),
        np.eye(n_nodes)[rng.integers(n_nodes, size=shape[0])],
    )
    node = rng.integers(n_nodes)
    change = pick(rng, "", "", "", "zero", "constant", "repeated", "same")
    if change in ("zero", "constant"):
        inputs[:, node] = float(change == "constant")
    elif change:
        inputs = inputs[rng.integers(n_experiments if change == "repeated" else 1, size=n_experiments)]
    return inputs


def draw_outputs(rng, clean, observed):
    """Outputs at the observed nodes, with noise and gaps; nan elsewhere. The noise level too."""
    signal = np.sqrt(np.mean(clean**2)) or 1.0
    noise_std = signal * pick(rng, 0.0, 1e-3, 0.1, 1.0, 10.0)
    outputs = clean + noise_std * rng.standard_normal(clean.shape)
    if rng.random() < 0.15:
        outputs[:, rng.integers(clean.shape[1])] = pick(rng, 0.0, signal)
    missing = rng.random(clean.shape) < pick(rng, 0.0, 0.0, 0.2, 0.6)
    if rng.random() < 0.1:
        missing[:, rng.integers(clean.shape[1])] = True
    if rng.random() < 0.1:
        missing[rng.integers(len(clean))] = True
    missing[rng.integers(len(clean)), observed[0]] = False
    missing[:, np.setdiff1d(np.arange(clean.shape[1]), observed)] = True
    return np.where(missing, np.nan, outputs), noise_std


@dataclass
class RandomSystem:
    """Everything in one order of the nodes, that of `names`."""

    names: list
    adjacency: np.ndarray
    is_known: np.ndarray
    filter: object
    X: np.ndarray
    Y: np.ndarray  # nan where nothing was measured
    observed: np.ndarray
    noise_std: float
    dtype: type

    @classmethod
    def draw(cls, rng):
        n_nodes, n_experiments = int(rng.integers(1, 13)), int(rng.integers(1, 16))
        adjacency = draw_adjacency(rng, n_nodes)
        filter, theta = draw_filter(rng, adjacency)
        unit = 10.0 ** pick(rng, 0, 0, 0, rng.integers(-12, 13), -12, 12)
        dtype = pick(rng, np.float64, np.float64, np.float32)
        X = (unit * draw_inputs(rng, n_experiments, n_nodes)).astype(dtype).astype(float)
        observed = np.arange(n_nodes)
        if rng.random() < 0.4:
            n_observed = int(rng.integers(1, n_nodes + 1))
            observed = pick(rng, observed[:n_observed], np.sort(rng.permutation(n_nodes)[:n_observed]))
        Y, noise_std = draw_outputs(rng, X @ filter_matrix(filter, adjacency, theta).T, observed)
        while 0 < np.nanmax(np.abs(Y)) < 1e-14:  # identifiers that sample refuse outputs below 1e-15
            X, Y, noise_std = 1024 * X, 1024 * Y, 1024 * noise_std
        upper = np.triu(rng.random(adjacency.shape) < pick(rng, 0.0, 0.3, 0.6, 1.0), 1)
        return cls(
            draw_names(rng, n_nodes),
            adjacency,
            upper | upper.T | np.eye(n_nodes, dtype=bool),
            filter,
            X,
            Y.astype(dtype).astype(float),
            observed,
            noise_std,
            dtype,
        )

    @property
    def n_nodes(self):
        return len(self.names)

    @property
    def partial(self):
        return np.where(self.is_known, self.adjacency, np.nan)


def draw_names(rng, n_nodes):
    letters = [f"node {letter}" for letter in "qwertyuiopas"]
    text = pick(rng, letters, [str(number) for number in range(12)], list(range(12)), list(range(10, 22)))
    return text[:n_nodes]


# How it is passed -----------------------------------------------------------------------------------------------------


@dataclass
class Arguments:
    """What a user passes, and which node of the system each column of X and Y is."""

    X: object
    Y: object
    known: dict
    parameters: dict
    x_nodes: np.ndarray
    y_nodes: np.ndarray
    description: str


def in_order(matrix, order):
    return matrix[np.ix_(order, order)]


def as_frame(rng, values, names, kind):
    """A frame with these columns; polars knows names that are text only, and has nulls beside nan."""
    if kind == "polars":
        frame = pl.DataFrame({str(name): column for name, column in zip(names, values.T, strict=True)})
        return frame.fill_nan(None) if rng.random() < 0.5 else frame
    frame = pd.DataFrame(values, columns=names, index=rng.permutation(len(values)))
    return frame.astype("Float64") if kind == "nullable" else frame


def as_container(rng, values, kind):
    if kind == "list":
        return values.tolist()
    if kind == "masked":
        return np.ma.masked_array(np.where(np.isnan(values), 99.0, values), mask=np.isnan(values))
    values = np.asfortranarray(values) if kind == "fortran" else values.copy()
    values.flags.writeable = False
    return values


def present_outputs(rng, system, x_nodes, x_named):
    """Y, the value of observed_nodes, the node of each column, and a word on how."""
    observed, names = rng.permutation(system.observed), system.names
    place_in_x = {node: place for place, node in enumerate(x_nodes)}
    is_leading = set(x_nodes[: len(observed)]) == set(observed)
    ways = ["numbers"] + ["columns"] * 3 * x_named + ["names"] * (x_named and isinstance(names[0], str))
    way = pick(rng, *ways, *["leading"] * 2 * is_leading)
    if way == "leading":
        observed = x_nodes[: len(observed)]
        given = pick(rng, "auto", "leading", *["all"] * (len(observed) == len(names)))
    elif way == "columns":
        given = "auto"
    else:
        given = [int(place_in_x[node]) for node in observed] if way == "numbers" else [names[node] for node in observed]
    values = system.Y[:, observed].astype(system.dtype)
    is_flat = len(observed) == 1 and rng.random() < 0.6
    if way == "columns":
        kind = pick(rng, "pandas", "nullable", "polars")
        Y = as_frame(rng, values, [names[node] for node in observed], kind)
        if is_flat and kind != "polars":
            Y = Y.iloc[:, 0]
    else:
        kind = pick(rng, "array", "list", "masked", "fortran")
        Y = as_container(rng, values[:, 0] if is_flat else values, kind)
    return Y, given, observed, f"Y {kind} by {way}{', flat' if is_flat else ''}"


def one_direction_lost(rng, matrix):
    """nan at one of the two entries of some pairs."""
    lost = np.triu(rng.random(matrix.shape) < 0.5) * (rng.random() < 0.5)
    return np.where(lost, np.nan, matrix)


def known_graph(names, mask, adjacency):
    """A graph of the known edges, and the pairs that are known to have none."""
    graph = nx.Graph()
    graph.add_nodes_from(names)
    known = [(names[i], names[j], adjacency[i, j]) for i, j in np.argwhere(np.triu(mask, 1))]
    graph.add_edges_from((first, second) for first, second, is_edge in known if is_edge)
    return graph, [(first, second) for first, second, is_edge in known if not is_edge]


def present_known(rng, system, x_nodes, x_named):
    """Keyword arguments of fit, and a word on how."""
    if system.is_known.sum() == system.n_nodes and rng.random() < 0.5:
        return {}, "nothing"
    # Where X has no names, the order is all there is.
    order = rng.permutation(system.n_nodes) if x_named else x_nodes
    names = [system.names[node] for node in order]
    mask, adjacency = in_order(system.is_known, order), in_order(system.adjacency, order)
    edges, absent = known_graph(names, mask, adjacency)
    odd_values = np.where(mask, adjacency, pick(rng, 0.0, np.nan, 7.0))
    frame = pd.DataFrame(one_direction_lost(rng, np.where(mask, adjacency, np.nan)), index=names, columns=names)
    frame = frame.iloc[rng.permutation(len(names))] if x_named else frame
    x_mask, x_adjacency = in_order(system.is_known, x_nodes), in_order(system.adjacency, x_nodes)
    np.fill_diagonal(x_mask, False)
    x_partial = one_direction_lost(rng, in_order(system.partial, x_nodes))
    ways = {
        "KnownEdges": lambda: {"known_mask": KnownEdges(mask, odd_values, names)},
        "KnownEdges without names": lambda: {"known_mask": KnownEdges.from_array(x_partial)},
        "nan array": lambda: {"known_mask": as_container(rng, x_partial, pick(rng, "array", "list", "masked"))},
        "frame": lambda: {"known_mask": frame},
        "mask and array": lambda: {"known_mask": x_mask, "known_adjacency": x_adjacency},
        "mask and sparse": lambda: {"known_mask": x_mask, "known_adjacency": sparse.csr_array(x_adjacency)},
        "mask and graph": lambda: {"known_mask": x_mask, "known_adjacency": edges},
        "mask frame and frame": lambda: {
            "known_mask": pd.DataFrame(mask, names, names),
            "known_adjacency": pd.DataFrame(odd_values, names, names),
        },
        "graph with absent pairs": lambda: {
            "known_mask": KnownEdges.from_networkx(edges, absent=absent, nodes=pick(rng, None, names))
        },
        "edge list": lambda: {
            "known_mask": KnownEdges.from_pandas_edgelist(edge_table(rng, edges, absent), nodes=names)
        },
    }
    way = pick(rng, *ways)
    return ways[way](), way


def edge_table(rng, edges, absent):
    rows = [(*pair, True) for pair in edges.edges] + [(*pair, False) for pair in absent]
    table = pd.DataFrame(rows, columns=["source", "target", "present"])
    return table.sample(frac=1.0, random_state=int(rng.integers(99)))


def present(rng, system, x_named):
    x_nodes = rng.permutation(system.n_nodes) if x_named else np.arange(system.n_nodes)
    if rng.random() < 0.2 and x_named:  # the measured nodes first
        x_nodes = np.concatenate([system.observed, np.setdiff1d(x_nodes, system.observed)])
    x_names = [system.names[node] for node in x_nodes]
    values = system.X[:, x_nodes].astype(system.dtype)
    x_kind = pick(rng, "pandas", "polars") if x_named else pick(rng, "array", "list", "fortran")
    X = as_frame(rng, values, x_names, x_kind) if x_named else as_container(rng, values, x_kind)
    Y, observed_nodes, y_nodes, y_kind = present_outputs(rng, system, x_nodes, x_named)
    known, known_kind = present_known(rng, system, x_nodes, x_named)
    description = f"X {x_kind}; {y_kind}; known part as {known_kind}"
    return Arguments(X, Y, known, {"observed_nodes": observed_nodes}, x_nodes, y_nodes, description)


# Who identifies it ----------------------------------------------------------------------------------------------------


def draw_identifier(rng, system):
    """An unfitted identifier whose run is short."""
    sampling = [identifiers.LangevinSystemIdentifier] * 5 + [identifiers.LikelihoodLangevinIdentifier] * 2
    others = [identifiers.AdamSystemIdentifier, identifiers.RidgeSystemIdentifier, identifiers.RobustFilterIdentifier]
    kind = pick(rng, *sampling, *others, identifiers.GraphicalLassoIdentifier, identifiers.SmoothSignalIdentifier)
    if kind in sampling:
        return kind(system.filter, **sampling_settings(rng, system), random_state=int(rng.integers(1000)))
    if kind is identifiers.AdamSystemIdentifier:
        rates = {"learning_rate": pick(rng, 0.01, 0.3), "l1_penalty": pick(rng, 0.0, 1.0)}
        n_iterations = int(rng.integers(1, 20))
        return kind(system.filter, **rates, n_iterations=n_iterations, random_state=int(rng.integers(1000)))
    settings = {"threshold": pick(rng, None, None, 0.0, 0.5, 1.0)}
    if kind is identifiers.GraphicalLassoIdentifier:
        settings |= {"alpha": pick(rng, None, 0.3), "assume_centered": bool(rng.integers(2))}
    elif kind is identifiers.RobustFilterIdentifier:
        settings |= {"max_iter": int(rng.integers(1, 4)), "shift": pick(rng, "auto", "adjacency", "laplacian")}
        settings |= {"alpha": pick(rng, 0.0, 10.0), "reweighted": bool(rng.integers(2))}
    elif kind is identifiers.SmoothSignalIdentifier:
        settings |= {"beta": pick(rng, 0.01, 0.3, 3.0)}
    else:
        settings |= {"alpha": pick(rng, 1e-6, 10.0)}
    return kind(system.filter, **settings)


def sampling_settings(rng, system):
    scale = float(np.sqrt(np.nanmean(system.Y**2))) or float(np.abs(system.X).max()) or 1.0
    true_noise = max(system.noise_std, 1e-2 * scale, 1e-15)  # the smallest that is accepted
    settings = {
        "n_sweeps": pick(rng, 0, 1, 5),
        "n_chains": int(rng.integers(1, 6)),
        **pick(rng, {"n_levels": 1, "n_steps": 2}, {"n_levels": 2, "n_steps": 1}, {"n_levels": 4, "n_steps": 1}),
        "noise_std": pick(rng, None, None, true_noise, max(0.1 * true_noise, 1e-15), 10 * true_noise),
        "temperature": pick(rng, 1.0, 1.0, 0.1, 5.0),
        "point_estimate": pick(rng, "marginal", "sample", "best"),
    }
    if rng.random() < 0.3:
        settings |= {"step_size": pick(rng, None, 1e-6), "theta_learning_rate": pick(rng, None, 0.01)}
    return settings


@dataclass
class Beliefs:
    """What is believed of the graph before the data are seen, in the system's order of nodes."""

    kind: str
    density: float
    groups: np.ndarray
    edge_prior: np.ndarray | None = field(repr=False)

    @classmethod
    def draw(cls, rng, n_nodes):
        kind = pick(rng, "none", "density", "blocks", "learned")
        upper = np.triu(rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], (n_nodes, n_nodes)), 1)
        edge_prior = upper + upper.T + np.diag([pick(rng, 0.0, np.nan)] * n_nodes) if rng.random() < 0.4 else None
        return cls(kind, float(rng.uniform(0.01, 0.99)), rng.integers(2, size=n_nodes), edge_prior)

    def parameters(self, rng, system, arguments):
        """Arguments of the constructor; labels go by the columns of X, an edge prior by names or columns."""
        order, is_named = arguments.x_nodes, hasattr(arguments.X, "columns")
        prior = {
            "none": None,
            "density": ErdosRenyiPrior(self.density),
            "blocks": StochasticBlockPrior(self.groups[order], [[0.7, self.density], [self.density, 0.2]]),
            "learned": SHIPPED_PRIOR,
        }[self.kind]
        if self.edge_prior is None:
            return {"prior": prior}
        edge_prior = in_order(self.edge_prior, order)
        if is_named and rng.random() < 0.5:
            order = rng.permutation(system.n_nodes)
            names = [system.names[node] for node in order]
            edge_prior = pd.DataFrame(in_order(self.edge_prior, order), names, names)
        return {"prior": prior, "edge_prior": edge_prior}


# What must hold -------------------------------------------------------------------------------------------------------


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


def denominator(identifier):
    """The matrix that an ARMA filter divides by; the identity for the others."""
    is_rational = isinstance(identifier.filter_, ARMAFilter)
    coefficients = identifier.theta_[identifier.filter_.ma_order + 1 :] if is_rational else []
    return filter_matrix(PolynomialFilter(), identifier.adjacency_.astype(float), [1.0, *coefficients])


def check_predictions(system, arguments, identifier):
    """The outputs of the graph and theta that were found, in the form of Y."""
    predicted = identifier.predict(arguments.X)
    assert predicted.shape == np.shape(arguments.Y)
    assert np.isfinite(predicted).all()
    matrix = filter_matrix(identifier.filter_, identifier.adjacency_.astype(float), identifier.theta_)
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
    graphs, thetas = identifier.sample(7, random_state=0)
    assert graphs.shape == (7, system.n_nodes, system.n_nodes)
    assert np.isin(graphs, (0, 1)).all()
    assert np.isfinite(thetas).all()
    for graph in graphs:
        np.testing.assert_array_equal(graph, graph.T)
        np.testing.assert_array_equal(graph[known], in_order(system.adjacency, order)[known])
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
