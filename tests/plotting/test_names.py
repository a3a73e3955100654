"""Names of nodes and parameters are drawn as they are, whatever characters they hold."""

from __future__ import annotations

import io
import warnings

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from sklearn_graphid import AdamSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.plotting import (
    AdjacencyDisplay,
    ComparisonDisplay,
    EdgeCalibrationDisplay,
    GraphDisplay,
    ThetaDisplay,
    TraceDisplay,
)

# What was given, and what is written: matplotlib takes two dollar signs for mathematics, TeX many more characters.
NAMES = {
    "$a_1^$": "$a_1^$",
    "$x$": "$x$",
    "$": "$",
    r"\$": r"\$",
    "\\": "\\",
    r"$\frac{$": r"$\frac{$",
    "a_b^c{d}%#&~": "a_b^c{d}%#&~",
    "": "",
    "two\nlines\t": "two lines ",
    "zero\x00 half\ud800": "zero  half ",
    7: "7",
    (1, "a"): "(1, 'a')",
    None: "None",
    2.5: "2.5",
    "long" * 75: "long" * 9 + "lon…",
}
RING = nx.to_numpy_array(nx.cycle_graph(len(NAMES)))


def saved(display):
    """The picture as it is saved, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        display.figure_.savefig(io.BytesIO(), format="png")
        display.figure_.savefig(io.BytesIO(), format="svg")
    return display


def is_mathematics(text):
    return text.get_usetex() or (text.get_parse_math() and text.get_text().count("$") > 1)


@pytest.mark.parametrize("uses_tex", [False, True])
def test_graph_writes_names_as_they_are(uses_tex):
    with plt.rc_context({"text.usetex": uses_tex}):
        display = saved(
            GraphDisplay.from_predictions(0.8 * RING, node_names=list(NAMES), node_labels=True, legend=False)
        )
    assert [text.get_text() for text in display.ax_.texts] == list(NAMES.values())
    assert not any(is_mathematics(text) for text in display.ax_.texts)


def test_short_names_are_written_as_they_are_into_the_nodes():
    names = ["$x$", "$", "\\", ""]
    display = saved(GraphDisplay.from_predictions(0.8 * RING[:4, :4], node_names=names, node_labels=True))
    assert [text.get_text() for text in display.ax_.texts] == names


def test_adjacency_writes_names_as_they_are():
    display = saved(AdjacencyDisplay.from_predictions(0.8 * RING, node_names=list(NAMES)))
    for texts in (display.ax_.get_xticklabels(), display.ax_.get_yticklabels()):
        assert [text.get_text() for text in texts] == list(NAMES.values())
        assert not any(is_mathematics(text) for text in texts)


def test_a_dollar_sign_takes_the_room_of_a_dollar_sign():
    """As mathematics, "$x$" is one letter wide; as it is, it is wider than "xx"."""
    display = GraphDisplay.from_predictions(0.8 * RING[:4, :4], node_names=["$x$", "xx", "x", ""], node_labels=True)
    display.figure_.canvas.draw()
    dollars, two, one, _ = (text.get_window_extent().width for text in display.ax_.texts)
    assert dollars > two > one


def test_columns_of_a_frame_are_names_as_they_are(tmp_path):
    ring = nx.to_numpy_array(nx.cycle_graph(5))
    X, Y = make_system(ring, "heat", [0.5], n_experiments=4, random_state=0)
    names = ["$a_1^$", "$", "\\", "", "two\nlines"]
    fitted = AdamSystemIdentifier("heat", max_iter=3, random_state=0).fit(
        pd.DataFrame(X, columns=names), Y, hide_edges(ring, 0.5, random_state=0)
    )
    written = ["$a_1^$", "$", "\\", "", "two lines"]
    graph = saved(GraphDisplay.from_estimator(fitted, node_labels=True))
    assert [text.get_text() for text in graph.ax_.texts] == written
    saved(AdjacencyDisplay.from_estimator(fitted))
    fitted.report(tmp_path / "report.html")


def test_parameters_are_mathematics_only_where_they_are_numbered_letters():
    labels = {"theta": r"$\theta$", "theta_12": r"$\theta_{12}$", "a_1": "$a_{1}$"}
    as_they_are = {"rate_x": "rate_x", r"$\frac{$ $x_{": r"$\frac{$ $x_{", 3: "3", None: "None"}
    names = [*labels, *as_they_are]
    theta = saved(
        ThetaDisplay(theta_samples=np.tile(np.arange(8.0)[:, None], len(names)), parameter_names=names).plot()
    )
    traces = {"sigma": [1.0, 0.5], "log_likelihood": np.zeros((2, 2)), "theta": np.ones((2, 2, len(names)))}
    trace = saved(TraceDisplay(**traces, parameter_names=names).plot())
    for texts in ([panel.xaxis.label for panel in theta.ax_], [panel.yaxis.label for panel in trace.ax_[1:]]):
        assert [text.get_text() for text in texts] == [*labels.values(), *as_they_are.values()]
        assert [is_mathematics(text) for text in texts] == [True] * len(labels) + [False] * len(as_they_are)


def test_methods_groups_and_curves():
    frame = pd.DataFrame({"method": ["$_{$", "$5 or $6"], "$g_$": ["$^$", "\\"], "$_$": [0.3, 0.7]})
    display = saved(ComparisonDisplay(frame=frame).plot(by="$g_$", measures=["$_$"]))
    assert [text.get_text() for text in display.figure_.legends[0].get_texts()] == ["$_{$", "$5 or $6"]
    saved(ComparisonDisplay(frame=frame).plot(plt.subplots()[1], by="$g_$", measures=["$_$"]))
    saved(EdgeCalibrationDisplay.from_predictions(RING, 0.8 * RING, name="$_{$"))
