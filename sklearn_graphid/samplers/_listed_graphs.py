"""All graphs on a few unknown pairs, to propose graph and theta together.

One pair at a time, or two, chains hardly cross from one mode to another where theta has to change with several pairs.
Where so few pairs are unknown that all graphs can be listed, no chain has to walk: for each graph a mixture of
Gaussians around the best fits of theta, reached from several starts, tells roughly how probable the graph is and where
its theta is. Pairs and theta are proposed from there, several at once, and one of the proposals or the present position
is drawn in proportion to posterior over proposal density (iterated sampling importance resampling, Andrieu, Lee and
Vihola, Bernoulli 24, 2018). That is exact however rough the mixture is.

An unknown noise level is integrated out, and drawn right after. Only priors of independent pairs are asked: one answer
tells what they say of every graph.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import ChainState, RandomSource
from ._parameters import fit_theta, log_density_of_theta, sample_noise_std, theta_precision
from ._problem import SMALLEST_NOISE, Problem, have_outputs
from ._sweeps import Move, Sweep, SweepState
from ._tempering import PriorOdds

__all__ = ["DrawFromList", "ListedGraphs", "list_graphs"]

# At most so many unknown pairs, and only where a fit of all graphs takes no longer than a few sweeps: the number of
# fits times what the filter takes for one, in multiplications.
_MOST_PAIRS = 10
_LARGEST_WORK = 4e7
# Fits of a filter that is not linear in theta start from so many places, up to this many times as far out as the
# filter's own range of starting values, with most of them near it. A mode that no fit reaches is all but closed to the
# chains: ARMA filters have one beside every value of theta at which their matrix has no inverse. With half the starts,
# or eight iterations, the list gives some graphs less than a thousandth of their probability.
_N_STARTS = 24
_REACH = 20.0
_N_ITERATIONS = 14, 2  # of the first fits, and of those with the noise level that these found
_N_PROPOSALS = 32
# This share of the proposals comes from Gaussians wider by this factor, as the posterior's tails may be heavier: with
# fewer of them, edge probabilities with ARMA filters err by a fifth more.
_WIDE_SHARE, _WIDE_FACTOR = 0.4, 6.0


@dataclass(frozen=True)
class DrawFromList(Move):
    """Draw graph, theta and the noise level together from a list of all graphs, where they are few.

    Only for priors of independent pairs, and for outputs that are the same in all chains and sweeps, as fits on the
    list are made once.
    """

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        return state.fixing("listed", list_graphs(sweep.problem, sweep.noise_std))

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        listed: ListedGraphs | None = state.fixed["listed"]
        if listed is None:
            return state
        # What a prior of independent pairs says where nothing is known of a pair is all that it says.
        half = torch.full_like(state.chain.pairs, 0.5)
        nothing_known = 1 - sweep.presence.scatter(torch.ones_like(half))
        odds = PriorOdds.asked(sweep.presence, state.denoise, half, sweep.sigma, nothing_known).log_odds
        settings = sweep.noise_std, sweep.temperature
        chain, probability = listed.redraw(sweep.problem, state.chain, odds, *settings, rng)
        gain = state.flip_gain.masked_fill(chain.pairs != state.chain.pairs, torch.inf)  # to be looked at
        return state.at(chain)._replace(flip_gain=gain).telling_probability(probability)


class ListedGraphs(NamedTuple):
    """Graphs, and a mixture of Gaussians for theta on each; all but the pairs in double precision."""

    pairs: Tensor  # (graphs, unknown pairs), 0 and 1
    center: Tensor  # (graphs, starts, parameters)
    factor: Tensor  # (graphs, starts, parameters, parameters), lower Cholesky factor of the covariance
    log_weight: Tensor  # (graphs, starts) of each Gaussian, but for the prior of the graph

    def redraw(
        self,
        problem: Problem,
        chain: ChainState,
        log_odds: Tensor,
        noise_std: float | None,
        temperature: float,
        rng: RandomSource,
    ) -> tuple[ChainState, Tensor]:
        """Draw pairs, theta and, where `noise_std` is None, the noise level anew.

        Parameters
        ----------
        chain : ChainState
            Binary pairs, theta and the noise level.
        log_odds : Tensor (chains, unknown pairs)
            Of an edge, under the prior.

        Returns
        -------
        ChainState, Tensor (chains, unknown pairs)
            Where the chains are now, and how probable each pair was: the weighted mean over all proposals.
        """
        log_odds = log_odds.double()
        log_share = self.log_weight + (log_odds @ self.pairs.double().mT)[..., None]
        log_share = log_share - log_share.logsumexp((1, 2), keepdim=True)
        graph, theta = self._proposals(log_share, rng)
        # The present position comes first, with the number of its graph.
        here = (chain.pairs[:, None] == self.pairs).all(-1).long().argmax(1)
        graph = torch.cat([here[:, None], graph], 1)
        theta = torch.cat([chain.theta[:, None], theta.to(chain.theta)], 1)
        pairs, chains = self.pairs[graph], torch.arange(len(graph), device=graph.device)
        log_weight = _log_posterior(problem, pairs, theta, chain.noise_std, noise_std is None and temperature == 1)
        log_weight = (log_weight + (log_odds[:, None] * pairs).sum(-1)) / temperature
        log_weight = log_weight - (log_share[chains[:, None], graph] + self._log_components(graph, theta)).logsumexp(-1)
        # A chain that has diverged may have no weights, and stays where it is.
        weight = log_weight.nan_to_num(-torch.inf, -torch.inf, -torch.inf).softmax(1).nan_to_num(0.0)
        chosen = chains, _drawn(weight, rng.uniform()[:, None])[:, 0]
        chain = chain._replace(pairs=pairs[chosen], theta=theta[chosen])
        if noise_std is None:
            adjacency, gamma = problem.assemble(chain.pairs), rng.gamma(0.5 * problem.n_measured)
            chain = chain._replace(noise_std=sample_noise_std(problem, adjacency, chain.theta, gamma))
        return chain, (weight[..., None] * pairs).sum(1).to(pairs)

    def _proposals(self, log_share: Tensor, rng: RandomSource) -> tuple[Tensor, Tensor]:
        """Numbers of graphs, and theta on each: (chains, proposals, ...)."""
        n_starts, n_parameters = self.center.shape[1:]
        drawn = _drawn(log_share.flatten(1).exp(), rng.uniform(_N_PROPOSALS))
        graph, start = drawn // n_starts, drawn % n_starts
        width = torch.where(rng.uniform(_N_PROPOSALS) < _WIDE_SHARE, _WIDE_FACTOR, 1.0)[..., None]
        deviation = (width * rng.normal(_N_PROPOSALS, n_parameters)).double()[..., None]
        return graph, self.center[graph, start] + (self.factor[graph, start] @ deviation)[..., 0]

    def _log_components(self, graph: Tensor, theta: Tensor) -> Tensor:
        """Log-density (..., starts) of theta (..., parameters) under a graph's Gaussians, up to a constant."""
        factor, deviation = self.factor[graph], theta[..., None, :].double() - self.center[graph]
        squares = torch.linalg.solve_triangular(factor, deviation[..., None], upper=False)[..., 0].square().sum(-1)
        narrow = math.log(1 - _WIDE_SHARE) - 0.5 * squares
        wide = math.log(_WIDE_SHARE / _WIDE_FACTOR ** theta.shape[-1]) - 0.5 * squares / _WIDE_FACTOR**2
        return torch.logaddexp(narrow, wide) - _log_volume(factor)


