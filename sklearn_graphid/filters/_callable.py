"""Filters that the user writes as a torch function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import check_flag
from ._base import GraphFilter

__all__ = ["CallableFilter"]


class CallableFilter(GraphFilter):
    """Graph filter defined by a torch function h(A, theta).

    Parameters
    ----------
    function : callable
        Takes the adjacency matrix (n_nodes, n_nodes) and theta (n_parameters,), both torch tensors, and returns the
        filter matrix (n_nodes, n_nodes), with the dtype and on the device of the adjacency matrix. It must be
        differentiable by torch. Use a module-level function rather than a lambda: it can be pickled, which parallel
        runs need.
    names : sequence of str, default=("theta",)
        A name for each parameter.
    limits : sequence of (low, high) pairs or None, default=None
        Lowest and highest admissible value of each parameter. If None, any value is admissible.
    initial : sequence of (low, high) pairs or None, default=None
        Where a sampler starts theta at random, it draws each parameter uniformly between these two. If None, they are
        (-0.1, 0.1). Either is clipped to `limits`.
    batched : bool, default=False
        Whether `function` takes a batch: arguments of shape (n_chains, n_nodes, n_nodes) and (n_chains, n_parameters).
        If False, it is vectorised with `torch.vmap`.
    linear_in_theta : bool, default=False
        Whether the filter matrix is linear in theta without a constant term, so that h(A, 0) = 0. Samplers then
        integrate theta out, which is faster and mixes better. The claim is checked on a small graph. It cannot be
        combined with `limits`.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known, such as `{"decay": 0.2}`; all others are identified.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import CallableFilter
    >>> def resolvent(adjacency, theta):
    ...     return torch.linalg.inv(torch.eye(len(adjacency)) - theta[0] * adjacency)
    >>> filter = CallableFilter(resolvent, names=("decay",), limits=((0.0, 0.3),))
    >>> edge = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> filter.apply(edge, torch.tensor([[0.0]]), torch.tensor([[1.0, 2.0]]))
    tensor([[[1., 2.]]])
    """

    def __init__(
        self,
        function: Callable[[Tensor, Tensor], Tensor],
        names: Sequence[str] = ("theta",),
        limits: Sequence[tuple[float, float]] | None = None,
        initial: Sequence[tuple[float, float]] | None = None,
        batched: bool = False,
        linear_in_theta: bool = False,
        fixed: Mapping[str, float] | None = None,
    ):
        self.function = function
        self.names = names
        self.limits = limits
        self.initial = initial
        self.batched = batched
        self.linear_in_theta = linear_in_theta
        self.fixed = fixed

    def check(self) -> None:
        if not callable(self.function):
            raise TypeError(f"CallableFilter got function={self.function!r}; expected a function h(A, theta).")
        if not _is_list(self.names) or not len(self.names) or not all(isinstance(name, str) for name in self.names):
            raise ValueError(
                f"CallableFilter got names={self.names!r}; expected a list or tuple of str, one for each parameter."
            )
        check_flag(self.batched, "CallableFilter got batched")
        if self.limits is not None:
            _check_ranges(self.limits, "limits", len(self.names))
        if self.initial is not None:
            _check_ranges(self.initial, "initial", len(self.names))
            for low, high in self.initial:
                if not (math.isfinite(low) and math.isfinite(high)):
                    raise ValueError(f"CallableFilter got initial ({low}, {high}); expected finite numbers.")
        check_flag(self.linear_in_theta, "CallableFilter got linear_in_theta")
        if self.linear_in_theta:
            self._check_linearity()

    def _check_linearity(self) -> None:
        """Compare h at a sum of two thetas with the sum of h at each, on a triangle with a tail."""
        if self.limits is not None:
            raise ValueError(
                "CallableFilter got limits and linear_in_theta=True, which exclude each other; expected limits=None "
                "or linear_in_theta=False."
            )
        graph = torch.zeros(2, 4, 4, dtype=torch.float64)
        for row, column in ((0, 1), (1, 2), (0, 2), (2, 3)):
            graph[:, row, column] = graph[:, column, row] = 1.0
        theta = torch.linspace(0.1, 0.9, 2 * len(self.names), dtype=torch.float64).view(2, -1)
        signals = torch.eye(4, dtype=torch.float64)
        parts = self.apply(graph, theta, signals)
        whole = self.apply(graph, theta.sum(0, keepdim=True).expand_as(theta), signals)[0]
        if not torch.allclose(parts.sum(0), whole, rtol=1e-6, atol=1e-9 + 1e-6 * float(whole.abs().max())):
            raise ValueError(
                "CallableFilter got linear_in_theta=True, but on a graph of four nodes h(A, a + b) differs from "
                "h(A, a) + h(A, b); expected a function that is linear in theta, or linear_in_theta=False."
            )

    def parameter_names(self) -> list[str]:
        return list(self.names)

    def bounds(self) -> list[tuple[float, float]]:
        return super().bounds() if self.limits is None else [(float(a), float(b)) for a, b in self.limits]

    def initial_range(self) -> list[tuple[float, float]]:
        start = (
            [(-0.1, 0.1)] * len(self.names) if self.initial is None else [(float(a), float(b)) for a, b in self.initial]
        )
        low_high = torch.tensor(start, dtype=torch.float64)
        limits = torch.tensor(self.bounds(), dtype=torch.float64)
        clipped = low_high.clamp(limits[:, :1], limits[:, 1:])
        return [(float(a), float(b)) for a, b in clipped]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        if not len(adjacency):  # nothing to filter with, and no first graph for the function to look at
            return signals.new_zeros(0, *signals.shape[-2:])
        function = self._filter_matrix if self.batched else torch.vmap(self._filter_matrix)
        matrix = function(adjacency, theta)
        if matrix.shape != adjacency.shape:
            raise ValueError(
                f"the function of CallableFilter returned shape {tuple(matrix.shape)} for adjacency matrices of shape "
                f"{tuple(adjacency.shape)}; expected one filter matrix for each, of the same shape."
            )
        return signals @ matrix.mT

    def _filter_matrix(self, adjacency: Tensor, theta: Tensor) -> Tensor:
        """Call the function, and check that it returns a tensor that the signals can be multiplied by."""
        try:
            matrix = self.function(adjacency, theta)
        except Exception as error:
            error.add_note(self._note())
            raise
        if not isinstance(matrix, Tensor):
            raise TypeError(
                f"the function of CallableFilter returned a {type(matrix).__name__}; expected a torch tensor."
            )
        for name in ("dtype", "device"):
            came, expected = getattr(matrix, name), getattr(adjacency, name)
            if came != expected:
                raise TypeError(
                    f"the function of CallableFilter returned a tensor of {name} {came}; expected {expected}, that of "
                    f"the adjacency matrix."
                )
        return matrix

    def _note(self) -> str:
        note = (
            f"This error was raised by the function of CallableFilter, "
            f"{getattr(self.function, '__name__', repr(self.function))!r}."
        )
        if self.batched:
            return note
        return note + (
            " It ran under torch.vmap, which does not allow a function to read values or to branch on them; if that is "
            "the cause, rewrite it for a batch of matrices and set batched=True."
        )


def _is_list(values: Any) -> bool:
    if isinstance(values, np.ndarray):
        return values.ndim > 0
    return isinstance(values, Sequence) and not isinstance(values, str | bytes)


def _check_ranges(ranges: Any, argument: str, n_names: int) -> None:
    """Raise ValueError unless there is one (low, high) for each name; infinite ends are allowed here."""
    expected = "expected two numbers (low, high) for each name."
    if not _is_list(ranges):
        raise ValueError(f"CallableFilter got {argument}={ranges!r}; {expected}")
    if len(ranges) != n_names:
        raise ValueError(f"CallableFilter got {len(ranges)} {argument} for {n_names} names; expected one each.")
    for ends in ranges:
        if not (_is_list(ends) and len(ends) == 2 and all(map(_is_number, ends))):
            raise ValueError(f"CallableFilter got {argument}={ranges!r}; {expected}")
        low, high = ends
        if not low <= high:
            raise ValueError(f"CallableFilter got {argument} ({low}, {high}); expected low <= high.")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)
