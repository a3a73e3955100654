"""Random forms in which a system may be passed, and random identifiers to ask."""

from __future__ import annotations

from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
from random_systems import pick
from scipy import sparse
from sklearn.base import clone

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, StochasticBlockPrior, identifiers, load_prior
from sklearn_graphid.filters import PolynomialFilter, SteadyStateFilter

SHIPPED_PRIOR = load_prior("deezer-ego-nets")


def in_order(matrix, order):
    return matrix[np.ix_(order, order)]


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


def as_frame(rng, values, names, kind, labels=None):
    """A frame with these columns; polars knows names that are text only, and has nulls beside nan.

    Rows are labelled at random, or with these labels, and are then in another order.
    """
    if kind == "polars":
        frame = pl.DataFrame({str(name): column for name, column in zip(names, values.T, strict=True)})
        return frame.fill_nan(None) if rng.random() < 0.5 else frame
    frame = pd.DataFrame(values, columns=names, index=rng.permutation(len(values)) if labels is None else labels)
    frame = frame if labels is None else frame.iloc[rng.permutation(len(values))]
    return frame.astype("Float64") if kind == "nullable" else frame


def as_container(rng, values, kind):
    if kind == "list":
        return values.tolist()
    if kind == "masked":
        return np.ma.masked_array(np.where(np.isnan(values), 99.0, values), mask=np.isnan(values))
    values = np.asfortranarray(values) if kind == "fortran" else values.copy()
    values.flags.writeable = False
    return values


def present_outputs(rng, system, x_nodes, X):
    """Y, the value of observed_nodes, the node of each column, and a word on how."""
    x_named, labels = hasattr(X, "columns"), getattr(X, "index", None)  # lists have a method of this name
    labels = labels if isinstance(labels, pd.Index) else None
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
        has_integers = x_named and isinstance(next(iter(X.columns)), int)  # which are then names
        is_by_place = way == "numbers" and not has_integers
        given = [int(place_in_x[node]) if is_by_place else names[node] for node in observed]
    values = system.Y[:, observed].astype(system.dtype)
    is_flat = len(observed) == 1 and rng.random() < 0.6
    if way == "columns":
        kind = pick(rng, "pandas", "nullable", "polars")
        Y = as_frame(rng, values, [names[node] for node in observed], kind, labels)
        if is_flat and kind != "polars":
            Y = Y.iloc[:, 0]
    else:
        kind = pick(rng, "array", "list", "masked", "fortran")
        Y = as_container(rng, values[:, 0] if is_flat else values, kind)
    return Y, given, observed, f"Y {kind} by {way}{', flat' if is_flat else ''}"


def known_graph(system, order):
    """A graph of the known edges, with the strengths that are told, and the pairs that are known to have none.

    In a directed graph the entry in row i and column j is the edge from j to i.
    """
    names, weights = [system.names[node] for node in order], system.given_weights
    graph, absent = nx.DiGraph() if system.directed else nx.Graph(), []
    graph.add_nodes_from(names)
    for i, j in np.argwhere(in_order(system.is_known, order)):
        row, column = order[i], order[j]
        pair = names[j], names[i]
        if i == j or (not system.directed and i > j):
            continue
        if not system.adjacency[row, column]:
            absent.append(pair)
        elif weights is None or np.isnan(weights[row, column]):
            graph.add_edge(*pair)
        else:
            graph.add_edge(*pair, weight=float(weights[row, column]))
    return graph, absent


def present_known(rng, system, x_nodes, x_named):
    """Keyword arguments of fit, and a word on how."""
    if system.is_known.sum() == system.n_nodes and rng.random() < 0.5:
        return {}, "nothing"
    # Where X has no names, the order is all there is.
    order = rng.permutation(system.n_nodes) if x_named else x_nodes
    names = [system.names[node] for node in order]
    ways = ways_with_strengths(rng, system, order, names)
    if system.given_weights is None:
        ways |= ways_without_strengths(rng, system, x_nodes, x_named, order, names)
    way = pick(rng, *ways)
    return ways[way](), way


