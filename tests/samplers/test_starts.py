"""The start by least squares, against scipy's and against the graph that made the data."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.optimize import least_squares

from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import resolve_filter
from sklearn_graphid.graphs import KnownEdges
from sklearn_graphid.samplers import ChainRNG, Problem, initial_state
from sklearn_graphid.samplers._starts import fit_some_chains

CPU = torch.device("cpu")
THETA = {"polynomial": [0.5, 0.3, -0.1], "heat": [0.5], "steady-state": [1.0]}


def make_problem(filter, graph, noise_std, n_experiments, seed=0):
    X, Y = make_system(graph, filter, THETA[filter], n_experiments, noise_std=noise_std, random_state=seed)
    known = hide_edges(graph, 0.4, random_state=seed)
    return Problem.from_numpy(X, Y, known, resolve_filter(filter), CPU), known


def density(problem):
    """A denoiser that knows nothing but that one pair of five has an edge."""
    return lambda adjacency, sigma, known=None: torch.full_like(adjacency, 0.2)


def run(problem, n_chains, noise_std=None):
    rng = ChainRNG(range(n_chains), CPU)
    with torch.no_grad():
        start = initial_state(problem, rng, noise_std)
        return start, fit_some_chains(problem, density(problem), start, 0.7, noise_std)


@pytest.mark.parametrize("filter", THETA)
def test_good_data_lead_to_the_graph(filter):
    """More measurements than unknowns and hardly any noise: the fit is the truth once it is rounded."""
    graph = nx.to_numpy_array(nx.connected_watts_strogatz_graph(16, 4, 0.3, seed=1))
    problem, _ = make_problem(filter, graph, noise_std=0.01, n_experiments=8)
    _, chain = run(problem, n_chains=8)
    fitted = chain.pairs[::4]
    truth = problem.gather(torch.tensor(graph, dtype=torch.float32))
    assert torch.equal(fitted > 0.5, (truth > 0.5).expand_as(fitted))
    assert ((chain.noise_std[::4] / 0.01 - 1).abs() < 0.35).all()
    assert torch.allclose(chain.theta[::4], torch.tensor(THETA[filter]), atol=0.02)


def test_three_chains_of_four_are_left_alone():
    problem, _ = make_problem("heat", nx.to_numpy_array(nx.cycle_graph(8)), 0.1, 5)
    start, chain = run(problem, n_chains=8)
    moved = (start.pairs != chain.pairs).any(1)
    assert moved.tolist() == [True, False, False, False, True, False, False, False]


@pytest.mark.parametrize("filter", THETA)
def test_its_minimum_is_scipys(filter):
    """With so much noise that the prior matters; scipy starts where the fit ended, and finds nothing better."""
    graph = nx.to_numpy_array(nx.connected_watts_strogatz_graph(9, 4, 0.3, seed=2))
    noise = 0.3
    problem, known = make_problem(filter, graph, noise, n_experiments=6)
    _, chain = run(problem, n_chains=1, noise_std=noise)
    n_unknown, deviation = known.n_unknown, np.sqrt(0.2 * 0.8)
    double = Problem.from_numpy(
        problem.inputs.numpy(), problem.targets.numpy(), known, problem.filter, CPU, torch.float64
    )

    def residuals(values):
        pairs, theta = (torch.tensor(part)[None] for part in np.split(values, [n_unknown]))
        with torch.no_grad():
            misfit = double.residuals(double.assemble(pairs), theta)[0].numpy().ravel() / noise
        return np.concatenate([misfit, (values[:n_unknown] - 0.2) / deviation])

    found = torch.cat([chain.pairs, chain.theta], 1)[0].double().numpy()
    low, high = np.full_like(found, -np.inf), np.full_like(found, np.inf)
    low[:n_unknown], high[:n_unknown] = 0.0, 1.5
    best = least_squares(residuals, found.clip(low + 1e-6, high - 1e-6), bounds=(low, high))
    assert 0.5 * np.square(residuals(found)).sum() < best.cost * 1.01 + 0.01


@pytest.mark.parametrize("diverged", [[0], [0, 4]])
def test_chains_that_have_diverged_are_left_to_be_counted(diverged):
    problem, _ = make_problem("heat", nx.to_numpy_array(nx.cycle_graph(8)), 0.1, 5)
    start = initial_state(problem, ChainRNG(range(8), CPU), None)
    start.pairs[diverged, 0] = torch.nan
    with torch.no_grad():
        chain = fit_some_chains(problem, density(problem), start, 0.7, None)
    assert torch.isnan(chain.pairs[diverged, 0]).all()
    assert torch.isfinite(chain.pairs).all(1).sum() == 8 - len(diverged)
    assert 4 in diverged or not torch.equal(chain.pairs[4], start.pairs[4])


def test_beyond_its_size_nothing_happens():
    problem, _ = make_problem("heat", nx.to_numpy_array(nx.cycle_graph(8)), 0.1, 5)
    start = initial_state(problem, ChainRNG(range(2), CPU), None)
    chain = fit_some_chains(problem, density(problem), start, 0.7, None, largest_work=10)
    assert all(torch.equal(before, after) for before, after in zip(start, chain, strict=True))


def test_a_graph_that_is_known_needs_no_fit():
    graph = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(graph, "heat", [0.5], 5, random_state=0)
    known = KnownEdges(np.ones((6, 6), dtype=bool), graph)
    problem = Problem.from_numpy(X, Y, known, resolve_filter("heat"), CPU)
    start, chain = run(problem, n_chains=2)
    assert torch.equal(start.theta, chain.theta)
