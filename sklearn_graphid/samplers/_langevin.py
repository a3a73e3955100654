"""Annealed Langevin dynamics for graph and theta: Algorithm 1 of the paper.

One annealing level after the other, from coarse to fine, the unknown pairs drift up the posterior's gradient and are
shaken at random, while theta follows. `langevin_step` is the recursion, `LangevinKernel` the two loops around it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ._kernel import ChainState, Denoiser, Draw, Kernel, RandomSource, StepInfo
from ._problem import Problem
from ._tempering import density_of, start_density
from ._theta import AdamState, adam_step, sample_noise_std, sample_theta

__all__ = ["LangevinKernel", "LangevinState", "langevin_step"]

# The curvature changes as the chains move, so a step that is derived from it is renewed this often.
_STEPS_BETWEEN_CURVATURES = 10
# Pairs move a little in a step, while a draw of theta is nearly independent of the last and costs a third of a step; so
# it is made this often, and at the end of a level. Adam's steps are the paper's, one for each step of the pairs.
_STEPS_BETWEEN_THETAS = 4


def langevin_step(
    pairs: Tensor, drift: Tensor, step_size: Tensor | float, temperature: float, normal: Tensor
) -> Tensor:
    """One unadjusted Langevin step (equation 7): up the gradient, and a shake."""
    step = torch.as_tensor(step_size, dtype=pairs.dtype, device=pairs.device)
    return pairs + step * drift + (2 * step * temperature).sqrt() * normal


class LangevinState(NamedTuple):
    """What the next annealing level needs."""

    chain: ChainState
    adam: AdamState
    denoise: Denoiser  # with the density that every chain has now
    level: int


@dataclass(frozen=True)
class LangevinKernel(Kernel):
    """Annealed Langevin dynamics on the relaxed matrix; a step of the kernel is one annealing level.

    Parameters
    ----------
    sigmas : tuple of float
        The annealing levels, largest first.
    n_steps_per_level : int
        The paper's T.
    step_size : float or None
        The paper's epsilon. None derives the step from the curvature, so that units do not matter.
    temperature : float
        The paper's tau.
    theta_learning_rate : float or None
        Adam's. None draws theta from its posterior instead.
    noise_std : float or None
        The measurement noise. None draws it too.
    """

    step_name: ClassVar[str] = "annealing level"
    needs_autograd: ClassVar[bool] = False
    remedy: ClassVar[str] = "raise n_chains, or let sweeps follow (n_sweeps)"

    sigmas: tuple[float, ...]
    n_steps_per_level: int
    step_size: float | None = None
    temperature: float = 1.0
    theta_learning_rate: float | None = None
    noise_std: float | None = None

    @property
    def n_steps(self) -> int:
        return len(self.sigmas)

    def resumed(self) -> None:
        """Nothing: the first annealing levels forget where the chains were."""

    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> LangevinState:
        return LangevinState(chain, AdamState.zeros_like(chain.theta), denoise, 0)

    def step(
        self, problem: Problem, denoise: Denoiser, state: LangevinState, rng: RandomSource
    ) -> tuple[LangevinState, StepInfo]:
        chain, adam, denoise, level = state
        sigma = self.sigmas[level]
        for number in range(self.n_steps_per_level):
            if number % _STEPS_BETWEEN_CURVATURES == 0:
                step_size = self._step_size(problem, sigma, chain)
            adjacency = problem.assemble(chain.pairs)
            drift = problem.likelihood(adjacency, chain.theta, chain.noise_std).pair_gradient
            drift = drift + (problem.gather(denoise(adjacency, sigma)) - chain.pairs) / sigma**2
            normal = rng.normal(problem.n_unknown)
            pairs = langevin_step(chain.pairs, drift, step_size[:, None], self.temperature, normal)
            chain = chain._replace(pairs=pairs.clamp(-sigma, 1 + sigma))
            is_due = number % _STEPS_BETWEEN_THETAS == 0 or number == self.n_steps_per_level - 1
            if is_due or self.theta_learning_rate is not None:
                chain, adam = self._update_theta(problem, chain, adam, rng)
        log_likelihood = problem.log_likelihood(problem.assemble(chain.pairs), chain.theta, chain.noise_std)
        graphs, nothing = _rounded(chain.pairs), torch.zeros_like(log_likelihood)
        denoise = start_density(denoise, graphs, rng)
        info = StepInfo(sigma, graphs, log_likelihood, nothing, density=density_of(denoise))
        return LangevinState(chain, adam, denoise, level + 1), info

    def draw(self, problem: Problem, state: LangevinState, info: StepInfo) -> Draw:
        # The last step of the algorithm: every pair is projected onto 0 or 1.
        pairs, theta, noise_std = state.chain
        graphs = _rounded(pairs)
        log_likelihood = problem.log_likelihood(problem.assemble(graphs), theta, noise_std)
        # A chain that has diverged may round to a graph all the same.
        is_finite = torch.isfinite(pairs).all(1) & torch.isfinite(info.log_likelihood)
        log_likelihood = torch.where(is_finite, log_likelihood, torch.nan)
        return Draw(graphs, theta, noise_std, log_likelihood, info.log_prior, graphs)

    def _update_theta(
        self, problem: Problem, chain: ChainState, adam: AdamState, rng: RandomSource
    ) -> tuple[ChainState, AdamState]:
        # theta answers to the soft matrix, not to the rounded one, as in the published runs.
        adjacency = problem.assemble(chain.pairs)
        if self.theta_learning_rate is not None:
            gradient = problem.likelihood(adjacency, chain.theta, chain.noise_std).theta_gradient
            theta, adam = adam_step(chain.theta, -gradient, adam, self.theta_learning_rate)
            chain = chain._replace(theta=problem.filter.constrain(theta))
        else:
            normal, uniform = rng.normal(chain.theta.shape[1]), rng.uniform()
            temperature = self.temperature
            theta, _ = sample_theta(problem, adjacency, chain.theta, chain.noise_std, normal, uniform, temperature)
            chain = chain._replace(theta=theta)
        if self.noise_std is None:
            gamma = rng.gamma(0.5 * problem.n_measured)
            chain = chain._replace(noise_std=sample_noise_std(problem, adjacency, chain.theta, gamma))
        return chain, adam

    def _step_size(self, problem: Problem, sigma: float, chain: ChainState) -> Tensor:
        """The paper's alpha = epsilon sigma_l^2 / sigma_L^2 for every chain, or a step that the curvature allows."""
        if self.step_size is not None:
            return torch.full_like(chain.noise_std, self.step_size * sigma**2 / self.sigmas[-1] ** 2)
        # The annealed prior curves by at most 1 / sigma^2 against the likelihood's largest eigenvalue. Half the inverse
        # of their sum keeps the recursion stable with a factor of four to spare, whatever the units of X, Y and noise.
        return 0.5 / (1 / sigma**2 + largest_curvature(problem, chain))


def _rounded(pairs: Tensor) -> Tensor:
    return (pairs > 0.5).to(pairs.dtype)


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
        tangent = (moved - outputs) / probe * problem.measured**2  # once for the residuals, once for their gradient
        gradient, _ = pullback(tangent / state.noise_std[:, None, None] ** 2)
        direction = problem.space.pull_back(gradient)
        eigenvalue = direction.norm(dim=1)
    # Power iterations approach from below.
    return 1.2 * eigenvalue.nan_to_num(posinf=math.inf)
