"""Posterior predictive checks: bands and residuals against closed forms, and what is drawn can be read."""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from display_cases import overlap
from scipy import optimize, stats

from sklearn_graphid import AdamSystemIdentifier, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.plotting import PredictiveCheckDisplay

RNG = np.random.default_rng(0)
MEANS = RNG.normal(size=(5, 7, 4))
LEVELS = RNG.uniform(0.3, 2.0, size=(5, 4))
OUTPUTS = RNG.normal(size=(7, 4))


def check(outputs, means, noise_std, node_names=None, **options):
    display = PredictiveCheckDisplay(outputs=outputs, means=means, noise_std=noise_std, node_names=node_names)
    return display.plot(**options)


# Numbers


def test_one_answer_has_the_band_of_the_noise():
    mean, levels = MEANS[0], LEVELS[0]
    outputs = mean + levels * np.linspace(-40, 40, 28).reshape(7, 4)  # far beyond where probabilities are 0 and 1
    display = check(outputs, mean, levels, level=0.8)
    np.testing.assert_allclose(display.residuals_, (outputs - mean) / levels, rtol=1e-6, atol=1e-9)
    half = stats.norm.ppf(0.9) * levels
    np.testing.assert_allclose(display.lower_, mean - half, rtol=1e-9)
    np.testing.assert_allclose(display.upper_, mean + half, rtol=1e-9)
    np.testing.assert_allclose(display.predicted_, mean)


def test_bands_and_residuals_are_those_of_the_mixture():
    display = check(OUTPUTS, MEANS, LEVELS)
    for experiment, node in [(0, 0), (3, 2), (6, 3)]:

        def below(value, parts=(MEANS[:, experiment, node], LEVELS[:, node])):
            return stats.norm.cdf(value, *parts).mean()

        for ends, probability in ((display.lower_, 0.05), (display.upper_, 0.95)):
            quantile = optimize.brentq(lambda value, p=probability: below(value) - p, -20, 20, xtol=1e-12)
            assert ends[experiment, node] == pytest.approx(quantile, abs=1e-8)
        expected = stats.norm.ppf(below(OUTPUTS[experiment, node]))
        assert display.residuals_[experiment, node] == pytest.approx(expected, abs=1e-8)


def test_outputs_from_the_draws_themselves_have_normal_residuals_and_the_coverage_they_should():
    means, levels = RNG.normal(0, 2, size=(20, 100, 30)), RNG.uniform(0.5, 2.0, size=(20, 30))
    chosen = RNG.integers(20, size=(100, 30))
    rows, columns = np.indices(chosen.shape)
    outputs = RNG.normal(means[chosen, rows, columns], levels[chosen, columns])
    display = check(outputs, means, levels)
    # Both alarm by chance once in ten thousand seeds.
    assert stats.kstest(display.residuals_.ravel(), "norm").pvalue > 1e-4
    low, high = stats.binom.ppf([5e-5, 1 - 5e-5], outputs.size, 0.1) / outputs.size
    assert low <= display.total_share_outside_ <= high
    assert not display.conspicuous_.any()  # once in a hundred seeds


def test_shares_count_what_was_measured():
    outputs = np.zeros((20, 3))
    outputs[:5, 0] = np.nan
    outputs[5:8, 0] = 10.0  # 3 of 15
    outputs[:, 1] = np.nan
    outputs[:9, 2] = -10.0  # 9 of 20, of which one in ten is expected
    display = check(outputs, np.zeros((20, 3)), 1.0)
    np.testing.assert_allclose(display.share_outside_, [0.2, np.nan, 0.45])
    assert display.total_share_outside_ == pytest.approx(12 / 35)
    # P(at least 3 of 15) is 0.18 and P(at least 9 of 20) 7e-5, by scipy and by any table.
    np.testing.assert_array_equal(display.conspicuous_, [False, False, True])
    assert np.isnan(display.residuals_[:, 1]).all()
    drawn = {label.get_text() for label in display.ax_[0].get_xticklabels()}
    assert drawn == {"0", "2"}