def list_graphs(problem: Problem, noise_std: float | None) -> ListedGraphs | None:
    """Fit theta on all graphs of the unknown pairs.

    None where they are too many, where parameters are given, or where derivatives come from automatic differentiation,
    which takes half a minute for the fits of 1,024 graphs.
    """
    if problem.filter.needs_autograd:
        return None
    n_starts = 1 if problem.filter.linear_in_theta else _N_STARTS
    n_unknown, (n_experiments, n_nodes) = problem.n_unknown, problem.inputs.shape
    if not 0 < n_unknown <= _MOST_PAIRS or any(low == high for low, high in problem.filter.bounds()):
        return None
    if 2**n_unknown * n_starts * n_nodes**2 * (n_nodes + n_experiments) > _LARGEST_WORK:
        return None
    pairs = problem.base.new_tensor(list(itertools.product((0.0, 1.0), repeat=n_unknown)))
    pairs = pairs[have_outputs(problem, problem.assemble(pairs))]
    adjacency = problem.assemble(pairs).repeat_interleave(n_starts, 0)
    theta = _starts(problem, n_starts).repeat(len(pairs), 1).to(pairs)
    level = pairs.new_full((len(adjacency),), problem.scale if noise_std is None else noise_std)
    # The noise that the first fits find says how much the prior counts in the second.
    for n_iterations in _N_ITERATIONS:
        fit = fit_theta(problem, adjacency, theta, n_iterations, theta_precision(problem, level))
        theta = fit.theta
        if noise_std is None:
            level = (fit.squares / problem.n_measured).sqrt().clamp_min(SMALLEST_NOISE * problem.scale).to(level)
    factor, failed = torch.linalg.cholesky_ex(fit.covariance * level.double()[:, None, None] ** 2)
    listed, is_collapsed = pairs.repeat_interleave(n_starts, 0)[:, None], noise_std is None
    # Laplace's approximation to the evidence.
    log_weight = _log_posterior(problem, listed, theta[:, None], level, is_collapsed)[:, 0] + _log_volume(factor)
    is_usable = (failed == 0) & torch.isfinite(log_weight) & torch.isfinite(theta).all(-1)
    theta = torch.where(is_usable[:, None], theta.double(), 0.0)
    factor = torch.where(is_usable[:, None, None], factor, torch.eye(theta.shape[1]).to(factor))
    log_weight = torch.where(is_usable, log_weight, -torch.inf)
    if not bool(is_usable.any()):
        return None
    return ListedGraphs(pairs, *(part.unflatten(0, (-1, n_starts)) for part in (theta, factor, log_weight)))


