"""Validation of the known part of a graph: masks, sizes, strengths, and contradictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ._names import Names, node_order
from ._validation import DIRECTED_HINT, NamedMatrix, as_square_array

__all__ = [
    "check_mask",
    "check_size",
    "check_strengths",
    "frozen",
    "graph_refusal",
    "is_boolean",
    "kind_refusal",
    "merge_directions",
]

_SLICED_HINT = (
    "Cross-validation slices arrays that have as many rows as there are experiments; wrap the mask in KnownEdges "
    "to pass it whole."
)


def check_strengths(
    weights: FloatArray, mask: npt.NDArray[np.bool_], values: FloatArray, directed: bool
) -> FloatArray | None:
    """Check and return the strengths of the known edges.

    Parameters
    ----------
    weights : ndarray of shape (n_nodes, n_nodes)
        What the user passed; nan where the strength of an edge is unknown. Unknown pairs are ignored.
    mask, values : ndarray of shape (n_nodes, n_nodes)
        Where pairs are known, and the edges among them, both checked.
    directed : bool
        Whether the graph is directed.

    Returns
    -------
    ndarray of shape (n_nodes, n_nodes) or None
        The strengths of known edges as far as they are known, nan elsewhere; None if no strength is known.
    """
    array = as_square_array(weights, "weights")
    if array.shape != mask.shape:
        raise ValueError(f"weights has shape {array.shape} but mask has shape {mask.shape}.")
    is_edge = mask & (values == 1)
    surplus = mask & ~is_edge & ~np.isnan(array) & (array != 0)
    if surplus.any():
        i, j = np.argwhere(surplus)[0]
        raise ValueError(
            f"weights without edges: entry ({i}, {j}) is {array[i, j]:g}, but that pair is known to have no edge; "
            f"expected 0 or nan there."
        )
    strengths = np.where(is_edge, array, np.nan)
    odd = strengths[(strengths == 0) | np.isinf(strengths)]
    if odd.size:
        raise ValueError(
            f"weights holds the value {odd[0]:g} for a known edge; expected a finite number other than 0, or nan if "
            f"the strength is unknown."
        )
    if not directed:
        strengths = merge_directions(strengths, "weights")
    return None if np.isnan(strengths).all() else strengths


def merge_directions(partial: FloatArray, name: str) -> FloatArray:
    """Return the matrix, exactly symmetric; nan must be in both entries of a pair or in none."""
    first, second = partial, partial.T
    one_way = np.argwhere(np.isnan(first) & ~np.isnan(second))
    if len(one_way):
        i, j = one_way[0]
        raise ValueError(
            f"{name} is not symmetric: entry ({i}, {j}) is nan, which means unknown, but entry ({j}, {i}) is "
            f"{partial[j, i]:g}; expected nan in both or in none. If {name} is meant to hold every pair once, pass "
            f"numpy.fmax({name}, {name}.T). {DIRECTED_HINT}"
        )
    # nan is never further apart than anything.
    apart = np.abs(first - second) > 1e-6 * np.maximum(np.abs(first), np.abs(second))
    if apart.any():
        i, j = np.argwhere(apart)[0]
        raise ValueError(
            f"{name} contradicts itself: entry ({i}, {j}) is {partial[i, j]:g} but entry ({j}, {i}) is "
            f"{partial[j, i]:g}; expected an undirected graph. {DIRECTED_HINT}"
        )
    # Both ways differ by rounding at most; one of them stands for the pair, so that the result is exactly symmetric.
    upper = np.triu(first)
    merged: FloatArray = upper + np.triu(upper, 1).T
    return merged


def graph_refusal(name: str) -> str:
    """Return an error message that says why a networkx graph is not enough, and what to pass instead."""
    return (
        f"{name} is a networkx graph, which lists the edges but not the pairs that are known to have no edge. "
        f"Pass KnownEdges.from_networkx(graph, absent=...) with the pairs that are known to have no edge (all others "
        f"are then unknown), or a boolean mask of the known pairs together with known_adjacency=graph."
    )


def kind_refusal(name: str, is_directed: bool) -> str:
    """Return an error message for a `KnownEdges` that is directed and should not be, or the other way round."""
    if is_directed:
        return f"{name} is a KnownEdges of a directed graph; expected an undirected one. {DIRECTED_HINT}"
    return (
        f"{name} is a KnownEdges of an undirected graph, but directed=True; expected one of a directed graph, made by "
        f"KnownEdges(..., directed=True), from_array(..., directed=True) or from_networkx(digraph)."
    )


def check_mask(square: Any, directed: bool) -> npt.NDArray[np.bool_]:
    """Check the mask of known pairs, and return it as booleans; it must be symmetric unless directed."""
    square = as_square_array(square, "mask")
    if not np.isin(square, (0, 1)).all():
        raise ValueError("mask holds values other than True and False; expected a boolean array.")
    array: npt.NDArray[np.bool_] = square.astype(bool)
    if not directed and (array != array.T).any():
        i, j = np.argwhere(array != array.T)[0]
        raise ValueError(
            f"mask is not symmetric: entry ({i}, {j}) is {array[i, j]} but entry ({j}, {i}) is {array[j, i]}. "
            f"{DIRECTED_HINT}"
        )
    return array


def check_size(matrix: NamedMatrix, n_nodes: int, node_names: Names | None, name: str, reference: str) -> None:
    """Raise ValueError unless the matrix is of these nodes."""
    # Names that differ say more than numbers that do.
    node_order(matrix.names, node_names, name, reference)
    if matrix.values.shape != (n_nodes, n_nodes):
        raise ValueError(
            f"{name} has shape {matrix.values.shape} but {reference} has {n_nodes} nodes, so it should be "
            f"({n_nodes}, {n_nodes}). {_SLICED_HINT}"
        )


def is_boolean(array: Any) -> bool:
    """Whether an array, sparse matrix or nested list holds booleans."""
    # Sparse matrices have a dtype but become arrays of objects in numpy's hands; nested lists have none.
    return bool(getattr(array, "dtype", np.asarray(array).dtype) == np.dtype(bool))


def frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that cannot be written to."""
    array = array.copy()
    array.flags.writeable = False
    return array
