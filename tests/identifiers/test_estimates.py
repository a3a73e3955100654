"""Standard errors against least squares, intervals against their definition, and no nan wherever the numbers go."""

from __future__ import annotations

import itertools
import re
import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import linalg, stats
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    KnownEdges,
    LangevinSystemIdentifier,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers._estimates import central_interval, refit_theta
from sklearn_graphid.identifiers._findings import mixing_findings
from sklearn_graphid.samplers import Problem, weights_of_chains

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0}


def least_squares(X, Y, adjacency, order):
    """Ordinary least squares of a polynomial filter: theta, its unscaled covariance, the residual sum of squares."""
    powers = [X @ np.linalg.matrix_power(adjacency, power) for power in range(order + 1)]
    is_measured = ~np.isnan(Y)
    design = np.stack([power[is_measured] for power in powers], axis=1)
    theta, *_ = np.linalg.lstsq(design, Y[is_measured], rcond=None)
    squares = ((Y[is_measured] - design @ theta) ** 2).sum()
    return theta, np.linalg.inv(design.T @ design), squares


# Standard errors


@pytest.mark.parametrize(
    ("noise_std", "point_estimate", "gaps"), [(None, "marginal", True), (0.7, "sample", True), (None, "best", False)]
)
def test_standard_errors_are_those_of_least_squares(noise_std, point_estimate, gaps, ring, ring_known):
    X, Y = make_system(ring, PolynomialFilter(2), [0.5, 0.3, -0.1], n_experiments=4, random_state=0)
    if gaps:
        Y[np.random.default_rng(0).random(Y.shape) < 0.3] = np.nan
    fitted = LangevinSystemIdentifier(
        PolynomialFilter(2), point_estimate=point_estimate, noise_std=noise_std, **SHORT
    ).fit(X, Y, ring_known)
    theta, covariance, squares = least_squares(X, Y, fitted.adjacency_, order=2)
    degrees_of_freedom = (~np.isnan(Y)).sum() - 3
    variance = squares / degrees_of_freedom if noise_std is None else noise_std**2
    np.testing.assert_allclose(fitted.theta_refitted_, theta, rtol=1e-6)
    np.testing.assert_allclose(fitted.theta_standard_error_, np.sqrt(variance * np.diag(covariance)), rtol=1e-6)
    if point_estimate == "best":
        np.testing.assert_array_equal(fitted.theta_, fitted.theta_refitted_)


def test_standard_error_of_the_heat_time_is_its_linearisation(ring, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("heat", noise_std=0.3, **SHORT).fit(X, Y, ring)
    laplacian = np.diag(ring.sum(1)) - ring
    time = fitted.theta_refitted_[0]
    slope = -X @ laplacian @ linalg.expm(-time * laplacian)
    assert fitted.theta_standard_error_[0] == pytest.approx(0.3 / np.sqrt((slope**2).sum()), rel=1e-6)
    # At the best fit, the residuals are orthogonal to the slope.
    residuals = Y - X @ linalg.expm(-time * laplacian)
    assert (residuals * slope).sum() == pytest.approx(0, abs=1e-5 * np.abs(residuals * slope).sum())


def test_standard_error_covers_the_truth(ring):
    """500 systems on a known network: theta is missed by more than 1.96 standard errors in one of twenty."""
    filter, known = PolynomialFilter(1), KnownEdges(np.ones((6, 6)), ring)
    misses = 0
    for seed in range(500):
        X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=2, random_state=seed)
        problem = Problem.from_numpy(X, Y, known, filter, torch.device("cpu"), torch.float64)
        theta, error = refit_theta(problem, ring, np.zeros(2), noise_std=1.0)
        misses += abs(theta[1] - 0.3) > 1.96 * error[1]
    # Seeded. Of other seeds, one in a thousand would lie outside on either side.
    assert stats.binom.isf(0.999, 500, 0.05) <= misses <= stats.binom.isf(1e-3, 500, 0.05)


