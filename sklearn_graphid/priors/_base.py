"""The interface of a prior: it estimates the clean graph from a noisy one, at any annealing level."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from .._utils._numbers import SQUARED_IN_SINGLE, FloatArray, check_number
from .._utils._torch import resolve_device
from ..graphs import KnownEdges, one_entry_per_pair
from ..graphs._matrices import as_float_array
from ..graphs._nodes import Names

__all__ = ["Denoiser", "GraphPrior"]


class Denoiser(Protocol):
    """E[clean adjacency | noisy one] under a prior, for many chains."""

    def __call__(self, adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        """Clean matrices; pairs where `known` is 1 (None: those of the mask that was bound) are free of noise."""


class GraphPrior(BaseEstimator, ABC):
    """Base class for all priors.

    A prior is used through its denoiser, E[A | A~]. The score function of the annealed prior follows by Tweedie's
    formula, (E[A | A~] - A~) / sigma^2. A subclass defines `bind`, and overrides what else is true of it.
    """

    # Whether the denoiser may ask torch for derivatives.
    needs_autograd: bool = True
    # Whether pairs are independent, so that all can be redrawn at once.
    has_independent_pairs: bool = False

    @property
    def conditions_on_known(self) -> bool:
        """Whether the denoiser accepts known pairs, which have no noise. Also True if pairs are independent."""
        return False

    @property
    def hiding_sigma(self) -> float:
        """The annealing level at which to ask about pairs without any observation, whose value is set to one half.

        An exact denoiser answers alike at every level; a learned one returns a level of its training.
        """
        return 1.0

    def check_directed(self, directed: bool) -> None:
        """Raise ValueError if the prior does not apply to directed (or to undirected) graphs.

        A prior for directed graphs overrides this. Its denoiser then gets matrices that are not symmetric.
        """
        if directed:
            raise ValueError(
                f"{type(self).__name__} is a prior of undirected graphs, but directed=True; expected one of directed "
                f"graphs, such as GraphPriorScore(directed=True), ErdosRenyiPrior or StochasticBlockPrior, or None."
            )

    @abstractmethod
    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        """Make the denoiser for graphs of `n_nodes` nodes, after checking the arguments of the prior."""

    @property
    def _is_directed(self) -> bool:
        """Whether the prior is about directed graphs if the caller does not say."""
        return bool(getattr(self, "directed", False))

    def nearest_sigmas(self, sigmas: Sequence[float]) -> tuple[float, ...]:
        """Return the supported annealing levels nearest to these; most priors support all levels."""
        return tuple(sigmas)

    def mismatch(self, known: KnownEdges, surprise: float | None = None) -> str:
        """Return why the prior may not apply to a graph, as "it ..." or "its ..."; "" if no reason is known."""
        return ""  # most priors cannot tell; `surprise` is that of a learned prior, if it was computed before

    def for_nodes(self, node_names: Names | None) -> GraphPrior:
        """Return the prior for nodes in this order; priors that treat all nodes alike return themselves."""
        return self

    def was_trained_on_size(self, n_nodes: int) -> bool:
        """Whether the prior was trained on graphs of this size; False for priors that are not trained."""
        return False

    def denoise(self, adjacency: npt.ArrayLike, sigma: float, directed: bool | None = None) -> FloatArray:
        """Compute the expected clean graph given a noisy one.

        Parameters
        ----------
        adjacency : array-like of shape (n_nodes, n_nodes) or (n_graphs, n_nodes, n_nodes)
            Matrices with Gaussian noise of standard deviation `sigma` on every pair; symmetric unless `directed`.
        sigma : float
            The annealing level.
        directed : bool or None, default=None
            Whether the graphs are directed. If None, as in the prior's own parameter `directed`; False if it has none.

        Returns
        -------
        ndarray of the same shape
            Probabilities of the edges, with a zero diagonal.
        """
        if directed is None:
            directed = self._is_directed
        self.check_directed(directed)
        batch = _check_noisy(adjacency, directed)
        low, high = SQUARED_IN_SINGLE
        sigma = check_number(sigma, "sigma", low=low, high=high)
        (nearest,) = self.nearest_sigmas([sigma])
        if abs(nearest - sigma) > 1e-6 * sigma:  # published checkpoints round their levels to eight digits
            raise ValueError(
                f"sigma={sigma:.4g} is not an annealing level of the prior; the nearest one is {nearest:.4g}. A prior "
                f"with architecture='ppgn' takes any level."
            )
        device = resolve_device(getattr(self, "device", "cpu"))
        with torch.inference_mode():
            noisy = torch.tensor(batch, dtype=torch.float32, device=device).reshape(-1, *batch.shape[-2:])
            clean = self.bind(batch.shape[-1], device, torch.float32)(noisy, sigma)
            # Vectorised and scalar code of torch's sigmoid differ in the last bit, so that one half is mirrored.
            clean = one_entry_per_pair(clean, directed)
        return np.asarray(clean.double().cpu().numpy()).reshape(batch.shape)

    def score_function(self, adjacency: npt.ArrayLike, sigma: float, directed: bool | None = None) -> FloatArray:
        """Compute the gradient of the log-density of noisy graphs, s(A~, sigma) in the paper.

        Parameters
        ----------
        adjacency : array-like of shape (n_nodes, n_nodes) or (n_graphs, n_nodes, n_nodes)
            Noisy matrices; symmetric unless `directed`.
        sigma : float
            The annealing level.
        directed : bool or None, default=None
            As in `denoise`.

        Returns
        -------
        ndarray of the same shape
            The gradient with respect to every pair, with a zero diagonal.
        """
        noisy = as_float_array(adjacency, "adjacency")
        score: FloatArray = (self.denoise(noisy, sigma, directed) - noisy) / float(sigma) ** 2
        diagonal = np.arange(noisy.shape[-1])
        score[..., diagonal, diagonal] = 0.0
        return score


def _check_noisy(adjacency: Any, directed: bool) -> FloatArray:
    array = as_float_array(adjacency, "adjacency")
    if array.ndim not in (2, 3) or array.shape[-1] != array.shape[-2]:
        raise ValueError(
            f"adjacency has shape {array.shape}; expected (n_nodes, n_nodes) or (n_graphs, n_nodes, n_nodes)."
        )
    if not np.isfinite(array).all():
        raise ValueError("adjacency holds nan or infinity; expected finite numbers.")
    if not directed and not np.array_equal(array, np.swapaxes(array, -1, -2)):
        raise ValueError("adjacency is not symmetric; expected the same noise on both entries of a pair.")
    # A node is not joined to itself, and what stands there must not reach a network.
    return np.asarray(array * (1 - np.eye(array.shape[-1])))