def ways_with_strengths(rng, system, order, names):
    mask, adjacency, directed = in_order(system.is_known, order), in_order(system.adjacency, order), system.directed
    odd_values = np.where(mask, adjacency, pick(rng, 0.0, np.nan, 7.0))
    edges, absent = known_graph(system, order)
    weights, weight = None, None
    if system.given_weights is not None:
        weights, weight = in_order(system.given_weights, order), "weight"
    return {
        "KnownEdges": lambda: {"known_mask": KnownEdges(mask, odd_values, names, weights, directed)},
        "graph with absent pairs": lambda: {
            "known_mask": KnownEdges.from_networkx(edges, absent=absent, nodes=pick(rng, None, names), weight=weight)
        },
        "edge list": lambda: {
            "known_mask": KnownEdges.from_pandas_edgelist(
                edge_table(rng, edges, absent), nodes=names, weight=weight, directed=directed
            )
        },
    }


def ways_without_strengths(rng, system, x_nodes, x_named, order, names):
    mask, adjacency, directed = in_order(system.is_known, order), in_order(system.adjacency, order), system.directed
    odd_values, partial = np.where(mask, adjacency, pick(rng, 0.0, np.nan, 7.0)), np.where(mask, adjacency, np.nan)
    x_mask, x_adjacency = in_order(system.is_known, x_nodes), in_order(system.adjacency, x_nodes)
    np.fill_diagonal(x_mask, False)
    x_partial = in_order(system.partial, x_nodes)
    frame = pd.DataFrame(partial, index=names, columns=names)
    frame = frame.iloc[rng.permutation(len(names))] if x_named else frame
    edges, _ = known_graph(system, order)
    return {
        "KnownEdges without names": lambda: {"known_mask": KnownEdges.from_array(x_partial, directed=directed)},
        "nan array": lambda: {"known_mask": as_container(rng, x_partial, pick(rng, "array", "list", "masked"))},
        "frame": lambda: {"known_mask": frame},
        "mask and array": lambda: {"known_mask": x_mask, "known_adjacency": x_adjacency},
        "mask and sparse": lambda: {"known_mask": x_mask, "known_adjacency": sparse.csr_array(x_adjacency)},
        "mask and graph": lambda: {"known_mask": x_mask, "known_adjacency": edges},
        "mask frame and frame": lambda: {
            "known_mask": pd.DataFrame(mask, names, names),
            "known_adjacency": pd.DataFrame(odd_values, names, names),
        },
    }


def edge_table(rng, edges, absent):
    rows = [(*pair, True, weight) for *pair, weight in edges.edges(data="weight", default=np.nan)]
    rows += [(*pair, False, np.nan) for pair in absent]
    table = pd.DataFrame(rows, columns=["source", "target", "present", "weight"])
    return table.sample(frac=1.0, random_state=int(rng.integers(99)))


def present(rng, system, x_named):
    x_nodes = rng.permutation(system.n_nodes) if x_named else np.arange(system.n_nodes)
    if rng.random() < 0.2 and x_named:  # the measured nodes first
        x_nodes = np.concatenate([system.observed, np.setdiff1d(x_nodes, system.observed)])
    x_names = [system.names[node] for node in x_nodes]
    values = system.X[:, x_nodes].astype(system.dtype)
    x_kind = pick(rng, "pandas", "polars") if x_named else pick(rng, "array", "list", "fortran")
    X = as_frame(rng, values, x_names, x_kind) if x_named else as_container(rng, values, x_kind)
    Y, observed_nodes, y_nodes, y_kind = present_outputs(rng, system, x_nodes, X)
    known, known_kind = present_known(rng, system, x_nodes, x_named)
    description = f"X {x_kind}; {y_kind}; known part as {known_kind}"
    filter = filter_for_columns(rng, system, x_nodes, node_names(X, known))
    parameters = {"observed_nodes": observed_nodes, "filter": filter}
    return Arguments(X, Y, known, parameters, x_nodes, y_nodes, description)


