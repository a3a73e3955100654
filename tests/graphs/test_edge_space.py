"""The free entries of a matrix: closed forms on small matrices, and derivatives against autograd."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from sklearn_graphid.graphs import EdgeSpace, changed_graphs, one_entry_per_pair

CPU = torch.device("cpu")
FREE = np.array([[0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]], dtype=bool)


@pytest.fixture(params=[False, True], ids=["undirected", "directed"])
def space(request):
    return EdgeSpace.of_mask(FREE, directed=request.param)


def test_which_pairs_are_free(space):
    undirected = [(0, 1), (0, 3), (1, 2)]
    directed = sorted(undirected + [(j, i) for i, j in undirected])
    assert list(zip(*space.ends(), strict=True)) == (directed if space.directed else undirected)
    assert space.n_free == (6 if space.directed else 3)


@pytest.mark.parametrize("n_nodes", [1, 2, 7])
def test_all_pairs(n_nodes):
    assert EdgeSpace.complete(n_nodes).n_free == n_nodes * (n_nodes - 1) // 2
    assert EdgeSpace.complete(n_nodes, directed=True).n_free == n_nodes * (n_nodes - 1)


@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_filling_and_gathering_are_inverse(space, batch):
    values = np.random.default_rng(0).normal(size=(*batch, space.n_free))
    onto = np.arange(16.0).reshape(4, 4)
    matrices = space.filled(values, onto)
    assert matrices.shape == (*batch, 4, 4)
    np.testing.assert_array_equal(space.gather(matrices), values)
    outside = ~FREE | np.eye(4, dtype=bool)
    np.testing.assert_array_equal(matrices[..., outside], np.broadcast_to(onto[outside], (*batch, outside.sum())))
    if not space.directed:
        alone = space.filled(values, np.zeros((4, 4)))
        np.testing.assert_array_equal(alone, np.swapaxes(alone, -1, -2))
    tensors = space.to(CPU).filled(torch.tensor(values), torch.tensor(onto))
    np.testing.assert_array_equal(tensors.numpy(), matrices)


def test_one_number_fills_all(space):
    np.testing.assert_array_equal(space.filled(2.0, np.zeros((4, 4))), 2.0 * (FREE & ~np.eye(4, dtype=bool)))


def test_gradients_are_those_of_autograd(space):
    weights = torch.tensor(np.random.default_rng(0).normal(size=(4, 4)))
    tensors = space.to(CPU)
    pairs = torch.zeros(space.n_free, dtype=torch.float64, requires_grad=True)
    (weights * tensors.filled(pairs, torch.zeros(4, 4, dtype=torch.float64))).sum().backward()
    torch.testing.assert_close(tensors.pull_back(weights), pairs.grad)


def test_changes_are_made_to_the_entries_of_one_pair(space):
    tensors, rng = space.to(CPU), np.random.default_rng(0)
    graphs = space.filled(rng.integers(0, 2, (5, space.n_free)).astype(float), np.zeros((4, 4)))
    pairs = torch.tensor(rng.integers(0, space.n_free, (5, 7)))
    amounts = torch.tensor(rng.normal(size=(5, 7)))
    changed = changed_graphs(torch.tensor(graphs), *tensors.entries(pairs), amounts).numpy()
    before = space.gather(graphs)
    for chain in range(5):
        for change in range(7):
            expected = before[chain].copy()
            expected[pairs[chain, change]] += amounts[chain, change].item()
            np.testing.assert_array_equal(changed[chain, change], space.filled(expected, np.zeros((4, 4))))


def test_networkx_has_the_same_edges():
    for directed, make in ((False, nx.Graph), (True, nx.DiGraph)):
        graph = nx.gnp_random_graph(9, 0.4, seed=1, directed=directed)
        space = EdgeSpace.of_mask(nx.to_numpy_array(graph) == 1, directed)
        edges = zip(*(ends.tolist() for ends in space.ends()), strict=True)
        assert nx.utils.graphs_equal(make(list(edges)), make(graph.edges))


def test_mirroring_keeps_the_upper_half():
    matrix = torch.arange(9.0).view(3, 3)
    np.testing.assert_array_equal(one_entry_per_pair(matrix, directed=False).numpy(), [[0, 1, 2], [1, 0, 5], [2, 5, 0]])
