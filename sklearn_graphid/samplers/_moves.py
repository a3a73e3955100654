"""Moves: classes that redraw one unknown of all chains, given all others.

The chains of all samplers have one state: graphs (with strengths, where edges have them), theta, the noise level, and
what else is unknown. A move takes the state and returns another. It knows the posterior of its own unknown, and of
nothing else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ..filters import EdgeChanges
from ._kernel import ChainState, Denoiser, RandomSource, selected
from ._problem import Problem
from ._tempering import PriorOdds, of_chains
from ._working_outputs import MeasurementModel, WorkingOutputs

__all__ = ["Move", "Start", "Sweep", "SweepState"]


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
