"""A network as nodes and edges and as a matrix: what is drawn is what was asked for."""

from __future__ import annotations

from itertools import combinations, pairwise

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from display_cases import KNOWN, LONG_NAMES, RIGHT, RING, WRONG, extents, legend_texts, overlap, probabilities
from matplotlib.colors import to_hex
from matplotlib.text import Text
from scipy import optimize

from sklearn_graphid import AdamSystemIdentifier
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.plotting import AdjacencyDisplay, GraphDisplay
from sklearn_graphid.plotting._adjacency import spread


def n_edges_of(display):
    return {kind: len(lines.get_segments()) for kind, lines in display.edges_.items()}


# The network as nodes and edges


def test_graph_sorts_edges_by_their_fate():
    display = GraphDisplay.from_predictions(WRONG, KNOWN, true_adjacency=RING)
    assert n_edges_of(display) == {"known": 3, "missed": 1, "false": 1}
    assert legend_texts(display.ax_) == ["known edge (3)", "missed edge (1)", "false edge (1)"]


def test_graph_without_truth_has_inferred_edges():
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, show_unknown=True)
    assert n_edges_of(display) == {"unknown": 3, "known": 3, "inferred": 1}


def test_graph_is_wider_where_an_edge_is_surer():
    display = GraphDisplay.from_predictions(probabilities(0.6, 0.99, 0.1), KNOWN)
    (less, more) = display.edges_["inferred"].get_linewidths()
    assert less < more


def test_graph_does_not_rely_on_colour():
    display = GraphDisplay.from_predictions(WRONG, KNOWN, true_adjacency=RING)
    patterns = {kind: lines.get_linestyles()[0][1] for kind, lines in display.edges_.items()}
    assert patterns["missed"] is not None  # dashed
    assert patterns["known"] is patterns["false"] is None  # solid; the false one has a mark
    nodes, marks = display.ax_.collections[-1], display.ax_.collections[-2]
    assert len(nodes.get_offsets()) == 4
    start, end = display.positions_[[0, 2]]
    # The false edge crosses no node, so that its mark stands in its middle.
    np.testing.assert_allclose(marks.get_offsets(), [(start + end) / 2])


@pytest.mark.parametrize("as_mapping", [True, False])
def test_graph_takes_positions(as_mapping):
    corners = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    names = list("abcd")
    pos = dict(zip(names, corners, strict=True)) if as_mapping else corners
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, node_names=names, pos=pos, node_labels=True)
    np.testing.assert_array_equal(display.positions_, corners)
    np.testing.assert_array_equal(display.nodes_.get_offsets(), corners)
    assert [text.get_text() for text in display.ax_.texts] == names


def test_graph_writes_long_names_beside_the_nodes():
    corners = np.array([[0, 0], [0, 1], [1, 1], [1, 0]])
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, node_names=LONG_NAMES[:4], pos=corners, node_labels=True)
    boxes = extents(display, display.ax_.texts)
    nodes = display.ax_.transData.transform(corners)
    assert [text.get_text() for text in display.ax_.texts] == LONG_NAMES[:4]
    for box, node in zip(boxes, nodes, strict=True):
        assert box.y0 > node[1]
        assert (box.x0 + box.x1) / 2 == pytest.approx(node[0], abs=1)
    assert not np.array_equal(display.nodes_.get_facecolors()[0], [1, 1, 1, 1])  # nothing is in them, so they are full


def test_graph_bends_an_edge_around_a_node():
    triangle = np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    display = GraphDisplay.from_predictions(triangle, pos=[[0, 0], [1, 0], [2, 0]])
    (curve,) = display.edges_["inferred"].get_segments()
    np.testing.assert_allclose(curve[[0, -1]], [[0, 0], [2, 0]], atol=1e-12)
    assert np.abs(curve[:, 1]).max() > 0.2


@pytest.mark.parametrize("layout", ["kamada_kawai", "spring", "spectral", "circular", nx.shell_layout])
def test_graph_layouts_are_reproducible_and_keep_nodes_apart(layout):
    two_parts = nx.to_numpy_array(nx.disjoint_union(nx.cycle_graph(5), nx.path_graph(3)))
    first = GraphDisplay.from_predictions(two_parts, layout=layout).positions_
    second = GraphDisplay.from_predictions(two_parts, layout=layout).positions_
    np.testing.assert_array_equal(first, second)
    if layout != "spectral":  # which by its nature puts the parts on top of one another
        distances = np.linalg.norm(first[:, None] - first, axis=-1)[np.triu_indices(8, 1)]
        assert distances.min() > 0.05 * distances.max()


