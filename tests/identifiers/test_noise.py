"""Noise that differs from node to node, given or found, and noise of the inputs."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats
from scipy.linalg import expm
from sklearn.base import clone

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers._estimates import levels_after, shrink_variances
from sklearn_graphid.identifiers._findings import residual_dependence
from sklearn_graphid.samplers import ChainState, Problem
from sklearn_graphid.samplers._langevin import largest_curvature
from sklearn_graphid.scorers import log_likelihood_scorer

LEVELS = np.array([0.3, 1.2, 0.5, 2.0, 0.8, 0.4])
BRIEF = {"n_chains": 4, "n_levels": 3, "n_sweeps": 6, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # runs as short as these may not settle, and say so


@pytest.fixture
def uneven(ring):
    return make_system(ring, "heat", theta=[0.5], n_experiments=30, noise_std=LEVELS, random_state=0)


# What samplers compute


@pytest.mark.parametrize(
    "filter", [PolynomialFilter(2), HeatDiffusionFilter(), SteadyStateFilter(leak=0.3)], ids=lambda f: type(f).__name__
)
def test_likelihood_has_the_gradient_and_curvature_of_torch(filter, ring, ring_known, uneven):
    X, Y = uneven
    Y[0, 1] = np.nan
    relative = LEVELS / 2
    problem = Problem.from_numpy(X, Y, ring_known, filter, torch.device("cpu"), torch.float64, relative_noise=relative)
    pairs = torch.full((1, problem.n_unknown), 0.4, dtype=torch.float64)
    theta, noise_std = torch.full((1, filter.n_parameters()), 0.3, dtype=torch.float64), torch.tensor([0.7]).double()

    def whitened(values, parameters):
        outputs = filter.apply(problem.assemble(values), parameters, problem.inputs)[0]
        return ((torch.tensor(Y) - outputs) / torch.tensor(relative))[~torch.isnan(torch.tensor(Y))] / noise_std

    def log_likelihood(values, parameters):
        return -0.5 * whitened(values, parameters).square().sum() - problem.n_measured * noise_std.log()[0]

    found = problem.likelihood(problem.assemble(pairs), theta, noise_std)
    by_pairs, by_theta = torch.autograd.functional.jacobian(log_likelihood, (pairs, theta))
    torch.testing.assert_close(found.log_likelihood[0], log_likelihood(pairs, theta))
    torch.testing.assert_close(problem.log_likelihood(problem.assemble(pairs), theta, noise_std)[0], found[0][0])
    torch.testing.assert_close(found.pair_gradient, by_pairs, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.theta_gradient, by_theta, rtol=1e-6, atol=1e-6)
    jacobian = torch.autograd.functional.jacobian(lambda values: whitened(values, theta), pairs)[:, 0]
    exact = float(torch.linalg.eigvalsh(jacobian.mT @ jacobian)[-1])
    # Six power iterations come close from below, and a fifth is added.
    assert 1.0 < float(largest_curvature(problem, ChainState(pairs, theta, noise_std))) / exact < 1.25


def test_the_test_of_residuals_is_fair_where_noise_differs():
    """Its p-values are uniform if it is told the levels. If not, noise that grows with the degree alarms by itself."""
    rng, star = np.random.default_rng(0), nx.to_numpy_array(nx.star_graph(9))
    levels = np.where(star.sum(0) > 1, 10.0, 0.1)
    told, untold = [], []
    for _ in range(400):
        inputs, residuals = rng.normal(size=(12, 10)), levels * rng.normal(size=(12, 10))
        told.append(residual_dependence(inputs, residuals, star, levels))
        untold.append(residual_dependence(inputs, residuals, star))
    assert stats.kstest(told, "uniform").pvalue > 1e-4  # one false alarm in 10,000 seeds
    assert np.mean(np.array(untold) < 0.05) > 0.2


# Levels that are given


def test_equal_levels_are_one_level(ring_known, ring_experiments):
    one, each = (
        LangevinSystemIdentifier("heat", noise_std=noise, **BRIEF).fit(*ring_experiments, ring_known)
        for noise in (0.3, [0.3] * 6)
    )
    np.testing.assert_array_equal(one.edge_probabilities_, each.edge_probabilities_)
    assert one.noise_std_ == each.noise_std_ == 0.3
    np.testing.assert_array_equal(each.noise_std_per_node_, np.full(6, 0.3))


def test_levels_with_names_are_matched_by_name(ring_known, uneven):
    X, Y = (pd.DataFrame(array, columns=list("abcdef")) for array in uneven)
    by_name = pd.Series(LEVELS, index=list("abcdef"))[list("fbadce")]
    fits = [
        LikelihoodLangevinIdentifier("heat", noise_std=noise, **BRIEF).fit(X, Y, ring_known)
        for noise in (LEVELS, by_name)
    ]
    for fitted in fits:
        np.testing.assert_allclose(fitted.noise_std_per_node_, LEVELS, rtol=1e-12)
        assert fitted.noise_std_ == pytest.approx(np.sqrt((LEVELS**2).mean()))
        assert (fitted.noise_std_samples_ == fitted.noise_std_).all()
    np.testing.assert_array_equal(fits[0].edge_probabilities_, fits[1].edge_probabilities_)


def test_nodes_without_outputs_may_have_any_level(ring_known, uneven):
    X, Y = uneven
    fits = [
        LangevinSystemIdentifier("heat", noise_std=[*LEVELS[:4], other, other], observed_nodes="leading", **BRIEF).fit(
            X, Y[:, :4], ring_known
        )
        for other in (1e-3, 1e3)
    ]
    np.testing.assert_array_equal(fits[0].edge_probabilities_, fits[1].edge_probabilities_)
    assert fits[0].noise_std_ == fits[1].noise_std_ == pytest.approx(np.sqrt((LEVELS[:4] ** 2).mean()))


@pytest.mark.parametrize(
    ("noise_std", "message"),
    [
        ([1.0, 2.0], r"noise_std has shape \(2,\); expected \(6,\), one number for each node"),
        (np.ones((6, 6)), r"noise_std has shape \(6, 6\)"),
        (np.array(1.0), r"noise_std has shape \(\)"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, -1.0], "noise_std holds the value -1; expected numbers between 1e-15 and"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], "noise_std holds the value 0"),
        ([1.0, 1.0, 1.0, 1.0, 1.0, np.nan], "noise_std holds the value nan; expected finite numbers"),
        (["a"] * 6, "noise_std has the type"),
        ([True] * 6, "noise_std has the type bool"),
        (
            pd.Series(np.ones(6), index=list("abcdeg")),
            "noise_std and the nodes do not name the same nodes: missing: 'f'",
        ),
        (pd.Series(np.ones(6), index=list("aacdef")), "noise_std's index has the name 'a' twice"),
    ],
)
def test_wrong_levels_are_refused_by_name(noise_std, message, ring_known, uneven):
    X, Y = (pd.DataFrame(array, columns=list("abcdef")) for array in uneven)
    with pytest.raises((TypeError, ValueError), match=message):
        LangevinSystemIdentifier("heat", noise_std=noise_std, **BRIEF).fit(X, Y, ring_known)


@pytest.mark.parametrize("value", [0, -1.0, np.nan, "per-node", True])
def test_wrong_noise_of_inputs_is_refused_by_name(value, ring_experiments):
    with pytest.raises(ValueError, match="The 'input_noise_std' parameter of LangevinSystemIdentifier must be"):
        LangevinSystemIdentifier("heat", input_noise_std=value).fit(*ring_experiments)


# Levels that are found


@pytest.mark.parametrize("filter", ["heat", "polynomial", "steady-state"])
def test_levels_are_found_where_there_are_many_experiments(filter, ring, ring_known):
    """150 residuals of each node: a relative standard error of 6 % at most, and six nodes within 20 %."""
    theta = {"heat": [0.5], "polynomial": [0.4, 0.3, 0.1], "steady-state": [1.0]}[filter]
    X, Y = make_system(ring, filter, theta, n_experiments=150, noise_std=LEVELS, random_state=1)
    Y[:20, 2] = np.nan
    fitted = LangevinSystemIdentifier(filter, noise_std="per-node", **BRIEF).fit(X, Y, ring_known)
    np.testing.assert_allclose(fitted.noise_std_per_node_, LEVELS, rtol=0.2)
    low, high = fitted.noise_std_interval(0.999)
    assert low < fitted.noise_std_ < high
    assert np.ptp(fitted.noise_std_samples_) > 0


def test_levels_of_few_residuals_are_posterior_means_under_the_law_of_the_nodes():
    """Variances from an inverse gamma law with the weight of 6 residuals: (n s_i^2 + 6 s^2) / (n + 6) is the best."""
    rng, n_nodes, n_usual, usual = np.random.default_rng(0), 4_000, 6, 2.5
    variances = usual * n_usual / rng.chisquare(n_usual, size=n_nodes)
    residuals = np.sqrt(variances) * rng.normal(size=(5, n_nodes))
    residuals[0, ::2] = np.nan
    n, squares = (~np.isnan(residuals)).sum(0), np.nansum(residuals**2, axis=0)
    best = (squares + n_usual * usual) / (n + n_usual)
    np.testing.assert_allclose(shrink_variances(squares, n.astype(float)), best, rtol=0.1)


def test_levels_that_differ_by_chance_are_the_same():
    """And a node without residuals has the usual level."""
    residuals = np.random.default_rng(0).normal(size=(6, 8)) * np.where(np.arange(8) == 7, np.nan, 3.0)
    levels = levels_after(None, True, 0.0, residuals, residuals, np.zeros((8, 8)))
    assert levels.common is None
    np.testing.assert_allclose(levels.relative, 1.0, rtol=1e-4)


def test_exact_outputs_leave_nothing_to_compare(ring, ring_known):
    X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, noise_std=0.0, random_state=0)
    fitted = LangevinSystemIdentifier("heat", noise_std="per-node", **BRIEF).fit(X, Y, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    assert np.isfinite(fitted.noise_std_per_node_).all()


def test_a_refit_without_levels_forgets_them(ring_known, uneven):
    identifier = LangevinSystemIdentifier("heat", noise_std=LEVELS, **BRIEF).fit(*uneven, ring_known)
    identifier.set_params(noise_std=None).fit(*uneven, ring_known)
    np.testing.assert_array_equal(identifier.noise_std_per_node_, np.full(6, identifier.noise_std_))


# Noise of the inputs


def test_noise_of_inputs_is_added_to_that_of_the_outputs(ring, ring_known):
    """By H H' of the system that was found, here with its graph known."""
    X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=50, noise_std=LEVELS, random_state=0)
    known = KnownEdges(np.ones((6, 6), dtype=bool), ring)
    settings = {"noise_std": LEVELS, "input_noise_std": 2.0, "point_estimate": "best", **BRIEF}
    fitted = LangevinSystemIdentifier("heat", **settings).fit(X, Y, known)
    first = LangevinSystemIdentifier("heat", **{**settings, "input_noise_std": None}).fit(X, Y, known)
    response = expm(-first.theta_refitted_[0] * (2 * np.eye(6) - ring))
    expected = np.sqrt(LEVELS**2 + 4.0 * np.diag(response @ response.T))
    np.testing.assert_allclose(fitted.noise_std_per_node_, expected, rtol=1e-6)
    assert fitted.noise_std_ == pytest.approx(np.sqrt((expected**2).mean()), rel=1e-6)


