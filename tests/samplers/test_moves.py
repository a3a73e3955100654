"""A move from outside the package: a new unknown is one class, which the loop does not know by name."""

from __future__ import annotations

from dataclasses import dataclass

import networkx as nx
import numpy as np
import pytest
import torch

from sklearn_graphid import KnownEdges
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.samplers import (
    ChainRNG,
    LogNormalSlab,
    Move,
    Problem,
    SweepKernel,
    binary_sweeps,
    initial_state,
    run_kernels,
    weighted_sweeps,
)


@dataclass(frozen=True)
class DrawDrift(Move):
    """Draw by how much all outputs rise from one experiment to the next; any amount is as probable."""

    def start(self, sweep, state, rng):
        return state.keeping("drift", torch.zeros_like(state.chain.noise_std))

    def __call__(self, sweep, state, rng):
        problem, (pairs, theta, noise_std) = sweep.problem, state.chain
        residuals = problem.targets - problem.filter.apply(problem.assemble(pairs), theta, problem.inputs)
        time = torch.arange(residuals.shape[1], dtype=residuals.dtype)[:, None]
        precision = time.square().sum() * residuals.shape[2]
        drift = (residuals * time).sum((1, 2)) / precision + noise_std * precision.rsqrt() * rng.normal()
        targets = problem.targets - drift[:, None, None] * time
        return state.at(state.chain)._replace(targets=targets).keeping("drift", drift)


@pytest.mark.parametrize("has_strengths", [False, True], ids=["binary", "strengths"])
def test_a_new_unknown_has_the_law_of_joint_regression(has_strengths):
    """Theta and drift given the graph are Gaussian. 1,000 chains: standard errors are 3.2 % of the standard deviations.

    Three means within 4.5 of these errors and three deviations within 10 % (4.5 errors): once in 25,000 runs.
    """
    rng, n_chains, noise_std = np.random.default_rng(0), 1_000, 0.5
    graph = nx.to_numpy_array(nx.cycle_graph(5))
    X = rng.normal(size=(6, 5))
    time = np.arange(6.0)[:, None] * np.ones(5)
    Y = 0.4 * X + 0.7 * X @ graph + 0.2 * time + noise_std * rng.normal(size=X.shape)
    known = KnownEdges(np.ones((5, 5), dtype=bool), graph, weights=graph if has_strengths else None)
    dtype = torch.float64 if has_strengths else torch.float32
    problem = Problem.from_numpy(X, Y, known, PolynomialFilter(1), torch.device("cpu"), dtype, has_strengths)
    if has_strengths:
        kernel = weighted_sweeps(30, 0.5, LogNormalSlab(), noise_std=noise_std)
    else:
        kernel = binary_sweeps(30, 0.5, noise_std=noise_std)
    assert isinstance(kernel, SweepKernel)
    kernel = SweepKernel(**{**vars(kernel), "moves": (DrawDrift(), *kernel.moves)})
    random = ChainRNG(range(n_chains), torch.device("cpu"), dtype)
    chain = initial_state(problem, random, noise_std)
    for step in run_kernels(problem, lambda adjacency, sigma, known=None: adjacency, [kernel], chain, random):
        state = step.state
    drawn = np.column_stack([state.chain.theta.numpy(), state.kept["drift"].numpy()])

    design = np.column_stack([X.ravel(), (X @ graph).ravel(), time.ravel()])
    width = 3.0 * np.sqrt((Y**2).mean() / (X**2).mean())  # of theta's prior; the drift has none
    precision = design.T @ design / noise_std**2 + np.diag([width**-2, width**-2, 0.0])
    covariance = np.linalg.inv(precision)
    mean, std = covariance @ design.T @ Y.ravel() / noise_std**2, np.sqrt(np.diag(covariance))
    assert (np.abs(drawn.mean(0) - mean) < 4.5 * std / np.sqrt(n_chains)).all()
    np.testing.assert_allclose(drawn.std(0), std, rtol=0.1)
