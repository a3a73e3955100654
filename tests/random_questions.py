"""Random forms in which a system may be passed, and random identifiers to ask."""

from __future__ import annotations

from dataclasses import dataclass, field

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
from random_systems import pick
from scipy import sparse

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, StochasticBlockPrior, identifiers, load_prior

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
        rates |= {"edge_weights": pick(rng, "binary", "positive"), "n_iterations": int(rng.integers(1, 20))}
        return kind(system.filter, **rates, random_state=int(rng.integers(1000)))
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
