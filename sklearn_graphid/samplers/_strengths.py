"""Moves of edges that have strengths: their law, and graphs whose strengths are all fitted anew."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..filters._edge_changes import RecomputedChanges
from ._draws import DrawNoise
from ._flips import FlipLikelihood
from ._graph_odds import GraphOdds
from ._kernel import ChainState, RandomSource, where
from ._laplace import Expansion, Position, StrengthPosterior, conditions_of, gains_of_flips, strengths_of, unexpanded
from ._moves import Move, Sweep, SweepState
from ._problem import Problem
from ._slabs import Slab
from ._strength_moves import SAME_MODE, flip, flip_many, redraw_strengths, shift_one, swap
from ._strength_start import StrengthStart
from ._theta import SMALLEST_NOISE, log_density_of_theta, sample_theta

__all__ = ["DrawStrengthLaw", "RefitStrengths", "RescaleStrengths"]


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

    Given the graph, strengths and theta are nearly Gaussian around their best fit; see `_strength_moves`. In the
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
