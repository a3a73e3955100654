"""What a sampler is made of: kernels that move the chains one after the other, and the loop that runs them.

A kernel owns its state and its settings. `run_kernels` knows none of them by name, so that a new one is a
new class and nothing else; docs/contributing.md has an example.

Randomness for a batch of chains, one stream each, so that a chain's draws do not depend on the other chains.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._utils._torch import seeded_generator
from ..priors import Denoiser
from ._problem import Problem

__all__ = [
    "ChainRNG",
    "ChainState",
    "Denoiser",
    "Draw",
    "Kernel",
    "RandomSource",
    "Step",
    "StepInfo",
    "initial_state",
    "replaced",
    "run_kernels",
    "selected",
    "where",
]


class RandomSource(Protocol):
    """Where the randomness of the chains comes from."""

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, (chains, *shape)."""

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers, (chains, *shape)."""

    def gamma(self, shape_parameter: float | Tensor) -> Tensor:
        """Gamma numbers of scale one, (chains,); their shape parameter may be a number for each chain."""


class ChainState(NamedTuple):
    """What every kernel hands over to the next."""

    pairs: Tensor  # (chains, unknown pairs): 0 and 1, or real numbers on their way there
    theta: Tensor  # (chains, parameters)
    noise_std: Tensor  # (chains,)


class StepInfo(NamedTuple):
    """What a step tells about itself; never read by the next one."""

    sigma: float  # the annealing level
    edge_probability: Tensor  # (chains, unknown pairs)
    log_likelihood: Tensor  # (chains,)
    log_prior: Tensor  # (chains,) of the unknown pairs, up to a constant; zero where the kernel does not tell
    origin: Tensor | None = None  # (chains,) the chain that each goes back to, where chains may restart from others
    trust: Tensor | None = None  # (chains,) in the prior, where the kernel draws it
    density: Tensor | None = None  # (chains,) of the unknown pairs, where the kernel draws it
    offset: Tensor | None = None  # (chains, nodes) of the outputs, where the kernel draws it
    outlier_probability: Tensor | None = None  # (chains, experiments, nodes), where the kernel tells


class Draw(NamedTuple):
    """A draw from the posterior, by each chain."""

    graphs: Tensor  # (chains, unknown pairs), 0 and 1
    theta: Tensor  # (chains, parameters)
    noise_std: Tensor  # (chains,)
    log_likelihood: Tensor  # (chains,)
    log_prior: Tensor  # (chains,)
    edge_probability: Tensor  # (chains, unknown pairs)
    strengths: Tensor | None = None  # (chains, free pairs), zero where there is no edge; None where edges have none


class Kernel(ABC):
    """A way to move the chains.

    Subclasses are frozen dataclasses whose fields are their settings. The state that `init` makes and `step` returns is
    theirs; all that others read of it is its field `chain`, a `ChainState`.
    """

    step_name: ClassVar[str]  # what a step is called where progress is shown
    dtype: ClassVar[torch.dtype] = torch.float32  # the precision that it needs
    needs_autograd: ClassVar[bool] = True  # whether it may ask torch for derivatives other than through the filter
    remedy: ClassVar[str]  # what the user can change where the chains of this kernel disagree, such as "raise n_sweeps"

    @property
    @abstractmethod
    def n_steps(self) -> int:
        """How many steps it takes."""

    @property
    def n_draws(self) -> int:
        """How many of its last steps are draws from the posterior, if no other kernel follows."""
        return 1

    @abstractmethod
    def init(self, problem: Problem, denoise: Denoiser, chain: ChainState, rng: RandomSource) -> Any:
        """The state before the first step, from where the kernel before has left the chains."""

    @abstractmethod
    def step(self, problem: Problem, denoise: Denoiser, state: Any, rng: RandomSource) -> tuple[Any, StepInfo]:
        """Move the chains once."""

    def resumed(self) -> Kernel | None:
        """What goes on from draws of an earlier fit, with fewer steps; None where it would forget them.

        A kernel that does not override this takes all its steps from there.
        """
        return self

    def draw(self, problem: Problem, state: Any, info: StepInfo) -> Draw:
        """The draw that a step gives; a kernel whose pairs are not 0 and 1 has to make them so here."""
        pairs, theta, noise_std = state.chain
        return Draw(pairs, theta, noise_std, info.log_likelihood, info.log_prior, info.edge_probability)


class Step(NamedTuple):
    """A step of one of the kernels."""

    number: int  # which of the kernels
    kernel: Kernel
    state: Any
    info: StepInfo


def run_kernels(
    problem: Problem, denoise: Denoiser, kernels: Sequence[Kernel], chain: ChainState, rng: RandomSource
) -> Iterator[Step]:
    """Run the kernels one after the other and yield after every step.

    Parameters
    ----------
    problem : Problem
        Data, filter and what is known.
    denoise : callable
        E[A | A~] under the prior.
    kernels : sequence of Kernel
        What to run.
    chain : ChainState
        Where to start.
    rng : RandomSource
        The randomness.

    Yields
    ------
    Step
        After each step.
    """
    for number, kernel in enumerate(kernels):
        state = kernel.init(problem, denoise, chain, rng)
        for _ in range(kernel.n_steps):
            state, info = kernel.step(problem, denoise, state, rng)
            yield Step(number, kernel, state, info)
        chain = state.chain


def initial_state(problem: Problem, rng: RandomSource, noise_std: float | None) -> ChainState:
    """Start at random, as the published runs do.

    Their matrix of normal draws (mean 0.5, standard deviation 0.1) is halved when it is made symmetric, so that the
    pairs start around 0.25; theta starts at a draw from the range that the filter names.
    """
    pairs = 0.5 * (0.5 + 0.1 * rng.normal(problem.n_unknown))
    low, high = torch.tensor(problem.filter.initial_range(), dtype=pairs.dtype, device=pairs.device).unbind(1)
    theta = low + (high - low) * rng.uniform(len(low))
    start = torch.full_like(theta[:, 0], problem.scale if noise_std is None else noise_std)
    return ChainState(pairs, theta, start)


# Tensors, and named tuples of tensors, whose first axis is that of the chains.

Nested = TypeVar("Nested")  # a tensor, or a named tuple of such


def where(is_first: Tensor, first: Nested, second: Nested) -> Nested:
    """One of two, for each chain."""

    def choose(one: Any, other: Any) -> Any:
        if isinstance(one, Tensor):
            return torch.where(is_first.view(-1, *[1] * (one.dim() - 1)), one, other)
        return type(one)(*map(choose, one, other))

    chosen: Nested = choose(first, second)
    return chosen


def selected(parts: Nested, chains: Tensor) -> Nested:
    """Some of the chains."""

    def select(part: Any) -> Any:
        return part[chains] if isinstance(part, Tensor) else type(part)(*map(select, part))

    chosen: Nested = select(parts)
    return chosen


def replaced(parts: Nested, chains: Tensor, new: Nested) -> Nested:
    """The same, with new values for some of the chains."""

    def replace(part: Any, other: Any) -> Any:
        if isinstance(part, Tensor):
            return part.index_copy(0, chains, other)
        return type(part)(*map(replace, part, other))

    changed: Nested = replace(parts, new)
    return changed


class ChainRNG:
    """Independent random streams, one for each chain.

    Parameters
    ----------
    seeds : sequence of int
        One for each chain.
    device : torch.device
        Where the numbers are wanted. They are drawn on the CPU, so that a GPU gives the same run.
    dtype : torch.dtype
        Their type.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device, dtype: torch.dtype = torch.float32):
        self._generators = [seeded_generator(seed) for seed in seeds]
        self._gammas = [np.random.default_rng(seed) for seed in seeds]
        self._device = device
        self._dtype = dtype

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, (chains, *shape)."""
        draws = torch.empty((len(self._generators), *shape), dtype=self._dtype)
        for row, generator in zip(draws, self._generators, strict=True):
            row.normal_(generator=generator)
        return draws.to(self._device)

    def uniform(self, *shape: int) -> Tensor:
        """Uniform numbers between 0 and 1, (chains, *shape)."""
        draws = torch.empty((len(self._generators), *shape), dtype=self._dtype)
        for row, generator in zip(draws.unsqueeze(-1), self._generators, strict=True):
            row.uniform_(generator=generator)
        return draws.to(self._device)

    def gamma(self, shape_parameter: float | Tensor) -> Tensor:
        """Gamma numbers of scale one, (chains,); their shape parameter may be a number for each chain."""
        shapes = torch.as_tensor(shape_parameter, dtype=torch.float64).expand(len(self._gammas)).tolist()
        draws = [generator.standard_gamma(shape) for generator, shape in zip(self._gammas, shapes, strict=True)]
        return torch.tensor(draws, dtype=self._dtype, device=self._device)
