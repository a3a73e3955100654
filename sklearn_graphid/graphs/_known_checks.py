"""Checks of what is said to be known: masks, sizes, strengths, and what contradicts itself."""

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
    """The strengths of the known edges.

    Parameters
    ----------
    weights : ndarray of shape (n_nodes, n_nodes)
        What the user says of them; nan where an edge's strength is not known. Unknown pairs are ignored.
    mask, values : ndarray of shape (n_nodes, n_nodes)
        Where pairs are known, and the edges among them, both checked.
    directed : bool
        Whether every ordered pair stands alone.

    Returns
    -------
    ndarray of shape (n_nodes, n_nodes) or None
        The strength where a known edge's strength is known, nan elsewhere; None where none is.
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
            f"weights holds the value {odd[0]:g} for a known edge; expected a finite number other than 0, or nan where "
            f"the strength is not known."
        )
    if not directed:
        strengths = merge_directions(strengths, "weights")
    return None if np.isnan(strengths).all() else strengths


def merge_directions(partial: FloatArray, name: str) -> FloatArray:
    """A symmetric matrix from one that may say something of a pair in one direction only, and nan in the other."""
    first, second = partial, partial.T
    # nan is never further apart than anything.
    apart = np.abs(first - second) > 1e-6 * np.maximum(np.abs(first), np.abs(second))
    if apart.any():
        i, j = np.argwhere(apart)[0]
        raise ValueError(
            f"{name} contradicts itself: pair ({i}, {j}) is {partial[i, j]:g} one way and {partial[j, i]:g} the other; "
            f"expected an undirected graph. {DIRECTED_HINT}"
        )
    # Both ways differ by rounding at most; one of them stands for the pair, so that the result is exactly symmetric.
    upper = np.triu(np.where(np.isnan(first), second, first))
    merged: FloatArray = upper + np.triu(upper, 1).T
    return merged


def graph_refusal(name: str) -> str:
    """Why a networkx graph does not say what is known, and what does."""
    return (
        f"{name} is a networkx graph, which says which edges there are, but not which pairs are known to have none. "
        f"Pass KnownEdges.from_networkx(graph, absent=...) with the pairs that are known to have no edge (all others "
        f"are then unknown), or a boolean mask of the known pairs with known_adjacency=graph."
    )


def kind_refusal(name: str, is_directed: bool) -> str:
    """Why a `KnownEdges` of the other kind does not do."""
    if is_directed:
        return f"{name} is a KnownEdges of a directed graph; expected an undirected one. {DIRECTED_HINT}"
    return (
        f"{name} is a KnownEdges of an undirected graph, but directed=True; expected one of a directed graph, as "
        f"KnownEdges(..., directed=True), from_array(..., directed=True) and from_networkx(digraph) make it."
    )


def check_mask(square: Any, directed: bool) -> npt.NDArray[np.bool_]:
    """Where pairs are known, as booleans; symmetric unless directed."""
    square = as_square_array(square, "mask")
    if not np.isin(square, (0, 1)).all():
        raise ValueError("mask holds values other than True and False; expected a boolean array.")
    array: npt.NDArray[np.bool_] = square.astype(bool)
    if not directed and (array != array.T).any():
        i, j = np.argwhere(array != array.T)[0]
        raise ValueError(
            f"mask is not symmetric: pair ({i}, {j}) is known one way and unknown the other. {DIRECTED_HINT}"
        )
    return array


def check_size(matrix: NamedMatrix, n_nodes: int, node_names: Names | None, name: str, reference: str) -> None:
    """Refuse a matrix that is not of these nodes."""
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
