"""Any filter the user can write in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ._base import GraphFilter

__all__ = ["CallableFilter"]


class CallableFilter(GraphFilter):
    """A graph filter given by a torch function h(A, theta).

    Parameters
    ----------
    function : callable
        Takes the adjacency matrix (n_nodes, n_nodes) and theta (n_parameters,), both torch tensors, and returns the
        filter matrix (n_nodes, n_nodes). It must be differentiable by torch. A module-level function (not a lambda)
        keeps the filter picklable, which parallel runs need.
    names : sequence of str, default=("theta",)
        A name for each parameter.
    limits : sequence of (low, high) pairs or None, default=None
        Admissible values of each parameter. None: any.
    initial : sequence of (low, high) pairs or None, default=None
        theta starts at a uniform draw between the two, where the sampler starts it at random. None: (-0.1, 0.1).
    batched : bool, default=False
        Whether `function` takes a batch, (n_chains, n_nodes, n_nodes) and (n_chains, n_parameters). False: it is
        vectorised with `torch.vmap`.

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
    ):
        self.function = function
        self.names = names
        self.limits = limits
        self.initial = initial
        self.batched = batched

    def check(self) -> None:
        if not callable(self.function):
            raise TypeError(f"CallableFilter got function={self.function!r}; expected a function h(A, theta).")
        if isinstance(self.names, str) or not len(self.names):
            raise ValueError(f"CallableFilter got names={self.names!r}; expected a name for each parameter.")
        for argument in ("limits", "initial"):
            ranges = getattr(self, argument)
            if ranges is None:
                continue
            if len(ranges) != len(self.names):
                raise ValueError(
                    f"CallableFilter got {len(ranges)} {argument} for {len(self.names)} names; expected one each."
                )
            for low, high in ranges:
                if not low <= high:
                    raise ValueError(f"CallableFilter got {argument} ({low}, {high}); expected low <= high.")

    def parameter_names(self) -> list[str]:
        return list(self.names)

    def bounds(self) -> list[tuple[float, float]]:
        return super().bounds() if self.limits is None else [(float(a), float(b)) for a, b in self.limits]

    def initial_range(self) -> list[tuple[float, float]]:
        if self.initial is not None:
            return [(float(a), float(b)) for a, b in self.initial]
        low_high = torch.tensor([(-0.1, 0.1)] * len(self.names), dtype=torch.float64)
        limits = torch.tensor(self.bounds(), dtype=torch.float64)
        clipped = low_high.clamp(limits[:, :1], limits[:, 1:])
        return [(float(a), float(b)) for a, b in clipped]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        function = self.function if self.batched else torch.vmap(self.function)
        matrix = function(adjacency, theta)
        if matrix.shape != adjacency.shape:
            raise ValueError(
                f"the function of CallableFilter returned shape {tuple(matrix.shape)} for adjacency matrices of shape "
                f"{tuple(adjacency.shape)}; expected a filter matrix for each, of the same shape."
            )
        return signals @ matrix.mT
