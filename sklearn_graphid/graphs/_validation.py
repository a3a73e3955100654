"""Validation of graphs that users pass: they become numpy arrays, or an error says why not.

In a directed graph, an edge from source to target is the entry A[target, source]: that is how A acts in y = h(A) x,
where the target's output depends on the source's input. Arrays, sparse matrices and frames are taken as A. The matrices
that networkx makes of a DiGraph are the transpose of A, so its edges are placed by source and target.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from .._utils._libraries import is_networkx
from .._utils._numbers import FloatArray
from ._names import Names, check_names, first_names, is_numbering, node_order

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "DIRECTED_HINT",
    "NamedMatrix",
    "as_float_array",
    "as_square_array",
    "check_adjacency",
    "check_edge_probabilities",
    "check_graphs",
    "check_named_adjacency",
    "read_matrix",
    "refuse_dates",
]

# Sums in another order differ in their last bits, in float32 around 1e-7; a matrix that is further from its
# transpose is not symmetric by mistake of arithmetic.
_SYMMETRY_TOLERANCE = 1e-6

# The way out for those who meant every ordered pair on its own.
DIRECTED_HINT = "For a directed graph pass directed=True."


class NamedMatrix(NamedTuple):
    """A square matrix over the nodes, and what the nodes are called; None where they have no names."""

    values: FloatArray
    names: Names | None

    def in_order_of(self, reference: Names | None, name: str, reference_name: str) -> FloatArray:
        """The values, rows and columns in the order of the reference's names; see `node_order`."""
        order = node_order(self.names, reference, name, reference_name)
        return self.values if order is None else self.values[np.ix_(order, order)]


def read_matrix(matrix: Any, name: str, *, directed: bool | None = None, missing_weight: float = 1.0) -> NamedMatrix:
    """Read a matrix over the nodes with the names it carries.

    The columns and the index of a DataFrame and the nodes of a networkx graph are names. Nodes that are numbered 0, 1,
    2 ... come out in the order of their numbers. See `check_adjacency` for `directed`; `missing_weight` stands for the
    edges of a networkx graph that have no attribute "weight".
    """
    if isinstance(matrix, NamedMatrix):
        return matrix
    if is_networkx(matrix):
        values, names = _read_graph(matrix, name, directed, missing_weight)
    else:
        values, names = as_float_array(matrix, name), None
        if hasattr(matrix, "columns") and values.ndim == 2 and values.shape[0] == values.shape[1]:
            values, names = _read_frame(matrix, values, name)
    if names is not None and is_numbering(names):
        order = np.argsort([int(str(label)) for label in names])
        values, names = values[np.ix_(order, order)], tuple(names[place] for place in order)
    return NamedMatrix(values, names)


def _read_graph(graph: nx.Graph, name: str, directed: bool | None, missing_weight: float) -> tuple[FloatArray, Names]:
    if graph.is_multigraph() or (graph.is_directed() and not directed):
        kind, hint = type(graph).__name__, "" if directed is None or graph.is_multigraph() else f" {DIRECTED_HINT}"
        expected = "networkx.DiGraph" if directed else "undirected networkx.Graph"
        raise ValueError(f"{name} is a networkx {kind}; expected a{'n' * (not directed)} {expected}.{hint}")
    nodes = tuple(graph.nodes)
    places = {node: place for place, node in enumerate(nodes)}
    matrix = np.zeros((len(nodes), len(nodes)))
    for source, target, weight in graph.edges(data="weight", default=missing_weight):
        matrix[places[target], places[source]] = weight
        if not graph.is_directed():
            matrix[places[source], places[target]] = weight
    return matrix, nodes


def _read_frame(frame: Any, values: FloatArray, name: str) -> tuple[FloatArray, Names]:
    columns = check_names(frame.columns, f"{name}'s columns")
    index = getattr(frame, "index", None)  # polars has none
    rows = None if index is None else check_names(index, f"{name}'s index")
    # An axis that nobody has named is a range in pandas, and goes by the other one's names.
    if rows is None or _is_range(index):
        return values, columns
    if _is_range(frame.columns):
        return values, rows
    order = node_order(rows, columns, f"the index of {name}", "its columns")
    return (values, first_names(columns, rows) or columns) if order is None else (values[order], columns)


def _is_range(axis: Any) -> bool:
    return hasattr(axis, "start") and hasattr(axis, "step")


def refuse_dates(data: Any, name: str) -> None:
    """Raise TypeError for dates and durations, which numpy would silently convert to nanoseconds."""
    for dtype in _element_types(data):
        is_temporal = getattr(dtype, "is_temporal", None)  # of polars
        if getattr(dtype, "kind", "") in ("m", "M") or (callable(is_temporal) and is_temporal()):
            raise TypeError(f"{name} holds dates or durations ({dtype}); expected numbers.")


def _element_types(data: Any) -> list[Any]:
    dtypes = getattr(data, "dtypes", getattr(data, "dtype", None))
    if dtypes is not None:  # a frame has one for each column
        return list(dtypes) if isinstance(dtypes, Iterable) else [dtypes]
    try:
        return [np.asarray(data).dtype]
    except ValueError:  # rows of different lengths have no type in common, and the conversion that follows says so
        return []


def as_float_array(matrix: Any, name: str) -> FloatArray:
    """Turn an array, sparse matrix or networkx graph into a float array of whatever shape it has."""
    if isinstance(matrix, NamedMatrix) or is_networkx(matrix):
        return read_matrix(matrix, name).values
    if sparse.issparse(matrix):
        matrix = matrix.toarray()
    refuse_dates(matrix, name)
    try:
        if np.iscomplexobj(matrix):
            raise TypeError("complex numbers")
        if isinstance(matrix, np.ma.MaskedArray):
            # numpy would uncover the values under the mask; here a masked entry is one that nobody knows.
            return np.ma.filled(matrix.astype(np.float64), np.nan)
        return np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{name} is a {type(matrix).__name__} that does not convert to a numeric array; expected a "
            f"square 0/1 array, a scipy sparse matrix or a networkx graph."
        ) from error


