"""The training of a prior is drawn as it went, and compared with a guess that knows the density alone."""

from __future__ import annotations

import numpy as np
import pytest
from display_cases import legend_texts
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import ErdosRenyiPrior
from sklearn_graphid.plotting import PriorTrainingDisplay
from sklearn_graphid.plotting._training import density_losses


@pytest.mark.parametrize("frozen", [True, False])
def test_training_draws_history_and_levels(prior, small_graphs, frozen):
    estimator = FrozenEstimator(prior) if frozen else prior
    display = PriorTrainingDisplay.from_estimator(estimator, small_graphs)
    history, losses = prior.loss_history_, prior.transform(small_graphs)
    np.testing.assert_array_equal(display.training_line_.get_data(), [history["seconds"], history["training"]])
    np.testing.assert_array_equal(display.validation_line_.get_data(), [history["seconds"], history["validation"]])
    np.testing.assert_allclose(display.level_line_.get_data(), [prior.sigmas_, np.median(losses, axis=0)])
    assert f"best: {min(history['validation']):.4g}" in legend_texts(display.ax_[0])


def test_training_compares_with_a_guess_by_density(prior, small_graphs):
    display = PriorTrainingDisplay.from_estimator(prior, small_graphs)
    expected = np.median(display.baseline_losses, axis=0)
    np.testing.assert_allclose(display.baseline_line_.get_data(), [prior.sigmas_, expected])
    assert display.share_left_ == pytest.approx(display.level_losses.sum() / display.baseline_losses.sum())
    assert "guess by density" in display.ax_[1].get_title()
    history = {"training_loss": [2.0], "validation_loss": [2.0], "seconds": [1.0]}
    levels = {"sigmas": [1.0, 0.5], "level_losses": [[1.0, 0.5]]}
    told = [
        PriorTrainingDisplay(**history, **levels, baseline_losses=[[scale, scale]]).plot().ax_[1].get_title()
        for scale in (1.5, 0.5)
    ]
    assert told[0].endswith("leaves 50 % of the loss of a guess by density")
    assert told[1].endswith("no better than a guess by density: train longer")


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
@pytest.mark.parametrize(("density", "sigma"), [(0.3, 0.5), (0.05, 0.3), (0.5, 0.15)])
def test_the_guess_by_density_is_the_closed_form_priors(density, sigma, architecture):
    rng = np.random.default_rng(0)
    graph = np.triu(rng.random((600, 600)) < density, 1).astype(float)
    graph += graph.T
    noise = np.triu(rng.normal(0, sigma, graph.shape), 1)
    guess = ErdosRenyiPrior(density).denoise(graph + noise + noise.T, sigma)
    pairs = np.triu_indices(600, 1)
    q, a = np.clip(guess[pairs], 1e-300, 1 - 1e-16), graph[pairs]
    entropies = -(a * np.log(q) + (1 - a) * np.log1p(-q))
    losses = entropies if architecture == "ppgn" else (q - a) ** 2 / (2 * sigma**2)
    computed = density_losses(np.array([density]), np.array([sigma]), architecture)[0, 0]
    # 180,000 pairs; 4.5 standard errors alarm once in 150,000 runs.
    assert abs(losses.mean() - computed) < 4.5 * losses.std() / np.sqrt(len(losses))


def test_training_over_epochs_without_validation():
    history = {"training_loss": [3.0, 2.0, 1.0], "validation_loss": [np.nan] * 3, "seconds": [5.0, 9.0, 14.0]}
    display = PriorTrainingDisplay(**history).plot(time_axis="epochs")
    np.testing.assert_array_equal(display.training_line_.get_xdata(), [1, 2, 3])
    assert display.validation_line_ is None
    assert display.level_line_ is None
    assert len(display.ax_) == 1
