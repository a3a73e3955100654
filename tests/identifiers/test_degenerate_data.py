"""Data that say little, or in extreme units: no warning of another library, no nan, no change of the graph found."""

from __future__ import annotations

import re
import warnings

import networkx as nx
import numpy as np
import pytest
from identifier_cases import COMPETITORS, each_of
from scipy.special import expit
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    RobustFilterIdentifier,
)
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.identifiers._edge_scores import platt_scaling

IDENTIFIERS = {
    **COMPETITORS,
    "adam": AdamSystemIdentifier("heat", max_iter=60, learning_rate=0.05, random_state=0),
}


identifier = each_of(IDENTIFIERS)


def degenerate(X, Y):
    """Inputs and outputs that say little."""
    one_direction = np.outer(np.arange(1.0, len(X) + 1), np.ones(X.shape[1]))
    return {
        "constant outputs": (X, np.full_like(Y, 3.0)),
        "some nodes constant": (X, np.where(np.arange(6) % 2 == 0, 3.0, Y)),
        "one experiment": (X[:1], Y[:1]),
        "two experiments": (X[:2], Y[:2]),
        "collinear inputs": (one_direction, Y),
        "collinear outputs": (X, one_direction),
        "equal nodes": (np.repeat(X[:, :3], 2, axis=1), np.repeat(Y[:, :3], 2, axis=1)),
        "two nodes": (X[:, :2], Y[:, :2]),
        "inputs far above the outputs": (1e12 * X, 1e-6 * Y),
        "far from zero": (X, Y + 1e8),
    }


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", degenerate(np.ones((3, 6)), np.ones((3, 6))))
def test_data_that_say_little_give_no_warning_and_no_nan(identifier, case, ring_experiments):
    X, Y = degenerate(*ring_experiments)[case]
    identifier.fit(X, Y)
    for name in ("adjacency_", "edge_probabilities_", "theta_", "noise_std_"):
        assert np.isfinite(getattr(identifier, name)).all(), name
    assert np.isfinite(identifier.predict(X)).all()


@pytest.mark.parametrize("filter", ["heat", "polynomial"])
@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_units_do_not_change_the_graph(identifier, unit, filter, ring_known, ring_experiments):
    X, Y = ring_experiments
    one = clone(identifier).set_params(filter=filter).fit(X, Y, ring_known)
    other = identifier.set_params(filter=filter).fit(unit * X, unit * Y, ring_known)
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)
    np.testing.assert_allclose(one.edge_probabilities_, other.edge_probabilities_, atol=1e-3)
    np.testing.assert_allclose(one.theta_, other.theta_, atol=1e-3)
    assert other.noise_std_ == pytest.approx(unit * one.noise_std_, rel=1e-2)


@pytest.mark.parametrize("unit", [1e-12, 1e12])
def test_units_do_not_change_the_graph_under_a_penalty(unit, ring_experiments):
    """The penalty is for outputs of unit mean square."""
    X, Y = ring_experiments
    adam = AdamSystemIdentifier("heat", max_iter=60, learning_rate=0.05, alpha=10.0, random_state=0)
    plain, one = clone(adam).set_params(alpha=0.0).fit(X, Y), clone(adam).fit(X, Y)
    other = adam.fit(unit * X, unit * Y)
    assert one.edge_probabilities_.sum() < plain.edge_probabilities_.sum() - 0.5
    np.testing.assert_allclose(one.edge_probabilities_, other.edge_probabilities_, atol=1e-3)
    np.testing.assert_array_equal(one.adjacency_, other.adjacency_)


def test_loss_of_adam_is_the_penalised_likelihood(ring):
    """One step from a start that is known: the loss is that of a filter without effect, theta being zero."""
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    adam = AdamSystemIdentifier(PolynomialFilter(2, initial_scale=1e-30), max_iter=1, random_state=0)
    fitted = adam.fit(X, Y, ring)
    np.testing.assert_allclose(fitted.diagnostics_["loss"], [Y.size / 2], rtol=1e-6)  # outputs have unit mean square


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("n_low", "n_high"), [(2, 4), (2, 6), (4, 2)])
def test_strengths_of_two_values_have_their_shares_of_targets(n_low, n_high):
    """With two values the curve can meet the mean target of each group exactly; half of each group are edges."""
    strengths = np.repeat([0.0, 1.0], [n_low, n_high])
    is_edge = np.concatenate([np.arange(n) < n // 2 for n in (n_low, n_high)])
    slope, intercept = platt_scaling(strengths, is_edge)
    np.testing.assert_allclose(expit(slope * strengths + intercept), 0.5, atol=1e-9)


@pytest.mark.parametrize("settings", [{"alpha": 0.02}, {"max_iter": 1}])
def test_failure_to_converge_is_one_sentence(settings):
    network = nx.to_numpy_array(nx.gnp_random_graph(8, 0.3, seed=5))
    X, Y = make_system(network, "heat", [0.5], n_experiments=3, noise_std=0.1, random_state=5)
    identifier = GraphicalLassoIdentifier("heat", **settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier.fit(X, Y)
    (warning,) = caught
    assert warning.category is ConvergenceWarning
    assert warning.filename == __file__
    message = str(warning.message)
    assert "larger alpha or max_iter" in message
    assert len(message) < 160
    assert not re.search(r"\d", message)  # a number would differ between folds
    assert identifier.diagnostics_["converged"] is False


def test_robust_without_curvature_does_not_warn(ring, ring_experiments):
    """With every pair known no direction is left to curve in, and a step divided by the curvature overflows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        robust = RobustFilterIdentifier("heat", commutation_penalty=1e6, max_iter=2).fit(*ring_experiments, ring)
    np.testing.assert_array_equal(robust.adjacency_, ring)
