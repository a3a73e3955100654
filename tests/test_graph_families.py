"""The mixture of graph families: valid graphs, and of the kinds that they are named after, as networkx tells them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from _graph_families import FAMILIES, make_graph_mixture, move_edges

SIZES = (8, 9, 13, 24, 50, 100)


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[np.ndarray]]:
    """Strict members of every family: no edges moved."""
    random = np.random.RandomState(0)
    return {name: [family(n, random) for n in SIZES for _ in range(4)] for name, family in FAMILIES.items()}


def test_families_give_simple_graphs_of_the_size_asked_for_or_a_little_less(drawn):
    for family, graphs in drawn.items():
        for n_nodes, adjacency in zip(np.repeat(SIZES, 4), graphs, strict=True):
            assert n_nodes / 2 <= len(adjacency) <= n_nodes, family
            assert set(np.unique(adjacency)) == {0.0, 1.0}, family
            assert (adjacency == adjacency.T).all(), family
            assert not adjacency.diagonal().any(), family


@pytest.mark.parametrize(
    ("family", "is_member"),
    [
        ("trees", nx.is_tree),
        ("near-trees", lambda graph: nx.is_connected(graph) and not nx.is_tree(graph)),
        ("bipartite", nx.is_bipartite),
        ("random regular", nx.is_regular),
        ("planar", nx.is_planar),
        ("proximity", lambda graph: nx.is_planar(graph) and nx.is_connected(graph)),
        ("roads", lambda graph: nx.is_planar(graph) and nx.is_connected(graph)),
        ("lattices", nx.is_planar),
        ("grids", nx.is_connected),
        ("scale-free", nx.is_connected),
        ("hubs", lambda graph: max(dict(graph.degree).values()) >= 3),
        # A ladder has corners; all others have one degree.
        ("symmetric", lambda graph: len(set(dict(graph.degree).values())) <= 2),
        ("ego-nets", lambda graph: max(dict(graph.degree).values()) == len(graph) - 1),
    ],
)
def test_graphs_are_what_their_family_says(drawn, family, is_member):
    assert all(is_member(nx.from_numpy_array(graph)) for graph in drawn[family])


def test_moving_edges_keeps_their_number():
    grid = nx.to_numpy_array(nx.grid_2d_graph(5, 5))
    moved = move_edges(grid, 0.5, np.random.RandomState(0))
    assert moved.sum() == grid.sum()
    assert (moved == moved.T).all()
    # Each of 40 edges is moved with probability one half: 20 ± 3.2, and some come back to where an edge was.
    assert 6 <= (grid * (1 - moved)).sum() / 2 <= 34


def test_mixture_repeats_itself_with_a_seed_and_is_of_the_families_and_sizes_asked_for():
    """Edges may be moved, which keeps their number: a tree has one less than nodes."""
    first, again = (make_graph_mixture(30, families=["trees"], max_nodes=30, random_state=0) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert max(len(graph) for graph in first) <= 30
    assert all(graph.sum() / 2 == len(graph) - 1 for graph in first)
    assert not all(nx.is_tree(nx.from_numpy_array(graph)) for graph in first)
