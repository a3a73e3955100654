"""Noise for the training: which levels are shown, the draws, and the masks of pairs that carry none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..graphs import one_entry_per_pair

__all__ = ["FLOAT", "NoiseLaw", "normal_noise", "random_known", "uniform"]

# Of weights, graphs and random numbers, whatever torch's default type is.
FLOAT = torch.float32
# Below this the entropy that an annealing level leaves is not worth weighing, relative to what no measurement leaves.
_LEAST_ENTROPY = 1e-3
_GAUSS_HERMITE = np.polynomial.hermite_e.hermegauss(64)


class NoiseLaw(NamedTuple):
    """Which annealing levels are shown in training, and how much they count.

    `levels` names them one by one; None draws them between `lowest` and `highest`, uniformly in their logarithm.
    `density` is the share of edges among the pairs, for a network that is trained by cross-entropy; None: all levels
    count the same.
    """

    lowest: float
    highest: float
    levels: tuple[float, ...] | None = None
    density: float | None = None

    def draw(self, n_graphs: int, generator: torch.Generator) -> Tensor:
        """A annealing level for each graph."""
        if self.levels is not None:
            levels = torch.tensor(self.levels, dtype=FLOAT)
            return levels[torch.randint(len(self.levels), (n_graphs,), generator=generator)]
        low, high = math.log(self.lowest), math.log(self.highest)
        return torch.exp(low + (high - low) * uniform((n_graphs,), generator))

    def weight(self, sigma: Tensor) -> Tensor:
        """What the loss at these annealing levels is multiplied by.

        Little noise leaves a loss that is small however much context could still reduce it. Dividing by what remains
        without context would weigh all levels alike, and let rare errors at little noise drown the rest; its square
        root is between the two.
        """
        if self.density is None:
            return torch.ones_like(sigma)
        remaining = _entropy_without_context(sigma, self.density)
        return (remaining.clamp_min(_LEAST_ENTROPY)).rsqrt()


def _entropy_without_context(sigma: Tensor, density: float) -> Tensor:
    """Cross-entropy of the best guess that sees a pair's own noisy value alone, relative to that of no value at all."""
    normal, weights = (torch.from_numpy(values) for values in _GAUSS_HERMITE)
    share = torch.tensor([1 - density, density], dtype=torch.float64).clamp(0.01, 0.99)
    clean = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    level = sigma.double().cpu()[:, None, None]
    log_odds = (clean + level * normal - 0.5) / level**2 + torch.logit(share[1])
    losses = torch.nn.functional.softplus((1 - 2 * clean) * log_odds)
    entropy = (losses * share[:, None] * weights / weights.sum()).sum((-2, -1))
    return (entropy / -(share * share.log()).sum()).to(sigma)


def normal_noise(like: Tensor, generator: torch.Generator, directed: bool = False) -> Tensor:
    """Standard normal noise with one draw for each pair, or ordered pair, and a zero diagonal."""
    draws = torch.randn(like.shape, generator=generator, device=generator.device, dtype=FLOAT)
    return one_entry_per_pair(draws.to(like), directed)


def uniform(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    """Numbers between 0 and 1."""
    return torch.rand(shape, generator=generator, dtype=FLOAT)


def random_known(like: Tensor, generator: torch.Generator, directed: bool = False) -> Tensor:
    """A random share of the pairs of each graph, as a mask of ones and zeros."""
    share = uniform((len(like), 1, 1), generator)
    return one_entry_per_pair((uniform(like.shape, generator) < share).to(like), directed)
