"""Flips of single pairs, one after the other, for graphs with and without strengths.

Every pair that is visited is offered to become an edge or to be one no longer, by the exact change in log-likelihood
and the prior's odds. All other pairs stay, and theta is integrated out where the filter is linear in it. What is
offered depends on the kind of graph: see `UnitFlips` and, for edges that have strengths, `StrengthFlips`.

The prior is known only through a denoiser. So the unknown pairs are divided into parts, and one part is redrawn after
the other:

1. a noisy copy: the graph plus Gaussian noise of standard deviation sigma on the pairs of the part, an exact draw;
2. the denoiser, told that all other pairs are known, turns the copy into log-odds for every pair of the part;
3. every pair of the part is drawn from its odds, prior log-odds plus the exact change in log-likelihood.

A prior that cannot be told which pairs are known gets all pairs as one part, with little noise. Pairs of a part are
treated as independent given the copy, in step 2 only. That is exact for a prior of independent pairs at any sigma, for
any prior as sigma goes to zero, and for a part of one pair; parts of moderate size trade the freedom to move for that
bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray
from ..filters import EdgeChanges, Moments
from ..filters._tables import TableChanges, Tables
from ..graphs import EdgeSpace
from ._compiled import Chains, SlabNumbers, flip_strengths, flip_units
from ._kernel import RandomSource
from ._parameters import drawn_coefficients, log_marginal_likelihood, sample_theta, theta_precision
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._starts import StrengthStart
from ._sweeps import Move, Sweep, SweepState
from ._tempering import PriorOdds

__all__ = ["FlipLikelihood", "FlipPairs", "FlipStrengths", "StrengthFlips", "UnitFlips", "Visits", "gains_of_known"]

# How many pairs a chain looks ahead at first, and how many numbers all that is looked at may hold: more would not stay
# in the processor's cache.
_FIRST_LOOK = 8
_NUMBERS_AT_ONCE = 2**18
# Strengths nearer to each other or to zero than this share of a usual one make no parabola.
_APART = 1e-6


class Visits(NamedTuple):
    """Which pair each chain looks at in turn, (chains, visits), and the randomness of its flips."""

    pairs: Tensor
    is_drawn: Tensor  # those to be drawn come first; False where a chain has no more and waits for the others
    thresholds: Tensor  # log-odds of uniform numbers, which say whether there is to be an edge
    shifts: Tensor | None = None  # of a strength from the best one, standardised; None without strengths
    log_uniform: Tensor | None = None  # logarithms of uniform numbers that accept it
    is_redrawn: Tensor | None = None  # whether an edge that stays gets another strength

    def at(self, place: Tensor) -> Visits:
        """Return the visits at places (chains, n)."""
        return Visits(*(None if part is None else part.gather(1, place) for part in self))  # type: ignore[arg-type]


class Offer(NamedTuple):
    """Decisions on pairs (chains, n) that are looked at, made as if all others stayed."""

    amounts: Tensor  # that their entries change by if they move
    moves: Tensor  # of bool
    log_likelihood: Tensor  # after the move
    moments: Moments  # after the move
    gain: Tensor  # what a flip would add to the log-likelihood from then on


class Flips(Protocol):
    """How pairs of a kind of graph flip."""

    n_looks: int  # how many graphs are tried for every pair

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Decide on pairs, with the prior's log-odds (chains, n) of an edge."""

    def sweep(self, tables: Tables, chains: Chains, n_certain: int, visits: CompiledVisits) -> None:
        """Draw pairs in their order by compiled loops, in place."""


class Pair(NamedTuple):
    """Pairs (chains, n) of the chains' graphs."""

    rows: Tensor  # (chains, n, entries)
    columns: Tensor
    now: Tensor  # (chains, n) their entries
    n_edges: Tensor  # (chains, 1) among the unknown pairs


