"""Parameters of a filter that are known: they stay as they are, and the others are found given them."""

from __future__ import annotations

import itertools

import networkx as nx
import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import (
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    GraphicalLassoIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import (
    ARMAFilter,
    CallableFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    SteadyStateFilter,
    resolve_filter,
)

GRAPH = nx.path_graph(6)
KNOWN = hide_edges(GRAPH, 0.5, random_state=0)
QUICK = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0}
SAMPLERS = {
    "binary": LangevinSystemIdentifier(**QUICK),
    "positive": LangevinSystemIdentifier(edge_weights="positive", **QUICK | {"n_chains": 8}),
    "offsets": LangevinSystemIdentifier(fit_intercept=True, **QUICK),
    "no-prior": LikelihoodLangevinIdentifier(n_chains=4, n_levels=2, n_steps=2, random_state=0),
}
OTHERS = [
    AdamSystemIdentifier(max_iter=200, random_state=0),
    RidgeSystemIdentifier(),
    RobustFilterIdentifier(),
    GraphicalLassoIdentifier(),
    SmoothSignalIdentifier(),
]


def two_step(adjacency, theta):
    return theta[0] * torch.eye(len(adjacency), dtype=adjacency.dtype) + theta[1] * adjacency


def decaying(adjacency, theta):
    laplacian = torch.diag(adjacency.sum(1)) - adjacency
    return theta[0] * torch.linalg.inv(3.0 * torch.eye(len(adjacency), dtype=adjacency.dtype) + theta[1] * laplacian)


FILTERS = {
    "heat": (HeatDiffusionFilter(fixed={"theta": 0.25}), [0.25]),
    "heat-equal-bounds": (HeatDiffusionFilter(theta_min=0.25, theta_max=0.25), [0.25]),
    "polynomial": (PolynomialFilter(1, fixed={"theta_0": 0.1}), [0.1, 0.5]),
    "steady-state": (SteadyStateFilter(leak=0.5, fixed={"scale": 1.2}), [1.2]),
    "arma": (ARMAFilter(1, 1, fixed={"b_1": 0.0}), [1.0, 0.0, 0.2]),
    "callable": (CallableFilter(decaying, names=["gain", "rate"], fixed={"rate": 0.5}), [2.0, 0.5]),
    "callable-linear": (
        CallableFilter(two_step, names=["own", "other"], linear_in_theta=True, fixed={"own": 0.1}),
        [0.1, 0.4],
    ),
}


def data_of(name, seed=0):
    filter, theta = FILTERS[name]
    X, Y = make_system(GRAPH, filter, theta, n_experiments=15, noise_std=0.1, random_state=seed)
    return filter, np.array(theta), X, Y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # of chains that are few and short
@pytest.mark.parametrize(
    ("name", "kind"),
    [*((name, "binary") for name in FILTERS), *itertools.product(["heat", "callable-linear"], list(SAMPLERS)[1:])],
)
def test_samplers_leave_fixed_parameters_alone(name, kind):
    filter, theta, X, Y = data_of(name)
    fitted = clone(SAMPLERS[kind]).set_params(filter=filter).fit(X, Y, KNOWN)
    fixed = list(filter.fixed_values())
    free = [place for place in range(len(theta)) if place not in fixed]
    np.testing.assert_array_equal(fitted.theta_[fixed], theta[fixed])
    np.testing.assert_array_equal(fitted.theta_refitted_[fixed], theta[fixed])
    assert (fitted.theta_samples_[:, fixed] == theta[fixed]).all()
    assert (fitted.theta_std_[fixed] == 0).all()
    assert (fitted.theta_standard_error_[fixed] == 0).all()
    assert (fitted.theta_std_[free] > 0).all()
    assert (fitted.adjacency_ == nx.to_numpy_array(GRAPH)).all()
    if kind != "positive":  # where the size of the other parameters is that of the strengths
        assert fitted.theta_[free] == pytest.approx(theta[free], rel=0.05)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("name", "kind"), [("heat", "positive"), ("polynomial", "binary")])
def test_fixed_parameters_are_given_in_what_follows_a_fit(name, kind, tmp_path):
    filter, theta, X, Y = data_of(name)
    fitted = clone(SAMPLERS[kind]).set_params(filter=filter).fit(X, Y, KNOWN)
    inputs = fitted.suggest_inputs(1, low=-1, high=1, random_state=0)
    assert np.isfinite(fitted.information_gain(inputs)).all()
    (fixed,) = filter.fixed_values()
    assert (np.asarray(fitted.to_arviz()["posterior"]["theta"])[..., fixed] == theta[fixed]).all()
    fitted.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text().count(">given<") == 1


@pytest.mark.parametrize("identifier", OTHERS, ids=lambda identifier: type(identifier).__name__)
@pytest.mark.parametrize("name", FILTERS)
def test_baselines_fit_the_other_parameters(name, identifier):
    filter, theta, X, Y = data_of(name)
    fitted = clone(identifier).set_params(filter=filter).fit(X, Y, KNOWN)
    fixed = list(filter.fixed_values())
    np.testing.assert_array_equal(fitted.theta_[fixed], theta[fixed])
    if (fitted.adjacency_ == nx.to_numpy_array(GRAPH)).all():
        assert getattr(fitted, "theta_refitted_", fitted.theta_) == pytest.approx(theta, rel=0.05)


def test_least_squares_in_strengths_has_no_use_for_them():
    filter, _, X, Y = data_of("steady-state")
    with pytest.raises(ValueError, match="expected fixed=None, or another identifier"):
        ConstrainedLeastSquaresIdentifier(filter).fit(X, Y, KNOWN)


