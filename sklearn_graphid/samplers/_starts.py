"""A start that knows the data: least squares on the relaxed matrix.

Where the data are good, graphs one edge apart fit very differently, and a search from graph to graph gets lost. Let the
edges be numbers, and the way to the best fit is smooth. So some of the chains go on from the minimum of

    |Y - h(A) X|^2 / noise^2 + sum over unknown pairs of (A_ij - m_ij)^2 / v_ij,

with no edge below zero, found by the method of Levenberg and Marquardt in the unknown pairs and theta together. m and v
are what the prior makes of the start, so that little moves where the data say little. Half of these chains start where
they are, and half from the prior alone; all other chains are left as they are: no single start decides.

Start of chains whose edges have strengths, and an estimate of the memory and time that they take.

Some chains begin where Langevin dynamics have left them, others at a fit in which every pair has a strength. Of both,
the weak strengths are taken off.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..filters import SteadyStateFilter
from ._kernel import ChainState, Denoiser, RandomSource, selected
from ._laplace import Objective, conditions_of, fit_strengths
from ._parameters import fit_theta
from ._problem import SMALLEST_NOISE, Problem, with_outputs
from ._slabs import Slab, StrengthLaw
from ._sweeps import Sweep, SweepState
from ._tempering import PriorOdds, of_chains

__all__ = ["BinaryStart", "StrengthStart", "fit_some_chains"]

# Every so many chains, one is moved.
_CHAINS_PER_FIT = 4
_N_ITERATIONS = 12
# Edges below zero mean nothing, and that none is below says much about all; above one there is room to move.
_LOWEST, _HIGHEST = 0.0, 1.5
# The prior may be sure of what the data contradict, so its variance is not taken to be less than this.
_SMALLEST_VARIANCE = 0.04
# Derivatives are differences over a change as small as this.
_PROBE = 1e-3
_FIRST_DAMPING = 1e-2


@dataclass(frozen=True)
class BinaryStart:
    """Begin with binary graphs: where the chains are, some of them after a fit of the relaxed matrix. See `Start`.

    Parameters
    ----------
    resumes : bool
        Whether chains start from draws of an earlier fit, and stay there.
    """

    resumes: bool = False

    def resumed(self) -> BinaryStart:
        return replace(self, resumes=True)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        chain = state.chain
        if not self.resumes:
            chain = fit_some_chains(sweep.problem, state.denoise, chain, sweep.sigma, sweep.noise_std)
        is_edge = with_outputs(sweep.problem, chain.pairs > 0.5, chain.pairs)
        return state.at(chain._replace(pairs=is_edge.to(chain.pairs.dtype)))


def fit_some_chains(
    problem: Problem,
    denoise: Denoiser,
    chain: ChainState,
    sigma: float,
    noise_std: float | None,
    largest_work: float = 2e9,
) -> ChainState:
    """Move one chain of four to the least-squares fit of the relaxed matrix.

    The prior is asked at the annealing level `sigma`. Where `noise_std` is None, the noise level is taken from the
    residuals. The pairs of the chains that were moved are numbers between 0 and 1.5. Where one matrix of normal
    equations takes more than `largest_work` multiplications, which is minutes, nothing happens.
    """
    if not 0 < problem.n_unknown**2 * problem.n_measured <= largest_work:
        return chain
    chosen = torch.arange(0, len(chain.pairs), _CHAINS_PER_FIT, device=chain.pairs.device)
    # A chain that has diverged is left to be counted.
    chosen = chosen[torch.isfinite(chain.pairs[chosen]).all(1) & torch.isfinite(chain.theta[chosen]).all(1)]
    if not len(chosen):
        return chain
    denoise = of_chains(denoise, chosen)
    start = _from_the_prior(problem, denoise, ChainState(*(part[chosen] for part in chain)), sigma)
    mean = problem.gather(denoise(problem.assemble(start.pairs), sigma)).double()
    fitted = _fit(problem, start, mean, noise_std)
    return ChainState(*(part.index_copy(0, chosen, new) for part, new in zip(chain, fitted, strict=True)))


def _from_the_prior(problem: Problem, denoise: Denoiser, chain: ChainState, sigma: float) -> ChainState:
    """Let every second chain forget where it is, and start from what the prior makes of pairs that are half edges."""
    pairs = problem.gather(denoise(problem.assemble(torch.full_like(chain.pairs, 0.5)), sigma))
    theta = fit_theta(problem, problem.assemble(pairs), chain.theta, n_iterations=10).theta
    forgets = (torch.arange(len(pairs), device=pairs.device) % 2 == 0)[:, None]
    return chain._replace(
        pairs=torch.where(forgets, pairs, chain.pairs), theta=torch.where(forgets, theta, chain.theta)
    )


class _Target(NamedTuple):
    """Settings of what is minimised, without the data."""

    mean: Tensor  # (chains, unknown pairs)
    variance: Tensor  # (chains, unknown pairs)
    noise_variance: Tensor  # (chains,)

    def at(self, residuals: Tensor, pairs: Tensor) -> Tensor:
        """Its value (chains,)."""
        misfit = residuals.square().sum(1) / self.noise_variance
        return misfit + ((pairs - self.mean).square() / self.variance).sum(1)


def _fit(problem: Problem, chain: ChainState, mean: Tensor, noise_std: float | None) -> ChainState:
    """The minimum that each chain finds."""
    pairs, theta = chain.pairs.clamp(0, 1), chain.theta
    residuals = _residuals(problem, pairs, theta)
    damping = torch.full_like(residuals[:, 0], _FIRST_DAMPING)
    noise_variance = torch.full_like(damping, noise_std**2) if noise_std else residuals.square().mean(1)
    target = _Target(mean, (mean * (1 - mean)).clamp_min(_SMALLEST_VARIANCE), noise_variance)
    for _ in range(_N_ITERATIONS):
        step, n_explained = _step(problem, pairs, theta, residuals, target, damping)
        by_pairs, by_theta = step.split([pairs.shape[1], theta.shape[1]], 1)
        new_pairs = (pairs + by_pairs).to(pairs.dtype).clamp(_LOWEST, _HIGHEST)
        new_theta = problem.filter.constrain((theta + by_theta).to(theta.dtype))
        new_residuals = _residuals(problem, new_pairs, new_theta)
        # False where one of them is nan.
        is_better = target.at(new_residuals, new_pairs) < target.at(residuals, pairs)
        pairs = torch.where(is_better[:, None], new_pairs, pairs)
        theta = torch.where(is_better[:, None], new_theta, theta)
        residuals = torch.where(is_better[:, None], new_residuals, residuals)
        damping = torch.where(is_better, damping / 5, damping * 5)
        if noise_std is None:
            n_left = (problem.n_measured - n_explained).clamp_min(0.1 * problem.n_measured)
            smaller = torch.minimum(target.noise_variance, residuals.square().sum(1) / n_left)
            target = target._replace(noise_variance=smaller.clamp_min((SMALLEST_NOISE * problem.scale) ** 2))
    return ChainState(pairs, theta, target.noise_variance.sqrt().to(pairs.dtype))


def _residuals(problem: Problem, pairs: Tensor, theta: Tensor) -> Tensor:
    return problem.residuals(problem.assemble(pairs), theta).flatten(1).double()


def _step(
    problem: Problem, pairs: Tensor, theta: Tensor, residuals: Tensor, target: _Target, damping: Tensor
) -> tuple[Tensor, Tensor]:
    """The step (chains, pairs and parameters) to the minimum of the linearised problem, and how many numbers it fits.

    A pair at a bound that would leave it stays there, and is none of the unknowns (Bertsekas, SIAM Journal on Control
    and Optimization 20, 1982): if it were only put back afterwards, the others would have moved in vain.
    """
    jacobian = _jacobian(problem, pairs, theta)
    slope = (jacobian @ residuals[..., None])[..., 0] / target.noise_variance[:, None]
    by_pairs = slope[:, : pairs.shape[1]]
    by_pairs += (target.mean - pairs) / target.variance
    is_stopped = ((pairs <= _LOWEST) & (by_pairs < 0)) | ((pairs >= _HIGHEST) & (by_pairs > 0))
    is_free = torch.cat([~is_stopped, torch.ones_like(theta, dtype=torch.bool)], 1).to(slope)
    jacobian, slope = jacobian * is_free[..., None], slope * is_free
    gram = jacobian @ jacobian.mT / target.noise_variance[:, None, None]
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    # theta has no prior here, but a share of its own curvature so that the equations can be solved.
    precision = torch.cat([1 / target.variance, 1e-9 * diagonal[:, pairs.shape[1] :] + 1e-30], 1)
    damped = precision + damping[:, None] * (diagonal + precision)
    cholesky, _ = torch.linalg.cholesky_ex(gram + torch.diag_embed(damped))
    step = torch.cholesky_solve(slope[..., None], cholesky)[..., 0]
    n_explained = (torch.cholesky_inverse(cholesky) * gram).sum((-2, -1))
    return step.nan_to_num(0.0, 0.0, 0.0), n_explained.nan_to_num(0.0)


def _jacobian(problem: Problem, pairs: Tensor, theta: Tensor) -> Tensor:
    """Derivatives (chains, pairs and parameters, measurements) of the outputs."""
    adjacency = problem.assemble(pairs)
    entries = problem.space.entries(torch.arange(problem.n_unknown, device=pairs.device).expand_as(pairs))
    changes = problem.edge_changes(adjacency, theta)
    by_pairs = changes.output_changes(*entries, torch.full_like(pairs, _PROBE), theta) / _PROBE
    _, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    return (torch.cat([by_pairs, by_theta.movedim(-1, 1)], 1) * problem.measured).flatten(2).double()


@dataclass(frozen=True)
class StrengthStart:
    """Begin with strengths, see `Start`.

    In half of the chains, Langevin dynamics have found a strength for every pair. In the others strengths are fitted to
    all pairs: they begin, and are held with the width `relaxed_width`, at their prior probability times the usual
    strength. Chains then take off what is weaker than some share of it.

    Parameters
    ----------
    slab : Slab
        The law of strengths.
    resumes : bool
        Whether chains start from draws of an earlier fit.
    relaxed_width : float
        In units of z.
    n_rounds, n_steps : int
        How often the noise level follows from the residuals of the fit, and steps of the fit in each round.
    chains_per_fit : int
        Chains that begin with the same fit.
    cuts : tuple of float
        Shares of a usual strength between which the chains' thresholds lie, evenly in logarithms.
    largest_work : float
        Multiplications for the normal equations of all pairs beyond which chains start without that fit, from graphs
        with few edges that Langevin dynamics have found. Flips of many pairs at once add what the data ask for.
    edges_per_node : float
        Unknown edges of a node in these graphs, on average at most.
    usual_noise : float
        Strengths of all pairs may leave next to nothing of any outputs, which says nothing of the noise. Where they are
        more than `share_that_holds` of the outputs, the noise level is at least this share of the outputs.
    numbers_per_chain : int
        Tables of all pairs with all edges may hold so many numbers for each chain, or twice those of the start: 32 MB.
    """

    slab: Slab
    resumes: bool = False
    relaxed_width: float = 2.0
    n_rounds: int = 5
    n_steps: int = 3
    chains_per_fit: int = 4
    cuts: tuple[float, float] = (0.1, 0.4)
    largest_work: float = 3e10
    edges_per_node: float = 4.0
    usual_noise: float = 0.3
    share_that_holds: float = 0.3
    numbers_per_chain: int = 2**22

    def resumed(self) -> StrengthStart:
        return replace(self, resumes=True)

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        problem, noise_std = sweep.problem, sweep.noise_std
        log_odds, n_chains = _log_odds(sweep, state), len(state.chain.theta)
        seen = self._seen_strengths(problem, log_odds, noise_std)
        law = self.slab.first_law(self.slab.number(seen), n_chains)
        begin = self._from_earlier_fit if self.resumes else self._at_relaxed_fit
        is_edge, strengths, theta, noise = begin(problem, log_odds, law, state.chain, noise_std, rng)
        is_edge = with_outputs(problem, is_edge, strengths.abs())
        chain = ChainState(torch.where(is_edge, strengths, 0.0), theta, noise)
        gain = torch.zeros_like(strengths)
        return state.at(chain)._replace(flip_gain=gain).fixing("seen strengths", seen).keeping("law", law)

    def n_edges(self, n_nodes: int, directed: bool) -> int:
        """How many unknown edges a graph has at most where all pairs are not fitted first."""
        return round(self.edges_per_node * n_nodes * (1.0 if directed else 0.5))

    def most_edges(self, problem: Problem) -> int:
        """How many unknown edges a chain may have before it takes no more of them than one at a time."""
        at_start = self.n_edges(problem.n_nodes, problem.space.directed)
        return max(self.numbers_per_chain // max(1, problem.n_unknown), 2 * at_start)

    def is_quickly_relaxed(self, problem: Problem) -> bool:
        """Whether strengths are fitted to all pairs."""
        return problem.space.n_free**2 * max(problem.space.n_free, sum(problem.inputs.shape)) <= self.largest_work

    def least_memory(self, problem: Problem, n_chains: int) -> float:
        """Bytes that chains need even if they find no more edges than they start with, as measured.

        Tables of pairs and edges, of which there are five and a half at once when edges come, and of edges and edges;
        or, where all pairs are fitted first, their normal equations.
        """
        n_free, n_edges = problem.space.n_free, self.n_edges(problem.n_nodes, problem.space.directed)
        n_edges = problem.n_certain + min(problem.n_unknown, n_edges)
        n_numbers = n_chains * n_edges * (5.5 * n_free + 14.0 * n_edges)
        if self.is_quickly_relaxed(problem):
            n_numbers = max(n_numbers, 6.0 * math.ceil(n_chains / self.chains_per_fit) * n_free**2)
        return 8.0 * n_numbers

    def least_seconds(
        self, problem: Problem, n_chains: int, n_refits: int, products_per_second: float = 2.5e9
    ) -> float:
        """Seconds that chains take on one core if they find no more edges than they start with, within a factor of two.

        Most of the time, products of derivatives are computed: for all pairs and edges in each of `n_refits` moves, and
        for all pairs where these are fitted first. Their number in a second was measured with heat on 40 nodes and
        steady states on 90 and 120.
        """
        n_free, n_edges = problem.space.n_free, self.n_edges(problem.n_nodes, problem.space.directed)
        n_edges = problem.n_certain + min(problem.n_unknown, n_edges)
        # In a steady state, derivatives are products of two vectors.
        is_rank_one = isinstance(problem.filter, SteadyStateFilter) and not problem.space.directed
        n_outputs = sum(problem.inputs.shape) if is_rank_one else problem.inputs.numel()
        n_products = n_refits * n_chains * n_free * n_edges * (n_edges + n_outputs)
        if self.is_quickly_relaxed(problem):
            n_fits = self.n_rounds * (self.n_steps + 1) * math.ceil(n_chains / self.chains_per_fit)
            n_products += n_fits * n_free**2 * (n_outputs + n_free // 3)
        return n_products / products_per_second

    def _from_earlier_fit(
        self,
        problem: Problem,
        log_odds: Tensor,
        law: StrengthLaw,
        chain: ChainState,
        noise_std: float | None,
        rng: RandomSource,
    ) -> tuple[Tensor, ...]:
        """Graphs, strengths, theta and the noise level where an earlier fit has left the chains."""
        is_certain, usual = torch.isposinf(log_odds), self.slab.size(law)[:, None]
        is_edge = (chain.pairs != 0) | is_certain  # edges may have become known since
        strengths = torch.where(chain.pairs != 0, chain.pairs, usual)
        held = torch.where(is_edge, strengths, 0.0)
        return is_edge, strengths, chain.theta, _residual_std(problem, held, chain.theta, noise_std)

    def _at_relaxed_fit(
        self,
        problem: Problem,
        log_odds: Tensor,
        law: StrengthLaw,
        chain: ChainState,
        noise_std: float | None,
        rng: RandomSource,
    ) -> tuple[Tensor, ...]:
        """Graphs, strengths, theta and the noise level to begin with."""
        n_chains, n_free = len(chain.theta), problem.space.n_free
        number, is_certain = torch.arange(n_chains, device=chain.theta.device), torch.isposinf(log_odds)
        usual, share = self.slab.size(law)[:, None], log_odds.sigmoid()
        strengths = usual * share * torch.exp(0.5 * rng.normal(n_free))
        theta = fit_theta(problem, problem.assemble(strengths), chain.theta, n_iterations=10).theta
        noise = _residual_std(problem, strengths, theta, noise_std)
        low, high = (math.log10(cut) for cut in self.cuts)
        cuts = torch.logspace(low, high, n_chains).to(strengths)
        cuts = cuts[rng.uniform().argsort()]
        is_annealed = torch.isfinite(chain.pairs).all(1) & torch.isfinite(chain.theta).all(1)
        if self.is_quickly_relaxed(problem):
            is_annealed &= number % 4 >= 2
            fitted = torch.arange(0, n_chains, self.chains_per_fit, device=theta.device)
            source = number // self.chains_per_fit
            relaxed = self._better_relaxed(problem, selected(law, fitted), strengths[fitted], theta[fitted], noise_std)
            strengths, theta, noise = (part[source] for part in relaxed)
            if n_free > self.share_that_holds * problem.n_measured and noise_std is None:
                noise = noise.clamp_min(self.usual_noise * problem.scale)
        strengths = torch.where(is_annealed[:, None], chain.pairs, strengths)
        theta, noise = torch.where(is_annealed[:, None], chain.theta, theta), torch.where(is_annealed, chain[2], noise)
        is_edge = strengths.abs() > (cuts * _usual(strengths, share))[:, None]
        # Where the data do not determine all strengths, most pairs seem to be edges, and a dense graph that explains
        # everything is hard to leave. So every second chain begins with as many edges as expected.
        most, is_sparse = share.sum(1, keepdim=True), number[:, None] % 2 == 1
        if not self.is_quickly_relaxed(problem):
            most = most.clamp_max(problem.n_certain + self.n_edges(problem.n_nodes, problem.space.directed))
            is_sparse = torch.ones_like(is_sparse)
        ranks = torch.where(is_certain, torch.inf, strengths.abs()).argsort(1, descending=True).argsort(1)
        is_edge = torch.where(is_sparse, ranks < most, is_edge) | is_certain
        return is_edge, torch.where(strengths == 0, usual, strengths), theta, noise

    def _seen_strengths(self, problem: Problem, log_odds: Tensor, noise_std: float | None) -> Tensor:
        """The strengths (n,) that count as known to their law.

        Where none is known, a parameter of the filter usually multiplies all strengths, so that their unit is free.
        Where that parameter is fixed it is not, and strengths may be of any size. Then their law has seen one strength,
        of the size that explains the outputs best, and where signs are open the same with the other sign.
        """
        if len(problem.known_strengths) or not (problem.space.n_free and problem.filter.fixed_values()):
            return problem.known_strengths
        share = log_odds.sigmoid().mean(0, keepdim=True)
        low, high = torch.tensor(problem.filter.initial_range()).to(share).unbind(1)
        theta = problem.filter.constrain(0.5 * (low + high)[None])
        strengths, theta = _sized_strengths(problem, share, theta, self.slab.has_signs)
        if _is_unit_free(problem, strengths, theta):
            return problem.known_strengths
        if self.is_quickly_relaxed(problem):
            law = self.slab.first_law(self.slab.number(strengths.max(1).values), 1)
            strengths, _, _ = self._relaxed(problem, law, strengths, theta, noise_std)
        usual = _usual(strengths, share)
        return torch.cat([usual, -usual]) if self.slab.has_signs else usual

    def _better_relaxed(
        self, problem: Problem, law: StrengthLaw, strengths: Tensor, theta: Tensor, noise_std: float | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Fit strengths to all pairs; where their signs are open, from two starts, of which the better counts."""
        guessed = self._relaxed(problem, law, strengths, theta, noise_std)
        if not (self.slab.has_signs and len(problem.known_strengths)):
            return guessed
        # A guess that all strengths are alike may give theta the sign that the unknown ones ask for, and leave those
        # that are known to be noise. So let theta follow from the known ones alone, and the others from theta.
        nothing = torch.zeros_like(strengths)
        theta = fit_theta(problem, problem.assemble(nothing), theta, n_iterations=10).theta
        told = self._relaxed(problem, law, nothing, theta, noise_std)
        is_better = (told[-1] < guessed[-1])[:, None]
        strengths, theta = (torch.where(is_better, a, b) for a, b in zip(told[:2], guessed[:2], strict=True))
        return strengths, theta, torch.minimum(told[-1], guessed[-1])

    def _relaxed(
        self, problem: Problem, law: StrengthLaw, strengths: Tensor, theta: Tensor, noise_std: float | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Fit strengths to all pairs, the noise level following from the residuals."""
        noise = _residual_std(problem, strengths, theta, noise_std)
        wide = StrengthLaw(law.location - self.slab.unit(law), self.relaxed_width * self.slab.unit(law))
        z, everything = self.slab.number(strengths), torch.ones_like(strengths, dtype=torch.bool)
        for _ in range(self.n_rounds):
            objective = Objective.of(problem, self.slab, conditions_of(problem, wide, noise), everything)
            fit = fit_strengths(objective, z, theta, self.n_steps)
            z, theta = fit.mode, fit.theta
            noise = _residual_std(problem, self.slab.strength(z), theta, noise_std)
        return self.slab.strength(z), theta, noise


def _log_odds(sweep: Sweep, state: SweepState) -> Tensor:
    """Log-odds (chains, free pairs) of edges before anything but the known pairs is seen; infinite for known edges."""
    problem, like = sweep.presence, state.chain.theta
    n_certain = sweep.problem.n_certain
    if not problem.n_unknown:
        return torch.full((len(like), n_certain), torch.inf).to(like)
    half = torch.full((len(like), problem.n_unknown), 0.5).to(problem.base)
    said = PriorOdds.asked(problem, state.denoise, half, sweep.sigma, None).log_odds.to(like)
    return torch.nn.functional.pad(said, (0, n_certain), value=torch.inf)


def _residual_std(problem: Problem, strengths: Tensor, theta: Tensor, noise_std: float | None) -> Tensor:
    squares = problem.residuals(problem.assemble(strengths), theta).square().sum((-2, -1))
    floor = max(noise_std or 0.0, 1e-6 * problem.scale)
    return (squares / problem.n_measured).sqrt().nan_to_num(problem.scale).clamp(floor, max(floor, problem.scale))


# Sizes of strengths that are tried where filter and data determine them: two in each power of ten.
_LOG_SIZES, _N_SIZES = (-12.0, 12.0), 49


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


def _usual(strengths: Tensor, share: Tensor) -> Tensor:
    """The median (chains,) of as many of the largest strengths as edges are expected; one where no pair is free."""
    if not strengths.shape[1]:
        return strengths.new_ones(len(strengths))
    ranked = strengths.abs().sort(dim=1, descending=True).values
    middle = (0.5 * share.sum(1)).long().clamp(0, strengths.shape[1] - 1)
    return ranked.gather(1, middle[:, None])[:, 0]
