"""Small systems, quick identifiers, a trained prior, and a cluster on this machine."""

from __future__ import annotations

import logging
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from distributed import Client, LocalCluster
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphPriorScore,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    System,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

N_NODES = 8
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Samplers as short as these do not settle, and say so."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"))


def make_quick():
    return LangevinSystemIdentifier("heat", n_chains=2, n_levels=3, n_steps=1, n_sweeps=5, random_state=0)


@pytest.fixture
def quick():
    """A sampler that needs some hundredths of a second."""
    return make_quick()


@pytest.fixture(scope="session")
def siblings():
    """One of each family, all quick; to be cloned."""
    return {
        "sampling": make_quick(),
        "no prior": LikelihoodLangevinIdentifier("heat", n_chains=2, n_levels=3, n_sweeps=0, random_state=0),
        "Adam": AdamSystemIdentifier("heat", max_iter=100, learning_rate=0.05, random_state=0),
    }


@pytest.fixture(scope="session")
def ladder():
    """The network of the square system: eight nodes."""
    return nx.to_numpy_array(nx.ladder_graph(N_NODES // 2))


@pytest.fixture(scope="session")
def ladder_known(ladder):
    return hide_edges(ladder, fraction=0.5, random_state=0)


@pytest.fixture(scope="session")
def square_experiments(ladder):
    """As many experiments as nodes, so that every mask has as many rows as X."""
    X, Y = make_system(ladder, "heat", theta=[0.5], n_experiments=N_NODES, noise_std=0.5, random_state=0)
    assert X.shape == (N_NODES, N_NODES)
    return X, Y


@pytest.fixture(scope="session")
def trained_prior():
    """Trained for one epoch: its weights matter here, not its wisdom."""
    graphs = make_grid_graphs(12, min_nodes=6, max_nodes=16, min_side=2, max_side=4, random_state=0)
    return GraphPriorScore(max_epochs=1, random_state=0).fit(graphs)


@pytest.fixture(scope="session")
def frozen_prior(trained_prior):
    return FrozenEstimator(trained_prior)


@pytest.fixture(scope="session")
def many_systems():
    """Forty random networks of five nodes, with two or six experiments each, and their truth."""
    systems = []
    for seed in range(40):
        network = nx.to_numpy_array(nx.gnp_random_graph(5, 0.5, seed=seed))
        theta = [0.3 + 0.01 * seed]
        X, Y = make_system(network, "heat", theta=theta, n_experiments=2 + 4 * (seed % 2), random_state=seed)
        known = hide_edges(network, fraction=0.5, random_state=seed)
        systems.append(System(X, Y, known, true_adjacency=network, true_theta=theta))
    return systems


@pytest.fixture
def same_rows():
    """Compare two tables bit by bit, but for the clock."""

    def check(one, other):
        assert list(one.columns) == list(other.columns)
        for name in one.columns.drop("seconds"):
            # The text of a float determines its bits, and nan equals nan.
            left, right = ([repr(np.asarray(value).tolist()) for value in frame[name]] for frame in (one, other))
            assert left == right, name

    return check


@pytest.fixture(scope="session")
def dask_client():
    """Two worker processes of one thread each, reachable from this machine only."""
    address = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    # A worker that is killed in a test is worth an error message to dask, and none to whoever runs the tests.
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, silence_logs=logging.CRITICAL, **address)
    with cluster, Client(cluster) as client:
        yield client
