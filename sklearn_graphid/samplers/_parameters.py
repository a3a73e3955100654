"""Parameters: Adam steps, draws and fits of theta and of the noise level, and the moves that redraw them.

The moves of offsets and outliers, and of density and trust, are here too; `_working_outputs` and `_tempering` say how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..filters import Moments, ThetaCurve
from ._kernel import RandomSource
from ._problem import Problem, noise_std_from
from ._sweeps import Move, Sweep, SweepState
from ._tempering import density_of, log_weight_of_prior, redraw_prior, start_density, trust_of

__all__ = [
    "AdamState",
    "DrawMeasurements",
    "DrawNoise",
    "DrawPrior",
    "DrawTheta",
    "DrawThetaFromPool",
    "ThetaFit",
    "adam_step",
    "drawn_coefficients",
    "fit_theta",
    "log_density_of_theta",
    "log_marginal_likelihood",
    "propose_theta_globally",
    "redraw_theta_from_pool",
    "sample_noise_std",
    "sample_theta",
    "theta_precision",
]

# A share of its own curvature is added to every parameter's, so that the normal equations of parameters that cannot be
# told apart can be solved. They are solved in double precision, where this is far below anything that matters.
_RELATIVE_RIDGE = 1e-12
# Unless the filter has its own, the prior of theta is a Gaussian whose standard deviation is so many times the gain
# from inputs to outputs: proper where the data see nothing, as on an empty graph, and wide where they do. Wider still,
# and weak data would favour the empty graph, whose theta may be anything (Lindley's paradox).
_PRIOR_WIDTH = 3.0


class AdamState(NamedTuple):
    """Moments of the gradient, and how many steps they hold."""

    first: Tensor
    second: Tensor
    n_steps: int

    @classmethod
    def zeros_like(cls, values: Tensor) -> AdamState:
        """The state before the first step."""
        return cls(torch.zeros_like(values), torch.zeros_like(values), 0)


def adam_step(
    values: Tensor, loss_gradient: Tensor, state: AdamState, learning_rate: float
) -> tuple[Tensor, AdamState]:
    """One step of Adam (Kingma and Ba 2015, with their constants) that goes down the loss."""
    decay_first, decay_second, epsilon = 0.9, 0.999, 1e-8
    n_steps = state.n_steps + 1
    first = state.first.lerp(loss_gradient, 1 - decay_first)
    second = state.second.lerp(loss_gradient.square(), 1 - decay_second)
    unbiased_first = first / (1 - decay_first**n_steps)
    unbiased_second = second / (1 - decay_second**n_steps)
    moved = values - learning_rate * unbiased_first / (unbiased_second.sqrt() + epsilon)
    return moved, AdamState(first, second, n_steps)


class _Quadratic(NamedTuple):
    """Least squares around theta, in double precision."""

    squares: Tensor  # (chains,) sum of squared residuals
    gram: Tensor  # (chains, parameters, parameters), J'J for the outputs' derivatives J
    slope: Tensor  # (chains, parameters), J' times the residuals, with the prior's


class _NormalEquations(NamedTuple):
    squares: Tensor  # (chains,) sum of squared residuals
    cholesky: Tensor  # (chains, parameters, parameters) of J'J, with prior, damping and ridge
    step: Tensor  # (chains, parameters), the Gauss-Newton step


def _quadratic(problem: Problem, curve: ThetaCurve, theta: Tensor, precision: Tensor | float) -> _Quadratic:
    """Sums around theta; `precision` (chains, 1) is the prior's, for noise of one."""
    outputs, jacobian = curve(theta)
    residuals, design = problem.targets - outputs, jacobian.movedim(-1, 1)
    if not problem.is_complete:
        residuals, design = residuals * problem.measured, design * problem.measured
    residuals, design = residuals.flatten(1).double(), design.flatten(2).double()
    slope = (design @ residuals[..., None])[..., 0] - precision * theta.double()
    # The design of a parameter that is fixed is zero, so that it has no part in the other equations.
    slope = slope * problem.filter.is_free(slope)
    return _Quadratic(residuals.square().sum(-1), design @ design.mT, slope)


