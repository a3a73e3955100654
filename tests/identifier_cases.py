"""Identifiers for short runs, fixtures that hand them to tests one by one, and what a fit leaves behind."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10}
BRIEF_LANGEVIN = {"n_sweeps": 0, "sigma_max": 0.5, "sigma_min": 0.03, "n_levels": 5, "n_steps": 10}

IDENTIFIERS = {
    "sweeps": LangevinSystemIdentifier("heat", random_state=0, **SHORT),
    "langevin": LangevinSystemIdentifier("heat", n_chains=4, random_state=0, **BRIEF_LANGEVIN),
    "paper": LangevinSystemIdentifier("heat", random_state=0, **{**PAPER_SETTINGS, "n_steps": 5}),
    "no-prior": LikelihoodLangevinIdentifier("heat", n_chains=4, random_state=0, **BRIEF_LANGEVIN),
    "no-prior-sweeps": LikelihoodLangevinIdentifier("heat", random_state=0, **SHORT),
    "adam": AdamSystemIdentifier("heat", max_iter=60, learning_rate=0.05, random_state=0),
}
COMPETITORS = {
    "ridge": RidgeSystemIdentifier("heat"),
    "robust": RobustFilterIdentifier("heat", max_iter=4),
    "graphical-lasso": GraphicalLassoIdentifier("heat"),
    "smooth": SmoothSignalIdentifier("heat"),
}


def each_of(identifiers, names=None):
    """A fixture with a fresh copy of each of the identifiers, or of those that are named."""

    @pytest.fixture(params=list(identifiers if names is None else names))
    def fresh(request):
        return clone(identifiers[request.param])

    return fresh


def state_of(fitted):
    """All that a fit leaves behind for the user, as arrays."""
    names = ("adjacency_", "theta_", "edge_probabilities_", "noise_std_", "theta_samples_", "theta_std_")
    names += ("theta_refitted_", "noise_std_samples_")
    return {name: np.asarray(getattr(fitted, name)) for name in names if hasattr(fitted, name)}


def assert_same_state(one, other):
    one, other = state_of(one), state_of(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)
