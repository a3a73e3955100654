"""From scores to edges, their probabilities and theta: against brute force and scikit-learn."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy.linalg import expm
from scipy.optimize import minimize_scalar
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import f1_score
from symmetric_matrices import symmetric

from sklearn_graphid import KnownEdges
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers._edge_scores import (
    EdgeScores,
    cross_fit,
    fit_filter,
    largest_f1_cut,
    platt_scaling,
    read_edges,
    two_means_cut,
)

NAN = np.nan


@pytest.mark.parametrize("seed", range(20))
def test_f1_cut_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 12, 30).astype(float)  # with ties
    is_edge = rng.random(30) < expit(scores - 8)
    is_edge[:2] = True, False
    cut = largest_f1_cut(scores, is_edge)
    possible = [f1_score(is_edge, scores > value) for value in np.append(np.unique(scores), -np.inf)]
    assert f1_score(is_edge, scores > cut) == pytest.approx(max(possible))
    assert not np.isin(cut, scores)


@pytest.mark.parametrize("seed", range(20))
def test_two_means_cut_is_the_best_of_all(seed):
    scores = np.random.default_rng(seed).integers(0, 9, 25) ** 1.5

    def within(cut):
        groups = scores[scores > cut], scores[scores <= cut]
        return sum(group.var() * len(group) for group in groups if len(group)) / 25

    cut, spread = two_means_cut(scores)
    assert within(cut) == pytest.approx(min(map(within, np.unique(scores)[:-1])))
    assert spread == pytest.approx(np.sqrt(within(cut)))


class ScoreItself(ClassifierMixin, BaseEstimator):
    """A classifier whose decision is its only feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return self.decision_function(X) > 0


@pytest.mark.parametrize("seed", range(5))
def test_platt_scaling_agrees_with_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    scores = rng.gamma(2.0, size=200)
    is_edge = rng.random(200) < expit(scores - 3)
    slope, intercept = platt_scaling(scores, is_edge)
    judge = ScoreItself().fit(scores[:, None], is_edge)
    calibrated = CalibratedClassifierCV(FrozenEstimator(judge), method="sigmoid").fit(scores[:, None], is_edge)
    expected = calibrated.predict_proba(scores[:, None])[:, 1]
    np.testing.assert_allclose(expit(slope * scores + intercept), expected, atol=1e-4)


def test_platt_scaling_balances_its_targets():
    """The gradient of its likelihood is zero, by definition; also where a cut separates the classes."""
    scores, is_edge = np.array([1e-9, 2e-9, 3e-9, 8e-9, 9e-9]), np.array([False, False, False, True, True])
    slope, intercept = platt_scaling(scores, is_edge)
    excess = expit(slope * scores + intercept) - np.where(is_edge, 3 / 4, 1 / 5)
    assert abs(excess.sum()) < 1e-6
    assert abs((excess * scores).sum()) < 1e-15


def test_scores_that_mislead_leave_the_share_of_edges():
    scores, is_edge = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False, False])
    slope, intercept = platt_scaling(scores, is_edge)
    assert slope == 0
    assert expit(intercept) == pytest.approx((2 * 3 / 4 + 3 * 1 / 5) / 5)
    assert platt_scaling(np.ones(5), is_edge) == (0.0, intercept)


def test_pairs_of_which_nothing_is_said():
    """Two of three known pairs are edges: by Laplace's rule the next is one with probability 3/5."""
    known = KnownEdges.from_array([[0, 1, 1, NAN], [1, 0, 0, NAN], [1, 0, 0, NAN], [NAN, NAN, NAN, 0]])
    scores = np.array([[0, 5, 6, NAN], [5, 0, 1, 7], [6, 1, 0, 0.5], [NAN, 7, 0.5, 0]])
    reading = read_edges(scores, known)
    np.testing.assert_array_equal(reading.edges, [False, True, False])
    assert reading.cut == 3.0
    assert reading.calibrated
    assert reading.probabilities[0] == pytest.approx(3 / 5)
    assert reading.probabilities[2] < reading.probabilities[0] < reading.probabilities[1]
    np.testing.assert_array_equal(read_edges(scores, known, threshold=0.59).edges, [True, True, False])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_sort_of_known_pair_is_no_reference(value):
    partial = np.full((4, 4), NAN)
    partial[0, 1] = partial[1, 0] = value
    scores = symmetric(0, 4) + np.array([[0, 9, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9], [0, 0, 9, 0]])
    reading = read_edges(scores, KnownEdges.from_array(partial))
    assert not reading.calibrated
    np.testing.assert_array_equal(reading.edges, [False, False, True, False, True])
    np.testing.assert_array_equal(reading.edges, reading.probabilities > 0.5)