def test_adam_has_them_too(ring, ring_known):
    X, Y = make_system(ring, PolynomialFilter(1), [0.5, 0.3], n_experiments=20, noise_std=0.1, random_state=0)
    fitted = AdamSystemIdentifier(PolynomialFilter(1), max_iter=300, learning_rate=0.03, random_state=0)
    fitted.fit(X, Y, ring_known)
    theta, covariance, squares = least_squares(X, Y, fitted.adjacency_, order=1)
    np.testing.assert_allclose(fitted.theta_refitted_, theta, rtol=1e-6)
    expected = np.sqrt(squares / (Y.size - 2) * np.diag(covariance))
    np.testing.assert_allclose(fitted.theta_standard_error_, expected, rtol=1e-6)


def test_what_the_data_do_not_determine_has_an_infinite_error():
    """On an empty network A and its square are zero; on a perfect matching the square of A is the identity."""
    empty, matching = np.zeros((4, 4)), np.kron(np.eye(2), [[0.0, 1.0], [1.0, 0.0]])
    for network, determined in ((empty, [True, False, False]), (matching, [False, True, False])):
        X, Y = make_system(network, PolynomialFilter(2), [0.5, 0.3, 0.1], n_experiments=5, random_state=0)
        fitted = LangevinSystemIdentifier(PolynomialFilter(2), noise_std=1.0, **SHORT).fit(X, Y, network)
        np.testing.assert_array_equal(np.isfinite(fitted.theta_standard_error_), determined)
        assert np.isfinite(fitted.theta_refitted_).all()


def test_fewer_numbers_than_parameters_determine_nothing(ring):
    X, Y = make_system(ring, PolynomialFilter(2), [0.5, 0.3, 0.1], n_experiments=1, random_state=0)
    fitted = LangevinSystemIdentifier(PolynomialFilter(2), observed_nodes=[0, 1], **SHORT).fit(X, Y[:, :2], ring)
    assert np.isinf(fitted.theta_standard_error_).all()


# Intervals


def test_intervals_are_quantiles_of_the_draws(ring_known, ring_experiments):
    fitted = LangevinSystemIdentifier("polynomial", **SHORT).fit(*ring_experiments, ring_known)
    for level in (0.5, 0.9):
        intervals = fitted.theta_interval(level)
        assert intervals.shape == (3, 2)
        inside = (fitted.theta_samples_ >= intervals[:, 0]) & (fitted.theta_samples_ <= intervals[:, 1])
        np.testing.assert_allclose(inside.mean(0), level, atol=2 / len(fitted.theta_samples_))
        low, high = fitted.noise_std_interval(level)
        np.testing.assert_allclose(
            [low, high], np.quantile(fitted.noise_std_samples_, [0.5 - level / 2, 0.5 + level / 2])
        )
    np.testing.assert_array_equal(fitted.theta_interval(), fitted.theta_interval(0.9))


def test_interval_of_a_known_network_is_that_of_the_gaussian_posterior(ring):
    """Known noise, a known network, a linear filter: theta is Gaussian around the best fit, but for a wide prior."""
    X, Y = make_system(ring, PolynomialFilter(1), [0.5, 0.3], n_experiments=5, random_state=0)
    settings = {"noise_std": 1.0, "n_chains": 64, "n_levels": 20, "random_state": 0}
    fitted = LangevinSystemIdentifier(PolynomialFilter(1), **settings).fit(X, Y, ring)
    gaussian = stats.norm(fitted.theta_refitted_[:, None], fitted.theta_standard_error_[:, None])
    # 1,280 independent draws: the standard error of a 5 percent quantile is 0.06 standard deviations; four and a half.
    tolerance = 0.27 * fitted.theta_standard_error_.max()
    np.testing.assert_allclose(fitted.theta_interval(0.9), gaussian.ppf([0.05, 0.95]), atol=tolerance)


def test_noise_that_was_given_is_its_own_interval(ring_known, ring_experiments):
    fitted = LangevinSystemIdentifier("heat", noise_std=0.3, **SHORT).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.noise_std_interval(), [0.3, 0.3])
    assert fitted.noise_std_ == 0.3
    assert len(fitted.noise_std_samples_) == len(fitted.theta_samples_)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, np.nan, "0.9", None, True])