def test_fixed_parameters_are_no_degrees_of_freedom():
    """With theta_0 fixed, the refit is a regression with one column; its standard error is that of a textbook."""
    filter, _, X, Y = data_of("polynomial")
    fitted = clone(SAMPLERS["binary"]).set_params(filter=filter).fit(X, Y, KNOWN)
    column, target = (X @ fitted.adjacency_).ravel(), (Y - 0.1 * X).ravel()
    slope = column @ target / (column @ column)
    variance = ((target - slope * column) ** 2).sum() / (len(target) - 1)
    assert fitted.theta_refitted_[1] == pytest.approx(slope)
    assert fitted.theta_standard_error_[1] == pytest.approx(np.sqrt(variance / (column @ column)))


@pytest.mark.parametrize(("edge_weights", "unit"), [("positive", 1e-3), ("positive", 1e4), ("signed", 1e4)])
def test_strengths_may_have_any_size_where_the_time_is_fixed(edge_weights, unit):
    """The same data, with time in another unit: strengths change by the factor, and nothing else does."""
    rng = np.random.default_rng(0)
    weights = nx.to_numpy_array(nx.cycle_graph(7)) * np.exp(0.4 * rng.normal(size=(7, 7)))
    weights = np.triu(weights) + np.triu(weights).T
    X, Y = make_system(weights, "heat", [0.3], n_experiments=15, noise_std=0.05, random_state=0)
    identifier = LangevinSystemIdentifier(
        HeatDiffusionFilter(fixed={"theta": 0.3 * unit}), edge_weights=edge_weights, n_sweeps=10, random_state=0
    )
    fitted = identifier.fit(X, Y)
    assert (fitted.adjacency_ == (weights > 0)).all()
    is_edge = weights > 0
    # Noise of 0.05 leaves strengths uncertain by some five percent; 14 entries within five standard deviations.
    assert (np.abs(fitted.weights_ - weights / unit)[is_edge] < 5 * fitted.weights_std_[is_edge]).all()
    assert fitted.weights_[is_edge] * unit == pytest.approx(weights[is_edge], rel=0.5)


def test_times_that_are_fixed_can_be_compared_by_cross_validation():
    _, _, X, Y = data_of("heat")
    grid = {"filter__fixed": [{"theta": 0.05}, {"theta": 0.25}, {"theta": 2.0}, None]}
    search = GridSearchCV(RidgeSystemIdentifier(HeatDiffusionFilter()), grid, cv=3).fit(X, Y, known_mask=KNOWN)
    scores = dict(zip(("short", "right", "long", "free"), search.cv_results_["mean_test_score"], strict=True))
    assert scores["right"] > max(scores["short"], scores["long"])
    assert scores["free"] == pytest.approx(scores["right"], abs=0.01)
    best = search.best_estimator_.get_params()["filter__fixed"]
    assert best is None or best == {"theta": 0.25}


@pytest.mark.parametrize(
    ("fixed", "error", "words"),
    [
        (0.25, TypeError, r"HeatDiffusionFilter got fixed=0.25; expected a dict"),
        ({"time": 0.25}, ValueError, r"names 'time'; expected a dict from some of the parameters theta"),
        ({"theta": "long"}, TypeError, r"fixed\['theta'\]"),
        ({"theta": np.nan}, ValueError, r"fixed\['theta'\]"),
        ({"theta": -1.0}, ValueError, r"expected a value of theta between 0 and inf"),
    ],
)
def test_what_cannot_be_fixed_is_refused(fixed, error, words):
    with pytest.raises(error, match=words):
        resolve_filter(HeatDiffusionFilter(fixed=fixed))


def test_simulated_systems_agree_with_what_is_fixed():
    filter = PolynomialFilter(1, fixed={"theta_0": 0.0})
    _, _, theta = make_system(GRAPH, filter, n_experiments=3, random_state=0, return_theta=True)
    assert theta[0] == 0.0
    with pytest.raises(ValueError, match=r"theta \(theta_0\) is 1, but PolynomialFilter has it fixed at 0"):
        make_system(GRAPH, filter, [1.0, 0.5], n_experiments=3)


@pytest.mark.parametrize(
    ("limits", "start"),
    [
        ({"theta_min": 0.5}, (0.5, 0.7)),
        ({"theta_max": 0.5}, (0.3, 0.5)),
        ({"theta_min": 2.0}, (2.0, 10.0)),
        ({"theta_min": 0.25, "theta_max": 0.25}, (0.25, 0.25)),
        ({"theta_min": 3.0, "theta_max": 3.0}, (3.0, 3.0)),
    ],
)
def test_times_start_within_their_limits(limits, start):
    filter = resolve_filter(HeatDiffusionFilter(**limits))
    assert filter.initial_range() == [start]
    drawn = filter.initial_theta(100, torch.Generator().manual_seed(0))
    assert bool(((drawn >= start[0]) & (drawn <= start[1])).all())


def test_time_is_found_above_a_lower_limit():
    X, Y = make_system(GRAPH, "heat", [0.6], n_experiments=15, noise_std=0.1, random_state=0)
    fitted = clone(SAMPLERS["binary"]).set_params(filter=HeatDiffusionFilter(theta_min=0.5)).fit(X, Y, KNOWN)
    assert fitted.theta_[0] == pytest.approx(0.6, rel=0.05)
    assert (fitted.theta_samples_ >= 0.5).all()
