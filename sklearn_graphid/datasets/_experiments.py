"""Experiments: simulated on a known graph, or made of time series; and the hidden part of a graph."""

from __future__ import annotations

from importlib import import_module
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
from ..graphs._matrices import check_graph, refuse_dates
from ..graphs._nodes import Names, Nodes, check_names, check_node_values, column_names

__all__ = ["as_experiments", "hide_edges", "make_system"]

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

    Inputs are independent and uniform; for a given `random_state`, they depend on nothing else. The output for an input
    x is h_theta(A) x plus independent normal noise.

    Parameters
    ----------
    adjacency : array, sparse matrix or networkx graph of shape (n_nodes, n_nodes)
        The graph A; its entries are the strengths of the edges, 1 for edges without a strength.
    filter : {"polynomial", "heat", "arma", "steady-state"} or filter object, default="polynomial"
        The process h.
    theta : array-like of shape (n_parameters,), default=None
        Parameters of the process, in the order of the filter's `parameter_names()`. If None, they are drawn like the
        starting values of the filter; see `return_theta`.
    n_experiments : int, default=10
        Number of experiments to simulate.
    input_scale : float, default=10.0
        Largest absolute value of an input.
    noise_std : float, or array-like or Series of shape (n_nodes,), default=1.0
        Standard deviation of the noise, one for all nodes or one for each. A Series is matched by name.
    input_noise_std : float, default=0.0
        Standard deviation of the noise of the measured inputs X, which the outputs do not depend on.
    return_theta : bool, default=False
        Whether to return theta as well.
    directed : bool, default=False
        Whether the graph is directed: the entry A[i, j] is the edge from j to i.
    random_state : int, RandomState instance or None, default=None
        Seed of the random draws.

    Returns
    -------
    X : ndarray of shape (n_experiments, n_nodes)
        Inputs as measured.
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
    >>> X.shape, bool(np.allclose(Y, X @ adjacency))
    ((5, 49), True)
    """
    graph, names = _check_graph(adjacency, check_flag(directed, "directed"))
    process = resolve_filter(filter).for_nodes(names)
    if directed:
        process.check_directed()
    check_integer(n_experiments, "n_experiments", low=1)
    input_scale = check_number(input_scale, "input_scale", positive=True, high=_LARGEST_SCALE)
    levels = check_node_values(noise_std, "noise_std", len(graph), names) if np.ndim(noise_std) else noise_std
    for level in levels.tolist() if np.ndim(noise_std) else [levels]:
        check_number(level, "noise_std", low=0.0, high=_LARGEST_SCALE)
    input_noise_std = check_number(input_noise_std, "input_noise_std", low=0.0, high=_LARGEST_SCALE)
    check_flag(return_theta, "return_theta")
    parameters = None if theta is None else _check_theta(theta, process)
    random = check_random_state(random_state)
    # The seed is drawn whether it is needed or not, so that the inputs are the same with a given theta.
    (theta_seed,) = draw_seeds(random, 1)
    if parameters is None:
        parameters = process.initial_theta(1, seeded_generator(theta_seed))[0].double().numpy()
    X = random.uniform(-input_scale, input_scale, size=(n_experiments, len(graph)))
    # One thread: the same seed gives the same data, to the last bit, whatever the number of cores.
    with torch_threads(1), torch.no_grad():
        outputs = process.apply(*(torch.tensor(array) for array in (graph[None], parameters[None], X)))[0].numpy()
    if not np.isfinite(outputs).all():
        raise ValueError(
            f"the outputs of {type(process).__name__} are infinite or nan at theta={parameters.tolist()}; expected a "
            f"filter and a theta that give finite outputs, or a smaller input_scale."
        )
    Y = outputs + levels * random.standard_normal(X.shape)
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
        The known part of the graph, with the names of the nodes if they have any, and without the hidden values.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid.datasets import hide_edges
    >>> hide_edges(nx.cycle_graph(5), fraction=0.4, random_state=0)
    KnownEdges(n_nodes=5, known=6 of 10 pairs)
    """
    graph, names = _check_graph(adjacency, check_flag(directed, "directed"))
    check_flag(keep_weights, "keep_weights")
    fraction = check_number(fraction, "fraction", low=0.0, high=1.0)
    pairs, mask = EdgeSpace.complete(len(graph), directed), np.ones(graph.shape, dtype=bool)
    hidden = check_random_state(random_state).permutation(pairs.n_free)[: round(fraction * pairs.n_free)]
    pairs.select(hidden).write(mask, False)
    return KnownEdges(mask, graph != 0, names, graph if keep_weights else None, directed)