def test_levels_that_are_no_shares_are_refused(level):
    with pytest.raises((TypeError, ValueError), match=r"level=.*strictly between 0 and 1"):
        central_interval(np.zeros((10, 2)), level)


def test_one_draw_has_no_interval(ring_known, ring_experiments):
    fitted = LangevinSystemIdentifier("heat", random_state=0, **{**PAPER_SETTINGS, "n_steps": 2})
    fitted.fit(*ring_experiments, ring_known)
    for method in (fitted.theta_interval, fitted.noise_std_interval):
        with pytest.raises(ValueError, match="larger n_chains"):
            method()


@pytest.mark.parametrize("method", ["theta_interval", "noise_std_interval", "to_arviz"])
def test_nothing_works_before_fit(method):
    with pytest.raises(NotFittedError):
        getattr(LangevinSystemIdentifier(), method)()


# What another run would find


@pytest.mark.slow
def test_monte_carlo_errors_are_the_spread_over_runs():
    """Two pairs of data and six nodes: 24 runs scatter as much as each says it would."""
    path = nx.to_numpy_array(nx.path_graph(6))
    X, Y = make_system(path, "heat", [0.5], n_experiments=2, random_state=0)
    unknown = np.triu_indices(6, 1)
    probabilities, errors = [], []
    for seed in range(24):
        identifier = LangevinSystemIdentifier("heat", n_chains=8, n_levels=3, n_steps=2, n_sweeps=10, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            identifier.fit(X, Y)
        probabilities.append(identifier.edge_probabilities_[unknown])
        errors.append(identifier.diagnostics_["monte_carlo_error_edges"][unknown])
    reported, seen = np.sqrt(np.mean(np.square(errors))), np.sqrt(np.var(probabilities, axis=0, ddof=1).mean())
    # Fifteen pairs that move together, 24 runs: known to some 15 percent.
    assert reported == pytest.approx(seen, rel=0.4)


def test_errors_stand_where_the_pairs_are(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(X[:2], Y[:2], ring_known)
    errors = fitted.diagnostics_["monte_carlo_error_edges"]
    np.testing.assert_array_equal(errors, errors.T)
    np.testing.assert_array_equal(errors[ring_known.mask], 0)
    assert (errors[~ring_known.mask] > 0).any()
    assert fitted.diagnostics_["monte_carlo_error_theta"].shape == (1,)


def test_chains_that_agree_are_not_warned_of(ring_known, ring_experiments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LangevinSystemIdentifier("heat", random_state=0).fit(*ring_experiments, ring_known)
    assert fitted.diagnostics_["n_changes_expected"] < 0.5
    (finding,) = fitted._findings
    assert finding.severity == "good"
    assert "another run would find the same" in finding.text


def test_chains_that_do_not_agree_are_warned_of_with_what_to_change():
    """One pair of data drowned in noise, nothing known, two chains: hardly a pair is settled."""
    X, Y = make_system(
        nx.path_graph(10), "heat", [0.3], n_experiments=1, input_scale=1.0, noise_std=3.0, random_state=0
    )
    fitted = LangevinSystemIdentifier("heat", n_chains=2, n_levels=2, n_steps=1, random_state=0)
    with pytest.warns(
        ConvergenceWarning, match="another run may decide some pairs differently; raise n_chains"
    ) as caught:
        fitted.fit(X, Y)
    assert caught[0].filename == __file__
    assert fitted.diagnostics_["n_changes_expected"] > 1
    (finding,) = fitted._findings
    assert re.search(r"decide \d+ pairs differently.*Raise n_chains from 2 to \d+", finding.text)


def test_one_chain_is_no_ground_for_a_warning(ring_known, ring_experiments):
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        fitted = LangevinSystemIdentifier("heat", random_state=0, **{**PAPER_SETTINGS, "n_steps": 2})
        fitted.fit(*ring_experiments, ring_known)
    assert np.isnan(fitted.diagnostics_["n_changes_expected"])
    assert [finding.severity for finding in fitted._findings if "One chain" in finding.text] == ["caution"]


def test_a_known_network_needs_no_warning(ring, ring_experiments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = LangevinSystemIdentifier("heat", **SHORT).fit(*ring_experiments, ring)
    assert fitted.diagnostics_["n_changes_expected"] == 0


# Numbers that overflow


def explosive(adjacency, theta):
    """A filter that overflows on denser graphs and for larger theta."""
    return torch.matrix_exp(200 * theta[0].abs() * adjacency)


HOSTILE = {
    "huge inputs": {"scale": (1e13, 1.0)},
    "huge outputs": {"scale": (1.0, 1e13)},
    "tiny everything": {"scale": (1e-14, 1e-14)},
    "zero inputs": {"scale": (0.0, 1.0)},
    "tiny noise": {"noise_std": 1e-14},
    "huge noise": {"noise_std": 1e14},
    "small noise": {"noise_std": 1e-4},
}


@pytest.mark.parametrize(
    ("filter", "n_sweeps", "trouble"),
    [
        *itertools.product(["heat"], [4, 0], HOSTILE),
        *itertools.product(["polynomial"], [4], HOSTILE),
        *itertools.product(["arma", CallableFilter(explosive)], [4], ["huge inputs", "zero inputs", "tiny noise"]),
    ],
)
def test_a_result_has_no_nan(trouble, n_sweeps, filter, ring_known, ring_experiments):
    """Either all that a fit leaves behind is a number, or the fit is an error that leaves nothing behind."""
    X, Y = (
        factor * array for factor, array in zip(HOSTILE[trouble].get("scale", (1, 1)), ring_experiments, strict=True)
    )
    noise_std = HOSTILE[trouble].get("noise_std")
    fitted = LangevinSystemIdentifier(
        filter, n_sweeps=n_sweeps, noise_std=noise_std, n_chains=3, n_levels=2, random_state=0
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fitted.fit(X, Y, ring_known)
        except FloatingPointError:
            assert not hasattr(fitted, "adjacency_")
            return
    assert not [warning for warning in caught if issubclass(warning.category, RuntimeWarning)]
    n_diverged = fitted.diagnostics_["n_diverged"]
    assert bool(n_diverged) == any("diverged and were dropped" in str(warning.message) for warning in caught)
    numbers = ("adjacency_", "edge_probabilities_", "theta_", "theta_samples_", "theta_std_", "theta_refitted_",
               "noise_std_", "noise_std_samples_")  # fmt: skip
    for name in numbers:
        assert np.isfinite(getattr(fitted, name)).all(), name
    assert not np.isnan(fitted.theta_standard_error_).any()
    assert np.isfinite(fitted.diagnostics_["log_likelihood"][:, -1]).all()
    assert not np.isnan(fitted.predict(X)).any()


@pytest.mark.parametrize(("factors", "name"), [((1e30, 1), "X"), ((1, 1e200), "Y"), ((1e-30, 1e-30), "X")])
def test_units_beyond_single_precision_are_refused(factors, name, ring_known, ring_experiments):
    X, Y = (factor * array for factor, array in zip(factors, ring_experiments, strict=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ValueError, match=f"{name} has values of up to .*, which single precision cannot square"):
            LangevinSystemIdentifier("heat", **SHORT).fit(X, Y, ring_known)


def test_dropped_chains_leave_the_others_as_they_were(ring_known, ring_experiments):
    """A filter that is undefined for positive theta: what is kept is what the other chains alone would give."""

    def half(adjacency, theta):
        return torch.where(theta[0] > 0, torch.nan, 1.0) * adjacency + theta[0]

    fitted = LangevinSystemIdentifier(CallableFilter(half), noise_std=1.0, n_chains=12, n_levels=2, random_state=0)
    with pytest.warns(ConvergenceWarning, match="some chains diverged and were dropped"):
        fitted.fit(*ring_experiments, ring_known)
    kept = fitted._draws
    weights = weights_of_chains(kept.log_likelihood + kept.log_prior, kept.edge_probability)
    alone = ring_known.fill(weights @ kept.edge_probability)
    np.testing.assert_allclose(fitted.edge_probabilities_, alone, rtol=1e-12)
    assert (kept.theta <= 0).all()
    assert len(kept.theta) == 12 - fitted.diagnostics_["n_diverged"] - fitted.diagnostics_["n_stuck"]


def test_theta_at_its_bound_is_a_number():
    """Outputs that grow where heat can only decay: the best time is zero."""
    X = np.random.default_rng(0).normal(size=(5, 4))
    path = nx.to_numpy_array(nx.path_graph(4))
    laplacian = np.diag(path.sum(1)) - path
    fitted = LangevinSystemIdentifier(HeatDiffusionFilter(), **SHORT).fit(X, X @ linalg.expm(0.5 * laplacian), path)
    assert np.isfinite(fitted.theta_refitted_).all()
    assert fitted.theta_refitted_[0] <= 1e-3
    assert (fitted.theta_standard_error_ > 0).all()


def test_two_nodes_are_enough():
    X, Y = make_system(np.array([[0.0, 1.0], [1.0, 0.0]]), "heat", [0.3], n_experiments=10, random_state=0)
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y, KnownEdges.nothing(2))
    assert fitted.edge_probabilities_[0, 1] > 0.5
    assert np.isfinite(fitted.theta_standard_error_).all()


def test_larger_networks_keep_the_count(recwarn):
    """Expected changes are counted over the unknown pairs only, once each."""
    grid = nx.to_numpy_array(nx.grid_2d_graph(3, 4))
    X, Y = make_system(grid, "polynomial", [0.3, 0.2, -0.05], n_experiments=2, random_state=0)
    fitted = LangevinSystemIdentifier("polynomial", **SHORT).fit(X, Y, hide_edges(grid, 0.5, random_state=0))
    pairs = fitted.known_edges_.unknown_pairs()
    errors = fitted.diagnostics_["monte_carlo_error_edges"][pairs]
    distance = np.abs(fitted.edge_probabilities_[pairs] - 0.5) / (np.sqrt(2) * errors)
    assert fitted.diagnostics_["n_changes_expected"] == pytest.approx(stats.norm.sf(distance[errors > 0]).sum())


@pytest.mark.parametrize(
    ("remedy", "advice"), [("raise n_sweeps", "Raise n_sweeps;"), ("raise n_chains", "n_chains from 4 to")]
)
def test_warning_and_report_give_the_same_advice(remedy, advice):
    diagnostics = {"n_diverged": 0, "n_stuck": 0, "n_origins": 4, "n_changes_expected": 5.0}
    (finding,) = mixing_findings({**diagnostics, "log_likelihood": np.zeros((4, 10))}, n_inferred=10, remedy=remedy)
    assert finding.warning.endswith(f"; {remedy}.")
    assert advice in finding.text
    assert ("n_chains" in finding.text) == ("n_chains" in remedy)


# The graph of the highest expected F1


@pytest.mark.parametrize("seed", range(2))
def test_no_graph_has_a_higher_expected_f1(seed, ring):
    """All graphs of the unknown pairs, by the expected numerator and denominator of F1."""
    X, Y = make_system(ring, "heat", [0.3], n_experiments=1, random_state=seed)
    known = hide_edges(ring, fraction=0.6, random_state=seed)
    fitted = LangevinSystemIdentifier("heat", point_estimate="f1", **SHORT).fit(X, Y, known)
    probability = fitted.edge_probabilities_[known.unknown_pairs()]
    graphs = np.array(list(itertools.product([0, 1], repeat=len(probability))))
    expected = 2 * graphs @ probability / (graphs.sum(1) + probability.sum())
    found = fitted.adjacency_[known.unknown_pairs()]
    assert 2 * found @ probability / (found.sum() + probability.sum()) == pytest.approx(expected.max())
    # The mean of theta is that of the draws, whichever graph is reported.
    marginal = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y, known)
    np.testing.assert_array_equal(fitted.theta_, marginal.theta_)
    assert fitted.adjacency_.sum() >= marginal.adjacency_.sum()  # the threshold is never above one half
