"""What every identifier promises of the graph and the parameters that it finds: attributes, estimates, draws."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from identifier_cases import BRIEF_LANGEVIN, IDENTIFIERS, SHORT, assert_same_state, state_of
from sklearn.base import clone

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter

# Attributes


def test_attributes_keep_the_contract(identifier, ring, ring_known, ring_experiments):
    assert identifier.fit(*ring_experiments, ring_known) is identifier
    adjacency, probabilities = identifier.adjacency_, identifier.edge_probabilities_
    for matrix in (adjacency, probabilities):
        assert matrix.shape == (6, 6)
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(np.diagonal(matrix), 0)
        np.testing.assert_array_equal(matrix[ring_known.mask], ring_known.values[ring_known.mask])
        assert ((matrix >= 0) & (matrix <= 1)).all()
    assert adjacency.dtype == np.int64
    assert set(np.unique(adjacency)) <= {0, 1}
    assert probabilities.dtype == np.float64
    assert identifier.theta_.shape == (1,)
    assert identifier.theta_.dtype == np.float64
    assert isinstance(identifier.noise_std_, float)
    assert identifier.noise_std_ > 0
    assert identifier.known_edges_ is ring_known
    assert identifier.n_features_in_ == 6
    assert isinstance(identifier.diagnostics_, dict)
    # Only what was fitted ends with an underscore, and nothing of that is a tensor.
    for name, value in vars(identifier).items():
        assert not isinstance(value, torch.Tensor), name


def test_the_ring_is_found(identifier, ring, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    if identifier.get_params().get("step_size") is not None:
        return  # twenty steps of the published size go nowhere
    np.testing.assert_array_equal(identifier.adjacency_, ring)
    assert identifier.theta_[0] == pytest.approx(0.5, abs=0.1)


def test_theta_is_in_ascending_powers(ring, ring_known, quick):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=20, noise_std=0.1, random_state=0)
    for fitted in (
        quick.set_params(filter="polynomial").fit(X, Y, ring_known),
        AdamSystemIdentifier("polynomial", max_iter=300, learning_rate=0.03, random_state=0).fit(X, Y, ring_known),
    ):
        np.testing.assert_allclose(fitted.theta_, [0.5, -0.3, 0.1], atol=0.05)


def test_given_noise_is_kept_and_unknown_noise_is_found(quick, ring_known, ring_experiments):
    assert quick.set_params(noise_std=0.25).fit(*ring_experiments, ring_known).noise_std_ == pytest.approx(0.25)
    # 120 outputs with noise 0.3: the standard error of the estimate is 0.02.
    assert quick.set_params(noise_std=None).fit(*ring_experiments, ring_known).noise_std_ == pytest.approx(0.3, abs=0.1)


def test_diagnostics_of_a_sampler(sampler, ring_known, ring_experiments):
    diagnostics = sampler.fit(*ring_experiments, ring_known).diagnostics_
    n_chains, n_steps = diagnostics["log_likelihood"].shape
    assert diagnostics["n_diverged"] == 0
    assert 1 <= n_chains <= sampler.n_chains
    assert diagnostics["theta"].shape == (n_chains, n_steps, 1)
    assert diagnostics["sigma"].shape == (n_steps,)
    assert diagnostics["sigma"][0] == pytest.approx(sampler.sigma_max)
    assert diagnostics["sigma"].min() == pytest.approx(sampler.sigma_min)
    assert n_steps == sampler.n_levels + sampler.n_sweeps
    np.testing.assert_array_equal(diagnostics["kernel"], np.repeat([0, 1], [sampler.n_levels, sampler.n_sweeps]))
    # The noise only falls, evenly; the sweeps after the annealing are at one level.
    annealing, sweeps = np.split(diagnostics["sigma"], [sampler.n_levels])
    np.testing.assert_allclose(annealing, np.linspace(sampler.sigma_max, sampler.sigma_min, sampler.n_levels))
    assert len(np.unique(sweeps)) <= 1
    assert diagnostics["r_hat_theta"].shape == (1,)
    assert diagnostics["effective_sample_size_theta"].shape == (1,)
    assert np.isfinite(diagnostics["log_likelihood"]).all()


def test_loss_of_adam_goes_down(ring_known, ring_experiments):
    losses = clone(IDENTIFIERS["adam"]).fit(*ring_experiments, ring_known).diagnostics_["loss"]
    assert losses.shape == (60,)
    assert losses[-1] < 0.5 * losses[0]


def test_theta_samples_are_what_theta_is_made_of(quick, ring_known, ring_experiments):
    quick.fit(*ring_experiments, ring_known)
    np.testing.assert_allclose(quick.theta_, quick.theta_samples_.mean(0))
    np.testing.assert_allclose(quick.theta_std_, quick.theta_samples_.std(0))


def test_edges_of_the_marginal_estimate_are_the_probable_ones(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    quick.fit(X[:2], Y[:2], ring_known)
    np.testing.assert_array_equal(quick.adjacency_, quick.edge_probabilities_ > 0.5)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_known_edges_pass_every_threshold(threshold, ring, ring_known, ring_experiments):
    fitted = clone(IDENTIFIERS["adam"]).set_params(threshold=threshold).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_[ring_known.mask], ring[ring_known.mask])


def affine(adjacency, theta):
    """A polynomial of order one, as a user would write it."""
    return theta[0] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype) + theta[1] * adjacency


@pytest.mark.parametrize("name", ["sweeps", "langevin", "no-prior", "adam"])
def test_filters_of_the_users_are_differentiated(name, ring):
    filter = CallableFilter(affine, names=("self", "neighbours"))
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=20, noise_std=0.1, random_state=0)
    fitted = clone(IDENTIFIERS[name]).set_params(filter=filter)
    if name == "adam":
        fitted.set_params(max_iter=300, learning_rate=0.03)
    fitted.fit(X, Y, hide_edges(ring, 0.5, random_state=0))
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    np.testing.assert_allclose(fitted.theta_, [0.5, 0.3], atol=0.1)


def test_heat_may_be_given_as_name_or_object(quick, ring_known, ring_experiments):
    by_name = clone(quick).fit(*ring_experiments, ring_known)
    assert_same_state(clone(quick).set_params(filter=HeatDiffusionFilter()).fit(*ring_experiments, ring_known), by_name)


# Point estimates


@pytest.mark.parametrize("point_estimate", ["marginal", "sample", "best"])
@pytest.mark.parametrize("has_sweeps", [True, False])
def test_every_point_estimate_agrees_with_what_is_known(has_sweeps, point_estimate, ring, ring_known, ring_experiments):
    settings = SHORT if has_sweeps else {**BRIEF_LANGEVIN, "n_chains": 4}
    fitted = LangevinSystemIdentifier("heat", point_estimate=point_estimate, random_state=0, **settings)
    fitted.fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_[ring_known.mask], ring[ring_known.mask])
    np.testing.assert_array_equal(fitted.adjacency_, ring)


def test_sample_estimate_is_one_of_the_draws(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    quick.set_params(point_estimate="sample").fit(X[:2], Y[:2], ring_known)
    adjacencies, thetas = quick.sample(4 * 16, random_state=0)
    hits = (adjacencies == quick.adjacency_).all((1, 2)) & (thetas == quick.theta_).all(1)
    assert hits.any()


def test_best_estimate_is_the_likeliest_draw_with_theta_by_least_squares(ring, ring_known):
    filter = PolynomialFilter(1)
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=3, random_state=0)
    fitted = LangevinSystemIdentifier(filter, point_estimate="best", noise_std=1.0, random_state=0, **SHORT)
    fitted.fit(X, Y, ring_known)

    def least_squares(adjacency):
        design = np.stack([X.ravel(), (X @ adjacency).ravel()], axis=1)
        theta, squares, _, _ = np.linalg.lstsq(design, Y.ravel(), rcond=None)
        return theta, squares[0]

    theta, squares = least_squares(fitted.adjacency_)
    np.testing.assert_allclose(fitted.theta_, theta, rtol=1e-6)
    # Draws of theta scatter around their best fit, so another graph may fit better once refitted, but not by much.
    others = [least_squares(adjacency)[1] for adjacency in fitted.sample(40, random_state=0)[0]]
    assert squares <= min(others) + 10


# Draws


def test_sample_gives_graphs_and_parameters(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    for n_samples in (1, 3, 200):
        adjacencies, thetas = identifier.sample(n_samples, random_state=0)
        assert adjacencies.shape == (n_samples, 6, 6)
        assert thetas.shape == (n_samples, 1)
        assert adjacencies.dtype == np.int64
        assert set(np.unique(adjacencies)) <= {0, 1}
        np.testing.assert_array_equal(adjacencies, np.swapaxes(adjacencies, 1, 2))
        for adjacency in adjacencies:
            np.testing.assert_array_equal(adjacency[ring_known.mask], ring_known.values[ring_known.mask])


def test_sample_is_reproducible_and_changes_nothing(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    before = copy.deepcopy(state_of(identifier))
    first, again = identifier.sample(7, random_state=3), identifier.sample(7, random_state=3)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    first[0][:] = 7
    first[1][:] = 7
    for name, value in state_of(identifier).items():
        np.testing.assert_array_equal(value, before[name])


def test_sample_of_a_numpy_integer(quick, ring_known, ring_experiments):
    quick.fit(*ring_experiments, ring_known)
    assert len(quick.sample(np.int64(2), random_state=0)[0]) == 2


def test_one_draw_of_every_chain_comes_before_any_second_one(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("heat", random_state=0, n_chains=12, n_levels=8).fit(X[:2], Y[:2], ring_known)
    thetas = fitted.sample(12, random_state=0)[1]
    assert len(np.unique(thetas)) == 12
