"""What driving each node would tell, as bars and as colours."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sklearn_graphid.plotting import InformationDisplay


def test_bars_are_what_the_identifier_says(identifier):
    display = InformationDisplay.from_estimator(identifier, amplitude=5, observed=[0, 1, 2])
    expected = identifier.information_gain(5 * np.eye(6), observed=[0, 1, 2])
    order = np.argsort(-expected, kind="stable")
    np.testing.assert_allclose([bar.get_width() for bar in display.bars_], expected[order])
    assert [label.get_text() for label in display.ax_[0].get_yticklabels()] == [str(node) for node in order]
    assert display.ax_[0].yaxis_inverted()  # the one that tells most on top


def test_nodes_have_the_colours_of_their_bars(identifier):
    display = InformationDisplay.from_estimator(identifier, amplitude=5)
    order = np.argsort(-display.information, kind="stable")
    faces = display.graph_.nodes_.get_facecolor()
    np.testing.assert_allclose([bar.get_facecolor() for bar in display.bars_], faces[order])
    assert len(np.unique(faces, axis=0)) > 1
    assert display.figure_ is display.graph_.ax_.figure


def test_bars_alone():
    display = InformationDisplay(information=[1.0, 3.0, 2.0], node_names=["a", "$b$", "c"]).plot(max_bars=2)
    assert [label.get_text() for label in display.ax_[0].get_yticklabels()] == ["$b$", "c"]
    assert display.ax_[0].get_ylabel() == "node (2 of 3)"
    assert display.graph_ is None
    assert len(display.ax_) == 1
    same = InformationDisplay(information=[1.0, 1.0]).plot()
    assert len({bar.get_facecolor() for bar in same.bars_}) == 1


def test_the_graph_may_be_left_out_or_placed(identifier):
    assert len(InformationDisplay.from_estimator(identifier, show_graph=False).ax_) == 1
    figure, axes = plt.subplots(1, 2)
    pos = np.column_stack([np.arange(6.0), np.arange(6.0) ** 2])
    display = InformationDisplay.from_estimator(identifier, ax=axes, graph_options={"pos": pos})
    np.testing.assert_array_equal(display.graph_.positions_, pos)
    assert display.figure_ is figure


def test_no_amplitude_is_refused(identifier):
    with pytest.raises(ValueError, match="amplitude=0; expected a number other than 0"):
        InformationDisplay.from_estimator(identifier, amplitude=0)
