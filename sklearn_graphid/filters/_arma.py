"""Rational graph filters: autoregressive moving average on a graph."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from .._utils._numbers import check_integer, check_number
from ._base import GraphFilter, Linearization
from ._edge_changes import EdgeChanges, same_in_all_experiments
from ._polynomial import PolynomialFilter, _combine, krylov, polynomial_pullback
from ._tables import InverseChanges

__all__ = ["ARMAFilter"]


class ARMAFilter(GraphFilter):
    """Ratio of two polynomials of the adjacency matrix (autoregressive moving average filter).

    h(A) = (I + a_1 A + ... + a_p A^p)^(-1) (b_0 I + b_1 A + ... + b_q A^q).

    The inverse is exact: a linear system is solved for every chain. theta is `[b_0, ..., b_q, a_1, ..., a_p]`.

    Parameters
    ----------
    ar_order : int, default=1
        Order p of the denominator.
    ma_order : int, default=1
        Order q of the numerator.
    initial_scale : float, default=0.1
        Where a sampler starts theta at random, it draws every coefficient uniformly between minus and plus this value.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known, such as `{"b_1": 0.0}`; all others are identified.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import ARMAFilter
    >>> edge = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]], dtype=torch.float64)
    >>> theta = torch.tensor([[1.0, 0.5]], dtype=torch.float64)  # x + y's neighbour / 2 on the left-hand side
    >>> filtered = ARMAFilter(ar_order=1, ma_order=0).apply(edge, theta, torch.tensor([[3.0, 0.0]]).double())
    >>> [round(value, 6) for value in filtered.flatten().tolist()]
    [4.0, -2.0]
    """

    needs_autograd = False

    def __init__(
        self,
        ar_order: int = 1,
        ma_order: int = 1,
        initial_scale: float = 0.1,
        fixed: Mapping[str, float] | None = None,
    ):
        self.ar_order = ar_order
        self.ma_order = ma_order
        self.initial_scale = initial_scale
        self.fixed = fixed

    def check(self) -> None:
        check_integer(self.ar_order, "ARMAFilter got ar_order", low=1)
        check_integer(self.ma_order, "ARMAFilter got ma_order", low=0)
        check_number(self.initial_scale, "ARMAFilter got initial_scale", positive=True)

    def parameter_names(self) -> list[str]:
        moving_average = [f"b_{power}" for power in range(self.ma_order + 1)]
        return moving_average + [f"a_{power}" for power in range(1, self.ar_order + 1)]

    def initial_range(self) -> list[tuple[float, float]]:
        return [(-float(self.initial_scale), float(self.initial_scale))] * self.n_parameters()

    def powers_of_unit(self) -> list[float] | None:
        return [-float(power) for powers in (range(self.ma_order + 1), range(1, self.ar_order + 1)) for power in powers]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        numerator, denominator = self._split(theta)
        driven = _combine(krylov(adjacency, signals, self.ma_order), numerator)
        return _solve(self._denominator_matrix(adjacency, denominator), driven)

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        numerator, denominator = self._split(theta)
        shifted_inputs = krylov(adjacency, signals, self.ma_order)
        matrix = self._denominator_matrix(adjacency, denominator)
        outputs = _solve(matrix, _combine(shifted_inputs, numerator))
        shifted_outputs = krylov(adjacency, outputs, self.ar_order)

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            # With y = Q^-1 P x: dy = Q^-1 (dP x - dQ y), two polynomial derivatives seen from u = Q^-T r.
            adjoint = _solve(matrix.mT, cotangent)
            gradient = polynomial_pullback(adjacency, numerator, shifted_inputs, adjoint)
            gradient = gradient - polynomial_pullback(adjacency, denominator, shifted_outputs, adjoint)
            parts = [(adjoint * s).sum((-2, -1)) for s in shifted_inputs]
            parts += [-(adjoint * s).sum((-2, -1)) for s in shifted_outputs[1:]]
            return gradient, torch.stack(parts, dim=-1)

        return Linearization(outputs, pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        numerator, denominator = self._split(theta)
        shifted_inputs = krylov(adjacency, signals, self.ma_order)
        matrix = self._denominator_matrix(adjacency, denominator)
        outputs = _solve(matrix, _combine(shifted_inputs, numerator))
        shifted_outputs = krylov(adjacency, outputs, self.ar_order)
        columns = [_solve(matrix, s) for s in shifted_inputs] + [-_solve(matrix, s) for s in shifted_outputs[1:]]
        return outputs, torch.stack(columns, dim=-1)

    def n_coefficients(self) -> int:
        return self.ma_order + 1

    def backwards(self) -> GraphFilter | None:
        # With no moving average, the inputs are a polynomial of the outputs: b x = y + a_1 A y + ...
        return PolynomialFilter(self.ar_order) if self.ma_order == 0 and not self.fixed else None

    def theta_of_backwards(self, theta: Tensor) -> Tensor:
        return torch.cat([torch.ones_like(theta[:, :1]), theta[:, 1:]], 1) / theta[:, :1]

    def edge_changes(
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        of_nodes = None if measured is None else same_in_all_experiments(measured)
        if (self.ar_order, self.ma_order) != (1, 0) or (measured is not None and of_nodes is None):
            return super().edge_changes(adjacency, theta, signals, targets, measured, directed)
        _, denominator = self._split(theta.double())
        inverse = torch.linalg.inv_ex(self._denominator_matrix(adjacency.double(), denominator)).inverse
        return InverseChanges(inverse, denominator[:, 1], signals, targets, of_nodes, directed=directed)

    def _split(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        numerator = theta[:, : self.ma_order + 1]
        one = torch.ones_like(theta[:, :1])
        return numerator, torch.cat([one, theta[:, self.ma_order + 1 :]], dim=1)

    def _denominator_matrix(self, adjacency: Tensor, coefficients: Tensor) -> Tensor:
        identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
        matrix = coefficients[:, -1, None, None] * identity
        for power in range(self.ar_order - 1, -1, -1):
            matrix = matrix @ adjacency + coefficients[:, power, None, None] * identity
        return matrix


def _solve(matrix: Tensor, signals: Tensor) -> Tensor:
    # Signals are rows, the system is M y = w for columns. solve_ex leaves a singular chain at inf or nan, where the
    # sampler finds it and drops it, instead of stopping every other chain of the batch.
    solution: Tensor = torch.linalg.solve_ex(matrix, signals.mT).result
    return solution.mT
