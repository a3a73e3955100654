"""The mixture of graph families: valid graphs, and of the kinds that they are named after, as networkx tells them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from sklearn_graphid.datasets import graph_families, make_graph_mixture
from sklearn_graphid.datasets._families import FAMILIES, move_edges

SIZES = (8, 9, 13, 24, 50, 100)


def draws(family: str) -> list[nx.Graph]:
    """Strict members of a family: no edges moved."""
    random = np.random.RandomState(0)
    return [nx.from_numpy_array(FAMILIES[family](n_nodes, random)) for n_nodes in SIZES for _ in range(5)]


@pytest.mark.parametrize("family", graph_families())
def test_family_gives_simple_graphs_of_the_size_asked_for_or_a_little_less(family):
    random = np.random.RandomState(1)
    for n_nodes in SIZES * 4:
        adjacency = FAMILIES[family](n_nodes, random)
        assert adjacency.dtype == np.float64
        assert n_nodes / 2 <= len(adjacency) <= n_nodes
        assert set(np.unique(adjacency)) <= {0.0, 1.0}
        assert (adjacency == adjacency.T).all()
        assert not adjacency.diagonal().any()
        assert adjacency.any()


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
def test_graphs_are_what_their_family_says(family, is_member):
    assert all(is_member(graph) for graph in draws(family))


def test_clustering_is_high_where_groups_are_tight_and_low_where_edges_are_random():
    clustering = {family: np.mean([nx.transitivity(graph) for graph in draws(family)]) for family in FAMILIES}
    assert min(clustering[name] for name in ("caveman", "many blocks", "shared memberships", "geometric")) > 0.35
    assert max(clustering[name] for name in ("sparse random", "trees", "bipartite", "random regular")) < 0.25


def test_moving_edges_keeps_their_number():
    grid = nx.to_numpy_array(nx.grid_2d_graph(5, 5))
    moved = move_edges(grid, 0.5, np.random.RandomState(0))
    assert moved.sum() == grid.sum()
    assert (moved == moved.T).all()
    # Each of 40 edges is moved with probability one half: 20 ± 3.2, and some come back to where an edge was.
    assert 6 <= (grid * (1 - moved)).sum() / 2 <= 34
    np.testing.assert_array_equal(move_edges(grid, 0.0, np.random.RandomState(0)), grid)


def test_mixture_repeats_itself_with_a_seed_and_stays_within_its_sizes():
    first, again = (make_graph_mixture(60, min_nodes=10, max_nodes=20, random_state=3) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    sizes = [len(graph) for graph in first]
    assert max(sizes) <= 20
    assert len(set(sizes)) > 5
    other = make_graph_mixture(60, min_nodes=10, max_nodes=20, random_state=4)
    assert any(a.shape != b.shape or (a != b).any() for a, b in zip(first, other, strict=True))


def test_mixture_is_of_the_families_asked_for():
    """Edges may be moved, which keeps their number: a tree has one less than nodes."""
    graphs = make_graph_mixture(30, families=["trees"], max_nodes=30, random_state=0)
    assert all(graph.sum() / 2 == len(graph) - 1 for graph in graphs)
    assert not all(nx.is_tree(nx.from_numpy_array(graph)) for graph in graphs)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_graphs": 0}, ValueError, "n_graphs"),
        ({"min_nodes": 7}, ValueError, "min_nodes"),
        ({"min_nodes": 20, "max_nodes": 10}, ValueError, "max_nodes"),
        ({"families": "trees"}, TypeError, "families='trees'; expected a list of names among sparse random"),
        ({"families": []}, TypeError, "families"),
        ({"families": ["trees", "tree"]}, ValueError, "families holds 'tree'; expected a list of names among"),
        ({"families": [3]}, ValueError, "families holds '3'"),
    ],
)
def test_bad_arguments_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        make_graph_mixture(**arguments)
