"""theta given the graph: Adam against torch's, fits against numpy and scipy, draws against laws that are known.

Tests of draws are seeded. The rates of false alarm in their comments are those of a fresh seed.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import optimize, stats

from sklearn_graphid import KnownEdges
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.samplers import (
    AdamState,
    ChainRNG,
    Problem,
    adam_step,
    fit_theta,
    propose_theta_globally,
    sample_noise_std,
    sample_theta,
)

CPU = torch.device("cpu")
# One seeded run in a million raises a false alarm in each test of a law.
ALARM = 1e-6


def random_graph(n_nodes, density, seed):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < density, 1)
    return (upper | upper.T).astype(float)


def system(filter, theta, *, n_nodes=6, density=0.5, seed=0, dtype=torch.float64, hidden_outputs=0.0, **settings):
    """A problem whose graph is known, and the arrays that it was made of."""
    adjacency = random_graph(n_nodes, density, seed)
    X, Y = make_system(adjacency, filter, theta, random_state=seed, **settings)
    Y[np.random.default_rng(seed).random(Y.shape) < hidden_outputs] = np.nan
    known = KnownEdges(np.ones(adjacency.shape, dtype=bool), adjacency)
    return Problem.from_numpy(X, Y, known, filter, CPU, dtype), adjacency, X, Y


def powers(adjacency, X, order):
    """The design matrix of a polynomial filter: a column for each power of A."""
    columns = [X]
    for _ in range(order):
        columns.append(columns[-1] @ adjacency)
    return np.stack([column.ravel() for column in columns], axis=1)


def heat_outputs(adjacency, X, thetas):
    """exp(-theta L) x for many theta, by the eigenvectors of the Laplacian."""
    eigenvalues, vectors = np.linalg.eigh(np.diag(adjacency.sum(1)) - adjacency)
    decay = np.exp(-np.multiply.outer(thetas, eigenvalues))
    return np.einsum("kn,tn,mn->tkm", X @ vectors, decay, vectors)


def repeated(problem, n_chains):
    return problem.base.expand(n_chains, -1, -1)


# Adam


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adam_is_torch_adam(dtype):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 4, generator=generator, dtype=dtype)
    reference = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([reference], lr=0.03)
    sizes = torch.tensor([1e-6, 1e-2, 1.0, 1e4], dtype=dtype)
    values, state = start, AdamState.zeros_like(start)
    for _ in range(60):
        gradient = sizes * torch.randn(3, 4, generator=generator, dtype=dtype)
        reference.grad = gradient
        optimiser.step()
        values, state = adam_step(values, gradient, state, learning_rate=0.03)
    assert state.n_steps == 60
    tolerance = 2e-6 if dtype == torch.float32 else 1e-13
    torch.testing.assert_close(values, reference.detach(), rtol=tolerance, atol=tolerance)


def test_adam_leaves_its_arguments_alone():
    values, gradient = torch.ones(2, 2), torch.full((2, 2), 3.0)
    state = AdamState.zeros_like(values)
    adam_step(values, gradient, state, 0.1)
    assert (values == 1).all()
    assert (gradient == 3).all()
    assert not state.first.any()
    assert state.n_steps == 0


# The best fit


@pytest.mark.parametrize("order", [0, 1, 2, 3])
@pytest.mark.parametrize("hidden_outputs", [0.0, 0.4])
def test_polynomial_fit_is_least_squares(order, hidden_outputs):
    theta = np.linspace(1.0, -0.3, order + 1)
    problem, adjacency, X, Y = system(PolynomialFilter(order), theta, n_experiments=5, hidden_outputs=hidden_outputs)
    measured = ~np.isnan(Y.ravel())
    design, outputs = powers(adjacency, X, order)[measured], Y.ravel()[measured]
    expected, squares, _, _ = np.linalg.lstsq(design, outputs, rcond=None)
    fit = fit_theta(problem, repeated(problem, 2), torch.tensor([[0.0] * (order + 1), [50.0] * (order + 1)]).double())
    np.testing.assert_allclose(fit.theta.numpy(), [expected, expected], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(fit.squares.numpy(), np.repeat(squares, 2), rtol=1e-9)
    inverse = np.linalg.inv(design.T @ design)
    # The ridge that keeps undetermined parameters solvable is 1e-6 of the largest curvature.
    np.testing.assert_allclose(fit.covariance.numpy(), [inverse, inverse], rtol=1e-3, atol=1e-4 * inverse.max())


def test_every_chain_is_fitted_on_its_own_graph():
    filter = PolynomialFilter(2)
    problem, _, X, Y = system(filter, [0.5, 0.3, 0.1], n_experiments=5)
    graphs = [random_graph(6, 0.5, seed) for seed in range(3)] + [0.4 * random_graph(6, 0.9, 3)]
    fit = fit_theta(problem, torch.tensor(np.array(graphs)), torch.zeros(4, 3, dtype=torch.float64))
    for graph, theta in zip(graphs, fit.theta, strict=True):
        expected = np.linalg.lstsq(powers(graph, X, 2), Y.ravel(), rcond=None)[0]
        np.testing.assert_allclose(theta.numpy(), expected, rtol=1e-6, atol=1e-9)


def test_fit_copes_with_powers_of_very_different_size():
    """On 20 nodes the fifth power outweighs the zeroth by 1e4; the fit must still be within 0.1 standard errors."""
    theta = [1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-5]
    problem, adjacency, X, Y = system(PolynomialFilter(5), theta, n_nodes=20, n_experiments=20, noise_std=0.1)
    design = powers(adjacency, X, 5)
    expected = np.linalg.lstsq(design, Y.ravel(), rcond=None)[0]
    standard_errors = 0.1 * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    fit = fit_theta(problem, repeated(problem, 1), torch.zeros(1, 6, dtype=torch.float64))
    assert (np.abs(fit.theta[0].numpy() - expected) / standard_errors).max() < 0.1


@pytest.mark.parametrize("start", [0.0, 0.05, 1.5])
def test_heat_fit_is_the_minimum_that_scipy_finds(start):
    problem, adjacency, X, Y = system(HeatDiffusionFilter(), [0.4], n_experiments=4, noise_std=2.0)

    def squares(theta):
        return ((Y - heat_outputs(adjacency, X, np.array([theta]))[0]) ** 2).sum()

    reference = optimize.minimize_scalar(squares, bounds=(0, 3), method="bounded", options={"xatol": 1e-10})
    fit = fit_theta(problem, repeated(problem, 1), torch.tensor([[start]], dtype=torch.float64))
    assert float(fit.theta) == pytest.approx(reference.x, abs=1e-6)
    assert float(fit.squares) == pytest.approx(reference.fun, rel=1e-9)


def test_arma_fit_is_the_minimum_that_scipy_finds():
    theta = np.array([0.8, 0.3, 0.15])
    problem, adjacency, X, Y = system(ARMAFilter(1, 1), theta, n_experiments=8, noise_std=0.5)

    def residuals(parameters):
        b_0, b_1, a_1 = parameters
        denominator = np.eye(6) + a_1 * adjacency
        return (Y - np.linalg.solve(denominator, (b_0 * X + b_1 * X @ adjacency).T).T).ravel()

    reference = optimize.least_squares(residuals, theta, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    start = torch.tensor(theta * [0.7, 1.5, 0.6])[None]
    fit = fit_theta(problem, repeated(problem, 1), start)
    np.testing.assert_allclose(fit.theta[0].numpy(), reference.x, atol=1e-6)
    assert float(fit.squares) == pytest.approx(2 * reference.cost, rel=1e-9)


def test_fit_stops_at_the_bound():
    """Outputs larger than the inputs would want a negative time; zero is the best that is admissible."""
    problem, _, X, _ = system(HeatDiffusionFilter(), [0.1], n_experiments=4)
    problem = Problem(**{**vars(problem), "targets": torch.tensor(1.5 * X - 0.5 * X.mean(1, keepdims=True))})
    fit = fit_theta(problem, repeated(problem, 3), torch.tensor([[0.0], [0.2], [2.0]], dtype=torch.float64))
    np.testing.assert_allclose(fit.theta.numpy(), 0.0, atol=1e-12)


@pytest.mark.parametrize("filter", [PolynomialFilter(2), HeatDiffusionFilter(), ARMAFilter(2, 1)])
@pytest.mark.parametrize("n_iterations", [1, 3, 30])
def test_fit_is_never_worse_than_its_start(filter, n_iterations):
    problem, *_ = system(filter, None, n_experiments=3, noise_std=3.0)
    start = filter.initial_theta(20, torch.Generator().manual_seed(0)) * 5
    before = problem.residuals(repeated(problem, 20), start).square().sum((-2, -1))
    after = fit_theta(problem, repeated(problem, 20), start, n_iterations).squares
    assert (after <= before * (1 + 1e-12)).all()


# Draws


def whitened_draws(problem, design, outputs, n_chains, noise_std, temperature, dtype, start):
    """Draws of theta in coordinates where their law is the standard normal one, and whether they were accepted."""
    tensors = {name: getattr(problem, name).to(dtype) for name in ("inputs", "targets", "measured", "base")}
    problem = replace(problem, **tensors)
    noise = ChainRNG(range(n_chains), CPU, dtype)
    theta, accepted = sample_theta(
        problem,
        repeated(problem, n_chains),
        torch.tensor(start, dtype=dtype).expand(n_chains, -1),
        torch.full((n_chains,), noise_std, dtype=dtype),
        noise.normal(design.shape[1]),
        noise.uniform(),
        temperature,
    )
    estimate = np.linalg.lstsq(design, outputs, rcond=None)[0]
    root = np.linalg.cholesky(design.T @ design)
    spread = noise_std * math.sqrt(temperature)
    return (theta.double().numpy() - estimate) @ root / spread, accepted


@pytest.mark.parametrize(("dtype", "temperature"), [(torch.float32, 0.25), (torch.float64, 1.0)])
def test_polynomial_draws_have_the_posterior_mean_and_covariance(dtype, temperature):
    """The posterior is normal, around least squares, with covariance noise^2 temperature (J'J)^-1."""
    n_chains = 4000
    problem, adjacency, X, Y = system(PolynomialFilter(2), [0.5, 0.3, -0.1], n_experiments=3, noise_std=0.7)
    design = powers(adjacency, X, 2)
    draws, accepted = whitened_draws(problem, design, Y.ravel(), n_chains, 0.7, temperature, dtype, [0.5, 0.3, -0.1])
    assert accepted.double().mean() > 0.999
    # Three means with standard error n^-1/2, six covariances with standard error at most (2/n)^1/2: at five standard
    # errors 9 * 6e-7, one false alarm in 190,000 runs.
    np.testing.assert_allclose(draws.mean(0), 0, atol=5 / math.sqrt(n_chains))
    np.testing.assert_allclose(np.cov(draws.T), np.eye(3), atol=5 * math.sqrt(2 / n_chains))
    assert stats.kstest((draws**2).sum(1), stats.chi2(3).cdf).pvalue > ALARM


def test_measured_outputs_alone_count():
    problem, adjacency, X, Y = system(PolynomialFilter(1), [0.5, 0.3], n_experiments=4, hidden_outputs=0.6)
    measured = ~np.isnan(Y.ravel())
    design = powers(adjacency, X, 1)[measured]
    draws, accepted = whitened_draws(problem, design, Y.ravel()[measured], 4000, 1.0, 1.0, torch.float64, [0.5, 0.3])
    assert accepted.double().mean() > 0.999
    assert stats.kstest((draws**2).sum(1), stats.chi2(2).cdf).pvalue > ALARM


def test_linear_filters_always_accept():
    """An order of four on a dense graph of eight nodes: ordinary, but its powers differ in size by a factor 600."""
    problem, adjacency, X, Y = system(
        PolynomialFilter(4), [1.0, 0.2, 0.04, 0.01, 0.001], n_nodes=8, density=0.8, n_experiments=20, noise_std=0.1
    )
    design = powers(adjacency, X, 4)
    estimate = np.linalg.lstsq(design, Y.ravel(), rcond=None)[0]
    root = np.linalg.cholesky(design.T @ design)
    start = estimate + 0.1 * np.linalg.solve(root.T, np.ones(5))  # one standard deviation off, as the last draw is
    _, accepted = whitened_draws(problem, design, Y.ravel(), 500, 0.1, 1.0, torch.float64, start)
    assert accepted.all()


def log_logistic(low, high):
    """The law whose quartiles these are."""
    return stats.fisk(np.log(9) / np.log(high / low), scale=np.sqrt(low * high))


@pytest.mark.parametrize("expected", [None, (0.3, 0.7), (0.05, 0.2)])
@pytest.mark.parametrize(("dtype", "temperature"), [(torch.float32, 1.0), (torch.float64, 0.5)])
def test_heat_draws_follow_the_integrated_posterior(dtype, temperature, expected):
    """One dimension, so the posterior is known by integration; the data are weak, so that it is skew and touches 0."""
    n_chains, noise_std = 2000, 3.0
    filter = HeatDiffusionFilter("combinatorial", *(expected or (0.0, 0.7)))
    problem, adjacency, X, Y = system(filter, [0.1], n_experiments=2, noise_std=noise_std, dtype=dtype, seed=4)
    grid = np.linspace(0, 4, 40_001)
    squares = ((Y - heat_outputs(adjacency, X, grid)) ** 2).sum((1, 2))
    density = np.exp(-0.5 * (squares - squares.min()) / (noise_std**2 * temperature))
    assert density[0] > 0.05  # it does touch 0
    if expected:
        density *= log_logistic(*expected).pdf(grid) ** (1 / temperature)
    assert density[-1] < 1e-8  # what lies beyond the grid does not matter
    cumulated = np.cumsum(density) / density.sum()
    theta = torch.full((n_chains, 1), 0.2, dtype=dtype)
    noise = ChainRNG(range(n_chains), CPU, dtype)
    scale = torch.full((n_chains,), noise_std, dtype=dtype)
    for _ in range(20):
        normal, uniform = noise.normal(1), noise.uniform()
        theta, accepted = sample_theta(problem, repeated(problem, n_chains), theta, scale, normal, uniform, temperature)
        assert (theta >= 0).all()
    assert accepted.double().mean() > 0.3
    draws = theta[:, 0].double().numpy()
    # The chains are independent of one another, so the last draws are 2,000 independent ones.
    assert stats.kstest(draws, lambda value: np.interp(value, grid, cumulated)).pvalue > ALARM


@pytest.mark.parametrize(("expected", "temperature"), [(None, 1.0), ((0.3, 7.0), 2.0)])
def test_leaps_follow_the_integrated_posterior_across_a_flat_tail(temperature, expected):
    """Outputs that are hardly more than noise: any diffusion that is long enough explains them."""
    n_chains, noise_std, longest = 300, 5.0, 10.0
    filter = HeatDiffusionFilter("combinatorial", *(expected or (0.0, 0.7)), theta_max=longest)
    problem, adjacency, X, Y = system(filter, [2.0], n_experiments=1, noise_std=noise_std, seed=3)
    grid = np.linspace(0, longest, 20_001)
    squares = ((Y - heat_outputs(adjacency, X, grid)) ** 2).sum((1, 2)) / noise_std**2
    if expected:
        squares[1:] -= 2 * log_logistic(*expected).logpdf(grid[1:])
        squares[0] = np.inf
    else:
        squares += grid**2 / (9 * (Y**2).mean() / (X**2).mean())  # the prior of theta, three gains wide
    density = np.exp(-0.5 * (squares - squares.min()) / temperature)
    cumulated = np.cumsum(density) / density.sum()
    assert np.interp(0.95, cumulated, grid) - np.interp(0.05, cumulated, grid) > 2  # it is wide
    theta = torch.full((n_chains, 1), 0.1).double()
    noise, scale = ChainRNG(range(n_chains), CPU, torch.float64), torch.full((n_chains,), noise_std).double()
    for _ in range(60):
        place, uniform = noise.uniform(1), noise.uniform()
        theta = propose_theta_globally(problem, repeated(problem, n_chains), theta, scale, place, uniform, temperature)
    assert stats.kstest(theta[:, 0].numpy(), lambda value: np.interp(value, grid, cumulated)).pvalue > ALARM


def test_no_leap_without_bounds():
    problem, *_ = system(PolynomialFilter(order=1), [0.1, 0.2], n_experiments=2)
    theta, scale = torch.zeros(3, 2).double(), torch.ones(3).double()
    noise = ChainRNG(range(3), CPU, torch.float64)
    assert (
        propose_theta_globally(problem, repeated(problem, 3), theta, scale, noise.uniform(2), noise.uniform()) is theta
    )


def scaled(adjacency, theta):
    return theta[0] * adjacency


def undefined_above_one(adjacency, theta):
    return torch.where(theta[0] > 1, torch.nan, theta[0]) * adjacency


def test_draws_respect_both_bounds():
    """The data say little, so the local Gaussian often proposes values beyond the bounds."""
    filter = CallableFilter(scaled, limits=((0.2, 0.5),), initial=((0.2, 0.5),))
    problem, *_ = system(filter, [0.3], n_experiments=1)
    n_chains = 2000
    noise = ChainRNG(range(n_chains), CPU, torch.float64)
    theta, scale = torch.full((n_chains, 1), 0.3).double(), torch.full((n_chains,), 5.0).double()
    for _ in range(20):
        theta, _ = sample_theta(problem, repeated(problem, n_chains), theta, scale, noise.normal(1), noise.uniform())
        assert ((theta >= 0.2) & (theta <= 0.5)).all()
    assert len(theta.unique()) > n_chains / 2
    fit = fit_theta(problem, repeated(problem, 1), theta[:1])
    assert 0.2 <= float(fit.theta) <= 0.5


def test_chain_stays_where_the_filter_is_undefined():
    problem, *_ = system(CallableFilter(undefined_above_one), [0.9], n_experiments=1)
    noise = ChainRNG(range(500), CPU, torch.float64)
    theta, scale = torch.full((500, 1), 0.875).double(), torch.full((500,), 10.0).double()
    theta, accepted = sample_theta(problem, repeated(problem, 500), theta, scale, noise.normal(1), noise.uniform())
    assert torch.isfinite(theta).all()
    assert (theta <= 1).all()
    assert (theta[~accepted] == 0.875).all()
    assert 0 < accepted.double().mean() < 1


@pytest.mark.parametrize("hidden_outputs", [0.0, 0.5])
def test_noise_draws_are_inverse_gamma(hidden_outputs):
    """Under the prior 1 / variance the variance is inverse gamma, of shape n / 2 and scale half the squares."""
    theta = [0.5, 0.3]
    problem, adjacency, X, Y = system(PolynomialFilter(1), theta, n_experiments=2, hidden_outputs=hidden_outputs)
    n_chains, n_measured = 3000, int((~np.isnan(Y)).sum())
    assert problem.n_measured == n_measured
    squares = np.nansum((Y - 0.5 * X - 0.3 * X @ adjacency) ** 2)
    gamma = ChainRNG(range(n_chains), CPU, torch.float64).gamma(0.5 * n_measured)
    draws = sample_noise_std(
        problem, repeated(problem, n_chains), torch.tensor(theta).double().expand(n_chains, -1), gamma
    )
    law = stats.invgamma(0.5 * n_measured, scale=0.5 * squares)
    assert stats.kstest(draws.numpy() ** 2, law.cdf).pvalue > ALARM


def drawn_constants(X, Y, n_chains=4000):
    """Draws of theta in y = theta x, with noise of one."""
    known = KnownEdges(np.ones((X.shape[1], X.shape[1]), dtype=bool), np.zeros((X.shape[1], X.shape[1])))
    problem = Problem.from_numpy(X, Y, known, PolynomialFilter(0), CPU, torch.float64)
    noise = ChainRNG(range(n_chains), CPU, torch.float64)
    start, noise_std = torch.zeros(n_chains, 1).double(), torch.ones(n_chains).double()
    graphs = repeated(problem, n_chains)
    return sample_theta(problem, graphs, start, noise_std, noise.normal(1), noise.uniform())[0][:, 0].numpy()


def test_prior_of_theta_is_as_wide_as_the_gain_of_what_was_measured():
    """One output of a hundred: the posterior of Bayes' rule, whose prior is three times the gain of that output."""
    X, Y = np.ones((10, 10)), np.full((10, 10), np.nan)
    Y[3, 4] = 2.0
    precision = 1 + 1 / (3 * 2.0) ** 2
    law = stats.norm(2.0 / precision, precision**-0.5)
    assert stats.kstest(drawn_constants(X, Y), law.cdf).pvalue > ALARM


def test_inputs_of_zero_give_theta_a_prior_of_gain_one():
    """Nothing passes through the filter, so that the posterior is the prior."""
    draws = drawn_constants(np.zeros((2, 3)), np.ones((2, 3)))
    assert stats.kstest(draws, stats.norm(0, 3).cdf).pvalue > ALARM
