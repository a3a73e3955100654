"""A trained network as a prior: everything except its training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._utils._numbers import FloatArray, check_integer, check_random_state
from .._utils._torch import draw_seeds, resolve_device, seeded_generator, torch_threads
from ..graphs import KnownEdges, one_entry_per_pair
from ..graphs._matrices import check_graphs
from ..nn import LOWEST_SIGMA, denoising_losses, graphs_at_once, restore_network, uses_known
from ._base import Denoiser, GraphPrior
from ._files import ANY_SIZE, Arrays
from ._trust import HIDDEN_NOISE, Calibration, deviations_in_words, surprise

__all__ = ["SAME_LEVEL", "NetworkPrior", "trained_range"]

# The network that takes any annealing level is trained beyond the schedule's ends: a sampler may start from more noise
# than the paper's, and below the lower end a pair's own value leaves nothing to learn.
_TRAINED_BEYOND = 3.0
# Published checkpoints round their annealing levels to eight digits.
SAME_LEVEL = 1e-6
_SCORE_DRAWS = 4  # of noise, for each graph and level
_SAMPLING_LEVELS = 30
_MOST_DRAWN = 10**6
# Within a level the noisy graph relaxes in about sigma^2 / step steps: ten, so forty steps are plenty.
_STEPS_PER_LEVEL = 40
_RELATIVE_STEP = 0.1
_RING = 12  # nodes of the graph on which weights from a file are tried
# Unseen graphs of a prior's own kind stay below this in all but one of a thousand cases,
_LARGEST_SURPRISE = 5.0
# and a graph may be so many times smaller or larger than those of the training.
_SIZES_APART = 2


def trained_range(sigma_max: float) -> tuple[float, float]:
    """Return the lowest and the highest annealing level at which a network for all levels is trained."""
    return min(LOWEST_SIGMA, sigma_max), _TRAINED_BEYOND * sigma_max


class NetworkPrior(TransformerMixin, GraphPrior):
    """Denoise, score and sample graphs with a network whose weights are stored as plain arrays."""

    needs_autograd = False

    device: str
    architecture_: str
    network_settings_: dict[str, Any]
    weights_: Arrays
    sigmas_: FloatArray
    size_range_: tuple[int, int]
    known_loss_: Calibration | None

    @property
    def _is_directed(self) -> bool:
        check_is_fitted(self, "weights_")
        return bool(self.network_settings_.get("directed", False))

    def check_directed(self, directed: bool) -> None:
        if directed == self._is_directed:
            return
        learned, wanted = ("undirected", "directed") if directed else ("directed", "undirected")
        raise ValueError(
            f"the prior was learned from {learned} graphs, but directed={directed}; expected a prior of {wanted} "
            f"graphs, made by GraphPriorScore(directed={directed}).fit(graphs), directed={not directed}, or no prior."
        )

    def _network(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
        check_is_fitted(self, "weights_")
        return restore_network(self.architecture_, self.network_settings_, self.weights_, device, dtype)

    @property
    def conditions_on_known(self) -> bool:
        """Whether the network was trained with known pairs, which have no noise, as an additional input."""
        check_is_fitted(self, "weights_")
        return uses_known(self.architecture_)

    @property
    def hiding_sigma(self) -> float:
        """An annealing level of the training at which the noisy value of a pair carries almost no information."""
        check_is_fitted(self, "weights_")
        return HIDDEN_NOISE * float(self.sigmas_[0])

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        network = self._network(device, dtype)
        bound = known

        def denoise(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
            levels = torch.full((len(adjacency),), sigma, dtype=dtype, device=device)
            known = bound if known is None else known
            adjacency = adjacency.to(dtype)  # a caller may have made it in torch's default type
            tensors = [adjacency, levels]
            if network.uses_known and known is not None:
                tensors.append(known.to(dtype).expand_as(adjacency))
            # A few graphs at a time stay in the processor's cache, which is twice as fast as all at once.
            parts = (tensor.split(graphs_at_once(n_nodes, network.reuses_memory)) for tensor in tensors)
            return torch.cat([network.denoise(*part) for part in zip(*parts, strict=True)])

        return denoise

    def check_sigmas(self, sigmas: Sequence[float]) -> None:
        check_is_fitted(self, "weights_")
        if self.architecture_ == "ppgn":
            return
        for sigma in sigmas:
            if np.abs(self.sigmas_ - sigma).min() > SAME_LEVEL * sigma:
                levels = ", ".join(f"{level:.4g}" for level in self.sigmas_)
                raise ValueError(
                    f"the prior was trained for the annealing levels {levels}, and {sigma:.4g} is not among them. Use "
                    f"n_levels={len(self.sigmas_)}, sigma_max={self.sigmas_[0]:.4g} and "
                    f"sigma_min={self.sigmas_[-1]:.4g}, or a prior with architecture='ppgn', which takes any level."
                )

    def nearest_sigmas(self, sigmas: Sequence[float]) -> tuple[float, ...]:
        check_is_fitted(self, "weights_")
        if self.architecture_ == "ppgn":
            return tuple(sigmas)
        nearest = np.abs(np.subtract.outer(np.asarray(sigmas), self.sigmas_)).argmin(1)
        return tuple(float(sigma) for sigma in self.sigmas_[nearest])

    def _check_answers(self) -> None:
        """Raise ValueError where the weights, which came from a file, give no number for a small graph."""
        ring = np.eye(_RING, k=1) + np.eye(_RING, k=_RING - 1)
        adjacency = ring + ring.T
        network = self._network()
        with torch.inference_mode(), torch_threads(1):
            noisy = torch.tensor(adjacency, dtype=torch.float32).expand(2, -1, -1)
            sigma = torch.tensor(self.sigmas_[[0, -1]], dtype=torch.float32)
            # Squares of the answer, which losses take, must be numbers too.
            answers = network.raw_answer(noisy, sigma), network.denoise(noisy, sigma).square()
            is_finite = all(bool(answer.isfinite().all()) for answer in answers)
            if is_finite and self.known_loss_ is not None:
                if not network.uses_known:
                    raise ValueError(f"'known_loss' is given, but {self.architecture_!r} takes no known pairs.")
                mask, sigma_max = ~np.eye(_RING, dtype=bool), float(self.sigmas_[0])
                is_finite = math.isfinite(surprise(network, adjacency, mask, sigma_max, self.known_loss_))
        if not is_finite:
            raise ValueError("its weights give no finite answer for a ring of a few nodes.")

    def _losses(self, graphs: list[FloatArray]) -> FloatArray:
        device = resolve_device(self.device)
        with torch_threads(1):
            losses = denoising_losses(
                self._network(device), graphs, [float(s) for s in self.sigmas_], _SCORE_DRAWS, 0, device
            )
        return np.asarray(losses.double().numpy())

    def transform(self, graphs: Any) -> FloatArray:
        """Compute the denoising loss of every graph at every annealing level.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            The graphs to evaluate.

        Returns
        -------
        ndarray of shape (n_graphs, n_levels)
            The losses; low for graphs that look like the training graphs. The noise depends only on the size of a
            graph: it is the same in every call and for all graphs of one size, whatever other graphs are in the list.
        """
        check_is_fitted(self, "weights_")
        return self._losses(check_graphs(graphs, directed=self._is_directed))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Get the names of the columns of `transform`.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            One name for each annealing level.
        """
        check_is_fitted(self, "weights_")
        return np.array([f"denoising_loss_{sigma:.4g}" for sigma in self.sigmas_], dtype=object)

    def score(self, graphs: Any, y: Any = None) -> float:
        """Compute how well the prior denoises these graphs.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            The graphs to evaluate.
        y : None
            Ignored.

        Returns
        -------
        float
            The negative mean denoising loss; higher is better.
        """
        return -float(self.transform(graphs).mean())

    def surprise(self, known: KnownEdges) -> float:
        """Compute the distance of a partially known graph from the training graphs, in standard deviations.

        Parameters
        ----------
        known : KnownEdges, or array-like with 0, 1, and nan where unknown
            The known part of the graph.

        Returns
        -------
        float
            Below about 3 for graphs like the training graphs; above 5 the prior may not apply. nan if it cannot be
            computed, because fewer than eight pairs are known or the network does not accept known pairs.
        """
        check_is_fitted(self, "weights_")
        if not isinstance(known, KnownEdges):
            known = KnownEdges.from_array(known, directed=self._is_directed)
        self.check_directed(known.directed)
        if self.known_loss_ is None:
            return math.nan
        with torch_threads(1):
            network = self._network(resolve_device(self.device))
            return surprise(network, known.values, known.mask, float(self.sigmas_[0]), self.known_loss_)

    def was_trained_on_size(self, n_nodes: int) -> bool:
        smallest, largest = self.size_range_
        return self.size_range_ != ANY_SIZE and smallest <= n_nodes <= largest

    def mismatch(self, known: KnownEdges, surprise: float | None = None) -> str:
        smallest, largest = self.size_range_
        if not smallest / _SIZES_APART <= known.n_nodes <= _SIZES_APART * largest:
            return f"it has {known.n_nodes} nodes, and the prior was trained on {smallest} to {largest}"
        distance = self.surprise(known) if surprise is None else surprise
        if distance > _LARGEST_SURPRISE:
            return f"its known part lies {deviations_in_words(distance)} away from the training graphs"
        return ""

    def sample(self, n_samples: int = 1, n_nodes: int | None = None, random_state: Any = None) -> list[FloatArray]:
        """Draw new graphs from the prior.

        Parameters
        ----------
        n_samples : int, default=1
            Number of graphs to draw.
        n_nodes : int or None, default=None
            Number of nodes of each graph. If None, it is drawn uniformly, for each graph, between the sizes of the
            smallest and the largest training graph.
        random_state : int, RandomState or None, default=None
            Seed of the random draws.

        Returns
        -------
        list of ndarray of shape (n_nodes, n_nodes)
            Adjacency matrices with entries 0 and 1 and a zero diagonal; symmetric unless the prior is of directed
            graphs.
        """
        check_is_fitted(self, "weights_")
        if n_nodes is None and self.size_range_ == ANY_SIZE:
            raise ValueError(
                "n_nodes=None, but the sizes of the training graphs are not on record; expected an integer."
            )
        check_integer(n_samples, "n_samples", low=1, high=_MOST_DRAWN)
        if n_nodes is not None:
            check_integer(n_nodes, "n_nodes", low=2, high=_MOST_DRAWN)
        rng = _check_random_state(random_state)
        low, high = (n_nodes, n_nodes) if n_nodes is not None else self.size_range_
        sizes = rng.randint(low, high + 1, size=n_samples)
        seed = draw_seeds(rng, 1)[0]
        device = resolve_device(self.device)
        graphs: list[FloatArray | None] = [None] * n_samples
        with torch.inference_mode(), torch_threads(1):
            for size in np.unique(sizes):
                places = np.flatnonzero(sizes == size)
                denoise = self.bind(int(size), device, torch.float32)
                generator = seeded_generator(seed + int(size))
                drawn = sample_prior(
                    denoise, len(places), int(size), self._sampling_sigmas(), generator, device, self._is_directed
                )
                for place, graph in zip(places, drawn.double().cpu().numpy(), strict=True):
                    graphs[place] = graph
        return [graph for graph in graphs if graph is not None]

    def _sampling_sigmas(self) -> list[float]:
        if self.architecture_ == "edp-gnn":
            return [float(sigma) for sigma in self.sigmas_]
        lowest, highest = trained_range(float(self.sigmas_[0]))
        return [float(sigma) for sigma in np.geomspace(highest, lowest, _SAMPLING_LEVELS)]


def _check_random_state(random_state: Any) -> np.random.RandomState:
    try:
        checked: np.random.RandomState = check_random_state(random_state)
    except ValueError as error:
        expected = "expected an integer from 0 to 2**32 - 1, a numpy RandomState or None"
        raise ValueError(f"random_state={random_state!r}; {expected}.") from error
    return checked


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