def test_graph_styles_change_the_look_and_the_legend():
    styles = {"inferred": {"label": "new", "color": "#123456", "linewidth": 5}}
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, styles=styles)
    assert to_hex(display.edges_["inferred"].get_colors()[0]) == "#123456"
    assert legend_texts(display.ax_)[-1] == "new (1)"
    assert GraphDisplay.from_predictions(RIGHT, KNOWN, legend=False).ax_.get_legend() is None


def test_graph_colours_nodes_by_a_signal():
    signal = np.array([0.0, 2.0, np.nan, 4.0])
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, node_values=signal, value_range=(-1, 4), value_label="volt")
    display.figure_.canvas.draw()
    colours = display.nodes_.get_facecolors()
    expected = plt.colormaps["cividis"]((signal[[0, 1, 3]] + 1) / 5)
    np.testing.assert_allclose(colours[[0, 1, 3]], expected)
    np.testing.assert_array_equal(colours[2], [1, 1, 1, 1])  # nothing was measured
    lightness = colours[[0, 1, 3], :3].mean(1)
    assert (np.diff(lightness) > 0).all()  # print in grey keeps the order
    assert (display.colorbar_.vmin, display.colorbar_.vmax) == (-1, 4)
    assert display.colorbar_.ax.get_ylabel() == "volt"
    assert GraphDisplay.from_predictions(RIGHT, KNOWN).colorbar_ is None


def test_graph_writes_names_beside_coloured_nodes():
    display = GraphDisplay.from_predictions(RIGHT, KNOWN, node_values=[1, 2, 3, 4], node_labels=True)
    boxes = extents(display, display.ax_.texts)
    for box, node in zip(boxes, display.ax_.transData.transform(display.positions_), strict=True):
        assert not box.contains(*node)


def test_graph_of_nothing_draws_nodes_only():
    display = GraphDisplay.from_predictions(np.zeros((3, 3)))
    assert display.edges_ == {}
    assert display.ax_.get_legend() is None


# The adjacency matrix


def test_adjacency_layers_hold_what_is_known_and_the_probabilities_of_the_rest():
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN)
    known, probable = display.known_image_.get_array(), display.probability_image_.get_array()
    np.testing.assert_array_equal(known.mask, ~KNOWN.mask)
    np.testing.assert_array_equal(known.filled(-1)[KNOWN.mask], RING[KNOWN.mask])
    np.testing.assert_array_equal(probable.mask, KNOWN.mask)
    np.testing.assert_array_equal(probable.compressed(), RIGHT[~KNOWN.mask])
    assert display.colorbar_.ax.get_ylabel() == "probability of an unknown edge"


def test_adjacency_marks_errors_where_they_are():
    display = AdjacencyDisplay.from_predictions(WRONG, KNOWN, true_adjacency=RING)
    cells = {kind: {tuple(cell) for cell in mark.get_offsets().tolist()} for kind, mark in display.marks_.items()}
    assert cells == {"missed": {(2, 3), (3, 2)}, "false": {(0, 2), (2, 0)}}
    assert legend_texts(display.ax_) == ["known edge", "known absence", "missed edge (1)", "false edge (1)"]


def test_adjacency_order_moves_cells_marks_and_names_together():
    order = [2, 0, 3, 1]
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, node_names=list("abcd"), node_order=order)
    np.testing.assert_array_equal(display.node_order_, order)
    np.testing.assert_array_equal(display.probability_image_.get_array().data, RIGHT[np.ix_(order, order)])
    assert {tuple(cell) for cell in display.marks_["inferred"].get_offsets().tolist()} == {(0, 2), (2, 0)}
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["c", "a", "d", "b"]


def test_adjacency_bandwidth_order_straightens_a_shuffled_path():
    shuffled = np.random.default_rng(0).permutation(12)
    path = nx.to_numpy_array(nx.path_graph(12))[np.ix_(shuffled, shuffled)]
    order = AdjacencyDisplay.from_predictions(path, node_order="bandwidth").node_order_
    rows, columns = np.nonzero(path[np.ix_(order, order)])
    assert np.abs(rows - columns).max() == 1


