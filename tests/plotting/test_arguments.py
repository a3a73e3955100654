"""What displays refuse: the error names the argument and what was expected, and no figure is opened."""

from __future__ import annotations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from sklearn_graphid import plotting

RING = nx.to_numpy_array(nx.cycle_graph(4))
HISTORY = {"training": [2.0, 1.0], "validation": [2.0, 1.5], "seconds": [1.0, 2.0]}
TRACES = {"sigma": [1.0, 0.5], "log_likelihood": np.zeros((2, 2)), "theta": np.ones((2, 2, 2))}
FRAME = pd.DataFrame({"method": ["a", "b"], "n_experiments": [1, 1], "edge_f1": [0.3, 0.7], "kind": ["x", "y"]})


def drawing(display, **usual):
    """Draw what is usual, but for what is given."""
    return lambda **given: display.from_predictions(**{**usual, **given})


DRAWS = {
    "graph": drawing(plotting.GraphDisplay, edge_probabilities=0.8 * RING),
    "adjacency": drawing(plotting.AdjacencyDisplay, edge_probabilities=0.8 * RING),
    "calibration": drawing(plotting.EdgeCalibrationDisplay, true_adjacency=RING, edge_probabilities=0.8 * RING),
    "theta": drawing(plotting.ThetaDisplay, theta_samples=np.eye(4, 2)),
    "predictive check": drawing(
        plotting.PredictiveCheckDisplay, outputs=np.eye(4, 2), means=np.zeros((4, 2)), noise_std=1.0
    ),
    "information": drawing(plotting.InformationDisplay, information=[1.0, 2.0]),
    "trace": drawing(plotting.TraceDisplay, diagnostics=TRACES),
    "training": drawing(plotting.PriorTrainingDisplay, loss_history=HISTORY),
    "comparison": lambda frame=FRAME, **given: plotting.ComparisonDisplay(frame=frame).plot(**given),
}


def refused(display, error, message, **given):
    with pytest.raises(error, match=message):
        DRAWS[display](**given)
    assert not plt.get_fignums()


@pytest.mark.parametrize("display", DRAWS)
def test_all_is_well_otherwise(display):
    DRAWS[display]().figure_.canvas.draw()


@pytest.mark.parametrize("ax", [3, "axes", object(), {}, True])
@pytest.mark.parametrize("display", DRAWS)
def test_what_is_no_axes(display, ax):
    refused(display, TypeError, f"ax is a {type(ax).__name__}; expected a matplotlib Axes", ax=ax)


@pytest.mark.parametrize("display", ["theta", "predictive check", "trace", "comparison"])
def test_a_sequence_that_does_not_hold_axes(display):
    n_panels = {"theta": 2, "predictive check": 2, "trace": 3, "comparison": 1}[display]
    refused(display, TypeError, "ax holds a int; expected matplotlib Axes only", ax=[3] * n_panels)


@pytest.mark.parametrize("display", ["graph", "adjacency"])
def test_names_of_nodes_are_as_many_as_nodes(display):
    for names in (list("abc"), list("abcde"), [], pd.DataFrame({"name": list("abcd")})):
        message = r"node_names has \d names for 4 nodes; expected 4, one for each node"
        refused(display, ValueError, message, node_names=names)
    for names in (
        3,
        "abcd",
        b"abcd",
        {0: "a", 1: "b", 2: "c", 3: "d"},
        {"a", "b", "c", "d"},
        (name for name in "abcd"),
    ):
        message = f"node_names is a {type(names).__name__}; expected a sequence with a name for each node"
        refused(display, TypeError, message, node_names=names)


