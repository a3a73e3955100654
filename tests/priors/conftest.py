"""Small priors that the tests share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sklearn_graphid import GraphPriorScore
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import make_grid_graphs


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks this small are slower on two, and bits depend on the number."""
    with torch_threads(1):
        yield


def small_grids(n_graphs: int, seed: int = 0) -> list[np.ndarray]:
    return make_grid_graphs(n_graphs, min_nodes=9, max_nodes=12, min_side=3, max_side=4, random_state=seed)


def quick(**changes: Any) -> GraphPriorScore:
    return GraphPriorScore(**{"n_levels": 3, "max_epochs": 2, "random_state": 0, **changes})


@pytest.fixture(scope="session")
def graphs() -> list[np.ndarray]:
    return small_grids(12)


@pytest.fixture(scope="session")
def fitted(graphs) -> GraphPriorScore:
    """Not to be changed: copy it first."""
    with torch_threads(1):
        return quick().fit(graphs)


@pytest.fixture(scope="session")
def fitted_edpgnn(graphs) -> GraphPriorScore:
    """Not to be changed: copy it first."""
    with torch_threads(1):
        return quick(architecture="edp-gnn", max_epochs=1).fit(graphs)
