"""Calibration, parameters and traces: what is drawn is what was asked for."""

from __future__ import annotations

from copy import copy
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
from display_cases import KNOWN, RIGHT, RING, WRONG, extents, legend_texts, overlap

from sklearn_graphid.metrics import edge_calibration_error, edge_reliability_curve
from sklearn_graphid.plotting import EdgeCalibrationDisplay, ThetaDisplay, TraceDisplay

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


def test_theta_needs_draws_only():
    draws = np.random.default_rng(0).normal(size=(50, 2))
    figure, ax = plt.subplots()
    display = ThetaDisplay(theta_samples=draws, parameter_names=["rate", "b_1"]).plot(ax)
    assert display.figure_ is figure
    assert [panel.get_xlabel() for panel in display.ax_] == ["rate", "$b_{1}$"]
    assert [len(panel.lines) for panel in display.ax_] == [1, 1]
    assert not ax.axison  # the axes that were divided are but a frame


@pytest.mark.parametrize(("low", "spread"), [(-0.0475, 0.5), (-4.75e-5, 0.53), (0.2, 0.7), (120.0, 1.0)])
def test_numbers_beneath_theta_are_apart(low, spread):
    draws = low + abs(low) * spread * np.linspace(0, 1, 50)
    _, panels = plt.subplots(1, 3, figsize=(8.7, 2.7), layout="constrained")  # those of a report
    display = ThetaDisplay(theta_samples=np.column_stack([draws] * 3)).plot(panels, legend=False)
    display.figure_.canvas.draw()
    boxes = extents(display, [label for label in panels[1].get_xticklabels() if label.get_text()])
    assert len(boxes) > 1
    digit = 0.07 * display.figure_.dpi  # about its width
    assert all(left.x1 + digit / 2 < right.x0 for left, right in pairwise(boxes))


def test_theta_of_one_parameter_is_wide_and_its_legend_inside():
    display = ThetaDisplay(theta_samples=np.arange(50.0)[:, None], theta=[25.0], true_theta=[20.0]).plot()
    width, height = display.figure_.get_size_inches()
    assert width > 1.4 * height
    (legend,) = display.figure_.legends
    frame, box, *panels = extents(display, [display.figure_, legend, *display.ax_])
    assert (box.p0 >= frame.p0).all()
    assert (box.p1 <= frame.p1).all()
    assert not any(overlap(box, panel) for panel in panels)


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


@pytest.mark.parametrize(("n_chains", "has_band"), [(5, False), (6, True), (40, True)])
def test_trace_of_many_chains_has_a_band_that_holds_most_of_them(n_chains, has_band):
    values = np.random.default_rng(0).normal(size=(n_chains, 30))
    traces = {"sigma": np.ones(30), "log_likelihood": values, "theta": values[:, :, None]}
    display = TraceDisplay(**traces).plot()
    assert len(display.bands_) == 2 * has_band
    for band in display.bands_:
        corners = band.get_paths()[0].vertices
        for step in (1, 17, 30):
            ends = corners[corners[:, 0] == step, 1]
            np.testing.assert_allclose([ends.min(), ends.max()], np.quantile(values[:, step - 1], [0.1, 0.9]))
    chains, median = display.lines_[0], display.medians_[0]
    strongest = 0.6 if not has_band else 0.5
    assert chains.get_alpha() <= strongest
    assert chains.get_linewidths()[0] < median.get_linewidth() / 2
    texts = legend_texts(display.ax_[-1])
    assert texts == [*["80 % of the chains"] * has_band, f"{n_chains} chains", "median"]


@pytest.mark.parametrize("n_levels", [2, 3, 10, 11])
def test_trace_leaves_the_finish_white(n_levels):
    annealing = np.linspace(0.9, 0.25, n_levels)
    panel = TraceDisplay(**traces_of(np.append(annealing, [1.0] * 20))).plot().ax_[0]
    stripes = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in panel.patches]
    assert stripes[-1] == (n_levels - 0.5, n_levels + 0.5)  # the level before
    assert len(stripes) == (n_levels + 1) // 2


def traces_of(sigma):
    return {"sigma": sigma, "log_likelihood": np.zeros((2, len(sigma))), "theta": np.ones((2, len(sigma), 1))}


