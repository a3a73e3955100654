"""Fits that several tests report."""

from __future__ import annotations

import networkx as nx
import pandas as pd
import pytest
import torch
from report_pages import HOSTILE, SHORT, few_experiments
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import ErdosRenyiPrior, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import CallableFilter


@pytest.fixture
def real_pictures():
    """Asked for by tests that need the pictures themselves."""


@pytest.fixture(autouse=True)
def _blank_pictures(request, monkeypatch):
    """Leave pictures blank where a test reads words alone: writing them takes three quarters of a report's time."""
    if "real_pictures" not in request.fixturenames:
        monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, file, **options: None)


@pytest.fixture(scope="module")
def grid():
    return nx.to_numpy_array(nx.grid_2d_graph(4, 4))


@pytest.fixture(scope="module")
def fitted(grid):
    X, Y = few_experiments(grid)
    X = pd.DataFrame(X, columns=[f"node {i}" for i in range(16)])
    identifier = LangevinSystemIdentifier("polynomial", ErdosRenyiPrior(0.2), noise_std=None, **SHORT)
    with pytest.warns(ConvergenceWarning):
        return identifier.fit(X, Y, hide_edges(grid, 0.4, random_state=0))


def affine(adjacency, theta):
    return theta[0] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype) + theta[1] * adjacency


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory):
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    filter = CallableFilter(affine, names=("<b>self</b>", "$\\frac{$ $x_{"))
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=4, random_state=0)
    identifier = LangevinSystemIdentifier(filter, **SHORT)
    path = tmp_path_factory.mktemp("hostile") / "a name with spaces & <brackets>.html"
    return identifier.fit(pd.DataFrame(X, columns=HOSTILE), Y, hide_edges(ring, 0.9, random_state=0)).report(path)
