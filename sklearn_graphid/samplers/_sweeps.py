"""Sweeps over binary graphs under a learned prior.

The posterior lives on binary graphs, and there its likelihood is exact and cheap. What is missing is the prior, which
is known only through a denoiser. So a sweep divides the unknown pairs into parts and redraws one part after the other:

1. a noisy copy: the graph plus Gaussian noise of standard deviation sigma on the pairs of the part, an exact draw;
2. the denoiser, told that all other pairs are known, turns the copy into log-odds for every pair of the part;
3. every pair of the part is drawn from its odds, prior log-odds plus the exact change in log-likelihood;
4. theta, then the noise level, are drawn given the graph, and so are the density of the unknown pairs and the trust in
   the prior (see `_tempering`), offsets and outliers of the outputs (see `_working_outputs`).

A sweep begins with a swap (see `_swaps`), for what one pair at a time cannot reach, and where few pairs are unknown,
with a draw from a list of all graphs (see `_listed_graphs`). Some chains start from a fit of the
relaxed matrix (see `_relaxed_fit`), and before the draws begin, chains that have fallen far behind go on from where a
better one is.

Where the filter is linear in theta, step 3 integrates theta out. A prior that cannot be told which pairs are known gets
all pairs as one part, with little noise.

Pairs of a part are treated as independent given the copy, in step 2 only. That is exact for a prior of independent
pairs at any sigma, for any prior as sigma goes to zero, and for a part of one pair; parts of moderate size trade the
freedom to move for that bias.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ._defined_graphs import with_outputs
from ._flips import SWEEPS_BETWEEN_FULL_ONES, FlipLikelihood, UnitFlips, Visits, flip_sweep, uncertain_first
from ._kernel import ChainState, Denoiser, Kernel, RandomSource, StepInfo
from ._listed_graphs import ListedGraphs, list_graphs
from ._problem import Problem
from ._relaxed_fit import fit_some_chains
from ._swaps import SwappedGraphs, swap_once
from ._tempering import PriorOdds, density_of, log_weight_of_prior, of_chains, redraw_prior, start_density, trust_of
from ._theta import (
    fit_theta,
    propose_theta_globally,
    sample_noise_std,
    sample_theta,
    theta_precision,
)
from ._working_outputs import MeasurementModel, WorkingOutputs

__all__ = ["SweepKernel", "SweepState"]

# theta is fitted, not drawn, in the first sweeps: the local Gaussian that proposes a draw is good only near the mode.
_FITTED_SWEEPS = 3
# Where nothing else leads theta past a pole, these fits begin at so many other places as well, up to so many times as
# far out as the filter's own range of starting values. On 60 simulated ARMA(1, 0) systems, 8 %
# of the sure pairs are wrong with it, and 14 % without.
_STARTS_OF_THETA, _REACH_OF_STARTS = 6, 8.0
_SWAPS_AMONG_FEW_PAIRS = 6  # in a sweep
# Before the draws begin, a chain whose posterior is lower than the best chain's by this much, in logarithms, starts
# anew from one that is not: it is in another mode, of odds too small to matter. Looked at every so many sweeps.
_LARGEST_DEFICIT = 30.0
_SWEEPS_BETWEEN_RESTARTS = 2
# The share of the sweeps, the last ones, that counts as draws from the posterior.
_KEPT_SHARE = 0.5
# Chains that start from draws of an earlier fit take this share of the sweeps, and keep this share of them as draws.
_SHARE_OF_SWEEPS_RESUMED = 0.4
_KEPT_SHARE_RESUMED = 0.75


class SweepState(NamedTuple):
    """What the next sweep needs."""

    chain: ChainState
    likelihood_gain: Tensor  # (chains, unknown pairs), of a flip, when it was last looked at
    prior: PriorOdds
    denoise: Denoiser  # with the trust that every chain has now
    origin: Tensor  # (chains,) the chain that each goes back to
    outputs: WorkingOutputs  # what each chain takes the outputs to be
    n_sweeps: int
    listed: ListedGraphs | None = None  # all graphs, where they are few


@dataclass(frozen=True)
class SweepKernel(Kernel):
    """Redraw the unknown pairs of binary graphs, a part at a time, the others taken as known.

    Parameters
    ----------
    n_sweeps : int
        How often every pair is redrawn.
    sigma : float
        Standard deviation of the noise on the copy that the prior is asked about.
    n_parts : int
        Into how many parts the pairs are divided. One: the prior is not told that other pairs are known.
    n_swaps : int
        Swaps in each sweep before the draws begin.
    temperature : float
        Draws come from the posterior to the power 1 / temperature.
    noise_std : float or None
        The measurement noise. None draws it too.
    measurements : MeasurementModel
        Whether outputs have offsets and outliers, which are then drawn too.
    resumes : bool
        Whether chains start from draws of an earlier fit.
    has_independent_pairs : bool
        Whether pairs are independent under the prior. Where few of them are unknown, all graphs are then listed, and
        drawn from the list at the beginning of every sweep.
    """

    step_name: ClassVar[str] = "sweep"
    needs_autograd: ClassVar[bool] = False
    remedy: ClassVar[str] = "raise n_chains"

    n_sweeps: int
    sigma: float
    n_parts: int = 5
    n_swaps: int = 1
    temperature: float = 1.0
    noise_std: float | None = None
    measurements: MeasurementModel = field(default_factory=MeasurementModel)
    resumes: bool = False
    has_independent_pairs: bool = False

    @property
    def n_steps(self) -> int:
        return self.n_sweeps

    @property
    def n_draws(self) -> int:
        return max(1, round((_KEPT_SHARE_RESUMED if self.resumes else _KEPT_SHARE) * self.n_sweeps))

    def resumed(self) -> SweepKernel:
        return replace(self, n_sweeps=max(1, round(_SHARE_OF_SWEEPS_RESUMED * self.n_sweeps)), resumes=True)

    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> SweepState:
        if not self.resumes:
            chain = fit_some_chains(problem, denoise, chain, self.sigma, self.noise_std)
        is_edge = with_outputs(problem, chain.pairs > 0.5, chain.pairs)
        chain = chain._replace(pairs=is_edge.to(chain.pairs.dtype))
        adjacency = problem.assemble(chain.pairs)
        outputs = self.measurements.start(problem, len(chain.pairs))
        chain, outputs = self._draw_parameters(problem, adjacency, chain, outputs, rng, fit_first=True)
        origin = torch.arange(len(chain.pairs), device=chain.pairs.device)
        nothing = torch.zeros_like(chain.pairs)
        denoise = start_density(denoise, chain.pairs, rng)
        # Fits on the list are made once, so outputs must be the same in all chains and sweeps.
        is_listed = self.has_independent_pairs and self.n_parts > 1 and self.measurements.is_trivial
        listed = list_graphs(problem, self.noise_std) if is_listed else None
        return SweepState(chain, nothing, PriorOdds(nothing, nothing), denoise, origin, outputs, 0, listed)

    def step(
        self, problem: Problem, denoise: Denoiser, state: SweepState, rng: RandomSource
    ) -> tuple[SweepState, StepInfo]:
        chain, prior, denoise, gain = state.chain, state.prior, state.denoise, state.likelihood_gain.clone()
        is_on_the_way = state.n_sweeps < self.n_sweeps - self.n_draws
        measured_problem, problem = problem, self.measurements.applied(problem, state.outputs)
        chain, listed_probability = self._draw_from_list(problem, state, rng)
        gain[chain.pairs != state.chain.pairs] = torch.inf  # to be looked at
        graphs = SwappedGraphs.of(problem, chain)
        for _ in range(self._n_swaps(problem, is_on_the_way)):
            graphs = swap_once(problem, denoise, graphs, *chain[1:], prior.log_odds, self.sigma, self.temperature, rng)
        gain[graphs.pairs != chain.pairs] = torch.inf  # to be looked at
        chain, adjacency = chain._replace(pairs=graphs.pairs), problem.assemble(graphs.pairs)
        likelihood = FlipLikelihood(problem, graphs.changes, chain.noise_std, self.temperature)
        order, normal = rng.uniform(problem.n_unknown).argsort(1), rng.normal(problem.n_unknown)
        thresholds = torch.logit(rng.uniform(problem.n_unknown))
        # Among few pairs a full sweep costs next to nothing.
        is_full = state.n_sweeps % SWEEPS_BETWEEN_FULL_ONES == 0 or self.n_parts >= problem.n_unknown
        for part, is_visited in self._parts(order, None if is_full else gain + (1 - 2 * chain.pairs) * prior.log_odds):
            redrawn = None
            if self.n_parts > 1:
                redrawn = torch.zeros_like(normal).scatter_(1, part, is_visited.to(normal))
            if part.shape[1]:
                odds = self._prior_odds(problem, denoise, normal, chain.pairs, redrawn)
                prior = odds if redrawn is None else prior.where(redrawn > 0, odds)
            visits = Visits(part, is_visited, thresholds.gather(1, part))
            flip_sweep(problem, likelihood, UnitFlips(self.temperature), adjacency, prior.log_odds, visits, gain)
            chain = chain._replace(pairs=problem.gather(adjacency))
        is_fitted = state.n_sweeps < _FITTED_SWEEPS
        chain, outputs = self._draw_parameters(measured_problem, adjacency, chain, state.outputs, rng, is_fitted)
        at = adjacency, chain.theta, chain.noise_std
        log_likelihood = self.measurements.log_likelihood(measured_problem, outputs, *at)
        # What a flip would gain, seen from the pair as it stands now.
        flip_odds = (gain + (1 - 2 * chain.pairs) * prior.log_odds) / self.temperature
        probability = torch.sigmoid((1 - 2 * chain.pairs) * flip_odds)
        if listed_probability is not None:
            probability = 0.5 * (probability + listed_probability)
        log_prior = _log_prior(chain.pairs, prior.log_odds) + log_weight_of_prior(denoise)
        denoise, prior = redraw_prior(denoise, prior, chain.pairs, rng)
        drawn = trust_of(denoise), density_of(denoise), outputs.offset, outputs.outlier_probability
        info = StepInfo(self.sigma, probability, log_likelihood, log_prior, state.origin, *drawn)
        state = SweepState(chain, gain, prior, denoise, state.origin, outputs, state.n_sweeps + 1, state.listed)
        if is_on_the_way and state.n_sweeps % _SWEEPS_BETWEEN_RESTARTS == 0:
            state = _restarted(state, (log_likelihood + info.log_prior) / self.temperature, rng.uniform())
        return state, info

    def _draw_from_list(
        self, problem: Problem, state: SweepState, rng: RandomSource
    ) -> tuple[ChainState, Tensor | None]:
        """Draw graph, theta and noise level from the list, if there is one; and how probable every pair was."""
        if state.listed is None:
            return state.chain, None
        # What a prior of independent pairs says where nothing is known of a pair is all that it says.
        nothing, everything = torch.zeros_like(state.chain.pairs), torch.ones_like(state.chain.pairs)
        odds = self._prior_odds(problem, state.denoise, nothing, 0.5 * everything, everything).log_odds
        return state.listed.redraw(problem, state.chain, odds, self.noise_std, self.temperature, rng)

    def _n_swaps(self, problem: Problem, is_on_the_way: bool) -> int:
        if self.n_parts == 1 or problem.n_unknown < 2:
            return 0
        # Among few pairs a swap costs next to nothing, and may be the only move that a strong prior leaves.
        if self.n_parts >= problem.n_unknown:
            return _SWAPS_AMONG_FEW_PAIRS
        return self.n_swaps if is_on_the_way else 1

    def _parts(self, order: Tensor, flip_gain: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Pairs (chains, visits) to redraw together and whether to draw each: all, or those of an uncertain flip."""
        is_visited = torch.ones_like(order, dtype=torch.bool)
        size = max(1, -(-order.shape[1] // self.n_parts))
        if flip_gain is not None:
            order, is_visited = uncertain_first(order, flip_gain)
        # At least one part, though it be empty: the likelihood and the prior are wanted at the end of it.
        n_parts = max(1, -(-order.shape[1] // size))
        yield from zip(order.chunk(n_parts, 1), is_visited.chunk(n_parts, 1), strict=True)

    def _prior_odds(
        self, problem: Problem, denoise: Denoiser, normal: Tensor, pairs: Tensor, redrawn: Tensor | None
    ) -> PriorOdds:
        """A noisy copy, and what the prior makes of it; noise on the pairs that `redrawn` marks, or all."""
        # The odds will be divided by the temperature, and the copy's share in them must then still fit its noise.
        jitter = self.sigma * self.temperature**0.5 * normal
        if redrawn is None:
            return PriorOdds.asked(problem, denoise, pairs + jitter, self.sigma, None)
        known = 1 - problem.scatter(redrawn)
        return PriorOdds.asked(problem, denoise, pairs + jitter * redrawn, self.sigma, known)

    def _draw_parameters(
        self,
        measured_problem: Problem,
        adjacency: Tensor,
        chain: ChainState,
        outputs: WorkingOutputs,
        rng: RandomSource,
        fit_first: bool,
    ) -> tuple[ChainState, WorkingOutputs]:
        """Draw theta, then what is unknown of the measurements."""
        problem = self.measurements.applied(measured_problem, outputs)
        theta, temperature = chain.theta, self.temperature
        if fit_first:
            # A parameter that the data do not determine must not go where a draw never finds back from.
            has_gaussian_prior = problem.filter.log_prior(theta) is None
            precision = theta_precision(problem, chain.noise_std) if has_gaussian_prior else 0.0
            theta = fit_theta(problem, adjacency, theta, 10, precision).theta
            if _may_have_poles(problem):
                theta = _better_theta(problem, adjacency, theta, precision, rng)
        if not problem.filter.linear_in_theta:
            place, uniform = rng.uniform(theta.shape[1]), rng.uniform()
            theta = propose_theta_globally(problem, adjacency, theta, chain.noise_std, place, uniform, temperature)
        normal, uniform = rng.normal(theta.shape[1]), rng.uniform()
        theta, _ = sample_theta(problem, adjacency, theta, chain.noise_std, normal, uniform, temperature)
        if not self.measurements.is_trivial:
            given = chain.noise_std, self.noise_std is not None
            outputs, noise_std = self.measurements.redrawn(measured_problem, outputs, adjacency, theta, *given, rng)
            return chain._replace(theta=theta, noise_std=noise_std), outputs
        noise_std = chain.noise_std
        if self.noise_std is None:
            noise_std = sample_noise_std(problem, adjacency, theta, rng.gamma(0.5 * problem.n_measured))
        return chain._replace(theta=theta, noise_std=noise_std), outputs


def _may_have_poles(problem: Problem) -> bool:
    """Whether theta may be anything, so that nothing leads it past values at which the outputs are infinite.

    Within bounds, `propose_theta_globally` does.
    """
    is_bounded = all(math.isfinite(low) and math.isfinite(high) for low, high in problem.filter.bounds())
    return not (is_bounded or problem.filter.linear_in_theta or problem.filter.needs_autograd)


def _better_theta(
    problem: Problem, adjacency: Tensor, theta: Tensor, precision: Tensor | float, rng: RandomSource
) -> Tensor:
    """Fit theta from other starts too, and return the best of all fits.

    A fit does not cross values at which the outputs are infinite, as an ARMA filter's are at its poles.
    """
    low, high = torch.tensor(problem.filter.initial_range(), dtype=theta.dtype, device=theta.device).unbind(1)
    uniform = rng.uniform(_STARTS_OF_THETA, theta.shape[1] + 1)
    reach = _REACH_OF_STARTS ** uniform[..., :1]
    starts = 0.5 * (low + high) + (high - low) * reach * (uniform[..., 1:] - 0.5)
    best, least = theta, torch.full_like(theta[:, 0], torch.inf, dtype=torch.float64)
    for start in (theta, *problem.filter.constrain(starts).unbind(1)):
        found = fit_theta(problem, adjacency, start, 10, precision)
        cost = found.squares + (precision * found.theta.double().square()).sum(-1)
        is_better = cost < least  # False where it is nan
        best, least = torch.where(is_better[:, None], found.theta, best), torch.where(is_better, cost, least)
    return best


def _restarted(state: SweepState, log_posterior: Tensor, uniform: Tensor) -> SweepState:
    """Let chains that fall far behind go on from where another chain is, picked at random among those that do not."""
    is_finite = torch.isfinite(log_posterior)
    if not bool(is_finite.any()):
        return state
    best = log_posterior[is_finite].max()
    # A chain that has diverged is left alone, to be dropped and counted: the filter is to blame, not its start.
    is_behind = is_finite & (log_posterior < best - _LARGEST_DEFICIT)
    ahead = (is_finite & ~is_behind).nonzero()[:, 0]
    other = ahead[(uniform * len(ahead)).long().clamp_max(len(ahead) - 1)]
    source = torch.where(is_behind, other, torch.arange(len(other), device=other.device))
    chain = ChainState(*(part[source] for part in state.chain))
    prior, denoise = state.prior.of_chains(source), of_chains(state.denoise, source)
    origin, outputs = state.origin[source], state.outputs.of_chains(source)
    gain = state.likelihood_gain[source]
    return SweepState(chain, gain, prior, denoise, origin, outputs, state.n_sweeps, state.listed)


def _log_prior(pairs: Tensor, log_odds: Tensor) -> Tensor:
    return torch.nn.functional.logsigmoid((2 * pairs - 1) * log_odds).sum(1)
