"""Lists of pairs, by the names of their nodes, as matrices."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from .._utils._optional import is_networkx
from ._edge_space import EdgeSpace
from ._names import Names, check_names, column_names, in_words, is_numbering, match_names

__all__ = [
    "check_nodes",
    "find_nodes",
    "graph_pairs",
    "list_pairs",
    "matrices_of_pairs",
    "nodes_of_pairs",
    "split_by_presence",
]

Pair = tuple[Hashable, Hashable]

_PRESENCE = {True: True, False: False, "present": True, "absent": False}


def graph_pairs(graph: Any, argument: str) -> list[Pair]:
    """The edges of a networkx graph."""
    if not is_networkx(graph) or graph.is_directed() or graph.is_multigraph():
        kind = type(graph).__name__
        raise TypeError(f"{argument} is a {kind}; expected an undirected networkx.Graph.")
    return list(graph.edges())


def list_pairs(pairs: Any, argument: str) -> list[Pair]:
    """Pairs of node names from a list of them or a graph."""
    if is_networkx(pairs):
        return graph_pairs(pairs, argument)
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable) or column_names(pairs) is not None:
        raise TypeError(f"{argument} is a {type(pairs).__name__}; expected a list of pairs of nodes, or a graph.")
    return [_check_pair(pair, argument) for pair in pairs]


def _check_pair(pair: Any, argument: str) -> Pair:
    if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
        raise ValueError(f"{argument} holds {pair!r}; expected pairs of nodes, such as ('a', 'b').")
    return ends


def split_by_presence(frame: Any, source: str, target: str, present: str | None) -> tuple[list[Pair], list[Pair]]:
    """The present and the absent pairs of a table with a row for each known pair."""
    columns = [str(column) for column in getattr(frame, "columns", ())]
    for argument, column in (("source", source), ("target", target), ("present", present)):
        if column is not None and str(column) not in columns:
            hint = " Pass present=None where every row is an edge." if argument == "present" else ""
            raise ValueError(f"{argument}={column!r}, but frame has the columns {in_words(columns)}.{hint}")
    pairs = list(zip(frame[source], frame[target], strict=True))
    if present is None:
        return pairs, []
    marked = [(pair, _presence(value, present)) for pair, value in zip(pairs, frame[present], strict=True)]
    return [pair for pair, is_edge in marked if is_edge], [pair for pair, is_edge in marked if not is_edge]


def _presence(value: Any, column: str) -> bool:
    try:
        return _PRESENCE[value]
    except (KeyError, TypeError):
        raise ValueError(
            f"column {column!r} of frame holds {value!r}; expected True or False, 1 or 0, 'present' or 'absent'."
        ) from None


def check_nodes(nodes: Any) -> Names:
    """The names that `nodes` gives: a list of them, or a DataFrame whose columns they are."""
    columns = getattr(nodes, "columns", None)
    listed = nodes if columns is None else columns
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise TypeError(f"nodes is a {type(nodes).__name__}; expected a list of node names, or a DataFrame.")
    return check_names(listed, "nodes")


def nodes_of_pairs(nodes: Iterable[Hashable], pairs: Iterable[Pair]) -> Names:
    """The nodes, then those that only the pairs mention; numbered nodes in the order of their numbers."""
    names = check_names(dict.fromkeys([*nodes, *(end for pair in pairs for end in pair)]), "nodes")
    return tuple(sorted(names, key=lambda name: int(str(name)))) if is_numbering(names) else names


def matrices_of_pairs(
    present: list[Pair], absent: list[Pair], names: Names, argument: str, absent_argument: str
) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    """Where pairs are known, and the edges among them."""
    mask, values = np.eye(len(names), dtype=bool), np.zeros((len(names), len(names)))
    rows, columns = _places(present, names, argument)
    edges = EdgeSpace(len(names), rows, columns)
    edges.write(mask, True)
    edges.write(values, 1.0)
    rows, columns = _places(absent, names, absent_argument)
    both = values[rows, columns] == 1
    if both.any():
        pair = absent[int(both.argmax())]
        raise ValueError(f"the pair {pair!r} is both present and absent; expected one of the two.")
    EdgeSpace(len(names), rows, columns).write(mask, True)
    return mask, values


def _places(pairs: list[Pair], names: Names, argument: str) -> npt.NDArray[np.intp]:
    places = find_nodes((end for pair in pairs for end in pair), names, argument)
    for pair in pairs:
        if places[pair[0]] == places[pair[1]]:
            raise ValueError(f"{argument} holds the pair {pair!r} of a node with itself; expected two nodes.")
    found = [[places[first], places[second]] for first, second in pairs]
    return np.array(found, dtype=np.intp).reshape(-1, 2).T


def find_nodes(nodes: Iterable[Hashable], names: Names, argument: str) -> dict[Hashable, int]:
    """Where each of the nodes stands among the names; ValueError where one does not."""
    wanted = tuple(dict.fromkeys(nodes))
    places = dict(zip(wanted, match_names(wanted, names), strict=True))
    surplus = [node for node, place in places.items() if place is None]
    if surplus:
        raise ValueError(f"{argument} has nodes that are not among `nodes`: {in_words(surplus)}.")
    return {node: place for node, place in places.items() if place is not None}
