"""Strengths of edges in pictures: widths and colours follow them, and signs are seen without colour."""

from __future__ import annotations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from display_cases import KNOWN, RIGHT, RING, legend_texts
from matplotlib.colors import LogNorm

from sklearn_graphid import ConstrainedLeastSquaresIdentifier, KnownEdges
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.plotting import AdjacencyDisplay, GraphDisplay

# The ring 0 - 1 - 2 - 3 - 0, of which (2, 3) is inferred.
STRENGTHS = np.zeros((4, 4))
for pair, strength in {(0, 1): 1.0, (1, 2): 4.0, (2, 3): 0.25, (0, 3): 1.0}.items():
    STRENGTHS[pair] = STRENGTHS[pair[::-1]] = strength
SIGNED = STRENGTHS.copy()
SIGNED[1, 2] = SIGNED[2, 1] = -4.0


def widths_of(display):
    """Width of every edge by its ends."""
    graph = display._edges()
    return {
        tuple(pair): width
        for kind, lines in display.edges_.items()
        for pair, width in zip(
            graph[kind].tolist(), np.broadcast_to(lines.get_linewidths(), len(graph[kind])), strict=True
        )
    }


def test_graph_is_wider_where_an_edge_is_stronger():
    widths = widths_of(GraphDisplay.from_predictions(RIGHT, KNOWN, weights=STRENGTHS))
    assert widths[0, 1] == widths[0, 3]
    # The square root of strengths that are four times as large is twice as large.
    assert widths[1, 2] == pytest.approx(2 * widths[0, 1])
    assert widths[2, 3] == pytest.approx(widths[0, 1] / 2)


def test_widths_depend_on_no_unit_and_have_limits():
    one, other = (widths_of(GraphDisplay.from_predictions(RIGHT, KNOWN, weights=c * STRENGTHS)) for c in (1.0, 1e6))
    assert one == pytest.approx(other)
    extreme = STRENGTHS.copy()
    extreme[1, 2] = extreme[2, 1] = 1e9
    extreme[2, 3] = extreme[3, 2] = 1e-9
    widths = widths_of(GraphDisplay.from_predictions(RIGHT, KNOWN, weights=extreme))
    assert widths[2, 3] > 0.5
    assert widths[1, 2] < 10


def test_graph_dots_edges_below_zero_and_explains_it():
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, weights=SIGNED)
    pairs = display._edges()["known"].tolist()
    is_dotted = [style[1] is not None for style in display.edges_["known"].get_linestyles()]
    assert [pair for pair, dotted in zip(pairs, is_dotted, strict=True) if dotted] == [[1, 2]]
    assert legend_texts(display.ax_)[-1] == "strength below zero"
    assert "strength below zero" not in legend_texts(GraphDisplay.from_predictions(RIGHT, KNOWN, weights=STRENGTHS).ax_)


@pytest.mark.parametrize("weights", [STRENGTHS, SIGNED])
def test_graph_has_strengths_in_a_column_of_their_own(weights):
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, weights=weights)
    display.figure_.canvas.draw()
    texts = display.ax_.get_legend().get_texts()
    edges = sorted({round(text.get_window_extent().x0) for text in texts if "edge" in text.get_text()})
    strengths = sorted({round(text.get_window_extent().x0) for text in texts if "strength" in text.get_text()})
    assert len(edges) == len(strengths) == 1
    assert edges < strengths


def test_graph_explains_widths():
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, weights=STRENGTHS)
    lines = {line.get_label(): line.get_linewidth() for line in display.ax_.get_legend().get_lines()}
    assert lines["strength 1"] == pytest.approx(widths_of(display)[0, 1])
    assert list(lines)[:2] == ["known edge (3)", "inferred edge (1)"]


def test_graph_styles_overrule_strengths():
    styles = {"known": {"linewidth": 3.0}}
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, weights=STRENGTHS, styles=styles)
    assert set(display.edges_["known"].get_linewidths()) == {3.0}


