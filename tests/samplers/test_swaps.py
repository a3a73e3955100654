"""Swaps leave the posterior as it is, and reach what flips of one pair cannot."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from enumerated_prior import EnumeratedPrior, is_path_or_star, is_tree, triangles
from scipy.special import betaln, softmax

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers import _chains
from sklearn_graphid.samplers import ChainRNG, ChainState, DensityLaw, Problem, TemperedDenoiser, TrustLaw
from sklearn_graphid.samplers._swaps import SwappedGraphs, swap_once

FILTERS = {
    "polynomial": (PolynomialFilter(2), [0.3, 0.4, 0.1]),
    "heat": (HeatDiffusionFilter(), [0.4]),
    "steady-state": (SteadyStateFilter(leak=0.5), [1.0]),
}


def exact_law(problem, prior, theta, noise_std, trust=1.0, odds=0.0):
    """Unknown pairs (graphs, pairs) of every graph that the prior allows, and the posterior given theta and noise.

    Log-odds `odds` of every pair are evidence beside the prior, and count in full.
    """
    graphs, log_weights = prior.table()
    outputs = problem.filter.apply(torch.tensor(graphs), torch.tensor([theta] * len(graphs)), problem.inputs.double())
    squares = ((problem.targets.double() - outputs) ** 2).sum((1, 2)).numpy()
    pairs = problem.gather(torch.tensor(graphs)).numpy()
    # The density weighs the number of edges alone, which a swap leaves as it is.
    log_prior = trust * log_weights + pairs @ np.broadcast_to(odds, pairs.shape[1])
    return pairs, softmax(log_prior - 0.5 * squares / noise_std**2)


@pytest.mark.parametrize(
    ("name", "weight", "trust"),
    [*((name, weight, 1.0) for name in FILTERS for weight in (triangles, is_tree)), ("heat", triangles, 0.4)],
)
def test_swaps_keep_the_posterior(name, weight, trust):
    """Chains that are drawn from the exact posterior are draws from it after a swap.

    Total variation of 2,000 chains: its mean is at most `expected`, and by McDiarmid's inequality it is t beyond that
    with probability at most exp(-2 n t^2) = exp(-12), one false alarm in 23,000 runs for seven cases.
    """
    n_chains, noise_std = 2000, 1.5
    filter, theta = FILTERS[name]
    truth = nx.to_numpy_array(nx.path_graph(5))
    X, Y = make_system(truth, filter, theta, 3, input_scale=2.0, noise_std=noise_std, random_state=0)
    cpu, known = torch.device("cpu"), KnownEdges.nothing(5)
    problem, prior = Problem.from_numpy(X, Y, known, filter, cpu), EnumeratedPrior(5, weight)
    odds = np.linspace(-1.5, 1.5, 10) if trust < 1 else 0.0
    graphs, law = exact_law(problem, prior, theta, noise_std, trust, odds)
    start = np.random.default_rng(0).choice(len(law), n_chains, p=law)
    chain = ChainState(
        torch.tensor(graphs[start], dtype=torch.float32),
        torch.tensor(theta, dtype=torch.float32).expand(n_chains, -1),
        torch.full((n_chains,), noise_std),
    )
    rng = ChainRNG(range(n_chains), cpu)
    denoise, guess = prior.bind(5, cpu, torch.float32), torch.zeros(n_chains, 10)
    if trust < 1:
        evidence = problem.scatter(torch.tensor(odds, dtype=torch.float32)[None])[0]
        given, even = TrustLaw(torch.tensor([trust]), torch.zeros(1)), DensityLaw(torch.zeros(1), *torch.ones(2, 1))
        denoise = TemperedDenoiser.of_laws(denoise, evidence, given, even, n_chains, rng)
    swapped = SwappedGraphs.of(problem, chain)
    for _ in range(2):
        swapped = swap_once(problem, denoise, swapped, *chain[1:], guess, 0.7, 1.0, rng)
    numbers = {tuple(graph): number for number, graph in enumerate(graphs)}
    ends = np.array([numbers[tuple(pairs)] for pairs in swapped.pairs.double().numpy()])
    assert (ends != start).mean() > 0.1
    distance = 0.5 * np.abs(np.bincount(ends, minlength=len(law)) / n_chains - law).sum()
    expected = 0.5 * np.sqrt(law * (1 - law) / n_chains).sum()
    assert distance < expected + np.sqrt(12 / (2 * n_chains))


@pytest.mark.parametrize(
    ("weight", "n_nodes", "n_chains", "trust"),
    [
        (triangles, 5, 300, 1.0),
        (triangles, 5, 300, 0.4),
        (is_path_or_star, 5, 400, 1.0),
        (is_tree, 6, 400, 1.0),
    ],
)
def test_sweeps_are_exact_under_priors_that_tie_pairs_together(weight, n_nodes, n_chains, trust):
    """Against the sum over all graphs of five or six nodes.

    A chain's share in a marginal varies by at most one half. Five standard errors of 400 chains are 0.125, and 45
    marginals alarm falsely once in 39,000 runs. Trust t leaves p(A)^t q(A)^(1 - t), where q are independent pairs of a
    density whose law is Beta(0.5, 1.5).
    """
    truth, prior = nx.to_numpy_array(nx.path_graph(n_nodes)), EnumeratedPrior(n_nodes, weight)
    filter = SteadyStateFilter(leak=1.0)
    X, Y = make_system(truth, filter, [1.0], 4, input_scale=1.0, noise_std=1.0, random_state=3)
    identifier = LangevinSystemIdentifier(
        filter,
        prior,
        prior_trust=trust,
        noise_std=1.0,
        n_chains=n_chains,
        n_levels=2,
        n_steps=2,
        n_sweeps=30,
        random_state=0,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_chains, "BATCH", n_chains)  # one batch is quicker than many
        identifier.fit(X, Y)
    graphs, log_weights = prior.table()
    log_evidence = [evidence(filter, X, Y, graph) for graph in graphs]
    n_edges, n_pairs = graphs.sum((1, 2)) / 2, n_nodes * (n_nodes - 1) / 2
    log_density = betaln(0.5 + (1 - trust) * n_edges, 1.5 + (1 - trust) * (n_pairs - n_edges))
    exact = np.tensordot(softmax(trust * log_weights + log_density + log_evidence), graphs, 1)
    errors = np.abs(identifier.edge_probabilities_ - exact)[np.triu_indices(n_nodes, 1)]
    assert errors.max() < 5 * 0.5 / np.sqrt(n_chains)


def evidence(filter, X, Y, graph):
    """Log of the integral over the scale of a steady state, under the sampler's Gaussian prior of three gains."""
    batch = torch.tensor(graph)[None], torch.ones(1, 1, dtype=torch.float64), torch.tensor(X)
    design, outputs = filter.apply(*batch).numpy().ravel(), Y.ravel()
    width = 3.0 * np.sqrt((Y**2).mean() / (X**2).mean())
    precision = design @ design + 1 / width**2
    return 0.5 * (design @ outputs) ** 2 / precision - 0.5 * np.log(precision)