@pytest.mark.parametrize("scores", [np.zeros((5, 5)), np.full((5, 5), NAN)])
def test_equal_scores_are_no_edges(scores):
    reading = read_edges(scores, KnownEdges.nothing(5))
    assert not reading.edges.any()
    np.testing.assert_array_equal(reading.probabilities, 0.5)


def test_two_scores_make_a_step():
    network = nx.to_numpy_array(nx.cycle_graph(5))
    reading = read_edges(network, KnownEdges.nothing(5))
    np.testing.assert_array_equal(KnownEdges.nothing(5).fill(reading.edges), network)
    np.testing.assert_array_equal(KnownEdges.nothing(5).fill(reading.probabilities), network)


def test_cross_fitting_shows_no_pair_to_itself(club):
    """A method that repeats what it is told, and says minus one elsewhere, has nothing to repeat for any pair."""
    network, known = club
    told = []

    def parrot(partly_known):
        told.append(partly_known)
        return EdgeScores(np.where(partly_known.mask, partly_known.values, -1.0), {})

    scores = cross_fit(parrot, known).matrix
    np.testing.assert_array_equal(scores[~np.eye(34, dtype=bool)], -1.0)
    assert len(told) == 6
    hidden = [np.triu(known.mask & ~fold.mask) for fold in told[1:]]
    assert (sum(h.astype(int) for h in hidden) == np.triu(known.mask, 1)).all()
    shares = [network[h].sum() for h in hidden]
    assert max(shares) - min(shares) <= 1
    np.testing.assert_array_equal(cross_fit(parrot, KnownEdges(known.mask, 0 * network)).matrix[known.mask], 0.0)


def test_theta_of_a_polynomial_is_least_squares(ring):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    Y[3, 2] = Y[5] = NAN
    design = np.stack([(X @ np.linalg.matrix_power(ring, power)).ravel() for power in range(3)], axis=1)
    measured = ~np.isnan(Y.ravel())
    expected, squares, _, _ = np.linalg.lstsq(design[measured], Y.ravel()[measured], rcond=None)
    theta, noise_std = fit_filter(X, Y, ring, PolynomialFilter(2))
    np.testing.assert_allclose(theta, expected, rtol=1e-9)
    assert noise_std == pytest.approx(np.sqrt(squares[0] / measured.sum()))
    huge_theta, huge_noise_std = fit_filter(1e180 * X, 1e180 * Y, ring, PolynomialFilter(2))
    np.testing.assert_allclose(huge_theta, expected, rtol=1e-9)
    assert huge_noise_std == pytest.approx(1e180 * noise_std)


@pytest.mark.parametrize("time", [0.05, 0.5, 3.0])
def test_time_of_heat_is_the_best_one(time, club):
    network, _ = club
    laplacian = np.diag(network.sum(0)) - network
    X, Y = make_system(network, "heat", [time], n_experiments=20, random_state=0)
    best = minimize_scalar(lambda t: ((Y - X @ expm(-t * laplacian)) ** 2).sum(), bounds=(0, 10), method="bounded")
    theta, noise_std = fit_filter(X, Y, network, HeatDiffusionFilter())
    assert theta[0] == pytest.approx(best.x, rel=1e-3)
    assert noise_std**2 * Y.size <= best.fun * (1 + 1e-9)
