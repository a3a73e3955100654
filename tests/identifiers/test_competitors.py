"""The competitors: every kernel against a closed form, another library or brute force, and what all four promise."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.linalg import expm
from scipy.optimize import minimize, minimize_scalar
from scipy.spatial.distance import pdist, squareform
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.covariance import GraphicalLasso
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score
from sklearn.metrics.pairwise import nan_euclidean_distances
from sklearn.model_selection import GridSearchCV
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_graphid import (
    GraphicalLassoIdentifier,
    KnownEdges,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers import _smooth
from sklearn_graphid.identifiers._graphical_lasso import output_correlation, partial_correlation
from sklearn_graphid.identifiers._ridge import best_gain, ridge_operator
from sklearn_graphid.identifiers._robust import CommutingObjective, alternate, commuting_shift
from sklearn_graphid.identifiers._smooth import learn_smooth_graph, squared_distances
from sklearn_graphid.identifiers._strengths import (
    Strengths,
    cross_fit,
    fit_filter,
    largest_f1_cut,
    platt_scaling,
    read_edges,
    two_means_cut,
)
from sklearn_graphid.metrics import edge_f1_score

NAN = np.nan
COMPETITORS = {
    "ridge": RidgeSystemIdentifier("heat"),
    "robust": RobustFilterIdentifier("heat", max_iter=4),
    "graphical-lasso": GraphicalLassoIdentifier("heat"),
    "smooth": SmoothSignalIdentifier("heat"),
}
PENALTIES = {
    "ridge": {"alpha": [1.0, 30.0]},
    "robust": {"commutation_penalty": [1.0, 10.0]},
    "graphical-lasso": {"alpha": [0.2, 0.5]},
    "smooth": {"beta": [0.1, 1.0], "threshold": [None, 0.5]},
}


@pytest.fixture(params=COMPETITORS)
def competitor(request):
    return clone(COMPETITORS[request.param])


@pytest.fixture
def club():
    """Karate club: 34 nodes, 78 edges, and half of its pairs known."""
    network = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    return network, hide_edges(network, 0.5, random_state=0)


def symmetric(seed, n_nodes, low=0.0, high=1.0):
    """A random symmetric matrix with a zero diagonal."""
    upper = np.triu(np.random.default_rng(seed).uniform(low, high, (n_nodes, n_nodes)), 1)
    return upper + upper.T


def symmetric_basis(n_nodes):
    """Matrices that all symmetric ones are sums of."""
    basis = []
    for i in range(n_nodes):
        for j in range(i, n_nodes):
            matrix = np.zeros((n_nodes, n_nodes))
            matrix[i, j] = matrix[j, i] = 1.0
            basis.append(matrix)
    return basis


# From strengths to edges


@pytest.mark.parametrize("seed", range(20))
def test_f1_cut_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    strengths = rng.integers(0, 12, 30).astype(float)  # with ties
    is_edge = rng.random(30) < expit(strengths - 8)
    is_edge[:2] = True, False
    cut = largest_f1_cut(strengths, is_edge)
    possible = [f1_score(is_edge, strengths > value) for value in np.append(np.unique(strengths), -np.inf)]
    assert f1_score(is_edge, strengths > cut) == pytest.approx(max(possible))
    assert not np.isin(cut, strengths)


@pytest.mark.parametrize("seed", range(20))
def test_two_means_cut_is_the_best_of_all(seed):
    strengths = np.random.default_rng(seed).integers(0, 9, 25) ** 1.5

    def within(cut):
        groups = strengths[strengths > cut], strengths[strengths <= cut]
        return sum(group.var() * len(group) for group in groups if len(group)) / 25

    cut, spread = two_means_cut(strengths)
    assert within(cut) == pytest.approx(min(map(within, np.unique(strengths)[:-1])))
    assert spread == pytest.approx(np.sqrt(within(cut)))


class StrengthItself(ClassifierMixin, BaseEstimator):
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
    strengths = rng.gamma(2.0, size=200)
    is_edge = rng.random(200) < expit(strengths - 3)
    slope, intercept = platt_scaling(strengths, is_edge)
    judge = StrengthItself().fit(strengths[:, None], is_edge)
    calibrated = CalibratedClassifierCV(FrozenEstimator(judge), method="sigmoid").fit(strengths[:, None], is_edge)
    expected = calibrated.predict_proba(strengths[:, None])[:, 1]
    np.testing.assert_allclose(expit(slope * strengths + intercept), expected, atol=1e-4)


def test_platt_scaling_balances_its_targets():
    """The gradient of its likelihood is zero, by definition; also where a cut separates the classes."""
    strengths, is_edge = np.array([1e-9, 2e-9, 3e-9, 8e-9, 9e-9]), np.array([False, False, False, True, True])
    slope, intercept = platt_scaling(strengths, is_edge)
    excess = expit(slope * strengths + intercept) - np.where(is_edge, 3 / 4, 1 / 5)
    assert abs(excess.sum()) < 1e-6
    assert abs((excess * strengths).sum()) < 1e-15


def test_strengths_that_mislead_leave_the_share_of_edges():
    strengths, is_edge = np.array([0.0, 1.0, 2.0, 3.0, 4.0]), np.array([True, True, False, False, False])
    slope, intercept = platt_scaling(strengths, is_edge)
    assert slope == 0
    assert expit(intercept) == pytest.approx((2 * 3 / 4 + 3 * 1 / 5) / 5)
    assert platt_scaling(np.ones(5), is_edge) == (0.0, intercept)


def test_pairs_of_which_nothing_is_said():
    """Two of three known pairs are edges: by Laplace's rule the next is one with probability 3/5."""
    known = KnownEdges.from_array([[0, 1, 1, NAN], [1, 0, 0, NAN], [1, 0, 0, NAN], [NAN, NAN, NAN, 0]])
    strengths = np.array([[0, 5, 6, NAN], [5, 0, 1, 7], [6, 1, 0, 0.5], [NAN, 7, 0.5, 0]])
    reading = read_edges(strengths, known)
    np.testing.assert_array_equal(reading.edges, [False, True, False])
    assert reading.cut == 3.0
    assert reading.calibrated
    assert reading.probabilities[0] == pytest.approx(3 / 5)
    assert reading.probabilities[2] < reading.probabilities[0] < reading.probabilities[1]
    np.testing.assert_array_equal(read_edges(strengths, known, threshold=0.59).edges, [True, True, False])


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_one_sort_of_known_pair_is_no_reference(value):
    partial = np.full((4, 4), NAN)
    partial[0, 1] = value
    strengths = symmetric(0, 4) + np.array([[0, 9, 0, 0], [9, 0, 9, 0], [0, 9, 0, 9], [0, 0, 9, 0]])
    reading = read_edges(strengths, KnownEdges.from_array(partial))
    assert not reading.calibrated
    np.testing.assert_array_equal(reading.edges, [False, False, True, False, True])
    np.testing.assert_array_equal(reading.edges, reading.probabilities > 0.5)