def test_noise_of_inputs_of_a_star_is_found_at_its_hub():
    """The hub hears all the leaves' noise; what is left of the residuals' mean square is the outputs' own."""
    star = nx.to_numpy_array(nx.star_graph(9))
    theta, own, of_inputs = [0.3, 0.6], 0.2, 0.5
    X, Y = make_system(star, PolynomialFilter(1), theta, 400, noise_std=own, input_noise_std=of_inputs, random_state=0)
    known = hide_edges(star, 0.3, random_state=0)
    identifier = LangevinSystemIdentifier(PolynomialFilter(1), input_noise_std=of_inputs, **BRIEF)
    response = theta[0] * np.eye(10) + theta[1] * star
    expected = np.sqrt(own**2 + of_inputs**2 * (response**2).sum(1))
    fitted = identifier.fit(X, Y, known)
    np.testing.assert_allclose(fitted.noise_std_per_node_, expected, rtol=0.15)
    assert fitted.noise_std_per_node_[0] > 2 * fitted.noise_std_per_node_[1:].max()


def test_noise_of_inputs_is_no_larger_than_the_outputs_that_hold_it():
    """A first fit may have any response to an input that was never made."""
    outputs = np.array([[1.0, -3.0, 2.0, np.nan, 0.5, 1.0]])
    response = np.diag([1e200, 0.2, 0, 0, 0, 0])
    levels = levels_after(np.full(6, 0.1), False, 0.5, outputs, np.zeros((1, 6)), response)
    relative = levels.relative / levels.relative[2]
    np.testing.assert_allclose(relative[:3], [np.hypot(0.1, 3.0) / 0.1, np.hypot(0.1, 0.1) / 0.1, 1.0])