def test_the_band_holds_what_is_uncertain_of_theta():
    # All pairs are known, the filter is linear in theta and the noise is known: the posterior of theta is that of
    # least squares, and the predictive law of every output a Gaussian of known width.
    ring = nx.to_numpy_array(nx.cycle_graph(5))
    X, Y = make_system(ring, "polynomial", [0.5, 0.3, 0.1], n_experiments=2, noise_std=1.0, random_state=0)
    known = KnownEdges(np.ones((5, 5), dtype=bool), ring)
    settings = {"noise_std": 1.0, "n_levels": 2, "n_sweeps": 40, "random_state": 0}
    fitted = LangevinSystemIdentifier(n_chains=40, **settings).fit(X, Y, known)
    new = np.random.default_rng(1).uniform(-30, 30, size=(6, 5))

    def design(inputs):
        return np.stack([inputs @ np.linalg.matrix_power(ring, power) for power in range(3)], axis=-1)

    rows = design(X).reshape(-1, 3)
    covariance = np.linalg.inv(rows.T @ rows)
    variance = 1.0 + np.einsum("kip,pq,kiq->ki", design(new), covariance, design(new))
    display = PredictiveCheckDisplay.from_estimator(fitted, new, np.zeros((6, 5)), n_draws=800)
    width = (display.upper_ - display.lower_) / (2 * stats.norm.ppf(0.95))
    assert np.sqrt(variance).max() > 2  # theta matters
    # 800 draws leave an error of 2.5 % on a width; the chains' draws are not all independent.
    np.testing.assert_allclose(width, np.sqrt(variance), rtol=0.15)


# From estimators


def test_draws_are_those_of_sample_with_their_own_noise(identifier, system):
    X = system[1]
    outputs, noise_std = identifier._predict_draws(X, 9, random_state=3)
    kept = identifier._draws
    for mean, levels in zip(outputs, noise_std, strict=True):
        chain, draw = np.argwhere(np.isclose(kept.noise_std, levels[0], rtol=1e-12))[0]
        graph = torch.tensor(identifier.known_edges_.fill(kept.graphs[chain, draw]))
        theta = torch.tensor(kept.theta[chain, draw], dtype=torch.float64)
        expected = identifier.filter_.apply(graph[None], theta[None], torch.tensor(X))[0]
        np.testing.assert_allclose(mean, expected)
        assert np.ptp(levels) == 0
    assert len(np.unique(noise_std[:, 0])) == 9
    more, _ = identifier._predict_draws(X, 10_000, random_state=3)
    assert len(more) == kept.log_likelihood.size


def test_a_point_estimate_has_the_band_of_the_noise(optimizer, system):
    _, X, Y, _ = system
    display = PredictiveCheckDisplay.from_estimator(optimizer, X, Y)
    half = stats.norm.ppf(0.95) * optimizer.noise_std_
    np.testing.assert_allclose(display.lower_, optimizer.predict(X) - half)
    np.testing.assert_allclose(display.upper_, optimizer.predict(X) + half)


@pytest.mark.parametrize("directed", [True, False])
def test_directed_graphs_strengths_names_gaps_and_noise_of_each_node(directed):
    graph = nx.gn_graph(5, seed=1) if directed else nx.path_graph(5)
    adjacency = nx.to_numpy_array(graph).T
    levels = [0.1, 0.1, 0.1, 0.1, 0.4]
    data = {"n_experiments": 15, "noise_std": levels, "directed": directed, "random_state": 0}
    X, Y = make_system(adjacency, "polynomial", [0.5, 0.5, 0.0], **data)
    Y[3, 2] = np.nan
    names = [f"sensor {name}" for name in "abcde"]
    X, Y = pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=names)
    known = hide_edges(adjacency, 0.3, random_state=0, directed=directed)
    settings = {"noise_std": levels, "edge_weights": "positive", "n_chains": 2, "n_sweeps": 10}
    fitted = LangevinSystemIdentifier(directed=directed, random_state=0, **settings).fit(X, Y, known)
    reordered = Y[["sensor e", "sensor a", "sensor b", "sensor c", "sensor d"]]
    display = PredictiveCheckDisplay.from_estimator(fitted, X, reordered)
    np.testing.assert_array_equal(display.outputs, Y)
    assert list(display.node_names) == names
    np.testing.assert_allclose(display.noise_std, np.tile(levels, (len(display.means), 1)))
    seed = np.random.RandomState(0).randint(2**31)  # as the display draws it
    _, thetas, weights = fitted.sample(len(display.means), random_state=seed)
    assert len(np.unique(thetas[:, 0])) > 1
    drawn = fitted.filter_.apply(*(torch.tensor(part, dtype=torch.float64) for part in (weights, thetas, X.to_numpy())))
    np.testing.assert_allclose(display.means, drawn)