def node_names(X, known):
    """Names of the nodes, as columns of X have them or else the known part has; None where neither has."""
    if hasattr(X, "columns"):
        return list(X.columns)
    for part in known.values():
        if isinstance(part, nx.Graph):
            return list(part.nodes)
        names = part.names if isinstance(part, KnownEdges) else getattr(part, "columns", None)
        if names is not None:
            return list(names)
    return None


def filter_for_columns(rng, system, x_nodes, names):
    """The filter, with the grounded node by its name or as the number of its column."""
    filter = system.filter
    if getattr(filter, "ground", None) is None:
        return filter
    name = system.names[filter.ground]
    if names is not None and (isinstance(names[0], int | np.integer) or (name in names and rng.random() < 0.5)):
        return clone(filter).set_params(ground=name)
    return clone(filter).set_params(ground=list(x_nodes).index(filter.ground))


# Who identifies it ----------------------------------------------------------------------------------------------------


SAMPLING = identifiers.LangevinSystemIdentifier, identifiers.LikelihoodLangevinIdentifier
LINEAR = identifiers.ConstrainedLeastSquaresIdentifier


def kinds_of_identifiers(system):
    """Those that can be asked about a system: not all know directions, strengths or all filters."""
    sampling = [SAMPLING[0]] * 8 + [SAMPLING[1]] * 2
    if system.given_weights is not None or system.filter.fixed:
        return sampling
    if system.directed:
        return [*sampling, identifiers.AdamSystemIdentifier]
    others = [identifiers.AdamSystemIdentifier, identifiers.RidgeSystemIdentifier, identifiers.RobustFilterIdentifier]
    others += [identifiers.GraphicalLassoIdentifier, identifiers.SmoothSignalIdentifier]
    return [*sampling, *others, *[LINEAR] * has_linear_equations(system.filter)]


def has_linear_equations(filter):
    if isinstance(filter, PolynomialFilter):
        return filter.order == 1 and filter.shift != "normalized-laplacian"
    return isinstance(filter, SteadyStateFilter)


def draw_identifier(rng, system):
    """An unfitted identifier whose run is short."""
    kind = pick(rng, *kinds_of_identifiers(system))
    if kind in SAMPLING:
        return kind(system.filter, **sampling_settings(rng, system), random_state=int(rng.integers(1000)))
    if kind is identifiers.AdamSystemIdentifier:
        rates = {"learning_rate": pick(rng, 0.01, 0.3), "alpha": pick(rng, 0.0, 1.0)}
        rates |= {"edge_weights": pick(rng, "binary", "positive"), "max_iter": int(rng.integers(1, 20))}
        rates |= {"directed": system.directed, "threshold": pick(rng, 0.5, 0.5, 0.1, 0.9)}
        return kind(system.filter, **rates, random_state=int(rng.integers(1000)))
    settings = {"threshold": pick(rng, None, None, 0.0, 0.5, 1.0)}
    if kind is identifiers.GraphicalLassoIdentifier:
        settings |= {"alpha": pick(rng, None, 0.3), "assume_centered": bool(rng.integers(2))}
    elif kind is identifiers.RobustFilterIdentifier:
        settings |= {"max_iter": int(rng.integers(1, 4)), "shift": pick(rng, "auto", "adjacency", "laplacian")}
        settings |= {"alpha": pick(rng, 0.0, 10.0), "reweighted": bool(rng.integers(2))}
        settings |= {"commutation_penalty": pick(rng, 0.1, 10.0), "guess_penalty": pick(rng, 0.0, 0.1, 1.0)}
    elif kind is identifiers.SmoothSignalIdentifier:
        settings |= {"beta": pick(rng, 0.01, 0.3, 3.0), "alpha": pick(rng, 0.1, 1.0)}
    elif kind is LINEAR:
        settings |= {"edge_weights": pick(rng, "positive", "signed"), "n_reweightings": int(rng.integers(4))}
    else:
        settings |= {"alpha": pick(rng, 1e-6, 10.0)}
    return kind(system.filter, **settings)


def kinds_of_edges(system):
    """Values of `edge_weights` that go with the filter, and with the strengths that are told."""
    given = system.given_weights
    signed = ["signed"] * system.filter.allows_negative_strengths
    if given is None:
        return ["binary", "binary", "positive", *signed]
    return signed if np.nanmin(given) < 0 else ["positive", *signed]


