"""Graphs out of nothing but a prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..graphs import one_entry_per_pair
from ._kernel import Denoiser

__all__ = ["sample_prior"]

# Within a level the noisy graph relaxes in about sigma^2 / step steps: ten, so forty steps are plenty.
_STEPS_PER_LEVEL = 40
_RELATIVE_STEP = 0.1


def sample_prior(
    denoise: Denoiser,
    n_graphs: int,
    n_nodes: int,
    sigmas: Sequence[float],
    generator: torch.Generator,
    device: torch.device,
    directed: bool = False,
) -> Tensor:
    """Draw graphs by annealed Langevin dynamics on the prior alone, (graphs, nodes, nodes) of zeros and ones.

    Parameters
    ----------
    denoise : callable
        E[A | A~] under the prior.
    n_graphs, n_nodes : int
        How many graphs of which size.
    sigmas : sequence of float
        Noise levels, largest first.
    generator : torch.Generator
        The randomness, on the CPU.
    device : torch.device
        Where to compute.
    directed : bool
        Whether every ordered pair stands alone.

    Returns
    -------
    Tensor
        With a zero diagonal; symmetric unless `directed`.
    """

    def normal_noise() -> Tensor:
        draws = torch.randn(n_graphs, n_nodes, n_nodes, generator=generator, dtype=torch.float32)
        return one_entry_per_pair(draws, directed).to(device)

    noisy = 0.5 + sigmas[0] * normal_noise()
    clean = denoise(noisy, sigmas[0])
    # The score draws the noisy graph to the clean one like a spring. With that held, the step is solved exactly: by
    # Euler's rule the noise would settle above sigma, the network would see more of it than it is told, and graphs too
    # dense would come out.
    kept = math.exp(-_RELATIVE_STEP)
    for sigma in sigmas:
        for _ in range(_STEPS_PER_LEVEL):
            noisy = clean + kept * (noisy - clean) + sigma * math.sqrt(1 - kept**2) * normal_noise()
            clean = denoise(noisy, sigma)
    return one_entry_per_pair((clean > 0.5).to(clean.dtype), directed)