@pytest.mark.parametrize(("n_levels", "n_finishing"), [(1, 1), (1, 500), (20, 20), (100, 1), (100, 500)])
def test_trace_names_the_finish_and_no_label_runs_into_another(n_levels, n_finishing):
    annealing = np.linspace(0.9, 0.25, n_levels)
    display = TraceDisplay(**traces_of(np.append(annealing, [1.0] * n_finishing))).plot()
    labels = display.sigma_ax_.get_xticklabels()
    assert labels[-1].get_text() == "finish, at 1"
    assert labels[-1].get_position()[0] == n_levels + (n_finishing + 1) / 2
    boxes = extents(display, labels)
    assert not any(overlap(one, other) for one, other in pairwise(boxes))
    for panel in display.ax_:
        (border,) = [line for line in panel.lines if line.get_linestyle() == ":"]
        assert list(border.get_xdata()) == [n_levels + 0.5] * 2


@pytest.mark.parametrize("sigma", [[1.0, 0.5, 0.25], [1.0, 0.25, 0.25, 0.25]])
def test_trace_without_a_finish_names_none(sigma):
    display = TraceDisplay(**traces_of(sigma)).plot()
    labels = [label.get_text() for label in display.sigma_ax_.get_xticklabels()]
    assert labels == [f"{level:.2g}" for level in dict.fromkeys(sigma)]
    assert not any(line.get_linestyle() == ":" for panel in display.ax_ for line in panel.lines)


def test_trace_without_annealing_shows_no_level():
    display = TraceDisplay(**traces_of([0.5] * 20)).plot()
    assert not display.sigma_ax_.get_xticklabels()
    assert display.sigma_ax_.get_xlabel() == ""


@pytest.mark.parametrize("n_steps", [2, 20, 30, 50])
def test_trace_counts_steps_in_whole_numbers(n_steps):
    display = TraceDisplay(**traces_of([0.5] * n_steps)).plot()
    display.figure_.canvas.draw()
    assert all(
        label.get_text().isdigit() for label in display.ax_[-1].get_xticklabels() if label.get_text()[0] != "\u2212"
    )


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
    display = TraceDisplay(**traces_of(sigma), kernel=kernel).plot()
    assert borders_of(display) == ([] if border is None else [border])
    assert [label.get_text() for label in display.sigma_ax_.get_xticklabels()] == labels


def test_trace_of_an_identifier_divides_the_steps_by_kernel(identifier):
    kernel = identifier.diagnostics_["kernel"]
    display = TraceDisplay.from_estimator(identifier)
    np.testing.assert_array_equal(display.kernel, kernel)
    assert borders_of(display) == [np.flatnonzero(kernel == 1)[0] + 0.5]


def test_trace_legend_is_beneath_the_chains():
    display = TraceDisplay(**traces_of([1.0, 0.5, 1.0, 1.0]), true_theta=[1.2]).plot()
    panel = display.ax_[-1]
    legend, frame, scale = extents(display, [panel.get_legend(), panel, panel.xaxis.label])
    assert legend_texts(panel) == ["2 chains", "median", "truth"]
    assert not overlap(legend, frame)
    assert not overlap(legend, scale)


def test_trace_into_given_panels():
    traces = {"sigma": [1.0, 1.0, 0.5], "log_likelihood": np.zeros((2, 3)), "theta": np.ones((2, 3, 1))}
    _, axes = plt.subplots(2, 1)
    display = TraceDisplay(**traces).plot(axes)
    assert list(display.ax_) == list(axes)
    assert [text.get_text() for text in axes[-1].get_legend().get_texts()] == ["2 chains", "median"]


@pytest.mark.parametrize("later", ["heat", "no such filter"])
def test_parameters_are_named_after_the_fitted_filter(identifier, later):
    """Whatever the filter has been set to since."""
    changed = copy(identifier).set_params(filter=later)
    names = [rf"$\theta_{{{i}}}$" for i in range(3)]
    assert [panel.get_xlabel() for panel in ThetaDisplay.from_estimator(changed).ax_] == names
    assert [panel.get_ylabel() for panel in TraceDisplay.from_estimator(changed).ax_] == ["log-likelihood", *names]
