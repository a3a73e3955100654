"""Libraries that are imported where they are needed, and not before."""

from __future__ import annotations

import sys

import networkx as nx
import numpy as np
import pytest

from sklearn_graphid._utils._optional import is_networkx


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_graphs_of_networkx_are_known_for_what_they_are(kind):
    assert is_networkx(kind())


@pytest.mark.parametrize("value", [None, 3, "graph", np.eye(2), [[0, 1], [1, 0]], nx.Graph])
def test_other_values_are_no_graphs(value):
    assert not is_networkx(value)


def test_nothing_is_a_graph_before_networkx_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "networkx")
    assert not is_networkx(np.eye(2))
    assert "networkx" not in sys.modules
