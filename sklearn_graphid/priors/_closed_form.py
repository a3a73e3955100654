"""Priors with exact annealed scores: every pair is an edge independently, with a given probability."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._utils._numbers import check_flag, check_number
from ..graphs._matrices import as_float_array, check_edge_probabilities
from ..graphs._nodes import Names, Nodes
from ._base import Denoiser, GraphPrior

__all__ = ["ErdosRenyiPrior", "FlatPrior", "StochasticBlockPrior", "independent_denoiser"]


# The law of an unknown density: as if so many edges and non-edges had been seen before. Chosen on development graphs
# with densities of .05 to .5, of which edges alone, non-edges alone, nothing or a random half was known; see
# benchmarks/results/first_day.md.
EDGES_BEFORE, NON_EDGES_BEFORE = 0.5, 1.5


def independent_denoiser(log_odds: Tensor) -> Denoiser:
    """The exact denoiser of independent pairs: own evidence (a~ - 1/2) / sigma^2 plus prior log-odds."""
    off_diagonal = 1 - torch.eye(len(log_odds), dtype=log_odds.dtype, device=log_odds.device)

    def denoise(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        return torch.sigmoid((adjacency - 0.5) / sigma**2 + log_odds) * off_diagonal

    return denoise


class _IndependentPairs(GraphPrior):
    """Base class of priors whose pairs are independent."""

    conditions_on_known = True
    has_independent_pairs = True
    needs_autograd = False

    def check_directed(self, directed: bool) -> None:
        """Accept both kinds of graphs: independent pairs may be ordered or not."""


class FlatPrior(_IndependentPairs):
    """A prior without information.

    On relaxed matrices its score is zero, as in the paper's baseline; on binary graphs, every pair is an edge with
    probability one half.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.priors import FlatPrior
    >>> print(FlatPrior().score_function(np.array([[0.0, 0.4], [0.4, 0.0]]), sigma=0.5).round(3))
    [[0. 0.]
     [0. 0.]]
    """

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        def denoise(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
            return adjacency if known is None else torch.full_like(adjacency, 0.5)

        return denoise


class ErdosRenyiPrior(_IndependentPairs):
    """Prior in which every pair is an edge independently, with the same probability.

    It applies to directed graphs as well, where (i, j) and (j, i) are separate pairs.

    Parameters
    ----------
    p : float or None, default=None
        Probability of an edge, strictly between 0 and 1. None: unknown. Identifiers then sample it with the rest, see
        `density_`; `denoise` and `score_function` take it to be the share of edges that the noisy graph suggests.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid import ErdosRenyiPrior
    >>> noisy = np.array([[0.0, 0.5], [0.5, 0.0]])
    >>> print(ErdosRenyiPrior(p=0.2).denoise(noisy, sigma=0.3).round(3))
    [[0.  0.2]
     [0.2 0. ]]
    """

    def __init__(self, p: float | None = None):
        self.p = p

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        if self.p is None:
            return _denoiser_of_any_density
        check_number(self.p, "ErdosRenyiPrior got p", low=0, high=1, strict=True)
        p = torch.full((n_nodes, n_nodes), self.p, dtype=dtype, device=device)
        return independent_denoiser(torch.logit(p))


def _denoiser_of_any_density(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
    """The exact denoiser of independent pairs whose density is unknown, by a sum over densities."""
    own = ((adjacency - 0.5) / sigma**2)[..., None]
    log_odds = torch.linspace(-16, 16, 129, dtype=adjacency.dtype, device=adjacency.device)
    softplus, off_diagonal = torch.nn.functional.softplus, 1 - torch.eye(adjacency.shape[-1]).to(adjacency)
    # Each pair's evidence for a density is the mean of exp(own) over edge and non-edge; both entries are one pair.
    is_mirrored = (adjacency == adjacency.mT).all(-1).all(-1)
    fits = ((softplus(own + log_odds) - softplus(log_odds)) * off_diagonal[..., None]).sum((-3, -2))
    fits = fits * torch.where(is_mirrored, 0.5, 1.0)[:, None]
    # The law of the log-odds: the Beta law's density times p (1 - p).
    law = EDGES_BEFORE * log_odds - (EDGES_BEFORE + NON_EDGES_BEFORE) * softplus(log_odds)
    weight = (fits + law).softmax(-1)[:, None, None]
    return (torch.sigmoid(own + log_odds) * weight).sum(-1) * off_diagonal


class StochasticBlockPrior(_IndependentPairs):
    """Prior in which nodes belong to groups, and the probability of an edge depends on the groups of its ends.

    Parameters
    ----------
    labels : array-like of int of shape (n_nodes,) or Series
        The group of every node, from 0 to n_groups - 1. An identifier matches a Series with the nodes by its index.
    probabilities : array-like of shape (n_groups, n_groups)
        Entry (a, b) is the probability of an edge between a node of group a and one of group b; symmetric unless
        `directed`.
    directed : bool, default=False
        Whether the prior is for directed graphs only: entry (a, b) is then the probability of an edge from group b to
        group a, as in the adjacency matrix. With False it applies to undirected and directed graphs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid import StochasticBlockPrior
    >>> prior = StochasticBlockPrior(labels=[0, 0, 1], probabilities=[[0.9, 0.1], [0.1, 0.5]])
    >>> print(prior.denoise(np.full((3, 3), 0.5), sigma=1.0).round(1))
    [[0.  0.9 0.1]
     [0.9 0.  0.1]
     [0.1 0.1 0. ]]
    """

    def __init__(self, labels: npt.ArrayLike, probabilities: npt.ArrayLike, directed: bool = False):
        self.labels = labels
        self.probabilities = probabilities
        self.directed = directed

    def check_directed(self, directed: bool) -> None:
        if check_flag(self.directed, "StochasticBlockPrior got directed") and not directed:
            raise ValueError(
                "StochasticBlockPrior got directed=True, but the graph is undirected; expected an undirected prior "
                "(directed=False), or directed=True for the graph too."
            )

    def for_nodes(self, node_names: Names | None) -> GraphPrior:
        order = Nodes.of_index(self.labels, "labels").order_in(Nodes(node_names, "X"))
        if order is None:
            return self
        return StochasticBlockPrior(_as_labels(self.labels)[order], self.probabilities, self.directed)

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        labels, probabilities = self._check(n_nodes)
        p = torch.tensor(probabilities[np.ix_(labels, labels)], dtype=dtype, device=device)
        return independent_denoiser(torch.logit(p))

    def _check(self, n_nodes: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[Any]]:
        labels = _as_labels(self.labels)
        probabilities = np.atleast_2d(as_float_array(self.probabilities, "probabilities"))
        n_groups = len(probabilities)
        # The diagonal is a probability like the others here, so it is put back after the shared check.
        diagonal = np.diagonal(probabilities)
        probabilities = check_edge_probabilities(probabilities, n_groups, "probabilities", directed=self.directed)
        np.fill_diagonal(probabilities, diagonal)
        is_inside = (probabilities > 0) & (probabilities < 1)
        if not is_inside.all():
            raise ValueError(
                f"StochasticBlockPrior got probabilities that hold {probabilities[~is_inside][0]:g}; expected numbers "
                f"strictly between 0 and 1."
            )
        if labels.shape != (n_nodes,):
            raise ValueError(
                f"labels has shape {labels.shape} but there are {n_nodes} nodes; expected one label for each node."
            )
        if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= n_groups:
            raise ValueError(
                f"labels must be integers from 0 to {n_groups - 1}, as probabilities has {n_groups} group(s)."
            )
        return labels.astype(np.intp), probabilities


def _as_labels(labels: Any) -> npt.NDArray[Any]:
    try:
        return np.asarray(labels)
    except ValueError as error:
        raise ValueError("labels does not convert to an array; expected one integer for each node.") from error