@pytest.mark.parametrize("noise_std", [0.1, 0.01])
def test_less_noise_does_not_hurt(noise_std):
    """The topology of a grid of 30 buses: chains that stick in a wrong graph go on from those that do not."""
    bus = nx.Graph(BUSES)
    truth = nx.to_numpy_array(bus, nodelist=range(1, 31))
    X, Y = make_system(truth, "steady-state", [1.0], 50, input_scale=1.0, noise_std=noise_std, random_state=0)
    known = hide_edges(truth, 0.3, random_state=0)
    identifier = LangevinSystemIdentifier("steady-state", random_state=0).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, truth)
    assert identifier.noise_std_ == pytest.approx(noise_std, rel=0.1)
    assert identifier.diagnostics_["n_stuck"] <= 1


def test_a_dense_network_is_found_where_the_noise_is_small():
    """Heat on the karate club, a third of it hidden: from graph to graph alone, most chains ended in a wrong one."""
    truth = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    X, Y = make_system(truth, "heat", [0.5], 10, noise_std=0.03, random_state=1)
    known = hide_edges(truth, 0.3, random_state=1)
    identifier = LangevinSystemIdentifier("heat", n_chains=8, random_state=0).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, truth)
    assert identifier.noise_std_ == pytest.approx(0.03, rel=0.1)
    assert identifier.diagnostics_["n_stuck"] <= 1


# Lines of the IEEE 30-bus test case.
BUSES = [
    *[
        (1, 2),
        (1, 3),
        (2, 4),
        (3, 4),
        (2, 5),
        (2, 6),
        (4, 6),
        (5, 7),
        (6, 7),
        (6, 8),
        (6, 9),
        (6, 10),
        (9, 11),
        (9, 10),
    ],
    *[(4, 12), (12, 13), (12, 14), (12, 15), (12, 16), (14, 15), (16, 17), (15, 18), (18, 19), (19, 20)],
    *[(10, 20), (10, 17), (10, 21), (10, 22), (21, 22), (15, 23), (22, 24), (23, 24), (24, 25), (25, 26), (25, 27)],
    *[(28, 27), (27, 29), (27, 30), (29, 30), (8, 28), (6, 28)],
]


def test_every_graph_is_counted_once():
    assert len(EnumeratedPrior(4, triangles).table()[0]) == 64
    assert len(EnumeratedPrior(5, is_tree).table()[0]) == 125  # Cayley's formula
    assert len(EnumeratedPrior(6, is_tree).table()[0]) == 1296
    assert len(EnumeratedPrior(5, is_path_or_star).table()[0]) == 60 + 5