@pytest.mark.parametrize("strengths", [np.zeros((5, 5)), np.full((5, 5), NAN)])
def test_equal_strengths_are_no_edges(strengths):
    reading = read_edges(strengths, KnownEdges.nothing(5))
    assert not reading.edges.any()
    np.testing.assert_array_equal(reading.probabilities, 0.5)


def test_two_strengths_make_a_step():
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
        return Strengths(np.where(partly_known.mask, partly_known.values, -1.0), {})

    strengths = cross_fit(parrot, known).matrix
    np.testing.assert_array_equal(strengths[~np.eye(34, dtype=bool)], -1.0)
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
    fitted = fit_filter(X, Y, ring, PolynomialFilter(2))
    np.testing.assert_allclose(fitted.theta, expected, rtol=1e-9)
    assert fitted.noise_std == pytest.approx(np.sqrt(squares[0] / measured.sum()))
    huge = fit_filter(1e180 * X, 1e180 * Y, ring, PolynomialFilter(2))
    np.testing.assert_allclose(huge.theta, expected, rtol=1e-9)
    assert huge.noise_std == pytest.approx(1e180 * fitted.noise_std)


@pytest.mark.parametrize("time", [0.05, 0.5, 3.0])
def test_time_of_heat_is_the_best_one(time, club):
    network, _ = club
    laplacian = np.diag(network.sum(0)) - network
    X, Y = make_system(network, "heat", [time], n_experiments=20, random_state=0)
    best = minimize_scalar(lambda t: ((Y - X @ expm(-t * laplacian)) ** 2).sum(), bounds=(0, 10), method="bounded")
    fitted = fit_filter(X, Y, network, HeatDiffusionFilter())
    assert fitted.theta[0] == pytest.approx(best.x, rel=1e-3)
    assert fitted.noise_std**2 * Y.size <= best.fun * (1 + 1e-9)


