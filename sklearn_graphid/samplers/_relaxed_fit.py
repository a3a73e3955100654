"""A start that knows the data: least squares on the relaxed matrix.

Where the data are good, graphs one edge apart fit very differently, and a search from graph to graph gets lost. Let the
edges be numbers, and the way to the best fit is smooth. So some of the chains go on from the minimum of

    |Y - h(A) X|^2 / noise^2 + sum over unknown pairs of (A_ij - m_ij)^2 / v_ij,

with no edge below zero, found by the method of Levenberg and Marquardt in the unknown pairs and theta together. m and v
are what the prior makes of the start, so that little moves where the data say little. Half of these chains start where
they are, and half from the prior alone; all other chains are left as they are: no single start decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import ChainState, Denoiser, RandomSource
from ._moves import Sweep, SweepState
from ._problem import Problem, with_outputs
from ._tempering import of_chains
from ._theta import fit_theta

__all__ = ["BinaryStart", "fit_some_chains"]

# Every so many chains, one is moved.
_CHAINS_PER_FIT = 4
_N_ITERATIONS = 12
# Edges below zero mean nothing, and that none is below says much about all; above one there is room to move.
_LOWEST, _HIGHEST = 0.0, 1.5
# The prior may be sure of what the data contradict, so its variance is not taken to be less than this.
_SMALLEST_VARIANCE = 0.04
# Derivatives are differences over a change as small as this.
_PROBE = 1e-3
_FIRST_DAMPING = 1e-2
# The smallest noise level that is found, relative to the outputs.
_SMALLEST_NOISE = 1e-6
# Multiplications for one matrix of normal equations beyond which the fit is left out: it would take minutes.
_LARGEST_WORK = 2e9


@dataclass(frozen=True)
class BinaryStart:
    """Begin with binary graphs: where the chains are, some of them after a fit of the relaxed matrix. See `Start`.

    Parameters
    ----------
    resumes : bool
        Whether chains start from draws of an earlier fit, and stay there.
    """

    resumes: bool = False

    def resumed(self) -> BinaryStart:
        return replace(self, resumes=True)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        chain = state.chain
        if not self.resumes:
            chain = fit_some_chains(sweep.problem, state.denoise, chain, sweep.sigma, sweep.noise_std)
        is_edge = with_outputs(sweep.problem, chain.pairs > 0.5, chain.pairs)
        return state.at(chain._replace(pairs=is_edge.to(chain.pairs.dtype)))


def fit_some_chains(
    problem: Problem, denoise: Denoiser, chain: ChainState, sigma: float, noise_std: float | None
) -> ChainState:
    """Move one chain of four to the least-squares fit of the relaxed matrix.

    The prior is asked at the annealing level `sigma`. Where `noise_std` is None, the noise level is taken from the
    residuals. The pairs of the chains that were moved are numbers between 0 and 1.5.
    """
    if not 0 < problem.n_unknown**2 * problem.n_measured <= _LARGEST_WORK:
        return chain
    chosen = torch.arange(0, len(chain.pairs), _CHAINS_PER_FIT, device=chain.pairs.device)
    # A chain that has diverged is left to be counted.
    chosen = chosen[torch.isfinite(chain.pairs[chosen]).all(1) & torch.isfinite(chain.theta[chosen]).all(1)]
    if not len(chosen):
        return chain
    denoise = of_chains(denoise, chosen)
    start = _from_the_prior(problem, denoise, ChainState(*(part[chosen] for part in chain)), sigma)
    mean = problem.gather(denoise(problem.assemble(start.pairs), sigma)).double()
    fitted = _fit(problem, start, mean, noise_std)
    return ChainState(*(part.index_copy(0, chosen, new) for part, new in zip(chain, fitted, strict=True)))


def _from_the_prior(problem: Problem, denoise: Denoiser, chain: ChainState, sigma: float) -> ChainState:
    """Let every second chain forget where it is, and start from what the prior makes of pairs that are half edges."""
    pairs = problem.gather(denoise(problem.assemble(torch.full_like(chain.pairs, 0.5)), sigma))
    theta = fit_theta(problem, problem.assemble(pairs), chain.theta, n_iterations=10).theta
    forgets = (torch.arange(len(pairs), device=pairs.device) % 2 == 0)[:, None]
    return chain._replace(
        pairs=torch.where(forgets, pairs, chain.pairs), theta=torch.where(forgets, theta, chain.theta)
    )


class _Target(NamedTuple):
    """What is to be minimised, but for the data."""

    mean: Tensor  # (chains, unknown pairs)
    variance: Tensor  # (chains, unknown pairs)
    noise_variance: Tensor  # (chains,)

    def at(self, residuals: Tensor, pairs: Tensor) -> Tensor:
        """Its value (chains,)."""
        misfit = residuals.square().sum(1) / self.noise_variance
        return misfit + ((pairs - self.mean).square() / self.variance).sum(1)


def _fit(problem: Problem, chain: ChainState, mean: Tensor, noise_std: float | None) -> ChainState:
    """The minimum that each chain finds."""
    pairs, theta = chain.pairs.clamp(0, 1), chain.theta
    residuals = _residuals(problem, pairs, theta)
    damping = torch.full_like(residuals[:, 0], _FIRST_DAMPING)
    noise_variance = torch.full_like(damping, noise_std**2) if noise_std else residuals.square().mean(1)
    target = _Target(mean, (mean * (1 - mean)).clamp_min(_SMALLEST_VARIANCE), noise_variance)
    for _ in range(_N_ITERATIONS):
        step, n_explained = _step(problem, pairs, theta, residuals, target, damping)
        by_pairs, by_theta = step.split([pairs.shape[1], theta.shape[1]], 1)
        new_pairs = (pairs + by_pairs).to(pairs.dtype).clamp(_LOWEST, _HIGHEST)
        new_theta = problem.filter.constrain((theta + by_theta).to(theta.dtype))
        new_residuals = _residuals(problem, new_pairs, new_theta)
        # False where one of them is nan.
        is_better = target.at(new_residuals, new_pairs) < target.at(residuals, pairs)
        pairs = torch.where(is_better[:, None], new_pairs, pairs)
        theta = torch.where(is_better[:, None], new_theta, theta)
        residuals = torch.where(is_better[:, None], new_residuals, residuals)
        damping = torch.where(is_better, damping / 5, damping * 5)
        if noise_std is None:
            n_left = (problem.n_measured - n_explained).clamp_min(0.1 * problem.n_measured)
            smaller = torch.minimum(target.noise_variance, residuals.square().sum(1) / n_left)
            target = target._replace(noise_variance=smaller.clamp_min((_SMALLEST_NOISE * problem.scale) ** 2))
    return ChainState(pairs, theta, target.noise_variance.sqrt().to(pairs.dtype))


def _residuals(problem: Problem, pairs: Tensor, theta: Tensor) -> Tensor:
    return problem.residuals(problem.assemble(pairs), theta).flatten(1).double()


def _step(
    problem: Problem, pairs: Tensor, theta: Tensor, residuals: Tensor, target: _Target, damping: Tensor
) -> tuple[Tensor, Tensor]:
    """The step (chains, pairs and parameters) to the minimum of the linearised problem, and how many numbers it fits.

    A pair at a bound that would leave it stays there, and is none of the unknowns (Bertsekas, SIAM Journal on Control
    and Optimization 20, 1982): if it were only put back afterwards, the others would have moved in vain.
    """
    jacobian = _jacobian(problem, pairs, theta)
    slope = (jacobian @ residuals[..., None])[..., 0] / target.noise_variance[:, None]
    by_pairs = slope[:, : pairs.shape[1]]
    by_pairs += (target.mean - pairs) / target.variance
    is_stopped = ((pairs <= _LOWEST) & (by_pairs < 0)) | ((pairs >= _HIGHEST) & (by_pairs > 0))
    is_free = torch.cat([~is_stopped, torch.ones_like(theta, dtype=torch.bool)], 1).to(slope)
    jacobian, slope = jacobian * is_free[..., None], slope * is_free
    gram = jacobian @ jacobian.mT / target.noise_variance[:, None, None]
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    # theta has no prior here, but a share of its own curvature so that the equations can be solved.
    precision = torch.cat([1 / target.variance, 1e-9 * diagonal[:, pairs.shape[1] :] + 1e-30], 1)
    damped = precision + damping[:, None] * (diagonal + precision)
    cholesky, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(damped))
    step = torch.cholesky_solve(slope[..., None], cholesky)[..., 0]
    n_explained = (torch.cholesky_inverse(cholesky) * gram).sum((-2, -1))
    return step.nan_to_num(0.0, 0.0, 0.0), n_explained.nan_to_num(0.0)


def _jacobian(problem: Problem, pairs: Tensor, theta: Tensor) -> Tensor:
    """Derivatives (chains, pairs and parameters, measurements) of the outputs."""
    adjacency = problem.assemble(pairs)
    entries = problem.space.entries(torch.arange(problem.n_unknown, device=pairs.device).expand_as(pairs))
    changes = problem.edge_changes(adjacency, theta)
    by_pairs = changes.output_changes(*entries, torch.full_like(pairs, _PROBE), theta) / _PROBE
    _, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    return (torch.cat([by_pairs, by_theta.movedim(-1, 1)], 1) * problem.measured).flatten(2).double()
