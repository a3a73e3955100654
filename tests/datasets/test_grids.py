"""The grid recipe, checked by what a grid is."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.graphs._matrices import check_graphs

# Height and width, each from 5 to 9, with 40 to 49 nodes.
PUBLISHED_SHAPES = {(5, 8), (8, 5), (5, 9), (9, 5), (6, 7), (7, 6), (6, 8), (8, 6), (7, 7)}


def n_grid_edges(height, width):
    return height * (width - 1) + width * (height - 1)


def test_defaults_are_the_published_recipe():
    graphs = check_graphs(make_grid_graphs(200, random_state=0))
    edges_of_size = {h * w: n_grid_edges(h, w) for h, w in PUBLISHED_SHAPES}
    assert len(graphs) == 200
    assert {len(graph) for graph in graphs} == set(edges_of_size)
    extra = [graph.sum() / 2 - edges_of_size[len(graph)] for graph in graphs]
    assert set(extra) == {2, 3, 4}


def test_shapes_and_extra_edges_are_uniform():
    """Sizes 40, 42, 45 and 48 come from two shapes each, 49 from one: probabilities 2/9 and 1/9."""
    n_graphs = 3_000
    graphs = make_grid_graphs(n_graphs, shuffle_nodes=False, random_state=1)
    sizes = np.array([len(graph) for graph in graphs])
    share_of_49 = (sizes == 49).mean()
    # Standard error sqrt(1/9 * 8/9 / 3000) = .0057; 4.5 sigma alarms once in 100,000 seeds.
    assert abs(share_of_49 - 1 / 9) < 4.5 * 0.0057
    extra = np.array([graph.sum() / 2 for graph in graphs])[sizes == 49] - n_grid_edges(7, 7)
    shares = np.array([(extra == count).mean() for count in (2, 3, 4)])
    assert np.abs(shares - 1 / 3).max() < 4.5 * np.sqrt(2 / 9 / len(extra))


def test_without_extra_edges_a_grid_is_a_grid():
    (graph,) = make_grid_graphs(
        1,
        min_nodes=12,
        max_nodes=12,
        min_side=3,
        max_side=4,
        min_extra_edges=0,
        max_extra_edges=0,
        random_state=0,
    )
    assert nx.is_isomorphic(nx.from_numpy_array(graph), nx.grid_2d_graph(3, 4))


def test_unshuffled_nodes_are_numbered_row_by_row():
    (graph,) = make_grid_graphs(
        1, min_nodes=25, max_nodes=25, max_side=5, min_extra_edges=0, max_extra_edges=0, shuffle_nodes=False
    )
    np.testing.assert_array_equal(np.flatnonzero(graph[0]), [1, 5])
    np.testing.assert_array_equal(np.flatnonzero(graph[6]), [1, 5, 7, 11])


def test_shuffling_changes_the_numbers_but_not_the_degrees():
    settings = {"min_nodes": 42, "max_nodes": 42, "min_extra_edges": 0, "max_extra_edges": 0}
    plain = make_grid_graphs(1, shuffle_nodes=False, random_state=3, **settings)[0]
    shuffled = make_grid_graphs(1, shuffle_nodes=True, random_state=3, **settings)[0]
    assert (plain != shuffled).any()
    np.testing.assert_array_equal(np.sort(plain.sum(0)), np.sort(shuffled.sum(0)))


def test_same_seed_same_graphs():
    first, second, other = (make_grid_graphs(5, random_state=seed) for seed in (7, 7, 8))
    for one, same in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, same)
    assert any(len(one) != len(two) or (one != two).any() for one, two in zip(first, other, strict=True))


def test_global_random_state_is_left_alone():
    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    make_grid_graphs(2, random_state=0)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"min_nodes": 50, "max_nodes": 53}, "No grid fits.*min_nodes=50 and max_nodes=53.*wider bounds"),
        ({"min_nodes": 49, "max_nodes": 40}, "max_nodes=40; expected an integer of at least min_nodes=49"),
        ({"min_side": 9, "max_side": 5}, "max_side=5; expected an integer of at least min_side=9"),
        ({"min_side": 0}, "min_side=0; expected an integer of at least 1"),
        ({"min_extra_edges": 3, "max_extra_edges": 2}, "max_extra_edges=2; expected .* at least min_extra_edges=3"),
        ({"min_extra_edges": -1}, "min_extra_edges=-1; expected an integer of at least 0"),
        ({"n_graphs": 0}, "n_graphs=0; expected an integer of at least 1"),
        (
            {"min_nodes": 4, "max_nodes": 4, "min_side": 2},
            "max_extra_edges=4 .* 2 by 2 nodes has only 2 pairs",
        ),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_grid_graphs(**settings)


COUNTS = ["n_graphs", "min_nodes", "max_nodes", "min_side", "max_side", "min_extra_edges", "max_extra_edges"]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [2.5, np.nan, np.inf, "a", None, True, 1j])
def test_counts_that_are_no_integers_are_refused_by_name(name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name}=.*; expected an integer of at least "):
        make_grid_graphs(**{name: value})


@pytest.mark.parametrize("value", [1, "yes", None])
def test_shuffling_is_true_or_false(value):
    with pytest.raises(TypeError, match=r"shuffle_nodes=.*; expected True or False"):
        make_grid_graphs(1, shuffle_nodes=value)


def test_sides_that_no_grid_can_have_cost_nothing():
    """A million sides make 10^12 shapes, of which nine have at most 49 nodes."""
    settings = {"random_state": 0}
    np.testing.assert_array_equal(
        make_grid_graphs(1, max_side=10**6, **settings)[0], make_grid_graphs(1, max_side=9, **settings)[0]
    )
