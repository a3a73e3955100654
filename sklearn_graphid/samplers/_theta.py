"""What becomes of the filter's parameters: a step of Adam, a draw from their posterior, or their best fit."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._problem import Problem

__all__ = ["AdamState", "ThetaFit", "adam_step", "fit_theta", "sample_noise_std", "sample_theta"]

# A parameter that the data do not determine gets this share of the largest curvature, so that the normal equations
# can be solved.
_RELATIVE_RIDGE = 1e-6


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
    cholesky: Tensor  # (chains, parameters, parameters) of J'J, ridge included
    step: Tensor  # (chains, parameters), the Gauss-Newton step


def _normal_equations(problem: Problem, adjacency: Tensor, theta: Tensor, damping: Tensor | float) -> _NormalEquations:
    outputs, jacobian = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    residuals = ((problem.targets - outputs) * problem.measured).flatten(1)
    jacobian = (jacobian * problem.measured[..., None]).flatten(1, 2)
    gram = jacobian.mT @ jacobian
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    ridge = _RELATIVE_RIDGE * diagonal.amax(-1, keepdim=True) + torch.finfo(theta.dtype).tiny
    cholesky, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(damping * diagonal + ridge))
    step = torch.cholesky_solve(jacobian.mT @ residuals[..., None], cholesky)[..., 0]
    return _NormalEquations(residuals.square().sum(-1), cholesky, step)


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

    For a filter that is linear in theta the proposal is the posterior itself and is always accepted.

    Parameters
    ----------
    normal, uniform : Tensor (chains, parameters) and (chains,)
        The randomness.

    Returns
    -------
    theta, accepted : Tensor (chains, parameters) and (chains,) of bool
        The new values.
    """
    spread = noise_std * temperature**0.5
    here = _normal_equations(problem, adjacency, theta, damping=0.0)
    jump = torch.linalg.solve_triangular(here.cholesky.mT, normal[..., None], upper=True)[..., 0]
    proposal = theta + here.step + spread[:, None] * jump
    admissible = (problem.filter.constrain(proposal) == proposal).all(-1)
    proposal = torch.where(admissible[:, None], proposal, theta)
    there = _normal_equations(problem, adjacency, proposal, damping=0.0)
    forward = _log_proposal(proposal - theta - here.step, here.cholesky, spread)
    backward = _log_proposal(theta - proposal - there.step, there.cholesky, spread)
    log_ratio = 0.5 * (here.squares - there.squares) / spread**2 + backward - forward
    accepted = admissible & (uniform.log() < log_ratio)  # a comparison with nan is False: the chain stays
    return torch.where(accepted[:, None], proposal, theta), accepted


def _log_proposal(deviation: Tensor, cholesky: Tensor, spread: Tensor) -> Tensor:
    whitened = (cholesky.mT @ deviation[..., None])[..., 0]
    log_volume = cholesky.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return log_volume - 0.5 * whitened.square().sum(-1) / spread**2


def sample_noise_std(problem: Problem, adjacency: Tensor, theta: Tensor, gamma: Tensor) -> Tensor:
    """Draw the noise level given all else, under the prior 1 / variance: an inverse gamma law of the residuals.

    `gamma` (chains,) holds draws from the gamma law whose shape is half the number of measurements.
    """
    squares = problem.residuals(adjacency, theta).square().sum((-2, -1))
    return (0.5 * squares / gamma).sqrt()


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
    damping = torch.full_like(theta[:, :1], 1e-3)
    best = _normal_equations(problem, adjacency, theta, damping)
    for _ in range(n_iterations):
        proposal = problem.filter.constrain(theta + best.step.nan_to_num())
        tried = _normal_equations(problem, adjacency, proposal, damping / 10)
        better = (tried.squares < best.squares)[:, None]
        converged = (best.squares - tried.squares).abs() <= 1e-14 * best.squares
        damping = torch.where(better, damping / 10, damping * 10).clamp(1e-12, 1e6)
        theta = torch.where(better, proposal, theta)
        best = _normal_equations(problem, adjacency, theta, damping)
        if bool(converged.all()):
            break
    final = _normal_equations(problem, adjacency, theta, damping=0.0)
    return ThetaFit(theta, torch.cholesky_inverse(final.cholesky), final.squares)
