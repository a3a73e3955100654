"""A broad mixture of graphs, for a prior that reads the kind of a graph off its known part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._utils._numbers import FloatArray, check_integer
from ._families import FAMILIES, move_edges

__all__ = ["graph_families", "make_graph_mixture"]

_SMALLEST = 8  # nodes; below, the families can no longer be told apart
# Real graphs are of no family strictly: in so many graphs a few edges are moved, up to this share.
_LOOSE_GRAPHS = 0.4
_MOST_MOVED = 0.2


def make_graph_mixture(
    n_graphs: int = 100,
    *,
    families: Sequence[str] | None = None,
    min_nodes: int = 8,
    max_nodes: int = 100,
    random_state: Any = None,
) -> list[FloatArray]:
    """Make graphs of many kinds.

    The shipped prior "general" has learned from them. A graph's family is drawn uniformly, its size uniformly in the
    logarithm, and its density and other parameters within the family. In two of five graphs, up to a fifth of the edges
    are then moved anywhere, as real graphs are of no family strictly. Nodes are numbered at random.

    Parameters
    ----------
    n_graphs : int, default=100
        How many graphs to make.
    families : list of str or None, default=None
        Names of families, out of `graph_families()`. None: all of them.
    min_nodes, max_nodes : int, default=8 and 100
        Fewest nodes, 8 or more, and most nodes asked of a family. Lattices and groups of one size may have a few nodes
        fewer.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws.

    Returns
    -------
    list of ndarray of shape (n_nodes, n_nodes)
        Adjacency matrices with entries 0. and 1., in general of different sizes.

    See Also
    --------
    graph_families : The names.

    Examples
    --------
    >>> from sklearn_graphid.datasets import make_graph_mixture
    >>> graphs = make_graph_mixture(4, families=["trees"], max_nodes=20, random_state=0)
    >>> [len(graph) - int(graph.sum() / 2) for graph in graphs]
    [1, 1, 1, 1]
    """
    check_integer(n_graphs, "n_graphs", low=1)
    check_integer(min_nodes, "min_nodes", low=_SMALLEST)
    check_integer(max_nodes, "max_nodes", low=min_nodes, low_name="min_nodes")
    names = _check_families(families)
    random = check_random_state(random_state)
    graphs = []
    for _ in range(n_graphs):
        family = FAMILIES[names[random.randint(len(names))]]
        n_nodes = int(np.exp(random.uniform(np.log(min_nodes), np.log(max_nodes + 1))))
        adjacency = family(n_nodes, random)
        if random.random_sample() < _LOOSE_GRAPHS:
            adjacency = move_edges(adjacency, random.uniform(0.0, _MOST_MOVED), random)
        order = random.permutation(len(adjacency))
        graphs.append(adjacency[np.ix_(order, order)])
    return graphs


def graph_families() -> list[str]:
    """Names of the families that `make_graph_mixture` knows.

    Returns
    -------
    list of str
        The names.

    Examples
    --------
    >>> from sklearn_graphid.datasets import graph_families
    >>> "trees" in graph_families()
    True
    """
    return list(FAMILIES)


def _check_families(families: Sequence[str] | None) -> list[str]:
    if families is None:
        return graph_families()
    expected = f"expected a list of names out of {', '.join(FAMILIES)}"
    if isinstance(families, str) or not isinstance(families, Sequence) or not families:
        raise TypeError(f"families={str(families)[:100]!r}; {expected}.")
    for name in families:
        if name not in FAMILIES:
            raise ValueError(f"families holds {str(name)[:100]!r}; {expected}.")
    return list(families)
