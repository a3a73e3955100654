"""Offsets and outliers of the outputs, as users of the estimators meet them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LinearRegression

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import PolynomialFilter

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0}
OFFSETS = np.array([10.0, -20.0, 0.0, 5.0, 300.0, 1.0])


@pytest.mark.parametrize("edge_weights", ["binary", "signed"])
def test_what_is_added_to_every_output_goes_to_the_intercept(edge_weights, ring, ring_known):
    # Multiples of 1/64, as is what is added: centring is then exact, and so is the comparison.
    X, Y = make_system(ring, PolynomialFilter(1), [0.5, 0.5], n_experiments=16, random_state=0)
    X, Y = np.round(X * 64) / 64, np.round(Y * 64) / 64
    identifier = LangevinSystemIdentifier("polynomial", edge_weights=edge_weights, fit_intercept=True, **SHORT)
    before = clone(identifier).fit(X, Y, ring_known)
    after = clone(identifier).fit(X, Y + OFFSETS, ring_known)
    np.testing.assert_array_equal(before.edge_probabilities_, after.edge_probabilities_)
    np.testing.assert_allclose(after.intercept_ - before.intercept_, OFFSETS, atol=1e-4)
    np.testing.assert_allclose(after.predict(X), before.predict(X) + OFFSETS, atol=1e-4)
    assert after.score(X, Y + OFFSETS) == pytest.approx(before.score(X, Y), abs=0.01)


def test_intercept_of_a_known_network_is_that_of_linear_regression(ring):
    """With one parameter and flat priors, node by node: theta times one regressor, and a constant."""
    X, Y = make_system(ring, PolynomialFilter(1), [0.5, 0.4], n_experiments=400, random_state=0)
    X, Y = X + 3.0, Y + OFFSETS
    fitted = LangevinSystemIdentifier(PolynomialFilter(1), fit_intercept=True, **SHORT).fit(X, Y, ring)
    regressors = np.stack([X, X @ ring], axis=-1)
    centred, outputs = regressors - regressors.mean(0), Y - Y.mean(0)
    line = LinearRegression(fit_intercept=False).fit(centred.reshape(-1, 2), outputs.ravel())
    intercept = Y.mean(0) - regressors.mean(0) @ line.coef_
    # Posterior means over 20 draws: standard errors of theta and offsets are 1e-3 and .05.
    np.testing.assert_allclose(fitted.theta_, line.coef_, atol=0.005)
    np.testing.assert_allclose(fitted.intercept_, intercept, atol=0.1)
    np.testing.assert_allclose(fitted.predict(np.zeros((1, 6)))[0], fitted.intercept_, atol=1e-4)
    assert fitted.noise_std_ == pytest.approx(1.0, rel=0.1)


def test_draws_of_predictions_have_the_intercept(ring, ring_known):
    X, Y = make_system(ring, "heat", [0.3], n_experiments=20, random_state=0)
    fitted = LangevinSystemIdentifier("heat", fit_intercept=True, **SHORT).fit(X, Y + OFFSETS, ring_known)
    outputs, _ = fitted._predict_draws(X, 50, random_state=0)
    np.testing.assert_allclose(outputs.mean(0), fitted.predict(X), atol=0.1)  # theta hardly varies


def test_without_an_intercept_it_is_zero(ring_known, ring_experiments):
    fitted = LangevinSystemIdentifier(**SHORT).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.intercept_, 0)


def test_a_refit_forgets_outliers(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier(noise_distribution="student-t", **SHORT).fit(X, Y, ring_known)
    assert fitted.outlier_probabilities_.shape == Y.shape
    fitted.set_params(noise_distribution="gaussian").fit(X, Y, ring_known)
    assert not hasattr(fitted, "outlier_probabilities_")


def test_outliers_among_missing_outputs_are_found(ring, ring_known):
    X, Y = make_system(ring, "heat", [0.3], n_experiments=20, random_state=0)
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = np.nan
    Y[0, 0], Y[7, 4] = 80.0, -500.0
    fitted = LangevinSystemIdentifier("heat", noise_distribution="student-t", **SHORT).fit(X, Y, ring_known)
    probabilities = fitted.outlier_probabilities_
    np.testing.assert_array_equal(np.isnan(probabilities), np.isnan(Y))
    assert probabilities[0, 0] > 0.99
    assert probabilities[7, 4] > 0.99
    assert (np.nan_to_num(probabilities) > 0.5).sum() == 2
    assert fitted.noise_std_ == pytest.approx(1.0, rel=0.25)
    np.testing.assert_array_equal(fitted.adjacency_, ring)


@pytest.mark.parametrize("noise_std", [0.3, 1.0])
def test_an_outlier_is_found_where_the_noise_level_is_given(noise_std, ring, ring_known):
    """Chains used to begin where the outlier had led them, and took what then did not fit for more outliers."""
    X, Y = make_system(ring, "heat", [0.3], n_experiments=15, noise_std=noise_std, random_state=0)
    Y[7, 3] += 100
    settings = {**SHORT, "noise_distribution": "student-t", "noise_std": noise_std}
    fitted = LangevinSystemIdentifier("heat", **settings).fit(X, Y, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    assert fitted.outlier_probabilities_[7, 3] > 0.99
    assert (fitted.outlier_probabilities_ > 0.5).sum() == 1
    assert fitted.noise_std_ == noise_std


@pytest.mark.parametrize("fraction", [0.3, 0.6])
def test_units_of_the_data_do_not_matter_to_outliers(fraction, ring):
    X, Y = make_system(ring, "heat", [0.3], n_experiments=8, random_state=1)
    Y[3, 2] += 60
    known = hide_edges(ring, fraction=fraction, random_state=1)
    identifier = LangevinSystemIdentifier("heat", noise_distribution="student-t", fit_intercept=True, **SHORT)
    one, other = (clone(identifier).fit(X * unit, Y * unit, known) for unit in (1.0, 2.0**-30))
    np.testing.assert_allclose(one.outlier_probabilities_, other.outlier_probabilities_, atol=1e-3)
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"noise_distribution": "student-t", "edge_weights": "signed"}, "noise_distribution='student-t' with edge_w"),
        ({"noise_distribution": "student-t", "n_sweeps": 0}, "noise_distribution='student-t' with n_sweeps=0"),
        ({"fit_intercept": True, "edge_weights": "positive"}, "measured in some experiments only"),
        ({"noise_distribution": "laplace"}, "noise_distribution"),
        ({"fit_intercept": 1.5}, "fit_intercept"),
    ],
)
def test_what_cannot_be_sampled_is_refused_by_name(settings, words, ring_known, ring_experiments):
    X, Y = ring_experiments
    Y = Y.copy()
    Y[0, 0] = np.nan
    with pytest.raises(ValueError, match=words):
        LangevinSystemIdentifier("heat", **SHORT | settings).fit(X, Y, ring_known)


def test_one_experiment_has_no_offsets(ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=r"fit_intercept=True with 1 experiment\(s\); expected at least 2"):
        LangevinSystemIdentifier("heat", fit_intercept=True, **SHORT).fit(X[:1], Y[:1], ring_known)
