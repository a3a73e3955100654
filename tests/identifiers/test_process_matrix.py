"""The process as a matrix: its ridge estimate and that which commutes with a network, against general solvers."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import Ridge
from sklearn.utils._param_validation import InvalidParameterError
from symmetric_matrices import symmetric, symmetric_basis

from sklearn_graphid import RidgeSystemIdentifier, RobustFilterIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers._process_matrix import (
    CommutingObjective,
    alternate,
    best_gain,
    commuting_shift,
    ridge_operator,
)
from sklearn_graphid.metrics import edge_f1_score

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
    operator = ridge_operator(problem.inputs, problem.targets, 1.0)
    adjacency, values = alternate(problem, operator, start, free, max_iter=15, tol=0.0)
    assert len(values) == 31
    assert (np.diff(values) <= 1e-10 * values[0]).all()
    assert values[-1] < 0.9 * values[1]
    np.testing.assert_array_equal(adjacency[~free], start[~free])


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
        np.testing.assert_allclose(told.edge_scores_[unknown], network[unknown], atol=1e-6)
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