# Ridge


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


# An operator and a network that commute


def commuting_problem(shift="adjacency", reweighted=False, gaps=False, n_nodes=5, n_experiments=6):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(2, n_experiments, n_nodes))
    measured = rng.random(Y.shape) < 0.7 if gaps else np.ones(Y.shape, dtype=bool)
    guess = (symmetric(1, n_nodes) > 0.6).astype(float)
    return CommutingObjective(X, Y * measured, measured, 0.4, 0.3, 0.8, 0.5, 0.9, guess, shift, reweighted)


def test_commuting_objective_is_what_it_says():
    problem, A = commuting_problem(), symmetric(2, 5)
    H = symmetric(3, 5) + np.eye(5)
    expected = np.linalg.norm(problem.targets - problem.inputs @ H) ** 2
    expected += 0.3 * np.linalg.norm(H - 0.4 * np.eye(5)) ** 2 + 0.8 * np.linalg.norm(A @ H - H @ A) ** 2
    expected += 0.5 * np.abs(A).sum() + 0.9 * np.abs(A - problem.guess).sum()
    assert problem.value(H, A) == pytest.approx(expected)
    L = np.diag(A.sum(0)) - A
    difference = np.linalg.norm(L @ H - H @ L) ** 2 - np.linalg.norm(A @ H - H @ A) ** 2
    assert replace(problem, shift="laplacian").value(H, A) == pytest.approx(expected + 0.8 * difference)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("shift", ["adjacency", "laplacian"])
def test_operator_step_is_least_squares(shift, gaps):
    problem, A = commuting_problem(shift, gaps=gaps), symmetric(2, 5)
    S = A if shift == "adjacency" else np.diag(A.sum(0)) - A
    basis = symmetric_basis(5)
    blocks = [
        np.concatenate([
            (problem.inputs @ b)[problem.measured], np.sqrt(0.3) * b.ravel(), np.sqrt(0.8) * (S @ b - b @ S).ravel(),
        ])
        for b in basis
    ]  # fmt: skip
    target = np.concatenate([
        problem.targets[problem.measured], np.sqrt(0.3) * 0.4 * np.eye(5).ravel(), np.zeros(25),
    ])  # fmt: skip
    expected = np.tensordot(np.linalg.lstsq(np.stack(blocks, axis=1), target, rcond=None)[0], basis, 1)
    found = problem.operator_step(symmetric(7, 5), A, tolerance=1e-12)
    np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shift", ["adjacency", "laplacian"])
def test_graph_step_agrees_with_a_general_solver(shift, seed):
    problem = replace(commuting_problem(shift), sparsity=0.2, closeness=0.1)
    H = symmetric(seed, 5, -1, 1) + np.diag(np.arange(5.0))
    free = symmetric(seed + 50, 5) > 0.3
    start = np.where(free, 0.5, problem.guess)
    rows, columns = np.nonzero(np.triu(free))

    def network(pairs):
        graph = start.copy()
        graph[rows, columns] = graph[columns, rows] = pairs
        return graph

    general = minimize(
        lambda pairs: problem.value(H, network(pairs)),
        np.full(len(rows), 0.5),
        bounds=[(0, 1)] * len(rows),
        options={"ftol": 1e-15, "gtol": 1e-10, "maxfun": 100_000},
    )
    found = problem.graph_step(H, start, free, tolerance=1e-9)
    np.testing.assert_array_equal(found[~free], start[~free])
    assert ((found >= 0) & (found <= 1)).all()
    assert problem.value(H, found) <= general.fun * (1 + 1e-6)
    np.testing.assert_allclose(found, network(general.x), atol=2e-3)


@pytest.mark.parametrize("reweighted", [False, True])
@pytest.mark.parametrize("shift", ["adjacency", "laplacian"])
def test_alternation_never_rises(shift, reweighted):
    problem = commuting_problem(shift, reweighted, gaps=True, n_nodes=12, n_experiments=8)
    free = symmetric(4, 12) > 0.4
    start = np.where(free, 0.3, problem.guess)
    ended = alternate(problem, ridge_operator(problem.inputs, problem.targets, 1.0), start, free, max_iter=15, tol=0.0)
    values = np.array(ended.objective)
    assert len(values) == 31
    assert (np.diff(values) <= 1e-10 * values[0]).all()
    assert values[-1] < 0.9 * values[1]
    assert values[-1] == pytest.approx(problem.value(ended.operator, ended.adjacency))
    np.testing.assert_array_equal(ended.adjacency[~free], start[~free])