@pytest.mark.parametrize("own_figure", [True, False])
def test_adjacency_legend_and_names_keep_clear_of_one_another(own_figure):
    grid = nx.to_numpy_array(nx.grid_2d_graph(4, 5))
    ax = None if own_figure else plt.subplots(1, 2, figsize=(16, 9), layout="constrained")[1][1]
    display = AdjacencyDisplay.from_predictions(0.7 * grid, node_names=LONG_NAMES, true_adjacency=grid, ax=ax)
    left, above = display.ax_.get_yticklabels(), display.ax_.get_xticklabels()
    frame, legend, *names = extents(display, [display.figure_, display.ax_.get_legend(), *left, *above])
    assert not any(overlap(legend, name) for name in names)
    for neighbours in (names[:20], names[20:]):
        assert not any(overlap(one, other) for one, other in pairwise(neighbours))
    if own_figure:  # the layout of another is not ours
        for box in (legend, *names):
            assert (box.p0 >= frame.p0).all()
            assert (box.p1 <= frame.p1).all()
    assert [name.get_text() for name in above if name.get_visible()] == LONG_NAMES


def test_adjacency_known_edges_differ_from_probabilities_without_colour():
    everything = np.full((4, 4), 0.5) - 0.5 * np.eye(4)
    display = AdjacencyDisplay.from_predictions(np.where(KNOWN.mask, RING, everything), KNOWN)
    (hatched,) = [artist for artist in display.ax_.collections if artist.get_hatch()]
    centres = {tuple(path.vertices[:4].mean(0)) for path in hatched.get_paths()}
    assert centres == {(column, row) for row, column in np.argwhere(KNOWN.values).tolist()}
    # In a picture without colour: a known edge has light and dark pixels, a pair of probability one half is even.
    display.figure_.canvas.draw()
    pixels = np.asarray(display.figure_.canvas.buffer_rgba())[..., :3].mean(-1)

    def contrast(row, column):
        (x, y) = display.ax_.transData.transform((column, row)).astype(int)
        y = pixels.shape[0] - y
        return np.ptp(pixels[y - 12 : y + 12, x - 12 : x + 12])

    assert contrast(0, 1) > 60
    assert contrast(0, 2) < 5


def test_adjacency_of_a_large_network_shows_errors_and_no_hatch():
    network = nx.to_numpy_array(nx.cycle_graph(200))
    known = hide_edges(network, 0.3, random_state=0)
    wrong = known.fill(np.where(np.arange(known.n_unknown) < 3, 0.9, 0.1))  # a few false edges, and all others missed
    display = AdjacencyDisplay.from_predictions(wrong, known, true_adjacency=network)
    assert set(display.marks_) == {"missed", "false"}
    for mark in display.marks_.values():
        assert mark.get_sizes().min() >= 5**2
        assert mark.get_linewidths().min() > 0.5
    assert not any(artist.get_hatch() for artist in display.ax_.collections)
    assert not any(patch.get_hatch() for patch in display.ax_.get_legend().get_patches())


@pytest.mark.parametrize("directed", [False, True])
def test_adjacency_of_eighty_nodes_names_the_ends_of_inferred_edges(directed):
    network = nx.to_numpy_array(nx.connected_watts_strogatz_graph(80, 4, 0.2, seed=1))
    known = hide_edges(network, 0.1, random_state=0, directed=directed)
    names = [f"Substation {i}" for i in range(80)]
    display = AdjacencyDisplay.from_predictions(network, known, node_names=names)
    unknown_edges = (network == 1) & ~known.mask
    expected = {names[node] for node in np.flatnonzero((unknown_edges | unknown_edges.T).any(0))}
    texts = display.ax_.texts
    assert len(expected) / 2 < len(texts) / 2 <= len(expected) < 60  # beside the rows and above the columns
    assert {text.get_text() for text in texts} <= expected
    assert min(text.get_fontsize() for text in texts) >= 6
    assert not any(label.get_text() for label in (*display.ax_.get_xticklabels(), *display.ax_.get_yticklabels()))
    frame, legend, scale, *boxes = extents(
        display, [display.figure_, display.ax_.get_legend(), display.colorbar_.ax, *texts]
    )
    # An annotation's own box holds its leader, too; that of its text does not.
    boxes = [Text.get_window_extent(text) for text in texts]
    for box in boxes:
        assert (box.p0 >= frame.p0).all()
        assert (box.p1 <= frame.p1).all()
        assert not overlap(box, legend)
        assert not overlap(box, scale)
        assert not overlap(box, display.ax_.bbox)
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))


