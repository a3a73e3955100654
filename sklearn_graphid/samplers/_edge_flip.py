"""Edge-flip Gibbs sampling under a learned prior.

The posterior lives on binary graphs, and there its likelihood is exact and cheap. What is missing is the prior, which
is known only through a denoiser. So the chain carries a noisy copy of the graph along (a split Gibbs sampler):

1. noise: the copy is the graph plus Gaussian noise of standard deviation sigma, an exact draw;
2. denoise: given the copy, the prior turns into log-odds for every pair;
3. flip: every unknown pair is drawn from its odds, prior log-odds plus the exact change in log-likelihood;
4. theta, then the noise level, are drawn given the graph.

Where the filter is linear in theta, step 3 integrates theta out.

A prior that can be told which pairs are known allows more. After the annealing, the unknown pairs are redrawn a part at
a time, and the others count as known: the copy is noisy in the part only. The odds then are, nearly, those of a pair
given all others, and a large sigma keeps nothing where it was.

The chain starts with a few rounds of the first three steps without the likelihood, at no more cost than the denoiser's:
a graph that the prior finds plausible gives theta a good start, and a bad one is hard to leave later.

Pairs that are redrawn together are treated as independent given the copy, in step 2 only. That is exact for a prior of
independent pairs at any sigma, for any prior as sigma goes to zero, and for a part of one pair; annealing and parts of
moderate size trade the freedom to move for that bias.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from ._langevin import AnnealingSettings, ChainState, Denoiser, NormalSource
from ._problem import Problem
from ._theta import fit_theta, leap_theta, log_marginal_likelihood, sample_noise_std, sample_theta, theta_precision

__all__ = ["Sweep", "edge_flip_gibbs", "sweep_schedule"]

# Log-odds from a float32 probability are noise beyond this.
_SMALLEST_PROBABILITY = 1e-6
# Rounds under the prior alone before the data are looked at, and the noise they begin and end with, relative to the
# largest noise level.
_PRIOR_ROUNDS = 8
_PRIOR_NOISE = (1.5, 0.5)
# A pair whose odds of flipping were worse than this (in logarithms) when last looked at is not looked at again until
# the next full sweep, which is every so many. Most pairs are that certain most of the time.
_CERTAIN = -12.0
_SWEEPS_BETWEEN_FULL_ONES = 4
# theta is fitted, not drawn, in the first sweeps: the local Gaussian that proposes a draw is good only near the mode.
_FITTED_SWEEPS = 3


class Sweep(NamedTuple):
    """What a sweep over all unknown pairs gives."""

    state: ChainState
    sigma: float
    edge_probability: Tensor  # (chains, unknown pairs), of each pair given all else when it was drawn
    log_likelihood: Tensor  # (chains,)
    log_prior: Tensor  # (chains,) of the unknown pairs, given the noisy copy


def edge_flip_gibbs(
    problem: Problem, denoise: Denoiser, settings: AnnealingSettings, noise: NormalSource, state: ChainState
) -> Iterator[Sweep]:
    """Run the sampler and yield after every sweep.

    Parameters
    ----------
    problem : Problem
        Data, filter and what is known.
    denoise : callable
        E[A | A~] under the prior.
    settings : AnnealingSettings
        `sigmas` from large to small, with `n_steps` sweeps at each.
    noise : NormalSource
        The randomness.
    state : ChainState
        Where to start; its pairs are 0 or 1.

    Yields
    ------
    Sweep
        After each sweep.
    """
    state = _start_from_prior(problem, denoise, settings, noise, state)
    adjacency = problem.assemble(state.pairs)
    state = _draw_parameters(problem, settings, noise, adjacency, state, fit_first=True)
    likelihood_gain, prior = torch.zeros_like(state.pairs), torch.zeros_like(state.pairs)
    for n_sweeps, (sigma, n_parts) in enumerate(sweep_schedule(settings)):
        order, normal = noise.uniform(problem.n_unknown).argsort(1), noise.normal(problem.n_unknown)
        thresholds = torch.logit(noise.uniform(problem.n_unknown))
        for part in order.chunk(n_parts, 1):
            redrawn = None if n_parts == 1 else torch.zeros_like(prior).scatter_(1, part, 1.0)
            odds = _prior_log_odds(problem, denoise, sigma, settings.temperature, normal, state.pairs, redrawn)
            prior = odds if redrawn is None else torch.where(redrawn > 0, odds, prior)
            is_visited = torch.ones_like(part, dtype=torch.bool)
            if n_sweeps % _SWEEPS_BETWEEN_FULL_ONES:
                part, is_visited = _uncertain_first(part, likelihood_gain + (1 - 2 * state.pairs) * prior)
            visits = _Visits(part, is_visited, thresholds.gather(1, part))
            log_likelihood = _flip_sweep(problem, settings, adjacency, prior, state, visits, likelihood_gain)
            state = state._replace(pairs=problem.gather(adjacency))
            state = _draw_parameters(problem, settings, noise, adjacency, state, n_sweeps < _FITTED_SWEEPS)
        # What a flip would gain, seen from the pair as it stands now.
        odds = (likelihood_gain + (1 - 2 * state.pairs) * prior) / settings.temperature
        probability = torch.sigmoid((1 - 2 * state.pairs) * odds)
        yield Sweep(state, sigma, probability, log_likelihood, _log_prior(state.pairs, prior))


def sweep_schedule(settings: AnnealingSettings) -> list[tuple[float, int]]:
    """Noise level and number of parts of every sweep: the annealing, and as many sweeps again that finish."""
    annealing = [(sigma, 1) for sigma in settings.sigmas for _ in range(settings.n_steps)]
    # Where the pairs outside a part are known, noise has nothing left to decide, and the most of it moves best.
    finish = (settings.sigmas[-1], 1) if settings.n_parts == 1 else (settings.sigmas[0], settings.n_parts)
    return annealing + [finish] * len(annealing)


class _Visits(NamedTuple):
    """Which pair each chain looks at in turn, (chains, visits)."""

    pairs: Tensor
    is_drawn: Tensor  # False where the chain has no more pairs to draw and waits for the others
    thresholds: Tensor  # log-odds of uniform numbers


def _uncertain_first(order: Tensor, flip_gain: Tensor) -> tuple[Tensor, Tensor]:
    """Keep of each chain's order what is uncertain; chains that have less are filled up with pairs not to be drawn."""
    uncertain = (flip_gain >= _CERTAIN).gather(1, order)
    n_visits = int(uncertain.sum(1).max())
    first = uncertain.to(torch.int8).argsort(dim=1, stable=True, descending=True)[:, :n_visits]
    return order.gather(1, first), uncertain.gather(1, first)


