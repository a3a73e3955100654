"""Conversion of lists of pairs, given by node names, to matrices."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._libraries import is_networkx
from .._utils._numbers import FloatArray
from ._edge_space import EdgeSpace
from ._names import Names, check_names, column_names, in_words, is_numbering, match_names

__all__ = [
    "check_nodes",
    "find_nodes",
    "graph_pairs",
    "graph_strengths",
    "list_pairs",
    "matrices_of_pairs",
    "nodes_of_pairs",
    "read_table",
]

Pair = tuple[Hashable, Hashable]

_PRESENCE = {True: True, False: False, "present": True, "absent": False}


def graph_pairs(graph: Any, argument: str) -> list[Pair]:
    """The edges of a networkx graph."""
    if not is_networkx(graph) or graph.is_multigraph():
        kind = type(graph).__name__
        raise TypeError(f"{argument} is a {kind}; expected a networkx.Graph or a networkx.DiGraph.")
    return list(graph.edges())


def graph_strengths(graph: Any, weight: str) -> list[float]:
    """Read an attribute of the edges of a networkx graph; nan for edges without it."""
    attributes = [value for _, _, value in graph.edges(data=weight)]
    if attributes and all(value is None for value in attributes):
        raise ValueError(
            f"weight={weight!r}, but no edge of graph has this attribute; expected the name of an edge attribute."
        )
    return [_strength(value, f"attribute {weight!r} of graph") for value in attributes]


def list_pairs(pairs: Any, argument: str, directed: bool) -> list[Pair]:
    """Read pairs of node names from a list or from a graph, which must be directed or not as `directed` says."""
    if is_networkx(pairs):
        if pairs.is_directed() != directed:
            came, way_out = ("an undirected", "to_directed()") if directed else ("a directed", "to_undirected()")
            raise ValueError(f"{argument} is {came} graph, but graph is not; pass {argument}.{way_out} instead.")
        return graph_pairs(pairs, argument)
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable) or column_names(pairs) is not None:
        raise TypeError(f"{argument} is a {type(pairs).__name__}; expected a list of pairs of nodes, or a graph.")
    return [_check_pair(pair, argument) for pair in pairs]


def _check_pair(pair: Any, argument: str) -> Pair:
    if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
        raise ValueError(f"{argument} holds {pair!r}; expected pairs of nodes, such as ('a', 'b').")
    return ends


def read_table(
    frame: Any, source: str, target: str, present: str | None, weight: str | None
) -> tuple[list[Pair], list[Pair], list[float] | None]:
    """The present and the absent pairs of a table with a row for each known pair, and the strengths of the present."""
    columns = [str(column) for column in getattr(frame, "columns", ())]
    for argument, column in (("source", source), ("target", target), ("present", present), ("weight", weight)):
        if column is not None and str(column) not in columns:
            hint = " If every row is an edge, pass present=None." if argument == "present" else ""
            raise ValueError(f"{argument}={column!r}, but frame has the columns {in_words(columns)}.{hint}")
    pairs = list(zip(frame[source], frame[target], strict=True))
    is_edge = [True] * len(pairs) if present is None else [_presence(value, present) for value in frame[present]]
    edges = [pair for pair, there in zip(pairs, is_edge, strict=True) if there]
    absent = [pair for pair, there in zip(pairs, is_edge, strict=True) if not there]
    if weight is None:
        return edges, absent, None
    strengths = [_strength(value, f"column {weight!r} of frame") for value in frame[weight]]
    for pair, strength, there in zip(pairs, strengths, is_edge, strict=True):
        if not there and strength and not math.isnan(strength):
            raise ValueError(
                f"weights without edges: column {weight!r} of frame holds {strength:g} for the pair {pair!r}, which is "
                f"known to have no edge; expected 0 or nan there."
            )
    return edges, absent, [strength for strength, there in zip(strengths, is_edge, strict=True) if there]


def _strength(value: Any, place: str) -> float:
    """A number; nan for what says that it is missing."""
    if value is None or type(value).__name__ == "NAType":  # pandas' own nan, which compares with nothing
        return math.nan
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{place} holds {value!r}; expected numbers, or nan where the strength is unknown.")
    return float(value)


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
    present: list[Pair],
    absent: list[Pair],
    names: Names,
    argument: str,
    absent_argument: str,
    *,
    directed: bool,
    strengths: list[float] | None = None,
) -> tuple[npt.NDArray[np.bool_], FloatArray, FloatArray | None]:
    """Where pairs are known, the edges among them, and their strengths; a pair is (source, target)."""
    n_nodes = len(names)
    mask, values = np.eye(n_nodes, dtype=bool), np.zeros((n_nodes, n_nodes))
    # The target receives, and a row does: see _validation.
    columns, rows = _places(present, names, argument)
    edges = EdgeSpace(n_nodes, rows, columns, directed)
    edges.write(mask, True)
    edges.write(values, 1.0)
    columns, rows = _places(absent, names, absent_argument)
    both = values[rows, columns] == 1
    if both.any():
        pair = absent[int(both.argmax())]
        raise ValueError(f"the pair {pair!r} is both present and absent; expected one of the two.")
    EdgeSpace(n_nodes, rows, columns, directed).write(mask, True)
    return mask, values, None if strengths is None else _strengths_of_pairs(edges, strengths, present, argument)


def _strengths_of_pairs(edges: EdgeSpace, strengths: list[float], pairs: list[Pair], argument: str) -> FloatArray:
    weights, given = np.full((edges.n_nodes, edges.n_nodes), np.nan), np.array(strengths, dtype=np.float64)
    is_given = ~np.isnan(given)
    # A pair may be listed twice; where only one of the rows has a strength, that is the pair's.
    edges.select(is_given).write(weights, given[is_given])
    apart = is_given & (edges.gather(weights) != given)
    if apart.any():
        pair = pairs[int(apart.argmax())]
        raise ValueError(f"{argument} holds two different strengths for the pair {pair!r}; expected one.")
    return weights


def _places(pairs: list[Pair], names: Names, argument: str) -> npt.NDArray[np.intp]:
    places = find_nodes((end for pair in pairs for end in pair), names, argument)
    for pair in pairs:
        if places[pair[0]] == places[pair[1]]:
            raise ValueError(f"{argument} holds the pair {pair!r} of a node with itself; expected two different nodes.")
    found = [[places[first], places[second]] for first, second in pairs]
    return np.array(found, dtype=np.intp).reshape(-1, 2).T


def find_nodes(nodes: Iterable[Hashable], names: Names, argument: str) -> dict[Hashable, int]:
    """Return the index of each node among the names; raise ValueError if a node is not among them."""
    wanted = tuple(dict.fromkeys(nodes))
    places = dict(zip(wanted, match_names(wanted, names), strict=True))
    surplus = [node for node, place in places.items() if place is None]
    if surplus:
        raise ValueError(f"{argument} has nodes that are not among `nodes`: {in_words(surplus)}.")
    return {node: place for node, place in places.items() if place is not None}
