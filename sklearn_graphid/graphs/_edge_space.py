"""The free entries of an adjacency matrix, and conversion between a vector of them and a matrix."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["EdgeSpace", "changed_graphs", "one_entry_per_pair"]

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class EdgeSpace:
    """The pairs of nodes whose edge is unknown, as free entries of an adjacency matrix.

    In an undirected graph a pair has two entries in the matrix, (i, j) and (j, i); in a directed graph (i, j) and
    (j, i) are separate pairs with one entry each. Only this class knows the difference. Methods take numpy arrays, or
    tensors after `to`.

    Parameters
    ----------
    n_nodes : int
        Number of nodes of the graph.
    rows, columns : ndarray or Tensor of shape (n_free,)
        Row and column of one entry of the matrix for each free pair; row < column in an undirected graph.
    directed : bool, default=False
        Whether the graph is directed, so that (i, j) and (j, i) are separate pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.graphs import EdgeSpace
    >>> space = EdgeSpace.of_mask(np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=bool))
    >>> space.n_free
    2
    >>> space.filled(np.array([5.0, 7.0]), np.zeros((3, 3)))
    array([[0., 0., 5.],
           [0., 0., 7.],
           [5., 7., 0.]])
    """

    n_nodes: int
    rows: Any
    columns: Any
    directed: bool = False

    @classmethod
    def of_mask(cls, free: BoolArray, directed: bool = False) -> EdgeSpace:
        """Make the space of the pairs at which a square boolean array is True; the diagonal is never free."""
        counted = free & ~np.eye(len(free), dtype=bool)
        rows, columns = np.nonzero(counted if directed else np.triu(counted, 1))
        return cls(len(free), rows, columns, directed)

    @classmethod
    def complete(cls, n_nodes: int, directed: bool = False) -> EdgeSpace:
        """Make the space of all pairs."""
        return cls.of_mask(np.ones((n_nodes, n_nodes), dtype=bool), directed)

    @property
    def n_free(self) -> int:
        """Number of free pairs."""
        return len(self.rows)

    @property
    def n_entries(self) -> int:
        """Number of entries of the matrix that belong to one pair."""
        return 1 if self.directed else 2

    def ends(self) -> tuple[Any, Any]:
        """Return rows and columns."""
        return self.rows, self.columns

    def sources_and_targets(self) -> tuple[Any, Any]:
        """Return the source and the target of every pair: columns and rows; rows and columns if undirected."""
        return (self.columns, self.rows) if self.directed else (self.rows, self.columns)

    def to(self, device: torch.device) -> EdgeSpace:
        """Return the same space for tensors on a device."""
        rows, columns = (torch.as_tensor(places, device=device) for places in (self.rows, self.columns))
        return replace(self, rows=rows, columns=columns)

    def select(self, chosen: Any) -> EdgeSpace:
        """Return the space of some of the pairs, given by their indices or by a mask."""
        return replace(self, rows=self.rows[chosen], columns=self.columns[chosen])

    def joined(self, other: EdgeSpace) -> EdgeSpace:
        """Return the space of these pairs followed by those of another space of the same nodes."""
        rows, columns = (np.concatenate(ends) for ends in zip(self.ends(), other.ends(), strict=True))
        return replace(self, rows=rows, columns=columns)

    def gather(self, matrices: Any) -> Any:
        """Return the free entries (..., n_free) of matrices (..., n_nodes, n_nodes)."""
        return matrices[..., self.rows, self.columns]

    def write(self, matrices: Any, values: Any) -> None:
        """Set the free entries of matrices (..., n_nodes, n_nodes) in place to values (..., n_free)."""
        matrices[..., self.rows, self.columns] = values
        if not self.directed:
            matrices[..., self.columns, self.rows] = values

    def filled(self, values: Any, onto: Any) -> Any:
        """Return copies of the matrix `onto` with values (..., n_free), or one number, in the free entries."""
        if isinstance(onto, Tensor):
            matrices: Any = onto.expand(*values.shape[:-1], *onto.shape).clone()
        else:
            matrices = np.broadcast_to(onto, (*np.shape(values)[:-1], *onto.shape)).copy()
        self.write(matrices, values)
        return matrices

    def pull_back(self, gradients: Any) -> Any:
        """Convert gradients by entries (..., n_nodes, n_nodes) to gradients by free pairs (..., n_free)."""
        one_way = self.gather(gradients)
        return one_way if self.directed else one_way + gradients[..., self.columns, self.rows]

    def entries(self, pairs: Tensor) -> tuple[Tensor, Tensor]:
        """Return rows and columns (..., n_entries) of the entries of pairs (...), which are given by their indices."""
        rows, columns = self.rows[pairs], self.columns[pairs]
        if self.directed:
            return rows[..., None], columns[..., None]
        return torch.stack([rows, columns], -1), torch.stack([columns, rows], -1)


def changed_graphs(adjacency: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor) -> Tensor:
    """Return copies (chains, changes, nodes, nodes) of graphs, with amounts (chains, changes) added to some entries."""
    graphs = adjacency[:, None].repeat(1, rows.shape[1], 1, 1)
    flat, rows, columns = graphs.view(-1, *adjacency.shape[1:]), rows.flatten(0, 1), columns.flatten(0, 1)
    copies = torch.arange(len(flat), device=flat.device)[:, None]
    flat[copies, rows, columns] += amounts.flatten()[:, None].to(flat.dtype)
    return graphs


def one_entry_per_pair(matrices: Tensor, directed: bool) -> Tensor:
    """Matrices of a graph, from any: with a zero diagonal, and the upper half mirrored unless directed."""
    if directed:
        return matrices.masked_fill(torch.eye(matrices.shape[-1], dtype=torch.bool, device=matrices.device), 0)
    upper = torch.triu(matrices, 1)
    return upper + upper.mT