# Around a fit


def test_log_likelihood_is_that_of_each_nodes_level(ring_known, uneven):
    X, Y = uneven
    identifier = LangevinSystemIdentifier("heat", noise_std=LEVELS, observed_nodes=[4, 0, 3], **BRIEF)
    fitted = identifier.fit(X, Y[:, [4, 0, 3]], ring_known)
    outputs = Y[:, [4, 0, 3]].copy()
    outputs[2, 1] = np.nan
    expected = np.nanmean(stats.norm(fitted.predict(X), LEVELS[[4, 0, 3]]).logpdf(outputs))
    assert log_likelihood_scorer(fitted, X, outputs) == pytest.approx(expected)


def test_callbacks_are_told_of_both_fits_and_can_stop_the_first(ring_known, uneven):
    ends = []

    class Follower:
        def setup(self, estimator, context):
            self.max_subtasks = context.max_subtasks

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
            ends.append((context.task_name, context.task_id, fitted_estimator.noise_std_per_node_))
            return is_stopping and context.task_name == "batch of chains"

    identifier = LangevinSystemIdentifier("heat", noise_std="per-node", **BRIEF)
    for is_stopping, batches in ((False, [0, 1]), (True, [0])):
        ends.clear()
        follower = Follower()
        fitted = clone(identifier).set_callbacks(follower).fit(*uneven, ring_known)
        assert follower.max_subtasks == 2
        assert [number for name, number, _ in ends if name == "batch of chains"] == batches
        np.testing.assert_array_equal(ends[-1][2], fitted.noise_std_per_node_)
        assert (np.ptp(fitted.noise_std_per_node_) == 0) == is_stopping
        # Steps tell of the levels that they were made with.
        assert [np.ptp(levels) > 0 for name, _, levels in ends if name == "sweep"] == [False] * 6 + [True] * (
            0 if is_stopping else 6
        )


def test_report_tells_found_levels_from_given_ones(ring_known, uneven, tmp_path):
    for noise_std, words in (("per-node", "estimated"), (LEVELS, "as given")):
        fitted = LangevinSystemIdentifier("heat", noise_std=noise_std, **BRIEF).fit(*uneven, ring_known)
        assert words in fitted.report(tmp_path / "report.html").read_text()
