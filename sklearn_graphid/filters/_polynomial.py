"""Polynomial graph filters, and the matrix polynomials that other filters are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray, check_integer, check_number
from ._base import GraphFilter, Linearization
from ._edge_changes import EdgeChanges, EdgeDerivatives, Moments, NodeDerivatives, nodes_of
from ._tables import (
    ONCE,
    POLYNOMIAL,
    SIGNALS,
    TARGETS,
    TWICE,
    TableChanges,
    as_arrays,
    polynomial_outputs,
)

__all__ = [
    "SHIFTS",
    "PolynomialChanges",
    "PolynomialFilter",
    "combinatorial_laplacian",
    "krylov",
    "normalized_laplacian",
    "polynomial_pullback",
]


def _adjacency(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    def pullback(gradient: Tensor) -> Tensor:
        return gradient

    return adjacency, pullback


def combinatorial_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """D - A, and the gradient with respect to A that follows from one with respect to it."""

    def pullback(gradient: Tensor) -> Tensor:
        return gradient.diagonal(dim1=-2, dim2=-1)[..., None] - gradient

    return torch.diag_embed(adjacency.sum(-1)) - adjacency, pullback


def normalized_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """I - D^(-1/2) A D^(-1/2), and the same for it."""
    # A degree below one counts as one. On a graph that changes only the nodes without edges, which so get a zero
    # row and keep their heat; on the soft matrices of a sampler it keeps the division from blowing up.
    degree = adjacency.sum(-1)
    floored = degree.clamp_min(1.0)
    scale = floored.rsqrt()
    scaled = scale[..., :, None] * adjacency * scale[..., None, :]

    def pullback(gradient: Tensor) -> Tensor:
        direct = -scale[..., :, None] * gradient * scale[..., None, :]
        weighted = gradient * adjacency
        both_ways = (weighted + weighted.mT) @ scale[..., None]
        through_scale = 0.5 * both_ways[..., 0] * scale / floored * (degree > 1)
        through_diagonal = gradient.diagonal(dim1=-2, dim2=-1) * (degree < 1)
        return direct + (through_scale + through_diagonal)[..., :, None]

    return torch.diag_embed(degree / floored) - scaled, pullback


SHIFTS = {
    "adjacency": _adjacency,
    "laplacian": combinatorial_laplacian,
    "normalized-laplacian": normalized_laplacian,
}


class PolynomialChanges(TableChanges):
    """Moments of graphs under a polynomial of their shift.

    Parameters
    ----------
    shift : Tensor (chains, nodes, nodes)
        What the filter is a polynomial of.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs that were all measured; the latter may have an axis of chains before these.
    order : int
        Of the polynomial, at most 2.
    is_laplacian, directed : bool
        Whether the shift is the Laplacian of the graph, and whether changes are of one entry.
    """

    def __init__(self, shift: Tensor, signals: Tensor, targets: Tensor, order: int, is_laplacian: bool, directed: bool):
        self._order, self._is_laplacian = order, is_laplacian
        transposed, of_chains = shift.mT.double(), (len(shift), *signals.shape)
        vectors = [signals.double().expand(of_chains), targets.double().expand(of_chains)]
        for _ in range(max(order, 1)):
            vectors.append((vectors[-1] if len(vectors) > 2 else vectors[0]) @ transposed)
        if order == 2:
            vectors += [vector @ transposed.mT for vector in vectors]
        table = torch.stack(vectors, 1)  # (chains, n, experiments, nodes)
        regressors = table[:, [SIGNALS, ONCE, TWICE][: order + 1]].flatten(2)
        cross = (regressors @ table[:, TARGETS].flatten(1)[..., None])[..., 0]
        squares = targets.double().square().sum((-2, -1)).expand(len(shift))
        super().__init__(
            POLYNOMIAL,
            moments=Moments(squares, cross, regressors @ regressors.mT),
            vectors=table.permute(0, 3, 1, 2),  # node by node: what is wanted of one node lies together
            matrix=transposed,
            left_differs=is_laplacian,
            directed=directed,
        )

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        coefficients = torch.nn.functional.pad(theta.double(), (0, 2))[:, 1:3]
        outputs = np.empty((*rows.shape[:2], *self._vectors.shape[:0:-2]))
        polynomial_outputs(
            self.tables, *as_arrays(rows[..., 0], columns[..., 0], amounts.double(), coefficients), outputs
        )
        return self._tensor(outputs).to(theta.dtype)

    def derivatives(self, rows: Tensor, columns: Tensor, theta: Tensor, probe: Tensor) -> EdgeDerivatives:
        if self._order != 1:
            return super().derivatives(rows, columns, theta, probe)
        nodes = nodes_of(rows, columns)
        signals = self._of_nodes(self._vectors[:, :, SIGNALS], nodes)
        first = self._change(rows, torch.ones_like(nodes[..., 0])).mT @ signals
        values = theta.double()[:, 1, None, None, None] * first
        if rows.shape[-1] == 1:  # of an ordered pair, the outputs of the first node change
            values, nodes = values[:, :, :1], nodes[..., :1]
        return NodeDerivatives(values.to(theta.dtype), nodes)

    def _change(self, rows: Tensor, amounts: Tensor) -> Tensor:
        """M (..., 2, 2)."""
        change = amounts.new_zeros(*amounts.shape, 2, 2, dtype=torch.float64)
        entry, both_ways = (-amounts if self._is_laplacian else amounts), rows.shape[-1] == 2
        change[..., 1, 0] = entry
        if both_ways:
            change[..., 0, 1] = entry
        if self._is_laplacian:
            change[..., 0, 0] = amounts
            change[..., 1, 1] = amounts if both_ways else 0
        return change

    def _of_nodes(self, table: FloatArray, nodes: Tensor) -> Tensor:
        chains = torch.arange(len(nodes), device=nodes.device)[:, None, None]
        return self._tensor(table)[chains, nodes]

    def _products(self) -> FloatArray:
        return self._matrix @ self._matrix.transpose(0, 2, 1) if self._order == 2 else self._matrix[:, :0]


def krylov(adjacency: Tensor, signals: Tensor, order: int) -> list[Tensor]:
    """The signals times A^0, A^1 .. A^order, each (chains, experiments, nodes); no power of A is ever formed."""
    shifted = [signals.expand(len(adjacency), *signals.shape[-2:])]
    transposed = adjacency.mT
    for _ in range(order):
        shifted.append(shifted[-1] @ transposed)
    return shifted


def polynomial_pullback(adjacency: Tensor, coefficients: Tensor, shifted: list[Tensor], cotangent: Tensor) -> Tensor:
    """Gradient with respect to A of <cotangent, sum_p c_p A^p x>, given the shifted signals A^j x.

    The derivative of A^p is the sum over j of A^(p-1-j) dA A^j. Collecting what stands left of A^j x gives
    u_j = sum over p > j of c_p (A^T)^(p-1-j) r, and u_j follows from u_(j+1) by one more product.
    """
    order = coefficients.shape[1] - 1
    gradient = torch.zeros_like(adjacency)
    left = torch.zeros_like(cotangent)
    for power in range(order - 1, -1, -1):
        left = coefficients[:, power + 1, None, None] * cotangent + left @ adjacency
        gradient = torch.baddbmm(gradient, left.mT, shifted[power])
    return gradient


class PolynomialFilter(GraphFilter):
    """A polynomial of the adjacency matrix, or of a Laplacian.

    h(A) = theta_0 I + theta_1 S + ... + theta_p S^p, where S is A itself unless another `shift` is chosen.

    Parameters
    ----------
    order : int, default=2
        The highest power p of S.
    initial_scale : float, default=0.1
        Where a sampler starts theta at random, it draws every coefficient uniformly between minus and plus this value.
    shift : {"adjacency", "laplacian", "normalized-laplacian"}, default="adjacency"
        S = A, S = D - A or S = I - D^(-1/2) A D^(-1/2), where D is the diagonal matrix of degrees. In a directed graph
        the degree of a node counts the edges that point to it, and "normalized-laplacian" is not defined.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known, such as `{"theta_0": 0.0}`; all others are identified.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import PolynomialFilter
    >>> path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    >>> theta = torch.tensor([[1.0, 10.0, 100.0]])
    >>> PolynomialFilter(order=2).apply(path, theta, torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[[101.,  10., 100.]]])
    """

    linear_in_theta = True
    needs_autograd = False

    def __init__(
        self,
        order: int = 2,
        initial_scale: float = 0.1,
        shift: str = "adjacency",
        fixed: Mapping[str, float] | None = None,
    ):
        self.order = order
        self.initial_scale = initial_scale
        self.shift = shift
        self.fixed = fixed

    def check(self) -> None:
        if not (isinstance(self.shift, str) and self.shift in SHIFTS):
            raise ValueError(f"PolynomialFilter got shift={self.shift!r}; expected one of {', '.join(SHIFTS)}.")
        check_integer(self.order, "PolynomialFilter got order", low=0)
        check_number(self.initial_scale, "PolynomialFilter got initial_scale", positive=True)

    def check_directed(self) -> None:
        if self.shift == "normalized-laplacian":
            raise ValueError(
                "PolynomialFilter got shift='normalized-laplacian', which is defined for undirected graphs only; "
                "expected 'adjacency' or 'laplacian' with directed=True."
            )

    def parameter_names(self) -> list[str]:
        return [f"theta_{power}" for power in range(self.order + 1)]

    def initial_range(self) -> list[tuple[float, float]]:
        return [(-float(self.initial_scale), float(self.initial_scale))] * (self.order + 1)

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        return _combine(krylov(self._shift(adjacency)[0], signals, self.order), theta)

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        shift, shift_pullback = self._shift(adjacency)
        shifted = krylov(shift, signals, self.order)

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            theta_gradient = torch.stack([(cotangent * s).sum((-2, -1)) for s in shifted], dim=-1)
            return shift_pullback(polynomial_pullback(shift, theta, shifted, cotangent)), theta_gradient

        return Linearization(_combine(shifted, theta), pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        shifted = krylov(self._shift(adjacency)[0], signals, self.order)
        return _combine(shifted, theta), torch.stack(shifted, dim=-1)

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        return torch.stack(krylov(self._shift(adjacency)[0], signals, self.order), dim=1)

    def edge_changes(
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        if self.order > 2 or self.shift == "normalized-laplacian" or measured is not None:
            return super().edge_changes(adjacency, theta, signals, targets, measured, directed)
        shift = self._shift(adjacency)[0]
        return PolynomialChanges(shift, signals, targets, self.order, self.shift == "laplacian", directed)

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        if self.shift == "normalized-laplacian":  # a change alters two degrees, and with them two rows and columns
            return super().changed_designs(adjacency, signals, rows, columns, amounts)
        # A change adds D to S, which has a few entries, so S^k x + e_k turns into S^(k+1) x + S e_k + D (S^k x + e_k):
        # no product with a changed matrix is needed, and S e_1 is made of a few columns of S.
        chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
        entries = self._changed_entries(rows, columns, amounts.to(adjacency.dtype)[..., None])
        shift = self._shift(adjacency)[0]
        transposed = shift.mT
        change: Tensor | None = None
        shifted: list[Tensor] = []
        for power, signal in enumerate(krylov(shift, signals, self.order)):
            changed = signal[:, None].expand(-1, rows.shape[1], -1, -1) if change is None else signal[:, None] + change
            shifted.append(changed)
            if power == self.order:
                break
            moved = [weight * _node(changed, column) for _, column, weight in entries]
            if change is None:
                change = torch.zeros_like(changed)
            elif power == 1:
                change = torch.zeros_like(changed)
                for row, column, weight in entries:
                    first = weight * _node(shifted[0], column)
                    change.addcmul_(first[..., None], transposed[chains, row][:, :, None])
            else:
                change = (change.flatten(1, 2) @ transposed).view_as(change)
            for (row, _, _), values in zip(entries, moved, strict=True):
                change.scatter_add_(-1, _column(row, values), values[..., None])
        return torch.stack(shifted, dim=2)

    def _shift(self, adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return SHIFTS[self.shift](adjacency)

    def _changed_entries(self, rows: Tensor, columns: Tensor, amount: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Rows, columns (chains, changes) and amounts (chains, changes, 1) by which entries of S change."""
        entries = list(zip(rows.unbind(-1), columns.unbind(-1), strict=True))
        if self.shift == "adjacency":
            return [(row, column, amount) for row, column in entries]
        # An entry of A is taken off the same entry of D - A, and added to the diagonal of its row.
        off_diagonal = [(row, column, -amount) for row, column in entries]
        return off_diagonal + [(row, row, amount) for row, _ in entries]


def _node(signals: Tensor, nodes: Tensor) -> Tensor:
    """What (chains, changes, experiments, nodes) hold at one node (chains, changes): (chains, changes, experiments)."""
    return signals.gather(-1, _column(nodes, signals[..., 0]))[..., 0]


def _column(nodes: Tensor, like: Tensor) -> Tensor:
    return nodes[..., None, None].expand(*like.shape, 1)


def _combine(shifted: list[Tensor], coefficients: Tensor) -> Tensor:
    weights = coefficients[:, :, None, None].unbind(1)
    combined = weights[0] * shifted[0]
    for weight, signal in zip(weights[1:], shifted[1:], strict=True):
        combined = torch.addcmul(combined, weight, signal)
    return combined