def _prior_log_odds(
    problem: Problem,
    denoise: Denoiser,
    sigma: float,
    temperature: float,
    normal: Tensor,
    pairs: Tensor,
    redrawn: Tensor | None = None,
) -> Tensor:
    """Steps 1 and 2: a noisy copy, and what the prior makes of it; noise on the pairs that `redrawn` marks, or all."""
    # The odds will be divided by the temperature, and the copy's share in them must then still fit its noise.
    jitter = sigma * temperature**0.5 * normal
    if redrawn is None:
        clean = denoise(problem.assemble(pairs + jitter), sigma)
    else:
        known = 1 - problem.scatter(redrawn)
        clean = denoise(problem.assemble(pairs + jitter * redrawn), sigma, known)
    return torch.logit(problem.gather(clean), eps=_SMALLEST_PROBABILITY)


def _log_prior(pairs: Tensor, log_odds: Tensor) -> Tensor:
    return torch.nn.functional.logsigmoid((2 * pairs - 1) * log_odds).sum(1)


def _start_from_prior(
    problem: Problem, denoise: Denoiser, settings: AnnealingSettings, noise: NormalSource, state: ChainState
) -> ChainState:
    largest = settings.sigmas[0]
    begin, end = (share * largest for share in _PRIOR_NOISE)
    pairs = state.pairs
    for round_number in range(_PRIOR_ROUNDS):
        sigma = begin * (end / begin) ** (round_number / (_PRIOR_ROUNDS - 1))
        log_odds = _prior_log_odds(problem, denoise, sigma, 1.0, noise.normal(problem.n_unknown), pairs)
        pairs = (torch.logit(noise.uniform(problem.n_unknown)) < log_odds).to(pairs.dtype)
    return state._replace(pairs=pairs)