@pytest.mark.parametrize(
    ("filter", "shift"),
    [
        (PolynomialFilter(3), "adjacency"),
        (ARMAFilter(), "adjacency"),
        (HeatDiffusionFilter(), "laplacian"),
        (PolynomialFilter(0), "adjacency"),
        (CallableFilter(lambda A, theta: torch.diag_embed(A.sum(-1)) - A), "laplacian"),
    ],
)
def test_shift_is_found_by_trying(filter, shift):
    assert commuting_shift(filter) == shift


def test_robust_filter_finds_what_the_ridge_cannot(club):
    """Two-step neighbours have the larger influence here, which only the commutation sees through."""
    network, known = club
    X, Y = make_system(network, "polynomial", [0.5, 0.1, 0.1], n_experiments=50, noise_std=0.1, random_state=0)
    robust = RobustFilterIdentifier().fit(X, Y, known)
    ridge = RidgeSystemIdentifier().fit(X, Y, known)
    assert edge_f1_score(network, robust.adjacency_, known) == 1.0
    assert edge_f1_score(network, ridge.adjacency_, known) < 0.6
    np.testing.assert_allclose(robust.theta_, [0.5, 0.1, 0.1], atol=0.01)


def test_guess_wins_with_a_large_penalty(club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=5, random_state=0)
    for guess in (network, nx.from_numpy_array(network)):
        told = RobustFilterIdentifier("heat", guess=guess, guess_penalty=1e3, reweighted=False).fit(X, Y, known)
        unknown = known.unknown_pairs()
        np.testing.assert_allclose(told.strengths_[unknown], network[unknown], atol=1e-6)
        np.testing.assert_array_equal(told.adjacency_, network)


@pytest.mark.parametrize(
    ("guess", "error", "words"),
    [
        (np.zeros((5, 5)), ValueError, "guess has 5 nodes but X has 6"),
        (np.full((6, 6), 0.5), ValueError, "guess holds the value 0.5"),
        (np.triu(np.ones((6, 6)), 1), ValueError, "guess is not symmetric"),
        ("ring", InvalidParameterError, "The 'guess' parameter of RobustFilterIdentifier must be"),
    ],
)
def test_guess_is_refused(guess, error, words, ring_experiments):
    with pytest.raises(error, match=words):
        RobustFilterIdentifier("heat", guess=guess).fit(*ring_experiments)


# Graphical lasso


def test_correlation_of_outputs():
    Y = np.random.default_rng(0).normal(size=(9, 5)) + 3
    np.testing.assert_allclose(output_correlation(Y, False), np.corrcoef(Y.T), atol=1e-12)
    norms = np.sqrt((Y**2).sum(0))
    np.testing.assert_allclose(output_correlation(Y, True), Y.T @ Y / np.outer(norms, norms), atol=1e-12)


def test_correlation_with_gaps_is_one():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(6, 8))
    Y[rng.random(Y.shape) < 0.4] = NAN
    Y[:, 3], Y[:, 5] = NAN, 7.0
    correlation = output_correlation(Y, False)
    heard = np.isfinite(np.diagonal(correlation))
    np.testing.assert_array_equal(np.flatnonzero(~heard), [3, 5])
    block = correlation[np.ix_(heard, heard)]
    np.testing.assert_allclose(np.diagonal(block), 1.0)
    assert np.linalg.eigvalsh(block).min() > -1e-12
    assert np.isnan(correlation[3]).all()


def test_partial_correlation_of_two_nodes_is_the_soft_threshold():
    """For two nodes the lasso moves the correlation to zero by alpha; then it is the partial one as well."""
    for correlation, expected in ((0.8, 0.5), (-0.8, -0.5), (0.2, 0.0)):
        found = partial_correlation(np.array([[1, correlation], [correlation, 1]]), 0.3, 100)
        assert found.matrix[0, 1] == pytest.approx(expected, abs=1e-6)


