"""Displays: what is drawn is what was asked for, both constructors agree, and errors name the way out."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import AdamSystemIdentifier, GraphPriorScore, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.metrics import edge_calibration_error, edge_reliability_curve
from sklearn_graphid.plotting import (
    AdjacencyDisplay,
    EdgeCalibrationDisplay,
    GraphDisplay,
    PriorTrainingDisplay,
    ThetaDisplay,
    TraceDisplay,
)

# Four nodes on a ring; (0, 2) and (2, 3) are unknown beside (1, 3). Of these (2, 3) is an edge.
RING = nx.to_numpy_array(nx.cycle_graph(4))
MASK = np.ones((4, 4), dtype=bool)
for i, j in [(0, 2), (2, 3), (1, 3)]:
    MASK[i, j] = MASK[j, i] = False
KNOWN = KnownEdges(MASK, RING)


def probabilities(first, second, third):
    """Of (0, 2), (1, 3) and (2, 3), on top of what is known."""
    return KNOWN.fill([first, second, third])


# (0, 2) is a false edge, (2, 3) is missed.
WRONG = probabilities(0.9, 0.1, 0.3)
RIGHT = probabilities(0.1, 0.2, 0.8)


@pytest.fixture(scope="module")
def system():
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(ring, "polynomial", [0.05, 0.1, -0.05], n_experiments=12, random_state=0)
    return ring, X, Y, hide_edges(ring, 0.4, random_state=0)


@pytest.fixture(scope="module")
def identifier(system):
    _, X, Y, known = system
    return LangevinSystemIdentifier(n_chains=3, n_levels=5, n_sweeps=6, random_state=0).fit(X, Y, known)


@pytest.fixture(scope="module")
def optimizer(system):
    _, X, Y, known = system
    return AdamSystemIdentifier(n_iterations=20, random_state=0).fit(X, Y, known)


@pytest.fixture(scope="module")
def small_graphs():
    return make_grid_graphs(12, min_nodes=9, max_nodes=9, min_side=3, max_side=3, random_state=0)


@pytest.fixture(scope="module")
def prior(small_graphs):
    return GraphPriorScore(max_epochs=2, n_levels=4, random_state=0).fit(small_graphs)


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


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


def test_graph_of_nothing_draws_nodes_only():
    display = GraphDisplay.from_predictions(np.zeros((3, 3)))
    assert display.edges_ == {}
    assert display.ax_.get_legend() is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pos": [[0, 0]]}, r"pos has shape \(1, 2\); expected \(4, 2\)"),
        ({"pos": {0: (0, 0)}}, "pos has no entry for node 1"),
        ({"layout": "random"}, "layout='random'; expected 'kamada_kawai'"),
        ({"styles": {"new": {}}}, "styles names 'new'; expected kinds of edges among unknown, known"),
        ({"adjacency": np.zeros((3, 3))}, "adjacency has 3 nodes but edge_probabilities has 4"),
        ({"true_adjacency": np.ones((4, 4))}, "true_adjacency has a self-loop"),
    ],
)
def test_graph_errors(options, message):
    with pytest.raises(ValueError, match=message):
        GraphDisplay.from_predictions(RIGHT, KNOWN, **options)


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


LONG_NAMES = [f"a node with a long name, the {i}th" for i in range(20)]


def extents(display, artists):
    """Where artists are drawn, after the layout has settled."""
    display.figure_.canvas.draw()
    return [artist.get_window_extent() for artist in artists]


def overlap(first, second):
    # A pixel of contact is no overlap.
    return first.padded(-1).overlaps(second.padded(-1))


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

    def spread(row, column):
        (x, y) = display.ax_.transData.transform((column, row)).astype(int)
        y = pixels.shape[0] - y
        return np.ptp(pixels[y - 12 : y + 12, x - 12 : x + 12])

    assert spread(0, 1) > 60
    assert spread(0, 2) < 5


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


def test_adjacency_explains_known_edges_where_there_are_some():
    assert legend_texts(AdjacencyDisplay.from_predictions(RIGHT).ax_) == ["known absence", "inferred edge (4)"]


@pytest.mark.parametrize("order", ["size", [0, 1, 2], [0, 0, 1, 2], [0.5, 1, 2, 3]])
def test_adjacency_refuses_other_orders(order):
    with pytest.raises(ValueError, match="node_order"):
        AdjacencyDisplay.from_predictions(RIGHT, KNOWN, node_order=order)


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
    fitted = AdamSystemIdentifier(n_iterations=5, random_state=0).fit(frame, Y, known)
    graph = GraphDisplay.from_estimator(fitted, pos={name: (ord(name), 0) for name in "abcdef"}, node_labels=True)
    assert [text.get_text() for text in graph.ax_.texts] == list("abcdef")
    matrix = AdjacencyDisplay.from_estimator(fitted)
    assert [text.get_text() for text in matrix.ax_.get_xticklabels()] == list("abcdef")


# Calibration


def test_calibration_draws_the_curve_of_the_metric():
    display = EdgeCalibrationDisplay.from_predictions(RING, WRONG, KNOWN, n_bins=5)
    curve = edge_reliability_curve(RING, WRONG, KNOWN, n_bins=5)
    filled = curve.counts > 0
    np.testing.assert_array_equal(display.line_.get_xdata(), curve.mean_predicted[filled])
    np.testing.assert_array_equal(display.line_.get_ydata(), curve.fraction_true[filled])
    assert display.calibration_error == pytest.approx(edge_calibration_error(RING, WRONG, KNOWN, n_bins=5))
    assert legend_texts(display.ax_) == [f"edges (error {display.calibration_error:.3f})"]
    (bars, _) = display.counts_ax_.patches
    np.testing.assert_array_equal(bars.get_data().values, curve.counts)


def test_calibration_intervals_are_wilsons():
    # Newcombe (1998), table I: 81 of 263 has the Wilson interval 0.2553 to 0.3662, 0 of 20 has 0 to 0.1611.
    display = EdgeCalibrationDisplay(
        mean_predicted=np.array([0.1, 0.3]), fraction_true=np.array([0.0, 81 / 263]), counts=np.array([20, 263])
    ).plot()
    ends = [segment[:, 1] for segment in display.intervals_.get_segments()]
    np.testing.assert_allclose(ends, [[0, 0.1611], [0.2553, 0.3662]], atol=1e-4)


def test_calibration_pools_systems():
    display = EdgeCalibrationDisplay.from_predictions([RING, RING], [WRONG, RIGHT], [KNOWN, KNOWN])
    assert display.counts.sum() == 6


def test_calibration_from_estimators(identifier, optimizer, system):
    truth = system[0]
    one = EdgeCalibrationDisplay.from_estimator(identifier, truth)
    given = EdgeCalibrationDisplay.from_predictions(truth, identifier.edge_probabilities_, identifier.known_edges_)
    np.testing.assert_array_equal(one.counts, given.counts)
    assert legend_texts(one.ax_)[0].startswith("LangevinSystemIdentifier (error")
    pooled = EdgeCalibrationDisplay.from_estimator([identifier, optimizer], [truth, truth], name="both")
    assert pooled.counts.sum() == 2 * one.counts.sum()
    assert legend_texts(pooled.ax_)[0].startswith("both (error")
    with pytest.raises(ValueError, match="empty list"):
        EdgeCalibrationDisplay.from_estimator([], [])


def test_calibration_adds_a_second_curve_to_the_same_panels():
    first = EdgeCalibrationDisplay.from_predictions(RING, WRONG, KNOWN, name="first")
    second = EdgeCalibrationDisplay.from_predictions(RING, RIGHT, KNOWN, name="second", ax=first.ax_, linestyle="--")
    assert second.counts_ax_ is first.counts_ax_
    assert len(legend_texts(first.ax_)) == 2
    alone = EdgeCalibrationDisplay.from_predictions(RING, RIGHT, KNOWN, show_counts=False)
    assert alone.counts_ax_ is None
    assert alone.ax_.get_xlabel() == first.counts_ax_.get_xlabel() == "probability given to the edge"


# Parameters


def test_theta_has_a_panel_for_each_parameter(identifier):
    truth = [0.05, 0.1, -0.05]
    display = ThetaDisplay.from_estimator(identifier, true_theta=truth, interval=0.8, bins=7)
    assert [ax.get_xlabel() for ax in display.ax_] == [r"$\theta_{0}$", r"$\theta_{1}$", r"$\theta_{2}$"]
    expected = np.quantile(identifier.theta_samples_, [0.1, 0.9], axis=0).T
    np.testing.assert_allclose(display.intervals_, expected)
    for parameter, ax in enumerate(display.ax_):
        interval, estimate, true_value = ax.lines
        np.testing.assert_allclose(interval.get_xdata(), expected[parameter])
        assert estimate.get_xdata()[0] == identifier.theta_[parameter]
        assert true_value.get_xdata()[0] == truth[parameter]
        assert sum(bar.get_height() for bar in ax.patches) == len(identifier.theta_samples_)
    (legend,) = display.figure_.legends
    assert [text.get_text() for text in legend.get_texts()] == ["draws", "80 % interval", "estimate", "truth"]


def test_theta_from_predictions_needs_draws_only():
    draws = np.random.default_rng(0).normal(size=(50, 2))
    figure, ax = plt.subplots()
    display = ThetaDisplay.from_predictions(draws, parameter_names=["rate", "b_1"], ax=ax)
    assert display.figure_ is figure
    assert [panel.get_xlabel() for panel in display.ax_] == ["rate", "$b_{1}$"]
    assert [len(panel.lines) for panel in display.ax_] == [1, 1]
    assert not ax.axison  # the axes that were divided are but a frame


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"theta_samples": np.ones(3)}, r"theta_samples has shape \(3,\); expected \(n_draws, n_parameters\)"),
        ({"theta": [1.0]}, r"theta has shape \(1,\); expected \(2,\)"),
        ({"true_theta": [1.0, 2.0, 3.0]}, r"true_theta has shape \(3,\)"),
        ({"parameter_names": ["a"]}, "parameter_names has 1 names for 2 parameters"),
        ({"interval": 1.0}, "interval=1.0; expected a share strictly between 0 and 1"),
    ],
)
def test_theta_errors(arguments, message):
    with pytest.raises(ValueError, match=message):
        ThetaDisplay.from_predictions(**{"theta_samples": np.ones((5, 2)), **arguments})


# Traces


def test_trace_draws_chains_levels_and_truth(identifier):
    truth = [0.05, 9.0, -0.05]  # the second is far away, and should be in sight all the same
    display = TraceDisplay.from_estimator(identifier, true_theta=truth)
    diagnostics = identifier.diagnostics_
    n_chains, n_steps = diagnostics["log_likelihood"].shape
    assert [ax.get_ylabel() for ax in display.ax_] == [
        "log-likelihood",
        r"$\theta_{0}$",
        r"$\theta_{1}$",
        r"$\theta_{2}$",
    ]
    for panel, trace in enumerate([diagnostics["log_likelihood"], *np.moveaxis(diagnostics["theta"], 2, 0)]):
        segments = display.lines_[panel].get_segments()
        assert len(segments) == n_chains
        np.testing.assert_array_equal(segments[0][:, 0], np.arange(1, n_steps + 1))
        np.testing.assert_array_equal(segments[0][:, 1], trace[0])
        np.testing.assert_array_equal(display.medians_[panel].get_ydata(), np.median(trace, axis=0))
        assert len(display.ax_[panel].patches) == 3  # every other one of five levels and the finish has a stripe
    levels = [label.get_text() for label in display.sigma_ax_.get_xticklabels()]
    sigmas = diagnostics["sigma"]
    is_new = np.append(True, sigmas[1:] != sigmas[:-1])  # the last sweeps, which finish, return to the first level
    *annealing, finish = [f"{sigma:.2g}" for sigma in sigmas[is_new]]
    assert levels == [*annealing, f"finish, at {finish}"]
    assert display.ax_[2].get_ylim()[1] > 9.0


def traces_of(sigma):
    return {"sigma": sigma, "log_likelihood": np.zeros((2, len(sigma))), "theta": np.ones((2, len(sigma), 1))}


@pytest.mark.parametrize("n_finishing", [1, 20, 500])
@pytest.mark.parametrize("n_levels", [1, 6, 20, 100])
def test_trace_names_the_finish_and_no_label_runs_into_another(n_levels, n_finishing):
    annealing = np.linspace(0.9, 0.25, n_levels)
    display = TraceDisplay.from_predictions(traces_of(np.append(annealing, [1.0] * n_finishing)))
    labels = display.sigma_ax_.get_xticklabels()
    assert labels[-1].get_text() == "finish, at 1"
    assert labels[-1].get_position()[0] == n_levels + (n_finishing + 1) / 2
    boxes = extents(display, labels)
    assert not any(overlap(one, other) for one, other in pairwise(boxes))
    for panel in display.ax_:
        (border,) = [line for line in panel.lines if line.get_linestyle() == ":"]
        assert list(border.get_xdata()) == [n_levels + 0.5] * 2


@pytest.mark.parametrize("sigma", [[1.0, 0.5, 0.25], [1.0, 0.25, 0.25, 0.25], [0.5, 0.5]])
def test_trace_without_a_finish_names_none(sigma):
    display = TraceDisplay.from_predictions(traces_of(sigma))
    labels = [label.get_text() for label in display.sigma_ax_.get_xticklabels()]
    assert labels == [f"{level:.2g}" for level in dict.fromkeys(sigma)]
    assert not any(line.get_linestyle() == ":" for panel in display.ax_ for line in panel.lines)


def borders_of(display):
    """Where a dotted line divides the panels, the same in all of them."""
    dotted = [[line for line in panel.lines if line.get_linestyle() == ":"] for panel in display.ax_]
    (borders,) = {tuple(line.get_xdata()[0] for line in lines) for lines in dotted}
    return list(borders)


@pytest.mark.parametrize(
    ("sigma", "kernel", "border", "labels"),
    [
        # The sweeps may be at the level at which the Langevin dynamics end, or at one below it.
        ([1.0, 0.5, 0.5, 0.5], [0, 0, 1, 1], 2.5, ["1", "0.5", "finish, at 0.5"]),
        ([1.0, 0.5, 0.2, 0.2], [0, 0, 1, 1], 2.5, ["1", "0.5", "finish, at 0.2"]),
        # One kernel may anneal twice, and finish nothing.
        ([1.0, 0.5, 1.0, 1.0], [0, 0, 0, 0], None, ["1", "0.5", "1"]),
        ([1.0, 0.5, 0.2, 0.3], [0, 1, 1, 2], 3.5, ["1", "0.5", "0.2", "finish, at 0.3"]),
    ],
)
def test_trace_knows_the_finish_by_its_kernel(sigma, kernel, border, labels):
    display = TraceDisplay.from_predictions({**traces_of(sigma), "kernel": kernel})
    assert borders_of(display) == ([] if border is None else [border])
    assert [label.get_text() for label in display.sigma_ax_.get_xticklabels()] == labels


def test_trace_of_an_identifier_divides_the_steps_by_kernel(identifier):
    kernel = identifier.diagnostics_["kernel"]
    display = TraceDisplay.from_estimator(identifier)
    np.testing.assert_array_equal(display.kernel, kernel)
    assert borders_of(display) == [np.flatnonzero(kernel == 1)[0] + 0.5]


def test_trace_legend_is_beneath_the_chains():
    display = TraceDisplay.from_predictions(traces_of([1.0, 0.5, 1.0, 1.0]), true_theta=[1.2])
    panel = display.ax_[-1]
    legend, frame, scale = extents(display, [panel.get_legend(), panel, panel.xaxis.label])
    assert legend_texts(panel) == ["2 chains", "median", "truth"]
    assert not overlap(legend, frame)
    assert not overlap(legend, scale)


def test_trace_from_predictions_into_given_panels():
    traces = {"sigma": [1.0, 1.0, 0.5], "log_likelihood": np.zeros((2, 3)), "theta": np.ones((2, 3, 1))}
    _, axes = plt.subplots(2, 1)
    display = TraceDisplay.from_predictions(traces, ax=axes)
    assert list(display.ax_) == list(axes)
    assert [text.get_text() for text in axes[-1].get_legend().get_texts()] == ["2 chains", "median"]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"sigma": [1.0]}, {}, "diagnostics holds traces that do not fit together"),
        ({}, {"true_theta": [1.0, 2.0]}, r"true_theta has shape \(2,\); expected \(1,\)"),
        ({}, {"parameter_names": ["a", "b"]}, "parameter_names has 2 names for 1 parameters; expected 1"),
    ],
)
def test_trace_errors(changes, options, message):
    traces = {"sigma": [1.0, 0.5], "log_likelihood": np.zeros((2, 2)), "theta": np.ones((2, 2, 1)), **changes}
    with pytest.raises(ValueError, match=message):
        TraceDisplay.from_predictions(traces, **options)


def test_trace_needs_all_traces():
    with pytest.raises(ValueError, match="diagnostics has no 'log_likelihood'"):
        TraceDisplay.from_predictions({"sigma": [1.0]})


# Training


@pytest.mark.parametrize("frozen", [True, False])
def test_training_draws_history_and_levels(prior, small_graphs, frozen):
    estimator = FrozenEstimator(prior) if frozen else prior
    display = PriorTrainingDisplay.from_estimator(estimator, small_graphs)
    history, losses = prior.loss_history_, prior.transform(small_graphs)
    np.testing.assert_array_equal(display.training_line_.get_data(), [history["seconds"], history["training"]])
    np.testing.assert_array_equal(display.validation_line_.get_data(), [history["seconds"], history["validation"]])
    np.testing.assert_allclose(display.level_line_.get_data(), [prior.sigmas_, np.median(losses, axis=0)])
    assert f"best: {min(history['validation']):.4g}" in legend_texts(display.ax_[0])


def test_training_over_epochs_without_validation():
    history = {"training": [3.0, 2.0, 1.0], "validation": [np.nan] * 3, "seconds": [5.0, 9.0, 14.0]}
    display = PriorTrainingDisplay.from_predictions(history, time_axis="epochs")
    np.testing.assert_array_equal(display.training_line_.get_xdata(), [1, 2, 3])
    assert display.validation_line_ is None
    assert display.level_line_ is None
    assert len(display.ax_) == 1


HISTORY = {"training": [2.0, 1.0], "validation": [2.0, 1.5], "seconds": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("history", "options", "message"),
    [
        ({"training": [1.0]}, {}, "loss_history has no 'validation'"),
        ({name: [] for name in HISTORY}, {}, "loss_history is empty"),
        ({**HISTORY, "seconds": [1.0]}, {}, "2 training losses, 2 validation losses and 1 times"),
        (HISTORY, {"time_axis": "hours"}, "time_axis='hours'; expected 'seconds' or 'epochs'"),
        (HISTORY, {"level_losses": np.ones((5, 2))}, "expected sigmas with it"),
        (HISTORY, {"level_losses": np.ones((5, 2)), "sigmas": [1.0]}, r"expected \(n_graphs, 1\)"),
    ],
)
def test_training_errors(history, options, message):
    with pytest.raises(ValueError, match=message):
        PriorTrainingDisplay.from_predictions(history, **options)


# What all displays refuse


@pytest.mark.parametrize("display_class", [AdjacencyDisplay, GraphDisplay, ThetaDisplay, TraceDisplay])
def test_unfitted_identifiers(display_class):
    with pytest.raises(NotFittedError):
        display_class.from_estimator(LangevinSystemIdentifier())


def test_unfitted_calibration_and_prior():
    with pytest.raises(NotFittedError):
        EdgeCalibrationDisplay.from_estimator(LangevinSystemIdentifier(), RING)
    with pytest.raises(NotFittedError):
        PriorTrainingDisplay.from_estimator(GraphPriorScore())


def test_estimators_that_lack_what_is_drawn(optimizer, prior):
    with pytest.raises(TypeError, match="AdamSystemIdentifier has no theta_samples_, which ThetaDisplay draws"):
        ThetaDisplay.from_estimator(optimizer)
    with pytest.raises(
        TypeError, match="diagnostics_ of AdamSystemIdentifier has no 'sigma', which TraceDisplay draws"
    ):
        TraceDisplay.from_estimator(optimizer)
    with pytest.raises(TypeError, match="GraphPriorScore has no edge_probabilities_ and no adjacency_ and no known_ed"):
        GraphDisplay.from_estimator(prior)
    with pytest.raises(TypeError, match="AdamSystemIdentifier has no loss_history_ and no sigmas_"):
        PriorTrainingDisplay.from_estimator(optimizer)


def test_panels_must_be_as_many_as_needed():
    draws = np.zeros((4, 3))
    _, axes = plt.subplots(1, 2)
    with pytest.raises(ValueError, match="ax holds 2 axes; expected one, or 3"):
        ThetaDisplay.from_predictions(draws, ax=axes)
    with pytest.raises(ValueError, match="ax has no place in a grid to divide"):
        ThetaDisplay.from_predictions(draws, ax=plt.figure().add_axes((0, 0, 1, 1)))


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'GraphDisplay draws with matplotlib.*pip install "sklearn-graphid\[plot\]"'):
        GraphDisplay.from_predictions(RIGHT, KNOWN)


def test_import_does_not_load_matplotlib():
    command = "import sys, sklearn_graphid.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
