"""Shared by the tests of displays: pictures are drawn into memory and closed after every test, and a few fits."""

from __future__ import annotations

import matplotlib
import matplotlib.pyplot as plt
import networkx as nx
import pytest

from sklearn_graphid import AdamSystemIdentifier, GraphPriorScore, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

matplotlib.use("Agg")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def system():
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(ring, "polynomial", [0.05, 0.1, -0.05], n_experiments=12, random_state=0)
    return ring, X, Y, hide_edges(ring, 0.4, random_state=0)


@pytest.fixture(scope="module")
def identifier(system):
    _, X, Y, known = system
    return LangevinSystemIdentifier(n_chains=3, n_levels=5, n_sweeps=6, random_state=0).fit(X, Y, known)


@pytest.fixture(scope="module")
def optimizer(system):
    _, X, Y, known = system
    return AdamSystemIdentifier(max_iter=20, random_state=0).fit(X, Y, known)


@pytest.fixture(scope="module")
def small_graphs():
    return make_grid_graphs(12, min_nodes=9, max_nodes=9, min_side=3, max_side=3, random_state=0)


@pytest.fixture(scope="module")
def prior(small_graphs):
    return GraphPriorScore(max_epochs=2, n_levels=4, random_state=0).fit(small_graphs)