def _starts(problem: Problem, n_starts: int) -> Tensor:
    """Values of theta (starts, parameters) to begin with, most of them near the filter's own range."""
    low, high = torch.tensor(problem.filter.initial_range(), dtype=torch.float64, device=problem.base.device).unbind(1)
    sobol = torch.quasirandom.SobolEngine(len(low)).draw(n_starts + 1, dtype=torch.float64)[1:].to(low)
    return problem.filter.constrain(0.5 * (low + high) + 0.5 * (high - low) * _REACH * (2 * sobol - 1) ** 3)


def _log_posterior(problem: Problem, pairs: Tensor, theta: Tensor, level: Tensor, is_collapsed: bool) -> Tensor:
    """Log-posterior (chains, n) of pairs and theta, but for the prior of the graph, with noise of a `level` (chains,).

    Where it `is_collapsed`, the noise level is integrated out instead, under its prior 1 / variance.
    """
    flat, adjacency = theta.flatten(0, 1), problem.assemble(pairs.flatten(0, 1))
    squares = problem.residuals(adjacency, flat).double().square().sum((-2, -1)).view(theta.shape[:2])
    level = level.double()[:, None].expand_as(squares)
    log_prior = log_density_of_theta(problem, flat, torch.zeros_like(squares).flatten(), level.flatten())
    log_likelihood = -0.5 * squares / level**2
    if is_collapsed:
        smallest = problem.n_measured * (SMALLEST_NOISE * problem.scale) ** 2
        log_likelihood = -0.5 * problem.n_measured * squares.clamp_min(smallest).log()
    is_admissible = (problem.filter.constrain(theta) == theta).all(-1)
    return torch.where(is_admissible, log_likelihood + log_prior.view_as(squares), -torch.inf)


def _log_volume(factor: Tensor) -> Tensor:
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _drawn(weights: Tensor, uniform: Tensor) -> Tensor:
    """Places (chains, n) drawn in proportion to weights (chains, places), from uniform numbers (chains, n)."""
    below = weights.cumsum(1)
    return torch.searchsorted(below, uniform.double() * below[:, -1:]).clamp_max(weights.shape[1] - 1)