def test_partial_correlation_without_penalty_is_the_inverse():
    correlation = np.corrcoef(np.random.default_rng(0).normal(size=(6, 200)))
    inverse = np.linalg.inv(correlation)
    scale = np.sqrt(np.diagonal(inverse))
    expected = np.eye(6) - inverse / np.outer(scale, scale)
    np.testing.assert_allclose(partial_correlation(correlation, 1e-7, 100).matrix, expected, atol=1e-5)


@pytest.mark.draws_globally  # scikit-learn's estimator does
def test_strengths_agree_with_scikit_learns_estimator(club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=100, random_state=0)
    standard = (Y - Y.mean(0)) / Y.std(0)
    precision = GraphicalLasso(alpha=0.2, enet_tol=1e-6, assume_centered=True).fit(standard).precision_
    fitted = GraphicalLassoIdentifier("heat", alpha=0.2).fit(X, Y, known)
    scale = np.sqrt(np.diagonal(precision))
    expected = np.abs(precision / np.outer(scale, scale)) - np.eye(34)
    np.testing.assert_allclose(fitted.strengths_, expected, atol=1e-4)


@pytest.mark.filterwarnings("error")
def test_lasso_that_breaks_down_names_the_way_out(club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=5, random_state=0)
    with pytest.raises(FloatingPointError, match="broke down at alpha=1e-06; use a larger alpha"):
        GraphicalLassoIdentifier("heat", alpha=1e-6).fit(X, Y, known)


def test_default_penalty_follows_the_size_of_chance_correlations(ring_experiments):
    X, Y = ring_experiments
    for n_experiments, expected in ((20, 0.7 * np.sqrt(np.log(6) / 20)), (1, 0.9)):
        fitted = GraphicalLassoIdentifier("heat").fit(X[:n_experiments], Y[:n_experiments])
        assert fitted.diagnostics_["alpha"] == pytest.approx(expected)


# Smooth signals


@pytest.fixture
def smooth_problem():
    outputs = np.random.default_rng(0).normal(size=(4, 12))
    return squared_distances(outputs), symmetric(0, 12) > 0.4


@pytest.mark.parametrize("gaps", [False, True])
def test_distances_agree_with_scikit_learn(gaps):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(7, 5))
    np.testing.assert_allclose(squared_distances(Y), squareform(pdist(Y.T, "sqeuclidean")) / 7)
    Y[rng.random(Y.shape) < 0.4] = NAN
    Y[:4, 0], Y[4:, 1] = NAN, NAN  # two nodes that were never measured together
    expected = nan_euclidean_distances(Y.T) ** 2 / 7
    np.testing.assert_allclose(squared_distances(Y), np.where(np.eye(5), 0.0, expected), atol=1e-12)


@pytest.mark.parametrize("beta", [1e-5, 0.01, 0.3, 10.0, 1e6])
@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_smooth_graph_meets_the_conditions_of_an_optimum(alpha, beta, smooth_problem):
    """The derivative of the objective is zero at positive weights, and not negative at zero weights."""
    distances, free = smooth_problem
    graph = learn_smooth_graph(distances, alpha, beta, free)
    assert graph.converged
    W = graph.weights
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_array_equal(W[~free], 0.0)
    inverse_degrees = 1 / W.sum(0)
    pulls = alpha * np.add.outer(inverse_degrees, inverse_degrees)
    derivative = 2 * distances - pulls + 2 * beta * W
    size = pulls.max()
    assert np.abs(derivative[free & (W > 0)]).max() < 1e-6 * size
    assert derivative[free & (W == 0)].min(initial=0.0) > -1e-6 * size


@pytest.mark.parametrize("beta", [0.05, 1.0])
def test_smooth_graph_agrees_with_a_general_solver(beta):
    distances = squared_distances(np.random.default_rng(1).normal(size=(3, 5)))
    rows, columns = np.triu_indices(5, 1)

    def network(pairs):
        graph = np.zeros((5, 5))
        graph[rows, columns] = graph[columns, rows] = pairs
        return graph

    def objective(pairs):
        W = network(pairs)
        return (W * distances).sum() - 2.0 * np.log(W.sum(1)).sum() + beta / 2 * (W**2).sum()

    general = minimize(
        objective, np.ones(10), bounds=[(1e-12, None)] * 10, options={"ftol": 1e-15, "gtol": 1e-9, "maxfun": 100_000}
    )
    found = learn_smooth_graph(distances, 2.0, beta, ~np.eye(5, dtype=bool)).weights
    assert objective(found[rows, columns]) <= general.fun + 1e-9
    np.testing.assert_allclose(found, network(general.x), atol=2e-4)


