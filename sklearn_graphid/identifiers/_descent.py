"""Maximum likelihood by Adam, over the unknown pairs or their strengths and theta together."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from ..samplers import AdamState, ChainRNG, Problem, Slab, adam_step, fit_theta, initial_state
from ._estimates import FitFollower

__all__ = ["BinaryEntries", "DescentSettings", "Entries", "Optimum", "StrengthEntries", "maximise_likelihood"]

# A penalty of this size, for outputs of unit size, is all that single precision sees of the loss.
_LARGEST_PENALTY = 1e15
# Where edges have strengths, theta is fitted anew after so many steps.
_STEPS_PER_THETA = 5


class DescentSettings(NamedTuple):
    """Settings of the descent, as the constructor of the estimator has them."""

    noise_std: float
    n_iterations: int
    learning_rate: float
    l1_penalty: float


class Optimum(NamedTuple):
    """Where a descent has ended."""

    entries: Tensor  # (1, free pairs): entries of the matrix
    theta: Tensor  # (1, parameters)
    losses: list[float]


class Entries(ABC):
    """How the numbers that Adam moves become entries of the matrix."""

    has_strengths: ClassVar[bool]

    @abstractmethod
    def first(self, problem: Problem, pairs: Tensor) -> Tensor:
        """Numbers (1, free pairs) to start from, given those of the unknown pairs that binary graphs start from."""

    @abstractmethod
    def at(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Entries, and their derivatives by the numbers."""

    @abstractmethod
    def sizes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """The sizes of entries, one being that of a usual edge, and their derivatives by the entries."""

    @abstractmethod
    def allowed(self, numbers: Tensor) -> Tensor:
        """The nearest numbers that are allowed."""


class BinaryEntries(Entries):
    """All edges are alike: entries between 0 and 1."""

    has_strengths: ClassVar[bool] = False

    def first(self, problem: Problem, pairs: Tensor) -> Tensor:
        return pairs

    def at(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        return numbers, torch.ones_like(numbers)

    def sizes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        return entries, torch.ones_like(entries)

    def allowed(self, numbers: Tensor) -> Tensor:
        return numbers.clamp(0, 1)


@dataclass(frozen=True)
class StrengthEntries(Entries):
    """Entries are strengths. Adam moves their logarithms where they are positive, and else themselves over their size.

    So its learning rate has no unit, and strengths above zero that differ by factors are as easily found as equal ones.
    """

    has_strengths: ClassVar[bool] = True

    slab: Slab
    size: float  # a usual strength
    unit: float  # a change of the slab's number that is neither small nor large

    @classmethod
    def for_problem(cls, slab: Slab, problem: Problem) -> StrengthEntries:
        """In the unit of the known strengths, or that which the slab has where none is known."""
        law = slab.first_law(slab.number(problem.known_strengths), 1)
        return cls(slab, float(slab.size(law)), float(slab.unit(law)))

    def first(self, problem: Problem, pairs: Tensor) -> Tensor:
        # Known edges start from a usual strength; that none of them is negative also settles the sign that strengths
        # and theta share where no strength is known.
        known_edges = torch.ones(len(pairs), problem.n_certain, dtype=pairs.dtype, device=pairs.device)
        return self.slab.number(self.size * torch.cat([pairs, known_edges], 1)) / self.unit

    def at(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        return self.slab.strength(self.unit * numbers), self.unit * self.slab.slope(self.unit * numbers)

    def sizes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        return entries.abs() / self.size, entries.sign() / self.size

    def allowed(self, numbers: Tensor) -> Tensor:
        return numbers


def _output_unit(problem: Problem, entries: Tensor, theta: Tensor) -> float:
    """Root mean square of the outputs that were measured or of those predicted at the start, whichever is larger."""
    residuals = problem.residuals(problem.assemble(entries), theta).double()
    outputs = torch.stack([problem.targets.double(), problem.targets.double() - residuals[0]])
    unit = float((outputs.square().sum((-2, -1)) / problem.n_measured).sqrt().max())
    if not math.isfinite(unit):
        raise FloatingPointError(
            "the outputs of the filter are infinite or nan at the start of the fit; check the filter and its initial "
            "range, and rescale X and Y to values near one."
        )
    # Squares of the residuals, and of what they are divided by, are taken in single precision.
    single = torch.finfo(problem.targets.dtype)
    if unit and not 10 * single.tiny**0.5 < unit < 0.1 * (single.max / problem.n_measured) ** 0.5:
        raise FloatingPointError(
            f"the outputs have a root mean square of {unit:.3g}, whose square is beyond single precision; rescale X "
            f"and Y to values near one."
        )
    return unit or 1.0


def maximise_likelihood(
    problem: Problem, form: Entries, rng: ChainRNG, settings: DescentSettings, follower: FitFollower | None = None
) -> Optimum:
    """Adam on the free entries and theta together, from a random start.

    Where edges have strengths, theta follows by least squares instead. It carries their unit, which may be anything,
    and steps of one size would be too long for it or too short.

    A factor of the loss does not change Adam's steps, but for the constant that keeps it from dividing by zero. So the
    loss is minimised for outputs of unit size, whatever the units of the data, and told for the noise level that was
    given. The follower is told of every step, and may end it all.
    """
    noise_std, n_iterations, learning_rate, l1_penalty = settings
    pairs, theta, one = initial_state(problem, rng, 1.0)
    numbers = form.first(problem, pairs)
    entries, slopes = form.at(numbers)
    if form.has_strengths:
        theta = fit_theta(problem, problem.assemble(entries), theta).theta
    unit = _output_unit(problem, entries, theta)
    relative_noise = noise_std / unit
    penalty = min(l1_penalty * relative_noise**2, _LARGEST_PENALTY)
    constant = problem.n_measured * math.log(noise_std)
    given_noise = one.double() * noise_std
    numbers_adam, theta_adam = AdamState.zeros_like(numbers), AdamState.zeros_like(theta)
    # Known edges of unknown strength are free too, but there whatever the penalty.
    is_penalised = (torch.arange(numbers.shape[1], device=numbers.device) < problem.n_unknown).to(numbers)
    losses = []
    for step in range(1, n_iterations + 1):
        likelihood = problem.likelihood(problem.assemble(entries), theta, unit * one)
        half_squares = -float(likelihood.log_likelihood.double().sum()) - problem.n_measured * math.log(unit)
        sizes, growth = form.sizes(entries)
        losses.append(l1_penalty * float((is_penalised * sizes).sum()) + half_squares / relative_noise**2 + constant)
        gradient = slopes * (penalty * is_penalised * growth - likelihood.pair_gradient)
        numbers, numbers_adam = adam_step(numbers, gradient, numbers_adam, learning_rate)
        numbers = form.allowed(numbers)
        entries, slopes = form.at(numbers)
        if not form.has_strengths:
            theta, theta_adam = adam_step(theta, -likelihood.theta_gradient, theta_adam, learning_rate)
            theta = problem.filter.constrain(theta)
        elif step % _STEPS_PER_THETA == 0 or step == n_iterations:
            theta = fit_theta(problem, problem.assemble(entries), theta, n_iterations=1).theta
        told = form.sizes(entries)[0][:, : problem.n_unknown].clamp(max=1.0)
        strengths = entries if form.has_strengths else None
        if follower is not None and follower(told, theta, given_noise, None, strengths):
            break
    return Optimum(entries, theta, losses)
