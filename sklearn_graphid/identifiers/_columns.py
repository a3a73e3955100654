"""Which node each column of X and Y belongs to, and which experiment each row.

Both go by name where X and Y have names (those of rows are the labels of a pandas index), else by position.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from .._utils._warnings import warn_caller
from ..graphs._nodes import (
    Names,
    Nodes,
    are_integers,
    column_names,
    differing_names,
    in_words,
    is_numbering,
    match_names,
    unless_numbers,
)

__all__ = [
    "match_outputs",
    "nodes_of_outputs",
    "refuse_missing_inputs",
    "row_order",
    "warn_of_doubtful_data",
    "warn_of_unnamed_columns",
]

_OBSERVED = "'auto', 'all', 'leading', or a list of nodes, by their numbers or by the names of X's columns"


def nodes_of_outputs(Y: Any, inputs: Nodes) -> Nodes:
    """The names of Y's columns, which must differ; that of a Series, if it has one.

    The numbers 0, 1, 2 ... in this order are names only where nodes are called so, in another order.
    """
    if getattr(Y, "ndim", 2) == 1 and hasattr(Y, "dtype"):
        name = getattr(Y, "name", None)
        return Nodes(None if name is None else (name,), "Y")
    numbers = column_names(Y, keep_numbers=True)
    are_names = numbers is not None and inputs.names is not None and None not in match_names(numbers, inputs.names)
    return Nodes.of_columns(Y, "Y", keep_numbers=are_names)


def match_outputs(
    observed_nodes: Any, outputs: Nodes, n_outputs: int, inputs: Nodes, n_nodes: int
) -> npt.NDArray[np.intp]:
    """The node of each column of Y: by name where Y and X both have names, else by position or `observed_nodes`."""
    is_auto = isinstance(observed_nodes, str) and observed_nodes == "auto"
    names, node_names, numbers = outputs.names, inputs.names, tuple(range(n_nodes))
    if node_names is None and names is not None and None not in match_names(names, numbers):
        node_names = numbers  # columns that are called by numbers
    if names is None or node_names is None or (unless_numbers(names) is None and not is_auto):
        return _by_position(observed_nodes, n_outputs, inputs, n_nodes)
    places = match_names(names, node_names)
    if None in places:
        if n_outputs == n_nodes and (is_numbering(names) or is_numbering(node_names)):
            return _by_position(observed_nodes, n_outputs, inputs, n_nodes)
        # Nodes that were not measured need no column, so that only names that X does not have are wrong.
        surplus = [name for name, place in zip(names, places, strict=True) if place is None]
        differing = differing_names(names, node_names) if n_outputs >= n_nodes else f"surplus: {in_words(surplus)}."
        raise ValueError(
            f"Y and X do not name the same nodes: {differing} Nodes are matched by name where both have names; pass Y "
            f"without names, and observed_nodes, to match by position."
        )
    by_name = np.array(places, dtype=np.intp)
    if not is_auto and set(_by_position(observed_nodes, n_outputs, inputs, n_nodes)) != set(by_name):
        raise ValueError(
            f"observed_nodes={observed_nodes!r} contradicts the names of Y's columns, {in_words(names)}; "
            f"expected observed_nodes='auto', which uses the names."
        )
    return by_name


def _by_position(observed_nodes: Any, n_outputs: int, inputs: Nodes, n_nodes: int) -> npt.NDArray[np.intp]:
    if not isinstance(observed_nodes, str):
        nodes = inputs.numbers_of(observed_nodes, "observed_nodes", n_nodes, _OBSERVED)
        if len(nodes) != n_outputs:
            raise ValueError(
                f"observed_nodes names {len(nodes)} nodes but Y has {n_outputs} columns; expected one node for each "
                f"column."
            )
        return nodes
    if observed_nodes not in ("auto", "all", "leading"):
        raise ValueError(f"observed_nodes={observed_nodes!r}; expected {_OBSERVED}.")
    if n_outputs > n_nodes or (observed_nodes == "all" and n_outputs != n_nodes):
        raise ValueError(
            f"Y has {n_outputs} columns but X has {n_nodes} nodes (columns); expected an output for every node, or a "
            f"list of the measured nodes as observed_nodes."
        )
    if observed_nodes == "auto" and n_outputs < n_nodes:
        warn_caller(
            f"Y has {n_outputs} columns for {n_nodes} nodes; they are taken for the first {n_outputs} nodes. Name the "
            f"measured nodes in observed_nodes, or pass 'leading' to silence this."
        )
    return np.arange(n_outputs)


def row_order(X: Any, Y: Any) -> npt.NDArray[np.intp] | None:
    """The order that puts the rows of Y in that of X's, by the labels of their pandas index; None: by position.

    Rows go by position where X or Y has no index, where the labels agree, and where those of one are mere counts: the
    index that pandas gives to rows without labels, of which the other one has no label, or a part of it, as
    cross-validation takes it, beside labels of another type or integers that are one apart. All other labels that do
    not match are an error.
    """
    index_of_inputs, index_of_outputs = _index_of(X), _index_of(Y)
    if index_of_inputs is None or index_of_outputs is None or index_of_inputs.equals(index_of_outputs):
        return None
    reference, labels = tuple(index_of_inputs), tuple(index_of_outputs)
    is_unique = len(set(labels)) == len(labels) and len(set(reference)) == len(reference)
    places = match_names(reference, labels)
    if is_unique and None not in places and len(labels) == len(reference):
        return np.array(places, dtype=np.intp)
    are_counts = unless_numbers(reference) is None or unless_numbers(labels) is None
    if (are_counts and not set(labels) & set(reference)) or _are_other_counts(reference, labels):
        return None
    remedy = "Rows are matched by the labels of their index; to match by position, pass X.to_numpy() and Y.to_numpy()."
    if set(labels) == set(reference):
        twice = next(label for label, n_times in Counter(labels + reference).items() if n_times > 2)
        raise ValueError(
            f"X and Y have the same row labels in different orders, but several rows are called {twice!r}; expected "
            f"a different label for every experiment. {remedy}"
        )
    raise ValueError(f"Y and X do not have the same row labels: {differing_names(labels, reference)} {remedy}")


def _index_of(data: Any) -> Any:
    """The index of a pandas object, or of one that works alike; None for anything else."""
    index = getattr(data, "index", None)
    return index if hasattr(data, "shape") and hasattr(index, "equals") else None


def _are_other_counts(labels: Names, reference: Names) -> bool:
    """Whether one or both are mere counts of the rows: integers beside another type, or beside integers one apart."""
    if not (are_integers(labels) and are_integers(reference)):
        return are_integers(labels) or are_integers(reference)
    steps = {int(label) - int(other) for label, other in zip(labels, reference, strict=True)}  # type: ignore[call-overload]
    return steps in ({1}, {-1})


def warn_of_unnamed_columns(**data: Any) -> None:
    """Warn where the row labels of a CSV file have been read as a node."""
    unnamed = {
        name: column
        for name, table in data.items()
        for column in (column_names(table) or ())
        if isinstance(column, str) and column.startswith("Unnamed: ")
    }
    if unnamed:
        column = next(iter(unnamed.values()))
        warn_caller(
            f"{' and '.join(unnamed)} {'have' if len(unnamed) > 1 else 'has'} a column {column!r}, as pandas "
            f"calls a column without a header, such as the row labels of a CSV file; it counts as a node here. If it "
            f"holds row labels, read the file with pandas.read_csv(..., index_col=0)."
        )


def refuse_missing_inputs(inputs: FloatArray, nodes: Nodes) -> None:
    """Raise ValueError where an input is nan."""
    missing = np.argwhere(np.isnan(inputs))
    if len(missing):
        row, column = missing[0]
        node = column if nodes.names is None else repr(nodes.names[column])
        raise ValueError(
            f"Input X contains NaN: {len(missing)} of {inputs.size} entries, the first in row {row} at node {node}; "
            f"expected a number for every input, such as 0 where nothing was put in. Only outputs may be missing: "
            f"leave out experiments whose inputs are not known."
        )


def warn_of_doubtful_data(inputs: FloatArray, outputs: FloatArray) -> None:
    """Warn where X is zero, Y is X or rows are copies, which are more often mistakes than measurements."""
    # Where nothing is put in and nothing comes out, rows are alike without being copies.
    both = np.hstack([inputs, np.nan_to_num(outputs)])[inputs.any(1) & np.nan_to_num(outputs).any(1)]
    if n_copies := len(both) - len(np.unique(both, axis=0)):
        warn_caller(
            f"{n_copies} of {len(inputs)} rows of X and Y are copies of other rows. They count as experiments, so the "
            f"result is too sure; keep one row of each."
        )
    if not inputs.any():
        warn_caller(
            "X holds nothing but zeros. Filters turn inputs of zero into outputs of zero on every graph, so these "
            "experiments tell nothing about the edges; check how X was made."
        )
    elif bool((np.isnan(outputs) | (outputs == inputs)).all()):
        warn_caller(
            "Y is equal to X: every measured output is its node's own input, as if no node had an effect on another. "
            "Check that Y holds the outputs, and not the inputs once more."
        )