def test_arrows_of_a_directed_graph_are_larger_where_edges_are_stronger():
    received = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 9.0, 0.0]])
    known = KnownEdges.nothing(3, directed=True)
    adjacency = (received > 0).astype(float)
    display = GraphDisplay.from_predictions(adjacency, known, weights=received, pos=[[0, 0], [1, 0], [1, 1]])
    weak, strong = display.arrows_["inferred"]
    assert weak.get_mutation_scale() < strong.get_mutation_scale()


def test_adjacency_has_the_strengths_of_all_edges_in_any_order():
    order = [2, 0, 3, 1]
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, weights=STRENGTHS, node_order=order)
    shown = display.strength_image_.get_array()
    np.testing.assert_array_equal(shown.filled(0), STRENGTHS[np.ix_(order, order)])
    assert display.probability_image_ is None
    assert display.colorbar_.ax.get_ylabel() == "strength of an edge"
    assert legend_texts(display.ax_) == ["known edge", "known absence", "no edge inferred", "inferred edge (1)"]


def test_adjacency_scale_is_even_around_zero_where_there_are_signs():
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, weights=SIGNED)
    image = display.strength_image_
    assert (image.norm.vmin, image.norm.vmax) == (-4.0, 4.0)
    assert {tuple(cell) for cell in display.marks_["negative"].get_offsets().tolist()} == {(1, 2), (2, 1)}
    below, above = image.cmap(image.norm([-2.0, 2.0]))[:, [0, 2]]
    assert below[0] > below[1]  # orange
    assert above[1] > above[0]  # blue


@pytest.mark.parametrize(("largest", "is_logarithmic"), [(4.0, False), (400.0, True)])
def test_adjacency_scale_is_logarithmic_where_strengths_differ_much(largest, is_logarithmic):
    weights = np.where(STRENGTHS == 4.0, largest, STRENGTHS)
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, weights=weights)
    image = display.strength_image_
    assert isinstance(image.norm, LogNorm) == is_logarithmic
    # Print in grey keeps the order: the stronger the darker.
    lightness = image.cmap(image.norm([0.25, 1.0, largest]))[:, :3].mean(-1)
    assert (np.diff(lightness) < -0.05).all()
    display.figure_.canvas.draw()
    ticks = [text.get_text() for text in display.colorbar_.ax.get_yticklabels()]
    assert all(float(tick) >= 0 for tick in ticks if tick)  # plain numbers


def test_adjacency_shows_probabilities_if_asked():
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, weights=SIGNED, color_by="probability")
    assert display.strength_image_ is None
    assert "negative" not in display.marks_
    np.testing.assert_array_equal(display.probability_image_.get_array().compressed(), RIGHT[~KNOWN.mask])


@pytest.mark.parametrize("display_class", [AdjacencyDisplay, GraphDisplay])
def test_displays_take_the_strengths_of_an_estimator(display_class):
    X, Y = make_system(RING, "steady-state", [1.0], n_experiments=20, noise_std=0.1, random_state=0)
    fitted = ConstrainedLeastSquaresIdentifier().fit(X, Y, KNOWN)
    display = display_class.from_estimator(fitted, ax=plt.figure().subplots())
    np.testing.assert_array_equal(display.weights, fitted.weights_)


def test_names_put_strengths_in_order():
    names = list("abcd")
    graph = nx.relabel_nodes(nx.from_numpy_array(STRENGTHS), dict(enumerate(names)))
    shuffled = nx.Graph()
    shuffled.add_nodes_from("dbca")
    shuffled.add_edges_from(graph.edges(data=True))
    known = KnownEdges(KNOWN.mask, KNOWN.values, tuple(names))
    display = GraphDisplay.from_predictions(RIGHT, known, weights=shuffled)
    np.testing.assert_array_equal(display.weights, STRENGTHS)


def test_a_large_graph_without_edges_has_a_scale():
    nothing = np.zeros((30, 30))
    known = hide_edges(nothing, 0.3, random_state=0)
    display = AdjacencyDisplay.from_predictions(nothing, known, weights=nothing)
    assert display.strength_image_.get_array().count() == 0
    assert GraphDisplay.from_predictions(nothing, known, weights=nothing, layout="circular").ax_.get_legend() is None