def test_adjacency_of_eighty_nodes_without_inferred_edges_names_nothing():
    names = [f"Substation {i}" for i in range(80)]
    display = AdjacencyDisplay.from_predictions(np.zeros((80, 80)), node_names=names)
    display.figure_.canvas.draw()
    assert not display.ax_.texts


def test_adjacency_explains_known_edges_where_there_are_some():
    assert legend_texts(AdjacencyDisplay.from_predictions(RIGHT).ax_) == ["known absence", "inferred edge (4)"]


def test_adjacency_without_scale_and_legend():
    display = AdjacencyDisplay.from_predictions(RIGHT, KNOWN, colorbar=False, legend=False)
    assert display.colorbar_ is None
    assert display.ax_.get_legend() is None
    assert len(display.figure_.axes) == 1


@pytest.mark.parametrize("known", [KNOWN, KNOWN.to_array(), KNOWN.mask])
def test_what_is_known_may_be_said_in_three_ways(known):
    display = AdjacencyDisplay.from_predictions(RIGHT, known)
    np.testing.assert_array_equal(display.known.mask, KNOWN.mask)
    np.testing.assert_array_equal(display.known.values, KNOWN.values)


def test_places_that_are_apart_stay():
    np.testing.assert_allclose(spread(np.array([1.0, 4.0, 9.0]), 2.0, -0.5, 10.0), [1, 4, 9])


@pytest.mark.parametrize("seed", range(3))
def test_places_are_moved_as_little_as_possible(seed):
    places = np.sort(np.random.default_rng(seed).uniform(20, 60, 12))
    moved = spread(places, 3.0, 0.0, 80.0)
    gaps = {"type": "ineq", "fun": lambda x: np.diff(x) - 3.0}
    start = places.mean() + 3.0 * (np.arange(12) - 5.5)
    best = optimize.minimize(lambda x: ((x - places) ** 2).sum(), start, constraints=gaps, method="SLSQP")
    assert ((moved - places) ** 2).sum() == pytest.approx(best.fun, rel=1e-6)
    assert np.diff(moved).min() >= 3.0 - 1e-9


def test_places_stay_in_range():
    moved = spread(np.array([0.0, 0.5, 9.5, 10.0]), 2.0, 0.0, 10.0)
    assert moved.min() >= 0
    assert moved.max() <= 10
    assert np.diff(moved).min() >= 2 - 1e-12


# Both


@pytest.mark.parametrize("display_class", [AdjacencyDisplay, GraphDisplay])
def test_network_displays_agree_between_constructors(display_class, identifier, system):
    truth = system[0]
    ax = plt.figure().subplots()
    display = display_class.from_estimator(identifier, true_adjacency=truth, ax=ax)
    given = display_class.from_predictions(
        identifier.edge_probabilities_,
        identifier.known_edges_,
        adjacency=identifier.adjacency_,
        true_adjacency=truth,
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert legend_texts(display.ax_) == legend_texts(given.ax_)
    np.testing.assert_array_equal(display.adjacency, given.adjacency)


def test_network_displays_call_nodes_by_the_names_of_the_columns(system):
    _, X, Y, known = system
    frame = pd.DataFrame(X, columns=list("abcdef"))
    fitted = AdamSystemIdentifier(max_iter=5, random_state=0).fit(frame, Y, known)
    graph = GraphDisplay.from_estimator(fitted, pos={name: (ord(name), 0) for name in "abcdef"}, node_labels=True)
    assert [text.get_text() for text in graph.ax_.texts] == list("abcdef")
    matrix = AdjacencyDisplay.from_estimator(fitted)
    assert [text.get_text() for text in matrix.ax_.get_xticklabels()] == list("abcdef")