def _draw_parameters(
    problem: Problem,
    settings: AnnealingSettings,
    noise: NormalSource,
    adjacency: Tensor,
    state: ChainState,
    fit_first: bool,
) -> ChainState:
    theta = state.theta
    if fit_first:
        theta = fit_theta(problem, adjacency, theta, n_iterations=10).theta
    if not problem.filter.linear_in_theta:
        place, uniform = noise.uniform(theta.shape[1]), noise.uniform()
        theta = leap_theta(problem, adjacency, theta, state.noise_std, place, uniform, settings.temperature)
    normal, uniform = noise.normal(theta.shape[1]), noise.uniform()
    theta, _ = sample_theta(problem, adjacency, theta, state.noise_std, normal, uniform, settings.temperature)
    noise_std = state.noise_std
    if settings.noise_std is None:
        noise_std = sample_noise_std(problem, adjacency, theta, noise.gamma(0.5 * problem.n_measured))
    return state._replace(theta=theta, noise_std=noise_std)


def _flip_sweep(
    problem: Problem,
    settings: AnnealingSettings,
    adjacency: Tensor,
    prior: Tensor,
    state: ChainState,
    visits: _Visits,
    likelihood_gain: Tensor,
) -> Tensor:
    """Draw the pairs of every chain in their order, in place, and return the log-likelihood at the end.

    `likelihood_gain` (chains, unknown pairs) is kept up to date with what a flip of each pair, as it stands, would add
    to the log-likelihood when it was last looked at.
    """
    chains = torch.arange(len(adjacency), device=adjacency.device)
    evaluate = _log_likelihood_of_graphs(problem, state, settings.temperature)
    log_likelihood = evaluate(adjacency)
    for pair, is_drawn, threshold in zip(*(visit.unbind(1) for visit in visits), strict=True):
        rows, columns = problem.rows[pair], problem.columns[pair]
        before = adjacency[chains, rows, columns]
        _set_pair(adjacency, chains, rows, columns, 1 - before)
        flipped = evaluate(adjacency)
        # Where the flipped graph has no finite likelihood, the pair stays.
        gain = (flipped - log_likelihood).nan_to_num(-torch.inf)
        flips = is_drawn & (threshold < (gain + (1 - 2 * before) * prior[chains, pair]) / settings.temperature)
        _set_pair(adjacency, chains, rows, columns, torch.where(flips, 1 - before, before))
        log_likelihood = torch.where(flips, flipped, log_likelihood)
        likelihood_gain[chains, pair] = torch.where(flips, -gain, gain)
    return log_likelihood


def _log_likelihood_of_graphs(problem: Problem, state: ChainState, temperature: float) -> Callable[[Tensor], Tensor]:
    """The log-likelihood as a function of the graph alone.

    Where theta can be integrated out, it is: with theta held, a pair whose flip changes the best theta hardly flips.
    """
    if not problem.filter.linear_in_theta:
        return lambda adjacency: problem.log_likelihood(adjacency, state.theta, state.noise_std)
    # The likelihood is raised to its power before the integral is taken, which is as if there were more noise. The
    # factor is taken out again where all odds are divided by the temperature.
    noise_std = state.noise_std * temperature**0.5
    precision = theta_precision(problem, noise_std)
    dtype = state.pairs.dtype
    return lambda adjacency: (temperature * log_marginal_likelihood(problem, adjacency, noise_std, precision)).to(dtype)


def _set_pair(adjacency: Tensor, chains: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> None:
    adjacency[chains, rows, columns] = values
    adjacency[chains, columns, rows] = values
