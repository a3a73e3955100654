"""The ridge estimate of the process, against least squares and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from symmetric_matrices import symmetric_basis

from sklearn_graphid.datasets import make_system
from sklearn_graphid.identifiers._ridge import best_gain, ridge_operator

NAN = np.nan


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("n_experiments", [3, 12])
def test_ridge_operator_is_least_squares_over_symmetric_matrices(n_experiments, gaps):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, n_experiments, 5))
    if gaps:
        Y[rng.random(Y.shape) < 0.3] = NAN
        Y[:, 4] = NAN
    measured, alpha = ~np.isnan(Y), 0.7
    gain = best_gain(X, Y)
    assert gain == pytest.approx(np.linalg.lstsq(X[measured][:, None], Y[measured], rcond=None)[0][0])
    basis = symmetric_basis(5)
    fits = np.stack([np.append((X @ b)[measured], np.sqrt(alpha) * b) for b in basis], axis=1)
    target = np.append((Y - gain * X)[measured], np.zeros(25))
    coefficients = np.linalg.lstsq(fits, target, rcond=None)[0]
    expected = gain * np.eye(5) + np.tensordot(coefficients, basis, 1)
    np.testing.assert_allclose(ridge_operator(X, Y, alpha), expected, atol=1e-8)


def test_ridge_operator_agrees_with_scikit_learn_on_orthogonal_inputs():
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(8, 6)))[0]
    Y = rng.normal(size=(8, 6))
    gain = best_gain(X, Y)
    other = Ridge(alpha=0.4, fit_intercept=False).fit(X, Y - gain * X).coef_
    np.testing.assert_allclose(ridge_operator(X, Y, 0.4), gain * np.eye(6) + (other + other.T) / 2, atol=1e-12)


def test_enough_exact_outputs_leave_the_process_itself(ring):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=8, noise_std=0, random_state=0)
    expected = 0.5 * np.eye(6) - 0.3 * ring + 0.1 * ring @ ring
    np.testing.assert_allclose(ridge_operator(X, Y, 1e-9), expected, atol=1e-6)
