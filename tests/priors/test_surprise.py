"""How unlike the training graphs a partially known network is."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest

from sklearn_graphid import GraphPriorScore, KnownEdges
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import hide_edges


@pytest.fixture(scope="module")
def trained() -> GraphPriorScore:
    """Two seconds of training: enough to know a ring from a random graph."""
    with torch_threads(1):
        return GraphPriorScore(max_epochs=4, learning_rate=1e-2, random_state=0).fit(rings(100))


def rings(n_graphs: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n_nodes) for n_nodes in rng.integers(12, 15, size=n_graphs)]
    return [nx.to_numpy_array(nx.cycle_graph(len(order)))[np.ix_(order, order)] for order in orders]


def test_training_graphs_with_hidden_edges_do_not_surprise(trained):
    surprises = [trained.surprise(hide_edges(g, 0.25, random_state=i)) for i, g in enumerate(rings(40, seed=1))]
    assert np.median(surprises) < 2
    assert np.mean(np.array(surprises) < 4) > 0.9


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25])
@pytest.mark.parametrize(
    "graph",
    [nx.star_graph(12), nx.complete_graph(13), nx.empty_graph(13), nx.gnm_random_graph(13, 13, seed=0)],
    ids=["star", "complete", "empty", "random"],
)
def test_networks_of_another_kind_surprise(trained, graph, fraction):
    adjacency = nx.to_numpy_array(graph)
    everything = KnownEdges(np.ones_like(adjacency), adjacency)
    assert trained.surprise(hide_edges(adjacency, fraction, random_state=0) if fraction else everything) > 5


def test_surprise_takes_an_array_with_nan_and_is_the_same_at_every_call(trained):
    known = hide_edges(rings(1)[0], 0.3, random_state=0)
    surprise = trained.surprise(known)
    assert trained.surprise(known.to_array()) == surprise
    with torch_threads(2):
        assert trained.surprise(known) == surprise


def test_surprise_is_not_known_where_nothing_is(trained, fitted_edpgnn):
    assert math.isnan(trained.surprise(KnownEdges.nothing(20)))
    everything = KnownEdges(np.ones((20, 20)), np.zeros((20, 20)))
    assert math.isnan(fitted_edpgnn.surprise(everything))
    assert math.isfinite(trained.surprise(everything))
