"""How changing one pair changes the fit, for very many pairs.

For every pair, a sampler asks how well the data would fit if its edge were added or removed. Each filter answers from
tables that it keeps up to date: an answer then takes a few numbers of the two nodes, instead of filtering all signals
again.

Where edges have strengths, derivatives of the outputs are wanted too. A derivative has as many numbers as the outputs.
In a steady state, though, it is the product of a vector over experiments and a vector over nodes, and products of two
derivatives are products of two numbers. Under a polynomial of order one, the outputs of the two nodes of a pair change
alone.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Self

import torch
from torch import Tensor

from ..graphs import changed_graphs

if TYPE_CHECKING:
    from ._base import GraphFilter

__all__ = [
    "DenseDerivatives",
    "EdgeChanges",
    "EdgeDerivatives",
    "Moments",
    "NodeDerivatives",
    "RankOneDerivatives",
    "RecomputedChanges",
    "nodes_of",
]


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


class Moments(NamedTuple):
    """Sufficient statistics of a linear regression of the outputs, in double precision.

    If the filter is not linear in theta, there are no regressors, and `squares` is the sum of squared residuals at the
    given theta.
    """

    squares: Tensor  # (...) sum of squares of the targets (or of the residuals)
    cross: Tensor  # (..., parameters) regressors times targets
    gram: Tensor  # (..., parameters, parameters) regressors times regressors

    @classmethod
    def of_residuals(cls, squares: Tensor) -> Moments:
        """Make moments without regressors."""
        return cls(squares, squares.new_zeros(*squares.shape, 0), squares.new_zeros(*squares.shape, 0, 0))


class EdgeChanges(ABC):
    """Graphs (chains, nodes, nodes), one for each chain, and the effect of changing one of their pairs.

    A pair is given by its entries of the matrix, `rows` and `columns` (chains, changes, entries), as
    `EdgeSpace.entries` returns them; `amounts` (chains, changes) are added to these entries.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import PolynomialFilter
    >>> no_edge, one = torch.zeros(1, 2, 2), torch.ones(1, 1)
    >>> signals, targets = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 3.0]])
    >>> changes = PolynomialFilter(order=1).edge_changes(no_edge, torch.zeros(1, 2), signals, targets)
    >>> rows, columns = torch.tensor([[[0, 1]]]), torch.tensor([[[1, 0]]])
    >>> changes.moments_after(rows, columns, one).cross
    tensor([[[0., 3.]]], dtype=torch.float64)
    """

    moments: Moments  # (chains, ...) of the graphs as they are
    n_numbers: int  # that the answer for one change takes: how many are asked for at once depends on it

    @abstractmethod
    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        """Return the moments (chains, changes, ...) of graphs with one change each."""

    @abstractmethod
    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        """Return the changes of the outputs, (chains, changes, experiments, nodes), at theta (chains, parameters)."""

    def derivatives(self, rows: Tensor, columns: Tensor, theta: Tensor, probe: Tensor) -> EdgeDerivatives:
        """Differentiate the outputs with respect to pairs, by differences over a change of `probe` (chains,)."""
        amounts = probe[:, None].expand(rows.shape[:2])
        return DenseDerivatives(self.output_changes(rows, columns, amounts, theta) / amounts[..., None, None])

    @abstractmethod
    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        """Change one pair of every chain, and update the tables.

        Parameters
        ----------
        rows, columns : Tensor (chains, entries)
            The pair.
        amounts : Tensor (chains,)
            The amounts added; zero leaves a chain unchanged.
        moments : Moments (chains, ...)
            The result of `moments_after` for these changes.
        """

    def change(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> None:
        """Change one pair of every chain as `make` does, computing the moments first."""
        moments = self.moments_after(rows[:, None], columns[:, None], amounts[:, None])
        self.make(rows, columns, amounts, Moments(*(part[:, 0] for part in moments)))

    @abstractmethod
    def copy(self) -> Self:
        """Return a copy that can be changed independently."""

    @abstractmethod
    def take_over(self, other: Self, chains: Tensor) -> None:
        """Take over the graphs of a changed copy, for the chains with the given indices."""


class RecomputedChanges(EdgeChanges):
    """The answers of any filter, by filtering the signals anew with every changed graph."""

    def __init__(
        self,
        filter: GraphFilter,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None,
    ):
        self._filter = filter
        self._adjacency = adjacency.clone()
        self._theta = theta
        self._signals = signals
        self._measured = measured
        self._targets = self._seen(targets).double()
        n_numbers = signals.numel() * filter.n_parameters()
        self.n_numbers = n_numbers if filter.linear_in_theta else max(n_numbers, adjacency.shape[-1] ** 2)
        if filter.linear_in_theta:
            self.moments = self._of_designs(filter.design(adjacency, signals))
        else:
            self.moments = self._of_outputs(filter.apply(adjacency, theta, signals))

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        if self._filter.linear_in_theta:
            return self._of_designs(
                self._filter.changed_designs(self._adjacency, self._signals, rows, columns, amounts)
            )
        return self._of_outputs(self._outputs_after(rows, columns, amounts, self._theta))

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        before = self._filter.apply(self._adjacency, theta, self._signals)[:, None]
        if self._filter.linear_in_theta:
            designs = self._filter.changed_designs(self._adjacency, self._signals, rows, columns, amounts)
            return torch.einsum("cfpkn,cp->cfkn", designs, theta) - before
        return self._outputs_after(rows, columns, amounts, theta) - before

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        chains = torch.arange(len(rows), device=rows.device)[:, None]
        self._adjacency[chains, rows, columns] += amounts[:, None].to(self._adjacency.dtype)
        self.moments = moments

    def copy(self) -> Self:
        other = copy.copy(self)
        other._adjacency = self._adjacency.clone()
        return other

    def take_over(self, other: Self, chains: Tensor) -> None:
        self._adjacency[chains] = other._adjacency[chains]
        parts = zip(self.moments, other.moments, strict=True)
        self.moments = Moments(*(mine.index_copy(0, chains, new[chains]) for mine, new in parts))

    def _outputs_after(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        graphs = changed_graphs(self._adjacency, rows, columns, amounts).flatten(0, 1)
        if not len(graphs):  # a filter of the user's need not know what to do with none
            return self._signals.new_zeros(*rows.shape[:2], *self._signals.shape)
        outputs = self._filter.apply(graphs, theta.repeat_interleave(rows.shape[1], 0), self._signals)
        return outputs.view(*rows.shape[:2], *outputs.shape[1:])

    def _of_designs(self, designs: Tensor) -> Moments:
        regressors = self._seen(designs).flatten(-2).double()  # (..., parameters, measurements)
        targets = self._targets.flatten(-2)
        if targets.dim() == 2 and regressors.dim() == 4:  # targets of each chain, for all of its changes
            targets = targets[:, None]
        cross = (regressors @ targets[..., None])[..., 0]
        squares = targets.square().sum(-1).expand(cross.shape[:-1])
        return Moments(squares, cross, regressors @ regressors.mT)

    def _of_outputs(self, outputs: Tensor) -> Moments:
        targets = self._targets[:, None] if self._targets.dim() == 3 and outputs.dim() == 4 else self._targets
        return Moments.of_residuals((targets - self._seen(outputs)).square().sum((-2, -1)))

    def _seen(self, values: Tensor) -> Tensor:
        return values if self._measured is None else values * self._measured


def nodes_of(rows: Tensor, columns: Tensor) -> Tensor:
    """The two nodes (..., 2) of pairs, from their entries (..., entries)."""
    return torch.stack([rows[..., 0], columns[..., 0]], -1)