def _solved(quadratic: _Quadratic, precision: Tensor | float, damping: Tensor | float = 0.0) -> _NormalEquations:
    diagonal = quadratic.gram.diagonal(dim1=-2, dim2=-1)
    added = precision + (damping + _RELATIVE_RIDGE) * diagonal + torch.finfo(torch.float64).tiny ** 0.5
    cholesky, _ = torch.linalg.cholesky_ex(quadratic.gram + torch.diag_embed(added))
    step = torch.cholesky_solve(quadratic.slope[..., None], cholesky)[..., 0]
    return _NormalEquations(quadratic.squares, cholesky, step)


def _normal_equations(problem: Problem, curve: ThetaCurve, theta: Tensor, precision: Tensor) -> _NormalEquations:
    return _solved(_quadratic(problem, curve, theta, precision), precision)


def theta_precision(problem: Problem, noise_std: Tensor) -> Tensor:
    """Precision (chains, 1) of theta's Gaussian prior in units of the noise variance."""
    inputs = problem.inputs.double().square().mean()
    # Inputs of zero have no gain, so that nothing tells the scale of theta; a gain of one keeps it finite.
    gain = (problem.output_power / inputs).sqrt() if float(inputs) > 0 else torch.ones_like(inputs)
    width = _PRIOR_WIDTH * gain
    return (noise_std.double() / width.clamp_min(1e-150)).square()[:, None].clamp_max(1e30)


def log_density_of_theta(problem: Problem, theta: Tensor, squares: Tensor, noise_std: Tensor) -> Tensor:
    """Log-density (chains,) of theta given graph and noise, up to a constant; `squares` are the residuals'."""
    prior = problem.filter.log_prior(theta)
    if prior is None:
        precision = theta_precision(problem, noise_std)
        prior = -0.5 * (precision * theta.double().square()).sum(-1) / noise_std.double() ** 2
    return prior - 0.5 * squares.double() / noise_std.double() ** 2


def log_marginal_likelihood(moments: Moments, noise_std: Tensor, precision: Tensor, n_measured: int) -> Tensor:
    """Log-likelihood (...) with the regressors' coefficients integrated out.

    Parameters
    ----------
    moments : Moments (...)
        Of the regression. Without regressors it is the log-likelihood itself.
    noise_std, precision : Tensor that fits (...)
        The noise level, and the precision of the coefficients' prior in units of the noise variance.
    n_measured : int
        How many outputs were measured.
    """
    n_parameters = moments.cross.shape[-1]
    explained, log_volume = _explained(moments, precision)
    normaliser = (n_measured - n_parameters) * noise_std.double().log()
    return -0.5 * (moments.squares - explained) / noise_std.double() ** 2 - 0.5 * log_volume - normaliser


def _explained(moments: Moments, precision: Tensor) -> tuple[Tensor, Tensor]:
    """b' G^-1 b and log |G| (...) for the Gram matrix with the prior's precision, by elimination.

    Entry by entry, as there are few regressors and very many matrices.
    """
    n_parameters, smallest = moments.cross.shape[-1], torch.finfo(torch.float64).tiny ** 0.5
    explained, log_volume = torch.zeros_like(moments.squares), torch.zeros_like(moments.squares)
    factors: list[list[Tensor]] = []  # unit lower triangular
    pivots: list[Tensor] = []
    slopes: list[Tensor] = []
    for row in range(n_parameters):
        own = moments.gram[..., row, row]
        pivot, slope = own * (1 + _RELATIVE_RIDGE) + precision + smallest, moments.cross[..., row]
        products: list[Tensor] = []
        for column in range(row):
            product = moments.gram[..., row, column]
            for before in range(column):
                product = product - products[before] * factors[column][before]
            products.append(product)
        factors.append([product / pivots[column] for column, product in enumerate(products)])
        for column, factor in enumerate(factors[row]):
            pivot, slope = pivot - factor * products[column], slope - factor * slopes[column]
        pivots.append(pivot)
        slopes.append(slope)
        explained, log_volume = explained + slope**2 / pivot, log_volume + pivot.log()
    return explained, log_volume


