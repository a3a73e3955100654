"""Langevin dynamics against its closed form, against a literal Algorithm 1, and under symmetries of the problem."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from sklearn_graphid import (
    PAPER_SETTINGS,
    ErdosRenyiPrior,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    StochasticBlockPrior,
)
from sklearn_graphid._utils._torch import draw_seeds
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.priors import FlatPrior
from sklearn_graphid.samplers import (
    ChainRNG,
    ChainState,
    LangevinKernel,
    Problem,
    binary_sweeps,
    initial_state,
    langevin_step,
    run_kernels,
)
from sklearn_graphid.samplers._langevin import largest_curvature

CPU = torch.device("cpu")
PAPER_SIGMAS = tuple(float(sigma) for sigma in np.linspace(0.5, 0.03, 10))
FILTERS = {
    "polynomial": (PolynomialFilter(2), [0.05, 0.08, -0.03]),
    "heat": (HeatDiffusionFilter(), [0.4]),
}


class ReplayedRNG:
    """A stand-in for `ChainRNG` that gives out arrays made before, each of them once and in order."""

    def __init__(self, normals=(), uniforms=()):
        self.normals, self.uniforms = list(normals), list(uniforms)

    def normal(self, *shape):
        draw = self.normals.pop(0)
        assert draw.shape[1:] == shape
        return draw

    def uniform(self, *shape):
        draw = self.uniforms.pop(0)
        assert draw.shape[1:] == shape
        return draw


class RelabelledRNG:
    """The draws of another source, with those that belong to the unknown pairs in another order."""

    def __init__(self, source, order):
        self.source, self.order = source, torch.as_tensor(order)

    def normal(self, *shape):
        return self._renamed(self.source.normal(*shape))

    def uniform(self, *shape):
        return self._renamed(self.source.uniform(*shape))

    def _renamed(self, draws):
        return draws[:, self.order] if draws.shape[1:] == self.order.shape else draws

    def gamma(self, shape_parameter):
        return self.source.gamma(shape_parameter)


def make_problem(name, *, n_nodes=6, n_experiments=4, fraction=0.7, seed=0, dtype=torch.float64):
    filter, theta = FILTERS[name]
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < 0.4, 1)
    adjacency = (upper | upper.T).astype(float)
    X, Y = make_system(adjacency, filter, theta, n_experiments=n_experiments, random_state=seed)
    known = hide_edges(adjacency, fraction, random_state=seed)
    return Problem.from_numpy(X, Y, known, filter, CPU, dtype), X, Y, known


def langevin_kernel(**changes):
    defaults = {
        "sigmas": PAPER_SIGMAS,
        "n_steps_per_level": 20,
        "step_size": 1e-5,
        "temperature": 0.5,
        "theta_learning_rate": 0.01,
        "noise_std": 1.0,
    }
    return LangevinKernel(**{**defaults, **changes})


def denoiser_of(prior, n_nodes, dtype=torch.float64):
    return prior.bind(n_nodes, CPU, dtype)


# One step


def test_step_is_its_formula():
    rng = np.random.default_rng(0)
    pairs, drift, normal = rng.normal(size=(3, 4, 7))
    steps = np.array([1e-4, 0.01, 0.3, 2.0])[:, None]
    expected = pairs + steps * drift + np.sqrt(2 * steps * 0.5) * normal
    moved = langevin_step(*map(torch.tensor, (pairs, drift, steps)), 0.5, torch.tensor(normal))
    np.testing.assert_allclose(moved.numpy(), expected, rtol=1e-12)
    number = langevin_step(torch.tensor(pairs), torch.tensor(drift), 0.01, 0.5, torch.tensor(normal))
    np.testing.assert_allclose(number[1].numpy(), expected[1], rtol=1e-12)


@pytest.mark.parametrize(("ratio", "temperature"), [(0.02, 1.0), (0.5, 1.0), (0.5, 0.3), (1.5, 1.0)])
def test_stationary_law_of_a_gaussian_has_the_known_discretisation_bias(ratio, temperature):
    """With step e on a variance v the recursion is an AR(1) process of stationary variance t v / (1 - e / 2v).

    The exact law has variance t v; the excess is the price of not correcting the step.
    """
    n, mean, variance = 40_000, 0.3, 2.0
    generator = torch.Generator().manual_seed(0)
    step = ratio * variance
    values = torch.full((1, n), mean, dtype=torch.float64)
    n_steps = math.ceil(10 / -math.log(abs(1 - ratio)))  # what is left of the start is exp(-20) of the variance
    for _ in range(n_steps):
        normal = torch.randn(1, n, generator=generator, dtype=torch.float64)
        values = langevin_step(values, (mean - values) / variance, step, temperature, normal)
    expected = temperature * variance / (1 - ratio / 2)
    # Five standard errors on mean and variance: one false alarm in 900,000 runs for each case.
    assert float(values.mean()) == pytest.approx(mean, abs=5 * math.sqrt(expected / n))
    assert float(values.var()) == pytest.approx(expected, rel=5 * math.sqrt(2 / n))


# The start


@pytest.mark.parametrize("name", FILTERS)
def test_start_is_around_a_quarter_and_in_the_range_of_the_filter(name):
    problem, *_ = make_problem(name)
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(5, problem.n_unknown, generator=generator, dtype=torch.float64)
    uniform = torch.rand(5, problem.filter.n_parameters(), generator=generator, dtype=torch.float64)
    state = initial_state(problem, ReplayedRNG([normal], [uniform]), noise_std=0.7)
    # A normal draw of mean 0.5 and standard deviation 0.1, halved.
    torch.testing.assert_close(state.pairs, (0.5 + 0.1 * normal) / 2)
    low, high = np.array(problem.filter.initial_range()).T
    np.testing.assert_allclose(state.theta.numpy(), low + (high - low) * uniform.numpy())
    assert (state.noise_std == 0.7).all()


def test_unknown_noise_starts_at_the_size_of_the_outputs():
    problem, _, Y, _ = make_problem("heat")
    state = initial_state(problem, ChainRNG([0, 1], CPU, torch.float64), noise_std=None)
    np.testing.assert_allclose(state.noise_std.numpy(), np.sqrt((Y**2).mean()), rtol=1e-12)


# Algorithm 1


def literal_algorithm_1(name, X, Y, known, log_prior, settings, normals, start, theta):
    """Algorithm 1 as it is printed, for one chain: every gradient by autograd, theta by torch's Adam.

    With what the text leaves out: the clip to [-sigma, 1 + sigma], theta updated on the soft matrix after the graph's
    step, the heat filter's theta clipped at 0.
    """
    X, Y = torch.tensor(X), torch.tensor(Y)
    rows, columns = (torch.tensor(index) for index in known.unknown_pairs())
    fixed = torch.tensor(known.values)

    def matrix(a):
        full = fixed.clone()
        full[rows, columns] = a
        full[columns, rows] = a
        return full

    def log_likelihood(a, theta):
        A = matrix(a)
        if name == "polynomial":
            h = sum(coefficient * torch.linalg.matrix_power(A, p) for p, coefficient in enumerate(theta))
        else:
            h = torch.linalg.matrix_exp(-theta[0] * (torch.diag(A.sum(1)) - A))
        return -((Y.T - h @ X.T) ** 2).sum() / (2 * settings.noise_std**2)

    a = torch.tensor(start)
    theta = torch.tensor(theta).requires_grad_()
    optimiser = torch.optim.Adam([theta], lr=settings.theta_learning_rate)
    levels = []
    for sigma in settings.sigmas:
        alpha = settings.step_size * sigma**2 / settings.sigmas[-1] ** 2
        for _ in range(settings.n_steps_per_level):
            z = torch.tensor(next(normals))
            leaf = a.clone().requires_grad_()
            target = log_likelihood(leaf, theta.detach())
            if log_prior is not None:
                target = target + log_prior(leaf, sigma)
            (gradient,) = torch.autograd.grad(target, leaf)
            a = a + alpha * gradient + math.sqrt(2 * alpha * settings.temperature) * z
            a = a.clamp(-sigma, 1 + sigma)
            optimiser.zero_grad()
            (-log_likelihood(a, theta)).backward()
            optimiser.step()
            if name == "heat":
                with torch.no_grad():
                    theta.clamp_(min=0)
        levels.append((a.numpy().copy(), theta.detach().numpy().copy()))
    return levels


def mixture_log_density(probabilities):
    """log p(a~) of independent pairs: a mixture of two normal laws around 0 and 1, written out."""
    p = torch.tensor(probabilities)

    def log_density(a, sigma):
        around_zero = torch.log(1 - p) - a**2 / (2 * sigma**2)
        around_one = torch.log(p) - (a - 1) ** 2 / (2 * sigma**2)
        return torch.logaddexp(around_zero, around_one).sum()

    return log_density


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("with_prior", [True, False])
@pytest.mark.parametrize("name", FILTERS)
def test_annealed_langevin_is_the_literal_algorithm(name, with_prior, dtype):
    problem, X, Y, known = make_problem(name, dtype=dtype)
    n_chains, random = 2, np.random.default_rng(5)
    settings = langevin_kernel(n_steps_per_level=10, step_size=2e-5)
    n_steps = len(settings.sigmas) * settings.n_steps_per_level
    normals = random.normal(size=(n_steps, n_chains, known.n_unknown))
    starts = 0.25 + 0.05 * random.normal(size=(n_chains, known.n_unknown))
    thetas = np.array(FILTERS[name][1]) * random.uniform(0.5, 1.5, size=(n_chains, 1))

    labels, blocks = [0, 0, 0, 1, 1, 1], np.array([[0.6, 0.1], [0.1, 0.3]])
    denoise = denoiser_of(StochasticBlockPrior(labels, blocks) if with_prior else FlatPrior(), 6, dtype)
    rows, columns = known.unknown_pairs()
    probabilities = blocks[np.array(labels)[rows], np.array(labels)[columns]]
    log_prior = mixture_log_density(probabilities) if with_prior else None

    state = ChainState(*(torch.tensor(value, dtype=dtype) for value in (starts, thetas, np.ones(n_chains))))
    rng = ReplayedRNG([torch.tensor(normal, dtype=dtype) for normal in normals])
    reached = list(run_kernels(problem, denoise, [settings], state, rng))
    assert not rng.normals
    assert [step.info.sigma for step in reached] == list(PAPER_SIGMAS)

    tolerance = 1e-4 if dtype == torch.float32 else 1e-9
    clipped = 0
    for chain in range(n_chains):
        literal = literal_algorithm_1(
            name, X, Y, known, log_prior, settings, iter(normals[:, chain]), starts[chain], thetas[chain]
        )
        for (_, _, level, info), (pairs, theta) in zip(reached, literal, strict=True):
            np.testing.assert_allclose(level.chain.pairs[chain].double().numpy(), pairs, atol=tolerance)
            np.testing.assert_allclose(level.chain.theta[chain].double().numpy(), theta, atol=tolerance)
            clipped += ((pairs == -info.sigma) | (pairs == 1 + info.sigma)).sum()
    assert clipped or name == "heat"  # the clip was put to the test


def test_step_sizes_are_the_papers():
    problem, *_ = make_problem("heat")
    kernel = langevin_kernel(n_steps_per_level=1, step_size=1e-6)
    state = initial_state(problem, ChainRNG([0], CPU, torch.float64), 1.0)
    steps = [float(kernel._step_size(problem, sigma, state)) for sigma in PAPER_SIGMAS]
    np.testing.assert_allclose(steps, 1e-6 * np.square(PAPER_SIGMAS) / 0.03**2, rtol=1e-12)


@pytest.mark.parametrize("name", FILTERS)
def test_paper_settings_run_the_literal_algorithm(name):
    """The whole way through the estimator: same seed, same noise, same graph and same theta at the end."""
    _, X, Y, known = make_problem(name)
    filter = FILTERS[name][0]
    arguments = {**PAPER_SETTINGS, "n_steps": 15, "step_size": 2e-5}
    identifier = LangevinSystemIdentifier(filter, ErdosRenyiPrior(0.3), **arguments, random_state=3).fit(X, Y, known)

    rng = ChainRNG(draw_seeds(3, 1), CPU)
    start = 0.25 + 0.05 * rng.normal(known.n_unknown)[0].double().numpy()
    low, high = np.array(filter.initial_range()).T
    theta = low + (high - low) * rng.uniform(len(low))[0].double().numpy()
    normals = (rng.normal(known.n_unknown)[0].double().numpy() for _ in range(150))
    log_prior = mixture_log_density(np.full(known.n_unknown, 0.3))
    settings = langevin_kernel(n_steps_per_level=15, step_size=2e-5)
    pairs, theta = literal_algorithm_1(name, X, Y, known, log_prior, settings, normals, start, theta)[-1]

    np.testing.assert_array_equal(identifier.adjacency_, known.fill(pairs > 0.5))
    np.testing.assert_allclose(identifier.theta_, theta, atol=1e-4)
    np.testing.assert_array_equal(identifier.edge_probabilities_, identifier.adjacency_)


def test_without_prior_is_the_same_with_a_score_of_zero():
    _, X, Y, known = make_problem("heat")
    arguments = {**PAPER_SETTINGS, "n_steps": 15, "step_size": 2e-5}
    identifier = LikelihoodLangevinIdentifier("heat", **arguments, random_state=3).fit(X, Y, known)
    rng = ChainRNG(draw_seeds(3, 1), CPU)
    start = 0.25 + 0.05 * rng.normal(known.n_unknown)[0].double().numpy()
    theta = 0.3 + 0.4 * rng.uniform(1)[0].double().numpy()
    normals = (rng.normal(known.n_unknown)[0].double().numpy() for _ in range(150))
    settings = langevin_kernel(n_steps_per_level=15, step_size=2e-5)
    pairs, theta = literal_algorithm_1("heat", X, Y, known, None, settings, normals, start, theta)[-1]
    np.testing.assert_array_equal(identifier.adjacency_, known.fill(pairs > 0.5))
    np.testing.assert_allclose(identifier.theta_, theta, atol=1e-4)


def test_paper_settings_are_the_papers():
    sigmas = np.linspace(PAPER_SETTINGS["sigma_max"], PAPER_SETTINGS["sigma_min"], PAPER_SETTINGS["n_levels"])
    # The levels that the published checkpoints were trained for, to their four digits.
    np.testing.assert_allclose(sigmas[:7], [0.5, 0.4478, 0.3956, 0.3433, 0.2911, 0.2389, 0.1867], atol=5e-5)
    assert PAPER_SETTINGS["n_steps"] == 300
    assert PAPER_SETTINGS["n_chains"] == 1
    assert PAPER_SETTINGS["temperature"] == 0.5
    LangevinSystemIdentifier(**PAPER_SETTINGS)


# Known pairs, and symmetries


KERNELS = {
    "langevin": lambda noise_std, step_size=None: langevin_kernel(
        n_steps_per_level=4, step_size=step_size, theta_learning_rate=None, noise_std=noise_std
    ),
    "sweeps": lambda noise_std, _=None: binary_sweeps(6, sigma=0.8, n_parts=3, noise_std=noise_std),
    "sweeps without parts": lambda noise_std, _=None: binary_sweeps(6, sigma=0.3, n_parts=1, noise_std=noise_std),
}


def run_kernel(name, problem, denoise, noise_std, rng, chain, *step_size):
    """The states that the chains went through."""
    if name != "langevin":
        chain = chain._replace(pairs=(chain.pairs > 0.25).to(chain.pairs.dtype))
    kernel = KERNELS[name](noise_std, *step_size)
    return [step.state.chain for step in run_kernels(problem, denoise, [kernel], chain, rng)]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise_std", [1.0, None])
def test_known_pairs_never_move(kernel, noise_std):
    """Seen from the prior, which is handed every matrix of the run."""
    problem, _, _, known = make_problem("heat", fraction=0.4)
    inner, seen = denoiser_of(ErdosRenyiPrior(0.3), 6), []

    def denoise(adjacency, sigma, known=None):
        seen.append((adjacency.clone(), sigma))
        return inner(adjacency, sigma, known)

    rng = ChainRNG(range(4), CPU, torch.float64)
    run_kernel(kernel, problem, denoise, noise_std, rng, initial_state(problem, rng, noise_std))
    assert len(seen) >= 6
    for adjacency, _ in seen:
        values = adjacency.numpy()
        np.testing.assert_array_equal(values[:, known.mask], np.tile(known.values[known.mask], (len(values), 1)))
        np.testing.assert_array_equal(values, np.swapaxes(values, 1, 2))
    moved = torch.stack([adjacency for adjacency, _ in seen if len(adjacency) == 4]).std(0).numpy()
    assert (moved[:, ~known.mask] > 0).all()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("noise_std", [1.0, None])
def test_relabelling_the_nodes_permutes_the_result(kernel, name, noise_std):
    filter = FILTERS[name][0]
    problem, X, Y, known = make_problem(name)
    labels, blocks = np.array([0, 0, 0, 1, 1, 1]), [[0.6, 0.1], [0.1, 0.3]]
    order = np.random.default_rng(1).permutation(6)
    renamed_known = type(known)(known.mask[np.ix_(order, order)], known.values[np.ix_(order, order)])
    renamed_problem = Problem.from_numpy(X[:, order], Y[:, order], renamed_known, filter, CPU, torch.float64)
    numbers = known.fill(np.arange(known.n_unknown))  # which unknown pair stands where
    pair_order = numbers[np.ix_(order, order)][renamed_known.unknown_pairs()].astype(int)

    seeds = range(5)
    rng = ChainRNG(seeds, CPU, torch.float64)
    renamed_rng = RelabelledRNG(ChainRNG(seeds, CPU, torch.float64), pair_order)
    denoise = denoiser_of(StochasticBlockPrior(labels, blocks), 6)
    renamed_denoise = denoiser_of(StochasticBlockPrior(labels[order], blocks), 6)
    # A derived step comes from a few power iterations, which start in a direction that knows the order of the pairs.
    states = run_kernel(kernel, problem, denoise, noise_std, rng, initial_state(problem, rng, noise_std), 1e-4)
    start = initial_state(renamed_problem, renamed_rng, noise_std)
    renamed = run_kernel(kernel, renamed_problem, renamed_denoise, noise_std, renamed_rng, start, 1e-4)
    for state, other in zip(states, renamed, strict=True):
        torch.testing.assert_close(other.pairs, state.pairs[:, pair_order], rtol=0, atol=1e-8)
        torch.testing.assert_close(other.theta, state.theta, rtol=0, atol=1e-8)
        torch.testing.assert_close(other.noise_std, state.noise_std, rtol=0, atol=1e-8)


@pytest.mark.parametrize("n_sweeps", [0, 8])
@pytest.mark.parametrize(
    ("identifier", "noise_std"), [(LangevinSystemIdentifier, None), (LikelihoodLangevinIdentifier, 0.7)]
)
def test_units_of_a_diffusion_do_not_matter(identifier, n_sweeps, noise_std):
    """Heat in other units: X, Y and the noise are multiplied, theta is a time and stays.

    A power of two scales floating-point numbers without rounding, so Langevin's run is the same to the last bit. A
    sweep compares log-likelihoods that hold the logarithm of the noise, which rounds in single precision.
    """
    _, X, Y, known = make_problem("heat", fraction=0.8, dtype=torch.float32)
    runs = []
    for unit in (1.0, 2.0**-40, 2.0**40):
        scaled = noise_std if noise_std is None else unit * noise_std
        settings = {"n_sweeps": n_sweeps, "noise_std": scaled, "n_levels": 3, "n_steps": 4, "n_chains": 4}
        runs.append(identifier("heat", **settings, random_state=0).fit(unit * X, unit * Y, known))
        assert runs[-1].noise_std_ == pytest.approx(unit * runs[0].noise_std_, rel=1e-12)
    for other in runs[1:]:
        tolerance = 1e-4 if n_sweeps else 0.0
        np.testing.assert_allclose(other.edge_probabilities_, runs[0].edge_probabilities_, rtol=0, atol=tolerance)
        np.testing.assert_allclose(other.theta_samples_, runs[0].theta_samples_, rtol=0, atol=tolerance)
        np.testing.assert_array_equal(other.adjacency_, runs[0].adjacency_)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("noise_std", [0.7, None])
@pytest.mark.parametrize(("input_unit", "output_unit"), [(2.0**8, 1.0), (2.0**-5, 2.0**6)])
def test_units_of_a_polynomial_go_into_theta(kernel, noise_std, input_unit, output_unit):
    """Outputs c times as large want theta c times as large, inputs c times as large theta c times as small."""
    problem, X, Y, known = make_problem("polynomial")
    other = Problem.from_numpy(input_unit * X, output_unit * Y, known, problem.filter, CPU, torch.float64)
    gain = output_unit / input_unit
    denoise = denoiser_of(ErdosRenyiPrior(0.3), 6)
    results = []
    for question, theta_unit, noise_unit in ((problem, 1.0, 1.0), (other, gain, output_unit)):
        rng = ChainRNG(range(4), CPU, torch.float64)
        scaled = noise_std if noise_std is None else noise_unit * noise_std
        state = initial_state(question, rng, scaled)
        state = state._replace(theta=theta_unit * state.theta)
        results.append(run_kernel(kernel, question, denoise, scaled, rng, state)[-1])
    plain, scaled = results
    torch.testing.assert_close(scaled.pairs, plain.pairs, rtol=0, atol=1e-9)
    torch.testing.assert_close(scaled.theta, gain * plain.theta, rtol=1e-9, atol=0)
    torch.testing.assert_close(scaled.noise_std, output_unit * plain.noise_std, rtol=1e-9, atol=0)


# The derived step


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("seed", range(3))
def test_curvature_is_the_largest_eigenvalue_of_gauss_newton(name, seed):
    """Against the dense matrix J'J / noise^2, J by autograd. Six power iterations and a margin of 1.2: 0.8 to 1.25."""
    problem, *_ = make_problem(name, seed=seed)
    rng = ChainRNG(range(3), CPU, torch.float64)
    state = initial_state(problem, rng, 0.5)
    estimates = largest_curvature(problem, state)
    for chain, estimate in enumerate(estimates):
        theta = state.theta[chain : chain + 1]

        def outputs(pairs, theta=theta):
            return (problem.filter.apply(problem.assemble(pairs[None]), theta, problem.inputs) * problem.measured)[0]

        jacobian = torch.autograd.functional.jacobian(outputs, state.pairs[chain]).flatten(0, 1)
        exact = torch.linalg.eigvalsh(jacobian.T @ jacobian)[-1] / 0.5**2
        assert 0.8 < float(estimate / exact) < 1.25


@pytest.mark.parametrize("filter", [PolynomialFilter(2), HeatDiffusionFilter(), ARMAFilter(1, 1)])
def test_derived_step_keeps_every_chain_finite(filter):
    rng = np.random.default_rng(0)
    adjacency = np.triu(rng.random((8, 8)) < 0.4, 1).astype(float)
    X, Y = make_system(adjacency + adjacency.T, filter, None, n_experiments=30, noise_std=0.05, random_state=0)
    identifier = LikelihoodLangevinIdentifier(filter, noise_std=0.05, n_chains=8, n_steps=12, random_state=0).fit(X, Y)
    assert identifier.diagnostics_["n_diverged"] == 0
    assert np.isfinite(identifier.diagnostics_["log_likelihood"]).all()
