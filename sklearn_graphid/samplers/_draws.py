"""Moves that redraw the parameters: theta, the noise level, offsets and outliers, density and trust."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ._kernel import RandomSource
from ._moves import Move, Sweep, SweepState
from ._problem import Problem
from ._tempering import density_of, log_weight_of_prior, redraw_prior, start_density, trust_of
from ._theta import (
    fit_theta,
    noise_std_from,
    propose_theta_globally,
    redraw_theta_from_pool,
    sample_noise_std,
    sample_theta,
    theta_precision,
)

__all__ = ["DrawMeasurements", "DrawNoise", "DrawPrior", "DrawTheta", "DrawThetaFromPool"]


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
