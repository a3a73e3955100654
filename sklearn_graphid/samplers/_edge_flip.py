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

from ..filters._base import flipped_graphs
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
# How many pairs a chain looks ahead at first, and how many numbers all that is looked at may hold: more would not stay
# in the processor's cache.
_FIRST_LOOK = 8
_NUMBERS_AT_ONCE = 2**18
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
    is_drawn: Tensor  # those to be drawn come first; False where a chain has no more and waits for the others
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

    Most pairs stay as they are, so a chain looks several pairs ahead at once, as if none of them flipped. What it saw
    holds up to the first that does, and from there it looks again: the draws are those of one pair after the other.

    `likelihood_gain` (chains, unknown pairs) is kept up to date with what a flip of each pair, as it stands, would add
    to the log-likelihood when it was last looked at.
    """
    likelihood = _FlipLikelihood.given(problem, state, settings.temperature)
    log_likelihood = likelihood.of_graphs(adjacency)
    chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
    n_visits, place = visits.is_drawn.sum(1, keepdim=True), torch.zeros_like(chains)
    ahead, most_ahead = _FIRST_LOOK, max(1, _NUMBERS_AT_ONCE // (len(adjacency) * likelihood.n_numbers))
    while (n_left := int((n_visits - place).max())) > 0:
        ahead = min(ahead, n_left, most_ahead)
        look = place + torch.arange(ahead, device=place.device)
        in_range, look = look < n_visits, look.clamp_max(visits.pairs.shape[1] - 1)
        pair = visits.pairs.gather(1, look)
        rows, columns = problem.rows[pair], problem.columns[pair]
        before = adjacency[chains, rows, columns]
        flipped = likelihood.of_flips(adjacency, rows, columns)
        # Where the flipped graph has no finite likelihood, the pair stays.
        gain = (flipped - log_likelihood[:, None]).nan_to_num(-torch.inf)
        odds = (gain + (1 - 2 * before) * prior.gather(1, pair)) / settings.temperature
        flips = in_range & (visits.thresholds.gather(1, look) < odds)
        is_settled = in_range & (flips.cumsum(1) - flips.long() == 0)
        seen = torch.where(flips, -gain, gain)
        likelihood_gain[chains.expand_as(pair)[is_settled], pair[is_settled]] = seen[is_settled]
        chain, step = (flips & is_settled).nonzero(as_tuple=True)
        _set_pair(adjacency, chain, rows[chain, step], columns[chain, step], 1 - before[chain, step])
        log_likelihood[chain] = flipped[chain, step]
        n_settled = is_settled.sum(1, keepdim=True)
        place = place + n_settled
        ahead = _next_look(ahead, float(n_settled.sum() / in_range.any(1).sum()))
    return log_likelihood


def _next_look(ahead: int, n_settled: float) -> int:
    """How many pairs to look ahead after chains got through `n_settled` of them on average."""
    if n_settled > 0.75 * ahead:
        return 2 * ahead
    return max(1, ahead // 2) if n_settled < 0.4 * ahead else ahead


class _FlipLikelihood(NamedTuple):
    """The log-likelihood as a function of the graph alone.

    Where theta can be integrated out, it is: with theta held, a pair whose flip changes the best theta hardly flips.
    """

    of_graphs: Callable[[Tensor], Tensor]  # of (chains, nodes, nodes): (chains,)
    of_flips: Callable[[Tensor, Tensor, Tensor], Tensor]  # of graphs, rows and columns (chains, flips): (chains, flips)
    n_numbers: int  # that one flip needs

    @classmethod
    def given(cls, problem: Problem, state: ChainState, temperature: float) -> _FlipLikelihood:
        if problem.filter.linear_in_theta:
            return cls._with_theta_integrated_out(problem, state, temperature)

        def of_graphs(adjacency: Tensor) -> Tensor:
            theta, noise_std = _repeated(len(adjacency), state.theta, state.noise_std)
            return problem.log_likelihood(adjacency, theta, noise_std)

        def of_flips(adjacency: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
            return of_graphs(flipped_graphs(adjacency, rows, columns).flatten(0, 1)).view_as(rows)

        return cls(of_graphs, of_flips, problem.n_nodes**2)

    @classmethod
    def _with_theta_integrated_out(cls, problem: Problem, state: ChainState, temperature: float) -> _FlipLikelihood:
        # The likelihood is raised to its power before the integral is taken, which is as if there were more noise. The
        # factor is taken out again where all odds are divided by the temperature.
        tempered = state.noise_std * temperature**0.5
        prior_precision = theta_precision(problem, tempered)

        def of_design(design: Tensor) -> Tensor:
            noise_std, precision = _repeated(len(design), tempered, prior_precision)
            return (temperature * log_marginal_likelihood(problem, design, noise_std, precision)).to(state.pairs.dtype)

        def of_graphs(adjacency: Tensor) -> Tensor:
            return of_design(problem.filter.design(adjacency, problem.inputs))

        def of_flips(adjacency: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
            designs = problem.filter.flipped_designs(adjacency, problem.inputs, rows, columns)
            return of_design(designs.flatten(0, 1)).view_as(rows)

        return cls(of_graphs, of_flips, problem.inputs.numel() * problem.filter.n_parameters())


def _repeated(n_graphs: int, *values: Tensor) -> tuple[Tensor, ...]:
    """Repeat what belongs to a chain (chains, ...) for each of its graphs."""
    return tuple(value.repeat_interleave(n_graphs // len(value), dim=0) for value in values)


def _set_pair(adjacency: Tensor, chains: Tensor, rows: Tensor, columns: Tensor, values: Tensor) -> None:
    adjacency[chains, rows, columns] = values
    adjacency[chains, columns, rows] = values
