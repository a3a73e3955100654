"""Systems whose true graph is known: simulated experiments, and hidden edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._utils._libraries import is_networkx
from .._utils._numbers import (
    FloatArray,
    check_flag,
    check_integer,
    check_number,
    check_numeric,
    check_random_state,
    check_real_array,
)
from .._utils._torch import draw_seeds, seeded_generator, torch_threads
from ..filters import GraphFilter, resolve_filter
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._names import Names
from ..graphs._node_values import check_node_values
from ..graphs._validation import NamedMatrix, check_named_adjacency

__all__ = ["hide_edges", "make_system"]

# Sums and products of a few numbers of this size are still floats.
_LARGEST_SCALE = 1e300


def make_system(
    adjacency: Any,
    filter: str | GraphFilter = "polynomial",
    theta: Any = None,
    n_experiments: int = 10,
    *,
    input_scale: float = 10.0,
    noise_std: Any = 1.0,
    input_noise_std: float = 0.0,
    return_theta: bool = False,
    directed: bool = False,
    random_state: Any = None,
) -> tuple[FloatArray, ...]:
    """Simulate experiments of a process on a graph.

    Inputs are independent and uniform on [-input_scale, input_scale]. The output for an input x is h_theta(A) x plus
    independent normal noise. For a given `random_state`, the inputs do not depend on the filter, on theta or on the
    noise of the outputs.

    Parameters
    ----------
    adjacency : array, sparse matrix or networkx graph of shape (n_nodes, n_nodes)
        The graph A; its entries are the strengths of the edges, 1 for edges without a strength.
    filter : {"polynomial", "heat", "arma", "steady-state"} or filter object, default="polynomial"
        The process h.
    theta : array-like of shape (n_parameters,), default=None
        Parameters of the process, in the order of the filter's `parameter_names()`; for a polynomial, in ascending
        powers of A. If None, they are drawn like the starting values of the filter; see `return_theta`.
    n_experiments : int, default=10
        Number of experiments to simulate.
    input_scale : float, default=10.0
        Largest absolute value of an input.
    noise_std : float, or array-like or Series of shape (n_nodes,), default=1.0
        Standard deviation of the noise, one for all nodes or one for each; 0 for exact outputs. A Series is matched by
        name if the graph has node names.
    input_noise_std : float, default=0.0
        Standard deviation of the noise of the measured inputs. X contains this noise; the outputs are computed from the
        inputs without it.
    return_theta : bool, default=False
        Whether to return theta as well.
    directed : bool, default=False
        Whether the graph is directed. The edge from j to i is the entry A[i, j], so that the output of i depends on the
        input of j; the edges of a networkx.DiGraph are placed accordingly.
    random_state : int, RandomState instance or None, default=None
        Seed of the random draws.

    Returns
    -------
    X : ndarray of shape (n_experiments, n_nodes)
        Inputs as measured, one experiment in each row.
    Y : ndarray of shape (n_experiments, n_nodes)
        Outputs.
    theta : ndarray of shape (n_parameters,)
        The parameters; only if `return_theta` is True.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.datasets import make_grid_graphs, make_system
    >>> adjacency = make_grid_graphs(1, random_state=0)[0]
    >>> X, Y = make_system(adjacency, "polynomial", [0.0, 1.0, 0.0], n_experiments=5, noise_std=0, random_state=0)
    >>> X.shape
    (5, 49)
    >>> bool(np.allclose(Y, X @ adjacency))
    True
    """
    graph, names = _check_graph(adjacency, check_flag(directed, "directed"))
    process = resolve_filter(filter).for_nodes(names)
    if directed:
        process.check_directed()
    check_integer(n_experiments, "n_experiments", low=1)
    input_scale = check_number(input_scale, "input_scale", positive=True, high=_LARGEST_SCALE)
    levels = _check_noise(noise_std, len(graph), names)
    input_noise_std = check_number(input_noise_std, "input_noise_std", low=0.0, high=_LARGEST_SCALE)
    check_flag(return_theta, "return_theta")
    given = None if theta is None else _check_theta(theta, process)
    random = check_random_state(random_state)
    # The seed is drawn whether it is needed or not, so that the inputs are the same with a given theta.
    (theta_seed,) = draw_seeds(random, 1)
    parameters = _draw_theta(process, theta_seed) if given is None else given
    X = random.uniform(-input_scale, input_scale, size=(n_experiments, len(graph)))
    Y = _filtered(graph, process, parameters, X) + levels * random.standard_normal(X.shape)
    if input_noise_std:
        X = X + input_noise_std * random.standard_normal(X.shape)
    return (X, Y, parameters) if return_theta else (X, Y)


def hide_edges(
    adjacency: Any,
    fraction: float = 0.25,
    *,
    keep_weights: bool = False,
    directed: bool = False,
    random_state: Any = None,
) -> KnownEdges:
    """Hide a random part of a graph.

    Exactly `round(fraction * n_pairs)` pairs of nodes, whether edges or not, are drawn uniformly and become unknown.

    Parameters
    ----------
    adjacency : array, sparse matrix or networkx graph of shape (n_nodes, n_nodes)
        The graph. Entries other than 0 are edges.
    fraction : float, default=0.25
        Share of the pairs to hide, between 0 and 1.
    keep_weights : bool, default=False
        Whether the strengths of the known edges, the entries of `adjacency`, are known too.
    directed : bool, default=False
        Whether the graph is directed; (i, j) and (j, i) are then hidden independently.
    random_state : int, RandomState instance or None, default=None
        Seed of the random draws.

    Returns
    -------
    KnownEdges
        The known part of the graph, with the names of the nodes if they have any. It does not contain the hidden
        values.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid.datasets import hide_edges
    >>> hide_edges(nx.cycle_graph(5), fraction=0.4, random_state=0)
    KnownEdges(n_nodes=5, known=6 of 10 pairs)
    >>> hide_edges(nx.DiGraph([(0, 1), (1, 2)]), fraction=0.5, directed=True, random_state=0)
    KnownEdges(n_nodes=3, known=3 of 6 ordered pairs)
    """
    graph, names = _check_graph(adjacency, check_flag(directed, "directed"))
    check_flag(keep_weights, "keep_weights")
    fraction = check_number(fraction, "fraction", low=0.0, high=1.0)
    pairs, mask = EdgeSpace.complete(len(graph), directed), np.ones(graph.shape, dtype=bool)
    hidden = check_random_state(random_state).permutation(pairs.n_free)[: round(fraction * pairs.n_free)]
    pairs.select(hidden).write(mask, False)
    return KnownEdges(mask, graph != 0, names, graph if keep_weights else None, directed)


def _check_graph(adjacency: Any, directed: bool) -> NamedMatrix:
    if not is_networkx(adjacency):
        check_numeric(adjacency, "adjacency")
    return check_named_adjacency(adjacency, directed=directed, weighted=True)


def _check_noise(noise_std: Any, n_nodes: int, names: Names | None) -> float | FloatArray:
    if not np.ndim(noise_std):
        return check_number(noise_std, "noise_std", low=0.0, high=_LARGEST_SCALE)
    levels = check_node_values(noise_std, "noise_std", n_nodes, names)
    for level in levels:
        check_number(float(level), "noise_std", low=0.0, high=_LARGEST_SCALE)
    return levels


def _draw_theta(process: GraphFilter, seed: int) -> FloatArray:
    theta: FloatArray = process.initial_theta(1, seeded_generator(seed))[0].double().numpy()
    return theta


def _check_theta(theta: Any, process: GraphFilter) -> FloatArray:
    array = np.atleast_1d(check_real_array(theta, "theta"))
    if array.shape != (process.n_parameters(),):
        names = ", ".join(process.parameter_names())
        raise ValueError(
            f"theta has shape {array.shape} but {type(process).__name__} has {process.n_parameters()} "
            f"parameter(s): {names}; expected one number for each."
        )
    for place, fixed in process.fixed_values().items():
        if array[place] != fixed:
            raise ValueError(
                f"theta ({process.parameter_names()[place]}) is {array[place]:g}, but {type(process).__name__} has it "
                f"fixed at {fixed:g}; expected the same value."
            )
    for value, name, (low, high) in zip(array, process.parameter_names(), process.bounds(), strict=True):
        if not low <= value <= high:
            which = "theta" if name == "theta" else f"theta ({name})"
            raise ValueError(
                f"{which} is {value:g}, outside the bounds of {type(process).__name__}; expected between {low:g} and "
                f"{high:g}."
            )
    return array


def _filtered(graph: FloatArray, process: GraphFilter, theta: FloatArray, inputs: FloatArray) -> FloatArray:
    # One thread: the same seed gives the same data, to the last bit, whatever the number of cores.
    with torch_threads(1), torch.no_grad():
        batch = (torch.tensor(array) for array in (graph[None], theta[None], inputs))
        outputs: FloatArray = process.apply(*batch)[0].numpy()
    if not np.isfinite(outputs).all():
        raise ValueError(
            f"the outputs of {type(process).__name__} are infinite or nan at theta={theta.tolist()}; expected a filter "
            f"and a theta that give finite outputs, or a smaller input_scale."
        )
    return outputs
