"""Reports of fits that are unusual: a prior that is slow, one node, nothing unknown, nothing known, one chain."""

from __future__ import annotations

import networkx as nx
import pytest
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

SHORT = {"n_chains": 3, "n_levels": 2, "n_steps": 2, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore:the network does not look like:UserWarning")
def test_the_surprise_of_the_prior_is_computed_once(tmp_path, monkeypatch):
    grid = nx.to_numpy_array(nx.grid_2d_graph(3, 3))
    graphs = make_grid_graphs(8, min_nodes=9, max_nodes=9, min_side=3, max_side=3, random_state=0)
    prior = FrozenEstimator(GraphPriorScore(max_epochs=1, random_state=0).fit(graphs))
    X, Y = make_system(grid, "heat", [0.5], n_pairs=3, random_state=0)
    fitted = LangevinSystemIdentifier("heat", prior, **SHORT).fit(X, Y, hide_edges(grid, 0.4, random_state=0))
    calls = []

    def counted(self, known):
        calls.append(known)
        return 7.5

    monkeypatch.setattr(GraphPriorScore, "surprise", counted)
    page = fitted.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert calls == [fitted.known_edges_]
    assert page.count("lies 7.5 standard deviations away from them, where up to 3 are usual") == 2