def test_outputs_at_some_nodes(system):
    _, X, Y, known = system
    fitted = AdamSystemIdentifier(observed_nodes=[4, 1], max_iter=10, random_state=0).fit(X, Y[:, [4, 1]], known)
    display = PredictiveCheckDisplay.from_estimator(fitted, X, Y[:, [4, 1]])
    assert [label.get_text() for label in display.ax_[0].get_xticklabels()] == ["4", "1"]
    np.testing.assert_allclose(display.predicted_, fitted.predict(X))


# The picture


def test_points_outside_are_crosses_and_far_ones_arrows():
    outputs = np.zeros((10, 2))
    outputs[0, 0], outputs[1, 1], outputs[2, 1] = 2.0, -30.0, 30.0
    display = check(outputs, np.zeros((10, 2)), 1.0, kind="residuals")
    (panel,) = display.ax_
    points, crosses, up, down = panel.collections
    assert [len(some.get_offsets()) for some in (points, crosses, up, down)] == [17, 1, 1, 1]
    np.testing.assert_allclose(crosses.get_offsets()[0, 1], 2.0)
    limit = panel.get_ylim()[1]
    np.testing.assert_allclose([up.get_offsets()[0, 1], down.get_offsets()[0, 1]], [limit, -limit])
    heights = [bar.get_height() for bar in display.shares_ax_.patches]
    np.testing.assert_allclose(heights, 100 * display.share_outside_)


def test_outputs_stand_in_the_order_of_the_prediction_within_their_bands():
    display = check(OUTPUTS, MEANS, LEVELS, kind="outputs", nodes=[2])
    (panel,) = display.ax_
    assert display.shares_ax_ is None
    points = np.concatenate([some.get_offsets() for some in panel.collections if len(some.get_offsets()) > 1])
    order = np.argsort(display.predicted_[:, 2])
    np.testing.assert_allclose(points[np.argsort(points[:, 0]), 1], OUTPUTS[order, 2])


def test_of_many_nodes_those_with_the_largest_residuals_are_drawn():
    outputs = RNG.normal(size=(10, 30))
    outputs[:, [3, 17, 28]] *= 20
    display = check(outputs, np.zeros((10, 30)), 1.0)
    shown = [label.get_text() for label in display.ax_[0].get_xticklabels()]
    assert len(shown) == 12
    assert {"3", "17", "28"} <= set(shown)
    assert "12 of 30" in display.ax_[0].get_xlabel()
    assert "hatched: more than chance explains (3)" in display.shares_ax_.get_xlabel()


@pytest.mark.parametrize(("n_nodes", "name"), [(1, "{}"), (80, "{}"), (12, "bus {}"), (80, "a long name: node {}")])
def test_names_do_not_run_into_one_another(n_nodes, name):
    outputs = np.zeros((5, n_nodes))
    outputs[:, -1] = 9.0
    names = [name.format(node) for node in range(n_nodes)]
    display = check(outputs, np.zeros((5, n_nodes)), 1.0, node_names=names)
    display.figure_.canvas.draw()
    frame = display.figure_.bbox
    for axes in (display.ax_[0], display.shares_ax_):
        *labels, caption = [text.get_window_extent() for text in (*axes.get_xticklabels(), axes.xaxis.label)]
        assert all((box.p0 >= frame.p0).all() and (box.p1 <= frame.p1).all() for box in (*labels, caption))
        assert not any(overlap(one, other) for one, other in pairwise(labels))
        assert not any(overlap(box, caption) for box in labels)
    # The node that stands out is among those that are named.
    shown = display.shares_ax_.get_xticklabels()[-1].get_text()
    assert names[-1].startswith(shown.rstrip("…"))


def test_given_axes_are_used():
    figure, axes = plt.subplots(2, 1)
    display = check(OUTPUTS, MEANS, LEVELS, ax=axes)
    assert list(display.ax_) == list(axes)
    assert display.figure_ is figure
    one = check(OUTPUTS, MEANS, LEVELS, kind="residuals", ax=plt.figure().subplots())
    assert len(one.ax_) == 1


def test_outputs_without_noise_are_drawn():
    display = check(MEANS[0], MEANS[0], 0.0)
    np.testing.assert_array_equal(display.residuals_, np.zeros((7, 4)))
    assert display.total_share_outside_ == 0
