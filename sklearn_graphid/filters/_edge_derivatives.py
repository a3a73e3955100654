"""Derivatives of the outputs by the strengths of pairs, for very many pairs, and the products that a fit needs.

A derivative has as many numbers as the outputs. In a steady state, though, it is the product of a vector over
experiments and a vector over nodes, and products of two derivatives are products of two numbers. Under a polynomial of
order one, the outputs of the two nodes of a pair change alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

__all__ = ["DenseDerivatives", "EdgeDerivatives", "NodeDerivatives", "RankOneDerivatives"]


class EdgeDerivatives(ABC):
    """Derivatives of outputs (chains, experiments, nodes), one for each of the (chains, n) pairs."""

    @abstractmethod
    def scaled(self, factors: Tensor) -> EdgeDerivatives:
        """The same, times factors (chains, n)."""

    @abstractmethod
    def masked(self, measured: Tensor) -> EdgeDerivatives:
        """The same, times how much each output (experiments, nodes) counts: zero where it was not measured."""

    @abstractmethod
    def along(self, outputs: Tensor) -> Tensor:
        """Products (chains, n) with outputs (chains, experiments, nodes)."""

    @abstractmethod
    def along_many(self, outputs: Tensor) -> Tensor:
        """Products (chains, n, m) with m outputs (chains, m, experiments, nodes) of every chain."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Products (chains, n) of each with itself."""

    @abstractmethod
    def products(self, other: EdgeDerivatives) -> Tensor:
        """Products (chains, n, m) of all with all m of another of the same kind."""


class DenseDerivatives(EdgeDerivatives):
    """Derivatives that are kept as they are, (chains, n, experiments, nodes)."""

    def __init__(self, values: Tensor):
        self._values = values.flatten(2)

    def masked(self, measured: Tensor) -> DenseDerivatives:
        return DenseDerivatives(self._values * measured.flatten())

    def scaled(self, factors: Tensor) -> DenseDerivatives:
        return DenseDerivatives(self._values * factors[..., None])

    def along(self, outputs: Tensor) -> Tensor:
        return (self._values @ outputs.flatten(1)[..., None])[..., 0]

    def along_many(self, outputs: Tensor) -> Tensor:
        return self._values @ outputs.flatten(2).mT

    def squares(self) -> Tensor:
        return self._values.square().sum(-1)

    def products(self, other: EdgeDerivatives) -> Tensor:
        assert isinstance(other, DenseDerivatives)
        return self._values @ other._values.mT


class RankOneDerivatives(EdgeDerivatives):
    """Derivatives left right', with left (chains, n, experiments) and right (chains, n, nodes)."""

    def __init__(self, left: Tensor, right: Tensor):
        self._left = left
        self._right = right

    def masked(self, measured: Tensor) -> EdgeDerivatives:
        if (of_nodes := same_in_all_experiments(measured)) is not None:
            return RankOneDerivatives(self._left, self._right * of_nodes)
        return DenseDerivatives(self._left[..., None] * self._right[..., None, :] * measured)

    def scaled(self, factors: Tensor) -> RankOneDerivatives:
        return RankOneDerivatives(self._left * factors[..., None], self._right)

    def along(self, outputs: Tensor) -> Tensor:
        return ((self._left @ outputs) * self._right).sum(-1)

    def along_many(self, outputs: Tensor) -> Tensor:
        return torch.stack([self.along(output) for output in outputs.unbind(1)], -1)

    def squares(self) -> Tensor:
        return self._left.square().sum(-1) * self._right.square().sum(-1)

    def products(self, other: EdgeDerivatives) -> Tensor:
        assert isinstance(other, RankOneDerivatives)
        return (self._left @ other._left.mT).mul_(self._right @ other._right.mT)


class NodeDerivatives(EdgeDerivatives):
    """Derivatives that are zero but at a few nodes: values (chains, n, few, experiments) at nodes (chains, n, few)."""

    def __init__(self, values: Tensor, nodes: Tensor):
        self._values = values
        self._nodes = nodes

    def masked(self, measured: Tensor) -> NodeDerivatives:
        return NodeDerivatives(self._values * measured.mT[self._nodes], self._nodes)

    def scaled(self, factors: Tensor) -> NodeDerivatives:
        return NodeDerivatives(self._values * factors[..., None, None], self._nodes)

    def along(self, outputs: Tensor) -> Tensor:
        chains = torch.arange(len(outputs), device=outputs.device)[:, None, None]
        return (self._values * outputs.mT[chains, self._nodes]).sum((-2, -1))

    def along_many(self, outputs: Tensor) -> Tensor:
        return torch.stack([self.along(output) for output in outputs.unbind(1)], -1)

    def squares(self) -> Tensor:
        return self._values.square().sum((-2, -1))

    def products(self, other: EdgeDerivatives) -> Tensor:
        assert isinstance(other, NodeDerivatives)
        total = torch.zeros((), dtype=self._values.dtype, device=self._values.device)
        for mine in range(self._nodes.shape[2]):
            for its in range(other._nodes.shape[2]):
                product = self._values[:, :, mine] @ other._values[:, :, its].mT
                is_same = self._nodes[:, :, mine, None] == other._nodes[:, None, :, its]
                total = total + product.mul_(is_same)
        return total


def same_in_all_experiments(measured: Tensor) -> Tensor | None:
    """How much the outputs of each node (nodes,) count, where it is the same in all experiments; else None."""
    return measured[0] if bool((measured == measured[0]).all()) else None
