"""Methods side by side: bars where there is one group, and names that can be read."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from display_cases import extents, overlap

from sklearn_graphid.plotting import ComparisonDisplay

METHODS = ["LangevinSystemIdentifier", "AdamSystemIdentifier", "RidgeSystemIdentifier", "ConstrainedLeastSquares"]


def frame_of(n_experiments):
    rng = np.random.default_rng(0)
    rows = [(method, n) for method in METHODS for n in n_experiments for _ in range(4)]
    frame = pd.DataFrame(rows, columns=["method", "n_experiments"])
    return frame.assign(edge_f1=rng.uniform(0.3, 0.9, len(frame)), theta_nrmse=rng.uniform(0, 0.2, len(frame)))


def test_one_group_is_drawn_as_bars_with_standard_errors():
    frame = frame_of([10])
    display = ComparisonDisplay(frame=frame).plot()
    for panel, measure in zip(display.ax_, ("edge_f1", "theta_nrmse"), strict=True):
        grouped = frame.groupby("method", sort=False)[measure]
        means, errors = grouped.mean().to_numpy(), grouped.sem().to_numpy()
        np.testing.assert_allclose([bar.get_width() for bar in panel.patches], means)
        lines = [lines.get_segments()[0][:, 0] for lines in panel.collections]
        np.testing.assert_allclose(lines, np.column_stack([means - errors, means + errors]))
        assert [bar.get_hatch() for bar in panel.patches] == ["", "///", "", "///"]  # print without colour
        assert panel.get_title() == "number of experiments: 10"
        assert panel.get_xlim()[0] == 0
    assert display.ax_[0].get_xlabel() == "F1 score of the unknown pairs"
    assert not display.figure_.legends  # the bars have their names beside them
    first, second = ([label.get_text() for label in panel.get_yticklabels()] for panel in display.ax_)
    assert first == METHODS
    assert second == [""] * 4


def test_a_method_without_a_result_has_no_bar_but_its_place():
    frame = frame_of([10])
    frame.loc[frame["method"] == METHODS[1], "edge_f1"] = np.nan
    (panel,) = ComparisonDisplay(frame=frame).plot(measures=["edge_f1"]).ax_
    middles = [bar.get_y() + bar.get_height() / 2 for bar in panel.patches]
    np.testing.assert_allclose(middles, [0, 2, 3])
    assert [label.get_text() for label in panel.get_yticklabels()] == METHODS


def test_given_axes_have_names_each():
    _, axes = plt.subplots(2, 1)
    display = ComparisonDisplay(frame=frame_of([10])).plot(axes)
    assert all([label.get_text() for label in panel.get_yticklabels()] == METHODS for panel in display.ax_)


@pytest.mark.parametrize("n_experiments", [[10], [1, 5, 15]])
@pytest.mark.parametrize("measures", [["edge_f1"], None])
def test_nothing_is_cut_off_and_nothing_lies_on_another(n_experiments, measures):
    display = ComparisonDisplay(frame=frame_of(n_experiments)).plot(measures=measures)
    names = [label for panel in display.ax_ for label in panel.get_yticklabels() if label.get_text() in METHODS]
    words = [text for panel in display.ax_ for text in (panel.xaxis.label, panel.yaxis.label) if text.get_text()]
    frame, *boxes = extents(display, [display.figure_, *display.figure_.legends, *names, *words])
    for box in boxes:
        assert (box.p0 >= frame.p0 - 1).all()
        assert (box.p1 <= frame.p1 + 1).all()
    if display.figure_.legends:
        assert not any(overlap(boxes[0], box) for box in boxes[1:])
        assert all(panel.get_window_extent().height > 2 * display.figure_.dpi for panel in display.ax_)
