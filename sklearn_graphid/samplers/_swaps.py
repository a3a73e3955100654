"""Swaps: an edge leaves one unknown pair for another.

Where the data are good, a graph with one edge in the wrong place is a valley away from the right one: adding an edge
and taking one off both make the fit far worse, and only the two together make it better. So two pairs are moved at
once, by a Metropolis step:

1. some edges and some non-edges among the unknown pairs are picked at random;
2. what each swap of one for another would do to the residuals is added up from the two single flips, and a swap is
   drawn with odds in the square root of what it would gain (Zanella's balanced proposal, JASA 115, 2020);
3. it is accepted by its exact likelihood, the odds of drawing the way back, and what the prior said when it was last
   asked; only where that succeeds is the prior asked again, and what it then says decides (delayed acceptance, Christen
   and Fox, JCGS 14, 2005).

The prior's joint law of the two pairs is exact: by the chain rule, the denoiser is told the first when it is asked
about the second.

`GraphOdds` is what the prior says of flips and swaps, for the moves of edges with strengths as well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..filters import EdgeChanges
from ._kernel import ChainState, Denoiser, RandomSource
from ._problem import Problem
from ._sweeps import Move, Sweep, SweepState
from ._tempering import PriorOdds, TemperedDenoiser, log_weight_of_prior, of_chains

__all__ = ["GraphOdds", "Swap", "SwapEdges", "SwappedGraphs", "prior_gain_of_swap", "swap_once"]

# How many edges and how many non-edges are picked: all of their combinations are looked at.
_MOST_EDGES = 12
_MOST_OTHERS = 36
# Odds of single pairs say little about two that depend on one another: in a tree no pair can change alone, and two can.
# So the guess that decides whether the prior is asked at all is never surer than this, in logarithms.
_BOLDEST_GUESS = 1.0
# Probabilities of a denoiser beyond this are rounding errors.
_SMALLEST_PROBABILITY = 1e-6


class Swap(NamedTuple):
    """The pair that loses its edge, and the one that gets it, by their numbers (chains,)."""

    taken: Tensor
    added: Tensor

    @property
    def both(self) -> Tensor:
        """The two, (chains, 2)."""
        return torch.stack(self, 1)

    def of(self, pairs: Tensor) -> Tensor:
        """The pairs (chains, unknown pairs) after the swap."""
        return pairs.scatter(1, self.taken[:, None], 0.0).scatter(1, self.added[:, None], 1.0)

    def select(self, chains: Tensor) -> Swap:
        """Those of some chains."""
        return Swap(self.taken[chains], self.added[chains])

    def added_minus_taken(self, values: Tensor) -> Tensor:
        """The difference (chains,) of values (chains, unknown pairs)."""
        return (values.gather(1, self.added[:, None]) - values.gather(1, self.taken[:, None]))[:, 0]


class _Candidates(NamedTuple):
    """Pairs that may exchange their edges, and whether a place is taken, each (chains, places)."""

    edges: Tensor
    others: Tensor
    has_edge: Tensor
    has_other: Tensor

    def at(self, place: Tensor) -> Swap:
        """The swap at each chain's place (chains,) among all combinations."""
        first, second = (number[:, None] for number in self._places(place))
        return Swap(self.edges.gather(1, first)[:, 0], self.others.gather(1, second)[:, 0])

    def exchanged(self, place: Tensor, swap: Swap) -> _Candidates:
        """The candidates after a swap, at the same places."""
        first, second = (number[:, None] for number in self._places(place))
        edges = self.edges.scatter(1, first, swap.added[:, None])
        return self._replace(edges=edges, others=self.others.scatter(1, second, swap.taken[:, None]))

    def _places(self, place: Tensor) -> tuple[Tensor, Tensor]:
        n_others = self.others.shape[1]
        return place // n_others, place % n_others