def sample_theta(
    problem: Problem,
    adjacency: Tensor,
    theta: Tensor,
    noise_std: Tensor,
    normal: Tensor,
    uniform: Tensor,
    temperature: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Draw theta given the graph, by a Metropolis step whose proposal is the local Gaussian of Gauss-Newton.

    The Gaussian prior is part of the proposal even where the filter has a prior of its own: it keeps the step finite
    where the data say nothing. For a filter that is linear in theta the proposal is the posterior itself and is always
    accepted.

    Parameters
    ----------
    normal, uniform : Tensor (chains, parameters) and (chains,)
        The randomness.

    Returns
    -------
    theta, accepted : Tensor (chains, parameters) and (chains,) of bool
        The new values.
    """
    spread = noise_std.double() * temperature**0.5
    precision = theta_precision(problem, noise_std)
    curve = problem.filter.along_theta(adjacency, problem.inputs)
    here = _normal_equations(problem, curve, theta, precision)
    jump = torch.linalg.solve_triangular(here.cholesky.mT, normal.double()[..., None], upper=True)[..., 0]
    jump = jump * problem.filter.is_free(jump)
    proposal = (theta + here.step + spread[:, None] * jump).to(theta.dtype)
    admissible = (problem.filter.constrain(proposal) == proposal).all(-1)
    proposal = torch.where(admissible[:, None], proposal, theta)
    if problem.filter.linear_in_theta:
        # The proposal is the posterior itself; the ratio is one but for rounding.
        accepted = admissible & torch.isfinite(proposal).all(-1)
    else:
        there = _normal_equations(problem, curve, proposal, precision)
        forward = _log_proposal(proposal - theta - here.step, here.cholesky, spread)
        backward = _log_proposal(theta - proposal - there.step, there.cholesky, spread)
        gain = log_density_of_theta(problem, proposal, there.squares, noise_std)
        gain = gain - log_density_of_theta(problem, theta, here.squares, noise_std)
        log_ratio = gain / temperature + backward - forward
        accepted = admissible & (uniform.log() < log_ratio)  # a comparison with nan is False: the chain stays
    return torch.where(accepted[:, None], proposal, theta), accepted


def propose_theta_globally(
    problem: Problem,
    adjacency: Tensor,
    theta: Tensor,
    noise_std: Tensor,
    place: Tensor,
    uniform: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Offer theta a place anywhere within the filter's bounds, by a Metropolis step; without bounds nothing happens.

    A local step crosses a flat stretch or a valley between two modes slowly, if at all.

    Parameters
    ----------
    place, uniform : Tensor (chains, parameters) and (chains,)
        The randomness, between 0 and 1.

    Returns
    -------
    Tensor (chains, parameters)
        The new values.
    """
    low, high = torch.tensor(problem.filter.bounds(), dtype=theta.dtype, device=theta.device).unbind(1)
    if not bool(torch.isfinite(high - low).all()):
        return theta
    proposal = low + (high - low) * place
    curve = problem.filter.along_theta(adjacency, problem.inputs)

    def log_density(values: Tensor) -> Tensor:
        residuals = (problem.targets - curve(values)[0]) * problem.measured
        squares = residuals.double().square().sum((-2, -1))
        return log_density_of_theta(problem, values, squares, noise_std)

    accepted = temperature * uniform.log() < log_density(proposal) - log_density(theta)
    return torch.where(accepted[:, None], proposal, theta)


def drawn_coefficients(moments: Moments, noise_std: Tensor, precision: Tensor, normal: Tensor) -> Tensor:
    """Draw the coefficients (chains, n) of a linear regression from their posterior."""
    diagonal = moments.gram.diagonal(dim1=-2, dim2=-1) * _RELATIVE_RIDGE + precision
    factor, _ = torch.linalg.cholesky_ex(moments.gram + torch.diag_embed(diagonal))
    mean = torch.cholesky_solve(moments.cross[..., None], factor)
    spread = torch.linalg.solve_triangular(factor.mT, normal.double()[..., None], upper=True)
    drawn: Tensor = mean + noise_std.double()[:, None, None] * spread
    return drawn[..., 0]


def redraw_theta_from_pool(
    problem: Problem,
    adjacency: Tensor,
    theta: Tensor,
    noise_std: Tensor,
    normal: Tensor,
    uniform: Tensor,
    normal_of_coefficients: Tensor,
    temperature: float = 1.0,
) -> Tensor:
    """Draw theta from where it is and a pool of draws of its prior, with the coefficients integrated out.

    Of the values in the pool and the present one, one is drawn with odds in their likelihood (iterated sampling
    importance resampling: Andrieu, Lee and Vihola, Bernoulli 24, 2018). It crosses any valley, such as a pole.

    Parameters
    ----------
    normal, uniform, normal_of_coefficients : Tensor (chains, pool, others), (chains,) and (chains, coefficients)
        The randomness; the others are all parameters but the coefficients.

    Returns
    -------
    Tensor (chains, parameters)
        The new values.
    """
    n_chains, n_coefficients = len(theta), problem.filter.n_coefficients()
    spread = noise_std.double() * temperature**0.5
    precision = theta_precision(problem, spread)
    width = (spread[:, None] * precision.rsqrt())[..., None].to(normal)
    pool = torch.cat([theta[:, None, n_coefficients:], (width * normal).to(theta)], 1)
    tried = torch.cat([torch.ones_like(pool[..., :1]).expand(-1, -1, n_coefficients), pool], -1).flatten(0, 1)
    many = adjacency.repeat_interleave(pool.shape[1], 0)
    _, jacobian = problem.filter.theta_jacobian(many, tried, problem.inputs)
    design = (jacobian[..., :n_coefficients].movedim(-1, 1) * problem.measured).flatten(2).double()
    design = design.unflatten(0, (n_chains, -1))  # (chains, pool, coefficients, measurements)
    targets = (problem.targets * problem.measured).double().flatten(-2).expand(n_chains, -1)
    cross = (design @ targets[:, None, :, None])[..., 0]
    squares = targets.square().sum(-1)[:, None].expand(cross.shape[:2])
    moments = Moments(squares, cross, design @ design.mT)
    log_likelihood = log_marginal_likelihood(moments, spread[:, None], precision, problem.n_measured)
    weights = log_likelihood.nan_to_num(-torch.inf, -torch.inf, -torch.inf).softmax(1).nan_to_num(0.0).cumsum(1)
    place = (weights < uniform.double()[:, None] * weights[:, -1:]).sum(1).clamp_max(pool.shape[1] - 1)
    chains = torch.arange(n_chains, device=theta.device)
    chosen = Moments(*(part[chains, place] for part in moments))
    coefficients = drawn_coefficients(chosen, spread, precision, normal_of_coefficients)
    drawn = torch.cat([coefficients.to(theta), pool[chains, place]], 1)
    return torch.where(torch.isfinite(drawn).all(1)[:, None], drawn, theta)


def _log_proposal(deviation: Tensor, cholesky: Tensor, spread: Tensor) -> Tensor:
    whitened = (cholesky.mT @ deviation[..., None])[..., 0]
    log_volume = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_volume - 0.5 * whitened.square().sum(-1) / spread**2


def sample_noise_std(problem: Problem, adjacency: Tensor, theta: Tensor, gamma: Tensor) -> Tensor:
    """Draw the noise level given all else, under the prior 1 / variance: an inverse gamma law of the residuals.

    `gamma` (chains,) holds draws from the gamma law whose shape is half the number of measurements.
    """
    return noise_std_from(problem, problem.residuals(adjacency, theta).square().sum((-2, -1)), gamma)


class ThetaFit(NamedTuple):
    """The best fit of theta to the data on a given graph."""

    theta: Tensor  # (chains, parameters)
    covariance: Tensor  # (chains, parameters, parameters), for noise of variance one
    squares: Tensor  # (chains,) sum of squared residuals


def fit_theta(
    problem: Problem, adjacency: Tensor, theta: Tensor, n_iterations: int = 30, precision: Tensor | float = 0.0
) -> ThetaFit:
    """Maximum-likelihood theta given the graph, by Levenberg and Marquardt for all chains at once.

    Parameters
    ----------
    problem : Problem
        In double precision, or the last digits are lost in the normal equations.
    adjacency : Tensor (chains, nodes, nodes)
        The graphs.
    theta : Tensor (chains, parameters)
        Where to start.
    n_iterations : int
        How many steps; a filter that is linear in theta is done after the first.
    precision : Tensor (chains, 1) or float
        That of a Gaussian prior of theta around zero, for noise of variance one, as `theta_precision` gives it. With 0,
        a parameter that the data do not determine may go anywhere.

    Returns
    -------
    ThetaFit
        Never a worse fit than where it started.
    """
    damping = torch.full_like(theta[:, :1], 1e-3, dtype=torch.float64)
    curve = problem.filter.along_theta(adjacency, problem.inputs)

    def cost_of(quadratic: _Quadratic, theta: Tensor) -> Tensor:
        return quadratic.squares + (precision * theta.double().square()).sum(-1)

    best = _quadratic(problem, curve, theta, precision)
    for _ in range(n_iterations):
        step = _solved(best, precision, damping).step
        proposal = problem.filter.constrain((theta + step.nan_to_num()).to(theta.dtype))
        tried = _quadratic(problem, curve, proposal, precision)
        cost, tried_cost = cost_of(best, theta), cost_of(tried, proposal)
        better = tried_cost < cost
        converged = (cost - tried_cost).abs() <= 1e-14 * cost
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp(1e-15, 1e6)
        theta = torch.where(better[:, None], proposal, theta)
        best = _Quadratic(
            torch.where(better, tried.squares, best.squares),
            torch.where(better[:, None, None], tried.gram, best.gram),
            torch.where(better[:, None], tried.slope, best.slope),
        )
        if bool((converged | (damping[:, 0] >= 1e6)).all()):
            break
    final = _solved(best, precision)
    return ThetaFit(theta, torch.cholesky_inverse(final.cholesky), final.squares)


@dataclass(frozen=True)
class DrawTheta(Move):
    """Draw theta given graph and noise level, by Metropolis steps with local and with global proposals.

    Parameters
    ----------
    n_fitted : int
        In so many sweeps at first, theta is fitted before: the local Gaussian that proposes is good only near the mode.
    n_starts : int
        Where nothing else leads theta past a pole, these fits begin at so many other places as well. On 60 simulated
        ARMA(1, 0) systems, 8 % of the sure pairs are wrong with it, and 14 % without.
    reach : float
        They are up to so many times as far out as the filter's own range of starting values.
    """

    n_fitted: int = 3
    n_starts: int = 6
    reach: float = 8.0

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        return self._drawn(sweep, state, rng, fits=True)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        return self._drawn(sweep, state, rng, fits=sweep.number < self.n_fitted)

    def _drawn(self, sweep: Sweep, state: SweepState, rng: RandomSource, fits: bool) -> SweepState:
        problem, (pairs, theta, noise_std) = sweep.problem_of(state), state.chain
        adjacency, temperature = problem.assemble(pairs), sweep.temperature
        if fits:
            # A parameter that the data do not determine must not go where a draw never finds back from.
            has_gaussian_prior = problem.filter.log_prior(theta) is None
            precision = theta_precision(problem, noise_std) if has_gaussian_prior else 0.0
            theta = fit_theta(problem, adjacency, theta, 10, precision).theta
            if _may_have_poles(problem):
                theta = self._better(problem, adjacency, theta, precision, rng)
        if not problem.filter.linear_in_theta:
            place, uniform = rng.uniform(theta.shape[1]), rng.uniform()
            theta = propose_theta_globally(problem, adjacency, theta, noise_std, place, uniform, temperature)
        normal, uniform = rng.normal(theta.shape[1]), rng.uniform()
        theta, _ = sample_theta(problem, adjacency, theta, noise_std, normal, uniform, temperature)
        return state.at(state.chain._replace(theta=theta))

    def _better(
        self, problem: Problem, adjacency: Tensor, theta: Tensor, precision: Tensor | float, rng: RandomSource
    ) -> Tensor:
        """Fit theta from other starts too, and return the best of all fits.

        A fit does not cross values at which the outputs are infinite, as an ARMA filter's are at its poles.
        """
        low, high = torch.tensor(problem.filter.initial_range(), dtype=theta.dtype, device=theta.device).unbind(1)
        uniform = rng.uniform(self.n_starts, theta.shape[1] + 1)
        reach = self.reach ** uniform[..., :1]
        starts = 0.5 * (low + high) + (high - low) * reach * (uniform[..., 1:] - 0.5)
        best, least = theta, torch.full_like(theta[:, 0], torch.inf, dtype=torch.float64)
        for start in (theta, *problem.filter.constrain(starts).unbind(1)):
            found = fit_theta(problem, adjacency, start, 10, precision)
            cost = found.squares + (precision * found.theta.double().square()).sum(-1)
            is_better = cost < least  # False where it is nan
            best, least = torch.where(is_better[:, None], found.theta, best), torch.where(is_better, cost, least)
        return best


def _may_have_poles(problem: Problem) -> bool:
    """Whether theta may be anything, so that nothing leads it past values at which the outputs are infinite.

    Within bounds, `propose_theta_globally` does.
    """
    is_bounded = all(math.isfinite(low) and math.isfinite(high) for low, high in problem.filter.bounds())
    return not (is_bounded or problem.filter.linear_in_theta or problem.filter.needs_autograd)


@dataclass(frozen=True)
class DrawThetaFromPool(Move):
    """Draw theta of a filter whose outputs are linear in some of its parameters and may have poles in the others.

    Nothing local leads past a pole; see `redraw_theta_from_pool`. For other filters nothing happens.

    Parameters
    ----------
    size : int
        Of the pool.
    largest_work : float
        Multiplications for one pool, beyond which it is smaller.
    """

    size: int = 64
    largest_work: float = 1e9

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, (pairs, theta, noise_std) = sweep.problem_of(state), state.chain
        filter, n_coefficients = problem.filter, problem.filter.n_coefficients()
        n_others = theta.shape[1] - n_coefficients
        if not n_coefficients or not n_others or filter.fixed_values() or filter.log_prior(theta) is not None:
            return state
        size = min(self.size, max(4, int(self.largest_work / (len(theta) * problem.n_nodes**3))))
        randomness = rng.normal(size, n_others), rng.uniform(), rng.normal(n_coefficients)
        adjacency = problem.assemble(pairs)
        theta = redraw_theta_from_pool(problem, adjacency, theta, noise_std, *randomness, sweep.temperature)
        return state.at(state.chain._replace(theta=theta))


@dataclass(frozen=True)
class DrawMeasurements(Move):
    """Draw offsets, outliers and the noise level of binary graphs; see `MeasurementModel`."""

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        return self(sweep, state, rng)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, (pairs, theta, noise_std) = sweep.problem, state.chain
        if not sweep.measurements.is_trivial:
            # If all that does not fit yet had to be outliers, chains would stay where they are. So the noise level is
            # drawn in the warm-up, even if it is given.
            is_drawn = sweep.noise_std is None or (sweep.is_warmup and sweep.measurements.has_outliers)
            given = theta, noise_std, not is_drawn
            outputs, drawn = sweep.measurements.redrawn(problem, state.outputs, problem.assemble(pairs), *given, rng)
            chain = state.chain._replace(noise_std=drawn.clamp_min(sweep.noise_std or 0.0))
            return state.at(chain)._replace(outputs=outputs, targets=outputs.targets)
        if sweep.noise_std is not None:
            return state
        problem, gamma = sweep.problem_of(state), rng.gamma(0.5 * problem.n_measured)
        noise_std = sample_noise_std(problem, problem.assemble(pairs), theta, gamma)
        return state._replace(chain=state.chain._replace(noise_std=noise_std))


@dataclass(frozen=True)
class DrawNoise(Move):
    """Draw the noise level under a proper prior.

    Its logarithm has Student's t law around a share of the outputs. The usual prior 1 / variance is improper, and where
    strengths can explain any outputs, noise of zero would be certain.

    Parameters
    ----------
    usual : float
        The noise level that is expected, as a share of the root mean square of the outputs.
    freedom : float
        Degrees of freedom of the law, whose width is one. Noise of a thousandth of the outputs is then e^5 times less
        probable than the usual, which a few outputs overrule.
    """

    usual: float = 0.3
    freedom: float = 3.0

    def log_prior(self, problem: Problem, noise_std: Tensor) -> Tensor:
        """Log-density (chains,) of the noise level's logarithm, up to a constant."""
        deviation = (noise_std / (self.usual * problem.scale)).log()
        return -0.5 * (self.freedom + 1) * torch.log1p(deviation**2 / self.freedom)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, (pairs, theta, noise_std) = sweep.problem_of(state), state.chain
        gamma, uniform = rng.gamma(0.5 * problem.n_measured), rng.uniform()
        if sweep.noise_std is not None and not sweep.is_warmup:
            return state
        # A graph that does not fit counts as noisy in the warm-up, and is free to change.
        squares = problem.residuals(problem.assemble(pairs), theta).square().sum((-2, -1))
        drawn = noise_std_from(problem, squares, gamma)
        # Drawn as if the prior were 1 / variance, and accepted by how the prior differs from that.
        gain = self.log_prior(problem, drawn) - self.log_prior(problem, noise_std)
        noise_std = torch.where(uniform.log() < gain, drawn, noise_std).clamp_min(sweep.noise_std or 0.0)
        return state._replace(chain=state.chain._replace(noise_std=noise_std))


@dataclass(frozen=True)
class DrawPrior(Move):
    """Draw the density of the unknown pairs and the trust in the prior, see `_tempering`."""

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        return state._replace(denoise=start_density(state.denoise, _graphs(sweep, state), rng))

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        pairs, before = _graphs(sweep, state), state.denoise
        log_prior = torch.nn.functional.logsigmoid((2 * pairs - 1) * state.prior.log_odds.to(pairs)).sum(1)
        log_prior = log_prior + log_weight_of_prior(before)
        told = {"log_prior": log_prior, "trust": trust_of(before), "density": density_of(before), **state.told}
        denoise, prior = redraw_prior(before, state.prior.to(pairs), pairs, rng)
        return state._replace(denoise=denoise, prior=prior.to(state.chain.pairs)).telling(**told)


def _graphs(sweep: Sweep, state: SweepState) -> Tensor:
    """Unknown pairs (chains, unknown pairs) as 0 and 1."""
    return (state.chain.pairs[:, : sweep.problem.n_unknown] != 0).to(sweep.presence.base)