def test_equal_distances_have_a_closed_form():
    """2 z - 2 alpha / ((n - 1) w) + 2 beta w = 0."""
    n_nodes, z, alpha, beta = 7, 0.6, 1.5, 0.2
    free = ~np.eye(n_nodes, dtype=bool)
    expected = (-z + np.sqrt(z**2 + 4 * beta * alpha / (n_nodes - 1))) / (2 * beta)
    found = learn_smooth_graph(np.full((7, 7), z), alpha, beta, free).weights
    np.testing.assert_allclose(found[free], expected, rtol=1e-8)


@pytest.mark.parametrize("factor", [0.1, 3.0])
def test_scaling_of_proposition_two(factor, smooth_problem):
    distances, free = smooth_problem
    one = learn_smooth_graph(distances, 1.3, 0.4, free).weights
    np.testing.assert_allclose(factor * learn_smooth_graph(distances, 1.3 / factor, 0.4 * factor, free).weights, one)
    np.testing.assert_allclose(1.3 * learn_smooth_graph(distances, 1.0, 1.3 * 0.4, free).weights, one)


def test_isolated_node_stays_so(ring_experiments):
    known = np.full((6, 6), NAN)
    known[2] = known[:, 2] = 0
    fitted = SmoothSignalIdentifier("heat").fit(*ring_experiments, known)
    assert fitted.adjacency_[2].sum() == 0
    assert fitted.adjacency_.sum() > 0


def test_newton_steps_that_do_not_suffice_are_told(ring_experiments, monkeypatch):
    monkeypatch.setattr(_smooth, "_MAX_NEWTON_STEPS", 1)
    with pytest.warns(ConvergenceWarning, match="weights of the smooth graph did not converge; use a larger beta"):
        SmoothSignalIdentifier("heat").fit(*ring_experiments)


def test_vanishing_beta_is_refused(ring_experiments):
    with pytest.raises(ValueError, match=r"alpha=0.001 times beta=0.0001 is below 1e-06.*expected a larger beta"):
        SmoothSignalIdentifier("heat", alpha=1e-3, beta=1e-4).fit(*ring_experiments)


# What all four promise


def test_attributes_keep_the_contract(competitor, ring_known, ring_experiments):
    assert competitor.fit(*ring_experiments, ring_known) is competitor
    adjacency, probabilities = competitor.adjacency_, competitor.edge_probabilities_
    for matrix in (adjacency, probabilities):
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(matrix[ring_known.mask], ring_known.values[ring_known.mask])
        assert ((matrix >= 0) & (matrix <= 1)).all()
    assert adjacency.dtype == np.int64
    assert set(np.unique(adjacency)) <= {0, 1}
    assert competitor.theta_.shape == (1,)
    assert isinstance(competitor.noise_std_, float)
    assert competitor.noise_std_ > 0
    assert competitor.known_edges_ is ring_known
    assert competitor.diagnostics_["calibrated"] is True
    np.testing.assert_allclose(competitor.strengths_, competitor.strengths_.T)
    assert competitor.predict(ring_experiments[0]).shape == ring_experiments[1].shape
    graphs, thetas = competitor.sample(3, random_state=0)
    np.testing.assert_array_equal(graphs, np.repeat(adjacency[None], 3, axis=0))
    assert thetas.shape == (3, 1)
    assert len(competitor.to_networkx().edges) == adjacency.sum() // 2


def test_plenty_of_data_leave_no_doubt(competitor, ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=1000, noise_std=0.3, random_state=0)
    for known in (ring_known, None):
        competitor.fit(X, Y, known)
        np.testing.assert_array_equal(competitor.adjacency_, ring)
        np.testing.assert_allclose(competitor.theta_, 0.5, atol=0.01)
        assert competitor.noise_std_ == pytest.approx(0.3, rel=0.05)
        assert competitor.score(X, Y) > 0.98


def test_everything_known_leaves_least_squares(competitor, ring):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    design = np.stack([X.ravel(), (X @ ring).ravel(), (X @ ring @ ring).ravel()], axis=1)
    competitor.set_params(filter="polynomial").fit(X, Y, ring)
    np.testing.assert_array_equal(competitor.adjacency_, ring)
    np.testing.assert_array_equal(competitor.edge_probabilities_, ring)
    np.testing.assert_allclose(competitor.theta_, np.linalg.lstsq(design, Y.ravel(), rcond=None)[0], rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-200, 1e-3, 1e200])
