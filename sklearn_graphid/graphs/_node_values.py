"""Numbers that belong to nodes, one for each: matched by name if they carry names, else by position."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._utils._numbers import FloatArray, check_real_array
from ._names import Names, check_names, node_order, unless_numbers

__all__ = ["check_node_values", "index_names"]


def check_node_values(values: Any, argument: str, n_nodes: int, node_names: Names | None) -> FloatArray:
    """Return finite numbers in the order of the nodes.

    Parameters
    ----------
    values : array-like or Series
        What came. The index of a Series names the nodes.
    argument : str
        What messages call it.
    n_nodes, node_names : int and tuple or None
        How many nodes there are, and what they are called.

    Returns
    -------
    ndarray of shape (n_nodes,)
        A copy.
    """
    array = check_real_array(values, argument)
    if array.shape != (n_nodes,):
        raise ValueError(f"{argument} has shape {array.shape}; expected ({n_nodes},), one number for each node.")
    order = node_order(index_names(values, argument), node_names, argument, "the nodes")
    return array if order is None else array[order]


def index_names(values: Any, argument: str) -> Names | None:
    """The index of a Series, which names the nodes; None for other types, and for the numbers 0, 1, 2 ..."""
    index = getattr(values, "index", None)
    if index is None or callable(index) or np.ndim(values) != 1:  # lists have a method of this name
        return None
    return unless_numbers(check_names(index, f"{argument}'s index"))
