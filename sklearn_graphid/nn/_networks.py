"""The score networks behind one face: build, restore, denoise, and the loss they are trained by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ._edp_gnn import EDPGNN
from ._ppgn import PPGN
from ._settings import check_settings

__all__ = [
    "ARCHITECTURES",
    "DenoisingNetwork",
    "EDPGNNDenoiser",
    "build_network",
    "graphs_at_once",
    "restore_network",
    "uses_known",
]


class DenoisingNetwork(Protocol):
    """What the training loop and the priors ask of a network (which is also an `nn.Module`)."""

    settings: dict[str, Any]
    uses_known: bool  # whether it can be told which pairs carry no noise
    independent: bool  # whether graphs of a batch do not influence one another in training
    continuous: bool  # whether it takes any annealing level, or only those it was built for
    directed: bool  # whether its graphs are directed
    reuses_memory: bool  # whether large batches cost it no new memory for every layer, when it is not being trained

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise every weight from the generator."""

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """E[clean | noisy] for (graphs, nodes, nodes) and (graphs,)."""

    def raw_answer(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """What the weights give, before anything that keeps answers within bounds."""

    def loss(self, clean: Tensor, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """What training minimises, for each graph."""


class EDPGNNDenoiser(nn.Module):
    """The paper's network as a denoiser: its score s gives E[a | a~] = a~ + sigma^2 s (Tweedie).

    Parameters
    ----------
    sigmas : sequence of float
        The annealing levels, largest first; each has its own gains and biases in the network.
    **settings
        Sizes, as `EDPGNN` takes them.
    """

    uses_known = False
    independent = False  # because of batch normalisation
    continuous = False
    directed = False
    reuses_memory = False

    def __init__(self, sigmas: Sequence[float], **settings: Any):
        super().__init__()
        self.settings = {"sigmas": [float(sigma) for sigma in sigmas], **settings}
        self.network = EDPGNN(n_levels=len(sigmas), **settings)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise every weight from the generator."""
        self.network.reset_parameters(generator)

    def score(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The network's own output, s(A~, sigma), at the nearest of its annealing levels."""
        level = self._nearest_level(sigma)
        one_level: int | Tensor = int(level[0]) if bool((level == level[0]).all()) else level
        score: Tensor = self.network(noisy, one_level)
        return score

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """E[a | a~], not confined to [0, 1], as the network does not know that graphs are binary."""
        # At a level between its own, the network takes the noise for that of the nearest.
        nearest = self._levels(sigma)[self._nearest_level(sigma)]
        return noisy + nearest[:, None, None] ** 2 * self.score(noisy, sigma)

    def raw_answer(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The same as `denoise`."""
        return self.denoise(noisy, sigma)

    def _levels(self, like: Tensor) -> Tensor:
        return torch.tensor(self.settings["sigmas"], dtype=like.dtype, device=like.device)

    def _nearest_level(self, sigma: Tensor) -> Tensor:
        return (sigma[:, None] - self._levels(sigma)).abs().argmin(1)

    def loss(self, clean: Tensor, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """Half of sigma^2 times equation 12 for each graph, so that its mean over levels is equation 11.

        The paper sums over the pairs of a graph; here it is their mean, so that larger graphs do not weigh more.
        """
        scale = sigma[:, None, None]
        difference = scale * self.score(noisy, sigma) - (clean - noisy) / scale
        n_nodes = clean.shape[-1]
        return 0.5 * difference.square().sum((-2, -1)) / (n_nodes * (n_nodes - 1))


_NETWORKS: dict[str, Any] = {"ppgn": PPGN, "edp-gnn": EDPGNNDenoiser}
ARCHITECTURES = tuple(_NETWORKS)

# Under a megabyte for twelve features of every pair: much larger batches fall out of the processor's cache.
_PAIRS_AT_ONCE = 16_400
_PAIRS_AT_ONCE_WHERE_MEMORY_IS_REUSED = 40_000


def graphs_at_once(n_nodes: int, reuses_memory: bool = False) -> int:
    """How many graphs of a size make the fastest batch, per graph."""
    return max(1, (_PAIRS_AT_ONCE_WHERE_MEMORY_IS_REUSED if reuses_memory else _PAIRS_AT_ONCE) // n_nodes**2)


def uses_known(architecture: str) -> bool:
    """Whether a network can be told which pairs carry no noise."""
    return bool(_NETWORKS[architecture].uses_known)


def build_network(architecture: str, settings: Mapping[str, Any], seed: int) -> nn.Module:
    """Make a network with weights drawn from a seed, without touching the global random numbers."""
    network = _on_meta_device(architecture, settings).to_empty(device="cpu")
    network.reset_parameters(torch.Generator().manual_seed(seed))  # type: ignore[operator]
    return network


def restore_network(
    architecture: str,
    settings: Mapping[str, Any],
    weights: Mapping[str, npt.NDArray[Any]],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> nn.Module:
    """Rebuild a trained network from plain arrays, ready for use."""
    check_settings(architecture, settings, len(weights))
    network = _on_meta_device(architecture, settings)
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in {**expected, **weights}:
        here = weights[name].shape if name in weights else "missing"
        if here != expected.get(name, "missing"):
            raise ValueError(
                f"the weights do not fit the architecture {architecture!r}: the shape of {name!r} is {here}, expected "
                f"{expected.get(name, 'missing')}."
            )
    # Copies, as a network must not share memory with what it was made from, and arrays may be read-only.
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()}, assign=True)
    return network.to(device=device, dtype=dtype).eval().requires_grad_(False)


def _on_meta_device(architecture: str, settings: Mapping[str, Any]) -> nn.Module:
    """A network that knows its shapes but has no memory yet, nor drawn a random number."""
    with torch.device("meta"):
        network: nn.Module = _NETWORKS[architecture](**settings)
    return network.float()  # whatever torch's default type is
