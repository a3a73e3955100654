"""Moves of edges that have strengths: their law, and graphs whose strengths are all fitted anew.

Moves between graphs whose edges have strengths, by Metropolis steps:

1. each flip of a pair, or each swap of an edge for a non-edge, is given odds in the square root of the evidence that it
   would gain to first order (Zanella's balanced proposal, JASA 115, 2020), and one of them is drawn;
2. it is tried with about the probability that it would be accepted with, if the first order told all;
3. the strengths of the graph that it leads to are fitted, and with the deviations kept they are where they would be;
4. it is accepted by the exact posterior there, the volume that the deviations span, and the odds of the way back.

What is dear comes late: only chains whose move may still be accepted go on to the next step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from ..filters._edge_changes import RecomputedChanges
from ._flips import FlipLikelihood
from ._kernel import ChainState, RandomSource, replaced, selected, where
from ._laplace import (
    Change,
    Expansion,
    Position,
    StrengthPosterior,
    conditions_of,
    first_order_update,
    gains_of_flips,
    gains_of_swaps,
    padded,
    strengths_of,
    trimmed,
    unexpanded,
)
from ._parameters import DrawNoise, log_density_of_theta, sample_theta
from ._problem import SMALLEST_NOISE, Problem
from ._slabs import Slab
from ._starts import StrengthStart
from ._swaps import GraphOdds
from ._sweeps import Move, Sweep, SweepState

__all__ = [
    "SAME_MODE",
    "DrawStrengthLaw",
    "RefitStrengths",
    "RescaleStrengths",
    "flip",
    "flip_many",
    "redraw_strengths",
    "shift_one",
    "swap",
]


@dataclass(frozen=True)
class DrawStrengthLaw(Move):
    """Draw location and width of the law of strengths, given the strengths.

    Parameters
    ----------
    slab : Slab
        The law.
    enough_known_edges : int
        Where the model is wrong, weak edges that are not there make up for it. A law that learns from these lets in
        more of them; so it learns from the edges that are known, their strengths known or not, if there are so many.
    """

    slab: Slab
    enough_known_edges: int = 10

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, pairs = sweep.problem, state.chain.pairs
        is_counted = pairs != 0
        if problem.n_certain + len(problem.known_strengths) >= self.enough_known_edges:
            is_counted = is_counted & (torch.arange(pairs.shape[1], device=pairs.device) >= problem.n_unknown)
        z = self.slab.number(torch.where(is_counted, pairs, 1.0))
        seen = self.slab.number(state.fixed["seen strengths"])
        return state.keeping("law", self.slab.sample_law(state.kept["law"], z, is_counted, seen, rng))


@dataclass(frozen=True)
class RescaleStrengths(Move):
    """Offer to multiply all unknown strengths by one factor, while theta makes up for it.

    Parameters of most filters multiply strengths. Where no strength is known, the data then leave their unit free, and
    the better the data are, the narrower and the more curved is the valley of strengths and theta that go together: no
    Gaussian follows it. Where the filter is linear in theta, theta is integrated out of this move; otherwise it changes
    by the powers of the factor that the filter names.

    Parameters
    ----------
    slab : Slab
        The law of strengths.
    n_moves : int
        In each sweep.
    largest_step, smallest_step : float
        Standard deviation of the factor's logarithm; it is drawn evenly between the two in logarithms.
    """

    slab: Slab
    n_moves: int = 4
    largest_step: float = 0.5
    smallest_step: float = 0.02

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, (pairs, theta, noise_std) = sweep.problem_of(state), state.chain
        powers = problem.filter.powers_of_unit()
        if not problem.space.n_free or (powers is None and not problem.filter.linear_in_theta):
            return state
        log_density = self._log_density(problem, state, pairs, theta)
        n_edges = (pairs != 0).sum(1)
        for _ in range(self.n_moves):
            ratio = self.smallest_step / self.largest_step
            step, threshold = self.largest_step * ratio ** rng.uniform() * rng.normal(), rng.uniform().log()
            factor = step.exp()[:, None]
            offered, its_theta, log_volume = pairs * factor, theta, n_edges * step if self.slab.has_signs else 0.0
            if not problem.filter.linear_in_theta:
                exponents = torch.tensor(powers, dtype=theta.dtype, device=theta.device)
                its_theta, log_volume = theta * factor**exponents, log_volume + exponents.sum() * step
            there = self._log_density(problem, state, offered, its_theta)
            is_accepted = threshold < there - log_density + log_volume  # False where it is nan: the chain stays
            pairs, theta = where(is_accepted, offered, pairs), where(is_accepted, its_theta, theta)
            log_density = torch.where(is_accepted, there, log_density)
        if problem.filter.linear_in_theta:
            normal, uniform = rng.normal(theta.shape[1]), rng.uniform()
            theta, _ = sample_theta(problem, problem.assemble(pairs), theta, noise_std, normal, uniform)
        return state.at(ChainState(pairs, theta, noise_std))

    def _log_density(self, problem: Problem, state: SweepState, pairs: Tensor, theta: Tensor) -> Tensor:
        """Log-density (chains,) of z and of theta, which is integrated out where the filter is linear in it."""
        law, noise_std, adjacency = state.kept["law"], state.chain.noise_std, problem.assemble(pairs)
        z = self.slab.number(torch.where(pairs == 0, 1.0, pairs))
        unlikely = torch.where(pairs == 0, 0.0, ((z - law.location[:, None]) / law.width[:, None]) ** 2).sum(1)
        if problem.filter.linear_in_theta:
            data = problem.inputs, problem.targets, None if problem.is_complete else problem.measured
            likelihood = FlipLikelihood(
                problem, RecomputedChanges(problem.filter, adjacency, theta, *data), noise_std, 1.0
            ).now
        else:
            squares = problem.residuals(adjacency, theta).square().sum((-2, -1))
            likelihood = log_density_of_theta(problem, theta, squares, noise_std)
            is_admissible = (problem.filter.constrain(theta) == theta).all(1)
            likelihood = torch.where(is_admissible, likelihood, -torch.inf)
        return likelihood - 0.5 * unlikely


@dataclass(frozen=True)
class RefitStrengths(Move):
    """Flip and swap edges with all strengths integrated out, then draw the strengths together.

    Given the graph, strengths and theta are nearly Gaussian around their best fit; see `_strengths`. In the
    warm-up, many pairs are flipped at once too, graphs are compared by Laplace's evidence, and chains go on from
    strengths and theta that are drawn from the Gaussian.

    Parameters
    ----------
    slab : Slab
        The law of strengths.
    begin : StrengthStart
        How the chains began, which says how many edges they may have.
    n_moves, n_moves_of_draws : int
        Flips and swaps in a sweep, in turn, during the warm-up and from then on. On power grids with 39 and 57 buses,
        eight of each take twice the time and find no more.
    n_parts : int
        Into how many parts flips divide the pairs. One: the prior is not told that other pairs are known.
    has_independent_pairs : bool
        Whether pairs are independent under the prior.
    noise : DrawNoise
        The prior of the noise level.
    certain : float
        Pairs whose log-odds to become an edge are below this in every chain are left out.
    sweeps_between_full_ones : int
        How often all pairs are looked at, to see which can be left out.
    redraws : tuple of float
        How much of the deviations of strengths is kept in each redraw of all. Where the Gaussian is good, all may be
        forgotten; small steps, and steps of one strength that may be long, are for where it is not.
    n_shifts : int
        Such long steps after each redraw.
    n_leaps : int
        How often in a sweep of the warm-up many pairs are flipped at once.
    n_noise_moves, noise_step : int, float
        How often in a sweep the noise level is offered another value that strengths follow, and by how much in
        logarithms.
    share_that_holds : float
        Given strengths, draws of the noise level forget the last one by as much as there are more outputs than edges.
        So these moves are for where edges are more than this share of the outputs.
    """

    slab: Slab
    begin: StrengthStart
    n_moves: int = 4
    n_moves_of_draws: int = 2
    n_parts: int = 5
    has_independent_pairs: bool = False
    noise: DrawNoise = field(default_factory=DrawNoise)
    certain: float = -9.0
    sweeps_between_full_ones: int = 4
    redraws: tuple[float, ...] = (0.0, 0.9, 0.0, 0.9)
    n_shifts: int = 4
    n_leaps: int = 3
    n_noise_moves: int = 3
    noise_step: float = 0.7
    share_that_holds: float = 0.3

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        pairs, theta, noise_std = state.chain
        odds = GraphOdds.of(sweep, state, self.n_parts, self.has_independent_pairs)
        fit = self._posterior(sweep, state, odds).fit(pairs != 0, self.slab.number(pairs), theta)
        state = state.at(ChainState(strengths_of(self.slab, fit, fit.mode), fit.theta, noise_std))
        state = state.keeping("mode", fit.spread(fit.mode)).keeping("theta of mode", fit.theta)
        return state.keeping("deviation", rng.normal(pairs.shape[1] + theta.shape[1]))

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, chain = sweep.problem_of(state), state.chain
        odds = GraphOdds.of(sweep, state, self.n_parts, self.has_independent_pairs)
        posterior = self._posterior(sweep, state, odds)
        position = self._position(posterior, state)
        if self._looks_at_all(sweep):
            posterior, position = self._narrowed(posterior, position)
            state = state.fixing(
                "candidates", torch.zeros_like(odds.is_uncertain).index_fill(0, posterior.candidates, True)
            )
        n_seen = torch.zeros_like(chain.pairs)
        for _ in range(self.n_leaps if sweep.is_warmup else 0):
            position = flip_many(posterior, position)
        n_moves = self.n_moves if sweep.is_warmup else self.n_moves_of_draws
        for number in range(n_moves if problem.n_unknown else 0):
            position = (swap if number % 2 else flip)(posterior, position, rng)
            n_seen += position.expansion.fit.is_edge
        for kept in () if sweep.is_warmup else self.redraws:
            position = redraw_strengths(posterior, position, kept, rng)
            for _ in range(self.n_shifts):
                position = shift_one(posterior, position, rng)
        n_edges = float(position.expansion.fit.is_edge.sum(1).double().mean())
        is_held = sweep.noise_std is None and n_edges > self.share_that_holds * problem.n_measured
        for _ in range(self.n_noise_moves if is_held else 0):
            posterior, position = self._noise_moved(posterior, position, rng)
        state = self._at(posterior, position, state, rng)
        if n_moves and problem.n_unknown:
            state = state.telling_probability(n_seen[:, : problem.n_unknown] / n_moves)
        return self._compared(posterior, position, state)

    def _looks_at_all(self, sweep: Sweep) -> bool:
        return sweep.number % self.sweeps_between_full_ones == 0

    def _posterior(self, sweep: Sweep, state: SweepState, odds: GraphOdds) -> StrengthPosterior:
        problem, noise_std = sweep.problem_of(state), state.chain.noise_std
        is_candidate = torch.ones_like(odds.is_uncertain)
        if not self._looks_at_all(sweep):
            is_candidate = ((state.chain.pairs != 0).any(0) & odds.is_uncertain) | state.fixed["candidates"]
        candidates = is_candidate.nonzero()[:, 0]
        conditions = conditions_of(problem, state.kept["law"], noise_std)
        most_edges = problem.n_certain + self.begin.most_edges(problem)
        return StrengthPosterior(problem, self.slab, conditions, odds, candidates, sweep.is_warmup, most_edges)

    def _position(self, posterior: StrengthPosterior, state: SweepState) -> Position:
        """Fit the graphs of the chains, and find the deviations of their strengths and theta from the fit."""
        (pairs, theta, _), mode, deviation = state.chain, state.kept["mode"], state.kept["deviation"]
        n_free, is_edge, z = pairs.shape[1], pairs != 0, self.slab.number(pairs)
        # A fit goes on from the last one, for edges that it had.
        fit = posterior.fit(is_edge, torch.where(mode != 0, mode, z), state.kept["theta of mode"])
        if not posterior.is_warmup:
            of_fit = fit.deviation_of(torch.where(fit.is_real, z.gather(1, fit.places), fit.mode), theta)
            of_edges, of_theta = of_fit.split([fit.mode.shape[1], theta.shape[1]], 1)
            deviation = torch.cat([torch.where(is_edge, fit.spread(of_edges), deviation[:, :n_free]), of_theta], 1)
        return posterior.at(posterior.expanded_at(fit), deviation)

    def _narrowed(self, posterior: StrengthPosterior, position: Position) -> tuple[StrengthPosterior, Position]:
        """Leave out pairs that are no edge in any chain, and whose odds to become one are too small in all of them."""
        fit, first_order = position.expansion
        gains, _ = gains_of_flips(posterior, position.expansion)
        is_in_question = (fit.is_edge | (gains > self.certain)).any(0) & posterior.odds.is_uncertain
        kept = is_in_question.nonzero()[:, 0]
        if len(kept) < 2:  # nothing to draw among
            return posterior, position
        parts = {name: getattr(first_order, name)[:, kept] for name in ("slope", "curvature", "cross")}
        expansion = Expansion(fit, first_order._replace(**parts))
        return posterior._replace(candidates=kept), position._replace(expansion=expansion)

    def _noise_moved(
        self, posterior: StrengthPosterior, position: Position, rng: RandomSource
    ) -> tuple[StrengthPosterior, Position]:
        """Offer every chain another noise level, while strengths and theta follow: their deviations are kept.

        Given strengths that explain all outputs, the noise level could only stay near where it is.
        """
        problem, conditions, fit = posterior.problem, posterior.conditions, position.expansion.fit
        step, threshold = rng.normal() * self.noise_step * 3 ** (2 * rng.uniform() - 1), rng.uniform()
        noise_std = conditions.noise_std * step.exp()
        offered = posterior._replace(conditions=conditions_of(problem, conditions.law, noise_std))
        new_fit = offered.fit(fit.is_edge, fit.spread(fit.mode), fit.theta)
        log_density = offered.log_density(new_fit, position.deviation)
        gain = log_density + self.noise.log_prior(problem, noise_std)
        gain = gain - position.log_density - self.noise.log_prior(problem, conditions.noise_std)
        is_accepted = (threshold.log() < gain) & (noise_std > SMALLEST_NOISE * problem.scale)
        if not posterior.is_warmup:  # the way back must lead to the mode that this one came from
            back = posterior.fit(fit.is_edge, new_fit.spread(new_fit.mode), new_fit.theta)
            is_accepted = is_accepted & (fit.deviation_of(back.mode, back.theta).norm(dim=1) < SAME_MODE)
        conditions = where(is_accepted, offered.conditions, conditions)
        expansion = unexpanded(where(is_accepted, new_fit, fit))
        log_density = torch.where(is_accepted, log_density, position.log_density)
        return posterior._replace(conditions=conditions), Position(expansion, position.deviation, log_density)

    def _at(self, posterior: StrengthPosterior, position: Position, state: SweepState, rng: RandomSource) -> SweepState:
        """Take the chains to a position."""
        fit, normal = position.expansion.fit, rng.normal(position.deviation.shape[1])
        if posterior.is_warmup:
            # Noise that follows from the best strengths is too low, and the next best strengths make it lower still.
            z, theta = posterior.drawn_near(fit, normal)
        else:
            z, theta = posterior.parameters(fit, position.deviation)
        chain = ChainState(strengths_of(self.slab, fit, z), theta, posterior.conditions.noise_std)
        gain = state.flip_gain.masked_fill((chain.pairs != 0) != (state.chain.pairs != 0), torch.inf)  # to be looked at
        state = state.at(chain)._replace(flip_gain=gain)
        state = state.keeping("mode", fit.spread(fit.mode)).keeping("theta of mode", fit.theta)
        return state.keeping("deviation", position.deviation)

    def _compared(self, posterior: StrengthPosterior, position: Position, state: SweepState) -> SweepState:
        """Tell the evidence of the graphs, by which chains are compared, and not the likelihood of their strengths."""
        fit, problem = position.expansion.fit, posterior.problem
        log_prior = posterior.odds.log_prior(fit.is_edge)
        log_evidence = log_prior + posterior.log_evidence(fit)
        # Chains without a finite one are the furthest behind.
        state = state.telling(log_posterior=log_evidence.nan_to_num(-1e300, posinf=-1e300, neginf=-1e300))
        if not bool(torch.isfinite(log_evidence).any()):
            return state.telling(log_prior=log_prior)  # data that no strengths fit are no reason to end without any
        adjacency = problem.assemble(state.chain.pairs)
        log_likelihood = problem.log_likelihood(adjacency, state.chain.theta, state.chain.noise_std)
        return state.telling(log_prior=log_evidence - log_likelihood)


# Log-odds of a move beyond which it is drawn no more often: first order overrates what it cannot see to the end of.
_LARGEST_LOG_ODDS = 20.0
# Edges that may leave in a swap, picked at random; every candidate that is none may take their place.
_MOST_LEAVING = 16
# The least gain of pairs that are flipped many at once.
_PROMISING = 2.0
# Two modes are the same if they are no further apart than this, in standard deviations.
SAME_MODE = 0.3


class _Flips(NamedTuple):
    """Every candidate may become an edge, or be one no longer. Moves are numbered as candidates are."""

    is_edge: Tensor  # (chains, candidates) before any move

    def gains(self, posterior: StrengthPosterior, expansion: Expansion) -> tuple[Tensor, Tensor]:
        """Evidence (chains, moves) that is gained to first order, and z of the edge that comes."""
        return gains_of_flips(posterior, expansion)

    def change(self, posterior: StrengthPosterior, move: Tensor, z: Tensor) -> Change:
        """Change that a move (chains,) makes."""
        is_taken, none = _at(self.is_edge, move), torch.full_like(move, -1)
        return Change(torch.where(is_taken, move, none), torch.where(is_taken, none, move), z)

    def log_prior_ratio(self, posterior: StrengthPosterior, is_edge: Tensor, change: Change) -> Tensor:
        """Log-ratio (chains,) of the prior after and before a change of graphs (chains, free pairs)."""
        return posterior.odds.of_flip(is_edge, posterior.candidates[torch.maximum(change.taken, change.added)])

    def carried(self, posterior: StrengthPosterior, deviation: Tensor, change: Change) -> Tensor:
        """The deviations after the change."""
        return deviation

    def back(self, posterior: StrengthPosterior, move: Tensor) -> tuple[_Flips, Tensor]:
        """The moves that there are after one was made, and the number of the one that leads back."""
        place = move[:, None]
        return _Flips(self.is_edge.scatter(1, place, ~self.is_edge.gather(1, place))), move


class _Swaps(NamedTuple):
    """Some edges may leave, each for any candidate that is no edge. Moves are numbered edge by edge."""

    leaving: Tensor  # (chains, edges) places among the candidates, -1 where a chain has fewer

    def gains(self, posterior: StrengthPosterior, expansion: Expansion) -> tuple[Tensor, Tensor]:
        gains, z = gains_of_swaps(posterior, expansion, self.leaving)
        return gains.flatten(1), z.flatten(1)

    def change(self, posterior: StrengthPosterior, move: Tensor, z: Tensor) -> Change:
        n_candidates = len(posterior.candidates)
        return Change(_at(self.leaving, move // n_candidates).clamp_min(0), move % n_candidates, z)

    def log_prior_ratio(self, posterior: StrengthPosterior, is_edge: Tensor, change: Change) -> Tensor:
        return posterior.odds.of_swap(is_edge, posterior.candidates[change.taken], posterior.candidates[change.added])

    def carried(self, posterior: StrengthPosterior, deviation: Tensor, change: Change) -> Tensor:
        # The deviation goes along with the edge.
        taken, added = (posterior.candidates[place][:, None] for place in (change.taken, change.added))
        of_taken, of_added = deviation.gather(1, taken), deviation.gather(1, added)
        return deviation.scatter(1, taken, of_added).scatter(1, added, of_taken)

    def back(self, posterior: StrengthPosterior, move: Tensor) -> tuple[_Swaps, Tensor]:
        n_candidates = len(posterior.candidates)
        row, added = move // n_candidates, move % n_candidates
        taken = _at(self.leaving, row).clamp_min(0)
        return _Swaps(self.leaving.scatter(1, row[:, None], added[:, None])), row * n_candidates + taken


class _Offer(NamedTuple):
    """A move for each chain."""

    moves: _Flips | _Swaps
    move: Tensor  # (chains,)
    change: Change  # what it changes
    z: Tensor  # (chains, free pairs) where its fit starts
    theta: Tensor  # (chains, parameters) where its fit starts
    log_share: Tensor  # (chains,) log-probability that this move is drawn and tried
    log_threshold: Tensor  # (chains,) it is accepted if its log-ratio is above


def flip(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to make an edge of a pair, or to take one off."""
    return _moved(posterior, position, _Flips(position.expansion.fit.is_edge[:, posterior.candidates]), rng)


