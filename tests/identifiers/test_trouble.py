"""Steps, filters and data that bring a fit into trouble: it says so, or is none the worse."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from identifier_cases import BRIEF_LANGEVIN, IDENTIFIERS, SHORT, state_of
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import CallableFilter


@pytest.mark.parametrize("filter", ["polynomial", "heat", "arma"])
@pytest.mark.parametrize("cls", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
@pytest.mark.parametrize(("step_size", "learning_rate"), [(1.0, 10.0), (1e8, None), (1e35, None), (1e35, 10.0)])
def test_huge_steps_never_give_nan(cls, filter, step_size, learning_rate, ring_known, ring_experiments):
    settings = {**BRIEF_LANGEVIN, "n_steps": 5, "n_chains": 4}
    identifier = cls(filter, step_size=step_size, theta_learning_rate=learning_rate, random_state=0, **settings)
    message = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            identifier.fit(*ring_experiments, ring_known)
        except FloatingPointError as error:
            message = str(error)
    if message is not None:
        assert "all 4 chains diverged, as the filter gave outputs that are infinite or nan." in message
        assert not hasattr(identifier, "adjacency_")
        return
    if identifier.diagnostics_["n_diverged"]:
        assert any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    for name, value in state_of(identifier).items():
        assert np.isfinite(value).all(), name
    assert np.isfinite(identifier.predict(ring_experiments[0])).all()


def diverging(adjacency, theta):
    """A filter that is undefined on part of where theta may start."""
    return torch.where(theta[0] > 0, torch.nan, 1.0) * adjacency + theta[0]


def test_chains_that_diverge_are_dropped_with_a_warning(ring_known, ring_experiments):
    identifier = LangevinSystemIdentifier(
        CallableFilter(diverging), noise_std=1.0, n_chains=16, n_levels=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="some chains diverged and were dropped"):
        identifier.fit(*ring_experiments, ring_known)
    n_diverged = identifier.diagnostics_["n_diverged"]
    assert 0 < n_diverged < 16
    assert len(identifier.diagnostics_["theta"]) <= 16 - n_diverged
    for name, value in state_of(identifier).items():
        assert np.isfinite(value).all(), name


def test_huge_learning_rate_of_adam_is_an_error(ring_known, ring_experiments):
    identifier = AdamSystemIdentifier("polynomial", learning_rate=1e20, max_iter=5, random_state=0)
    with pytest.raises(FloatingPointError, match="use a smaller learning_rate than 1e"):
        identifier.fit(*ring_experiments, ring_known)


@pytest.mark.parametrize("name", ["sweeps", "langevin", "adam"])
def test_exact_outputs_are_no_trouble(name, ring, ring_known):
    """No noise at all, and the noise level to be found: it is next to nothing, not nan."""
    X, Y = make_system(ring, "heat", [0.5], n_experiments=20, noise_std=0, random_state=0)
    fitted = clone(IDENTIFIERS[name]).fit(X, Y, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    assert 0 <= fitted.noise_std_ < 2


@pytest.mark.parametrize("filter", ["polynomial", "heat"])
def test_theta_stays_in_bounds_where_the_data_say_nothing(filter):
    """Four nodes, two pairs drowned in noise, nothing known."""
    X, Y = make_system(nx.path_graph(4), filter, None, n_experiments=2, input_scale=1.0, random_state=1)
    fitted = LangevinSystemIdentifier(filter, n_chains=24, random_state=0).fit(X, Y)
    assert np.abs(fitted.theta_samples_).max() < 1e3


def test_outputs_of_zero_have_an_answer(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("polynomial", random_state=0, **SHORT).fit(X, np.zeros_like(Y), ring_known)
    np.testing.assert_allclose(fitted.theta_, 0, atol=1e-3)
