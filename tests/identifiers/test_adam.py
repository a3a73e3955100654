"""Maximum likelihood with strengths: against true strengths and least squares, and its parts against differences."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import AdamSystemIdentifier, KnownEdges
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers._adam import Entries, maximise_likelihood
from sklearn_graphid.identifiers._estimates import SLABS
from sklearn_graphid.samplers import ChainRNG, Problem

N_NODES = 10
GRAPH = nx.to_numpy_array(nx.connected_watts_strogatz_graph(N_NODES, 4, 0.3, seed=0))
ARROWS = GRAPH * (np.random.default_rng(3).random(GRAPH.shape) < 0.5)
FIRST_ORDER = PolynomialFilter(1)
QUICK = {"max_iter": 250, "learning_rate": 0.05, "random_state": 0}


def strengths_of(graph, signed=False, directed=False):
    rng = np.random.default_rng(0)
    sizes = rng.lognormal(0, 0.5, graph.shape) * (rng.choice([-1.0, 1.0], graph.shape) if signed else 1.0)
    return graph * (sizes if directed else np.triu(sizes, 1) + np.triu(sizes, 1).T)


def told_every_other(known, weights):
    """What is known, with the strength of every other known edge."""
    told = np.full(weights.shape, np.nan)
    places = np.argwhere(known.values if known.directed else np.triu(known.values))
    for i, j in places[::2]:
        told[i, j] = weights[i, j]
        if not known.directed:
            told[j, i] = weights[i, j]
    return KnownEdges(known.mask, known.values, weights=told, directed=known.directed)


# Filter, theta, kind of strengths, strengths, whether directed, noise level
CASES = {
    "second order": (PolynomialFilter(2), [0.4, 0.3, 0.1], "positive", strengths_of(GRAPH), False, 0.1),
    "heat": (HeatDiffusionFilter(), [0.5], "positive", strengths_of(GRAPH), False, 0.02),
    "steady state": (SteadyStateFilter(), [1.0], "positive", strengths_of(GRAPH), False, 0.01),
    "signed": (FIRST_ORDER, [0.4, 0.3], "signed", strengths_of(GRAPH, signed=True), False, 0.1),
    "signed and directed": (FIRST_ORDER, [0.4, 0.3], "signed", strengths_of(ARROWS, True, True), True, 0.1),
}


@pytest.mark.parametrize("name", CASES)
def test_true_strengths_are_found(name):
    filter, theta, edge_weights, weights, directed, noise_std = CASES[name]
    X, Y = make_system(weights, filter, theta, 30, noise_std=noise_std, directed=directed, random_state=0)
    known = told_every_other(hide_edges(weights != 0, 0.3, directed=directed, random_state=0), weights)
    identifier = AdamSystemIdentifier(filter, edge_weights=edge_weights, directed=directed, **QUICK).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, weights != 0)
    np.testing.assert_array_equal(identifier.weights_ != 0, weights != 0)
    is_told = np.isfinite(known.known_weights()) & (known.known_weights() != 0)
    np.testing.assert_array_equal(identifier.weights_[is_told], weights[is_told])
    # Ten of thirty inputs of standard deviation six tell of an edge, so that strengths are good to .1 / .3 / 30.
    np.testing.assert_allclose(identifier.weights_, weights, atol=0.1)
    np.testing.assert_allclose(identifier.theta_, theta, atol=0.05)
    assert identifier.score(X, Y) > 0.999
    assert identifier.diagnostics_["calibrated"]
    # 300 residuals: four standard errors of their size are .16, and the fitted parameters take off a few percent.
    assert identifier.noise_std_ == pytest.approx(noise_std, rel=0.2)


def test_strengths_of_a_known_graph_are_those_of_least_squares():
    """The graph is known whole, and y = theta_0 x + theta_1 W x is linear in theta_0 and theta_1 W: a regression."""
    weights = strengths_of(GRAPH, signed=True)
    X, Y = make_system(weights, FIRST_ORDER, [0.4, 0.3], 12, noise_std=1.0, random_state=0)
    everything = KnownEdges(np.ones_like(GRAPH, dtype=bool), GRAPH)
    identifier = AdamSystemIdentifier(FIRST_ORDER, edge_weights="signed", **QUICK).fit(X, Y, everything)
    rows, columns = np.nonzero(np.triu(GRAPH))
    design = np.zeros((*Y.shape, len(rows) + 1))
    design[..., -1] = X
    for edge, (i, j) in enumerate(zip(rows, columns, strict=True)):
        design[:, i, edge], design[:, j, edge] = X[:, j], X[:, i]
    solution = np.linalg.lstsq(design.reshape(Y.size, -1), Y.ravel())[0]
    found = np.append(identifier.theta_[1] * identifier.weights_[rows, columns], identifier.theta_[0])
    np.testing.assert_allclose(found, solution, atol=1e-3)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)


def test_nothing_needs_to_be_known():
    weights = strengths_of(GRAPH)
    X, Y = make_system(weights, FIRST_ORDER, [0.4, 0.3], 30, noise_std=0.1, random_state=0)
    identifier = AdamSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    np.testing.assert_allclose(identifier.theta_[1] * identifier.weights_, 0.3 * weights, atol=0.02)
    assert not identifier.diagnostics_["calibrated"]


def test_the_unit_of_strengths_does_not_matter():
    """Potentials of a thousand times the currents in a thousand times the conductances are the same."""
    weights = strengths_of(GRAPH)
    known = told_every_other(hide_edges(GRAPH, 0.3, random_state=0), weights)
    X, Y = make_system(weights, SteadyStateFilter(), [1.0], 30, noise_std=0.01, random_state=0)
    identifier = AdamSystemIdentifier(SteadyStateFilter(), edge_weights="positive", max_iter=50, random_state=0)
    small = clone(identifier).fit(X, Y, known)
    large = clone(identifier).fit(1000 * X, Y, KnownEdges(known.mask, known.values, weights=1000 * known.weights))
    np.testing.assert_allclose(large.weights_, 1000 * small.weights_, rtol=1e-3)
    np.testing.assert_allclose(large.theta_, small.theta_, rtol=1e-3)


@pytest.mark.parametrize("edge_weights", ["positive", "signed"])
def test_a_penalty_weakens_unknown_pairs_but_no_known_edge(edge_weights):
    weights = strengths_of(GRAPH, signed=edge_weights == "signed")
    known = told_every_other(hide_edges(GRAPH, 0.3, random_state=0), weights)
    X, Y = make_system(weights, FIRST_ORDER, [0.4, 0.3], 30, noise_std=0.1, random_state=0)
    problem = Problem.from_numpy(X, Y, known, FIRST_ORDER, torch.device("cpu"), has_strengths=True)
    slab, sizes = SLABS[edge_weights], []
    for alpha in (0.0, 1e12):
        rng = ChainRNG([0], torch.device("cpu"))
        with torch.no_grad():
            entries = maximise_likelihood(problem, slab, rng, alpha=alpha, learning_rate=0.05, max_iter=250)[0][0]
        sizes.append(entries.abs().split([problem.n_unknown, problem.n_certain]))
    (unknown, edges), (weakened, kept) = sizes
    np.testing.assert_allclose(edges, np.abs(known.edges_without_weight().gather(weights)), rtol=0.1)
    assert unknown.max() > 0.5
    assert weakened.max() < 0.05  # a step of the learning rate, at which it jumps to and fro
    assert kept.min() > 0.1


@pytest.mark.parametrize("edge_weights", ["binary", "positive"])
def test_steps_end_where_they_move_little(edge_weights):
    X, Y = make_system(GRAPH, FIRST_ORDER, [0.4, 0.3], 30, noise_std=0.1, random_state=0)
    known = hide_edges(GRAPH, 0.3, random_state=0)
    identifier = AdamSystemIdentifier(FIRST_ORDER, edge_weights=edge_weights, random_state=0, max_iter=2000)
    fitted = clone(identifier).set_params(tol=1e-4).fit(X, Y, known)
    assert fitted.n_iter_ == len(fitted.diagnostics_["loss"]) < 2000
    np.testing.assert_array_equal(fitted.adjacency_, GRAPH)
    with pytest.warns(ConvergenceWarning, match="Adam did not converge; use a larger max_iter or tol"):
        identifier.set_params(tol=1e-4, max_iter=3).fit(X, Y, known)


def test_strengths_go_with_a_fit_that_has_them():
    weights = strengths_of(GRAPH)
    known = hide_edges(GRAPH, 0.3, random_state=0)
    X, Y = make_system(weights, FIRST_ORDER, [0.4, 0.3], 30, noise_std=0.1, random_state=0)
    identifier = AdamSystemIdentifier(FIRST_ORDER, edge_weights="positive", max_iter=5, random_state=0)
    assert len(identifier.fit(X, Y, known).sample(2)) == 3
    assert "weight" in identifier.to_pandas_edgelist()
    identifier.set_params(edge_weights="binary").fit(X, Y, known)
    assert not hasattr(identifier, "weights_")
    assert len(identifier.sample(2)) == 2


@pytest.mark.parametrize("known_strengths", [[], [20.0, 70.0, 300.0]])
@pytest.mark.parametrize("edge_weights", SLABS)
def test_derivatives_of_entries_are_their_differences(edge_weights, known_strengths):
    slab = SLABS[edge_weights]
    form = Entries()
    if slab is not None:
        law = slab.first_law(slab.number(torch.tensor(known_strengths, dtype=torch.float64)), 1)
        form = Entries(slab, float(slab.size(law)), float(slab.unit(law)))
    numbers = torch.tensor([[0.1, 0.5, 1.2, 3.0]], dtype=torch.float64, requires_grad=True)
    entries, slopes = form.at(numbers)
    np.testing.assert_allclose(torch.autograd.grad(entries.sum(), numbers)[0], slopes.detach())
    entries = entries.detach().requires_grad_()
    sizes, growth = form.sizes(entries)
    np.testing.assert_allclose(torch.autograd.grad(sizes.sum(), entries)[0], growth.detach())