class SwappedGraphs(NamedTuple):
    """Binary graphs, and what is known of their fit; it is kept up to date from swap to swap."""

    pairs: Tensor  # (chains, unknown pairs)
    residuals: Tensor  # (chains, measurements)
    changes: EdgeChanges  # what changes of single pairs do, given theta; swaps change it in place

    @classmethod
    def of(cls, problem: Problem, chain: ChainState, changes: EdgeChanges | None = None) -> SwappedGraphs:
        """Make them of chains as they are; effects of changes are computed anew where they are None."""
        adjacency = problem.assemble(chain.pairs)
        residuals = problem.residuals(adjacency, chain.theta).flatten(1)
        return cls(chain.pairs, residuals, changes or problem.edge_changes(adjacency, chain.theta))

    def after(self, problem: Problem, swap: Swap, is_possible: Tensor, theta: Tensor) -> SwappedGraphs:
        """All chains after a swap, where there is one; these graphs stay as they are."""
        changes, residuals = self.changes.copy(), self.residuals
        # The edge comes before the other goes: a graph that falls apart on the way would leave no digits in the tables.
        for pair, amount in ((swap.added, 1.0), (swap.taken, -1.0)):
            (rows, columns), amounts = problem.space.entries(pair), amount * is_possible.to(theta.dtype)
            added = changes.output_changes(rows[:, None], columns[:, None], amounts[:, None], theta)[:, 0]
            residuals = residuals - (added * problem.measured).flatten(1)
            changes.change(rows, columns, amounts)
        return SwappedGraphs(swap.of(self.pairs), residuals, changes)

    def with_chains(self, chains: Tensor, other: SwappedGraphs) -> SwappedGraphs:
        """These, with some chains taken over from others."""
        if len(chains):
            self.changes.take_over(other.changes, chains)
        pairs, residuals = (
            mine.index_copy(0, chains, new[chains]) for mine, new in zip(self[:2], other[:2], strict=True)
        )
        return self._replace(pairs=pairs, residuals=residuals)


@dataclass(frozen=True)
class SwapEdges(Move):
    """Offer every chain some swaps, for what flips of one pair at a time cannot reach.

    Parameters
    ----------
    n_swaps : int
        In each sweep of the warm-up; from then on one.
    n_among_few, few : int
        How many where there are no more than `few` unknown pairs. A swap costs next to nothing there, and may be the
        only move that a strong prior leaves.
    """

    n_swaps: int = 1
    n_among_few: int = 6
    few: int = 20

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, prior = sweep.problem_of(state), state.prior
        graphs = SwappedGraphs.of(problem, state.chain, state.changes)
        for _ in range(self._n_now(problem.n_unknown, sweep.is_warmup)):
            noise = sweep.sigma, sweep.temperature
            graphs = swap_once(problem, state.denoise, graphs, *state.chain[1:], prior.log_odds, *noise, rng)
        gain = state.flip_gain.masked_fill(graphs.pairs != state.chain.pairs, torch.inf)  # to be looked at
        chain = state.chain._replace(pairs=graphs.pairs)
        return state._replace(chain=chain, flip_gain=gain, changes=graphs.changes)

    def _n_now(self, n_unknown: int, is_warmup: bool) -> int:
        if n_unknown < 2:
            return 0
        if n_unknown <= self.few:
            return self.n_among_few
        return self.n_swaps if is_warmup else 1


def swap_once(
    problem: Problem,
    denoise: Denoiser,
    graphs: SwappedGraphs,
    theta: Tensor,
    noise_std: Tensor,
    prior_log_odds: Tensor,
    sigma: float,
    temperature: float,
    rng: RandomSource,
) -> SwappedGraphs:
    """Offer every chain one swap, with theta and the noise level as they are.

    Parameters
    ----------
    problem : Problem
        Data, filter and what is known.
    denoise : callable
        E[A | A~] under a prior that can be told which pairs are known.
    graphs : SwappedGraphs
        Where the chains are. What it holds of their fit is changed in place.
    theta, noise_std : Tensor (chains, parameters) and (chains,)
        Parameters and noise level of every chain.
    prior_log_odds : Tensor (chains, unknown pairs)
        A guess of the prior's log-odds of every pair; the better it is, the fewer swaps are tried in vain.
    sigma : float
        Standard deviation of the noise on the two pairs that the prior is asked about.
    temperature : float
        Draws come from the posterior to the power 1 / temperature.
    rng : RandomSource
        The randomness.

    Returns
    -------
    SwappedGraphs
        Where they are now.
    """
    order, normal = rng.uniform(problem.n_unknown), sigma * temperature**0.5 * rng.normal(2)
    which, first_threshold, second_threshold = (rng.uniform() for _ in range(3))
    candidates = _pick(graphs.pairs, order)
    is_possible = candidates.has_edge.any(1) & candidates.has_other.any(1)
    scale = noise_std * temperature**0.5
    here, log_odds = _log_odds_of_swaps(problem, graphs, theta, scale, candidates)
    place = _drawn(log_odds, which)
    swap = candidates.at(place)
    swapped = graphs.after(problem, swap, is_possible, theta)
    there, log_odds_back = _log_odds_of_swaps(problem, swapped, theta, scale, candidates.exchanged(place, swap))
    way_there, way_back = (odds.log_softmax(1).gather(1, place[:, None])[:, 0] for odds in (log_odds, log_odds_back))
    guess = swap.added_minus_taken(prior_log_odds.clamp(-_BOLDEST_GUESS, _BOLDEST_GUESS))
    # A comparison with nan is False: the chain stays.
    gain = there - here + guess / temperature + way_back - way_there
    moving = (is_possible & (first_threshold.log() < gain)).nonzero()[:, 0]
    if len(moving):
        chosen = swap.select(moving)
        copy = graphs.pairs[moving].scatter_add(1, chosen.both, normal[moving])
        correction = prior_gain_of_swap(problem, of_chains(denoise, moving), copy, chosen, sigma) - guess[moving]
        moving = moving[second_threshold[moving].log() < correction / temperature]
    return graphs.with_chains(moving, swapped)


