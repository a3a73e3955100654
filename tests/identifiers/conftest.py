"""Shared by the tests of identifiers: each of them in turn for a short run, and a network of middle size."""

from __future__ import annotations

import networkx as nx
import pytest
from identifier_cases import COMPETITORS, IDENTIFIERS, each_of
from sklearn.base import clone

from sklearn_graphid.datasets import hide_edges

identifier = each_of(IDENTIFIERS)
sampler = each_of(IDENTIFIERS, [name for name in IDENTIFIERS if name != "adam"])
competitor = each_of(COMPETITORS)


@pytest.fixture
def quick():
    return clone(IDENTIFIERS["sweeps"])


@pytest.fixture
def club():
    """Karate club: 34 nodes, 78 edges, and half of its pairs known."""
    network = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    return network, hide_edges(network, 0.5, random_state=0)