@pytest.mark.parametrize(
    "names", [nx.path_graph(4).nodes, pd.Index(list("abcd")), pd.Series(list("abcd"), index=[3, 2, 1, 0])]
)
@pytest.mark.parametrize("display", ["graph", "adjacency"])
def test_anything_in_order_may_hold_the_names(display, names):
    drawn = DRAWS[display](node_names=names)
    if display == "adjacency":
        assert [text.get_text() for text in drawn.ax_.get_xticklabels()] == [str(name) for name in names]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"pos": "left"}, TypeError, r"pos is a str that does not convert .*; expected numbers of shape \(4, 2\)"),
        ({"pos": np.full((4, 2), np.nan)}, ValueError, "pos holds nan; expected finite numbers"),
        (
            {"layout": 3},
            ValueError,
            "layout=3; expected 'kamada_kawai', 'spring', 'spectral', 'circular' or a callable",
        ),
        ({"layout": np.zeros((2, 2))}, ValueError, "layout is a ndarray; expected 'kamada_kawai'"),
        ({"layout": lambda graph: 3}, ValueError, r"what layout returned has shape \(\); expected \(4, 2\)"),
        ({"layout": lambda graph: {}}, ValueError, "what layout returned has no entry for node 0"),
        ({"random_state": "now"}, TypeError, "random_state is a str; expected an int or None"),
        ({"random_state": -1}, ValueError, "random_state=-1; expected an int from 0"),
        ({"node_size": "large"}, TypeError, "node_size is a str; expected an area of 0 or more square points"),
        ({"node_size": -1}, ValueError, "node_size=-1; expected an area"),
        ({"node_size": np.nan}, ValueError, "node_size=nan; expected an area"),
        ({"show_unknown": "yes"}, TypeError, "show_unknown is a str; expected True or False"),
        ({"legend": 3}, TypeError, "legend is a int; expected True or False"),
        ({"styles": 3}, TypeError, "styles is a int; expected a mapping from a kind of edge to a dict"),
        ({"styles": {"known": 3}}, TypeError, r"styles\['known'\] is a int; expected a dict with any of color"),
        (
            {"styles": {"known": {"width": 3}}},
            ValueError,
            r"styles\['known'\] has the key 'width'; expected any of color",
        ),
        (
            {"styles": {"known": {"color": 3}}},
            ValueError,
            r"styles\['known'\]\['color'\]=3; expected a matplotlib color",
        ),
        (
            {"styles": {"false": {"marker": "!"}}},
            ValueError,
            r"styles\['false'\]\['marker'\]='!'; expected a matplotlib",
        ),
        ({"styles": {"known": {"linestyle": 3}}}, ValueError, r"\['linestyle'\]=3; expected a matplotlib line style"),
        (
            {"styles": {"known": {"linewidth": "3"}}},
            TypeError,
            r"\['linewidth'\] is a str; expected a width of 0 or more",
        ),
        ({"styles": {"known": {"label": 3}}}, TypeError, r"\['label'\] is a int; expected a str"),
    ],
)
def test_graph(given, error, message):
    refused("graph", error, message, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"node_order": "size"}, ValueError, "node_order='size'; expected 'bandwidth' or an order of the nodes"),
        ({"node_order": [None] * 4}, ValueError, "expected 'bandwidth', None, or each node from 0 to 3 once"),
        ({"colorbar": "right"}, TypeError, "colorbar is a str; expected True or False"),
        ({"legend": np.zeros(2)}, TypeError, "legend is a ndarray; expected True or False"),
        ({"true_adjacency": np.zeros((2, 2))}, ValueError, "true_adjacency has 2 nodes .* has 4; expected 4"),
    ],
)
def test_adjacency(given, error, message):
    refused("adjacency", error, message, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"name": 3}, TypeError, "name is a int; expected a str or None"),
        ({"show_counts": "yes"}, TypeError, "show_counts is a str; expected True or False"),
        ({"color": "no color"}, ValueError, "color='no color'; expected a matplotlib color"),
        ({"color": None}, TypeError, "color is None; expected a matplotlib color"),
        ({"marker": "no marker"}, ValueError, "marker='no marker'; expected a matplotlib marker"),
        ({"linestyle": 3}, ValueError, "linestyle=3; expected a matplotlib line style"),
    ],
)
def test_calibration(given, error, message):
    refused("calibration", error, message, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"theta_samples": "draws"}, TypeError, "theta_samples is a str that does not convert"),
        ({"theta_samples": [[np.nan, 1.0]]}, ValueError, "theta_samples holds nan; expected finite numbers"),
        (
            {"theta": ["a", "b"]},
            TypeError,
            r"theta is a list that does not convert .*; expected numbers of shape \(2,\)",
        ),
        ({"true_theta": [np.inf, 0]}, ValueError, "true_theta holds inf; expected finite numbers"),
        ({"parameter_names": 3}, TypeError, "parameter_names is a int; expected a sequence with a name for each param"),
        ({"parameter_names": "ab"}, TypeError, "parameter_names is a str; expected a sequence"),
        ({"interval": "wide"}, TypeError, "interval is a str; expected a share strictly between 0 and 1"),
        ({"bins": "many"}, ValueError, "bins='many'; expected what numpy.histogram_bin_edges takes"),
        ({"bins": ["a", "b"]}, ValueError, r"bins=\['a', 'b'\]; expected what"),
        ({"bins": []}, ValueError, r"bins=\[\]; expected what"),
        ({"legend": None}, TypeError, "legend is a NoneType; expected True or False"),
    ],
)
def test_theta(given, error, message):
    refused("theta", error, message, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"diagnostics": 3}, TypeError, "diagnostics is a int; expected a mapping with 'sigma'"),
        ({"diagnostics": {**TRACES, "sigma": "high"}}, TypeError, r"diagnostics\['sigma'\] is a str that does not"),
        ({"diagnostics": {**TRACES, "theta": np.ones((2, 2))}}, ValueError, r"traces that do not fit .*theta \(2, 2\)"),
        ({"diagnostics": {**TRACES, "theta": np.ones((3, 2, 2))}}, ValueError, "traces that do not fit together"),
        ({"diagnostics": {**TRACES, "kernel": "both"}}, TypeError, r"diagnostics\['kernel'\] is a str that does not"),
        ({"diagnostics": {**TRACES, "kernel": [0]}}, ValueError, r"'kernel'\] has shape \(1,\); expected \(2,\)"),
        ({"true_theta": "large"}, TypeError, "true_theta is a str that does not convert"),
        ({"true_theta": np.zeros((2, 2))}, ValueError, r"true_theta has shape \(2, 2\); expected \(2,\)"),
        ({"parameter_names": 3}, TypeError, "parameter_names is a int; expected a sequence"),
        ({"chain_color": "no color"}, ValueError, "chain_color='no color'; expected a matplotlib color"),
    ],
)
def test_trace(given, error, message):
    refused("trace", error, message, **given)


