"""Annealed Langevin dynamics for graph and theta: Algorithm 1 of the paper.

One annealing level after the other, from coarse to fine, the unknown pairs drift up the posterior's gradient and are
shaken at random, while theta follows. `langevin_step` is the recursion, `LangevinKernel` the two loops around it.

Where edges have strengths, annealing levels are shares of a usual strength. A noisy strength w + sigma z is evidence
of an edge by how much more probable it is under the law of strengths than around zero. To the prior, that is the noisy
value 1/2 + sigma^2 log-odds of an edge that is there or not, and the clean strength is the mean of w given the noisy
one, times the probability of an edge.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ._kernel import ChainState, Denoiser, Draw, Kernel, RandomSource, StepInfo
from ._parameters import AdamState, adam_step, sample_noise_std, sample_theta
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._tempering import density_of, start_density

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
    law: StrengthLaw | None = None  # of the strengths of edges, where they have them


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
    slab : Slab or None
        The law of strengths. None: edges are all alike.
    cut : float
        The smallest strength that counts as an edge, as a share of a usual one.
    least_noise : float
        Strengths of all pairs explain any outputs. So the noise level is at least this share of the outputs, where
        edges have strengths and it is drawn.
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
    slab: Slab | None = None
    cut: float = 0.4
    least_noise: float = 0.1

    @property
    def n_steps(self) -> int:
        return len(self.sigmas)

    def resumed(self) -> None:
        """Nothing: the first annealing levels forget where the chains were."""

    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> LangevinState:
        adam, law = AdamState.zeros_like(chain.theta), None
        if self.slab is not None:
            law = self.slab.first_law(self.slab.number(problem.known_strengths), len(chain.theta))
            usual = self.slab.size(law)[:, None]  # that of known edges of unknown strength, which come last
            pairs = torch.cat([usual * chain.pairs, usual.expand(-1, problem.n_certain)], 1)
            chain = chain._replace(pairs=pairs)
        return LangevinState(chain, adam, denoise, 0, law)

    def step(
        self, problem: Problem, denoise: Denoiser, state: LangevinState, rng: RandomSource
    ) -> tuple[LangevinState, StepInfo]:
        chain, adam, denoise, level, law = state
        sigma, unit = self.sigmas[level], 1.0 if law is None else self._unit(law)
        for number in range(self.n_steps_per_level):
            if number % _STEPS_BETWEEN_CURVATURES == 0:
                step_size = self._step_size(problem, sigma * unit, chain)
            adjacency = problem.assemble(chain.pairs)
            drift = problem.likelihood(adjacency, chain.theta, chain.noise_std).pair_gradient
            if law is None:
                drift = drift + (problem.gather(denoise(adjacency, sigma)) - chain.pairs) / sigma**2
            else:
                clean = self._clean_strengths(problem, denoise, law, chain.pairs, sigma)
                drift = drift + (clean - chain.pairs) / (sigma * unit) ** 2
            normal = rng.normal(drift.shape[1])
            pairs = langevin_step(chain.pairs, drift, step_size[:, None], self.temperature, normal)
            low, high = (0.0, 1.0) if self.slab is None else self.slab.range_of_strengths
            chain = chain._replace(pairs=pairs.clamp((low - sigma) * unit, (high + sigma) * unit))
            is_due = number % _STEPS_BETWEEN_THETAS == 0 or number == self.n_steps_per_level - 1
            if is_due or self.theta_learning_rate is not None:
                chain, adam = self._update_theta(problem, chain, adam, rng)
        log_likelihood = problem.log_likelihood(problem.assemble(chain.pairs), chain.theta, chain.noise_std)
        graphs = (self._rounded(chain.pairs, law)[:, : problem.n_unknown] != 0).to(chain.pairs)
        denoise, nothing = start_density(denoise, graphs, rng), torch.zeros_like(log_likelihood)
        info = StepInfo(sigma, graphs, log_likelihood, nothing, density=density_of(denoise))
        return LangevinState(chain, adam, denoise, level + 1, law), info

    def draw(self, problem: Problem, state: LangevinState, info: StepInfo) -> Draw:
        # The last step of the algorithm: every pair is projected onto 0 or 1.
        pairs, theta, noise_std = state.chain
        rounded = self._rounded(pairs, state.law)
        log_likelihood = problem.log_likelihood(problem.assemble(rounded), theta, noise_std)
        # A chain that has diverged may round to a graph all the same.
        is_finite = torch.isfinite(pairs).all(1) & torch.isfinite(info.log_likelihood)
        log_likelihood = torch.where(is_finite, log_likelihood, torch.nan)
        graphs = (rounded[:, : problem.n_unknown] != 0).to(pairs)
        strengths = None if state.law is None else rounded
        return Draw(graphs, theta, noise_std, log_likelihood, info.log_prior, graphs, strengths)

    def _unit(self, law: StrengthLaw) -> float:
        """A usual strength: the same in all chains, as their law is that of the known strengths."""
        assert self.slab is not None
        return float(self.slab.size(law)[0])

    def _rounded(self, pairs: Tensor, law: StrengthLaw | None) -> Tensor:
        """Every pair as an edge or none: 0 or 1, or 0 or its strength; known edges stay."""
        if self.slab is None or law is None:
            return (pairs > 0.5).to(pairs.dtype)
        return torch.where(pairs.abs() > self.cut * self.slab.size(law)[:, None], pairs, 0.0)

    def _clean_strengths(
        self, problem: Problem, denoise: Denoiser, law: StrengthLaw, pairs: Tensor, sigma: float
    ) -> Tensor:
        """Mean of the strengths (chains, free pairs) given noisy ones; zero where there is no edge."""
        assert self.slab is not None
        unit, n_unknown = self.slab.size(law)[:, None], problem.n_unknown
        mean, std = (part[:, None] / unit for part in self.slab.moments(law))
        noisy, variance = pairs / unit, std**2 + sigma**2
        given_edge = (noisy * std**2 + mean * sigma**2) / variance
        evidence = 0.5 * ((noisy / sigma) ** 2 - (noisy - mean) ** 2 / variance - (variance / sigma**2).log())
        # Beyond the usual noise, networks have seen no values.
        copy = (0.5 + sigma**2 * evidence[:, :n_unknown]).clamp(-3 * sigma, 1 + 3 * sigma)
        presence = problem.of_presence()
        is_edge = presence.gather(denoise(presence.assemble(copy.to(presence.base)), sigma)).to(pairs)
        return unit * torch.cat([is_edge * given_edge[:, :n_unknown], given_edge[:, n_unknown:]], 1)

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
            noise_std = sample_noise_std(problem, adjacency, chain.theta, gamma)
            if self.slab is not None:
                noise_std = noise_std.clamp_min(self.least_noise * problem.scale)
            chain = chain._replace(noise_std=noise_std)
        return chain, adam

    def _step_size(self, problem: Problem, sigma: float, chain: ChainState) -> Tensor:
        """The paper's alpha = epsilon sigma_l^2 / sigma_L^2 for every chain, or a step that the curvature allows."""
        if self.step_size is not None:
            return torch.full_like(chain.noise_std, self.step_size * sigma**2 / self.sigmas[-1] ** 2)
        # The annealed prior curves by at most 1 / sigma^2 against the likelihood's largest eigenvalue. Half the inverse
        # of their sum keeps the recursion stable with a factor of four to spare, whatever the units of X, Y and noise.
        return 0.5 / (1 / sigma**2 + largest_curvature(problem, chain))


def largest_curvature(problem: Problem, state: ChainState, n_iterations: int = 6) -> Tensor:
    """Largest eigenvalue of the likelihood's Gauss-Newton matrix in the unknown pairs, by power iterations."""
    outputs, pullback = problem.filter.linearize(problem.assemble(state.pairs), state.theta, problem.inputs)
    # Any direction that is not orthogonal to the leading one will do; a fixed one keeps the run reproducible.
    direction = torch.ones_like(state.pairs) + 0.1 * torch.linspace(-1, 1, state.pairs.shape[1]).to(state.pairs)
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