def swap(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to let an edge leave its pair for another; its deviation goes along."""
    can_leave = (position.expansion.fit.is_edge & posterior.odds.is_uncertain)[:, posterior.candidates]
    return _moved(posterior, position, _Swaps(_some(can_leave, rng.uniform(can_leave.shape[1]))), rng)


def flip_many(posterior: StrengthPosterior, position: Position) -> Position:
    """Flip many pairs of a chain at once, where its evidence rises by it. On the way to the draws only: no draw."""
    gains, z = gains_of_flips(posterior, position.expansion)
    room = (posterior.most_edges - position.expansion.fit.is_edge.sum(1, keepdim=True)).clamp_min(0)
    n_flipped = torch.minimum(((gains > _PROMISING).sum(1, keepdim=True) + 1) // 2, room)
    chosen = (n_flipped[:, 0] > 1).nonzero()[:, 0]
    if not len(chosen):
        return position
    ranks = gains.argsort(dim=1, descending=True).argsort(dim=1)
    is_flipped, candidates = (ranks < n_flipped)[chosen], posterior.candidates
    some, old = posterior.select(chosen), selected(_unexpanded_position(position), chosen)
    is_edge, start = old.expansion.fit.is_edge.clone(), old.expansion.fit.spread(old.expansion.fit.mode)
    is_added = is_flipped & ~is_edge[:, candidates]
    start[:, candidates] = torch.where(is_added, z[chosen], start[:, candidates])
    is_edge[:, candidates] ^= is_flipped
    fit = some.fit(is_edge, start, old.expansion.fit.theta)
    log_density = some.log_density(fit, old.deviation)
    gain = log_density + some.odds.log_prior(is_edge) - old.log_density - some.odds.log_prior(old.expansion.fit.is_edge)
    better = (gain > 0).nonzero()[:, 0]
    if not len(better):
        return position
    expansion = some.select(better).expanded_at(selected(fit, better))
    return _updated(position, chosen[better], Position(expansion, old.deviation[better], log_density[better]))


def redraw_strengths(posterior: StrengthPosterior, position: Position, kept: float, rng: RandomSource) -> Position:
    """Offer new deviations: a share `kept` of the old ones, and the rest drawn anew.

    Where the posterior is the Gaussian of the fit, this is accepted always.
    """
    normal, threshold = rng.normal(position.deviation.shape[1]), rng.uniform()
    new = posterior.at(position.expansion, kept * position.deviation + (1 - kept**2) ** 0.5 * normal)
    gain, gaussian = new.log_density - position.log_density, new.deviation**2 - position.deviation**2
    return _accepted(threshold.log() < gain + 0.5 * gaussian.sum(1), new, position)


def shift_one(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer one deviation of an edge or of theta a step that may be long, for tails that are no Gaussian's."""
    fit, n_free = position.expansion.fit, position.expansion.fit.is_edge.shape[1]
    which, step, threshold = rng.uniform(), torch.tan(torch.pi * (rng.uniform() - 0.5)), rng.uniform()
    is_free = posterior.problem.filter.is_free(position.deviation).bool()
    counts = torch.cat([fit.is_edge, is_free.expand_as(position.deviation[:, n_free:])], 1)
    place = _drawn(torch.where(counts, 0.0, -torch.inf).to(step), which)
    new = posterior.at(position.expansion, position.deviation.scatter_add(1, place[:, None], step[:, None]))
    return _accepted(threshold.log() < new.log_density - position.log_density, new, position)


def _accepted(is_accepted: Tensor, new: Position, position: Position) -> Position:
    """New deviations where they are accepted; what is seen from the graph stays as it is."""
    deviation = where(is_accepted, new.deviation, position.deviation)
    return Position(position.expansion, deviation, where(is_accepted, new.log_density, position.log_density))


def _unexpanded_position(position: Position) -> Position:
    return position._replace(expansion=unexpanded(position.expansion.fit))


def _moved(posterior: StrengthPosterior, position: Position, moves: _Flips | _Swaps, rng: RandomSource) -> Position:
    """Offer every chain one of the moves."""
    which, log_try, log_threshold = rng.uniform(), rng.uniform().log(), rng.uniform().log()
    gains, z = moves.gains(posterior, position.expansion)
    log_shares, log_worth = _log_shares(gains)
    move = _drawn(log_shares, which)
    log_worth = _at(log_worth, move)
    is_tried = torch.isfinite(gains).any(1) & torch.isfinite(position.log_density) & (log_try < log_worth)
    chosen = is_tried.nonzero()[:, 0]
    if not len(chosen):
        return position
    change = moves.change(posterior, move, _at(z, move))
    start = first_order_update(posterior, position.expansion, change)
    offer = _Offer(moves, move, change, *start, _at(log_shares, move) + log_worth, log_threshold)
    bare = selected(_unexpanded_position(position), chosen)
    accepted, new = _tried(posterior.select(chosen), bare, selected(offer, chosen))
    return _updated(position, chosen[accepted], new)


def _updated(position: Position, chains: Tensor, new: Position) -> Position:
    """Positions of which some chains are elsewhere now."""
    if not len(chains):
        return position
    n_edges = max(part.expansion.fit.mode.shape[1] for part in (position, new))
    position, new = (part._replace(expansion=padded(part.expansion, n_edges)) for part in (position, new))
    position = replaced(position, chains, new)
    return position._replace(expansion=trimmed(position.expansion))


def _tried(posterior: StrengthPosterior, position: Position, offer: _Offer) -> tuple[Tensor, Position]:
    """The numbers of the chains whose move is accepted, and where these are then."""
    (moves, move, change, *start, log_share, log_threshold), is_edge = offer, position.expansion.fit.is_edge
    fit = posterior.fit(change.of(is_edge, posterior.candidates), *start)
    deviation = moves.carried(posterior, position.deviation, change)
    log_density = posterior.log_density(fit, deviation)
    excess = log_density - position.log_density - log_share - log_threshold
    excess = excess + moves.log_prior_ratio(posterior, is_edge, change)
    # The way back has a probability of at most one, so that without it a move is accepted or lost already.
    chosen = (excess > 0).nonzero()[:, 0]
    if not len(chosen):
        return chosen, selected(position, chosen)
    posterior, position, excess = posterior.select(chosen), selected(position, chosen), excess[chosen]
    new = Position(posterior.expanded_at(selected(fit, chosen)), deviation[chosen], log_density[chosen])
    moves_back, move_back = selected(moves, chosen).back(posterior, move[chosen])
    gains, z_back = moves_back.gains(posterior, new.expansion)
    log_shares, log_worth = _log_shares(gains)
    is_accepted = excess + _at(log_shares + log_worth, move_back) > 0
    way_back = moves_back.change(posterior, move_back, _at(z_back, move_back))
    accepted = _leads_back(posterior, position, new, way_back, is_accepted).nonzero()[:, 0]
    return chosen[accepted], selected(new, accepted)


def _leads_back(
    posterior: StrengthPosterior, position: Position, new: Position, way_back: Change, is_accepted: Tensor
) -> Tensor:
    """Which of the accepted moves (chains,) lead back to the fit that they came from.

    A graph may have several modes, and which is found depends on where the search begins. A move whose way back would
    lead to another mode has no way back, and is not made.
    """
    chosen = is_accepted.nonzero()[:, 0]
    if posterior.is_warmup or not len(chosen):
        return is_accepted
    z, theta = first_order_update(posterior, new.expansion, way_back)
    fit = selected(position.expansion.fit, chosen)
    again = posterior.select(chosen).fit(fit.is_edge, z[chosen], theta[chosen])
    distance = fit.deviation_of(again.spread(again.mode).gather(1, fit.places), again.theta).norm(dim=1)
    return is_accepted.index_put((chosen,), again.is_found & (distance < SAME_MODE))


def _some(is_there: Tensor, order: Tensor) -> Tensor:
    """Places (chains, n) picked at random where something is there, -1 where a chain has fewer."""
    picked = torch.where(is_there, order, -1.0).topk(min(_MOST_LEAVING, is_there.shape[1]), dim=1)
    return torch.where(picked.values >= 0, picked.indices, -1)


def _at(values: Tensor, place: Tensor) -> Tensor:
    """Values (chains, n) at each chain's place (chains,)."""
    return values.gather(1, place[:, None])[:, 0]


def _drawn(log_shares: Tensor, uniform: Tensor) -> Tensor:
    """A move (chains,) drawn for each chain."""
    sums = log_shares.exp().nan_to_num(0.0).cumsum(1)
    return torch.searchsorted(sums, uniform[:, None] * sums[:, -1:])[:, 0].clamp_max(log_shares.shape[1] - 1)


def _log_shares(gains: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (chains, moves) with which moves are drawn, and with which they are then tried.

    The chance that a move is accepted is the ratio of the sums of odds before and after it. After it, others have
    about the odds that they have now, and the way back has the inverse of its own.
    """
    odds = (0.5 * gains).nan_to_num(-torch.inf).clamp_max(_LARGEST_LOG_ODDS)
    log_shares, log_sum = odds.log_softmax(1), odds.logsumexp(1, keepdim=True)
    after = torch.logaddexp(log_sum + torch.log1p(-log_shares.exp().clamp_max(1.0)), -odds)
    return log_shares, (log_sum - after).clamp_max(0.0)
