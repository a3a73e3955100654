"""Annealed Langevin dynamics for graph and theta: Algorithm 1 of the paper.

One level of noise after the other, from coarse to fine, the unknown pairs drift up the posterior's gradient and are
shaken by noise, while theta follows. `langevin_step` is the recursion, `annealed_langevin` the two loops around it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ._problem import Problem
from ._theta import AdamState, adam_step, sample_noise_std, sample_theta

__all__ = [
    "AnnealingSettings",
    "ChainState",
    "LevelTrace",
    "NormalSource",
    "annealed_langevin",
    "initial_state",
    "langevin_step",
]

# The curvature changes as the chains move, so a step that is derived from it is renewed this often.
_STEPS_BETWEEN_CURVATURES = 10
# Pairs move a little in a step, while a draw of theta is nearly independent of the last and costs a third of a step; so
# it is made this often, and at the end of a level. Adam's steps are the paper's, one for each step of the pairs.
_STEPS_BETWEEN_THETAS = 4

Denoiser = Callable[..., Tensor]  # (adjacency, sigma[, known]): see `priors`, which samplers do not import


class NormalSource(Protocol):
    """Where the randomness of the chains comes from."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, (chains, *shape)."""

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers, (chains, *shape)."""

    def gamma(self, shape_parameter: float) -> Tensor:
        """Gamma numbers of scale one, (chains,)."""


class ChainState(NamedTuple):
    """What the next step needs."""

    pairs: Tensor  # (chains, unknown pairs), real numbers on their way to 0 or 1
    theta: Tensor  # (chains, parameters)
    noise_std: Tensor  # (chains,)


class AnnealingSettings(NamedTuple):
    """The numbers of Algorithm 1.

    `step_size` is the paper's epsilon; None derives the step from the curvature. `theta_learning_rate` is Adam's; None
    draws theta from its posterior instead. `noise_std` None draws the noise level as well. `n_parts` is the
    edge-flip sampler's: into how many parts it divides the pairs where the prior can take the others for known.
    """

    sigmas: tuple[float, ...]
    n_steps: int
    step_size: float | None
    temperature: float
    theta_learning_rate: float | None
    noise_std: float | None
    n_parts: int = 1


class LevelTrace(NamedTuple):
    """What a level of noise tells about itself; never read by the next one."""

    sigma: float
    step_size: Tensor  # (chains,)
    log_likelihood: Tensor  # (chains,) at the end of the level
    theta: Tensor  # (chains, parameters) likewise


def langevin_step(
    pairs: Tensor, drift: Tensor, step_size: Tensor | float, temperature: float, normal: Tensor
) -> Tensor:
    """One unadjusted Langevin step (equation 7): up the gradient, and a shake."""
    step = torch.as_tensor(step_size, dtype=pairs.dtype, device=pairs.device)
    return pairs + step * drift + (2 * step * temperature).sqrt() * normal


def initial_state(problem: Problem, noise: NormalSource, noise_std: float | None) -> ChainState:
    """Start at random, as the published runs do.

    Their matrix of normal draws (mean 0.5, standard deviation 0.1) is halved when it is made symmetric, so that the
    pairs start around 0.25; theta starts at a draw from the range that the filter names.
    """
    pairs = 0.5 * (0.5 + 0.1 * noise.normal(problem.n_unknown))
    low, high = torch.tensor(problem.filter.initial_range(), dtype=pairs.dtype, device=pairs.device).unbind(1)
    theta = low + (high - low) * noise.uniform(len(low))
    if noise_std is None:
        noise_std = problem.scale
    start = torch.full_like(theta[:, 0], noise_std)
    return ChainState(pairs, theta, start)


def annealed_langevin(
    problem: Problem, denoise: Denoiser | None, settings: AnnealingSettings, noise: NormalSource, state: ChainState
) -> Iterator[tuple[ChainState, LevelTrace]]:
    """Run Algorithm 1 and yield at the end of every level.

    Parameters
    ----------
    problem : Problem
        Data, filter and what is known.
    denoise : callable or None
        E[A | A~] under the prior; None for a prior score of zero (the paper's "Langevin without prior").
    settings : AnnealingSettings
        The schedule.
    noise : NormalSource
        The randomness.
    state : ChainState
        Where to start.

    Yields
    ------
    state, trace : ChainState and LevelTrace
        After each level.
    """
    adam = AdamState.zeros_like(state.theta)
    for sigma in settings.sigmas:
        for step in range(settings.n_steps):
            if step % _STEPS_BETWEEN_CURVATURES == 0:
                step_size = _step_size(problem, settings, sigma, state)
            adjacency = problem.assemble(state.pairs)
            drift = problem.likelihood(adjacency, state.theta, state.noise_std).pair_gradient
            if denoise is not None:
                drift = drift + (problem.gather(denoise(adjacency, sigma)) - state.pairs) / sigma**2
            normal = noise.normal(problem.n_unknown)
            pairs = langevin_step(state.pairs, drift, step_size[:, None], settings.temperature, normal)
            state = state._replace(pairs=pairs.clamp(-sigma, 1 + sigma))
            is_due = step % _STEPS_BETWEEN_THETAS == 0 or step == settings.n_steps - 1
            if is_due or settings.theta_learning_rate is not None:
                state, adam = _update_theta(problem, settings, noise, state, adam)
        adjacency = problem.assemble(state.pairs)
        log_likelihood = problem.log_likelihood(adjacency, state.theta, state.noise_std)
        yield state, LevelTrace(sigma, step_size, log_likelihood, state.theta)


def _update_theta(
    problem: Problem, settings: AnnealingSettings, noise: NormalSource, state: ChainState, adam: AdamState
) -> tuple[ChainState, AdamState]:
    # theta answers to the soft matrix, not to the rounded one, as in the published runs.
    adjacency = problem.assemble(state.pairs)
    if settings.theta_learning_rate is not None:
        gradient = problem.likelihood(adjacency, state.theta, state.noise_std).theta_gradient
        theta, adam = adam_step(state.theta, -gradient, adam, settings.theta_learning_rate)
        state = state._replace(theta=problem.filter.constrain(theta))
    else:
        normal, uniform = noise.normal(state.theta.shape[1]), noise.uniform()
        temperature = settings.temperature
        theta, _ = sample_theta(problem, adjacency, state.theta, state.noise_std, normal, uniform, temperature)
        state = state._replace(theta=theta)
    if settings.noise_std is None:
        gamma = noise.gamma(0.5 * problem.n_measured)
        state = state._replace(noise_std=sample_noise_std(problem, adjacency, state.theta, gamma))
    return state, adam


def _step_size(problem: Problem, settings: AnnealingSettings, sigma: float, state: ChainState) -> Tensor:
    """The paper's alpha = epsilon sigma_l^2 / sigma_L^2 for every chain, or a step that the curvature allows."""
    if settings.step_size is not None:
        alpha = settings.step_size * sigma**2 / settings.sigmas[-1] ** 2
        return torch.full_like(state.noise_std, alpha)
    # The annealed prior curves by at most 1 / sigma^2 against the likelihood's largest eigenvalue. Half the inverse
    # of their sum keeps the recursion stable with a factor of four to spare, whatever the units of X, Y and noise.
    return 0.5 / (1 / sigma**2 + largest_curvature(problem, state))


def largest_curvature(problem: Problem, state: ChainState, n_iterations: int = 6) -> Tensor:
    """Largest eigenvalue of the likelihood's Gauss-Newton matrix in the unknown pairs, by power iterations."""
    outputs, pullback = problem.filter.linearize(problem.assemble(state.pairs), state.theta, problem.inputs)
    # Any direction that is not orthogonal to the leading one will do; a fixed one keeps the run reproducible.
    direction = torch.ones_like(state.pairs) + 0.1 * torch.linspace(-1, 1, problem.n_unknown).to(state.pairs)
    eigenvalue = torch.zeros_like(state.noise_std)
    probe = 1e-2  # a finite difference, so that a filter needs to know no forward derivative
    for _ in range(n_iterations):
        direction = direction / direction.norm(dim=1, keepdim=True).clamp_min(1e-30)
        moved = problem.filter.apply(problem.assemble(state.pairs + probe * direction), state.theta, problem.inputs)
        tangent = (moved - outputs) / probe * problem.measured
        gradient, _ = pullback(tangent / state.noise_std[:, None, None] ** 2)
        direction = problem.gather(gradient + gradient.mT)
        eigenvalue = direction.norm(dim=1)
    # Power iterations approach from below.
    return 1.2 * eigenvalue.nan_to_num(posinf=math.inf)
