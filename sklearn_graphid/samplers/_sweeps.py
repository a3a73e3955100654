"""Sweeps: a list of moves, each of which redraws one unknown given all others.

A sweep makes one move after the other, so that a new unknown is a new move in the list. Binary graphs and graphs with
strengths differ in the list alone: see `_recipes`.

In the warm-up, the first part of the sweeps, moves may do what leads to good graphs quickly; from then on every move
leaves the posterior as it is. At the end of a sweep of the warm-up, chains that have fallen far behind go on from where
a better one is.

The chains of all samplers have one state: graphs (with strengths, where edges have them), theta, the noise level, and
what else is unknown. A move takes the state and returns another. It knows the posterior of its own unknown, and of
nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor

from ..filters import EdgeChanges
from ._kernel import ChainState, Denoiser, Draw, Kernel, RandomSource, StepInfo, selected, where
from ._problem import Problem
from ._tempering import PriorOdds, of_chains
from ._working_outputs import MeasurementModel, WorkingOutputs

__all__ = ["Move", "Start", "Sweep", "SweepKernel", "SweepState"]


@dataclass(frozen=True)
class SweepKernel(Kernel):
    """Make sweeps, and let chains that fall far behind in the warm-up go on from better ones.

    Parameters
    ----------
    n_sweeps : int
        How many.
    moves : tuple of Move
        What a sweep consists of.
    begin : Start
        Where the chains begin.
    sigma : float
        Standard deviation of the noise on the copies that the prior is asked about.
    temperature : float
        Draws come from the posterior to the power 1 / temperature.
    noise_std : float or None
        The measurement noise. None draws it too.
    measurements : MeasurementModel
        Whether outputs have offsets and outliers, which are then drawn too.
    has_strengths : bool
        Whether edges have strengths, and are not all alike.
    kept_share : float
        The share of the sweeps, the last ones, that counts as draws from the posterior.
    resumed_share, resumed_kept_share : float
        Chains that start from draws of an earlier fit take this share of the sweeps, and keep this share of them.
    largest_deficit : float
        In the warm-up, a chain whose posterior is lower than the best chain's by this much, in logarithms, starts anew
        from one that is not: it is in another mode, of odds too small to matter.
    sweeps_between_restarts : int
        How often that is looked at.
    n_backwards : int
        Where inputs are a simpler function of outputs than outputs of inputs, every second chain begins where so many
        sweeps lead that take the outputs for exact: an inverse has poles, past which nothing local leads.
    """

    step_name: ClassVar[str] = "sweep"
    needs_autograd: ClassVar[bool] = False

    n_sweeps: int
    moves: tuple[Move, ...]
    begin: Start
    sigma: float
    temperature: float = 1.0
    noise_std: float | None = None
    measurements: MeasurementModel = field(default_factory=MeasurementModel)
    has_strengths: bool = False
    kept_share: float = 0.5
    resumed_share: float = 0.4
    resumed_kept_share: float = 0.75
    largest_deficit: float = 30.0
    sweeps_between_restarts: int = 2
    n_backwards: int = 8

    @property
    def remedy(self) -> str:  # type: ignore[override]
        """Advice to the user where chains disagree."""
        return "raise n_sweeps" if self.has_strengths else "raise n_chains"

    @property
    def dtype(self) -> torch.dtype:  # type: ignore[override]
        """Strengths are fitted by derivatives that are differences, which need double precision."""
        return torch.float64 if self.has_strengths else torch.float32

    @property
    def n_steps(self) -> int:
        return self.n_sweeps

    @property
    def n_draws(self) -> int:
        return max(1, round(self.kept_share * self.n_sweeps))

    def resumed(self) -> SweepKernel:
        n_sweeps = max(1, round(self.resumed_share * self.n_sweeps))
        kept_share = self.resumed_kept_share
        return replace(self, n_sweeps=n_sweeps, begin=self.begin.resumed(), kept_share=kept_share, n_backwards=0)

    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> SweepState:
        sweep, nothing = self._sweep(problem, 0), torch.zeros_like(chain.pairs)
        prior = PriorOdds(nothing[:, : problem.n_unknown], nothing[:, : problem.n_unknown])
        outputs, origin = self.measurements.start(problem, len(nothing)), torch.arange(len(nothing))
        state = SweepState(chain, denoise, prior, nothing, outputs, origin.to(nothing.device), 0)
        if not self.measurements.is_trivial:
            state = state._replace(targets=outputs.targets)
        state = self.begin(sweep, state, rng)
        if self.n_backwards and self.measurements.is_trivial and (backwards := _backwards(problem)) is not None:
            state = self._begun_backwards(sweep, state, backwards, rng)
        for move in self.moves:
            state = move.start(sweep, state, rng)
        return state._replace(told={})

    def step(
        self, problem: Problem, denoise: Denoiser, state: SweepState, rng: RandomSource
    ) -> tuple[SweepState, StepInfo]:
        sweep = self._sweep(problem, state.n_sweeps)
        if self.noise_std is not None and not sweep.is_warmup:  # moves may draw it in the warm-up
            noise_std = torch.full_like(state.chain.noise_std, self.noise_std)
            state = state._replace(chain=state.chain._replace(noise_std=noise_std))
        for move in self.moves:
            state = move(sweep, state, rng)
        info = self._info(sweep, state)
        log_posterior = state.told.get("log_posterior", (info.log_likelihood + info.log_prior) / self.temperature)
        state = state._replace(n_sweeps=state.n_sweeps + 1, told={}, changes=None)
        if sweep.is_warmup and state.n_sweeps % self.sweeps_between_restarts == 0:
            state = self._restarted(state, log_posterior, rng.uniform())
        return state, info

    def draw(self, problem: Problem, state: SweepState, info: StepInfo) -> Draw:
        draw = super().draw(problem, state, info)
        if not self.has_strengths:
            return draw
        is_edge = (draw.graphs[:, : problem.n_unknown] != 0).to(draw.graphs)
        return draw._replace(graphs=is_edge, strengths=draw.graphs)

    def _begun_backwards(self, sweep: Sweep, state: SweepState, backwards: Problem, rng: RandomSource) -> SweepState:
        """Let every second chain begin from graphs that turn outputs into inputs."""
        kernel, problem = replace(self, n_sweeps=self.n_backwards, noise_std=None), sweep.problem
        low, high = torch.tensor(backwards.filter.initial_range()).to(state.chain.theta).unbind(1)
        theta = low + (high - low) * rng.uniform(len(low))
        noise_std = torch.full_like(theta[:, 0], backwards.scale)
        inner = kernel.init(backwards, state.denoise, ChainState(state.chain.pairs, theta, noise_std), rng)
        for _ in range(self.n_backwards):
            inner, _ = kernel.step(backwards, state.denoise, inner, rng)
        pairs, theta = inner.chain.pairs, problem.filter.theta_of_backwards(inner.chain.theta)
        squares = problem.residuals(problem.assemble(pairs), theta).square().sum((-2, -1))
        noise_std = (squares / problem.n_measured).sqrt().clamp_max(problem.scale)
        if self.noise_std is not None:
            noise_std = noise_std.clamp_min(self.noise_std)
        found = ChainState(pairs, theta, noise_std)
        is_found = torch.isfinite(theta).all(1) & (noise_std > 0)
        is_found &= torch.arange(len(theta), device=theta.device) % 2 == 1
        return state.at(where(is_found, found, state.chain))

    def _sweep(self, problem: Problem, number: int) -> Sweep:
        is_warmup = number < self.n_sweeps - self.n_draws
        settings = self.sigma, self.temperature, self.noise_std, self.measurements
        return Sweep(problem, problem.of_presence(), number, is_warmup, *settings)

    def _info(self, sweep: Sweep, state: SweepState) -> StepInfo:
        (pairs, theta, noise_std), told = state.chain, dict(state.told)
        told.pop("log_posterior", None)
        at = sweep.problem.assemble(pairs), theta, noise_std
        if self.measurements.has_outliers:
            log_likelihood = self.measurements.log_likelihood(sweep.problem, state.outputs, *at)
        else:
            log_likelihood = sweep.problem_of(state).log_likelihood(*at)
        estimates = told.pop("edge_probability", ((pairs[:, : sweep.problem.n_unknown] != 0).to(pairs),))
        told = {"log_prior": torch.zeros_like(log_likelihood), **told}
        return StepInfo(
            sigma=self.sigma,
            edge_probability=sum(estimates) / len(estimates),
            log_likelihood=log_likelihood,
            origin=state.origin,
            offset=state.outputs.offset,
            outlier_probability=state.outputs.outlier_probability,
            **told,
        )

    def _restarted(self, state: SweepState, log_posterior: Tensor, uniform: Tensor) -> SweepState:
        """Let chains that fall far behind go on from where another is, picked at random among those that do not."""
        is_finite = torch.isfinite(log_posterior)
        if not bool(is_finite.any()):
            return state
        best = log_posterior[is_finite].max()
        # A chain that has diverged is left alone, to be dropped and counted: the filter is to blame, not its start.
        is_behind = is_finite & (log_posterior < best - self.largest_deficit)
        ahead = (is_finite & ~is_behind).nonzero()[:, 0]
        other = ahead[(uniform * len(ahead)).long().clamp_max(len(ahead) - 1)]
        return state.of_chains(torch.where(is_behind, other, torch.arange(len(other), device=other.device)))


def _backwards(problem: Problem) -> Problem | None:
    """The problem with inputs and outputs exchanged, where that is simpler and all outputs were measured."""
    filter = problem.filter.backwards()
    if filter is None or problem.targets.dim() > 2 or not problem.is_complete:
        return None
    power = float(problem.inputs.square().mean())
    return replace(problem, filter=filter, inputs=problem.targets, targets=problem.inputs, output_power=power)


class Sweep(NamedTuple):
    """Problem and settings that all moves of a sweep share."""

    problem: Problem  # with the outputs as they were measured
    presence: Problem  # as priors see it: the unknown pairs alone, edges that are there or not
    number: int  # of the sweep, from zero
    is_warmup: bool
    sigma: float  # standard deviation of the noise on the copies that the prior is asked about
    temperature: float  # draws come from the posterior to the power 1 / temperature
    noise_std: float | None  # the noise level where it is given
    measurements: MeasurementModel

    def problem_of(self, state: SweepState) -> Problem:
        """The problem with what each chain takes for the filter's outputs, such as without its offsets and outliers."""
        return self.problem if state.targets is None else replace(self.problem, targets=state.targets)