def _pick(pairs: Tensor, order: Tensor) -> _Candidates:
    """Edges and non-edges at random; a swap leaves their numbers as they are, so the way back has the same odds."""
    n_unknown = pairs.shape[1]
    is_edge = pairs > 0.5
    edges = torch.where(is_edge, order, -1.0).topk(min(_MOST_EDGES, n_unknown), dim=1).indices
    others = torch.where(is_edge, -1.0, order).topk(min(_MOST_OTHERS, n_unknown), dim=1).indices
    return _Candidates(edges, others, is_edge.gather(1, edges), ~is_edge.gather(1, others))


def _log_odds_of_swaps(
    problem: Problem, graphs: SwappedGraphs, theta: Tensor, scale: Tensor, candidates: _Candidates
) -> tuple[Tensor, Tensor]:
    """Log-likelihood (chains,) of the graphs as they are, and log-odds (chains, swaps) with which a swap is drawn.

    `scale` (chains,) is the noise level, the temperature included.
    """
    pairs = torch.cat([candidates.edges, candidates.others], 1)
    amounts = 1 - 2 * graphs.pairs.gather(1, pairs)
    changes = graphs.changes.output_changes(*problem.space.entries(pairs), amounts, theta)
    changes = (changes if problem.is_complete else changes * problem.measured).flatten(2)
    # |r|^2 - |r - a - b|^2 for every change a that takes an edge off and every change b that adds one.
    single = 2 * (changes @ graphs.residuals[..., None])[..., 0] - changes.square().sum(-1)
    taken, added = single.split([candidates.edges.shape[1], candidates.others.shape[1]], 1)
    cross = changes[:, : candidates.edges.shape[1]] @ changes[:, candidates.edges.shape[1] :].mT
    gains = 0.5 * (taken[:, :, None] + added[:, None] - 2 * cross) / scale[:, None, None] ** 2
    is_swap = candidates.has_edge[:, :, None] & candidates.has_other[:, None] & torch.isfinite(gains)
    log_odds = torch.where(is_swap, 0.5 * gains, -torch.inf).flatten(1)
    return -0.5 * graphs.residuals.square().sum(1) / scale**2, log_odds


def _drawn(log_odds: Tensor, uniform: Tensor) -> Tensor:
    """A place (chains,) drawn with these log-odds, from uniform numbers."""
    weights = log_odds.softmax(1).nan_to_num(0.0).double().cumsum(1)
    drawn = torch.searchsorted(weights, uniform.double()[:, None] * weights[:, -1:])[:, 0]
    return drawn.clamp_max(log_odds.shape[1] - 1)


def prior_gain_of_swap(problem: Problem, denoise: Denoiser, copy: Tensor, swap: Swap, sigma: float) -> Tensor:
    """Log-ratio (chains,) of the prior after and before a swap, given a copy with noise on the two pairs alone."""
    if isinstance(denoise, TemperedDenoiser):
        # The density counts as much for one pair as for the other.
        beside = swap.added_minus_taken((copy - 0.5) / sigma**2 + problem.gather(denoise.evidence).expand_as(copy))
        if denoise.prior is None:
            return beside
        own = swap.added_minus_taken((copy - 0.5) / sigma**2)
        in_full = prior_gain_of_swap(problem, denoise.prior, copy, swap, sigma)
        return beside + denoise.trust * (in_full - own)
    first = swap.taken[:, None]
    noisy = torch.zeros_like(copy).scatter(1, swap.both, 1.0)
    told = noisy.scatter(1, first, 0.0)
    # The first pair is asked about with noise on both; then the second, told that the first is an edge, or is none.
    asked = torch.cat([copy, copy.scatter(1, first, 1.0), copy.scatter(1, first, 0.0)])
    known = 1 - problem.scatter(torch.cat([noisy, told, told]))
    clean = problem.gather(denoise(problem.assemble(asked), sigma, known))
    log_odds = torch.logit(clean, eps=_SMALLEST_PROBABILITY).chunk(3)
    questions = zip(log_odds, (swap.taken, swap.added, swap.added), strict=True)
    taken, added_to_it, added_instead = (odds.gather(1, pair[:, None])[:, 0] for odds, pair in questions)
    log_sigmoid = torch.nn.functional.logsigmoid
    return log_sigmoid(-taken) + log_sigmoid(added_instead) - log_sigmoid(taken) - log_sigmoid(-added_to_it)


