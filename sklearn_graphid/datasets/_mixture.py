"""A broad mixture of graphs, to train a prior that recognises the kind of a graph from its known part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._utils._numbers import FloatArray, check_integer, check_random_state
from ._families import FAMILIES, move_edges

__all__ = ["graph_families", "make_graph_mixture"]

_SMALLEST = 8  # nodes; below, the families can no longer be told apart
# Real graphs do not strictly follow one family: in this share of the graphs, up to this share of the edges is moved.
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
    """Make random graphs of many families.

    The shipped prior "general" was trained on such graphs. The family of a graph is drawn uniformly, its size
    log-uniformly, and its density and other parameters as the family prescribes. In two out of five graphs, up to a
    fifth of the edges are then moved to random pairs, because real graphs do not strictly follow one family. Nodes are
    numbered at random.

    Parameters
    ----------
    n_graphs : int, default=100
        Number of graphs to make.
    families : list of str or None, default=None
        Names of families among `graph_families()`. If None, all of them.
    min_nodes, max_nodes : int, default=8 and 100
        Smallest number of nodes, at least 8, and largest number of nodes of a graph. Families made of rows, cells or
        groups of equal size may give a few nodes fewer.
    random_state : int, RandomState instance or None, default=None
        Seed of the random draws.

    Returns
    -------
    list of ndarray of shape (n_nodes, n_nodes)
        Adjacency matrices with entries 0. and 1., in general of different sizes.

    See Also
    --------
    graph_families : The names of the families.

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
    """Get the names of the families that `make_graph_mixture` draws from.

    Returns
    -------
    list of str
        The names of the families.

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
    expected = f"expected a list of names among {', '.join(FAMILIES)}"
    if isinstance(families, str) or not isinstance(families, Sequence) or not families:
        raise TypeError(f"families={str(families)[:100]!r}; {expected}.")
    for name in families:
        if name not in FAMILIES:
            raise ValueError(f"families holds {str(name)[:100]!r}; {expected}.")
    return list(families)