def _check_graph(adjacency: Any, directed: bool) -> tuple[FloatArray, Names | None]:
    if not is_networkx(adjacency):
        check_numeric(adjacency, "adjacency")
    graph = check_graph(adjacency, directed=directed, weighted=True)
    return graph.values, graph.nodes.names


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


def as_experiments(series: Any, lag: int = 1) -> tuple[Any, Any]:
    """Turn time series into experiments: x[t] is an input, x[t + lag] its output.

    This is appropriate if the state at one time determines the next state, x[t + 1] = h(A) x[t] + noise, and the noise
    acts on the process itself. *Measurement* noise would also be in the inputs, and shrink the estimated effects by a
    factor of v / (v + s), where s is the variance of the noise and v that of the state.

    Parameters
    ----------
    series : array-like or DataFrame of shape (n_times, n_nodes), or list of several
        Measurements of all nodes at equally spaced times. No experiment spans two series. Columns of several series are
        matched by name.
    lag : int, default=1
        Number of time steps between an input and its output.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_experiments, n_nodes)
        Inputs: n_times - lag experiments from each series, as a DataFrame if the series are DataFrames.
    Y : ndarray or DataFrame of shape (n_experiments, n_nodes)
        Outputs, in the same form, and with the index of X: rows with the same label are an experiment.

    Examples
    --------
    >>> from sklearn_graphid.datasets import as_experiments
    >>> X, Y = as_experiments([[[1.0], [2.0], [3.0]], [[7.0], [8.0]]])  # a measurement that was interrupted
    >>> X.ravel(), Y.ravel()
    (array([1., 2., 7.]), array([2., 3., 8.]))
    """
    lag = check_integer(lag, "lag", low=1)
    parts = list(series) if _is_several(series) else [series]
    if not parts:
        raise ValueError("series is empty; expected an array (n_times, n_nodes), or a list of them.")
    names = ["series" if parts[0] is series else f"series[{place}]" for place in range(len(parts))]
    checked = [_check_one(part, name, lag) for part, name in zip(parts, names, strict=True)]
    first = checked[0]
    aligned = [first, *(_like_first(part, first, name) for part, name in zip(checked[1:], names[1:], strict=True))]
    inputs, outputs = _stacked([part[:-lag] for part in aligned]), _stacked([part[lag:] for part in aligned])
    if hasattr(inputs, "index"):
        outputs = outputs.set_axis(inputs.index)
    return inputs, outputs


def _is_several(series: Any) -> bool:
    """Whether it is a list of series, and not one that is given as a list of rows."""
    if not isinstance(series, list | tuple):
        return isinstance(series, np.ndarray) and series.ndim == 3
    try:
        return not series or any(hasattr(part, "columns") or np.ndim(part) == 2 for part in series)
    except ValueError:  # rows of different lengths, which are no series by themselves
        return True


def _check_one(series: Any, name: str, lag: int) -> Any:
    """A frame as it is, anything else as an array."""
    refuse_dates(series, name)
    values = check_real_array(series, name)
    if values.ndim != 2 or not values.shape[1]:
        raise ValueError(f"{name} has shape {values.shape}; expected (n_times, n_nodes), a row for each time.")
    if len(values) <= lag:
        raise ValueError(
            f"{name} has {len(values)} times, which is too few for lag={lag}; expected at least {lag + 1}."
        )
    names = column_names(series, keep_numbers=True)
    if names is None:
        return values
    check_names(names, f"{name}'s columns")
    return series


def _like_first(series: Any, first: Any, name: str) -> Any:
    """The columns of the first series, and its type."""
    if series.shape[1] != first.shape[1]:
        raise ValueError(
            f"{name} has {series.shape[1]} nodes (columns) but series[0] has {first.shape[1]}; expected the same nodes."
        )
    columns = Nodes(column_names(series), f"the columns of {name}")
    order = columns.order_in(Nodes(column_names(first), "those of series[0]"))
    if type(series) is not type(first):
        raise TypeError(
            f"{name} is a {type(series).__name__} but series[0] a {type(first).__name__}; expected one kind only."
        )
    if isinstance(first, np.ndarray):
        return series
    renamed = (series if order is None else series[[series.columns[place] for place in order]])[:]
    renamed.columns = first.columns  # numbers and text may be the same name, and positions are none
    return renamed


def _stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if len(parts) == 1:
        return parts[0]
    library = import_module(type(parts[0]).__module__.partition(".")[0])  # pandas and polars both have concat
    return library.concat(parts)