@dataclass(frozen=True)
class GraphOdds:
    """The prior of graphs, as odds.

    A prior of independent pairs is a table. One that can be told which pairs are known is asked about every change by
    itself; its table is what it said while pairs were flipped, a guess. Of any other, the table is what it said of a
    noisy copy of the graph, and all that there is.
    """

    problem: Problem  # in single precision: unknown pairs alone, and edges of strength one
    denoise: Denoiser
    sigma: float
    is_table_exact: bool
    is_uncertain: Tensor  # (free pairs,) of bool: False for edges that are known, whose strength is not
    table: Tensor  # (chains, free pairs) log-odds of an edge

    @classmethod
    def of(cls, sweep: Sweep, state: SweepState, n_parts: int, has_independent_pairs: bool) -> GraphOdds:
        """Make them of what the prior said when it was last asked."""
        presence, like = sweep.presence, state.chain.pairs
        is_exact = has_independent_pairs or n_parts == 1
        table = state.prior.log_odds if is_exact else state.prior.beside_copy(presence, state.denoise)
        table = torch.nn.functional.pad(table.to(like), (0, like.shape[1] - table.shape[1]))
        is_uncertain = torch.arange(like.shape[1], device=like.device) < presence.n_unknown
        return cls(presence, state.denoise, sweep.sigma, is_exact, is_uncertain, table)

    def of_chains(self, chains: Tensor) -> GraphOdds:
        """Odds of some of the chains, by their numbers."""
        return replace(self, denoise=of_chains(self.denoise, chains), table=self.table[chains])

    def of_flip(self, is_edge: Tensor, pair: Tensor) -> Tensor:
        """Log-ratio (chains,) of the prior after and before the flip of a pair (chains,)."""
        place, sign = pair[:, None], 1 - 2 * is_edge.gather(1, pair[:, None]).to(self.table)
        if self.is_table_exact:
            return (sign * self.table.gather(1, place))[:, 0]
        pairs = self._pairs(is_edge)
        place = place.clamp_max(pairs.shape[1] - 1)  # a chain without a move is given any pair
        is_asked = torch.zeros_like(pairs).scatter_(1, place, 1.0)
        copy, known = pairs.scatter(1, place, 0.5), 1 - self.problem.scatter(is_asked)
        log_odds = PriorOdds.asked(self.problem, self.denoise, copy, self.sigma, known).log_odds
        return (sign * log_odds.gather(1, place).to(sign))[:, 0]

    def of_swap(self, is_edge: Tensor, taken: Tensor, added: Tensor) -> Tensor:
        """Log-ratio (chains,) of the prior after and before an edge leaves one pair for another."""
        if self.is_table_exact:
            return (self.table.gather(1, added[:, None]) - self.table.gather(1, taken[:, None]))[:, 0]
        pairs = self._pairs(is_edge)
        change = Swap(*(part.clamp_max(pairs.shape[1] - 1) for part in (taken, added)))
        copy = pairs.scatter(1, change.both, 0.5)
        return prior_gain_of_swap(self.problem, self.denoise, copy, change, self.sigma).to(self.table)

    def log_prior(self, is_edge: Tensor) -> Tensor:
        """Log-probability (chains,) of the graphs and of the trust in the prior, as far as the table tells."""
        log_odds = torch.where(is_edge, self.table, -self.table)
        of_graphs = (torch.nn.functional.logsigmoid(log_odds) * self.is_uncertain).sum(1)
        return of_graphs + log_weight_of_prior(self.denoise)

    def _pairs(self, is_edge: Tensor) -> Tensor:
        return is_edge[:, : self.problem.n_unknown].to(self.problem.base)