def sampling_settings(rng, system):
    edge_weights = pick(rng, *kinds_of_edges(system))
    scale = float(np.sqrt(np.nanmean(system.Y**2))) or float(np.abs(system.X).max()) or 1.0
    true_noise = max(system.noise_std, 1e-2 * scale, 1e-15)  # the smallest that is accepted
    settings = {
        "edge_weights": edge_weights,
        "directed": system.directed,
        "n_sweeps": pick(rng, 1, 1, 2, 5),
        "n_chains": int(pick(rng, 1, rng.integers(1, 6))),
        **pick(rng, {"n_levels": 1, "n_steps": 2}, {"n_levels": 2, "n_steps": 1}, {"n_levels": 4, "n_steps": 1}),
        "noise_std": pick(rng, None, None, "per-node", true_noise, max(0.1 * true_noise, 1e-15), 10 * true_noise),
        "input_noise_std": pick(rng, None, None, None, max(0.1 * scale, 1e-15)),
        "point_estimate": pick(rng, "marginal", "marginal", "f1", "sample", "best"),
        "prior_trust": pick(rng, "sample", "sample", 0.0, 0.5, 1.0),
        "warm_start": bool(rng.integers(2)),
        "n_jobs": pick(rng, None, 1, 2),  # few chains are one batch, which runs here
        "device": pick(rng, "cpu", "auto"),
        "verbose": pick(rng, "auto", False),
    }
    if rng.random() < 0.3:
        settings |= {"step_size": pick(rng, None, 1e-6), "theta_learning_rate": pick(rng, None, 0.01)}
        settings |= pick(rng, {"sigma_max": 0.5, "sigma_min": 0.5}, {"sigma_max": 1.5}, {"sigma_min": 0.01})
    if edge_weights == "binary":  # sweeps are what samples strengths, and at no temperature but one
        settings["temperature"] = pick(rng, 1.0, 1.0, 0.1, 5.0)
        if rng.random() < 0.3:
            settings |= {"n_sweeps": 0, "warm_start": False}
    return settings | measurement_settings(rng, system, settings)


def measurement_settings(rng, system, settings):
    """Offsets and outliers, where these outputs and the other settings allow for them."""
    is_binary, is_measured = settings["edge_weights"] == "binary", np.isfinite(system.Y)
    is_whole = is_measured.all(0) | ~is_measured.any(0)
    allows_offsets = is_measured.sum(0).max() >= 2 and (is_binary or is_whole.all())
    allows_outliers = is_binary and settings["n_sweeps"] > 0
    return {
        "fit_intercept": bool(allows_offsets and rng.integers(3) == 0),
        "noise_distribution": pick(rng, "gaussian", "gaussian", "student-t") if allows_outliers else "gaussian",
    }


def noise_at_nodes(rng, system, arguments):
    """Noise levels of the nodes, in the order of the columns of X or by name."""
    levels = max(system.noise_std, 1e-3 * np.abs(system.X).max(), 1e-14) * (1.0 + np.arange(system.n_nodes))
    levels = levels[arguments.x_nodes]
    if not hasattr(arguments.X, "columns"):
        return levels
    names = [system.names[node] for node in arguments.x_nodes]
    shuffled = rng.permutation(system.n_nodes)
    return pd.Series(levels[shuffled], [names[place] for place in shuffled])


@dataclass
class Beliefs:
    """What is believed of the graph before the data are seen, in the system's order of nodes."""

    kind: str
    density: float
    groups: np.ndarray
    edge_prior: np.ndarray | None = field(repr=False)

    @classmethod
    def draw(cls, rng, n_nodes, directed):
        kind = pick(rng, "none", "density", "blocks", *["learned"] * (not directed))
        drawn = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], (n_nodes, n_nodes))
        off_diagonal = drawn * (1 - np.eye(n_nodes)) if directed else np.triu(drawn, 1) + np.triu(drawn, 1).T
        edge_prior = off_diagonal + np.diag([pick(rng, 0.0, np.nan)] * n_nodes) if rng.random() < 0.4 else None
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
