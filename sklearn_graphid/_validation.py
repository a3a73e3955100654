"""Checks at the border: what the user hands over becomes numpy arrays, or an error that says why not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
from scipy import sparse

FloatArray = npt.NDArray[np.float64]

__all__ = [
    "FloatArray",
    "as_float_array",
    "as_square_array",
    "check_adjacency",
    "check_edge_probabilities",
    "check_graphs",
]

# Sums in another order differ in their last bits, in float32 around 1e-7; a matrix that is further from its
# transpose is not symmetric by mistake of arithmetic.
_SYMMETRY_TOLERANCE = 1e-6


def as_float_array(matrix: Any, name: str) -> FloatArray:
    """Turn an array, sparse matrix or networkx graph into a float array of whatever shape it has."""
    if isinstance(matrix, nx.Graph):
        if matrix.is_directed() or matrix.is_multigraph():
            kind = type(matrix).__name__
            raise ValueError(f"{name} is a networkx {kind}; expected an undirected networkx.Graph.")
        matrix = nx.to_numpy_array(matrix, dtype=float)
    elif sparse.issparse(matrix):
        matrix = matrix.toarray()
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


def check_adjacency(adjacency: Any, name: str = "adjacency", min_nodes: int = 1) -> FloatArray:
    """Return the adjacency matrix of a simple undirected graph as floats 0. and 1.

    Parameters
    ----------
    adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        The graph.
    name : str
        What to call it in an error message.
    min_nodes : int
        The smallest number of nodes that makes sense to the caller.

    Returns
    -------
    ndarray of shape (n_nodes, n_nodes)
        Symmetric, zeros on the diagonal, entries 0. or 1.
    """
    array = as_square_array(adjacency, name)
    if len(array) < min_nodes:
        raise ValueError(f"{name} has {len(array)} node(s); expected at least {min_nodes}.")
    odd = array[(array != 0) & (array != 1)]
    if odd.size:
        raise ValueError(f"{name} holds the value {odd[0]:g}; expected an unweighted graph, with entries 0 and 1 only.")
    if np.diagonal(array).any():
        node = int(np.flatnonzero(np.diagonal(array))[0])
        raise ValueError(f"{name} has a self-loop at node {node}; expected a zero diagonal.")
    if (array != array.T).any():
        i, j = np.argwhere(array != array.T)[0]
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is {array[i, j]:g} but entry ({j}, {i}) is "
            f"{array[j, i]:g}; expected an undirected graph."
        )
    return array


def check_graphs(graphs: Any, name: str = "graphs", min_nodes: int = 2) -> list[FloatArray]:
    """Validate a list of graphs of any mix of sizes.

    A three-dimensional array counts as a list of graphs of one size, a one-dimensional array of objects as a
    list. The list is never turned into one array: graphs of different sizes would not fit, and graphs of one
    size would lose nothing but their types.
    """
    if isinstance(graphs, nx.Graph) or sparse.issparse(graphs) or getattr(graphs, "ndim", 3) not in (1, 3):
        shape = getattr(graphs, "shape", None)
        described = f"single {type(graphs).__name__}" + (f" of shape {shape}" if shape is not None else "")
        raise ValueError(f"{name} is a {described}; expected a list of graphs, e.g. [graph].")
    if isinstance(graphs, str | bytes) or not isinstance(graphs, Iterable):
        raise TypeError(f"{name} is a {type(graphs).__name__}; expected a list of graphs.")
    checked = [check_adjacency(g, f"{name}[{i}]", min_nodes) for i, g in enumerate(graphs)]
    if not checked:
        raise ValueError(f"{name} is empty; expected at least one graph.")
    return checked


def check_edge_probabilities(probabilities: Any, n_nodes: int, name: str = "edge_prior") -> FloatArray:
    """Validate a symmetric matrix of edge probabilities; nan on the diagonal is fine, it is never read.

    The result is exactly symmetric with a zero diagonal.
    """
    array = as_square_array(probabilities, name).copy()
    if len(array) != n_nodes:
        raise ValueError(f"{name} has shape {array.shape} but there are {n_nodes} nodes.")
    np.fill_diagonal(array, 0.0)
    if not ((array >= 0) & (array <= 1)).all():
        odd = array[~((array >= 0) & (array <= 1))][0]
        raise ValueError(f"{name} holds the value {odd:g}; expected probabilities between 0 and 1.")
    if (np.abs(array - array.T) > _SYMMETRY_TOLERANCE).any():
        raise ValueError(f"{name} is not symmetric; expected one probability for each unordered pair.")
    return (array + array.T) / 2
