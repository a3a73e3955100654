"""Sampling of graphs whose edges have strengths.

A sweep is a number of flips and swaps of edges, with the strengths integrated out as far as their Gaussian goes (see
`_strength_moves`), then draws of all strengths and theta together, of the law of strengths, and of the noise level.

Chains start from a fit in which every pair has a strength, with the weak ones taken off. On the way to the draws,
the noise level is what the residuals say, even where it is known: a graph that does not fit then counts as noisy, and
is free to change. Chains that fall far behind are restarted from better ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..filters import SteadyStateFilter
from ._defined_graphs import with_outputs
from ._flips import SWEEPS_BETWEEN_FULL_ONES, FlipLikelihood, StrengthFlips, Visits, flip_sweep, uncertain_first
from ._gains import gains_of_flips
from ._graph_odds import GraphOdds
from ._kernel import ChainState, Denoiser, Draw, Kernel, RandomSource, StepInfo
from ._laplace import Conditions, Objective, fit_strengths, strengths_of
from ._outlook import View, unseen
from ._per_chain import selected, where
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._strength_moves import SAME_MODE, flip, leap, redraw_strengths, shift_one, swap
from ._strength_posterior import Position, StrengthPosterior
from ._tempering import density_of, trust_of
from ._theta import SMALLEST_NOISE, fit_theta, noise_std_from, sample_theta, theta_precision

__all__ = ["StrengthKernel", "StrengthState"]

# The share of the sweeps, the last ones, that counts as draws from the posterior.
_KEPT_SHARE = 0.5
# Chains that start from draws of an earlier fit take this share of the sweeps.
_SHARE_OF_SWEEPS_RESUMED = 0.4
# Before the draws begin, a chain whose evidence is lower than the best chain's by this much, in logarithms, starts anew
# from one that is not.
_LARGEST_DEFICIT = 30.0
# Pairs whose log-odds to become an edge are below this in every chain are left out of a sweep.
_CERTAIN = -9.0
# In a sweep: how often strengths are redrawn, and how much of their deviations is kept. Where the Gaussian is good, all
# may be forgotten; small steps, and steps of one of them that may be long, are for where it is not.
_REDRAWS = (0.0, 0.9, 0.0, 0.9)
_SHIFTS_PER_REDRAW = 4
# How often in a sweep on the way many pairs are flipped at once.
_LEAPS = 3
# Known edges, their strengths known or not, of which there must be so many for the law of strengths to be theirs.
_ENOUGH_KNOWN_EDGES = 10
# A start: every pair has a strength. It begins, and is held with this width, at its prior probability times the usual
# strength. Chains take off what is weaker than some share of it.
_RELAXED_WIDTH = 2.0
_RELAXED_ROUNDS = 5
_STEPS_PER_ROUND = 3
_CHAINS_PER_FIT = 4
_CUTS = (0.1, 0.4)
# Sizes of strengths that are tried where filter and data determine them: two in each power of ten.
_LOG_SIZES, _N_SIZES = (-12.0, 12.0), 49
# Multiplications for the normal equations of all pairs beyond which chains start without that fit, from graphs in which
# a node has so many unknown edges on average at most. Leaps add what the data ask for.
_LARGEST_WORK = 3e10
_EDGES_PER_NODE_AT_START = 4.0
# The noise level's prior: its logarithm has Student's t law of this many degrees of freedom and width one, around this
# share of the outputs. Noise of a thousandth of them is then e^5 times less probable, which a few outputs overrule.
_USUAL_NOISE, _NOISE_FREEDOM = 0.3, 3.0
# Edges of a chain that are offered another strength by themselves in a sweep, on average.
_REDRAWN_EDGES = 8.0
# How often in a sweep the noise level is offered another value that strengths follow, and by how much in logarithms.
# Given strengths, draws of the noise level forget the last one by as much as there are more outputs than edges, so that
# these moves are for where edges are more than a share of the outputs.
_NOISE_MOVES, _NOISE_STEP = 3, 0.7
_SHARE_THAT_HOLDS = 0.3
# Tables of all pairs with all edges may hold so many numbers for each chain, or twice those of the start: 32 MB.
_NUMBERS_PER_CHAIN = 2**22
# Measured on one core, with heat on 40 nodes and steady states on 90 and 120.
_PRODUCTS_PER_SECOND = 2.5e9


class StrengthState(NamedTuple):
    """What the next sweep needs."""

    chain: ChainState
    position: Position
    law: StrengthLaw
    odds: GraphOdds
    seen: Tensor  # (n,) strengths that count as known to their law
    origin: Tensor  # (chains,) the chain that each goes back to
    gain: Tensor  # (chains, free pairs) of a flip, when it was last looked at
    n_sweeps: int


@dataclass(frozen=True)
class StrengthKernel(Kernel):
    """Sample graphs, the strengths of their edges, theta and the noise level.

    Parameters
    ----------
    n_sweeps : int
        How many sweeps; the last half are draws.
    slab : Slab
        The law of strengths.
    sigma : float
        Standard deviation of the noise on the copies that the prior is asked about.
    n_moves : int
        Flips and swaps in a sweep, in turn.
    n_parts : int
        Into how many parts the pairs are divided when the prior is asked about all. One: it is not told that other
        pairs are known.
    has_independent_pairs : bool
        Whether pairs are independent under the prior.
    noise_std : float or None
        The measurement noise. None draws it too.
    resumes : bool
        Whether chains start from draws of an earlier fit.
    """

    step_name: ClassVar[str] = "sweep"
    remedy: ClassVar[str] = "raise n_sweeps"
    needs_autograd: ClassVar[bool] = False
    dtype: ClassVar[torch.dtype] = torch.float64

    n_sweeps: int
    slab: Slab
    sigma: float
    n_moves: int = 16
    n_parts: int = 5
    has_independent_pairs: bool = False
    noise_std: float | None = None
    resumes: bool = False

    @property
    def n_steps(self) -> int:
        return self.n_sweeps

    @property
    def n_draws(self) -> int:
        return max(1, round(_KEPT_SHARE * self.n_sweeps))

    def resumed(self) -> StrengthKernel:
        return replace(self, n_sweeps=max(1, round(_SHARE_OF_SWEEPS_RESUMED * self.n_sweeps)), resumes=True)

    @staticmethod
    def most_edges(n_nodes: int, n_unknown: int, directed: bool) -> int:
        """How many unknown pairs a chain may have as edges before it takes no more of them than one at a time."""
        return max(_NUMBERS_PER_CHAIN // max(1, n_unknown), 2 * _edges_at_start(n_nodes, directed))

    def least_memory(self, problem: Problem, n_chains: int) -> float:
        """Bytes that chains need even if they find no more edges than they start with, as measured.

        Tables of pairs and edges, of which there are five and a half at once when edges come, and of edges and edges;
        or, where all pairs are fitted first, their normal equations.
        """
        n_free, n_edges = problem.space.n_free, _edges_at_start(problem.n_nodes, problem.space.directed)
        n_edges = problem.n_certain + min(problem.n_unknown, n_edges)
        n_numbers = n_chains * n_edges * (5.5 * n_free + 14.0 * n_edges)
        if self._is_quickly_relaxed(problem):
            n_numbers = max(n_numbers, 6.0 * math.ceil(n_chains / _CHAINS_PER_FIT) * n_free**2)
        return 8.0 * n_numbers

    def least_seconds(self, problem: Problem, n_chains: int) -> float:
        """Seconds that chains take on one core if they find no more edges than they start with, within a factor of two.

        Most of the time, products of derivatives are computed: for all pairs and edges in every move, and for all pairs
        where these are fitted first.
        """
        n_free, n_edges = problem.space.n_free, _edges_at_start(problem.n_nodes, problem.space.directed)
        n_edges = problem.n_certain + min(problem.n_unknown, n_edges)
        # In a steady state, derivatives are products of two vectors.
        is_rank_one = isinstance(problem.filter, SteadyStateFilter) and not problem.space.directed
        n_outputs = sum(problem.inputs.shape) if is_rank_one else problem.inputs.numel()
        n_products = self.n_sweeps * self.n_moves * n_chains * n_free * n_edges * (n_edges + n_outputs)
        if self._is_quickly_relaxed(problem):
            n_fits = _RELAXED_ROUNDS * (_STEPS_PER_ROUND + 1) * math.ceil(n_chains / _CHAINS_PER_FIT)
            n_products += n_fits * n_free**2 * (n_outputs + n_free // 3)
        return n_products / _PRODUCTS_PER_SECOND

    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> StrengthState:
        n_chains, n_free = len(chain.theta), problem.space.n_free
        odds = GraphOdds.of(problem, denoise, self.sigma, self.n_parts, self.has_independent_pairs, n_chains)
        odds = odds.asked(rng.uniform(n_free) < 0.5, self.n_parts, rng)
        seen = self._seen_strengths(problem, odds)
        law = self.slab.first_law(self.slab.number(seen), n_chains)
        start = self._resumed_start if self.resumes else self._start
        is_edge, z, theta, noise_std = start(problem, odds, law, chain, rng)
        is_edge = with_outputs(problem, is_edge, self.slab.strength(z).abs())
        if not odds.is_settled:
            odds = odds.asked(is_edge, self.n_parts, rng)
        posterior = self._posterior(problem, odds, law, noise_std, is_on_the_way=True)
        deviation = rng.normal(n_free + theta.shape[1])
        position = posterior.at(unseen(posterior.fit(is_edge, z, theta)), deviation)
        origin = torch.arange(n_chains, device=theta.device)
        return StrengthState(
            self._chain(posterior, position),
            position,
            law,
            odds,
            seen,
            origin,
            torch.zeros_like(position.deviation[:, :n_free]),
            0,
        )

    def step(
        self, problem: Problem, denoise: Denoiser, state: StrengthState, rng: RandomSource
    ) -> tuple[StrengthState, StepInfo]:
        is_on_the_way = state.n_sweeps < self.n_sweeps - self.n_draws
        odds, position = state.odds, state.position
        if not odds.is_settled:
            odds = odds.asked(position.view.fit.is_edge, self.n_parts, rng, redraws_prior=state.n_sweeps > 0)
        noise_std = state.chain.noise_std
        if not is_on_the_way and self.noise_std is not None:
            noise_std = torch.full_like(noise_std, self.noise_std)
        chain, gain = self._flipped(problem, odds, state._replace(chain=state.chain._replace(noise_std=noise_std)), rng)
        posterior = self._posterior(problem, odds, state.law, noise_std, is_on_the_way)
        posterior, position = _narrowed(posterior, _renewed(posterior, position, chain))
        n_seen = torch.zeros_like(position.view.fit.is_edge, dtype=noise_std.dtype)
        for _ in range(_LEAPS if is_on_the_way else 0):
            position = leap(posterior, position)
        for number in range(self.n_moves):
            position = (swap if number % 2 else flip)(posterior, position, rng)
            n_seen += position.view.fit.is_edge
        for kept in () if is_on_the_way else _REDRAWS:
            position = redraw_strengths(posterior, position, kept, rng)
            for _ in range(_SHIFTS_PER_REDRAW):
                position = shift_one(posterior, position, rng)
        n_edges = float(position.view.fit.is_edge.sum(1).double().mean())
        is_held = self.noise_std is None and n_edges > _SHARE_THAT_HOLDS * problem.n_measured
        for _ in range(_NOISE_MOVES if is_held else 0):
            posterior, position = _noise_moved(posterior, position, rng)
        law, chain = self._draw_conditions(problem, posterior, position, state.seen, rng, is_on_the_way)
        adjacency = problem.assemble(chain.pairs)
        log_likelihood = problem.log_likelihood(adjacency, chain.theta, chain.noise_std)
        fit = position.view.fit
        log_evidence = odds.log_prior(fit.is_edge) + posterior.log_evidence(fit)
        # Graphs are compared by their evidence, not by the likelihood of the strengths that they happen to have.
        at_draw = problem.log_likelihood(adjacency, chain.theta, posterior.conditions.noise_std)
        info = StepInfo(
            sigma=self.sigma,
            edge_probability=n_seen[:, : problem.n_unknown] / max(1, self.n_moves),
            log_likelihood=log_likelihood,
            log_prior=_finite_or(log_evidence - at_draw, odds.log_prior(fit.is_edge)),
            origin=state.origin,
            trust=trust_of(odds.denoise),
            density=density_of(odds.denoise),
        )
        position = position._replace(view=unseen(fit))  # the next sweep has other conditions
        state = StrengthState(chain, position, law, odds, state.seen, state.origin, gain, state.n_sweeps + 1)
        if is_on_the_way:
            state = _restarted(state, log_evidence, rng.uniform())
        return state, info

    def draw(self, problem: Problem, state: StrengthState, info: StepInfo) -> Draw:
        strengths, theta, noise_std = state.chain
        graphs = state.position.view.fit.is_edge[:, : problem.n_unknown].to(strengths)
        return Draw(graphs, theta, noise_std, info.log_likelihood, info.log_prior, info.edge_probability, strengths)

    def _flipped(
        self, problem: Problem, odds: GraphOdds, state: StrengthState, rng: RandomSource
    ) -> tuple[ChainState, Tensor]:
        """Offer pairs a flip or another strength, one by one, while all others stay; and return the gains of flips."""
        chain, gain, n_free = state.chain, state.gain.clone(), problem.space.n_free
        order, normal = rng.uniform(n_free).argsort(1), rng.normal(problem.n_unknown)
        thresholds, shifts, uniform, redrawing = (rng.uniform(n_free) for _ in range(4))
        theta, numbers = chain.theta, (rng.normal(chain.theta.shape[1]), rng.uniform())
        if not n_free:
            return chain, gain
        adjacency, is_edge = problem.assemble(chain.pairs), chain.pairs != 0
        is_redrawn = is_edge & (redrawing < _REDRAWN_EDGES / is_edge.sum(1, keepdim=True).clamp_min(1))
        is_visited = torch.ones_like(order, dtype=torch.bool)
        if state.n_sweeps % SWEEPS_BETWEEN_FULL_ONES:
            flip_gain = gain + torch.where(is_edge, -odds.table, odds.table)
            order, is_visited = uncertain_first(order, torch.where(is_redrawn, torch.inf, flip_gain))
        randomness = torch.logit(thresholds), torch.logit(shifts), uniform.log(), is_redrawn
        likelihood = FlipLikelihood(problem, problem.edge_changes(adjacency, theta), chain.noise_std, 1.0)
        most = self.most_edges(problem.n_nodes, problem.n_unknown, problem.space.directed)
        kind = StrengthFlips(self.slab, state.law, most * (1 if problem.space.directed else 2))
        n_parts = 1 if odds.is_table_exact else self.n_parts
        for part, is_drawn in zip(order.chunk(n_parts, 1), is_visited.chunk(n_parts, 1), strict=True):
            table = odds.of_part(problem.gather(adjacency) != 0, part, normal)
            table = torch.where(odds.is_uncertain, table, torch.inf)
            visits = Visits(part, is_drawn, *(one.gather(1, part) for one in randomness))
            flip_sweep(problem, likelihood, kind, adjacency, table, visits, gain)
        if problem.filter.linear_in_theta:  # flips have integrated it out
            theta, _ = sample_theta(problem, adjacency, theta, chain.noise_std, *numbers)
        return chain._replace(pairs=problem.gather(adjacency), theta=theta), gain

    def _posterior(
        self, problem: Problem, odds: GraphOdds, law: StrengthLaw, noise_std: Tensor, is_on_the_way: bool
    ) -> StrengthPosterior:
        everything = torch.arange(problem.space.n_free, device=noise_std.device)
        conditions = _conditions(problem, law, noise_std)
        most_edges = problem.n_certain + self.most_edges(problem.n_nodes, problem.n_unknown, problem.space.directed)
        return StrengthPosterior(problem, self.slab, conditions, odds, everything, is_on_the_way, most_edges)

    def _chain(self, posterior: StrengthPosterior, position: Position) -> ChainState:
        z, theta = posterior.parameters(position.view.fit, position.deviation)
        return ChainState(strengths_of(self.slab, position.view.fit, z), theta, posterior.conditions.noise_std)

    def _draw_conditions(
        self,
        problem: Problem,
        posterior: StrengthPosterior,
        position: Position,
        seen: Tensor,
        rng: RandomSource,
        is_on_the_way: bool,
    ) -> tuple[StrengthLaw, ChainState]:
        """Draw the law of strengths and the noise level, given all else."""
        fit = position.view.fit
        z, theta = posterior.parameters(fit, position.deviation)
        if is_on_the_way:
            # Noise that follows from the best strengths is too low, and the next best strengths make it lower still.
            z, theta = posterior.drawn_near(fit, rng.normal(position.deviation.shape[1]))
        # Where the model is wrong, weak edges that are not there make up for it. A law of strengths that learns from
        # these lets in more of them; so it learns from the edges that are known, where they are many.
        is_counted = fit.is_real
        if problem.n_certain + len(problem.known_strengths) >= _ENOUGH_KNOWN_EDGES:
            is_counted = is_counted & (fit.places >= problem.n_unknown)
        law = self.slab.sample_law(posterior.conditions.law, z, is_counted, self.slab.number(seen), rng)
        noise_std, gamma = posterior.conditions.noise_std, rng.gamma(0.5 * problem.n_measured)
        if self.noise_std is None or is_on_the_way:
            drawn = noise_std_from(problem, posterior.squares(fit, z, theta), gamma)
            # Drawn as if the prior were 1 / variance, and accepted by how the prior differs from that.
            gain = _log_prior_of_noise(problem, drawn) - _log_prior_of_noise(problem, noise_std)
            noise_std = torch.where(rng.uniform().log() < gain, drawn, noise_std)
            noise_std = noise_std.clamp_min(self.noise_std or 0.0)
        return law, ChainState(strengths_of(self.slab, fit, z), theta, noise_std)

    def _resumed_start(
        self, problem: Problem, odds: GraphOdds, law: StrengthLaw, chain: ChainState, rng: RandomSource
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Graphs, z, theta and the noise level where an earlier fit has left the chains."""
        is_edge, usual = chain.pairs != 0, self.slab.size(law)[:, None]
        strengths = torch.where(is_edge | odds.is_uncertain, chain.pairs, usual)  # edges may have become known since
        z = self.slab.number(torch.where(is_edge, strengths, usual))
        return is_edge | ~odds.is_uncertain, z, chain.theta, self._residual_std(problem, strengths, chain.theta)

    def _start(
        self, problem: Problem, odds: GraphOdds, law: StrengthLaw, chain: ChainState, rng: RandomSource
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Graphs, z, theta and the noise level to begin with."""
        n_chains, n_free = len(chain.theta), problem.space.n_free
        usual, share = self.slab.size(law)[:, None], torch.where(odds.is_uncertain, odds.table.sigmoid(), 1.0)
        strengths = usual * share * torch.exp(0.5 * rng.normal(n_free))
        theta = fit_theta(problem, problem.assemble(strengths), chain.theta, n_iterations=10).theta
        noise_std = self._residual_std(problem, strengths, theta)
        cuts = torch.logspace(math.log10(_CUTS[0]), math.log10(_CUTS[1]), n_chains).to(strengths)
        cuts = cuts[rng.uniform().argsort()]
        if self._is_quickly_relaxed(problem):
            fitted = torch.arange(0, n_chains, _CHAINS_PER_FIT, device=theta.device)
            source = torch.arange(n_chains, device=theta.device) // _CHAINS_PER_FIT
            relaxed = self._better_relaxed(problem, selected(law, fitted), strengths[fitted], theta[fitted])
            strengths, theta, noise_std = (part[source] for part in relaxed)
            if n_free > _SHARE_THAT_HOLDS * problem.n_measured and self.noise_std is None:
                # Strengths of all pairs then leave next to nothing of any outputs, which says nothing of the noise.
                noise_std = noise_std.clamp_min(_USUAL_NOISE * problem.scale)
            is_edge = strengths.abs() > (cuts * _usual(strengths, share))[:, None]
            # Where the data do not determine all strengths, most pairs seem to be edges, and a dense graph that
            # explains everything is hard to leave. So every second chain begins with as many edges as expected.
            ranks = strengths.abs().argsort(1, descending=True).argsort(1)
            is_sparse = torch.arange(n_chains, device=theta.device)[:, None] % 2 == 1
            is_edge = torch.where(is_sparse, ranks < share.sum(1, keepdim=True), is_edge)
        else:
            is_edge = rng.uniform(n_free) < share * _thinning(problem, share * odds.is_uncertain)
        z = self.slab.number(torch.where(strengths == 0, usual, strengths))
        return is_edge | ~odds.is_uncertain, z, theta, noise_std

    def _seen_strengths(self, problem: Problem, odds: GraphOdds) -> Tensor:
        """The strengths (n,) that count as known to their law.

        Where none is known, a parameter of the filter usually multiplies all strengths, so that their unit is free.
        Where that parameter is fixed it is not, and strengths may be of any size. Then their law has seen one strength,
        of the size that explains the outputs best, and where signs are open the same with the other sign.
        """
        if len(problem.known_strengths) or not (problem.space.n_free and problem.filter.fixed_values()):
            return problem.known_strengths
        share = torch.where(odds.is_uncertain, odds.table.sigmoid(), 1.0).mean(0, keepdim=True)
        low, high = torch.tensor(problem.filter.initial_range()).to(share).unbind(1)
        theta = problem.filter.constrain(0.5 * (low + high)[None])
        strengths, theta = _sized_strengths(problem, share, theta, self.slab.has_signs)
        if _is_unit_free(problem, strengths, theta):
            return problem.known_strengths
        if self._is_quickly_relaxed(problem):
            law = self.slab.first_law(self.slab.number(strengths.max(1).values), 1)
            strengths, _, _ = self._relaxed(problem, law, strengths, theta)
        usual = _usual(strengths, share)
        return torch.cat([usual, -usual]) if self.slab.has_signs else usual

    def _is_quickly_relaxed(self, problem: Problem) -> bool:
        return problem.space.n_free**2 * max(problem.space.n_free, sum(problem.inputs.shape)) <= _LARGEST_WORK

    def _better_relaxed(
        self, problem: Problem, law: StrengthLaw, strengths: Tensor, theta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Fit strengths to all pairs; where their signs are open, from two starts, of which the better counts."""
        guessed = self._relaxed(problem, law, strengths, theta)
        if not (self.slab.has_signs and len(problem.known_strengths)):
            return guessed
        # A guess that all strengths are alike may give theta the sign that the unknown ones ask for, and leave those
        # that are known to be noise. So let theta follow from the known ones alone, and the others from theta.
        nothing = torch.zeros_like(strengths)
        theta = fit_theta(problem, problem.assemble(nothing), theta, n_iterations=10).theta
        told = self._relaxed(problem, law, nothing, theta)
        is_better = (told[-1] < guessed[-1])[:, None]
        strengths, theta = (torch.where(is_better, a, b) for a, b in zip(told[:2], guessed[:2], strict=True))
        return strengths, theta, torch.minimum(told[-1], guessed[-1])

    def _relaxed(
        self, problem: Problem, law: StrengthLaw, strengths: Tensor, theta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Fit strengths to all pairs, the noise level following from the residuals."""
        noise_std = self._residual_std(problem, strengths, theta)
        wide = StrengthLaw(law.location - self.slab.unit(law), _RELAXED_WIDTH * self.slab.unit(law))
        z, everything = self.slab.number(strengths), torch.ones_like(strengths, dtype=torch.bool)
        for _ in range(_RELAXED_ROUNDS):
            objective = Objective.of(problem, self.slab, _conditions(problem, wide, noise_std), everything)
            fit = fit_strengths(objective, z, theta, _STEPS_PER_ROUND)
            z, theta = fit.mode, fit.theta
            noise_std = self._residual_std(problem, self.slab.strength(z), theta)
        return self.slab.strength(z), theta, noise_std

    def _residual_std(self, problem: Problem, strengths: Tensor, theta: Tensor) -> Tensor:
        squares = problem.residuals(problem.assemble(strengths), theta).square().sum((-2, -1))
        floor = max(self.noise_std or 0.0, 1e-6 * problem.scale)
        return (squares / problem.n_measured).sqrt().nan_to_num(problem.scale).clamp(floor, max(floor, problem.scale))


def _conditions(problem: Problem, law: StrengthLaw, noise_std: Tensor) -> Conditions:
    precision = theta_precision(problem, noise_std) / noise_std[:, None] ** 2
    return Conditions(law, noise_std, precision.expand(-1, problem.filter.n_parameters()).contiguous())


def _log_prior_of_noise(problem: Problem, noise_std: Tensor) -> Tensor:
    """Log-density (chains,) of the noise level's logarithm: Student's t around a usual share of the outputs.

    1 / variance would be improper, and where strengths can explain any outputs, noise of zero would be certain.
    """
    deviation = (noise_std / (_USUAL_NOISE * problem.scale)).log()
    return -0.5 * (_NOISE_FREEDOM + 1) * torch.log1p(deviation**2 / _NOISE_FREEDOM)


def _finite_or(values: Tensor, otherwise: Tensor) -> Tensor:
    """Values (chains,), or others where none is finite: data that no strengths fit are no reason to end without any."""
    return values if bool(torch.isfinite(values).any()) else otherwise


def _sized_strengths(problem: Problem, share: Tensor, theta: Tensor, has_signs: bool) -> tuple[Tensor, Tensor]:
    """Strengths (1, free pairs) in proportion to `share`, of the best size, and theta (1, parameters) to go with them.

    The best size fits the outputs best. Where signs are open, strengths of one sign need not fit at any size; the best
    one then changes the outputs as much as all edges have to.
    """
    sizes = torch.logspace(*_LOG_SIZES, _N_SIZES).to(share)[:, None]
    matrices = problem.assemble(sizes * share)
    theta = fit_theta(problem, matrices, theta.expand(_N_SIZES, -1), n_iterations=10).theta
    residuals = problem.residuals(matrices, theta)
    badness = residuals.square().sum((-2, -1))
    if has_signs:
        without = problem.residuals(problem.assemble(torch.zeros_like(share)), theta[:1])
        badness = ((residuals - without).square().sum((-2, -1)) / without.square().sum()).log().abs()
    best = badness.nan_to_num(torch.inf).argmin()
    return (sizes * share)[best][None], theta[best][None]


def _is_unit_free(problem: Problem, strengths: Tensor, theta: Tensor) -> bool:
    """Whether free parameters of the filter can undo a change of the unit of strengths, to first order."""
    larger, smaller = (problem.residuals(problem.assemble(strengths * factor), theta) for factor in (1.001, 0.999))
    change = (larger - smaller).flatten()
    _, jacobian = problem.filter.theta_jacobian(problem.assemble(strengths), theta, problem.inputs)
    regressors = (jacobian * problem.measured[..., None]).flatten(0, 2)
    left = change - regressors @ (torch.linalg.pinv(regressors) @ change)
    return bool(left.norm() <= 1e-3 * change.norm())


def _thinning(problem: Problem, share: Tensor) -> Tensor:
    """Factor (chains, 1) by which edges have to be fewer than expected for a start from a sparse graph."""
    wanted = _edges_at_start(problem.n_nodes, problem.space.directed)
    return (wanted / share.sum(1, keepdim=True).clamp_min(wanted)).to(share)


def _edges_at_start(n_nodes: int, directed: bool) -> int:
    return round(_EDGES_PER_NODE_AT_START * n_nodes * (1.0 if directed else 0.5))


def _usual(strengths: Tensor, share: Tensor) -> Tensor:
    """The median (chains,) of as many of the largest strengths as edges are expected; one where no pair is free."""
    if not strengths.shape[1]:
        return strengths.new_ones(len(strengths))
    ranked = strengths.abs().sort(dim=1, descending=True).values
    middle = (0.5 * share.sum(1)).long().clamp(0, strengths.shape[1] - 1)
    return ranked.gather(1, middle[:, None])[:, 0]


def _renewed(posterior: StrengthPosterior, position: Position, chain: ChainState) -> Position:
    """The graphs, strengths and theta of chains under other conditions."""
    before, n_free, is_edge = position.view.fit, chain.pairs.shape[1], chain.pairs != 0
    z = posterior.slab.number(chain.pairs)
    start = torch.where(before.is_edge, before.spread(before.mode), z)
    view = posterior.seen_from(posterior.fit(is_edge, start, before.theta))
    deviation, fit = position.deviation, view.fit
    if not posterior.is_on_the_way:
        of_fit = fit.deviation_of(torch.where(fit.is_real, z.gather(1, fit.places), fit.mode), chain.theta)
        of_edges, of_theta = of_fit.split([fit.mode.shape[1], chain.theta.shape[1]], 1)
        of_pairs = torch.where(is_edge, fit.spread(of_edges), deviation[:, :n_free])
        deviation = torch.cat([of_pairs, of_theta], 1)
    return posterior.at(view, deviation)


def _noise_moved(
    posterior: StrengthPosterior, position: Position, rng: RandomSource
) -> tuple[StrengthPosterior, Position]:
    """Offer every chain another noise level, while strengths and theta follow: their deviations are kept.

    Given strengths that explain all outputs, the noise level could only stay near where it is.
    """
    problem, conditions, fit = posterior.problem, posterior.conditions, position.view.fit
    step, threshold = rng.normal() * _NOISE_STEP * 3 ** (2 * rng.uniform() - 1), rng.uniform()
    noise_std = conditions.noise_std * step.exp()
    offered = posterior._replace(conditions=_conditions(problem, conditions.law, noise_std))
    new_fit = offered.fit(fit.is_edge, fit.spread(fit.mode), fit.theta)
    log_density = offered.log_density(new_fit, position.deviation)
    gain = log_density + _log_prior_of_noise(problem, noise_std)
    gain = gain - position.log_density - _log_prior_of_noise(problem, conditions.noise_std)
    is_accepted = (threshold.log() < gain) & (noise_std > SMALLEST_NOISE * problem.scale)
    if not posterior.is_on_the_way:  # the way back must lead to the mode that this one came from
        back = posterior.fit(fit.is_edge, new_fit.spread(new_fit.mode), new_fit.theta)
        is_accepted = is_accepted & (fit.deviation_of(back.mode, back.theta).norm(dim=1) < SAME_MODE)
    conditions = where(is_accepted, offered.conditions, conditions)
    position = Position(
        unseen(where(is_accepted, new_fit, fit)),
        position.deviation,
        torch.where(is_accepted, log_density, position.log_density),
    )
    return posterior._replace(conditions=conditions), position


def _narrowed(posterior: StrengthPosterior, position: Position) -> tuple[StrengthPosterior, Position]:
    """Leave out pairs that are no edge in any chain, and whose odds to become one are too small in all of them."""
    fit, outlook = position.view
    gains, _ = gains_of_flips(posterior, position.view)
    is_in_question = (fit.is_edge | (gains > _CERTAIN)).any(0) & posterior.odds.is_uncertain
    kept = is_in_question.nonzero()[:, 0]
    if len(kept) < 2:  # nothing to draw among
        return posterior, position
    parts = {name: getattr(outlook, name)[:, kept] for name in ("slope", "curvature", "cross")}
    view = View(fit, outlook._replace(**parts))
    return posterior._replace(candidates=kept), position._replace(view=view)


def _restarted(state: StrengthState, log_evidence: Tensor, uniform: Tensor) -> StrengthState:
    """Let chains that fall far behind go on from where another chain is, picked at random among those that do not."""
    is_finite = torch.isfinite(log_evidence)
    if not bool(is_finite.any()):
        return state
    is_ahead = is_finite & (log_evidence >= log_evidence[is_finite].max() - _LARGEST_DEFICIT)
    ahead = is_ahead.nonzero()[:, 0]
    other = ahead[(uniform * len(ahead)).long().clamp_max(len(ahead) - 1)]
    source = torch.where(is_ahead, torch.arange(len(other), device=other.device), other)
    odds = state.odds.of_chains(source)
    chain, position = selected(state.chain, source), selected(state.position, source)
    law, origin = selected(state.law, source), state.origin[source]
    return StrengthState(chain, position, law, odds, state.seen, origin, state.gain[source], state.n_sweeps)
