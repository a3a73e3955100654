"""Randomness for a batch of chains, one stream each, so that a chain's draws do not depend on the other chains."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .._utils._torch import seeded_generator

__all__ = ["ChainRNG"]


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