@dataclass(frozen=True)
class UnitFlips:
    """Flips of edges that are there or not: a draw of each pair from its odds, given all others."""

    temperature: float = 1.0
    n_looks = 1

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Draw pairs from their odds."""
        amounts = 1 - 2 * pair.now
        flipped, moments = likelihood.after(pair.rows, pair.columns, amounts)
        # Where the flipped graph has no finite likelihood, the pair stays.
        gain = (flipped - likelihood.now[:, None]).nan_to_num(-torch.inf).to(prior.dtype)
        odds = (gain + amounts * prior) / self.temperature
        flips = visits.thresholds < odds
        return Offer(amounts, flips, flipped, moments, torch.where(flips, -gain, gain))

    def sweep(self, tables: Tables, chains: Chains, n_certain: int, visits: CompiledVisits) -> None:
        """Draw pairs in their order by compiled loops, in place."""
        *arrays, randomness, gains = visits
        flip_units(tables, chains, *arrays, randomness[0], gains)


@dataclass(frozen=True)
class StrengthFlips:
    """Flips of edges that have strengths, by Metropolis steps that the strength of the edge is integrated out of.

    The log-likelihood at no edge and at two strengths gives a parabola, from which follow the odds of an edge and a law
    that a strength is drawn from. Both depend on the other pairs alone, so that the way back has the same, and a flip
    is accepted by how far the parabola is off: always where the outputs are linear in the strength and its law is
    Gaussian.
    """

    slab: Slab
    law: StrengthLaw
    most_edges: int  # of the unknown pairs: tables of pairs with edges grow with them
    n_looks = 2  # at once, and three times

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Draw whether there is to be an edge, then its strength, and accept both or not."""
        assert visits.shifts is not None
        assert visits.log_uniform is not None
        assert visits.is_redrawn is not None
        law, is_edge = StrengthLaw(*(part[:, None] for part in self.law)), pair.now != 0
        log_odds, best, scale, without = self._expected(likelihood, pair, law)
        wants_edge = visits.thresholds < log_odds + prior
        wanted = best + scale * visits.shifts
        drawn = self.slab.within_reason(wanted, law)
        amounts = torch.where(wants_edge, self.slab.strength(drawn), 0.0) - pair.now
        moved, moments = likelihood.after(pair.rows, pair.columns, amounts)

        def excess(has_edge: Tensor, z: Tensor, log_likelihood: Tensor) -> Tensor:
            """By how much a pair is more probable than what is expected of it."""
            shift = (z - best) / scale
            log_proposal = -shift - 2 * torch.nn.functional.softplus(-shift) - scale.log()  # the logistic law
            log_law = -0.5 * ((z - law.location) / law.width) ** 2 - (law.width * (2 * torch.pi) ** 0.5).log()
            return torch.where(has_edge, log_likelihood - without + log_law - log_proposal - log_odds, 0.0)

        z = self.slab.number(torch.where(is_edge, pair.now, 1.0))
        gain = excess(wants_edge, drawn, moved) - excess(is_edge, z, likelihood.now[:, None].expand_as(z))
        is_full = pair.n_edges >= self.most_edges
        is_moved = ((wants_edge != is_edge) & (is_edge | ~is_full)) | (is_edge & wants_edge & visits.is_redrawn)
        # A comparison with nan is False: the pair stays.
        moves = is_moved & (visits.log_uniform < gain) & torch.isfinite(moved) & (amounts != 0) & (drawn == wanted)
        return Offer(
            amounts,
            moves,
            moved,
            moments,
            torch.where(is_edge ^ (moves & (wants_edge != is_edge)), -log_odds, log_odds),
        )

    def sweep(self, tables: Tables, chains: Chains, n_certain: int, visits: CompiledVisits) -> None:
        """Draw pairs in their order by compiled loops, in place."""
        location, width = (_array(part) for part in self.law)
        slab = SlabNumbers(self.slab.has_signs, location, width, self.most_edges + n_certain)
        flip_strengths(tables, chains, slab, *visits)

    def _expected(self, likelihood: FlipLikelihood, pair: Pair, law: StrengthLaw) -> tuple[Tensor, ...]:
        """Evidence of an edge over none, its best z, the scale of a proposal, and the log-likelihood without one."""
        usual = self.slab.size(self.law)[:, None].expand_as(pair.now)
        none = likelihood.after(pair.rows, pair.columns, -pair.now)[0]
        first, second = usual, -usual if self.slab.has_signs else 2 * usual
        for is_last in (False, True):
            slope, curvature = self._parabola(likelihood, pair, none, first, second)
            log_odds, best = self.slab.log_evidence(slope, curvature, law)
            spread = self.slab.precision(best, curvature, law).rsqrt()
            if not is_last:  # the same again around the best strength, as outputs may be far from linear in it
                ends = (self.slab.within_reason(z, law) for z in (best + spread, best - spread))
                around = tuple(self.slab.strength(end) for end in ends)
                is_apart = (around[0] - around[1]).abs() > _APART * usual
                is_apart &= torch.minimum(around[0].abs(), around[1].abs()) > _APART * usual
                first, second = torch.where(is_apart, around[0], first), torch.where(is_apart, around[1], second)
        return log_odds, best, 0.65 * spread, none

    @staticmethod
    def _parabola(
        likelihood: FlipLikelihood, pair: Pair, none: Tensor, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Slope and curvature, slope w - curvature w^2 / 2, of the log-likelihood through two strengths and none."""
        amounts = torch.cat([first - pair.now, second - pair.now], 1)
        tried, _ = likelihood.after(pair.rows.repeat(1, 2, 1), pair.columns.repeat(1, 2, 1), amounts)
        at_first, at_second = (gain / size for gain, size in zip(tried.chunk(2, 1), (first, second), strict=True))
        at_first, at_second = at_first - none / first, at_second - none / second
        curvature = 2 * (at_first - at_second) / (second - first)
        return at_first + 0.5 * curvature * first, curvature


def flip_sweep(
    problem: Problem,
    likelihood: FlipLikelihood,
    kind: Flips,
    adjacency: Tensor,
    prior: Tensor,
    visits: Visits,
    gain: Tensor,
) -> None:
    """Draw the pairs of every chain in their order, in place.

    Most pairs stay as they are, so a chain looks several pairs ahead at once, as if none of them flipped. What it saw
    holds up to the first that does, and from there it looks again: the draws are those of one pair after the other.

    `gain` (chains, unknown pairs) is kept up to date with what a flip of each pair, as it stands, would add to the
    log-likelihood when it was last looked at.
    """
    if isinstance(likelihood.changes, TableChanges):
        _sweep_compiled(problem, likelihood, kind, adjacency, prior, visits, gain)
        return
    chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
    n_visits, place = visits.is_drawn.sum(1, keepdim=True), torch.zeros_like(chains)
    n_edges = _n_edges(problem, adjacency)
    n_numbers = len(adjacency) * likelihood.n_numbers * kind.n_looks
    ahead, most_ahead = _FIRST_LOOK, max(1, _NUMBERS_AT_ONCE // n_numbers)
    while (n_left := int((n_visits - place).max())) > 0:
        ahead = min(ahead, n_left, most_ahead)
        look = place + torch.arange(ahead, device=place.device)
        in_range, look = look < n_visits, look.clamp_max(visits.pairs.shape[1] - 1)
        looked = visits.at(look)
        rows, columns = problem.space.entries(looked.pairs)
        pair = Pair(rows, columns, adjacency[chains, rows[..., 0], columns[..., 0]], n_edges)
        offer = kind.offer(likelihood, pair, prior.gather(1, looked.pairs), looked)
        moves = in_range & offer.moves
        is_settled = in_range & (moves.cumsum(1) - moves.long() == 0)
        gain[chains.expand_as(looked.pairs)[is_settled], looked.pairs[is_settled]] = offer.gain[is_settled].to(
            gain.dtype
        )
        settling = moves & is_settled  # one move of a chain at most
        is_moving, step = settling.any(1), settling.long().argmax(1)
        if bool(is_moving.any()):
            at = chains[:, 0], step
            change = torch.where(is_moving, offer.amounts[at], 0.0)
            adjacency[chains, rows[at], columns[at]] += change[:, None]
            moments = Moments(*(part[at] for part in offer.moments))
            likelihood.make(rows[at], columns[at], change, offer.log_likelihood[at], moments)
            n_edges = _n_edges(problem, adjacency)
        n_settled = is_settled.sum(1, keepdim=True)
        place = place + n_settled
        ahead = _next_look(ahead, float(n_settled.sum() / in_range.any(1).sum()))


class CompiledVisits(NamedTuple):
    """Graphs and visits as arrays, for the compiled loops; graphs and gains are changed in place."""

    adjacency: FloatArray  # (chains, nodes, nodes)
    rows: FloatArray  # (free pairs,) of integers: the nodes of pairs
    columns: FloatArray
    prior: FloatArray  # (chains, free pairs)
    pairs: FloatArray  # (chains, visits) of integers
    n_visits: FloatArray  # (chains,) of integers
    randomness: FloatArray  # (n, chains, visits)
    gains: FloatArray  # (chains, free pairs)


def _sweep_compiled(
    problem: Problem,
    likelihood: FlipLikelihood,
    kind: Flips,
    adjacency: Tensor,
    prior: Tensor,
    visits: Visits,
    gain: Tensor,
) -> None:
    """Do what `flip_sweep` does, one chain after the other."""
    assert isinstance(likelihood.changes, TableChanges)
    rows, columns = problem.space.entries(torch.arange(problem.space.n_free, device=adjacency.device))
    randomness = [part.double() for part in (visits.thresholds, *visits[3:]) if part is not None]
    compiled = CompiledVisits(
        adjacency=_array(adjacency.double().clone()),
        rows=_array(rows[:, 0]),
        columns=_array(columns[:, 0]),
        prior=_array(prior.double()),
        pairs=_array(visits.pairs),
        n_visits=_array(visits.is_drawn.sum(1)),
        randomness=_array(torch.stack(randomness)),
        gains=_array(gain.double().clone()),
    )
    kind.sweep(likelihood.changes.tables, likelihood.chains(), problem.n_certain, compiled)
    adjacency.copy_(torch.from_numpy(compiled.adjacency))
    gain.copy_(torch.from_numpy(compiled.gains))


def _array(values: Tensor) -> Any:
    return np.ascontiguousarray(values.cpu().numpy())


@dataclass(frozen=True)
class FlipPairs(Move):
    """Offer flips to the unknown pairs, one after the other: pairs of binary graphs are drawn from their odds.

    Parameters
    ----------
    n_parts : int
        Into how many parts the pairs are divided. One: the prior is not told that other pairs are known.
    certain : float
        A pair whose log-odds of flipping were below this when last looked at is not looked at again until the next full
        sweep. Most pairs are that certain most of the time.
    sweeps_between_full_ones : int
        How often all pairs are looked at.
    """

    n_parts: int = 5
    certain: float = -12.0
    sweeps_between_full_ones: int = 4

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, chain, prior, gain = sweep.problem_of(state), state.chain, state.prior, state.flip_gain.clone()
        adjacency, changes = problem.assemble(chain.pairs), state.changes
        if changes is None:
            changes = problem.edge_changes(adjacency, chain.theta)
        likelihood = FlipLikelihood(problem, changes, chain.noise_std, sweep.temperature)
        order, normal = rng.uniform(problem.n_unknown).argsort(1), rng.normal(problem.n_unknown)
        thresholds = torch.logit(rng.uniform(problem.n_unknown))
        flip_odds = None
        # Among few pairs a full sweep costs next to nothing.
        if sweep.number % self.sweeps_between_full_ones and self.n_parts < problem.n_unknown:
            flip_odds = gain + (1 - 2 * chain.pairs) * prior.log_odds
        for part, is_visited in _parts(order, self.n_parts, flip_odds, self.certain):
            redrawn = torch.zeros_like(normal).scatter_(1, part, is_visited.to(normal)) if self.n_parts > 1 else None
            if part.shape[1]:
                prior = _asked(sweep, state, chain.pairs, prior, normal, redrawn)
            visits = Visits(part, is_visited, thresholds.gather(1, part))
            flip_sweep(problem, likelihood, UnitFlips(sweep.temperature), adjacency, prior.log_odds, visits, gain)
            chain = chain._replace(pairs=problem.gather(adjacency))
        if not problem.filter.linear_in_theta:  # otherwise all of theta is drawn next
            chain = chain._replace(theta=likelihood.drawn_coefficients(chain.theta, rng))
        # What a flip would gain, seen from the pair as it stands now.
        flip_odds = (gain + (1 - 2 * chain.pairs) * prior.log_odds) / sweep.temperature
        probability = torch.sigmoid((1 - 2 * chain.pairs) * flip_odds)
        state = state._replace(chain=chain, prior=prior, flip_gain=gain, changes=changes)
        return state.telling_probability(probability)


@dataclass(frozen=True)
class FlipStrengths(Move):
    """Offer flips to pairs whose edges have strengths, and other strengths to some edges that stay.

    Parameters
    ----------
    slab : Slab
        The law of strengths.
    begin : StrengthStart
        How the chains began, which says how many edges they may have.
    n_parts : int
        Into how many parts the pairs are divided. One: the prior is not told that other pairs are known.
    has_independent_pairs : bool
        Whether pairs are independent under the prior, which then need not be asked about copies.
    n_redrawn : float
        Edges of a chain that are offered another strength by themselves, on average.
    certain : float
        As in `FlipPairs`.
    sweeps_between_full_ones : int
        As in `FlipPairs`.
    """

    slab: Slab
    begin: StrengthStart
    n_parts: int = 5
    has_independent_pairs: bool = False
    n_redrawn: float = 8.0
    certain: float = -12.0
    sweeps_between_full_ones: int = 4

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, chain, prior, gain = sweep.problem_of(state), state.chain, state.prior, state.flip_gain.clone()
        n_free, n_unknown = problem.space.n_free, problem.n_unknown
        order, normal = rng.uniform(n_free).argsort(1), rng.normal(n_unknown)
        thresholds, shifts, uniform, redrawing = (rng.uniform(n_free) for _ in range(4))
        theta, of_theta = chain.theta, (rng.normal(chain.theta.shape[1]), rng.uniform())
        if not n_free:
            return state
        adjacency, is_edge = problem.assemble(chain.pairs), chain.pairs != 0
        is_redrawn = is_edge & (redrawing < self.n_redrawn / is_edge.sum(1, keepdim=True).clamp_min(1))
        flip_odds = None
        if sweep.number % self.sweeps_between_full_ones:
            log_odds = _widened(prior.log_odds, gain)
            flip_odds = torch.where(is_redrawn, torch.inf, gain + torch.where(is_edge, -log_odds, log_odds))
        randomness = torch.logit(thresholds), torch.logit(shifts), uniform.log(), is_redrawn
        likelihood = FlipLikelihood(problem, problem.edge_changes(adjacency, theta), chain.noise_std, 1.0)
        kind = StrengthFlips(self.slab, state.kept["law"], self.begin.most_edges(problem))
        n_parts = 1 if self.has_independent_pairs else self.n_parts
        for part, is_visited in _parts(order, n_parts, flip_odds, self.certain):
            if n_unknown and part.shape[1]:
                pairs = (problem.gather(adjacency)[:, :n_unknown] != 0).to(normal)
                redrawn = torch.zeros_like(gain).scatter_(1, part, 1.0)[:, :n_unknown] if n_parts > 1 else None
                prior = self._asked(sweep, state, pairs, prior, normal, redrawn)
            visits = Visits(part, is_visited, *(one.gather(1, part) for one in randomness))
            flip_sweep(problem, likelihood, kind, adjacency, _widened(prior.log_odds, gain), visits, gain)
        if problem.filter.linear_in_theta:  # flips have integrated it out
            theta, _ = sample_theta(problem, adjacency, theta, chain.noise_std, *of_theta)
        else:
            theta = likelihood.drawn_coefficients(theta, rng)
        chain = chain._replace(pairs=problem.gather(adjacency), theta=theta)
        state = state.at(chain)._replace(prior=prior, flip_gain=gain)
        return state.telling_probability((chain.pairs[:, :n_unknown] != 0).to(gain))

    def _asked(
        self, sweep: Sweep, state: SweepState, pairs: Tensor, prior: PriorOdds, normal: Tensor, redrawn: Tensor | None
    ) -> PriorOdds:
        if not self.has_independent_pairs:
            return _asked(sweep, state, pairs, prior, normal, redrawn)
        half = torch.full_like(pairs, 0.5)  # nothing is known of any pair
        copy = half.to(sweep.presence.base)
        return PriorOdds.asked(sweep.presence, state.denoise, copy, sweep.sigma, None).to(pairs)


def _widened(log_odds: Tensor, like: Tensor) -> Tensor:
    """Log-odds of unknown pairs as those of all free pairs: known edges of unknown strength are certain."""
    return torch.nn.functional.pad(log_odds.to(like), (0, like.shape[1] - log_odds.shape[1]), value=torch.inf)


def _asked(
    sweep: Sweep, state: SweepState, pairs: Tensor, prior: PriorOdds, normal: Tensor, redrawn: Tensor | None
) -> PriorOdds:
    """Ask the prior about pairs (chains, unknown pairs) that are 0 or 1, with noise on those that are redrawn, or all.

    What it said before is kept of the other pairs.
    """
    problem = sweep.presence
    # The odds will be divided by the temperature, and the copy's share in them must then still fit its noise.
    jitter = sweep.sigma * sweep.temperature**0.5 * normal
    if redrawn is None:
        copy = (pairs + jitter).to(problem.base)
        return PriorOdds.asked(problem, state.denoise, copy, sweep.sigma, None).to(pairs)
    known = 1 - problem.scatter(redrawn.to(problem.base))
    copy = (pairs + jitter * redrawn).to(problem.base)
    return prior.where(redrawn > 0, PriorOdds.asked(problem, state.denoise, copy, sweep.sigma, known).to(pairs))


def _parts(order: Tensor, n_parts: int, flip_odds: Tensor | None, certain: float) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs (chains, visits) to redraw together and whether to draw each: all, or those of an uncertain flip.

    Chains that have fewer uncertain pairs than others are filled up with pairs that are not drawn.
    """
    is_visited = torch.ones_like(order, dtype=torch.bool)
    size = max(1, -(-order.shape[1] // n_parts))
    if flip_odds is not None:
        is_uncertain = (flip_odds >= certain).gather(1, order)
        n_visits = int(is_uncertain.sum(1).max())
        first = is_uncertain.to(torch.int8).argsort(dim=1, stable=True, descending=True)[:, :n_visits]
        order, is_visited = order.gather(1, first), is_uncertain.gather(1, first)
    # At least one part, though it be empty: the likelihood and the prior are wanted at the end of it.
    n_parts = max(1, -(-order.shape[1] // size))
    yield from zip(order.chunk(n_parts, 1), is_visited.chunk(n_parts, 1), strict=True)


def _n_edges(problem: Problem, adjacency: Tensor) -> Tensor:
    """Count the edges (chains, 1) among the unknown pairs."""
    return (problem.gather(adjacency)[:, : problem.n_unknown] != 0).sum(1, keepdim=True)


def _next_look(ahead: int, n_settled: float) -> int:
    """How many pairs to look ahead after chains got through `n_settled` of them on average."""
    if n_settled > 0.75 * ahead:
        return 2 * ahead
    return max(1, ahead // 2) if n_settled < 0.4 * ahead else ahead


def gains_of_known(problem: Problem, adjacency: Tensor, theta: Tensor, noise_std: Tensor, pairs: EdgeSpace) -> Tensor:
    """Gain in log-likelihood (graphs, pairs) by flips of single pairs, known or not.

    Parameters
    ----------
    problem : Problem
        Data and filter.
    adjacency, theta, noise_std : Tensor (graphs, nodes, nodes), (graphs, parameters) and (graphs,)
        The graphs; theta is integrated out where the filter is linear in it, and stays where it is not.
    pairs : EdgeSpace
        Of tensors.
    """
    likelihood = FlipLikelihood(problem, problem.edge_changes(adjacency, theta), noise_std, 1.0)
    amounts, gains = 1 - 2 * pairs.gather(adjacency), [likelihood.now.new_zeros(len(adjacency), 0)]
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, len(adjacency) * likelihood.n_numbers))
    for part in torch.arange(pairs.n_free, device=theta.device).split(at_once):
        flipped, _ = likelihood.after(*pairs.entries(part.expand(len(adjacency), -1)), amounts[:, part])
        gains.append(flipped - likelihood.now[:, None])
    return torch.cat(gains, 1).nan_to_num(-torch.inf, posinf=-torch.inf)


class FlipLikelihood:
    """The log-likelihood as a function of the graph alone.

    Where theta can be integrated out, it is: with theta held, a pair whose flip changes the best theta hardly flips.
    """

    def __init__(self, problem: Problem, changes: EdgeChanges, noise_std: Tensor, temperature: float):
        self.changes = changes
        self._filter = problem.filter
        self._n_measured = problem.n_measured
        self._temperature = temperature
        # The likelihood is raised to its power before the integral is taken, which is as if there were more noise. The
        # factor is taken out again where all odds are divided by the temperature.
        self._noise_std = (noise_std * temperature**0.5)[:, None]
        self._precision = theta_precision(problem, self._noise_std[:, 0])
        self.n_numbers = self.changes.n_numbers
        self.now = self._of(Moments(*(part[:, None] for part in self.changes.moments)))[:, 0]

    def after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> tuple[Tensor, Moments]:
        """Log-likelihoods and moments (chains, flips, ...) of the graphs with one flip each."""
        moments = self.changes.moments_after(rows, columns, amounts)
        return self._of(moments), moments

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, log_likelihood: Tensor, moments: Moments) -> None:
        """Flip a pair of every chain whose amount is not zero; `after` has told what these flips lead to."""
        is_moving = amounts != 0
        here = self.changes.moments
        squares = torch.where(is_moving, moments.squares, here.squares)
        cross = torch.where(is_moving[:, None], moments.cross, here.cross)
        gram = torch.where(is_moving[:, None, None], moments.gram, here.gram)
        self.changes.make(rows, columns, amounts, Moments(squares, cross, gram))
        self.now = torch.where(is_moving, log_likelihood, self.now)

    def drawn_coefficients(self, theta: Tensor, rng: RandomSource) -> Tensor:
        """Return theta (chains, parameters) with the coefficients drawn that have been integrated out."""
        n_coefficients, fixed = self.changes.moments.cross.shape[-1], self._filter.fixed_values()
        free = [place for place in range(n_coefficients) if place not in fixed]
        if not free:
            return theta
        moments = self._filter.free_moments(self.changes.moments)
        drawn = drawn_coefficients(moments, self._noise_std[:, 0], self._precision, rng.normal(len(free)))
        return theta.index_copy(1, torch.tensor(free, device=theta.device), drawn.to(theta.dtype))

    def chains(self) -> Chains:
        """Return the same for compiled loops, which bring the tables' moments up to date."""
        changes = self.changes
        assert isinstance(changes, TableChanges)
        held, is_held = np.zeros_like(changes.cross), np.zeros(changes.cross.shape[1])
        for place, value in self._filter.fixed_values().items():
            if place < len(is_held):
                held[:, place], is_held[place] = value, 1.0
        noise = _array(self._noise_std[:, 0].double()), _array(self._precision[:, 0])
        moments = changes.squares, changes.cross, changes.gram
        return Chains(*moments, held, is_held, *noise, self._n_measured, self._temperature)

    def _of(self, moments: Moments) -> Tensor:
        moments = self._filter.free_moments(moments)
        return self._temperature * log_marginal_likelihood(moments, self._noise_std, self._precision, self._n_measured)
