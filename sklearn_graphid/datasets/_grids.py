"""Rectangular grids with a few random shortcuts."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from .._utils._numbers import FloatArray, check_flag, check_integer, check_random_state
from ..graphs import EdgeSpace

__all__ = ["add_edges", "make_grid_graphs"]


def make_grid_graphs(
    n_graphs: int = 100,
    *,
    min_nodes: int = 40,
    max_nodes: int = 49,
    min_side: int = 5,
    max_side: int = 9,
    min_extra_edges: int = 2,
    max_extra_edges: int = 4,
    shuffle_nodes: bool = True,
    random_state: Any = None,
) -> list[FloatArray]:
    """Make rectangular grids with a few random extra edges, as in the published experiments.

    Sides, the number of extra edges, and the pairs that these connect are drawn uniformly among all that fit.

    Parameters
    ----------
    n_graphs : int, default=100
        Number of graphs to make.
    min_nodes, max_nodes, min_side, max_side, min_extra_edges, max_extra_edges : int
        Bounds, both included, of the number of nodes of a graph, of the sides of the grid in nodes, and of the number
        of extra edges.
    shuffle_nodes : bool, default=True
        Whether to number the nodes at random. If False, they are numbered row by row.
    random_state : int, RandomState instance or None, default=None
        Seed of the random draws.

    Returns
    -------
    list of ndarray of shape (n_nodes, n_nodes)
        Adjacency matrices with entries 0. and 1., in general of different sizes.

    Examples
    --------
    >>> from sklearn_graphid.datasets import make_grid_graphs
    >>> graphs = make_grid_graphs(3, random_state=0)
    >>> [graph.shape[0] for graph in graphs]
    [49, 42, 48]
    """
    check_integer(n_graphs, "n_graphs", low=1)
    check_integer(min_nodes, "min_nodes", low=1)
    check_integer(max_nodes, "max_nodes", low=min_nodes, low_name="min_nodes")
    check_integer(min_side, "min_side", low=1)
    check_integer(max_side, "max_side", low=min_side, low_name="min_side")
    check_integer(min_extra_edges, "min_extra_edges", low=0)
    check_integer(max_extra_edges, "max_extra_edges", low=min_extra_edges, low_name="min_extra_edges")
    check_flag(shuffle_nodes, "shuffle_nodes")
    # A longer side has too many nodes, whatever the other side; there is no need to try it.
    sides = range(min_side, min(max_side, max_nodes // min_side) + 1)
    shapes = [(height, width) for height, width in product(sides, sides) if min_nodes <= height * width <= max_nodes]
    if not shapes:
        raise ValueError(
            f"No grid fits: sides between min_side={min_side} and max_side={max_side} never give between "
            f"min_nodes={min_nodes} and max_nodes={max_nodes} nodes; expected wider bounds."
        )
    for height, width in shapes:
        n_nodes, n_edges = height * width, height * (width - 1) + width * (height - 1)
        room = n_nodes * (n_nodes - 1) // 2 - n_edges
        if room < max_extra_edges:
            raise ValueError(
                f"max_extra_edges={max_extra_edges} but a grid of {height} by {width} nodes has only {room} "
                f"pairs that are not neighbours; expected fewer extra edges or larger grids."
            )
    import networkx as nx

    random = check_random_state(random_state)
    graphs = []
    for _ in range(n_graphs):
        height, width = shapes[random.randint(len(shapes))]
        n_extra_edges = random.randint(min_extra_edges, max_extra_edges + 1)
        adjacency: FloatArray = nx.to_numpy_array(nx.grid_2d_graph(height, width), dtype=np.float64)
        add_edges(adjacency, n_extra_edges, random)
        if shuffle_nodes:
            order = random.permutation(len(adjacency))
            adjacency = adjacency[np.ix_(order, order)]
        graphs.append(adjacency)
    return graphs


def add_edges(adjacency: FloatArray, n_edges: int, random: np.random.RandomState) -> None:
    """Add the given number of edges in place, at random pairs without an edge."""
    free = EdgeSpace.of_mask(adjacency == 0)
    free.select(random.permutation(free.n_free)[:n_edges]).write(adjacency, 1.0)