def test_trace_shows_the_finite_part_of_a_chain():
    """A chain may overflow on its way and still end well."""
    log_likelihood = np.array([[-np.inf, -np.inf, -3.0, -1.0], [np.nan, -np.inf, -2.0, -1.0]])
    traces = {"sigma": np.ones(4), "log_likelihood": log_likelihood, "theta": np.ones((2, 4, 1))}
    low, high = plotting.TraceDisplay.from_predictions(traces).ax_[0].get_ylim()
    assert low == pytest.approx(-3.16)
    assert high == pytest.approx(-0.84)
    traces["log_likelihood"] = np.full((2, 4), np.nan)
    plotting.TraceDisplay.from_predictions(traces).figure_.canvas.draw()


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"loss_history": 3}, TypeError, "loss_history is a int; expected a mapping with 'training'"),
        (
            {"loss_history": {**HISTORY, "training": ["a", "b"]}},
            TypeError,
            r"loss_history\['training'\] is a list that",
        ),
        ({"loss_history": {name: np.ones((2, 2)) for name in HISTORY}}, ValueError, "loss_history .* in one dimension"),
        ({"sigmas": "many"}, TypeError, "sigmas is a str that does not convert"),
        ({"sigmas": 3}, ValueError, r"sigmas has shape \(\); expected \(n_levels,\)"),
        ({"level_losses": "low"}, TypeError, "level_losses is a str that does not convert"),
        ({"time_axis": 3}, ValueError, "time_axis=3; expected 'seconds' or 'epochs'"),
    ],
)
def test_training(given, error, message):
    refused("training", error, message, **given)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"frame": 3}, TypeError, "frame is a int; expected a pandas DataFrame"),
        ({"frame": FRAME[["edge_f1"]]}, ValueError, "frame has the columns .*; expected 'method' among them"),
        ({"frame": FRAME.iloc[:0]}, ValueError, "frame has no rows; expected one for each run"),
        ({"by": 3}, TypeError, "by is a int; expected a column of the frame, as a str"),
        ({"by": "weather"}, ValueError, "by does not fit: frame has no column 'weather'; expected one of"),
        ({"measures": "edge_f1"}, TypeError, "measures is a str; expected a list of columns of the frame"),
        ({"measures": []}, ValueError, "measures is empty; expected at least one column of the frame"),
        ({"measures": [3]}, TypeError, "measures holds a int; expected columns of the frame, as str"),
        ({"measures": ["beauty"]}, ValueError, "measures does not fit: frame has no column 'beauty'"),
        ({"measures": ["kind"]}, ValueError, "measures names 'kind', a column that does not hold numbers; expected"),
        ({"legend": "right"}, TypeError, "legend is a str; expected True or False"),
    ],
)
def test_comparison(given, error, message):
    refused("comparison", error, message, **given)
