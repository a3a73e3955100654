"""Validation of graphs that users pass: they become numpy arrays, or an error says why not.

In a directed graph, an edge from source to target is the entry A[target, source]: that is how A acts in y = h(A) x,
where the target's output depends on the source's input. Arrays, sparse matrices and frames are taken as A. The matrices
that networkx makes of a DiGraph are the transpose of A, so its edges are placed by source and target.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from .._utils._libraries import is_networkx
from .._utils._numbers import FloatArray
from ._nodes import Names, Nodes, check_names, is_numbering, unless_numbers

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "DIRECTED_HINT",
    "NodeMatrix",
    "as_float_array",
    "as_numbers",
    "as_square_array",
    "check_edge_probabilities",
    "check_graph",
    "check_graphs",
    "read_matrix",
    "refuse_dates",
    "symmetrized",
]

# The way out for those who meant every ordered pair on its own.
DIRECTED_HINT = "For a directed graph pass directed=True."


@dataclass(frozen=True, eq=False)
class NodeMatrix:
    """A matrix over nodes, and what the nodes are called."""

    values: FloatArray
    nodes: Nodes

    def in_order_of(self, reference: Nodes) -> FloatArray:
        """Return the values with rows and columns in the order of other nodes; see `Nodes.order_in`."""
        return self.nodes.align(self.values, reference)


def read_matrix(matrix: Any, name: str, *, directed: bool | None = None, missing_weight: float = 1.0) -> NodeMatrix:
    """Read a matrix over nodes with the names it carries: the columns and index of a DataFrame, or a graph's nodes.

    Nodes that are numbered 0, 1, 2 ... come out in the order of their numbers. See `check_graph` for `directed`;
    `missing_weight` stands for the edges of a networkx graph that have no attribute "weight".
    """
    if isinstance(matrix, NodeMatrix):
        return matrix
    if is_networkx(matrix):
        values, names = _read_networkx(matrix, name, directed, missing_weight)
    else:
        values, names = as_float_array(matrix, name), None
        if hasattr(matrix, "columns") and values.ndim == 2 and values.shape[0] == values.shape[1]:
            values, names = _read_frame(matrix, values, name)
    if names is not None and is_numbering(names):
        order = np.argsort([int(str(label)) for label in names])
        values, names = values[np.ix_(order, order)], tuple(names[place] for place in order)
    return NodeMatrix(values, Nodes(names, name))


def _read_networkx(graph: nx.Graph, name: str, directed: bool | None, missing: float) -> tuple[FloatArray, Names]:
    if graph.is_multigraph() or (graph.is_directed() and not directed):
        kind, hint = type(graph).__name__, "" if directed is None or graph.is_multigraph() else f" {DIRECTED_HINT}"
        expected = "networkx.DiGraph" if directed else "undirected networkx.Graph"
        raise ValueError(f"{name} is a networkx {kind}; expected a{'n' * (not directed)} {expected}.{hint}")
    places = {node: place for place, node in enumerate(graph.nodes)}
    matrix = np.zeros((len(places), len(places)))
    for source, target, weight in graph.edges(data="weight", default=missing):
        matrix[places[target], places[source]] = weight
        if not graph.is_directed():
            matrix[places[source], places[target]] = weight
    return matrix, tuple(places)


def _read_frame(frame: Any, values: FloatArray, name: str) -> tuple[FloatArray, Names]:
    columns = check_names(frame.columns, f"{name}'s columns")
    index = getattr(frame, "index", None)  # polars has none
    rows = None if index is None else check_names(index, f"{name}'s index")
    # An axis that nobody has named is a range in pandas, and goes by the other one's names.
    if rows is None or _is_range(index):
        return values, columns
    if _is_range(frame.columns):
        return values, rows
    order = Nodes(rows, f"the index of {name}").order_in(Nodes(columns, "its columns"))
    if order is None:
        return values, unless_numbers(columns) or unless_numbers(rows) or columns
    return values[order], columns


def _is_range(axis: Any) -> bool:
    return hasattr(axis, "start") and hasattr(axis, "step")


def refuse_dates(data: Any, name: str) -> None:
    """Raise TypeError for dates and durations, which numpy would silently convert to nanoseconds."""
    dtypes = getattr(data, "dtypes", getattr(data, "dtype", None))
    if dtypes is None:
        try:
            dtypes = np.asarray(data).dtype
        except ValueError:  # rows of different lengths have no type in common, and the conversion that follows says so
            return
    for dtype in dtypes if isinstance(dtypes, Iterable) else [dtypes]:  # a frame has one for each column
        is_temporal = getattr(dtype, "is_temporal", None)  # of polars
        if getattr(dtype, "kind", "") in ("m", "M") or (callable(is_temporal) and is_temporal()):
            raise TypeError(f"{name} holds dates or durations ({dtype}); expected numbers.")


def as_numbers(data: Any, name: str) -> Any:
    """Return data with nan where an entry is masked, which numpy would uncover; dates are refused."""
    refuse_dates(data, name)
    return np.ma.filled(data.astype(np.float64), np.nan) if isinstance(data, np.ma.MaskedArray) else data


def as_float_array(matrix: Any, name: str) -> FloatArray:
    """Turn an array, sparse matrix or networkx graph into a float array of whatever shape it has."""
    if is_networkx(matrix):
        return read_matrix(matrix, name).values
    if sparse.issparse(matrix):
        matrix = matrix.toarray()
    refuse_dates(matrix, name)
    try:
        if np.iscomplexobj(matrix):
            raise TypeError("complex numbers")
        return np.asarray(as_numbers(matrix, name), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(matrix).__name__} that does not convert to a numeric array; expected a "
            f"square 0/1 array, a scipy sparse matrix or a networkx graph."
        ) from error


def as_square_array(matrix: Any, name: str) -> FloatArray:
    """Turn an array, sparse matrix or networkx graph into a square float array."""
    array = matrix.values if isinstance(matrix, NodeMatrix) else as_float_array(matrix, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} has shape {array.shape}; expected a square matrix (n_nodes, n_nodes).")
    return array


def symmetrized(array: FloatArray, name: str, hint: str = DIRECTED_HINT, tolerance: float = 0.0) -> FloatArray:
    """Return a matrix exactly symmetric; the two entries of a pair may differ by rounding, and both may be nan."""
    one_way = np.isnan(array) & ~np.isnan(array.T)
    if one_way.any():
        i, j = np.argwhere(one_way)[0]
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is nan, which means unknown, but entry ({j}, {i}) is "
            f"{array[j, i]:g}; expected nan in both or in none. If {name} is meant to hold every pair once, pass "
            f"numpy.fmax({name}, {name}.T). {hint}"
        )
    # Sums in another order differ in their last bits, in float32 around 1e-7. nan is never further apart than anything.
    apart = np.abs(array - array.T) > tolerance + 1e-6 * np.maximum(np.abs(array), np.abs(array.T))
    if apart.any():
        i, j = np.argwhere(apart)[0]
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is {array[i, j]:g} but entry ({j}, {i}) is {array[j, i]:g}; "
            f"expected an undirected graph, with one value for each pair. {hint}".rstrip()
        )
    upper = np.triu(array)
    symmetric: FloatArray = upper + np.triu(upper, 1).T
    return symmetric


def check_graph(
    adjacency: Any,
    name: str = "adjacency",
    min_nodes: int = 1,
    *,
    directed: bool | None = None,
    weighted: bool = False,
) -> NodeMatrix:
    """Return the adjacency matrix of a simple graph: finite, with a zero diagonal, symmetric unless directed.

    Parameters
    ----------
    adjacency : array, DataFrame, sparse matrix or networkx graph of shape (n_nodes, n_nodes)
        The graph.
    name : str
        What error messages call it.
    min_nodes : int
        The smallest number of nodes that makes sense to the caller.
    directed : bool or None
        Whether the graph is directed. None: it is not, and the caller has no argument `directed` to point to.
    weighted : bool
        Whether entries may be numbers other than 0 and 1.
    """
    matrix = read_matrix(adjacency, name, directed=directed)
    array = as_square_array(matrix, name)
    if len(array) < min_nodes:
        raise ValueError(f"{name} has {len(array)} node(s); expected at least {min_nodes}.")
    odd = array[~np.isfinite(array)] if weighted else array[(array != 0) & (array != 1)]
    if odd.size:
        expected = "finite numbers" if weighted else "an unweighted graph, with entries 0 and 1 only"
        raise ValueError(f"{name} holds the value {odd[0]:g}; expected {expected}.")
    if np.diagonal(array).any():
        node = int(np.flatnonzero(np.diagonal(array))[0])
        raise ValueError(f"{name} has a self-loop at node {node}; expected a zero diagonal.")
    hint = "" if directed is None else DIRECTED_HINT
    return NodeMatrix(array if directed else symmetrized(array, name, hint), matrix.nodes)


def check_graphs(
    graphs: Any, name: str = "graphs", min_nodes: int = 2, *, directed: bool | None = None
) -> list[FloatArray]:
    """Validate a list of graphs of any mix of sizes; see `check_graph`.

    A three-dimensional array counts as a list of graphs of one size, a one-dimensional array of objects as a list.
    """
    if is_networkx(graphs) or sparse.issparse(graphs) or getattr(graphs, "ndim", 3) not in (1, 3):
        shape = getattr(graphs, "shape", None)
        described = f"single {type(graphs).__name__}" + (f" of shape {shape}" if shape is not None else "")
        raise ValueError(f"{name} is a {described}; expected a list of graphs, e.g. [graph].")
    if isinstance(graphs, str | bytes) or not isinstance(graphs, Iterable):
        raise TypeError(f"{name} is a {type(graphs).__name__}; expected a list of graphs.")
    checked = [check_graph(g, f"{name}[{i}]", min_nodes, directed=directed).values for i, g in enumerate(graphs)]
    if not checked:
        raise ValueError(f"{name} is empty; expected at least one graph.")
    return checked


def check_edge_probabilities(
    probabilities: Any, n_nodes: int, name: str = "edge_prior", *, directed: bool | None = None
) -> FloatArray:
    """Validate a matrix of edge probabilities, and set its diagonal, which is never read, to zero."""
    array = as_square_array(probabilities, name).copy()
    if len(array) != n_nodes:
        raise ValueError(
            f"{name} has shape {array.shape} but there are {n_nodes} nodes; expected ({n_nodes}, {n_nodes})."
        )
    np.fill_diagonal(array, 0.0)
    odd = array[~((array >= 0) & (array <= 1))]
    if odd.size:
        raise ValueError(f"{name} holds the value {odd[0]:g}; expected probabilities between 0 and 1.")
    hint = "" if directed is None else DIRECTED_HINT
    return array if directed else symmetrized(array, name, hint, tolerance=1e-6)
