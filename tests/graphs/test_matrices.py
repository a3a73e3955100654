"""The border: what passes, and what an error says."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

from sklearn_graphid.graphs._matrices import (
    as_float_array,
    as_square_array,
    check_edge_probabilities,
    check_graph,
    check_graphs,
)

TRIANGLE = np.ones((3, 3)) - np.eye(3)


# One graph


@pytest.mark.parametrize(
    "graph",
    [
        TRIANGLE,
        TRIANGLE.astype(bool),
        TRIANGLE.astype(np.int8),
        TRIANGLE.tolist(),
        sparse.csr_array(TRIANGLE),
        sparse.coo_matrix(TRIANGLE),
        nx.complete_graph(3),
        np.ma.masked_array(TRIANGLE),
    ],
    ids=lambda graph: type(graph).__name__,
)
def test_every_kind_of_graph_becomes_a_float_array(graph):
    checked = check_graph(graph).values
    assert type(checked) is np.ndarray
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, TRIANGLE)


def test_networkx_nodes_keep_their_order():
    graph = nx.Graph()
    graph.add_nodes_from(["c", "a", "b"])
    graph.add_edge("c", "b")
    np.testing.assert_array_equal(check_graph(graph).values, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (np.zeros((2, 3)), r"adjacency has shape \(2, 3\); expected a square matrix"),
        (np.zeros(4), r"adjacency has shape \(4,\); expected a square matrix"),
        (np.zeros((2, 2, 2)), r"adjacency has shape \(2, 2, 2\); expected a square matrix"),
        (
            np.triu(TRIANGLE),
            r"adjacency is not symmetric: entry \(0, 1\) is 1 but entry \(1, 0\) is 0; .*undirected",
        ),
        (np.ones((3, 3)), "adjacency has a self-loop at node 0; expected a zero diagonal"),
        (np.diag([0, 0, 1]), "adjacency has a self-loop at node 2"),
        (
            TRIANGLE * 0.5,
            "adjacency holds the value 0.5; expected an unweighted graph, with entries 0 and 1 only",
        ),
        (-TRIANGLE, "adjacency holds the value -1"),
        (np.full((2, 2), np.nan), "adjacency holds the value nan"),
        (np.full((2, 2), np.inf), "adjacency holds the value inf"),
        (np.ma.masked_array(TRIANGLE, mask=np.eye(3)), "adjacency holds the value nan"),
        (nx.DiGraph([(0, 1)]), "adjacency is a networkx DiGraph; expected an undirected networkx.Graph"),
        (nx.MultiGraph([(0, 1), (0, 1)]), "adjacency is a networkx MultiGraph; expected an undirected"),
        (nx.Graph([(0, 1, {"weight": 2.5})]), "adjacency holds the value 2.5"),
        (nx.Graph([(0, 0)]), "adjacency has a self-loop at node 0"),
        (np.zeros((0, 0)), r"adjacency has 0 node\(s\); expected at least 1"),
        (nx.Graph(), r"adjacency has 0 node\(s\)"),
    ],
)
def test_what_is_no_simple_graph_is_refused(graph, message):
    with pytest.raises(ValueError, match=message):
        check_graph(graph)


@pytest.mark.parametrize("graph", ["graph", object(), [[0, 1], [1]], [["a", "b"], ["c", "d"]], TRIANGLE * 1j])
def test_what_is_no_matrix_is_a_type_error(graph):
    with pytest.raises(
        TypeError, match=r"adjacency is a .* that does not convert to a numeric array; expected a square"
    ):
        check_graph(graph)


def test_one_node_is_a_graph_unless_more_are_needed():
    np.testing.assert_array_equal(check_graph([[0]]).values, [[0.0]])
    with pytest.raises(ValueError, match=r"network has 1 node\(s\); expected at least 2"):
        check_graph([[0]], name="network", min_nodes=2)


def test_masked_entries_are_unknown_and_not_uncovered():
    masked = np.ma.masked_array([[0, 1], [1, 0]], mask=[[False, True], [True, False]])
    np.testing.assert_array_equal(as_float_array(masked, "matrix"), [[0, np.nan], [np.nan, 0]])


def test_square_arrays_of_any_numbers_pass():
    np.testing.assert_array_equal(as_square_array([[0.5, np.nan], [2, -1]], "matrix"), [[0.5, np.nan], [2, -1]])


# Lists of graphs


def as_objects(*graphs):
    array = np.empty(len(graphs), dtype=object)
    array[:] = graphs
    return array


@pytest.mark.parametrize(
    "graphs",
    [
        [TRIANGLE, np.zeros((2, 2))],
        (nx.complete_graph(3), sparse.csr_array((2, 2))),
        as_objects(TRIANGLE, np.zeros((2, 2))),
        iter([TRIANGLE, np.zeros((2, 2))]),
    ],
    ids=["list", "tuple", "object array", "iterator"],
)
def test_graphs_may_differ_in_size_and_kind(graphs):
    checked = check_graphs(graphs)
    np.testing.assert_array_equal(checked[0], TRIANGLE)
    np.testing.assert_array_equal(checked[1], np.zeros((2, 2)))


def test_a_three_dimensional_array_is_a_list_of_graphs():
    checked = check_graphs(np.stack([TRIANGLE] * 4))
    assert len(checked) == 4
    np.testing.assert_array_equal(checked[3], TRIANGLE)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ([], "graphs is empty; expected at least one graph"),
        (np.zeros((0, 3, 3)), "graphs is empty"),
        (
            TRIANGLE,
            r"graphs is a single ndarray of shape \(3, 3\); expected a list of graphs, e.g. \[graph\]",
        ),
        (
            sparse.csr_array(TRIANGLE),
            r"graphs is a single csr_array of shape \(3, 3\); expected a list of graphs",
        ),
        (nx.complete_graph(3), "graphs is a single Graph; expected a list of graphs"),
        ([TRIANGLE, np.zeros((1, 1))], r"graphs\[1\] has 1 node\(s\); expected at least 2"),
        ([TRIANGLE, np.triu(TRIANGLE)], r"graphs\[1\] is not symmetric"),
        (TRIANGLE.tolist(), r"graphs\[0\] has shape \(3,\); expected a square matrix"),
    ],
)
def test_what_is_no_list_of_graphs_is_refused(graphs, message):
    with pytest.raises(ValueError, match=message):
        check_graphs(graphs)


@pytest.mark.parametrize("graphs", ["graphs", b"graphs", None, 3])
def test_what_is_not_even_a_list_is_a_type_error(graphs):
    with pytest.raises(TypeError, match=rf"training is a {type(graphs).__name__}; expected a list of graphs"):
        check_graphs(graphs, name="training")


def test_single_nodes_pass_where_the_caller_allows_them():
    assert len(check_graphs([[[0]], TRIANGLE], min_nodes=1)) == 2


# Edge probabilities


def test_probabilities_pass_and_the_diagonal_is_not_read():
    given = np.full((3, 3), 0.25)
    np.fill_diagonal(given, np.nan)
    np.testing.assert_array_equal(check_edge_probabilities(given, 3), 0.25 * TRIANGLE)
    assert np.isnan(given[0, 0])  # the caller's array is untouched


def test_rounding_is_no_asymmetry():
    given = 0.25 * TRIANGLE
    given[0, 1] += 1e-8
    checked = check_edge_probabilities(given, 3)
    np.testing.assert_array_equal(checked, checked.T)


@pytest.mark.parametrize(
    ("probabilities", "message"),
    [
        (np.full((2, 2), 0.5), r"edge_prior has shape \(2, 2\) but there are 3 nodes"),
        (np.full((3, 3), 1.5), "edge_prior holds the value 1.5; expected probabilities between 0 and 1"),
        (np.full((3, 3), -0.5), "edge_prior holds the value -0.5"),
        (np.full((3, 3), np.nan), "edge_prior holds the value nan"),
        (
            np.triu(np.full((3, 3), 0.5)),
            r"edge_prior is not symmetric: entry \(0, 1\) is 0.5 but entry \(1, 0\) is 0",
        ),
        (np.full((3, 2), 0.5), r"edge_prior has shape \(3, 2\); expected a square matrix"),
    ],
)
def test_what_are_no_edge_probabilities_is_refused(probabilities, message):
    with pytest.raises(ValueError, match=message):
        check_edge_probabilities(probabilities, 3)
