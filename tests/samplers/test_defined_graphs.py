"""Graphs on which a steady state is defined, against scipy's and networkx's searches of graphs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import minimum_spanning_tree

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import HeatDiffusionFilter, SteadyStateFilter
from sklearn_graphid.samplers import Problem
from sklearn_graphid.samplers._problem import have_outputs, with_outputs

N_NODES, N_CHAINS = 7, 20


def problem_with(mask, values, filter, directed=False):
    known = KnownEdges(mask, values, directed=directed)
    signals = np.ones((2, len(mask)))
    return Problem.from_numpy(signals, signals, known, filter, torch.device("cpu"))


@pytest.mark.parametrize("ground", [None, 2])
def test_pieces_are_joined_by_the_edges_of_a_largest_spanning_tree(ground):
    rng = np.random.default_rng(0)
    nothing = np.zeros((N_NODES, N_NODES), dtype=bool)
    problem = problem_with(nothing, nothing.astype(float), SteadyStateFilter(ground))
    preference = torch.tensor(rng.random((N_CHAINS, problem.n_unknown)))
    is_edge = torch.tensor(rng.random(preference.shape) < 0.2)
    joined = with_outputs(problem, is_edge, preference)
    assert bool((joined | ~is_edge).all() & joined.any())  # no edge is lost
    assert bool(have_outputs(problem, problem.assemble(joined.float())).all())
    # Edges come first in Kruskal's order, and scipy takes no cost of zero.
    cost = torch.where(is_edge, 1e-6, 1 + 1 - preference)
    for matrix, before, after in zip(problem.scatter(cost.float()).numpy(), is_edge, joined, strict=True):
        tree = minimum_spanning_tree(matrix).toarray()
        in_tree = torch.tensor((tree + tree.T)[problem.space.rows, problem.space.columns] > 0)
        assert torch.equal(after, before | in_tree)


def test_every_node_of_a_directed_graph_is_joined_to_the_ground():
    rng = np.random.default_rng(1)
    nothing = np.zeros((N_NODES, N_NODES), dtype=bool)
    problem = problem_with(nothing, nothing.astype(float), SteadyStateFilter(ground=2), directed=True)
    is_edge = torch.tensor(rng.random((N_CHAINS, problem.n_unknown)) < 0.1)
    joined = problem.assemble(with_outputs(problem, is_edge, torch.tensor(rng.random(is_edge.shape))).float())
    for received in joined.numpy():
        graph = nx.from_numpy_array(received.T, create_using=nx.DiGraph)
        assert len(nx.descendants(graph, 2)) == N_NODES - 1


def test_pieces_that_known_pairs_cut_off_stay_apart():
    """Nodes 0 to 2 and 3 to 6 are known to have no edge between them."""
    part = np.arange(N_NODES) < 3
    mask = part[:, None] != part
    problem = problem_with(mask, np.zeros_like(mask, dtype=float), SteadyStateFilter())
    none = torch.zeros(1, problem.n_unknown, dtype=torch.bool)
    joined = problem.assemble(with_outputs(problem, none, torch.zeros(none.shape)).float())[0].numpy()
    assert nx.number_connected_components(nx.from_numpy_array(joined)) == 2


def test_filters_that_have_outputs_on_any_graph_leave_it_as_it_is():
    nothing = np.zeros((N_NODES, N_NODES), dtype=bool)
    problem = problem_with(nothing, nothing.astype(float), HeatDiffusionFilter())
    none = torch.zeros(1, problem.n_unknown, dtype=torch.bool)
    assert with_outputs(problem, none, torch.zeros(none.shape)) is none


@pytest.mark.filterwarnings("ignore")  # of data that say nothing
@pytest.mark.parametrize("edge_weights", ["binary", "positive"])
@pytest.mark.parametrize(
    ("ground", "directed", "fixed"),
    [(None, False, None), (1, False, None), (1, True, None), (None, False, {"scale": 1.0}), (1, True, {"scale": 1.0})],
)
def test_no_draw_is_in_pieces(ground, directed, fixed, edge_weights):
    """Noise alone, which says nothing for any graph."""
    graph, rng = nx.to_numpy_array(nx.path_graph(6)), np.random.default_rng(0)
    filter = SteadyStateFilter(ground, fixed=fixed)
    X, Y = make_system(graph, filter, [1.0], 4, directed=directed, random_state=0)
    settings = {"n_chains": 4, "n_sweeps": 8, "random_state": 0, "directed": directed, "edge_weights": edge_weights}
    identifier = LangevinSystemIdentifier(filter, **settings).fit(X, rng.normal(size=Y.shape))
    for received in identifier.sample(20, random_state=0)[0]:
        drawn = nx.from_numpy_array(received.T, create_using=nx.DiGraph)
        assert len(nx.descendants(drawn, 1)) == 5