def as_square_array(matrix: Any, name: str) -> FloatArray:
    """Turn an array, sparse matrix or networkx graph into a square float array."""
    array = as_float_array(matrix, name)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ValueError(f"{name} has shape {array.shape}; expected a square matrix (n_nodes, n_nodes).")
    return array


def check_adjacency(
    adjacency: Any,
    name: str = "adjacency",
    min_nodes: int = 1,
    *,
    directed: bool | None = None,
    weighted: bool = False,
) -> FloatArray:
    """Return the adjacency matrix of a simple graph as floats.

    Parameters
    ----------
    adjacency : array, sparse matrix or networkx graph of shape (n_nodes, n_nodes)
        The graph.
    name : str
        What to call it in an error message.
    min_nodes : int
        The smallest number of nodes that makes sense to the caller.
    directed : bool or None
        Whether the graph is directed, so that the matrix need not be symmetric. None: it is not, and the caller has no
        argument `directed` that an error message could name.
    weighted : bool
        Whether entries may be numbers other than 0 and 1.

    Returns
    -------
    ndarray of shape (n_nodes, n_nodes)
        Zeros on the diagonal, finite entries; symmetric unless `directed`.
    """
    array = as_square_array(read_matrix(adjacency, name, directed=directed), name)
    if len(array) < min_nodes:
        raise ValueError(f"{name} has {len(array)} node(s); expected at least {min_nodes}.")
    odd = array[~np.isfinite(array)] if weighted else array[(array != 0) & (array != 1)]
    if odd.size:
        expected = "finite numbers" if weighted else "an unweighted graph, with entries 0 and 1 only"
        raise ValueError(f"{name} holds the value {odd[0]:g}; expected {expected}.")
    if np.diagonal(array).any():
        node = int(np.flatnonzero(np.diagonal(array))[0])
        raise ValueError(f"{name} has a self-loop at node {node}; expected a zero diagonal.")
    return array if directed else _check_symmetric(array, name, "" if directed is None else f" {DIRECTED_HINT}")


def _check_symmetric(array: FloatArray, name: str, hint: str) -> FloatArray:
    """The same matrix, exactly symmetric."""
    asymmetry = np.abs(array - array.T)
    apart = asymmetry > _SYMMETRY_TOLERANCE * np.maximum(np.abs(array), np.abs(array.T))
    if apart.any():
        i, j = np.argwhere(apart)[0]
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is {array[i, j]:g} but entry ({j}, {i}) is "
            f"{array[j, i]:g}; expected an undirected graph.{hint}"
        )
    return (array + array.T) / 2 if asymmetry.any() else array


def check_named_adjacency(
    adjacency: Any, name: str = "adjacency", *, directed: bool | None = None, weighted: bool = False
) -> NamedMatrix:
    """The same with the names of the nodes."""
    matrix = read_matrix(adjacency, name, directed=directed)
    return NamedMatrix(check_adjacency(matrix.values, name, directed=directed, weighted=weighted), matrix.names)


def check_graphs(
    graphs: Any, name: str = "graphs", min_nodes: int = 2, *, directed: bool | None = None
) -> list[FloatArray]:
    """Validate a list of graphs of any mix of sizes; see `check_adjacency` for `directed`.

    A three-dimensional array counts as a list of graphs of one size, a one-dimensional array of objects as a
    list. The list is never turned into one array: graphs of different sizes would not fit, and graphs of one
    size would lose nothing but their types.
    """
    if is_networkx(graphs) or sparse.issparse(graphs) or getattr(graphs, "ndim", 3) not in (1, 3):
        shape = getattr(graphs, "shape", None)
        described = f"single {type(graphs).__name__}" + (f" of shape {shape}" if shape is not None else "")
        raise ValueError(f"{name} is a {described}; expected a list of graphs, e.g. [graph].")
    if isinstance(graphs, str | bytes) or not isinstance(graphs, Iterable):
        raise TypeError(f"{name} is a {type(graphs).__name__}; expected a list of graphs.")
    checked = [check_adjacency(g, f"{name}[{i}]", min_nodes, directed=directed) for i, g in enumerate(graphs)]
    if not checked:
        raise ValueError(f"{name} is empty; expected at least one graph.")
    return checked


def check_edge_probabilities(
    probabilities: Any, n_nodes: int, name: str = "edge_prior", *, directed: bool | None = None
) -> FloatArray:
    """Validate a matrix of edge probabilities; nan on the diagonal is fine, it is never read.

    The result has a zero diagonal, and is exactly symmetric unless `directed`; see `check_adjacency`.
    """
    array = as_square_array(probabilities, name).copy()
    if len(array) != n_nodes:
        raise ValueError(
            f"{name} has shape {array.shape} but there are {n_nodes} nodes; expected ({n_nodes}, {n_nodes})."
        )
    np.fill_diagonal(array, 0.0)
    if not ((array >= 0) & (array <= 1)).all():
        odd = array[~((array >= 0) & (array <= 1))][0]
        raise ValueError(f"{name} holds the value {odd:g}; expected probabilities between 0 and 1.")
    if directed:
        return array
    if (np.abs(array - array.T) > _SYMMETRY_TOLERANCE).any():
        hint = "" if directed is None else f" {DIRECTED_HINT}"
        raise ValueError(f"{name} is not symmetric; expected one probability for each unordered pair.{hint}")
    return (array + array.T) / 2
