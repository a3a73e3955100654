"""Small priors that the tests share."""

from __future__ import annotations

import numpy as np
import pytest
from small_priors import quick, small_grids

from sklearn_graphid import GraphPriorScore
from sklearn_graphid._utils._torch import torch_threads


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks this small are slower on two, and bits depend on the number."""
    with torch_threads(1):
        yield


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