def test_units_do_not_matter(competitor, unit, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    one = clone(competitor).fit(X, Y, known)
    other = competitor.fit(unit * X, unit * Y, known)
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)
    np.testing.assert_allclose(one.edge_probabilities_, other.edge_probabilities_, atol=1e-6)
    np.testing.assert_allclose(one.theta_, other.theta_, rtol=1e-6)
    assert other.noise_std_ == pytest.approx(unit * one.noise_std_)


def test_numbers_of_nodes_do_not_matter(competitor, club):
    """Nothing is known, as the folds of known pairs go by the order of the nodes."""
    network, _ = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=30, random_state=0)
    order = np.random.default_rng(0).permutation(34)
    one, other = clone(competitor).fit(X, Y), competitor.fit(X[:, order], Y[:, order])
    np.testing.assert_allclose(other.strengths_, one.strengths_[np.ix_(order, order)], atol=1e-3)
    np.testing.assert_array_equal(other.adjacency_, one.adjacency_[np.ix_(order, order)])


@pytest.mark.parametrize("name", ["graphical-lasso", "smooth"])
def test_two_of_them_ignore_the_inputs(name, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    identifier = clone(COMPETITORS[name])
    one = clone(identifier).fit(X, Y, known).strengths_
    np.testing.assert_array_equal(identifier.fit(X[::-1], Y, known).strengths_, one)


def test_the_same_data_give_the_same_fit(competitor, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=10, random_state=0)
    Y[2, 3] = NAN
    one, other = clone(competitor).fit(X, Y, known), competitor.fit(X, Y, known)
    for name in ("adjacency_", "edge_probabilities_", "theta_", "strengths_", "noise_std_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


def test_unobserved_nodes_are_missing_outputs(competitor, ring_known, ring_experiments):
    X, Y = ring_experiments
    gaps = Y.copy()
    gaps[:, [1, 4]] = NAN
    listed = clone(competitor).set_params(observed_nodes=[0, 2, 3, 5]).fit(X, Y[:, [0, 2, 3, 5]], ring_known)
    full = competitor.fit(X, gaps, ring_known)
    np.testing.assert_allclose(listed.edge_probabilities_, full.edge_probabilities_, atol=1e-12)
    np.testing.assert_array_equal(listed.adjacency_, full.adjacency_)
    assert listed.predict(X).shape == (20, 4)


@pytest.mark.parametrize("name", ["graphical-lasso", "smooth"])
def test_outputs_say_nothing_of_unobserved_nodes(name, ring_known, ring_experiments):
    """What is left is the share of edges among the known pairs of other nodes, by Laplace's rule."""
    X, Y = ring_experiments
    gaps = Y.copy()
    gaps[:, 4] = NAN
    fitted = clone(COMPETITORS[name]).fit(X, gaps, ring_known)
    assert np.isnan(np.delete(fitted.strengths_[4], 4)).all()
    compared = np.delete(np.delete(ring_known.to_array(), 4, 0), 4, 1)[np.triu_indices(5, 1)]
    share = (np.nansum(compared) + 1) / (np.isfinite(compared).sum() + 2)
    unsaid = ~ring_known.mask[4]
    np.testing.assert_allclose(fitted.edge_probabilities_[4, unsaid], share)
    assert not fitted.adjacency_[4, unsaid].any()


def test_gaps_cost_little(competitor, ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=1000, noise_std=0.3, random_state=0)
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = NAN
    competitor.fit(X, Y, ring_known)
    np.testing.assert_array_equal(competitor.adjacency_, ring)
    assert competitor.score(X, Y) > 0.98


@pytest.mark.parametrize("constant", ["X", "Y", "both"])
def test_signals_that_say_nothing(competitor, constant, ring_known, ring_experiments):
    X, Y = ring_experiments
    X, Y = (0 * X if constant != "Y" else X), (0 * Y if constant != "X" else Y)
    competitor.fit(X, Y, ring_known)
    assert np.isfinite(competitor.edge_probabilities_).all()
    assert np.isfinite(competitor.theta_).all()


def test_probabilities_are_calibrated_where_pairs_are_alike(competitor):
    """As many hidden edges as the probabilities add up to, over twelve networks.

    Given the probabilities, the number of edges has at most the variance of independent draws plus that of the
    calibration from as many known pairs, so twice it. Four standard errors alarm once in 16,000 runs.
    """
    expected = found = variance = 0.0
    for seed in range(12):
        network = nx.to_numpy_array(nx.gnp_random_graph(20, 0.2, seed=seed))
        known = hide_edges(network, 0.5, random_state=seed)
        X, Y = make_system(network, "heat", [0.4], n_experiments=10, random_state=seed)
        unknown = known.unknown_pairs()
        probabilities = competitor.fit(X, Y, known).edge_probabilities_[unknown]
        expected, found = expected + probabilities.sum(), found + network[unknown].sum()
        variance += 2 * (probabilities * (1 - probabilities)).sum()
    assert abs(expected - found) < 4 * np.sqrt(variance)


def test_threshold_is_one_of_probabilities(competitor, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=20, random_state=0)
    unknown = known.unknown_pairs()
    counts = []
    for threshold in (0.1, 0.5, 0.9):
        fitted = clone(competitor).set_params(threshold=threshold).fit(X, Y, known)
        np.testing.assert_array_equal(fitted.adjacency_[unknown], fitted.edge_probabilities_[unknown] > threshold)
        counts.append(fitted.adjacency_.sum())
    assert counts[0] >= counts[1] >= counts[2]


@pytest.mark.parametrize("name", COMPETITORS)
def test_grid_search_over_the_penalties(name, club):
    network, known = club
    X, Y = make_system(network, "heat", [0.5], n_experiments=34, random_state=0)  # as many experiments as nodes
    search = GridSearchCV(COMPETITORS[name], PENALTIES[name], cv=3, error_score="raise").fit(X, Y, known_mask=known)
    assert set(search.best_params_) == set(PENALTIES[name])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    np.testing.assert_array_equal(search.best_estimator_.adjacency_[known.mask], known.values[known.mask])


@pytest.mark.parametrize("filter", ["polynomial", "arma", HeatDiffusionFilter("normalized"), PolynomialFilter(0)])
def test_every_filter_runs(competitor, filter, ring_known, ring_experiments):
    fitted = competitor.set_params(filter=filter).fit(*ring_experiments, ring_known)
    assert len(fitted.theta_) == fitted.filter_.n_parameters()
    assert np.isfinite(fitted.predict(ring_experiments[0])).all()


def explode(adjacency, theta):
    return torch.full_like(adjacency, torch.inf)


def test_filter_that_blows_up_loses_nothing(competitor, ring_known, ring_experiments):
    competitor.fit(*ring_experiments, ring_known)
    before = competitor.predict(ring_experiments[0])
    with pytest.raises(FloatingPointError, match="least squares fit of theta became infinite or nan"):
        competitor.set_params(filter=CallableFilter(explode)).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(competitor.predict(ring_experiments[0]), before)


def test_guess_of_the_measured_nodes_points_to_the_caller(competitor, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="taken for the first 4 nodes") as caught:
        competitor.fit(X, Y[:, :4], ring_known)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("name", "parameter", "value"),
    [
        ("ridge", "alpha", 0),
        ("ridge", "alpha", None),
        ("ridge", "threshold", 1.5),
        ("robust", "alpha", -1),
        ("robust", "commutation_penalty", 0),
        ("robust", "l1_penalty", -0.1),
        ("robust", "guess_penalty", "auto"),
        ("robust", "shift", "random-walk"),
        ("robust", "reweighted", 1.5),
        ("robust", "max_iter", 0),
        ("robust", "tol", -1e-3),
        ("graphical-lasso", "alpha", 0),
        ("graphical-lasso", "alpha", NAN),
        ("graphical-lasso", "assume_centered", None),
        ("graphical-lasso", "max_iter", 2.5),
        ("smooth", "alpha", 0),
        ("smooth", "beta", -1),
        ("smooth", "observed_nodes", None),
    ],
)
def test_wrong_parameters(name, parameter, value, ring_experiments):
    identifier = clone(COMPETITORS[name]).set_params(**{parameter: value})
    with pytest.raises(InvalidParameterError, match=f"The '{parameter}' parameter of {type(identifier).__name__} must"):
        identifier.fit(*ring_experiments)
