"""Updates of theta and of the noise level: an Adam step, a draw from the posterior, a least-squares fit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._problem import Problem

__all__ = [
    "AdamState",
    "ThetaFit",
    "adam_step",
    "fit_theta",
    "log_marginal_likelihood",
    "propose_theta_globally",
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


# The smallest noise level that is drawn, relative to the outputs.
_SMALLEST_NOISE = 1e-6


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


class _NormalEquations(NamedTuple):
    squares: Tensor  # (chains,) sum of squared residuals
    cholesky: Tensor  # (chains, parameters, parameters) of J'J, with prior, damping and ridge
    step: Tensor  # (chains, parameters), the Gauss-Newton step


def _normal_equations(
    problem: Problem, adjacency: Tensor, theta: Tensor, precision: Tensor | float = 0.0, damping: Tensor | float = 0.0
) -> _NormalEquations:
    """Least squares around theta, in double precision; `precision` (chains, 1) is the prior's, for noise of one."""
    outputs, jacobian = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    return _solved(problem, problem.targets - outputs, jacobian.movedim(-1, 1), theta, precision, damping)


def _solved(
    problem: Problem,
    residuals: Tensor,
    design: Tensor,
    theta: Tensor,
    precision: Tensor | float,
    damping: Tensor | float = 0.0,
) -> _NormalEquations:
    """The same from residuals (chains, experiments, nodes) and the design, see `GraphFilter.design`."""
    if not problem.is_complete:
        residuals, design = residuals * problem.measured, design * problem.measured
    residuals, design = residuals.flatten(1).double(), design.flatten(2).double()
    gram = design @ design.mT
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    added = precision + (damping + _RELATIVE_RIDGE) * diagonal + torch.finfo(torch.float64).tiny ** 0.5
    cholesky, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(added))
    slope = (design @ residuals[..., None])[..., 0] - precision * theta.double()
    step = torch.cholesky_solve(slope[..., None], cholesky)[..., 0]
    return _NormalEquations(residuals.square().sum(-1), cholesky, step)


def theta_precision(problem: Problem, noise_std: Tensor) -> Tensor:
    """Precision (chains, 1) of theta's Gaussian prior in units of the noise variance."""
    inputs, outputs = problem.inputs.double().square().mean(), problem.targets.double().square().mean()
    width = _PRIOR_WIDTH * (outputs / inputs.clamp_min(1e-300)).sqrt()
    return (noise_std.double() / width.clamp_min(1e-150)).square()[:, None].clamp_max(1e30)


def _log_density(problem: Problem, theta: Tensor, squares: Tensor, noise_std: Tensor) -> Tensor:
    """Log-density (chains,) of theta given graph and noise, up to a constant; `squares` are the residuals'."""
    prior = problem.filter.log_prior(theta)
    if prior is None:
        precision = theta_precision(problem, noise_std)
        prior = -0.5 * (precision * theta.double().square()).sum(-1) / noise_std.double() ** 2
    return prior - 0.5 * squares.double() / noise_std.double() ** 2


def log_marginal_likelihood(problem: Problem, design: Tensor, noise_std: Tensor, precision: Tensor) -> Tensor:
    """Log-likelihood (chains,) with theta integrated out, for a filter that is linear in it and has this design."""
    zero = design.new_zeros(design.shape[:2])
    equations = _solved(problem, problem.targets.expand(len(design), -1, -1), design, zero, precision)
    explained = (equations.cholesky.mT @ equations.step[..., None]).square().sum((-2, -1))
    log_volume = equations.cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    variance = noise_std.double() ** 2
    normaliser = (problem.n_measured - problem.filter.n_parameters()) * noise_std.double().log()
    return -0.5 * (equations.squares - explained) / variance - log_volume - normaliser


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
    here = _normal_equations(problem, adjacency, theta, precision)
    jump = torch.linalg.solve_triangular(here.cholesky.mT, normal.double()[..., None], upper=True)[..., 0]
    proposal = (theta + here.step + spread[:, None] * jump).to(theta.dtype)
    admissible = (problem.filter.constrain(proposal) == proposal).all(-1)
    proposal = torch.where(admissible[:, None], proposal, theta)
    if problem.filter.linear_in_theta:
        # The proposal is the posterior itself; the ratio is one but for rounding.
        accepted = admissible & torch.isfinite(proposal).all(-1)
    else:
        there = _normal_equations(problem, adjacency, proposal, precision)
        forward = _log_proposal(proposal - theta - here.step, here.cholesky, spread)
        backward = _log_proposal(theta - proposal - there.step, there.cholesky, spread)
        gain = _log_density(problem, proposal, there.squares, noise_std)
        gain = gain - _log_density(problem, theta, here.squares, noise_std)
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

    def log_density(values: Tensor) -> Tensor:
        squares = problem.residuals(adjacency, values).double().square().sum((-2, -1))
        return _log_density(problem, values, squares, noise_std)

    accepted = temperature * uniform.log() < log_density(proposal) - log_density(theta)
    return torch.where(accepted[:, None], proposal, theta)


def _log_proposal(deviation: Tensor, cholesky: Tensor, spread: Tensor) -> Tensor:
    whitened = (cholesky.mT @ deviation[..., None])[..., 0]
    log_volume = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_volume - 0.5 * whitened.square().sum(-1) / spread**2


def sample_noise_std(problem: Problem, adjacency: Tensor, theta: Tensor, gamma: Tensor) -> Tensor:
    """Draw the noise level given all else, under the prior 1 / variance: an inverse gamma law of the residuals.

    `gamma` (chains,) holds draws from the gamma law whose shape is half the number of measurements.
    """
    squares = problem.residuals(adjacency, theta).square().sum((-2, -1))
    # Exact outputs leave no residuals; the floor is where single precision can no longer tell.
    return (0.5 * squares / gamma).sqrt().clamp_min(_SMALLEST_NOISE * problem.scale)


class ThetaFit(NamedTuple):
    """The best fit of theta to the data on a given graph."""

    theta: Tensor  # (chains, parameters)
    covariance: Tensor  # (chains, parameters, parameters), for noise of variance one
    squares: Tensor  # (chains,) sum of squared residuals


def fit_theta(problem: Problem, adjacency: Tensor, theta: Tensor, n_iterations: int = 30) -> ThetaFit:
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

    Returns
    -------
    ThetaFit
        Never a worse fit than where it started.
    """
    damping = torch.full_like(theta[:, :1], 1e-3, dtype=torch.float64)
    best = _normal_equations(problem, adjacency, theta, damping=damping)
    for _ in range(n_iterations):
        proposal = problem.filter.constrain((theta + best.step.nan_to_num()).to(theta.dtype))
        tried = _normal_equations(problem, adjacency, proposal, damping=damping / 10)
        better = tried.squares < best.squares
        converged = (best.squares - tried.squares).abs() <= 1e-14 * best.squares
        damping = torch.where(better[:, None], damping / 10, damping * 10).clamp(1e-15, 1e6)
        theta = torch.where(better[:, None], proposal, theta)
        best = _normal_equations(problem, adjacency, theta, damping=damping)
        if bool((converged | (damping[:, 0] >= 1e6)).all()):
            break
    final = _normal_equations(problem, adjacency, theta)
    return ThetaFit(theta, torch.cholesky_inverse(final.cholesky), final.squares)