class SweepState(NamedTuple):
    """All that the next move needs; tensors have a leading axis for the chains."""

    chain: ChainState
    denoise: Denoiser  # with the trust and the density that every chain has now
    prior: PriorOdds  # what the prior said when it was last asked
    flip_gain: Tensor  # (chains, free pairs) what a flip would add to the log-likelihood, when it was last looked at
    outputs: WorkingOutputs  # offsets and outliers
    origin: Tensor  # (chains,) the chain that each goes back to
    n_sweeps: int
    # What moves need from one sweep to the next, by name: tensors, or named tuples of such, with an axis for chains;
    kept: Mapping[str, Any] = {}
    # and what is the same for all chains and sweeps.
    fixed: Mapping[str, Any] = {}
    # What each chain takes for the filter's outputs, (chains, experiments, nodes); None: the outputs as measured.
    targets: Tensor | None = None
    # Effects of flips, valid for the graphs, theta and outputs of this state: None where they have to be made anew.
    changes: EdgeChanges | None = None
    told: Mapping[str, Any] = {}  # by the moves of this sweep, for `StepInfo`

    def at(self, chain: ChainState) -> SweepState:
        """Return the state with the chains elsewhere, for which the effects of flips are made anew."""
        return self._replace(chain=chain, changes=None)

    def keeping(self, name: str, value: Any) -> SweepState:
        """Return the state with what a move wants to find again in the next sweep."""
        return self._replace(kept={**self.kept, name: value})

    def fixing(self, name: str, value: Any) -> SweepState:
        """Return the state with what a move has prepared once for all chains and sweeps."""
        return self._replace(fixed={**self.fixed, name: value})

    def telling(self, **told: Any) -> SweepState:
        """Return the state with what is to be told of this step."""
        return self._replace(told={**self.told, **told})

    def telling_probability(self, probability: Tensor) -> SweepState:
        """Return the state with one more estimate (chains, unknown pairs) of edge probabilities; their mean counts."""
        return self.telling(edge_probability=(*self.told.get("edge_probability", ()), probability))

    def of_chains(self, chains: Tensor) -> SweepState:
        """Return the state with some of the chains, given by their numbers, in place of all."""
        return self._replace(
            chain=selected(self.chain, chains),
            denoise=of_chains(self.denoise, chains),
            prior=selected(self.prior, chains),
            flip_gain=self.flip_gain[chains],
            outputs=selected(self.outputs, chains),
            origin=self.origin[chains],
            kept={name: selected(value, chains) for name, value in self.kept.items()},
            targets=None if self.targets is None else self.targets[chains],
            changes=None,
        )


class Move(ABC):
    """Redraws one unknown given all others. Subclasses are frozen dataclasses whose fields are their settings."""

    def start(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        """Make ready for the first sweep, after the moves before this one in the list."""
        return state

    @abstractmethod
    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        """Redraw the unknown in all chains."""


class Start(Protocol):
    """Decides on which graphs, and with which theta and noise level, the chains begin."""

    def __call__(self, sweep: Sweep, state: SweepState, rng: RandomSource) -> SweepState:
        """Begin from where the kernel before has left the chains."""

    def resumed(self) -> Start:
        """Return how chains begin that come from an earlier fit."""
