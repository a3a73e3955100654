"""Competitors with filters of the user's that are not linear in their inputs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone

from sklearn_graphid import (
    GraphicalLassoIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import GraphFilter
from sklearn_graphid.identifiers._process_matrix import commuting_shift

COMPETITORS = [
    RidgeSystemIdentifier(),
    RobustFilterIdentifier(),
    GraphicalLassoIdentifier(),
    SmoothSignalIdentifier(),
]


class Saturating(GraphFilter):
    """tanh of a linear response: a scale of the inputs cannot be undone at the outputs."""

    def parameter_names(self):
        return ["gain"]

    def apply(self, adjacency, theta, signals):
        return torch.tanh(theta[:, :, None] * (signals @ adjacency))


class Offset(GraphFilter):
    """A linear response on top of a constant that does not come from the inputs."""

    def parameter_names(self):
        return ["gain"]

    def apply(self, adjacency, theta, signals):
        return 3.0 + theta[:, :, None] * (signals + signals @ adjacency)


@pytest.mark.parametrize("input_scale", [0.2, 2.0])
@pytest.mark.parametrize("filter", [Saturating(), Offset()], ids=["tanh", "constant"])
@pytest.mark.parametrize("competitor", COMPETITORS, ids=lambda identifier: type(identifier).__name__)
def test_theta_of_exact_outputs_is_found(competitor, filter, input_scale, ring):
    X, Y = make_system(ring, filter, [0.6], n_experiments=10, input_scale=input_scale, noise_std=0, random_state=0)
    fitted = clone(competitor).set_params(filter=filter).fit(X, Y, ring)
    np.testing.assert_allclose(fitted.theta_, 0.6, rtol=1e-6)
    assert fitted.noise_std_ < 1e-6


def test_a_constant_is_no_sign_of_the_laplacian():
    """I + A commutes with A; the constant that is added to it commutes with every Laplacian."""
    assert commuting_shift(Offset()) == "adjacency"
