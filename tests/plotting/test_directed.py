"""Displays of directed graphs: an arrow ends at the target, and a cell stands in the row of the target."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from sklearn_graphid import KnownEdges
from sklearn_graphid.plotting import AdjacencyDisplay, GraphDisplay

# Edges 0 -> 1, 1 -> 0 and 1 -> 2; the first is known.
GRAPH = nx.DiGraph([(0, 1), (1, 0), (1, 2)])
RECEIVED = nx.to_numpy_array(GRAPH).T
PARTIAL = np.where(np.eye(3) == 1, 0, np.nan)
PARTIAL[1, 0] = 1
KNOWN = KnownEdges.from_array(PARTIAL, directed=True)
POSITIONS = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]])


def test_arrows_end_at_the_target():
    display = GraphDisplay.from_predictions(0.9 * RECEIVED, KNOWN, true_adjacency=GRAPH, pos=POSITIONS)
    assert {kind: len(heads) for kind, heads in display.arrows_.items()} == {"known": 1, "found": 2}
    tips = {kind: [tuple(head._posA_posB[1]) for head in heads] for kind, heads in display.arrows_.items()}
    assert tips == {"known": [(1.0, 0.0)], "found": [(0.0, 0.0), (1.0, 1.0)]}


def test_edges_both_ways_are_bows_on_either_side():
    display = GraphDisplay.from_predictions(0.9 * RECEIVED, KNOWN, pos=POSITIONS)
    (known,) = display.edges_["known"].get_segments()
    back, alone = display.edges_["inferred"].get_segments()
    assert known[12, 1] * back[12, 1] < 0  # between nodes 0 and 1, above the line and beneath it
    np.testing.assert_allclose(alone[:, 0], 1.0)


def test_an_undirected_graph_has_no_arrows():
    display = GraphDisplay.from_predictions(nx.to_numpy_array(nx.path_graph(3)), pos=POSITIONS)
    assert display.arrows_ == {}


@pytest.mark.parametrize("node_order", [None, "bandwidth", [2, 0, 1]])
def test_a_cell_stands_in_the_row_of_the_target_and_the_column_of_the_source(node_order):
    display = AdjacencyDisplay.from_predictions(0.9 * RECEIVED, KNOWN, node_order=node_order)
    order = display.node_order_
    columns, rows = display.marks_["inferred"].get_offsets().astype(int).T
    assert {(order[row], order[column]) for row, column in zip(rows, columns, strict=True)} == {(0, 1), (2, 1)}
    shown = display.probability_image_.get_array()
    np.testing.assert_array_equal(shown.mask, KNOWN.mask[np.ix_(order, order)])
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("from node", "to node")


def test_directions_may_be_told_without_what_is_known():
    display = AdjacencyDisplay.from_predictions(0.9 * RECEIVED, directed=True)
    assert len(display.marks_["inferred"].get_offsets()) == 3
    with pytest.raises(ValueError, match=r"edge_probabilities is not symmetric.*directed=True"):
        AdjacencyDisplay.from_predictions(0.9 * RECEIVED)
