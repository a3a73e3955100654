"""Shared by all tests: no test may leave torch or numpy in another state, and a few small systems."""

from __future__ import annotations

import warnings
from importlib.util import find_spec

import networkx as nx
import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system


def _global_state():
    """All that a test could change behind the back of the next one, in a form that can be compared."""
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    return {
        "torch's global generator": torch.get_rng_state().numpy().tobytes(),
        "numpy's global generator": (name, keys.tobytes(), position, has_gauss, cached),
        "torch's number of threads": torch.get_num_threads(),
        "torch's default dtype": torch.get_default_dtype(),
        "torch's gradient mode": torch.is_grad_enabled(),
    }


# random_state=None means numpy's global generator, by scikit-learn's contract. These tests use it on purpose, or where
# no random number reaches the result.
_DRAW_GLOBALLY = (
    "test_grids.py::test_global_random_state_is_left_alone",
    "test_grids.py::test_unshuffled_nodes_are_numbered_row_by_row",
    "test_system.py::test_wrong_arguments_are_refused",
)


def pytest_configure(config):
    config.addinivalue_line("markers", "draws_globally: the test may draw from numpy's global generator")
    # pytest runs as many processes as there are cores. With as many threads in each they mostly wait for one another:
    # small matrices took four times the processor's time.
    threadpool_limits(1)
    torch.set_num_threads(1)


def pytest_sessionstart(session):
    """Compile the loops of the samplers once; processes that start later read them from disk."""
    if not hasattr(session.config, "workerinput"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            LangevinSystemIdentifier("heat", n_chains=1, n_levels=1, n_sweeps=1, random_state=0).fit(
                np.eye(3), np.eye(3)
            )


# Docstring examples of what needs an optional library, which a checkout need not have.
_EXAMPLES_NEED = {"_power.make_power_grid": "pandapower", "_water.make_water_network": "wntr"}


def pytest_collection_modifyitems(items):
    for item in items:
        library = next((name for example, name in _EXAMPLES_NEED.items() if item.name.endswith(example)), None)
        if library is not None and find_spec(library) is None:
            item.add_marker(pytest.mark.skip(reason=f'needs {library}: pip install "sklearn-graphid[real]"'))
        if any(name in item.nodeid for name in _DRAW_GLOBALLY):
            item.add_marker(pytest.mark.draws_globally)


@pytest.fixture(autouse=True)
def _global_state_stays(request):
    """Fail a test that changes global state, and put it back for the next one."""
    before, numpy_before, torch_before = _global_state(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    yield
    after = _global_state()
    changed = [name for name in before if before[name] != after[name]]
    torch.set_num_threads(before["torch's number of threads"])
    torch.set_default_dtype(before["torch's default dtype"])
    torch.set_rng_state(torch_before)
    np.random.set_state(numpy_before)  # noqa: NPY002
    if request.node.get_closest_marker("draws_globally"):
        changed = [name for name in changed if name != "numpy's global generator"]
    assert not changed, f"the test changed {', '.join(changed)}; is a random_state missing?"


@pytest.fixture
def ring():
    """A ring of six nodes."""
    return nx.to_numpy_array(nx.cycle_graph(6))


@pytest.fixture
def ring_known(ring):
    """Three of the ring's 15 pairs; with twelve to find, no fit begins with a list of all graphs, which is slow."""
    return hide_edges(ring, fraction=0.8, random_state=0)


@pytest.fixture
def ring_experiments(ring):
    """Twenty pairs of heat diffusion on the ring, enough to find every edge."""
    return make_system(ring, "heat", theta=[0.5], n_experiments=20, noise_std=0.3, random_state=0)
